package usage

// This file is `funet man` and `funid man`, which the packages are built with.

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// Man returns the hidden command `man FOLDER`, which writes a page for each command that people see
// into the folder, for a section of the manual such as "8". Pages are dated SOURCE_DATE_EPOCH, or today.
func Man(section string) *cobra.Command {
	return &cobra.Command{
		Use:    "man FOLDER",
		Short:  "Write the manual's pages",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("writing the manual's pages: %w", err)
			}
			root := c.Root()
			root.DisableAutoGenTag = true
			describe(root)
			if err := doc.GenManTree(root, &doc.GenManHeader{Section: section, Source: "FUNet", Manual: "FUNet"}, args[0]); err != nil {
				return fmt.Errorf("writing the manual's pages into %s: %w", args[0], err)
			}
			return nil
		},
	}
}

// describe makes the descriptions of c and the commands below it those of pages: with what Ctrl-C does, and with
// paragraphs that are indented as a whole as they are. The pages are made by way of Markdown, which wants four spaces for that.
func describe(c *cobra.Command) {
	paragraphs := strings.Split(cmp.Or(c.Long, c.Short), "\n\n")
	for i, p := range paragraphs {
		lines := strings.Split(strings.Trim(p, "\n"), "\n")
		whole := true
		for _, line := range lines {
			whole = whole && strings.HasPrefix(line, "  ")
		}
		if whole {
			paragraphs[i] = "    " + strings.Join(lines, "\n    ")
		}
	}
	if e := Ending(c); e != "" {
		paragraphs = append(paragraphs, e)
	}
	c.Long = strings.Join(paragraphs, "\n\n")
	for _, sub := range c.Commands() {
		describe(sub)
	}
}
