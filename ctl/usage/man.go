package usage

// This file is `funet man` and `funid man`, which are used when packages are built.

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/funet/funet/ctl/manual"
)

// PagesGroup is the ID of the group of commands that print pages of the manual.
const PagesGroup = "pages"

// Written says which pages Man writes. For a section of the manual such as "8" the pages of
// commands go into FOLDER/man8.
type Written struct {
	Section string
	Of      []string                  // the commands, as words behind the program's; nil: all
	Manual  []manual.Page             // pages of ctl/manual, for a folder of their section
	More    func(folder string) error // writes pages of other programs; nil: there are none
}

// Man returns the hidden command `man FOLDER`, which writes a page for each visible command. All
// are dated SOURCE_DATE_EPOCH, or today.
func Man(w Written) *cobra.Command {
	return &cobra.Command{
		Use:    "man FOLDER",
		Short:  "Write the manual's pages",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			root := c.Root()
			for _, page := range root.Commands() {
				if page.GroupID == PagesGroup {
					root.RemoveCommand(page)
				}
			}
			root.DisableAutoGenTag = true
			describe(root)
			folder := filepath.Join(args[0], "man"+w.Section)
			err := os.MkdirAll(folder, 0o755)
			paths := w.Of
			if paths == nil {
				paths = []string{""}
			}
			for _, path := range paths {
				c, _, missing := root.Find(strings.Fields(path))
				err = cmp.Or(err, missing, doc.GenManTree(c, &doc.GenManHeader{Section: w.Section, Source: "FUNet",
					Manual: "FUNet"}, folder))
			}
			if err == nil && len(w.Manual) > 0 {
				err = writePages(filepath.Join(args[0], "man"+manual.Section), w.Manual)
			}
			if err == nil && w.More != nil {
				err = w.More(args[0])
			}
			if err != nil {
				return fmt.Errorf("writing the manual's pages into %s: %w", args[0], err)
			}
			return nil
		},
	}
}

func writePages(folder string, pages []manual.Page) error {
	date := time.Now()
	if epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		date = time.Unix(epoch, 0)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, p := range pages {
		if err := os.WriteFile(filepath.Join(folder, "funet-"+p.Name+"."+manual.Section), p.Roff(date),
			0o644); err != nil {
			return err
		}
	}
	return nil
}

// describe turns the descriptions of c and the commands below it into those of pages. It adds the
// effect of Ctrl-C, and keeps paragraphs as they are if all their lines are indented. The pages are
// made by way of Markdown, which takes four spaces for that.
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
