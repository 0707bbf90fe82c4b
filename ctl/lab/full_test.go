package lab

// This file tests labs whose state cannot be written: the disk is full.

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// A lab that cannot be published because the disk is full is removed again, and so is one that is
// up when it fills.
func TestFullDisk(t *testing.T) {
	was := stateDir
	stateDir = t.TempDir()
	t.Cleanup(func() { stateDir = was })
	// A page for the state of one lab, and none for the file that is to replace it.
	if err := unix.Mount("tmpfs", stateDir, "tmpfs", 0, "size=4096"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(stateDir, 0); err != nil {
			t.Error(err)
		}
	})
	name := labName("full")
	if _, err := Up(Options{Hosts: 2, Name: name}); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("Up: %v, want %v", err, unix.ENOSPC)
	}
	if infos, err := List(); len(infos) != 0 || err != nil {
		t.Errorf("labs are left: %+v, %v", infos, err)
	}
	if err := unix.Mount("tmpfs", stateDir, "tmpfs", unix.MS_REMOUNT, "size=8192"); err != nil {
		t.Fatal(err)
	}
	l, err := Up(Options{Hosts: 2, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Close(), os.WriteFile(stateDir+"/other", make([]byte, 4096), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := Down(name); err != nil {
		t.Error(err)
	}
	if _, err := Open(name); !errors.Is(err, ErrNotFound) {
		t.Errorf("Open: %v", err)
	}
}
