package paper

// This file is `funet sim ni`: it compares each term and total with the thesis's.

import (
	"errors"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/usage"
	"github.com/funet/funet/hwprofiles"
)

const (
	// writeBytes is the length of the write of section 4.3: a burst.
	writeBytes = 32
	// accessClocks is the number of clocks of a bus transaction besides its words, by section
	// 4.1.2, which computes the capacity of the bus.
	accessClocks = 4
	// mostMembers is the most members, besides the sender, of machines at one crossbar
	// (sim.NewPacedCluster).
	mostMembers = 7
)

// tokyoReport is the JSON document.
type tokyoReport struct {
	Profile   string      `json:"profile"`
	Cells     []cell      `json:"cells"`
	Worst     float64     `json:"worst_percent"` // of the cells without a slip
	Measured  []measured  `json:"measured"`
	Multicast []multicast `json:"multicast"`
}

// niCommand is `funet sim ni`.
func niCommand() *cobra.Command {
	var f flags
	c := &cobra.Command{
		Long: `Make the figures of a network interface out of a profile, beside those that its thesis printed; where one of
those is a slip, it says which.

Of tokyo and tokyo-text, the Tokyo network interface (1997): the terms and totals of a remote write, out of
its bus and the steps of its link. Then writes, reads and additions stand there as the traffic of two such
machines in virtual time takes, beside the model, when the interface has the entry of the window's table (hit)
and when it has to fetch that (miss). Then the packets of a chained multicast stand beside those of writes to
each member, and what the engine's cards send for both between such machines: packets, by themselves the
frames without packets that acknowledge others, and the time until the last member has the data.

Of virt-ni, ultra, ultra-asic and ultra-htx, the virtualised interface and ULTRA (Froening, 2007): triggers,
register reads, hops and packets of ULTRA, as they run in virtual time. Figures that the profile's own were
derived from are marked. Then one of 16 contexts gets no answer, and the table says how much later the
requests of the others end under each of four policies of issue: single issue, look-ahead, multi-issue, and
that with wait queues. --plot draws it over the time without an answer.`,
		Example: `  funet sim ni --profile tokyo --explain
  funet sim ni --profile ultra --json
  funet sim ni --profile virt-ni --plot issue.svg`,
		RunE: func(c *cobra.Command, _ []string) error {
			p, err := hwprofiles.Load(f.profile)
			switch {
			case err != nil:
				return usage.Explain(c, err)
			case p.IO == hwprofiles.IO{}:
				return f.tokyo(c, p)
			}
			m, err := newVirtualised(p)
			if err != nil {
				return usage.Explain(c, err)
			}
			return f.draw(c, func() (drawn, error) { return m.report(c.Context(), f.explain) })
		},
	}
	f.register(c, "tokyo", " with bus and link, or with io", "what a blocked context costs the others (virt-ni, ultra)",
		"say how each is made")
	return c
}

// errPicture reports --plot with a machine that has no picture.
var errPicture = errors.New("--plot: the Tokyo interface has no picture; use virt-ni or ultra")

// tokyo makes and shows the report of a machine with a bus.
func (f *flags) tokyo(c *cobra.Command, p *hwprofiles.Profile) error {
	m, err := newTokyo(p)
	if err == nil && len(f.plots) > 0 {
		err = errPicture
	}
	if err != nil {
		return usage.Explain(c, err)
	}
	return f.show(m.report(f.explain))
}

// report makes all cells.
func (m *tokyo) report(explain bool) (*tokyoReport, error) {
	r := &tokyoReport{Profile: m.p.Name}
	add := func(section, what, unit string, printed, model float64, slip, how string) {
		c := cell{Case: what, Unit: unit, Section: section, Model: model, Slip: slip}
		if explain {
			c.How = how
		}
		if printed != 0 {
			diff := 100 * (model - printed) / printed
			if c.Printed, c.Diff = &printed, &diff; slip == "" {
				r.Worst = max(r.Worst, math.Abs(diff))
			}
		}
		r.Cells = append(r.Cells, c)
	}
	decodes := ""
	if m.decodes {
		decodes = "4.2 gives the decoder 6 clocks, and the sum of 4.2 leaves them out"
	}
	first := fmt.Sprintf("%v cycles and a word at %v MHz", m.p.Bus.TransactionCycles, m.p.Bus.Clock)
	rest, data := m.access(writeBytes)-m.start, 8e3*doublet/m.clock
	add("4.3", "first word from memory", "ns", 700, m.start, "", first)
	add("4.3", "the other 7 words", "ns", 280, rest, "", "a cycle for each word")
	add("4.2", "latency of the link", "ns", 163, m.latency, decodes, "transceiver, encoder and decoder")
	add("4.3", "32 bytes over the link", "ns", 601.6, m.serialise(writeBytes), "",
		"2 clocks for each doublet of 2 bytes; the clock is 18.82 ns and not 18.8")
	add("4.3", "first word to memory", "ns", 700, m.start, "", "as from memory")
	add("4.3", "the other 7 words, to memory", "ns", 280, rest, "", "as from memory")
	add("4.3", "a write of 32 bytes", "ns", 2723, m.stored(writeBytes),
		"its terms add up to 2724.6, and are those of 32 bytes, not of the 64 that it says", "the sum of the terms")
	add("4.3", "a write of 64 bytes, bursts behind each other", "ns", 0, m.cutThrough(2*writeBytes), "",
		"the second burst is behind the first by what the slowest part takes")
	add("4.3", "a write of 64 bytes, stored in each interface", "ns", 0, m.stored(2*writeBytes), "",
		"all of it goes through each part before the next")
	add("4.1.1", "the link, raw", "Gbit/s", 1.06, codeBits/m.clock, "", "20 bits of code a clock")
	add("4.2", "the link, data", "Mbit/s", 850, data, "", "16 bits a clock")
	add("4.1.1", "the link, data", "Mbit/s", 800, data, "4.2 says 850, which 16 bits a clock are", "16 bits a clock")
	add("4.2", "the link behind the encoder, data", "Mbit/s", 425, 8e3/m.perByte, "", "16 bits in two clocks")
	words := float64(m.burst)
	add("4.1.2", "the bus, with 4 clocks beside the words", "Mbyte/s", 67, 1e3*words*word/((accessClocks+words)*m.next),
		"", "32 bytes in 12 clocks")
	add("4.1.2", "the bus, with the access of 4.3", "Mbyte/s", 0, 1e3*words*word/m.bus(int(words)*word), "",
		"32 bytes in a transaction")
	var err error
	if r.Measured, err = m.measure(); err != nil {
		return nil, err
	}
	for members := 1; members <= mostMembers; members++ {
		c := m.multicast(members)
		if c.Counted, err = countMulticast(m.p, members); err != nil {
			return nil, err
		}
		r.Multicast = append(r.Multicast, c)
	}
	return r, nil
}

// print writes the report for people.
func (r *tokyoReport) print(s *sheet) {
	fmt.Fprintf(s, "profile %s\n%-46s %8s %10s %10s %8s  %s\n", r.Profile, "", "section", "printed",
		"model", "diff", "unit")
	for _, c := range r.Cells {
		printed, diff := "-", "-"
		if c.Printed != nil {
			printed, diff = fmt.Sprintf("%.2f", *c.Printed), fmt.Sprintf("%+.2f %%", *c.Diff)
		}
		fmt.Fprintf(s, "%-46s %8s %10s %10.2f %8s  %s\n", c.Case, c.Section, printed, c.Model, diff, c.Unit)
		if c.How != "" {
			fmt.Fprintf(s, "    %s\n", c.How)
		}
		if c.Slip != "" {
			fmt.Fprintf(s, "    slip: %s\n", c.Slip)
		}
	}
	fmt.Fprintf(s, "worst without a slip: %.2f %%\n\n%-16s %5s %9s %10s %10s %8s\n", r.Worst, "ns, as traffic",
		"bytes", "its entry", "model", "traffic", "diff")
	for _, c := range r.Measured {
		fmt.Fprintf(s, "%-16s %5d %9s %10.2f %10d %+6.2f %%\n", c.Case, c.Bytes, c.Entry, c.ModelNS, c.EngineNS, c.Diff)
	}
	fmt.Fprintf(s, "worst: %.2f %%\n", worst(r.Measured))
	for _, what := range []string{"multicast", "as traffic"} {
		fmt.Fprintf(s, "\n%-10s %28s %28s %22s\n", what, "packets, chain and writes", "sender's copies",
			"us until all have it")
		for _, c := range r.Multicast {
			n, chain, writes := c.carried, c.ChainNS, c.WritesNS
			if what == "as traffic" {
				n, chain, writes = c.Counted.carried, float64(c.Counted.ChainNS), float64(c.Counted.WritesNS)
			}
			fmt.Fprintf(s, "%2d members %20d %7d %20d %7d %14.2f %7.2f\n", c.Members, n.ChainPackets, n.WritesPackets,
				n.ChainCopies, n.WritesCopies, chain/1e3, writes/1e3)
		}
	}
	last := &r.Multicast[len(r.Multicast)-1]
	fmt.Fprintf(s, `The model's interfaces forward a message while they store it; the engine's forward it when it is stored (2.2.1), and the model's
would then take %.2f us to %d members. Frames without packets, which acknowledge others, are not counted: %d beside the chain's
packets there, and %d beside the writes'.
`, last.StoredNS/1e3, last.Members, last.Counted.ChainAcknowledgments, last.Counted.WritesAcknowledgments)
}
