package bench

// This file is `funet bench rats`.

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/program"
)

const (
	ratsBytes = 16       // of a short message: those of a request of four words
	ratsBlock = 16 << 10 // bytes of a long message, and of a block to compare
)

// keyed compares package rats with active messages and transfers. Short messages are compared with
// am's ping-pong. Long messages with their notification are compared with blocks, one at a time.
type keyed struct{ exchanges int }

func (o *keyed) command(f *flags) *cobra.Command {
	c := &cobra.Command{
		Use:   "rats",
		Short: "Compare writes to keyed memory (package rats) with active messages and transfers",
		Long: `Compare round trips of package rats with those of active messages, and its long messages with transfers. A tagged
write of 16 bytes that is answered by another, and a simple datagram of 16 bytes that carries the ticket for its answer, stand
beside a request and a reply of four words. A message of 16 KiB that a notification tells about, answered by one without
data, stands beside the transfer of a block of 16 KiB, one at a time. They take turns; figures are medians over the rounds,
and ratios medians of those in each round.`,
		Example: "  funet bench rats --lab 2 --json",
	}
	f.number(c, &o.exchanges, "exchanges", exchangeLimits, "round trips in each run; a tenth of them of long messages")
	f.RegisterCard(c)
	return f.register(c, 2, 2, 2)
}

func (o *keyed) enter(_ context.Context, m *match) error {
	m.what, m.unit, m.deadline = "measure rats", "us", patient(o.exchanges)
	long := max(o.exchanges/10, 1)
	by := func(do string, bytes, count, warmUp int) args {
		return program.RatsOptions{Do: do, Bytes: bytes, Count: count, WarmUp: warmUp}
	}
	m.funet("tags", program.RatsProgram, by(program.RatsTags, ratsBytes, o.exchanges, warmUp), p50)
	m.funet("calls", program.RatsProgram, by(program.RatsCalls, ratsBytes, o.exchanges, warmUp), p50)
	m.funet("am", "pingpong", pingPong(o.exchanges), p50)
	m.funet("bulk", program.RatsProgram, by(program.RatsBulk, ratsBlock, long, warmUp/10), p50)
	m.funet("xfer", "transfer", transfer(long*ratsBlock, ratsBlock, 1),
		func(n []node) float64 { return ratsBlock * 8 / n[0].Goodput / 1e3 })
	return nil
}

func (o *keyed) report(m *match) (r report, err error) {
	own, err := ratsCalls()
	if err != nil {
		return r, err
	}
	r.with(figure{"tagged_ratio_to_am", m.ratio("tags", "am")}, figure{"call_ratio_to_am", m.ratio("calls", "am")},
		figure{"bulk16k_ratio_to_xfer", m.ratio("bulk", "xfer")}, figure{"tagged_rtt_p50_us", m.median("tags")},
		figure{"call_p50_us", m.median("calls")}, figure{"am_rtt_p50_us", m.median("am")},
		figure{"bulk16k_p50_us", m.median("bulk")}, figure{"xfer16k_us", m.median("xfer")}, figure{"own_calls", own},
		figure{"rounds_tagged_ratio_to_am", m.ratios("tags", "am")},
		figure{"rounds_call_ratio_to_am", m.ratios("calls", "am")},
		figure{"rounds_bulk16k_ratio_to_xfer", m.ratios("bulk", "xfer")},
		figure{"rounds", m.rounds}, figure{"exchanges", o.exchanges}, figure{"xdp_mode", m.attach},
		figure{"bind_mode", m.bind})
	r.print("package rats beside active messages and transfers; p50 us, medians of %d rounds; XDP %s, %s\n",
		m.rounds, m.attach, m.bind)
	for _, line := range [][4]string{
		{"tagged writes, there and back", "tags", "am's request and reply", "am"},
		{"simple datagrams, there and back", "calls", "am's request and reply", "am"},
		{"16 KiB with notification, answered", "bulk", "a block of 16 KiB", "xfer"},
	} {
		r.print("%-34s %8.2f   %-28s %8.2f   ratio %6.3f (%s)\n", line[0], m.median(line[1]), line[2],
			m.median(line[3]), m.ratio(line[1], line[3]), ratios3(m.ratios(line[1], line[3])))
	}
	r.print("\nthe process's own time for a call, without the card's, beside that of HPL-95-86 (PA-7200, 120 MHz)\n")
	for _, c := range own {
		r.print("%-34s %8.0f ns   table %d, on the path %8.2f us\n", c.Call, c.NS, c.Table, c.Paper)
	}
	return r, nil
}
