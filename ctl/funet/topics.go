package main

// This file is pages of the manual that are about no command: `funet help tuning`, or `funet tuning`.

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

//go:embed topics/tuning.txt
var tuningPage string

//go:embed topics/clouds.txt
var cloudsPage string

// topicCommands are the pages, each a command that prints itself.
func topicCommands() []*cobra.Command {
	page := func(name, short, text string) *cobra.Command {
		return &cobra.Command{
			Use: name, Example: "  funet " + name + " | less", Short: short, Long: strings.TrimSpace(text), Args: cobra.NoArgs,
			RunE: func(c *cobra.Command, _ []string) error {
				_, err := fmt.Fprint(c.OutOrStdout(), text)
				return err
			},
		}
	}
	return []*cobra.Command{
		page("tuning", "Page: what makes round trips shorter, and how to see what it brought", tuningPage),
		page("clouds", "Page: what is known of cloud networks and their NICs", cloudsPage),
	}
}
