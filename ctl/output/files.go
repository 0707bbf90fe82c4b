package output

// This file has the files that a command writes. They are opened before the work, so that it is not
// done in vain. They are written as a whole or not at all.

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// Files are the files of a command. Each is written under another name in its folder, and moved to
// its place by Commit. So a full disk or Ctrl-C leaves the earlier file as it was. A place that is
// no ordinary file, such as /dev/stdout or a pipe, is written to directly.
type Files struct{ files []*file }

type file struct {
	name    string
	buffer  *bufio.Writer
	pending *renameio.PendingFile // nil: direct is used
	direct  *os.File
}

// Create opens a file for later results, or returns why it cannot be written.
func (o *Files) Create(name string) (io.Writer, error) {
	f := &file{name: name}
	place, err := filepath.EvalSymlinks(name) // what a link names is replaced, not the link
	if err != nil {
		place = name // it is not there yet
	}
	var to io.Writer
	switch info, err := os.Stat(place); {
	case err == nil && info.IsDir():
		return nil, fmt.Errorf("creating %s: it is a folder; name a file", name)
	case err == nil && !info.Mode().IsRegular():
		if f.direct, err = os.OpenFile(place, os.O_WRONLY, 0); err != nil {
			return nil, fmt.Errorf("creating output: %w", err)
		}
		to = f.direct
	default:
		f.pending, err = renameio.NewPendingFile(place, renameio.WithTempDir(filepath.Dir(place)),
			renameio.WithPermissions(0o644), renameio.WithExistingPermissions())
		if err != nil {
			return nil, fmt.Errorf("creating %s: %w", name, err)
		}
		to = f.pending
	}
	f.buffer = bufio.NewWriterSize(to, 1<<16)
	o.files = append(o.files, f)
	return f.buffer, nil
}

// Commit writes out buffered data and puts the files in their places. If a file cannot be written
// whole, it and those after it are not put in place.
func (o *Files) Commit() error {
	for len(o.files) > 0 {
		f := o.files[0]
		err := f.buffer.Flush()
		switch {
		case f.direct != nil:
			err = errors.Join(err, f.direct.Close())
		case err == nil:
			err = f.pending.CloseAtomicallyReplace()
		}
		if err != nil {
			return fmt.Errorf("writing %s: %w", f.name, err)
		}
		o.files = o.files[1:]
	}
	return nil
}

// Discard gives up the files that Commit has not put in their places. A caller of Create defers it.
func (o *Files) Discard() {
	for _, f := range o.files {
		if f.pending != nil {
			_ = f.pending.Cleanup() // there is an error already, or there was none to tell
		} else {
			_ = f.direct.Close()
		}
	}
	o.files = nil
}
