// Command fabtests runs libfabric's own tests (fabtests 1.17.0) over the provider funet. It needs
// root, and a built tree of fabtests, which is no part of this repository. `make fabtests` runs it.
//
// The journey of a run: the lists of tests are read from scripts/runfabtests.sh of the tree
// (lists.go). The lab starts with a daemon on each of two hosts (stage.go). Each test gets a job of
// its own on direct ports. Its server runs on host 0 and its client on host 1, as an ordinary user,
// and they exchange addresses over a socket out of band (run.go). The excludes say which tests fail
// (exclude.go). They run, too. The run fails if another test fails, or if one of them passes.
//
// All processes and the lab end with this program, however it ends.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"github.com/funet/funet/tests/entry"
)

func main() { entry.Main(command()) }

// options are the command line.
type options struct {
	Exclude  string
	Provider string
	Funid    string
	Only     string
	Sets     []string
	Patience time.Duration
	Verbose  bool
	tree     string // of fabtests
	only     *regexp.Regexp
}

func command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:           "fabtests DIR",
		Short:         "Run libfabric's tests, built in DIR, over the provider funet on two hosts",
		Args:          cobra.ExactArgs(1),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(c *cobra.Command, args []string) error {
			o.tree = args[0]
			if err := o.check(); err != nil {
				return err
			}
			return run(c.Context(), &o)
		},
	}
	c.CompletionOptions.DisableDefaultCmd = true
	p := c.Flags()
	p.StringVar(&o.Exclude, "exclude", "uspace/ofi/fabtests.exclude", "file of the tests that fail")
	p.StringVar(&o.Provider, "provider", "bin/libfunet-fi.so", "the provider")
	p.StringVar(&o.Funid, "funid", "", "the daemon's program (default: beside this one, or in PATH)")
	p.StringVar(&o.Only, "only", "", "only tests that this regular expression matches")
	p.StringSliceVar(&o.Sets, "sets", sets, "only these sets")
	p.DurationVar(&o.Patience, "patience", 10*time.Minute, "how long a test may take")
	p.BoolVar(&o.Verbose, "verbose", false, "print the output of excluded tests, too")
	return c
}

func (o *options) check() (err error) {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces and processes of another user need root; run it with sudo")
	}
	if o.only, err = regexp.Compile(o.Only); err != nil {
		return fmt.Errorf("--only: %w", err)
	}
	if o.Patience <= 0 {
		return fmt.Errorf("--patience %v: use more than 0", o.Patience)
	}
	for _, path := range []*string{&o.tree, &o.Exclude, &o.Provider, &o.Funid} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	return nil
}

// run runs the chosen tests, and prints a line for each.
func run(ctx context.Context, o *options) (err error) {
	tests, err := readTests(o.tree, o.Sets)
	if err != nil {
		return err
	}
	excludes, err := readExcludes(o.Exclude)
	if err != nil {
		return err
	}
	if err := excludes.check(tests, len(o.Sets) == len(sets)); err != nil {
		return err
	}
	s, err := newStage(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	var sum tally
	for _, t := range tests {
		if !o.only.MatchString(t.line) {
			continue
		}
		pattern := excludes.of(t)
		patience := o.Patience
		if pattern != "" {
			patience = min(patience, excludedPatience)
		}
		begin := time.Now()
		r, err := s.run(ctx, t, patience)
		if err != nil {
			return fmt.Errorf("%s: %w", t.line, err)
		}
		v := sum.judge(r.failure == "", pattern)
		fmt.Printf("%-10s %-58s %-9s %6.1f s  %s\n", t.set, t.line, v, time.Since(begin).Seconds(), r.failure)
		if v == wrong || v == unexpected || o.Verbose && v == excluded {
			fmt.Print(r.output)
		}
		if v == unexpected {
			fmt.Printf("  remove %q from %s\n", pattern, o.Exclude)
		}
	}
	fmt.Println(sum.String())
	return sum.err()
}
