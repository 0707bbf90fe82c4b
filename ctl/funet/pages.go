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
		page := &cobra.Command{Use: p.Name, Short: p.Title, Args: cobra.NoArgs, GroupID: usage.PagesGroup}
		show := func(c *cobra.Command) error {
			_, err := fmt.Fprint(c.OutOrStdout(), p.Terminal())
			return err
		}
		page.RunE = func(c *cobra.Command, _ []string) error { return show(c) }
		// usage.Output keeps the error
		page.SetHelpFunc(func(c *cobra.Command, _ []string) { _ = show(c) })
		pages = append(pages, page)
	}
	return pages
}
