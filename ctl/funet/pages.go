package main

// This file has the pages of the manual: `funet help hosts`, or `funet hosts`.

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/manual"
	"github.com/funet/funet/ctl/usage"
)

// pageCommands returns the pages, each as a command that prints itself. Its help is the same text.
func pageCommands() (pages []*cobra.Command) {
	for _, p := range manual.Pages() {
		text := p.Terminal()
		page := &cobra.Command{Use: p.Name, Short: p.Title, Long: text, Args: cobra.NoArgs, GroupID: usage.PagesGroup}
		page.RunE = func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(c.OutOrStdout(), text)
			return err
		}
		page.SetHelpFunc(func(c *cobra.Command, _ []string) { fmt.Fprint(c.OutOrStdout(), text) })
		pages = append(pages, page)
	}
	return pages
}
