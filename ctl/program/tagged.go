package program

// This file is `funet rats`: round trips of tagged writes in real time, on machines as slow as a
// profile, compared with virtual time.

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/uspace/rats"
	"github.com/funet/funet/uspace/timing"
)

// taggedResult is the JSON document. Its microseconds are those of round trips.
type taggedResult struct {
	RatsResult
	Bytes int `json:"bytes"`
	// nil: the profile does not model a machine with package rats
	Virtual *float64 `json:"virtual_rtt_p50_us"`
	Diff    *float64 `json:"diff_to_virtual_percent"` // difference of the medians
}

// Tagged is `funet rats`.
func Tagged() *cobra.Command {
	var f Flags
	o := RatsOptions{Do: RatsTags}
	c := &cobra.Command{
		Use:   "rats",
		Short: "Measure round trips of tagged writes, on machines as slow as a profile beside virtual time",
		Long: `Measure round trips of tagged writes of package rats between nodes 0 and 1 of a lab: each write is answered by one.
With profile hamlyn both hosts are as slow as the machine of HPL-95-86, whose card and library take what the steps of its
tables 1 and 3 say, and the same round trip in virtual time stands beside it. The last line says how well the hosts kept
the profile's times: what a host is late comes into the figure.`,
		Example: `  funet rats --lab 2 --profile hamlyn
  funet rats --lab 2                      # the host as it is`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := cmp.Or(InRange("--bytes", o.Bytes, 1, rats.MaxTagged), o.check(), f.Check()); err != nil {
				return err
			}
			if f.Lab < 2 {
				return errors.New("--lab: round trips are between two hosts of a lab; add --lab 2")
			}
			all, err := onLab[RatsResult](c.Context(), &f, RatsProgram, o.Arguments())
			if err != nil {
				return err
			}
			all[0].Host.add(all[1].Host) // the worse of the two reports on keeping the profile
			r := &taggedResult{RatsResult: all[0], Bytes: o.Bytes}
			if r.Host != nil {
				o.Count, o.WarmUp = virtualRounds, virtualRounds/10
				v, err := RatsInVirtualTime(f.machine, o)
				switch {
				case err == nil:
					diff := (r.P50/v.P50 - 1) * 100
					r.Virtual, r.Diff = &v.P50, &diff
				case !errors.Is(err, timing.ErrRats): // else its library is package am's
					return err
				}
			}
			return Show(f.JSON, r)
		},
	}
	f.Register(c)
	p := c.Flags()
	p.IntVar(&o.Bytes, "bytes", 16, "of each write, up to 56")
	p.IntVar(&o.Count, "count", 20_000, "round trips to measure")
	p.IntVar(&o.WarmUp, "warm-up", 2_000, "round trips before that")
	return c
}

// virtualRounds is the number of round trips in virtual time; their median stands for all.
const virtualRounds = 1000

// WriteTable prints the result for people.
func (r *taggedResult) WriteTable(w io.Writer) error {
	lines := [][]string{{"tagged writes of", "p50", "p99", "virtual time", "to virtual"},
		{fmt.Sprintf("%d bytes, there and back", r.Bytes), fmt.Sprintf("%.2f us", r.P50),
			fmt.Sprintf("%.2f us", r.P99), "", ""}}
	if r.Virtual != nil {
		lines[1][3], lines[1][4] = fmt.Sprintf("%.2f us", *r.Virtual), fmt.Sprintf("%+.1f %%", *r.Diff)
	}
	if err := output.Table(w, lines...); err != nil {
		return err
	}
	return output.Table(w, []string{"XDP mode", r.Modes()})
}
