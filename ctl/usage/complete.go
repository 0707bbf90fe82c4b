package usage

// This file tells shells what to complete: the values of flags and arguments.

import (
	"net"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Values are what a value may be.
type Values struct {
	words func() []string // each may have an explanation behind a tab
	files bool            // or the name of a file
}

// What is not one of a few words.
var (
	// Files are names of files.
	Files = Values{files: true}
	// Anything stands for values that nobody can know.
	Anything = Values{}
	// Interfaces are those of this network namespace that are Ethernet.
	Interfaces = Listed(interfaceNames)
)

// Words are values that are always the same.
func Words(words ...string) Values { return Listed(func() []string { return words }) }

// Listed are values that are looked up when the shell asks.
func Listed(words func() []string) Values { return Values{words: words} }

// OrFiles are the values, or names of files.
func (v Values) OrFiles() Values { return Values{v.words, true} }

// Completed are the values of flags and arguments. Keys are --NAME of a flag, which holds for all
// commands that have it, PATH --NAME for one command's, and PATH for the arguments of a command,
// which are all of the same kind. PATH is without the name of the program.
type Completed map[string]Values

// Register has a shell complete these values in c and in the commands below it. Flags and arguments
// that have no key complete nothing, but for arguments that are a FILE or a PROGRAM.
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

// Undecided returns the flags of c and the commands below it whose value is a word and which have
// no key. A command line has few of them, so somebody should think of each.
func (all Completed) Undecided(c *cobra.Command) (flags []string) {
	path := pathOf(c)
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		_, one := all[strings.TrimSpace(path+" --"+f.Name)]
		_, every := all["--"+f.Name]
		if strings.HasPrefix(f.Value.Type(), "string") && !one && !every {
			flags = append(flags, c.CommandPath()+" --"+f.Name)
		}
	})
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			flags = append(flags, all.Undecided(sub)...)
		}
	}
	return flags
}

// pathOf is the command's path without the name of the program.
func pathOf(c *cobra.Command) string {
	return strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), c.Root().Name()), " ")
}

// flag completes a flag's value; of one that takes several, with commas between them, the last.
func (v Values) flag(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	before := begun[:strings.LastIndexByte(begun, ',')+1]
	return v.without(strings.Split(before, ","), before)
}

// argument completes an argument that has not been given yet.
func (v Values) argument(_ *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	return v.without(given, "")
}

// without returns the values that have not been given, with what stands before them.
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

func interfaceNames() (names []string) {
	list, _ := net.Interfaces() // where they cannot be listed none is completed
	for _, i := range list {
		if len(i.HardwareAddr) == 6 && i.Flags&net.FlagLoopback == 0 {
			names = append(names, i.Name)
		}
	}
	return names
}
