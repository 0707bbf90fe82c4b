package tests

// This file tests a program in C on a daemon.

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/funet/funet/tests/long"
)

// TestRunC: the example in C exchanges messages and memory through the daemons of two hosts,
// and of one, as an ordinary user, and checks every word itself.
func TestRunC(t *testing.T) {
	folder := t.TempDir()
	program := filepath.Join(folder, "pingpong")
	if out, err := exec.Command("cc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-I", "../uspace/funi", "-o",
		program, "../uspace/funi/example/pingpong.c").CombinedOutput(); err != nil {
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

	// mpirun and srun, whom funet run --once starts, number the processes in their own way.
	for _, names := range [][2]string{{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"PMI_RANK", "PMI_SIZE"},
		{"SLURM_PROCID", "SLURM_NTASKS"}} {
		script := fmt.Sprintf("for i in 0 1; do %s=$i %s=2 %s 200 & done; wait", names[0], names[1], program)
		// on the daemons of both hosts
		if out := s.run("-n", "2", "--once", "--", "sh", "-c", script).ok(); !strings.HasPrefix(out, "200 round trips") {
			t.Errorf("%s: it printed %q", names[0], out)
		}
		s.free()
	}

	// The first Ctrl-C ends both.
	p := s.run("-n", "2", "--", program, "10000000")
	eventually(t, "both nodes are attached", func() bool { return s.inUse() == 2*3 })
	p.signal(syscall.SIGINT)
	if code := p.wait(); code != 128+int(syscall.SIGINT) || !strings.Contains(p.stderr.String(), ": interrupted\n") {
		t.Errorf("interrupted: exit code %d, and it said %q", code, p.stderr.String())
	}
	s.free()
}

// TestRunKeyed: the examples of remote memory in C and in Go write into each other's memory through
// the daemons of two hosts, as an ordinary user, whichever of the two owns it; every byte is looked
// at (funi.h, package rats).
func TestRunKeyed(t *testing.T) {
	long.Test(t)
	folder := t.TempDir()
	inC, inGo := filepath.Join(folder, "c"), filepath.Join(folder, "go")
	if out, err := exec.Command("cc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-I", "../uspace/funi", "-o",
		inC, "../uspace/funi/example/keyed.c").CombinedOutput(); err != nil {
		t.Fatalf("compiling with cc, which gcc or clang brings: %v\n%s", err, out)
	}
	if out, err := exec.Command("go", "build", "-o", inGo, "../uspace/rats/example").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, path := range []string{folder, filepath.Dir(folder)} { // nobody runs them
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{inC, inGo} { // whatever root's umask is
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := daemons(t)
	for _, nodes := range [][2]string{{inC, inGo}, {inGo, inC}, {inC, inC}} {
		out := s.run("-n", "2", "--", "sh", "-c", fmt.Sprintf("if [ $FUNET_NODE = 0 ]; then exec %s; else exec %s; fi",
			nodes[0], nodes[1])).ok()
		if out != "[0] 5 messages of up to 200000 bytes, and one of two parts; then the key was taken back\n" {
			t.Errorf("node 0 is %s, node 1 %s: they printed %q", filepath.Base(nodes[0]), filepath.Base(nodes[1]), out)
		}
		s.free()
	}
}

// TestRunStructures: the queue and the hash table in remote memory work in C and in Go, through the
// daemons of two hosts, as an ordinary user. Their owner and each of their other users may be in
// either language. Each number that is put into the queue is taken once, in the order of its node,
// and counted once. A revoked key is refused (funi.h, package rma).
func TestRunStructures(t *testing.T) {
	long.Test(t)
	folder := t.TempDir()
	inC, inGo := filepath.Join(folder, "c"), filepath.Join(folder, "go")
	if out, err := exec.Command("cc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-I", "../uspace/funi", "-o",
		inC, "../uspace/funi/example/structures.c").CombinedOutput(); err != nil {
		t.Fatalf("compiling with cc, which gcc or clang brings: %v\n%s", err, out)
	}
	if out, err := exec.Command("go", "build", "-o", inGo, "../uspace/rma/example").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// nobody runs them, whatever root's umask is
	for _, path := range []string{folder, filepath.Dir(folder), inC, inGo} {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := daemons(t)
	for _, nodes := range [][3]string{{inC, inGo, inC}, {inGo, inC, inGo}} {
		out := s.run("-n", "3", "--", "sh", "-c",
			fmt.Sprintf("case $FUNET_NODE in 0) exec %s;; 1) exec %s;; *) exec %s;; esac", nodes[0],
				nodes[1], nodes[2])).ok()
		if out != "[0] 2 nodes have put 1000 numbers into the queue; each was taken once\n" {
			t.Errorf("node 0 is %s, node 1 %s: they printed %q", filepath.Base(nodes[0]), filepath.Base(nodes[1]), out)
		}
		s.free()
	}
}

// TestRunPorts: the ports of a job exchange messages, add to each other's windows and meet at
// barriers, through the daemons of two hosts, as an ordinary user (package virtni).
func TestRunPorts(t *testing.T) {
	long.Test(t)
	folder := t.TempDir()
	program := filepath.Join(folder, "ports")
	if out, err := exec.Command("go", "build", "-o", program, "../uspace/virtni/example").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, path := range []string{folder, filepath.Dir(folder), program} {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := daemons(t)
	if out := s.run("-n", "5", "--", program).ok(); out != "[0] 5 nodes have added 500 numbers each\n" {
		t.Errorf("it printed %q", out)
	}
	s.free()
}

// TestRunChain: the chain works in C and in Go, through the daemons of two hosts, as an ordinary
// user. The first and the last member may each be in either language. What a member sends along the
// chain comes once to all, also to those of the other language. A member that has left is named
// (funi.h "chains", package rma).
func TestRunChain(t *testing.T) {
	long.Test(t)
	folder := t.TempDir()
	inC, inGo := filepath.Join(folder, "c"), filepath.Join(folder, "go")
	if out, err := exec.Command("cc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-I", "../uspace/funi", "-o",
		inC, "../uspace/funi/example/chain.c").CombinedOutput(); err != nil {
		t.Fatalf("compiling with cc, which gcc or clang brings: %v\n%s", err, out)
	}
	if out, err := exec.Command("go", "build", "-o", inGo, "../uspace/rma/example/chain").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// nobody runs them, whatever root's umask is
	for _, path := range []string{folder, filepath.Dir(folder), inC, inGo} {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := daemons(t)
	for _, nodes := range [][3]string{{inC, inGo, inC}, {inGo, inC, inGo}} {
		out := s.run("-n", "3", "--", "sh", "-c",
			fmt.Sprintf("case $FUNET_NODE in 0) exec %s;; 1) exec %s;; *) exec %s;; esac", nodes[0],
				nodes[1], nodes[2])).ok()
		if out !=
			"[0] 3 nodes have each sent 50 messages and as many writes along a chain; each came to all of them once\n" {
			t.Errorf("node 0 is %s, node 1 %s: they printed %q", filepath.Base(nodes[0]), filepath.Base(nodes[1]), out)
		}
		s.free()
	}
}

// TestRunWindows: what funi.h has for windows does between two hosts what it says, and what is
// refused is refused, also of chains (programs/windows.c; funi.h, "windows", "chains").
func TestRunWindows(t *testing.T) {
	long.Test(t)
	folder := t.TempDir()
	program := filepath.Join(folder, "windows")
	if out, err := exec.Command("cc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-I", "../uspace/funi", "-o",
		program, "programs/windows.c").CombinedOutput(); err != nil {
		t.Fatalf("compiling with cc, which gcc or clang brings: %v\n%s", err, out)
	}
	// nobody runs it, whatever root's umask is
	for _, path := range []string{folder, filepath.Dir(folder), program} {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := daemons(t)
	if out := s.run("-n", "2", "--", program).ok(); out != "" {
		t.Errorf("it printed %q", out)
	}
	s.free()
}
