// Package cpio writes archives of the "new ASCII" format. The kernel unpacks such an archive into
// its first root file system (Documentation/driver-api/early-userspace/buffer-format.rst, cpio(5)).
//
// The journey: a Writer gets folders, files and links, each after the folder that it is in. For
// each it writes a header of 110 bytes in hexadecimal, the name, and the content. After the name
// and after the content it pads the archive to a multiple of four bytes. Close writes the trailer.
// All entries belong to root and have no time, so the same content gives the same archive.
//
// A Writer is for one goroutine.
package cpio

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// trailer is the name of the entry that ends an archive.
const trailer = "TRAILER!!!"

// ErrName reports a name that the kernel would not unpack, or would unpack elsewhere.
var ErrName = errors.New("not a name for an archive")

// Writer writes an archive. After the first error every call returns that error.
type Writer struct {
	to     io.Writer
	at     int64
	number uint32 // of the entry; its inode
	err    error
}

// NewWriter returns a Writer to an io.Writer, which should be buffered.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Folder writes a folder, mode 755.
func (w *Writer) Folder(name string) error { return w.entry(name, unix.S_IFDIR|0o755, nil) }

// File writes a file with permissions, at most 4 GiB of it.
func (w *Writer) File(name string, perm fs.FileMode, data []byte) error {
	return w.entry(name, unix.S_IFREG|uint32(perm.Perm()), data)
}

// Link writes a symbolic link to a target.
func (w *Writer) Link(name, target string) error {
	return w.entry(name, unix.S_IFLNK|0o777, []byte(target))
}

// Device writes a character device, mode 600.
func (w *Writer) Device(name string, major, minor uint32) error {
	return w.write(name, unix.S_IFCHR|0o600, nil, major, minor)
}

// Close ends the archive. It does not close the io.Writer.
func (w *Writer) Close() error {
	if w.err != nil {
		return w.err
	}
	w.number = 0
	return w.put(trailer, 0, nil, 0, 0)
}

func (w *Writer) entry(name string, mode uint32, data []byte) error {
	return w.write(name, mode, data, 0, 0)
}

// write checks an entry and writes it.
func (w *Writer) write(name string, mode uint32, data []byte, major, minor uint32) error {
	switch {
	case w.err != nil:
		return w.err
	case name == "" || name == "." || name == trailer || path.Clean("/"+name) != "/"+name ||
		strings.ContainsRune(name, 0) || len(name) >= unix.PathMax:
		return fmt.Errorf("%q: %w; use a path below the root, such as bin/sh", name, ErrName)
	case uint64(len(data)) > math.MaxUint32:
		return fmt.Errorf("%s: %w: %d bytes; the format has room for 4 GiB", name, fs.ErrInvalid, len(data))
	}
	w.number++
	return w.put(name, mode, data, major, minor)
}

// put writes header, name and bytes.
func (w *Writer) put(name string, mode uint32, data []byte, major, minor uint32) error {
	links := 1
	if mode&unix.S_IFMT == unix.S_IFDIR {
		links = 2
	}
	// ino, mode, uid, gid, nlink, mtime, filesize, the device that it is on, the device that it is,
	// namesize with its zero, check.
	w.string(fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		w.number, mode, 0, 0, links, 0, len(data), 0, 0, major, minor, len(name)+1, 0))
	w.string(name + "\x00")
	w.fill()
	w.bytes(data)
	w.fill()
	return w.err
}

func (w *Writer) string(s string) { w.bytes([]byte(s)) }

func (w *Writer) bytes(b []byte) {
	if w.err != nil {
		return
	}
	n, err := w.to.Write(b)
	w.at += int64(n)
	if err != nil {
		w.err = fmt.Errorf("writing an archive: %w", err)
	}
}

// fill writes zeros up to a multiple of four.
func (w *Writer) fill() { w.bytes(make([]byte, -w.at&3)) }
