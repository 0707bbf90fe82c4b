package main

// This file tests commands whose output has no room.

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

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
	for _, args := range []string{"--help", "lab up --help", "profile list", "profile show native --yaml",
		"profile show native --json", "sim chaos --seed 1 --nodes 2 --messages 10"} {
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
