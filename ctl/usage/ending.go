package usage

// This file tells help what Ctrl-C does: one sentence at the end of a command's help and of its
// page in the manual.

import (
	"strings"

	"github.com/spf13/cobra"
)

// ending is the annotation of a command with its sentence.
const ending = "ctrl-c"

// Endings gives every command that does something, from c downwards, its sentence. This is the
// sentence for the command's path without c's name, such as "lab up", or for the nearest command
// above it that has one. The sentence for "" is that of all other commands.
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

// Ending is the sentence of a command, or nothing.
func Ending(c *cobra.Command) string { return c.Annotations[ending] }

// Bare returns what the help of people's commands lacks, from c downwards: an example, or what
// Ctrl-C does.
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
