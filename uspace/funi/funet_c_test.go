package funi_test

// This file runs a program on funet.h whose card is the program itself.

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// Rule: who waits for a node hears: what a node has told others, and what comes back perhaps unread
// or is lost when the return ring overflows, is told again, or that it will not come; who waits for
// a node that is gone finds out by probes; and a node that joins a job again is refused by one in C
// (funet.h).
func TestWhoWaitsHears(t *testing.T) {
	const source = "testdata/alone.c"
	read(t, []string{source})
	for language, names := range compilers(t) {
		for _, name := range names[:1] {
			program := filepath.Join(t.TempDir(), "alone")
			arguments := append([]string{"-x", language, "-O2", "-std=" + standards[language][0], "-I.", "-o", program,
				source}, strict...)
			if out, err := exec.CommandContext(t.Context(), name, arguments...).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, out)
			}
			if out, err := exec.CommandContext(t.Context(), program).CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", name, err, out)
			}
		}
	}
}
