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
