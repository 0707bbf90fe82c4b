package usage

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func command() *cobra.Command {
	c := &cobra.Command{Use: "prog", RunE: func(*cobra.Command, []string) error {
		return nil
	}, SilenceUsage: true, SilenceErrors: true}
	c.Flags().Int("count", 0, "how many")
	c.Flags().Uint64("seed", 0, "of what is random")
	c.Flags().Bool("fast", false, "or not")
	c.Flags().Duration("wait", time.Second, "how long")
	c.Flags().IntSlice("sizes", nil, "in bytes")
	c.Flags().StringSlice("hosts", nil, "where")
	c.Flags().String("out", "", "write to `FILE`")
	c.SetFlagErrorFunc(Explain)
	return c
}

// A value that a flag cannot take is refused with what it takes, and without the words of the
// library that read it.
func TestExplain(t *testing.T) {
	for args, want := range map[string]string{
		"--count abc":                  `--count "abc": use a whole number; see`,
		"--count 1e4":                  `--count "1e4": use a whole number`,
		"--count 99999999999999999999": `--count 99999999999999999999: a number larger than any that it takes`,
		"--seed -1":                    `--seed "-1": use a whole number from 0`,
		"--fast=maybe":                 `--fast "maybe": use true or false`,
		"--wait 30":                    `--wait "30": use a time with its unit`,
		"--sizes 1,b":                  `--sizes "1,b": use whole numbers with commas`,
		`--hosts a"b`:                  `--hosts "a\"b": use values with commas`,
		"--bogus":                      "unknown flag: --bogus; see `prog --help`",
		"--count":                      "flag needs an argument: --count; see `prog --help`",
	} {
		c := command()
		c.SetArgs(strings.Fields(args))
		err := c.Execute()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
			continue
		}
		for _, raw := range []string{"strconv", "time:", "parse error"} {
			if strings.Contains(err.Error(), raw) {
				t.Errorf("%s: %v has %q in it", args, err, raw)
			}
		}
	}
}

// Rule (Strict): help and completion refuse what they do not know, and do what they do.
func TestStrict(t *testing.T) {
	for line, want := range map[string]string{
		"help nosuch": "is no command", "help lab nosuch": "is no command", "completion bsh": "unknown command",
		"help": "", "help lab": "", "help lab up": "", "completion": "",
		"completion bash": "", "lab up": "",
	} {
		root := &cobra.Command{Use: "x", SilenceErrors: true, SilenceUsage: true, Args: cobra.NoArgs}
		lab := &cobra.Command{Use: "lab", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
			return c.Help()
		}}
		lab.AddCommand(&cobra.Command{Use: "up", Run: func(*cobra.Command, []string) {}})
		root.AddCommand(lab)
		root.SetOut(io.Discard)
		Strict(root)
		root.SetArgs(strings.Fields(line))
		if err := root.Execute(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

// Rule (Output.Join): an error of writing is told once.
func TestOutputJoins(t *testing.T) {
	full, other := errors.New("no space left"), errors.New("other")
	for _, c := range []struct {
		out, err error
		want     string
	}{{full, full, "no space left"}, {full, fmt.Errorf("printing: %w", full), "printing: no space left"},
		{full, nil, "no space left"}, {full, other, "other\nno space left"}, {nil, other, "other"}} {
		if err := (&Output{c.out}).Join(c.err); err == nil || err.Error() != c.want {
			t.Errorf("%v and %v: %v, want %q", c.out, c.err, err, c.want)
		}
	}
	if err := (&Output{}).Join(nil); err != nil {
		t.Error(err)
	}
}
