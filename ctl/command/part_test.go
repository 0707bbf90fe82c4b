package command

import (
	"strings"
	"testing"
)

// Rule: the program of a part gets the lines that run it, and those that ask for help about it or
// for completions within it.
func TestTakes(t *testing.T) {
	p := Part{Path: "sim cmam"}
	for line, want := range map[string]bool{
		"": false, "sim": false, "cmam": false, "sim chaos": false, "sim cmamm": false, "run -- sim cmam": false,
		"sim cmam": true, "sim cmam --json": true, "help sim cmam": true, "help sim": false, "help help sim cmam": true,
		"__complete": false, "__complete sim": false, "__complete sim cmam": false, "__complete sim cmam --": true,
		"__completeNoDesc sim cmam x": true, "__complete help sim cmam": false, "__complete help sim cmam x": true,
	} {
		if got := p.takes(strings.Fields(line)); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}
