package main

// This file makes the test binary the programs themselves, and has the tree of all their commands.

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/bench"
	"github.com/funet/funet/ctl/command"
	"github.com/funet/funet/ctl/paper"
)

// parts are the programs that have some of funet's commands.
var parts = map[string]func() command.Tree{command.Bench.Program: bench.Tree,
	command.Papers[0].Program: paper.Tree}

// TestMain makes the test binary funet itself when it is started like it, as measurements do with
// the binary that they are in. Links beside it are the other programs.
func TestMain(m *testing.M) {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if part, is := parts[filepath.Base(self)]; is {
		part().Main()
		return
	}
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		main()
		return
	}
	for name := range parts {
		link := filepath.Join(filepath.Dir(self), name)
		_ = os.Remove(link) // of a run that was killed
		if err := os.Link(self, link); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		defer os.Remove(link)
	}
	m.Run()
}

// whole returns funet's tree with the commands of the other programs in their places.
func whole() command.Tree {
	t := tree()
	for _, part := range parts {
		p := part()
		t.Completed = t.Completed.With(p.Completed)
		t.OnCtrlC = maps.Clone(t.OnCtrlC)
		maps.Copy(t.OnCtrlC, p.OnCtrlC)
		t.Commands = graft(t.Commands, p.Commands)
	}
	return t
}

// graft returns the commands with those of another program in the places that these have.
func graft(commands, others []*cobra.Command) (all []*cobra.Command) {
	all = commands
	for _, other := range others {
		for i, c := range all {
			switch {
			case other.Hidden || other.Name() != c.Name():
			case c.DisableFlagParsing:
				all[i] = other
			default:
				under := c.Commands()
				c.RemoveCommand(under...)
				others := other.Commands()
				other.RemoveCommand(others...)
				c.AddCommand(graft(under, others)...)
			}
		}
	}
	return all
}

// root returns the tree of all commands.
func root() *cobra.Command { return whole().Root() }
