package usage

// This file adds one sentence about Ctrl-C at the end of a command's help and manual page.

import (
	"strings"

	"github.com/spf13/cobra"
)

// ending names the annotation of a command that holds its sentence.
const ending = "ctrl-c"

// Endings gives its sentence to every command, from c downwards, that can be run. The key of a
// sentence is the command's path without c's name, such as "lab up". A command without a sentence
// takes that of the nearest command above it, or else the sentence of "".
func Endings(c *cobra.Command, sentences map[string]string) {
	c.SetUsageTemplate(strings.TrimRight(c.UsageTemplate(), "\n") + "{{with index .Annotations \"" + ending +
		"\"}}\n\n{{.}}{{end}}\n")
	endings(c, sentences[""], sentences)
}

func endings(c *cobra.Command, above string, sentences map[string]string) {
	if s, ok := sentences[pathOf(c)]; ok {
		above = s
	}
	if c.Runnable() {
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations[ending] = above
	}
	for _, sub := range c.Commands() {
		endings(sub, above, sentences)
	}
}

// Ending returns the sentence of a command, or "".
func Ending(c *cobra.Command) string { return c.Annotations[ending] }

// Bare returns what the help of the visible commands lacks, from c downwards: an example, or the
// effect of Ctrl-C.
func Bare(c *cobra.Command) (lacks []string) {
	if c.Hidden || c.Name() == "help" || c.GroupID == PagesGroup {
		return nil
	}
	if c.HasParent() && c.Example == "" {
		lacks = append(lacks, c.CommandPath()+" has no example")
	}
	if Ending(c) == "" && !c.HasSubCommands() {
		lacks = append(lacks, c.CommandPath()+" does not say what Ctrl-C does")
	}
	for _, sub := range c.Commands() {
		lacks = append(lacks, Bare(sub)...)
	}
	return lacks
}
