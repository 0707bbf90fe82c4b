package main

// This file is `funet sim gang`: jobs that take turns on several hosts, in virtual time.

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/program"
	"github.com/funet/funet/ctl/usage"
	"github.com/funet/funet/uspace/sim/gang"
)

func gangCommand() *cobra.Command {
	var o gang.Options
	var asJSON bool
	c := &cobra.Command{
		Use:   "gang",
		Short: "Measure what jobs keep of their rate that take turns on simulated cards",
		Long: `Measure in virtual time what jobs keep of their rate on cards with room for one of
them (gang scheduling, thesis 4.3). Two jobs have a process on each host. In a round
each process sends a message to every other one, and waits for theirs. The hosts'
clocks begin anywhere, and run up to 100 millionths faster or slower. The same hosts
and seed give the same figures.

Cases: alone (each host takes its turns alone), together (all at the same time), gone
(together, after the clock of the first card fell silent), liar (together, while a card
with a lower number tells each host another time), wide (together, a job on all hosts
beside one on each two of them). Turns withstand a liar among four cards or more. With
two hosts it is one of three.`,
		Example: `  funet sim gang
  funet sim gang --hosts 8 --seed 7 --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := program.InRange("--hosts", o.Hosts, gang.MinHosts, gang.MaxHosts); err != nil {
				return usage.Explain(c, err)
			}
			return runGang(c.Context(), o, asJSON)
		},
	}
	f := c.Flags()
	f.IntVar(&o.Hosts, "hosts", 4, "hosts, each with a card and a process of each job")
	f.Uint64Var(&o.Seed, "seed", 5, "seed of the clocks, and of what is lost of the times that they tell")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func runGang(ctx context.Context, o gang.Options, asJSON bool) error {
	told := output.Begin("simulating", 0)
	defer told.End()
	r, err := gang.Run(ctx, o)
	if err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	told.End()
	return output.Show(asJSON, gangReport{r})
}

// gangReport is what sim gang prints.
type gangReport struct{ *gang.Result }

// WriteTable prints the report for people.
func (r gangReport) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "%s with room for %s: a job alone does %.0f rounds a second\n", output.Count(r.Hosts, "host"),
		output.Count(r.Room, "group"), r.Alone)
	rows := [][]string{{"  of a half", "case"}}
	for _, c := range r.Cases {
		least, most := c.Share[0], c.Share[0]
		for _, s := range c.Share {
			least, most = min(least, s), max(most, s)
		}
		rows = append(rows, output.Row(fmt.Sprintf("  %.2f to %.2f", least, most), c.Does))
	}
	return output.Table(w, rows...)
}
