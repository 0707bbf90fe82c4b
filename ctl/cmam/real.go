package cmam

// This file is `funet cmam`: the CMAM primitives benchmark of the thesis in real time, over AF_XDP,
// by default on machines as slow as a hardware profile.

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/program"
	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/apps"
)

// hereResult is the JSON document. It has rows like those of `funet sim cmam`, with the measured
// value in place of the model's, and how well the hosts kept the profile.
type hereResult struct {
	program.Place
	Nodes  int `json:"nodes"`
	Rounds int `json:"rounds"`
	comparison
}

// options are the program's flags.
type options struct {
	rounds int
	beside bool
}

// args returns the flags for these options.
func (o options) args() []string {
	return []string{"--rounds", fmt.Sprint(o.rounds), fmt.Sprintf("--beside=%t", o.beside)}
}

// Command is `funet cmam`.
func Command() *cobra.Command {
	var f program.Flags
	var o options
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
			if err := program.InRange("--rounds", o.rounds, 1, 100); err != nil {
				return err
			}
			if f.Slots <= messages {
				return fmt.Errorf("--slots %d: the benchmark keeps %d messages in a queue; use at least 256",
					f.Slots, messages)
			}
			r, err := program.Run(c, &f, o.args(), o.run)
			if err != nil {
				return err
			}
			return program.Show(f.JSON, r)
		},
	}
	f.Register(c)
	c.Flags().BoolVar(&o.beside, "beside", false, "with a modelled machine: each row beside virtual time, too")
	c.Flags().IntVar(&o.rounds, "rounds", 15, "how often everything is measured; rows are medians")
	return c
}

// run runs one node.
func (o options) run(n *program.Node) (*hereResult, error) {
	found, err := apps.CMAM(n.Endpoint, n.Segment, n.Now,
		apps.CMAMOptions{Messages: messages, Rounds: o.rounds, Progress: n.Progress})
	if err != nil {
		return nil, err
	}
	r := &hereResult{Nodes: n.Endpoint.Nodes(), Rounds: o.rounds, Place: n.Where()}
	found = slices.DeleteFunc(found, func(f apps.CMAMRow) bool { return f.Name == "barrier" })
	switch {
	case found == nil:
	case o.beside && (n.Own == nil || n.Own.CPU() == nil):
		return nil,
			fmt.Errorf("--beside: profile %s models no machine, so there is no virtual time; use one that does, such as sbus-arctic", r.Profile)
	case n.Own == nil || n.Own.CPU() == nil:
		for _, f := range found {
			row := tableRow{Name: f.Name, Measure: f.Measure, Unit: "us"}
			if f.Bytes > 0 {
				row.Unit = "MB/s"
			}
			row.measured(f, 0)
			r.Rows = append(r.Rows, row)
		}
	default:
		table, err := readTable61()
		if err != nil {
			return nil, err
		}
		table = slices.DeleteFunc(table, func(row tableRow) bool { return row.Name == "barrier" })
		compared, err := compareRows(n.Profile, table, found)
		if err != nil {
			return nil, err
		}
		r.comparison = compared.comparison
		if o.beside {
			if err := r.compareVirtual(n.Profile); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// compareVirtual adds the results of the benchmark in virtual time to the rows.
func (r *hereResult) compareVirtual(p *hwprofiles.Profile) error {
	found, err := simulateOn(p, r.Nodes, apps.CMAMOptions{Messages: messages})
	if err != nil {
		return err
	}
	table, err := readTable61()
	if err != nil {
		return err
	}
	virtual, err := compareRows(p, slices.DeleteFunc(table, func(row tableRow) bool {
		return row.Name == "barrier"
	}), found)
	if err != nil {
		return err
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		row.VirtualCycles = virtual.Rows[i].Cycles
		row.VirtualDiff = 100 * (row.Cycles/row.VirtualCycles - 1)
	}
	return nil
}

// writeBeside prints the paper's figures, virtual time and real time.
func (r *hereResult) writeBeside(w io.Writer) error {
	cells := [][]string{{"  primitive", "measure", "paper cycles", "virtual time", "real time",
		"to virtual", "to paper"}}
	for _, row := range r.Rows {
		cells = append(cells, []string{"  " + row.Name, row.Measure, fmt.Sprintf("%.1f", row.PaperCycles),
			fmt.Sprintf("%.1f", row.VirtualCycles),
			fmt.Sprintf("%.1f", row.Cycles), fmt.Sprintf("%+.1f %%", row.VirtualDiff),
			fmt.Sprintf("%+.1f %%", row.Diff)})
	}
	return output.Table(w, cells...)
}

// WriteTable prints the result for people.
func (r *hereResult) WriteTable(w io.Writer) error {
	if r.Host != nil {
		fmt.Fprintf(w,
			"CMAM primitives on %d nodes over AF_XDP, modelled as profile %s, medians of %d rounds, beside Table 6.1 of the thesis\n", r.Nodes, r.Profile, r.Rounds)
		write := r.writeRows
		if len(r.Rows) > 0 && r.Rows[0].VirtualCycles > 0 {
			write = r.writeBeside
		}
		if err := write(w); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(w, "CMAM primitives on %d nodes over AF_XDP, medians of %d rounds\n", r.Nodes, r.Rounds)
		cells := [][]string{{"  primitive", "measure", "unit", "measured"}}
		for _, row := range r.Rows {
			cells = append(cells, []string{"  " + row.Name, row.Measure, row.Unit, fmt.Sprintf("%.3g", row.Model)})
		}
		if err := output.Table(w, cells...); err != nil {
			return err
		}
	}
	return output.Table(w, []string{"XDP mode", r.Modes()})
}
