package tests

// This file tests a program in C on a daemon.

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// TestRunC: the example in C exchanges messages and memory through the daemons of two hosts,
// and of one, as an ordinary user, and checks every word itself.
func TestRunC(t *testing.T) {
	folder := t.TempDir()
	program := filepath.Join(folder, "pingpong")
	if out, err := exec.Command("cc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-I", "../uspace/funi", "-o", program, "../uspace/funi/example/pingpong.c").CombinedOutput(); err != nil {
		t.Fatalf("compiling with cc, which gcc or clang brings: %v\n%s", err, out)
	}
	for _, dir := range []string{folder, filepath.Dir(folder)} { // nobody runs it
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := daemons(t)
	out := s.run("-n", "2", "--", program, "300").ok()
	if !regexp.MustCompile(`(?m)^\[0\] 300 round trips, half of them within [0-9.]+ us; 64 KiB there and back$`).MatchString(out) {
		t.Errorf("it printed %q", out)
	}
	s.free()
}
