package bench

// This file is `funet bench rma`.

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/launch"
	"github.com/funet/funet/ctl/program"
)

const (
	rmaBytes = 8       // of a short write
	rmaBlock = 1 << 20 // bytes of a long write, and of a transfer to compare
	rmaDepth = 8       // blocks under way at once
	// rmaPerUCX is the number of FUNet's round trips for each one of UCX's, because some of those
	// take milliseconds. leastUCX is the least number of UCX's round trips.
	rmaPerUCX = 50
	leastUCX  = 1000
)

// rmaOps are the operations of 8 bytes, and UCX's test for each. sample's times are twice the
// printed ones. A test in which both ends take part prints half a round trip, but one in which only
// one end does prints a whole one.
var rmaOps = []struct {
	name, do string
	test     string // "": UCX has none
	trips    float64
}{
	// each end writes, and polls its memory for the write of the other
	{"put", program.RMAPut, "ucp_put_lat", 1},
	{"put_notify", program.RMANotify, "", 0},
	{"get", program.RMAGet, "ucp_get", 0.5},
	{"add", program.RMAAdd, "ucp_fadd", 0.5},
	{"swap", program.RMASwap, "ucp_swap", 0.5},
}

// rma compares operations on another process's memory with active messages, UCX's and others',
// blocks with transfers, and the rate of short writes with that of messages.
type rma struct {
	exchanges int
	daemons   bool
	face      string // faces
	ucxNote   string // why UCX is absent
	rivals    []*rival
}

func (o *rma) command(f *flags) *cobra.Command {
	c := &cobra.Command{
		Use:   "rma",
		Short: "Compare operations on another process's memory with active messages, transfers, UCX and OpenMPI",
		Long: `Compare operations that a card carries out on the memory of another process. Each end of a round trip writes 8 bytes, and
the other sees them in its memory (put), or hears of them by a notification (put_notify); of a read, a fetch-and-add and a
swap of 8 bytes (get, add, swap) the other process has no part. Beside them stand a request and a reply of four words, and
ucx_perftest's ucp_put_lat, ucp_get, ucp_fadd and ucp_swap over TCP. Writes and reads of blocks of 1 MiB stand beside
transfers, and writes of 8 bytes one way beside messages of four words. One-sided operations of OpenMPI, UCX's ucp_put_bw
and libfabric's fi_rma_bw (fabtests) run in the same rounds, all over TCP. They take turns; figures are medians over the
rounds, and ratios medians of those in each round. Tools that are absent are named, and their figures lacking.`,
		Example: "  funet bench rma --lab 2 --json\n  funet bench rma --lab 2 --daemons",
	}
	f.number(c, &o.exchanges, "exchanges", exchangeLimits,
		"round trips in each run; ten times as many writes one way, a hundredth of blocks")
	c.Flags().BoolVar(&o.daemons, "daemons", false, "FUNet through the daemons of both hosts instead of embedded cards")
	c.Flags().StringVar(&o.face, "face", faceRMA, "also measure the operations through this face of remote memory: "+
		program.FaceVirtni+"; "+faceRMA+" measures none")
	c.PreRunE = func(*cobra.Command, []string) error {
		if o.face != faceRMA && o.face != program.FaceVirtni {
			return fmt.Errorf("%w: no face %q; use %s or %s", errOptions, o.face, faceRMA, program.FaceVirtni)
		}
		return nil
	}
	f.RegisterCard(c)
	return f.register(c, 2, 2, 2)
}

// faceRMA is the face that is measured anyway.
const faceRMA = "rma"

// ucxExchanges is the number of round trips of a run of UCX.
func (o *rma) ucxExchanges() int { return max(o.exchanges/rmaPerUCX, leastUCX) }

func (o *rma) enter(ctx context.Context, m *match) error {
	m.what, m.unit, m.deadline = "measure remote writes", "us, Gbit/s, a second", patient(o.exchanges)
	if o.daemons {
		d := lab.DaemonOptions{XDP: m.f.Mode, Bind: m.f.Bind, Jumbo: m.f.Jumbo}
		m.nodes = func(ctx context.Context, _ *program.Flags, name string, args []string) ([]node, error) {
			return program.OnDaemons[node](ctx, m.lab, d, launch.Options{Nodes: 2, Program: "funet",
				Args: append([]string{name, "--json"}, args...)})
		}
	}
	trips, blocks, messages := max(o.exchanges, 2), max(o.exchanges/100, 2*rmaDepth), max(10*o.exchanges, 2)
	of := func(name, do string, count int, figure func([]node) float64) {
		m.funet(name, program.RMAProgram, program.RMAOptions{Do: do, Block: rmaBlock, Count: count, WarmUp: warmUp},
			figure)
	}
	messageRate := func(n []node) float64 { return n[0].Rate }
	m.funet("am", "pingpong", pingPong(trips), p50)
	for _, op := range rmaOps {
		of(op.name, op.do, trips, p50)
	}
	of("put_1m", program.RMABulk, blocks, goodput)
	of("get_1m", program.RMAGets, blocks, goodput)
	m.funet("xfer_1m", "transfer", transfer(blocks*rmaBlock, rmaBlock, rmaDepth), goodput)
	of("put8_rate", program.RMARate, messages, messageRate)
	if o.face == program.FaceVirtni {
		o.enterFace(m, trips, blocks, messages)
	}
	m.funet("rate", "stream", stream(1, messages, rateWords), messageRate)
	if err := m.fill(); err != nil {
		return err
	}
	if o.ucxNote = absent(ucxNeeds); o.ucxNote == "" {
		for _, op := range rmaOps {
			if op.test != "" {
				m.theirs("ucx "+op.test, func(ctx context.Context) (float64, error) {
					sample, err := m.ucx(ctx, op.test, rmaBytes, o.ucxExchanges(), leastUCX/10)
					return sample.P50 * op.trips, err
				}).spared = failures
			}
		}
	}
	o.rivals = o.rivalsOn(m.session)
	for _, v := range o.rivals {
		v.enter(ctx, m)
	}
	return ctx.Err()
}

// operation is the result of one operation. Times outside of rounds are medians over the rounds.
// Ratios outside of rounds are medians of the ratios of each round.
type operation struct {
	Op      string    `json:"op"`
	P50     float64   `json:"p50_us"`
	Ratio   float64   `json:"ratio_to_pingpong"` // P50 by that of active messages
	UCX     *float64  `json:"ucx_p50_us"`        // nil without UCX, or if it has no such operation
	ToUCX   *float64  `json:"ratio_to_ucx"`
	Rounds  []float64 `json:"rounds_ratio_to_pingpong"` // of each round, in order
	RoundsU []float64 `json:"rounds_ratio_to_ucx,omitempty"`
}

// operations returns the results of all operations, and why UCX's figures are lacking.
func (o *rma) operations(m *match) (ops []operation, note string) {
	note = o.ucxNote
	for _, op := range rmaOps {
		r := operation{Op: op.name, P50: m.median(op.name), Ratio: m.ratio(op.name, "am"),
			Rounds: m.ratios(op.name, "am")}
		if o.ucxNote == "" && op.test != "" {
			u := m.of("ucx " + op.test)
			r.UCX, r.RoundsU = median(u.figures), byRound(m.of(op.name).figures, u.figures)
			r.ToUCX = median(r.RoundsU)
			if u.err != nil {
				note = u.err.Error()
			}
		}
		ops = append(ops, r)
	}
	return ops, note
}

func (o *rma) report(m *match) (r report, err error) {
	ops, note := o.operations(m)
	var others []rivalResult
	for _, v := range o.rivals {
		others = append(others, v.report(ops))
	}
	r.with(figure{"ops", ops}, figure{"pingpong_p50_us", m.median("am")})
	if note != "" {
		r.with(figure{"ucx_note", note})
	}
	r.with(figure{"rivals", others}, figure{"get_1m_gbit_per_s", m.median("get_1m")},
		figure{"get_1m_ratio_to_xfer", m.ratio("get_1m", "xfer_1m")},
		figure{"rounds_get_1m_ratio_to_xfer", m.ratios("get_1m", "xfer_1m")},
		figure{"put_1m_gbit_per_s", m.median("put_1m")}, figure{"xfer_1m_gbit_per_s", m.median("xfer_1m")},
		figure{"put_1m_ratio_to_xfer", m.ratio("put_1m", "xfer_1m")},
		figure{"rounds_put_1m_ratio_to_xfer", m.ratios("put_1m", "xfer_1m")},
		figure{"put8_per_s", m.median("put8_rate")}, figure{"msgs_per_s", m.median("rate")},
		figure{"put8_ratio_to_rate", m.ratio("put8_rate", "rate")},
		figure{"rounds_put8_ratio_to_rate", m.ratios("put8_rate", "rate")},
		figure{"rounds", m.rounds}, figure{"exchanges", o.exchanges}, figure{"ucx_exchanges", o.ucxExchanges()},
		figure{"xdp_mode", m.attach}, figure{"bind_mode", m.bind})
	r.print("operations on another process's memory, medians of %d rounds; XDP %s, %s\n", m.rounds, m.attach,
		m.bind)
	r.print("%-34s %9s %9s %9s %9s  %s\n", "8 bytes, there and back", "p50 us", "x am", "UCX us", "x UCX",
		"x am by round")
	for _, op := range ops {
		per := "-" // some of UCX's operations take milliseconds
		if op.ToUCX != nil {
			per = fmt.Sprintf("%.2g", *op.ToUCX)
		}
		r.print("%-34s %9.2f %9.3f %9s %9s  %s\n", op.Op, op.P50, op.Ratio, two(op.UCX), per,
			ratios3(op.Rounds))
	}
	r.print("%-34s %9.2f\n", "am's request and reply", m.median("am"))
	line := func(title, unit, name, beside, other string, by float64) {
		r.print("%-34s %9.2f %s, %s %.2f, ratio %.3f (%s)\n", title, m.median(name)/by, unit, beside,
			m.median(other)/by, m.ratio(name, other), ratios3(m.ratios(name, other)))
	}
	line("blocks of 1 MiB, 8 at once", "Gbit/s", "put_1m", "transfers", "xfer_1m", 1)
	line("gets of 1 MiB, 8 at once", "Gbit/s", "get_1m", "transfers", "xfer_1m", 1)
	line("8 bytes, one way", "million/s", "put8_rate", "messages", "rate", 1e6)
	if o.face == program.FaceVirtni {
		o.reportFace(m, &r)
	}
	if note != "" {
		r.print("ucx: %s\n", note)
	}
	for _, v := range others {
		r.print("%v\n", &v)
	}
	return r, nil
}
