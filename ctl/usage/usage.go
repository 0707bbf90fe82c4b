// Package usage explains errors in a command line. The library that reads command lines passes on
// texts that the standard library writes for programmers, such as "strconv.ParseInt: parsing".
//
// Both commands, funet and funid, give it the errors of their flags.
package usage

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// wants says which values the flags of a type take. Types have the names of package pflag.
var wants = map[string]string{
	"bool":        "true or false",
	"duration":    "a time with its unit, such as 500ms, 30s or 5m",
	"int":         "a whole number",
	"uint64":      "a whole number from 0",
	"intSlice":    "whole numbers with commas between them",
	"stringSlice": "values with commas between them",
}

// Explain turns an error of a flag into plain words, and adds where to read about the command.
func Explain(c *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	var bad *pflag.InvalidValueError
	if errors.As(err, &bad) {
		err = explain(bad)
	}
	return fmt.Errorf("%w; see `%s --help`", err, c.CommandPath())
}

func explain(bad *pflag.InvalidValueError) error {
	name := "--" + bad.GetFlag().Name
	want, ok := wants[bad.GetFlag().Value.Type()]
	switch {
	case errors.Is(bad, strconv.ErrRange):
		return fmt.Errorf("%s %s: a number larger than any that it takes", name, bad.GetValue())
	case ok:
		return fmt.Errorf("%s %q: use %s", name, bad.GetValue(), want)
	}
	return fmt.Errorf("%s %q: %w", name, bad.GetValue(), bad.Unwrap())
}

// Output is standard output for the text that the library prints, which is help. The library itself
// ignores errors of writing, so Output keeps the first.
type Output struct{ err error }

// Write writes to standard output.
func (o *Output) Write(b []byte) (int, error) {
	n, err := os.Stdout.Write(b)
	o.err = cmp.Or(o.err, err)
	return n, err
}

// Join adds the first error of writing to that of the command, unless it is the same.
func (o *Output) Join(err error) error {
	if errors.Is(err, o.err) {
		return err
	}
	return errors.Join(err, o.err)
}

// Strict makes the library's own commands, help and completion, refuse arguments that they do not
// know. It also makes help fit a terminal (Narrow).
func Strict(c *cobra.Command) {
	c.InitDefaultHelpCmd()
	c.InitDefaultCompletionCmd()
	Narrow(c)
	for _, own := range c.Commands() {
		switch own.Name() {
		case "help":
			own.Args = func(_ *cobra.Command, args []string) error {
				if _, rest, err := c.Find(args); err != nil || len(rest) > 0 {
					return fmt.Errorf("%q is no command; `%s --help` lists those there are",
						strings.Join(args, " "), c.Name())
				}
				return nil
			}
		case "completion":
			own.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
			own.Args = func(c *cobra.Command, args []string) error { return Explain(c, cobra.NoArgs(c, args)) }
		}
	}
}
