package funi_test

// This file runs a program on funet.h whose card is the program itself.

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// Rule: every program that waits for a node hears of the outcome. What a node has told others may
// come back perhaps unread, or be lost when the return ring overflows. The node then tells it
// again, or tells that it will not come. A program that waits for a node that is gone finds out by
// probes. A node in C refuses a node that joins a job again (funet.h).
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
