// Package help finds faults in the help of commands, for the tests of funet and funid.
package help

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/funet/funet/ctl/usage"
)

// Bare returns what the help of the visible commands lacks, from c downwards: an example, or the
// effect of Ctrl-C.
func Bare(c *cobra.Command) (lacks []string) {
	if c.Hidden || c.Name() == "help" || c.GroupID == usage.PagesGroup {
		return nil
	}
	if c.HasParent() && c.Example == "" {
		lacks = append(lacks, c.CommandPath()+" has no example")
	}
	if usage.Ending(c) == "" && !c.HasSubCommands() {
		lacks = append(lacks, c.CommandPath()+" does not say what Ctrl-C does")
	}
	for _, sub := range c.Commands() {
		lacks = append(lacks, Bare(sub)...)
	}
	return lacks
}

// Undecided returns the flags of c and of the commands below it whose value is a word and which
// have no key in all. There are few of them, so each deserves a decision.
func Undecided(c *cobra.Command, all usage.Completed) (flags []string) {
	path := strings.TrimPrefix(c.CommandPath(), c.Root().Name())
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		_, one := all[strings.TrimSpace(path+" --"+f.Name)]
		_, every := all["--"+f.Name]
		if strings.HasPrefix(f.Value.Type(), "string") && !one && !every {
			flags = append(flags, c.CommandPath()+" --"+f.Name)
		}
	})
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			flags = append(flags, Undecided(sub, all)...)
		}
	}
	return flags
}

// Odd returns faults in the help of a command and of those below it. Package pflag takes a name in
// back quotes within a flag's text as the name of the flag's argument. Only a name in capital
// letters, such as FILE, is meant as one.
func Odd(c *cobra.Command) (odd []string) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		name, _ := pflag.UnquoteUsage(f)
		if name != "" && !capitals(name) && name != typeName(f) {
			odd = append(odd, fmt.Sprintf("%s: --%s %s", c.CommandPath(), f.Name, name))
		}
	})
	for _, sub := range c.Commands() {
		odd = append(odd, Odd(sub)...)
	}
	return odd
}

// typeName returns the name that help gives to a flag's argument if the flag names none.
func typeName(f *pflag.Flag) string {
	plain := *f
	plain.Usage = ""
	name, _ := pflag.UnquoteUsage(&plain)
	return name
}

func capitals(s string) bool {
	for _, r := range s {
		if r < 'A' || r > 'Z' {
			return false
		}
	}
	return true
}
