package tests

// This file tests `make image`: which program builds, and the error when none can. What is in the
// image is tested by ctl/funid (TestKubernetesIsTheUnit) and kubernetes_test.go.

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/funet/funet/tests/long"
)

// TestMakeImage: of docker, podman and buildah the first that works builds the recipe's image;
// where none does, what is there and does not work is named with its reason, and what to install.
func TestMakeImage(t *testing.T) {
	long.Test(t)
	make := func(programs map[string]string, args ...string) (out string, err error) {
		t.Helper()
		dir := t.TempDir()
		// what the Makefile needs besides
		for _, name := range []string{"bash", "make", "git", "sed", "grep", "tail", "mkdir"} {
			path, err := exec.LookPath(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		for name, script := range programs {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command("make", append([]string{"-C", "..", "-s", "image", "VERSION=7"}, args...)...)
		cmd.Env = []string{"PATH=" + dir}
		text, err := cmd.CombinedOutput()
		return string(text), err
	}
	const broken, works = "echo some trouble >&2; echo no daemon >&2; exit 1\n", "[ $1 = info ] || echo built: $*\n"
	out, err := make(map[string]string{"docker": broken, "podman": works, "buildah": works})
	const want = "podman build of funet:7\nbuilt: build --file ctl/image/Containerfile --build-arg VERSION=7 --target inside --tag funet:7 .\n"
	if err != nil || out != want {
		t.Errorf("%v: %s, want %s", err, out, want)
	}
	for says, programs := range map[string]map[string]string{
		"needs docker, podman or buildah; install one of them (on Debian and Ubuntu: apt install buildah)\n": {},
		"apt install buildah); docker is there, but: no daemon\n":                                            {"docker": broken},
	} {
		if out, err := make(programs); err == nil || !strings.Contains(out, says) {
			t.Errorf("%v: %s, want %q", err, out, says)
		}
	}
	if out, err := make(nil, "PROGRAMS=elsewhere"); err == nil || !strings.Contains(out, "use inside or outside") {
		t.Errorf("%v: %s", err, out)
	}
}
