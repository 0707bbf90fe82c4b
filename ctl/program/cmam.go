package program

// This file is `funet cmam`: the CMAM primitives benchmark of the thesis in real time, over AF_XDP,
// by default on machines as slow as a hardware profile.

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/paper/virtual"
	"github.com/funet/funet/uspace/apps"
)

// cmamResult is the JSON document. It has rows like those of `funet sim cmam`, with the measured
// value in place of the model's, and how well the hosts kept the profile.
type cmamResult struct {
	Place
	Nodes  int `json:"nodes"`
	Rounds int `json:"rounds"`
	virtual.Comparison
}

// cmamOptions are the program's flags.
type cmamOptions struct {
	rounds int
	beside bool
}

// CMAM is `funet cmam`.
func CMAM() *cobra.Command {
	var f Flags
	var o cmamOptions
	c := &cobra.Command{
		Use:   "cmam",
		Short: "Measure the CMAM primitives, on machines as slow as a profile beside Table 6.1 of the thesis",
		Long: `Run the benchmark of the CMAM primitives (thesis 6.2.1) on two nodes or more, and print
medians over the rounds. With a profile that models a machine each host is as slow as that
machine, and every row of the thesis's Table 6.1 but the barrier's, which is of 32 nodes,
stands beside its figure. The last line says how well the hosts kept the profile's times:
what a host is late comes into the figures.

Microseconds are for one call, MB/s and cycles of block transfers for 16 bytes. The
difference is that of the cycles, positive where the machine measured is slower. With
--beside each row also stands beside the same benchmark on as many nodes in virtual time, so
that what the host could not keep is seen apart from what the model lacks. What the rows mean, and why the model of a row differs, ` + "`funet sim cmam --explain`" + ` says.`,
		Example: `  funet cmam --lab 2 --profile sbus-arctic
  funet cmam --lab 2 --profile sbus-arctic --beside   # and virtual time
  funet cmam --lab 2                                        # the host as it is
  funet cmam --iface eth1 --node 0 --peers peers.yaml --profile sbus-arctic`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := InRange("--rounds", o.rounds, 1, 100); err != nil {
				return err
			}
			if f.Slots <= virtual.Messages {
				return fmt.Errorf("--slots %d: the benchmark keeps %d messages in a queue; use at least 256", f.Slots,
					virtual.Messages)
			}
			args := []string{"--rounds", fmt.Sprint(o.rounds), fmt.Sprintf("--beside=%t", o.beside)}
			r, err := Run(c, &f, args, o.run)
			if err != nil {
				return err
			}
			return Show(f.JSON, r)
		},
	}
	f.Register(c)
	c.Flags().BoolVar(&o.beside, "beside", false, "with a modelled machine: each row beside virtual time, too")
	c.Flags().IntVar(&o.rounds, "rounds", 15, "how often everything is measured; rows are medians")
	return c
}

// run runs one node.
func (o cmamOptions) run(n *Node) (*cmamResult, error) {
	found, err := apps.CMAM(n.Endpoint, n.Segment, n.Now,
		apps.CMAMOptions{Messages: virtual.Messages, Rounds: o.rounds, Progress: n.Progress})
	r := &cmamResult{Nodes: n.Endpoint.Nodes(), Rounds: o.rounds, Place: n.Where()}
	if err != nil || found == nil {
		return r, err
	}
	if modelled := n.Own != nil && n.Own.CPU() != nil; !modelled && o.beside {
		return nil, fmt.Errorf("--beside: profile %s models no machine, so there is no virtual time; "+
			"use one that does, such as sbus-arctic", r.Profile)
	} else if !modelled {
		for _, f := range found {
			row := virtual.Row{Name: f.Name, Measure: f.Measure, Unit: "us"}
			if f.Bytes > 0 {
				row.Unit = "MB/s"
			}
			if row.Take(f, 0); f.Name != barrier {
				r.Rows = append(r.Rows, row)
			}
		}
		return r, nil
	}
	table := slices.DeleteFunc(virtual.Table61(), func(row virtual.Row) bool { return row.Name == barrier })
	if r.Comparison, err = virtual.Compare(n.Profile, table, found); err != nil || !o.beside {
		return r, err
	}
	if found, err = virtual.CMAM(n.Profile, r.Nodes, apps.CMAMOptions{Messages: virtual.Messages}); err != nil {
		return nil, err
	}
	beside, err := virtual.Compare(n.Profile, table, found)
	if err != nil {
		return nil, err
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		row.VirtualCycles = beside.Rows[i].Cycles
		row.VirtualDiff = 100 * (row.Cycles/row.VirtualCycles - 1)
	}
	return r, nil
}

// barrier is the row of the table that is left out: it is of 32 nodes.
const barrier = "barrier"

// besideCells returns the paper's figures, virtual time and real time as cells of a table.
func (r *cmamResult) besideCells() [][]string {
	cells := [][]string{{"  primitive", "measure", "paper cycles", "virtual time", "real time",
		"to virtual", "to paper"}}
	for _, row := range r.Rows {
		cells = append(cells, []string{"  " + row.Name, row.Measure, fmt.Sprintf("%.1f", row.PaperCycles),
			fmt.Sprintf("%.1f", row.VirtualCycles), fmt.Sprintf("%.1f", row.Cycles),
			fmt.Sprintf("%+.1f %%", row.VirtualDiff), fmt.Sprintf("%+.1f %%", row.Diff)})
	}
	return cells
}

// WriteTable prints the result for people.
func (r *cmamResult) WriteTable(w io.Writer) error {
	of, summary := fmt.Sprintf("medians of %d rounds", r.Rounds), ""
	cells := [][]string{{"  primitive", "measure", "unit", "measured"}}
	switch {
	case r.Host == nil:
		for _, row := range r.Rows {
			cells = append(cells, []string{"  " + row.Name, row.Measure, row.Unit, fmt.Sprintf("%.3g", row.Model)})
		}
	case len(r.Rows) > 0 && r.Rows[0].VirtualCycles > 0:
		cells = r.besideCells()
	default:
		cells, summary = r.Cells(), r.Summary()+"\n"
	}
	if r.Host != nil {
		of = fmt.Sprintf("modelled as profile %s, %s, beside Table 6.1 of the thesis", r.Profile, of)
	}
	fmt.Fprintf(w, "CMAM primitives on %d nodes over AF_XDP, %s\n", r.Nodes, of)
	if err := output.Table(w, cells...); err != nil {
		return err
	}
	fmt.Fprint(w, summary)
	return output.Table(w, []string{"XDP mode", r.Modes()})
}
