package tests

// This file tests what `make install` installs.

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/funet/funet/tests/long"
)

// messagesFlow checks that fi_info finds an installed provider, and that two nodes exchange
// messages through it, which the funet installed with it starts as an ordinary user.
func messagesFlow(t *testing.T, funet, folder string) {
	t.Helper()
	info := exec.Command("fi_info", "-p", "funet")
	info.Env = append(os.Environ(), "FI_PROVIDER_PATH="+folder)
	if out, err := info.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "provider: funet\n") {
		t.Errorf("fi_info with the provider in %s: %v, %q", folder, err, out)
	}
	s := directs(t)
	run := exec.Command(funet, "run", "-n", "2", "--lab="+s.name, "--user", "nobody", "--ofi", "--", withFabric(t, "messages"))
	run.Dir = "/" // where nobody may be
	out := start(t, run, nil).ok()
	if strings.Count(out, "all rules hold\n") != 2 {
		t.Errorf("it printed %q", out)
	}
	s.free()
}

// Rule: the package has the provider in libfabric's folder of the machine's architecture, and funet
// run --ofi finds it there.
func TestPackage(t *testing.T) {
	long.Test(t)
	if out, err := exec.Command("make", "-C", "..", "-s", "deb", "VERSION=7.8.9").CombinedOutput(); err != nil {
		t.Fatalf("make deb: %v\n%s", err, out)
	}
	packages, err := filepath.Glob("../bin/funet_7.8.9_*.deb")
	if err != nil || len(packages) != 1 {
		t.Fatalf("%v, %q", err, packages)
	}
	defer os.Remove(packages[0])
	root := t.TempDir()
	if out, err := exec.Command("dpkg-deb", "--extract", packages[0], root).CombinedOutput(); err != nil {
		t.Fatalf("dpkg-deb: %v\n%s", err, out)
	}
	architecture, err := exec.Command("gcc", "-print-multiarch").Output()
	if err != nil {
		t.Fatal(err)
	}
	messagesFlow(t, filepath.Join(root, "usr/bin/funet"),
		filepath.Join(root, "usr/lib", strings.TrimSpace(string(architecture)), "libfabric"))
}

// Rule: `make install DESTDIR=` puts programs, headers, manual and completions where they are
// looked for, for everybody to read. A program in C compiles with the installed library as
// pkg-config says. man shows the page of each command, with its flags, its examples and what Ctrl-C
// does.
func TestInstall(t *testing.T) {
	long.Test(t)
	stage := t.TempDir()
	if out, err := exec.Command("make", "-C", "..", "-s", "install", "DESTDIR="+stage,
		"VERSION=7.8.9").CombinedOutput(); err != nil {
		t.Fatalf("make install: %v\n%s", err, out)
	}
	installed := filepath.Join(stage, "usr/local")
	for _, name := range []string{"bin/funet", "bin/funet-bench", "bin/funet-paper", "bin/funid", "include/funi.h", "include/funet.h",
		"lib/libfunet.so.1", "lib/libfunet.a", "lib/pkgconfig/funet.pc",
		"lib/libfabric/libfunet-fi.so", "lib/libfabric/libfunet-onstack.so",
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
	messagesFlow(t, filepath.Join(installed, "bin/funet"), filepath.Join(installed, "lib/libfabric"))
	bench := exec.Command(filepath.Join(installed, "bin/funet"), "bench", "peers", "--only", "nobody")
	if out, err := bench.CombinedOutput(); err == nil ||
		!strings.HasPrefix(string(out), `funet: option out of range: no peer "nobody"`) {
		t.Errorf("funet bench: %v, %q", err, out)
	}
	program := filepath.Join(stage, "program")
	// What pkg-config says is enough, with the shared and with the static library.
	for _, static := range []string{"", "--static"} {
		compile := exec.Command("sh", "-c", fmt.Sprintf("cc -std=c11 -Werror -o %s programs/alltoall.c "+
			"$(pkg-config --define-variable=prefix=%s --cflags --libs %s funet)", program, installed, static))
		compile.Env = append(os.Environ(), "PKG_CONFIG_PATH="+filepath.Join(installed, "lib/pkgconfig"))
		if out, err := compile.CombinedOutput(); err != nil {
			t.Errorf("compiling with the installed library: %v\n%s", err, out)
		}
		run := exec.Command(program)
		run.Env = append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Join(installed, "lib"))
		if out, err := run.CombinedOutput(); err == nil || !strings.Contains(string(out), "funet run") {
			t.Errorf("without a place it ended with %v, and said %q", err, out)
		}
		if err := os.Remove(filepath.Join(installed, "lib/libfunet.so")); static == "" && err != nil {
			t.Error(err)
		}
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
