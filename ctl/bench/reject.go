package bench

// This file is `funet bench reject`: how soon a sender hears that a group is not there.

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/program"
)

// The contenders are roles: the NIC program of the receiving host answers, or the card there.
const (
	byKernel = "by_kernel"
	byEngine = "by_engine"
)

// rejects compares answers to frames of an absent group.
type rejects struct{ exchanges int }

func (o *rejects) command(f *flags) *cobra.Command {
	c := &cobra.Command{
		Use:     "reject",
		Example: "  funet bench reject\n  funet bench reject --rounds 9 --json",
		Short:   "Compare the answers of kernel and card to frames of an absent group",
		Long: `Measure the time from a frame of a group that the other host does not have to its
answer: that of the other host's NIC program, which has the sender wait, and that of
its card, which rejects the packet. The card spins on a processor of its own, so it
is as quick as a card can be. Both take turns, with raw_afxdp, whose round trip tells
the state of the machine; figures are medians over the rounds.`,
	}
	f.number(c, &o.exchanges, "exchanges", exchangeLimits, "answers of each contender and round")
	return f.register(c, 2, 2, 2)
}

func (o *rejects) enter(_ context.Context, m *match) (err error) {
	m.what, m.unit, m.deadline = "compare rejections", "p50 us", patient(o.exchanges)
	m.exchanges = o.exchanges
	if m.modes.Attach, err = program.ParseAttach(m.f.Mode); err == nil {
		m.modes.Bind, err = program.ParseBind(m.f.Bind)
	}
	if err == nil {
		err = m.fill()
	}
	for _, role := range []string{byKernel, byEngine, rawAFXDP} {
		m.theirs(role, func(ctx context.Context) (float64, error) {
			found, err := own(role)(ctx, m.session)
			return found.P50, err
		})
	}
	return err
}

func (o *rejects) report(m *match) (r report, err error) {
	r.with(figure{"by_kernel_p50_us", m.median(byKernel)}, figure{"by_engine_p50_us", m.median(byEngine)},
		figure{"raw_afxdp_rtt_p50_us", m.median(rawAFXDP)}, figure{"kernel_of_engine", m.ratio(byKernel, byEngine)},
		figure{"rounds_kernel_of_engine", m.ratios(byKernel, byEngine)}, figure{"rounds", m.rounds},
		figure{"exchanges", o.exchanges}, figure{"xdp_mode", m.got.Attach.String()},
		figure{"bind_mode", m.got.Bind.String()})
	r.print("answers to frames of an absent group, medians of %d rounds; XDP %v, %v\n", m.rounds, m.got.Attach,
		m.got.Bind)
	r.print("%-10s %9s  %s\n", "", "p50 us", "rounds")
	for _, name := range []string{byKernel, byEngine, rawAFXDP} {
		r.print("%-10s %9.2f  %s\n", name, m.median(name), list("%.2f", m.of(name).figures, 1))
	}
	r.print("kernel of engine: %.3f (rounds: %s)\n", m.ratio(byKernel, byEngine), ratios3(m.ratios(byKernel, byEngine)))
	return r, nil
}
