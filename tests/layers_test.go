package tests

// This file tests what the layers of the project may import.

import (
	"os/exec"
	"strings"
	"testing"
)

// Rule: a program of somebody else's builds on uspace without the commands: nothing below uspace
// imports ctl. (Tests may.)
func TestUspaceImportsNoCommands(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{.ImportPath}}{{range .Imports}} {{.}}{{end}}",
		"github.com/funet/funet/uspace/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if !strings.HasPrefix(f[0], "github.com/funet/funet/uspace/") {
			continue
		}
		seen++
		for _, i := range f[1:] {
			if strings.HasPrefix(i, "github.com/funet/funet/ctl/") {
				t.Errorf("%s imports %s", f[0], i)
			}
		}
	}
	if seen == 0 {
		t.Fatal("no package found")
	}
}
