package main

import (
	"testing"

	"github.com/funet/funet/tests/help"
)

// Rule: the help of every command has an example and says what Ctrl-C does, and somebody has
// decided what a shell completes for each flag.
func TestHelpOfEveryCommand(t *testing.T) {
	for _, lack := range help.Bare(command()) {
		t.Error(lack)
	}
	for _, flag := range help.Undecided(command(), completed) {
		t.Errorf("%s: say in main.go what its values are", flag)
	}
}
