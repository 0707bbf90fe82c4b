package usage

// This file is `funet man` and `funid man`, which packages are made with.

import (
	"fmt"
	"os"

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
			if err := doc.GenManTree(root, &doc.GenManHeader{Section: section, Source: "FUNet", Manual: "FUNet"}, args[0]); err != nil {
				return fmt.Errorf("writing the manual's pages into %s: %w", args[0], err)
			}
			return nil
		},
	}
}
