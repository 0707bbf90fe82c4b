package tests

// This file tests what `make install` installs.

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/funet/funet/tests/long"
)

// Rule: `make install DESTDIR=` puts programs, headers, manual and completions where they are
// looked for, for everybody to read. A program in C compiles with the installed headers alone. man
// shows the page of each command, with its flags, its examples and what Ctrl-C does.
func TestInstall(t *testing.T) {
	long.Test(t)
	stage := t.TempDir()
	if out, err := exec.Command("make", "-C", "..", "-s", "install", "DESTDIR="+stage,
		"VERSION=7.8.9").CombinedOutput(); err != nil {
		t.Fatalf("make install: %v\n%s", err, out)
	}
	installed := filepath.Join(stage, "usr/local")
	for _, name := range []string{"bin/funet", "bin/funet-bench", "bin/funet-paper", "bin/funid", "include/funi.h", "include/funet.h",
		"lib/systemd/system/funid.service", "lib/systemd/system/funid-ports.service", "share/man/man1/funet-pingpong.1",
		"share/man/man8/funid.8", "share/man/man7/funet-labs.7",
		"share/bash-completion/completions/funet", "share/zsh/vendor-completions/_funet",
		"share/fish/vendor_completions.d/funid.fish"} {
		if info, err := os.Stat(filepath.Join(installed, name)); err != nil || info.Size() == 0 ||
			info.Mode()&0o044 != 0o044 {
			t.Errorf("%s: %v, %+v", name, err, info)
		}
	}
	for _, name := range []string{"funet", "funid"} {
		if out, err := exec.Command(filepath.Join(installed, "bin", name), "--version").Output(); err != nil ||
			!strings.HasPrefix(string(out), name+" 7.8.9 (go") {
			t.Errorf("%s --version: %v, %q", name, err, out)
		}
	}
	bench := exec.Command(filepath.Join(installed, "bin/funet"), "bench", "peers", "--only", "nobody")
	if out, err := bench.CombinedOutput(); err == nil ||
		!strings.HasPrefix(string(out), `funet: option out of range: no peer "nobody"`) {
		t.Errorf("funet bench: %v, %q", err, out)
	}
	program := filepath.Join(stage, "program")
	compile := exec.Command("cc", "-std=c11", "-Werror", "-I", filepath.Join(installed, "include"), "-o", program,
		"programs/alltoall.c")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Errorf("compiling with the installed headers: %v\n%s", err, out)
	}
	man := func(page string) string {
		cmd := exec.Command("man", page)
		cmd.Env = append(os.Environ(), "MANPATH="+filepath.Join(installed, "share/man"), "MANPAGER=cat",
			"MANWIDTH=200", "LC_ALL=C")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("man %s: %v", page, err)
		}
		return string(out)
	}
	for page, wants := range map[string][]string{
		"funet-pingpong": {"FUNET-PINGPONG(1)", "Measure round trips of a 4-word request", "--exchanges", "EXAMPLE",
			"funet pingpong --lab 2", "Ctrl-C ends it within a second"},
		"funet-bench":       {"FUNET-BENCH(1)", "SEE ALSO", "funet-bench-peers(1)"},
		"funet-bench-peers": {"FUNET-BENCH-PEERS(1)", "--only", "Ctrl-C ends what it runs"},
		"funet-sim-cmam":    {"FUNET-SIM-CMAM(1)", "SEE ALSO", "funet-sim(1)", "--hold-out", "no file is written"},
		"funet-run":         {"The first Ctrl-C ends all nodes", "funet run -n 4 --hosts a,b -- ./program"},
		"funet-labs":        {"FUNET-LABS(7)", "funet pingpong --lab 2"},
		"funid":             {"FUNID(8)", "--config", "Ctrl-C and SIGTERM"},
	} {
		text := man(page)
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("man %s does not say %q:\n%s", page, want, text)
			}
		}
	}
}
