package main

// This file tests what the Makefile says for itself.

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// run runs make in the project's folder, with a Go that is a script.
func run(t *testing.T, script string, args ...string) (string, error) {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "go"), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "make",
		append([]string{"-C", "../..", "--no-print-directory", "GO=" + filepath.Join(folder, "go")}, args...)...)
	cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Rule: `make help` names each target that people call, in lines that a terminal holds.
func TestMakeHelp(t *testing.T) {
	out, err := run(t, "exit 1", "help")
	if err != nil {
		t.Fatal(err, out)
	}
	text, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	targets := strings.Fields(regexp.MustCompile(`(?m)^\.PHONY: (help .*)$`).FindStringSubmatch(string(text))[1])
	for _, target := range targets {
		switch target {
		case "help", "golang", "build", "root": // steps of others
		default:
			if !regexp.MustCompile(`\bmake ` + target + `\b`).MatchString(out) {
				t.Errorf("make help does not name %s", target)
			}
		}
	}
	for line := range strings.Lines(out) {
		if len(line) > 81 {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
}

// Rule: without a Go that can fetch the version of go.mod make says what to install.
func TestMakeGo(t *testing.T) {
	for version, want := range map[string]string{
		"go version go1.19.8 linux/amd64": "Go 1.19 is too old", "go version go1.20 linux/amd64": "Go 1.20 is too old",
		"go version go1.21.3 linux/amd64": "", "go version go1.26.0 linux/amd64": "",
		"go version devel go1.27-a1b2 linux/amd64": "",
	} {
		out, err := run(t, "echo '"+version+"'", "golang")
		if want == "" && (err != nil || out != "") || want != "" &&
			(err == nil || !strings.Contains(out, want) || !strings.Contains(out, "install Go 1.21 or later")) {
			t.Errorf("%s: %v: %s", version, err, out)
		}
	}
	if out, err := run(t, "", "golang", "GO=/nosuch/go"); err == nil ||
		!strings.Contains(out, "Go is missing; install Go 1.21 or later") {
		t.Errorf("%v: %s", err, out)
	}
	// The version of go.mod is fetched also where the distribution's Go fetches nothing by itself,
	// unless the caller says otherwise.
	t.Setenv("GOTOOLCHAIN", "")
	os.Unsetenv("GOTOOLCHAIN")
	if out, err := run(t, `[ "$1" = version ] && echo go version go1.21.3 || echo "toolchain $GOTOOLCHAIN"`,
		"mutants"); err != nil || !strings.Contains(out, "toolchain auto") {
		t.Errorf("%v: %s", err, out)
	}
}

// Rule: `make check` says what it runs, and fails with it.
func TestMakeCheckSays(t *testing.T) {
	out, err := run(t, `[ "$1" = version ] && echo go version go1.26.0; [ "$1" != tool ]`, "check")
	if err == nil || !strings.Contains(out, "go tool -modfile=.ci/go.mod golangci-lint run --allow-parallel-runners -c .ci/golangci.yaml\n") {
		t.Errorf("%v: %s", err, out)
	}
}
