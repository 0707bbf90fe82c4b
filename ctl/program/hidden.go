package program

// This file makes the commands of programs that only benchmarks run on a lab.

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/output"
)

// hidden returns the command of such a program. Its options are those that Arguments wrote.
func hidden[O, R any](name string, run func(O, context.Context, *Flags) (R, error)) *cobra.Command {
	var f Flags
	var text string
	c := &cobra.Command{
		Use:    name,
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var o O
			if err := json.Unmarshal([]byte(text), &o); err != nil {
				return fmt.Errorf("--options %.60q: %w; this command is for funet's own use", text, err)
			}
			if err := f.Check(); err != nil {
				return err
			}
			r, err := run(o, c.Context(), &f)
			if err != nil {
				return err
			}
			return output.JSON(r)
		},
	}
	f.Register(c)
	c.Flags().StringVar(&text, "options", "", "of the program, in JSON")
	return c
}

// arguments returns the flags by which hidden gets options.
func arguments(o any) []string {
	text, _ := json.Marshal(o) // which numbers and words cannot fail
	return []string{"--options", string(text)}
}
