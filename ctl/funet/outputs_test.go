package main

// This file tests the files that commands write: there whole or not at all, and tried before the work.

import (
	"fmt"
	"os"
	"os/exec"
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
		var o outputs
		for _, name := range []string{link, filepath.Join(dir, "new")} {
			w, err := o.create(name)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(w, "after")
		}
		want := "before"
		if keep {
			want = "after"
			if err := o.commit(); err != nil {
				t.Fatal(err)
			}
		}
		o.discard()
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
	var o outputs
	defer o.discard()
	w, err := o.create("/dev/full")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(w, "x")
	if err := o.commit(); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Error(err)
	}
	if info, err := os.Stat("/dev/full"); err != nil || info.Mode()&os.ModeDevice == 0 {
		t.Errorf("/dev/full: %v, %v", info, err)
	}
	for _, name := range []string{t.TempDir(), "/no/such/folder/x"} {
		if _, err := o.create(name); err == nil {
			t.Errorf("%s can be created", name)
		}
	}
}

// A disk that is full when the trace is written leaves no file, and what was there.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	script := `mount -t tmpfs -o size=128k none "$1" && cd "$1" && echo before > old || exit 9
		"$2" sim chaos --seed 1 --nodes 3 --messages 2000 --trace new --pcap old; code=$?
		[ "$(ls -A)" = old ] && [ "$(cat old)" = before ] || { ls -lA; exit 8; }
		exit $code`
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("unshare", "-m", "--", "sh", "-c", script, "sh", dir, self).CombinedOutput()
	if err == nil || err.Error() != "exit status 1" || !strings.Contains(string(out), "no space left on device") {
		t.Errorf("%v: %s", err, out)
	}
}

// Whatever cannot be written to standard output is an error that says so, help too.
func TestStdoutFull(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"--help", "lab up --help", "profile list", "profile show native --yaml", "profile show native --json", "sim chaos --seed 1 --nodes 2 --messages 10"} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(self, strings.Fields(args)...)
		var said strings.Builder
		cmd.Stdout, cmd.Stderr = full, &said
		err = cmd.Run()
		full.Close()
		if err == nil || err.Error() != "exit status 1" || !strings.Contains(said.String(), "no space left on device") {
			t.Errorf("%s: %v, %s", args, err, said.String())
		}
	}
}
