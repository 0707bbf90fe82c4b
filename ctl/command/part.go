package command

// This file executes the programs that have some of funet's commands.

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Part is a command of funet that a program of its own carries out.
type Part struct {
	Program string // its file's name
	Path    string // the command's words behind funet, such as "bench"
	Short   string // one line of help
}

// Bench is `funet bench`.
var Bench = Part{"funet-bench", "bench", "Measure FUNet beside what one would use otherwise"}

// Papers are the commands of package ctl/paper.
var Papers = []Part{
	{"funet-paper", "sim cmam", "Measure the CMAM primitives on 32 modelled machines, beside Table 6.1 of the thesis"},
	{"funet-paper", "sim matmul",
		"Multiply matrices on 1 to 64 modelled machines, as Figures 6.2 to 6.5 of the thesis"},
	{"funet-paper", "sim ni",
		"Make the figures of the Tokyo and the virtualised network interface, beside what was printed"},
	{"funet-paper", "sim rats", "Make the tables of the Hamlyn paper out of its steps, beside what it printed"},
}

// Parts are all such commands.
var Parts = append([]Part{Bench}, Papers...)

// Command returns the command as funet's tree has it. It executes the program with this process's
// command line. The subcommands and flags are only in the program's tree.
func (p Part) Command() *cobra.Command {
	words := strings.Fields(p.Path)
	return &cobra.Command{Use: words[len(words)-1], Short: p.Short, Args: cobra.ArbitraryArgs, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error { return p.execute(os.Args[1:]) }}
}

// HandOver executes the program of the part that this process's command line is for. The line may
// also ask for help about the part or for completions. HandOver returns if the line is for none,
// and ends the process if the program cannot be executed.
func HandOver() {
	for _, p := range Parts {
		if line := os.Args[1:]; p.takes(line) {
			exit(context.Background(), p.execute(line))
		}
	}
}

// takes reports whether a command line is for the part.
func (p Part) takes(line []string) bool {
	words, rest := strings.Fields(p.Path), line
	for len(rest) > 0 && (rest[0] == "help" || completes(rest[0])) {
		rest = rest[1:]
	}
	if len(line) > 0 && completes(line[0]) && len(rest) > 0 {
		rest = rest[:len(rest)-1] // the last word is not complete
	}
	return len(rest) >= len(words) && slices.Equal(rest[:len(words)], words)
}

// completes reports whether a word is the command by which a shell asks for completions.
func completes(word string) bool {
	return word == cobra.ShellCompRequestCmd || word == cobra.ShellCompNoDescRequestCmd
}

// execute executes the program in this process. It only returns if that fails.
func (p Part) execute(line []string) error {
	path, err := p.find()
	if err == nil {
		err = syscall.Exec(path, append([]string{p.Program}, line...), os.Environ())
		err = fmt.Errorf("executing %s: %w; install it anew (make install)", path, err)
	}
	return fmt.Errorf("running funet %s: %w", p.Path, err)
}

// find returns the path of the program: beside this one, else in PATH.
func (p Part) find() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding this program, which %s is to be beside: %w", p.Program, err)
	}
	beside := filepath.Join(filepath.Dir(self), p.Program)
	if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
		return beside, nil
	}
	path, err := exec.LookPath(p.Program)
	if err != nil {
		return "", fmt.Errorf("%s is not beside %s and not on PATH; install it (make install) or build it (make)",
			p.Program, self)
	}
	return path, nil
}

// WritePages has each of the programs write the manual's pages of its commands into a folder.
func WritePages(folder string) error {
	done := map[string]bool{}
	for _, p := range Parts {
		if done[p.Program] {
			continue
		}
		done[p.Program] = true
		path, err := p.find()
		if err != nil {
			return err
		}
		if said, err := exec.Command(path, "man", folder).CombinedOutput(); err != nil {
			return fmt.Errorf("%s man: %w: %s", path, err, strings.TrimSpace(string(said)))
		}
	}
	return nil
}
