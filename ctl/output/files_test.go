package output

// This file tests the files that commands write: there whole or not at all, and tried before the
// work.

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is written appears with commit, with the mode and through the link that were there; discard
// leaves what was there before.
func TestOutputs(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	if err := os.WriteFile(real, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	for _, keep := range []bool{false, true} {
		var o Files
		for _, name := range []string{link, filepath.Join(dir, "new")} {
			w, err := o.Create(name)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(w, "after")
		}
		want := "before"
		if keep {
			want = "after"
			if err := o.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		o.Discard()
		if got, err := os.ReadFile(real); err != nil || string(got) != want {
			t.Errorf("kept %v: the file has %q, %v", keep, got, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "new")); (err == nil) != keep {
			t.Errorf("kept %v: the new file: %v", keep, err)
		}
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v, %v", info, err)
	}
	if info, err := os.Stat(real); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode: %v, %v", info.Mode(), err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 3 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A device stays a device, and what could not be written to it is an error.
func TestOutputsToDevice(t *testing.T) {
	var o Files
	defer o.Discard()
	w, err := o.Create("/dev/full")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(w, "x")
	if err := o.Commit(); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Error(err)
	}
	if info, err := os.Stat("/dev/full"); err != nil || info.Mode()&os.ModeDevice == 0 {
		t.Errorf("/dev/full: %v, %v", info, err)
	}
	for _, name := range []string{t.TempDir(), "/no/such/folder/x"} {
		if _, err := o.Create(name); err == nil {
			t.Errorf("%s can be created", name)
		}
	}
}
