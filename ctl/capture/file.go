package capture

// This file is the output of a capture: a pipe, or a file that ends with a whole block in any case.

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// File buffers blocks until Flush. It is a Writer's io.Writer, and fails in Flush only.
type File struct {
	f       *os.File
	name    string
	buffer  []byte
	start   int64 // offset in the file where the capture begins
	flushed int64 // bytes written so far
	pipe    bool
}

// Create makes a file that only its owner may read, because frames contain other users' data. It
// can also open a pipe or device. "-" is standard output.
func Create(name string) (*File, error) {
	if name == "-" {
		f := &File{f: os.Stdout, name: "standard output", pipe: !regular(os.Stdout)}
		if !f.pipe { // the shell may have opened it to append
			at, err := f.f.Seek(0, io.SeekEnd)
			if err != nil {
				return nil, fmt.Errorf("creating a capture: %w", err)
			}
			f.start = at
		}
		return f, nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("creating a capture: %w", err)
	}
	return &File{f: f, name: name, pipe: !regular(f)}, nil
}

func regular(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

// Write buffers bytes of a block.
func (f *File) Write(b []byte) (int, error) {
	f.buffer = append(f.buffer, b...)
	return len(b), nil
}

// Buffered returns the number of bytes that wait for Flush.
func (f *File) Buffered() int { return len(f.buffer) }

// Flush writes the buffered bytes, which must be whole blocks. If that fails, the file keeps the
// blocks of earlier flushes and nothing more.
func (f *File) Flush() error {
	if len(f.buffer) == 0 {
		return nil
	}
	n, err := f.f.Write(f.buffer)
	f.buffer = f.buffer[:0]
	if err == nil {
		f.flushed += int64(n)
		return nil
	}
	if !f.pipe {
		err = errors.Join(err, f.f.Truncate(f.start+f.flushed)) // part of a block
	}
	return fmt.Errorf("writing %s: %w; %d bytes are there", f.name, err, f.flushed)
}

// Close flushes and closes.
func (f *File) Close() error {
	err := f.Flush()
	if f.f == os.Stdout {
		return err
	}
	if e := f.f.Close(); e != nil && err == nil {
		err = fmt.Errorf("writing %s: %w", f.name, e)
	}
	return err
}
