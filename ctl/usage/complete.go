package usage

// This file tells shells how to complete the values of flags and arguments.

import (
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/funet/funet/hwprofiles"
)

// Values are the possible values of a flag or argument.
type Values struct {
	words func() []string // each may have an explanation behind a tab
	files bool            // names of files are allowed, too
}

// Values that are not a fixed list of words.
var (
	Files      = Values{files: true}    // names of files
	Anything   = Values{}               // stands for values that cannot be listed
	Interfaces = Listed(interfaceNames) // the Ethernet interfaces of this network namespace
	Profiles   = Listed(profileNames)   // the built-in hardware profiles, each with its description
)

// Words returns values that are always the same.
func Words(words ...string) Values { return Listed(func() []string { return words }) }

// Listed returns values that are looked up when the shell asks.
func Listed(words func() []string) Values { return Values{words: words} }

// OrFiles returns the values, or names of files.
func (v Values) OrFiles() Values { return Values{v.words, true} }

// Completed maps flags and arguments to their values. A key --NAME is a flag of all commands that
// have it, and PATH --NAME is a flag of one command. PATH alone is the arguments of a command,
// which are all of the same kind. PATH is without the name of the program.
type Completed map[string]Values

// Register has a shell complete these values in c and in the commands below it. Flags and arguments
// without a key complete nothing, except arguments that are a FILE or a PROGRAM.
func (all Completed) Register(c *cobra.Command) {
	path := pathOf(c)
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		v, ok := all[strings.TrimSpace(path+" --"+f.Name)]
		if !ok {
			v = all["--"+f.Name]
		}
		if f.Value.Type() != "bool" {
			_ = c.RegisterFlagCompletionFunc(f.Name, v.flag) // it fails for help, which has one
		}
	})
	v, ok := all[path]
	switch {
	case ok && path != "":
		c.ValidArgsFunction = v.argument
	case c.ValidArgsFunction == nil && c.Runnable() && !strings.Contains(c.Use, "FILE") &&
		!strings.Contains(c.Use, "PROGRAM"):
		c.ValidArgsFunction = Anything.argument
	}
	for _, sub := range c.Commands() {
		all.Register(sub)
	}
}

// With returns these values and more of them.
func (all Completed) With(more Completed) Completed {
	both := maps.Clone(all)
	maps.Copy(both, more)
	return both
}

func pathOf(c *cobra.Command) string {
	return strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), c.Root().Name()), " ")
}

// flag completes a flag's value. If the flag takes several, with commas between, that is the last.
func (v Values) flag(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	before := begun[:strings.LastIndexByte(begun, ',')+1]
	return v.without(strings.Split(before, ","), before)
}

func (v Values) argument(_ *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	return v.without(given, "")
}

// without returns the values that have not been given, each with the text before in front of it.
func (v Values) without(given []string, before string) (words []string, how cobra.ShellCompDirective) {
	if how = cobra.ShellCompDirectiveNoFileComp; v.files {
		how = cobra.ShellCompDirectiveDefault
	}
	if v.words == nil {
		return nil, how
	}
	for _, w := range v.words() {
		if word, _, _ := strings.Cut(w, "\t"); !slices.Contains(given, word) {
			words = append(words, before+w)
		}
	}
	return words, how
}

func profileNames() (names []string) {
	for _, name := range hwprofiles.Names() {
		if p, err := hwprofiles.Load(name); err == nil {
			name += "\t" + p.About
		}
		names = append(names, name)
	}
	return names
}

func interfaceNames() (names []string) {
	list, _ := net.Interfaces() // where they cannot be listed none is completed
	for _, i := range list {
		if len(i.HardwareAddr) == 6 && i.Flags&net.FlagLoopback == 0 {
			names = append(names, i.Name)
		}
	}
	return names
}
