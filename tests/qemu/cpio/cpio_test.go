package cpio

// This file states the format's rules (cpio(5), "New ASCII Format"; buffer-format.rst of the
// kernel).

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// entry is an entry as a reader finds it.
type entry struct {
	Name         string
	Mode         uint32
	Data         string
	Major, Minor uint32
}

// read is the format as documented, and fails where bytes are not what it says.
func read(b []byte) (all []entry, err error) {
	inodes := map[uint64]bool{}
	for at := 0; ; {
		if len(b) < at+110 || string(b[at:at+6]) != "070701" {
			return all, fmt.Errorf("no header at %d", at)
		}
		var f [13]uint64
		for i := range f {
			if f[i], err = strconv.ParseUint(string(b[at+6+8*i:at+14+8*i]), 16, 32); err != nil {
				return all, err
			}
		}
		at += 110
		name := string(b[at : at+int(f[11])])
		if !strings.HasSuffix(name, "\x00") {
			return all, fmt.Errorf("%q does not end with a zero", name)
		}
		at = (at + int(f[11]) + 3) &^ 3
		data := string(b[at : at+int(f[6])])
		at = (at + int(f[6]) + 3) &^ 3
		if name = name[:len(name)-1]; name == trailer {
			if at != len(b) {
				return all, fmt.Errorf("%d bytes after the trailer", len(b)-at)
			}
			return all, nil
		}
		if inodes[f[0]] {
			return all, fmt.Errorf("%s: inode %d twice, which makes it a hard link", name, f[0])
		}
		inodes[f[0]] = true
		all = append(all, entry{name, uint32(f[1]), data, uint32(f[9]), uint32(f[10])})
	}
}

// A reader finds what was written, whatever the lengths of names and files.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b bytes.Buffer
		w := NewWriter(&b)
		var want []entry
		for range rapid.IntRange(0, 8).Draw(t, "entries") {
			name := rapid.StringMatching(`[a-z.]{1,9}x(/[a-z0-9]{1,7}){0,3}`).Draw(t, "name")
			data := rapid.SliceOfN(rapid.Byte(), 0, 99).Draw(t, "data")
			var err error
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				err = w.Folder(name)
				want = append(want, entry{name, unix.S_IFDIR | 0o755, "", 0, 0})
			case 1:
				err = w.File(name, 0o640, data)
				want = append(want, entry{name, unix.S_IFREG | 0o640, string(data), 0, 0})
			case 2:
				err = w.Link(name, "/"+name)
				want = append(want, entry{name, unix.S_IFLNK | 0o777, "/" + name, 0, 0})
			case 3:
				err = w.Device(name, 5, 1)
				want = append(want, entry{name, unix.S_IFCHR | 0o600, "", 5, 1})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		got, err := read(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
	})
}

// A name that the kernel would put elsewhere, or that ends the archive, is refused, and the archive
// stays whole.
func TestNamesRefused(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, name := range []string{"", ".", "/bin/sh", "bin//sh", "bin/", "../bin", "bin/../../x", "a\x00b", trailer,
		strings.Repeat("a", unix.PathMax)} {
		if err := w.File(name, 0o644, nil); !errors.Is(err, ErrName) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := errors.Join(w.File("good", 0o644, nil), w.Close()); err != nil {
		t.Fatal(err)
	}
	if all, err := read(b.Bytes()); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

// full takes some bytes and no more.
type full struct{ room int }

func (f *full) Write(b []byte) (int, error) {
	n := min(len(b), f.room)
	f.room -= n
	if n < len(b) {
		return n, fs.ErrInvalid
	}
	return n, nil
}

// A write that failed is not forgotten by a later one that would succeed: an archive is whole or an
// error.
func TestErrorsStay(t *testing.T) {
	write := func(to io.Writer) error {
		w := NewWriter(to)
		_ = w.File("one", 0o644, []byte("four"))
		return w.Close()
	}
	var whole bytes.Buffer
	if err := write(&whole); err != nil {
		t.Fatal(err)
	}
	for room := range whole.Len() + 9 {
		if err := write(&full{room}); (err != nil) != (room < whole.Len()) {
			t.Fatalf("room for %d bytes: %v", room, err)
		}
	}
}
