// This file compares operations on another process's memory with their alternatives, in turn on one
// lab. Writes there and back, reads, adds and swaps of 8 bytes are compared with round trips of
// active messages and with UCX's. Blocks of 1 MiB are compared with transfers, and the rate of
// short writes with that of short messages.

package bench

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/funet/funet/ctl/lab"
)

const (
	// RMABytes is the length of a short write in bytes.
	RMABytes = 8
	// RMABlock is the length in bytes of a long write, and of a transfer to compare. RMADepth of
	// each are under way at once.
	RMABlock = 1 << 20
	RMADepth = 8
	// rmaPerUCX is the number of FUNet's round trips for each one of UCX's, because some of those
	// take milliseconds. leastUCX is the least number of UCX's round trips.
	rmaPerUCX = 50
	leastUCX  = 1000
)

// RMAOptions say what RMA does. Zero values stand for the defaults.
type RMAOptions struct {
	Rounds    int // see Rounds
	Exchanges int // round trips in each run, see Exchanges

	// Put and Notify make round trips of writes of RMABytes between hosts 0 and 1. With Put the
	// processes see the writes in their memory, with Notify they get notifications. PingPong makes
	// round trips of active messages. All are required, and end within ctx.
	Put, Notify, PingPong func(ctx context.Context, l *lab.Lab) (RMASample, error)
	// Get, Add and Swap have host 0 read, add to and swap RMABytes of host 1, one after the other.
	// The answer is the previous value. All are required.
	Get, Add, Swap func(ctx context.Context, l *lab.Lab) (RMASample, error)
	// Gets reads blocks of RMABlock, RMADepth at once; figures are Gbit/s. Required.
	Gets func(ctx context.Context, l *lab.Lab) (RMASample, error)
	// Bulk writes blocks of RMABlock, RMADepth at once, and Transfer transfers as many; figures are
	// Gbit/s. Required.
	Bulk, Transfer func(ctx context.Context, l *lab.Lab) (RMASample, error)
	// Rate writes RMABytes at a time, one way, and Stream sends messages; figures are writes and
	// messages a second. Required.
	Rate, Stream func(ctx context.Context, l *lab.Lab) (RMASample, error)

	Progress io.Writer // progress, once a step has taken two seconds; nil: none
}

// RMASample has the measurement of one run: the p50 of a round trip in microseconds, Gbit/s, or a
// rate a second.
type RMASample struct {
	Figure            float64
	XDPMode, BindMode string
}

// RMAOperation is the result of one operation. Times outside of rounds are medians over the rounds.
// Ratios outside of rounds are medians of the ratios of each round.
type RMAOperation struct {
	Op      string    `json:"op"` // "put", "put_notify", "get", "add", "swap"
	P50     float64   `json:"p50_us"`
	Ratio   float64   `json:"ratio_to_pingpong"` // P50 by that of active messages
	UCX     *float64  `json:"ucx_p50_us"`        // nil without UCX, or if it has no such operation
	ToUCX   *float64  `json:"ratio_to_ucx"`
	Rounds  []float64 `json:"rounds_ratio_to_pingpong"` // of each round, in order
	RoundsU []float64 `json:"rounds_ratio_to_ucx,omitempty"`
}

// RMAReport is the result of RMA. Its JSON form is stable.
type RMAReport struct {
	Ops      []RMAOperation `json:"ops"`
	PingPong float64        `json:"pingpong_p50_us"`
	UCXNote  string         `json:"ucx_note,omitempty"` // why UCX is absent, or how it failed
	Rivals   []RMARival     `json:"rivals"`

	Gets         float64   `json:"get_1m_gbit_per_s"`
	GetsRatio    float64   `json:"get_1m_ratio_to_xfer"`
	RoundsGets   []float64 `json:"rounds_get_1m_ratio_to_xfer"`
	Bulk         float64   `json:"put_1m_gbit_per_s"`
	Transfer     float64   `json:"xfer_1m_gbit_per_s"`
	BulkRatio    float64   `json:"put_1m_ratio_to_xfer"`
	RoundsBulk   []float64 `json:"rounds_put_1m_ratio_to_xfer"`
	PutRate      float64   `json:"put8_per_s"`
	Rate         float64   `json:"msgs_per_s"`
	PutRateRatio float64   `json:"put8_ratio_to_rate"`
	RoundsRate   []float64 `json:"rounds_put8_ratio_to_rate"`

	Rounds       int    `json:"rounds"`
	Exchanges    int    `json:"exchanges"`
	UCXExchanges int    `json:"ucx_exchanges"`
	XDPMode      string `json:"xdp_mode"`
	BindMode     string `json:"bind_mode"`
}

// rmaUCX has UCX's test for each operation. Sample's times are twice the printed ones. A test in
// which both ends take part prints half a round trip, but one in which only one end does prints a
// whole one.
var rmaUCX = map[string]struct {
	name  string
	trips float64
}{
	// each end writes, and polls its memory for the write of the other
	"put":  {"ucp_put_lat", 1},
	"get":  {"ucp_get", 0.5},
	"add":  {"ucp_fadd", 0.5},
	"swap": {"ucp_swap", 0.5},
}

// RMA compares operations between hosts 0 and 1 of a lab, which nothing else uses meanwhile. The
// report names absent tools, and lacks their figures. Errors: ErrOptions, ErrFunet, and the
// context's. Any goroutine may call it, one at a time for a lab.
func RMA(ctx context.Context, l *lab.Lab, o RMAOptions) (*RMAReport, error) {
	const what = "measure remote writes"
	err := complete(number{&o.Rounds, Rounds, "%d rounds"}, number{&o.Exchanges, Exchanges, "%d exchanges"})
	for _, run := range []func(context.Context, *lab.Lab) (RMASample, error){
		o.Put, o.Notify, o.PingPong, o.Get, o.Add, o.Swap, o.Gets, o.Bulk, o.Transfer, o.Rate, o.Stream} {
		if err == nil && run == nil {
			err =
				fmt.Errorf("%w: Put, Notify, PingPong, Get, Add, Swap, Gets, Bulk, Transfer, Rate and Stream are required", ErrOptions)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	r := &RMAReport{Rounds: o.Rounds, Exchanges: o.Exchanges, UCXExchanges: max(o.Exchanges/rmaPerUCX, leastUCX)}
	of := func(name string, run func(context.Context, *lab.Lab) (RMASample, error)) *contender {
		return ours(name, func(ctx context.Context) (RMASample, error) {
			return run(ctx, l)
		}, func(s RMASample) float64 {
			r.XDPMode, r.BindMode = s.XDPMode, s.BindMode
			return s.Figure
		})
	}
	pingPong := of("am", o.PingPong)
	ops := []*contender{of("put", o.Put), of("put_notify", o.Notify), of("get", o.Get), of("add", o.Add),
		of("swap", o.Swap)}
	gets := of("get_1m", o.Gets)
	bulk, transfer, rate, stream := of("put_1m", o.Bulk), of("xfer_1m", o.Transfer), of("put8_rate", o.Rate),
		of("rate", o.Stream)
	playing := append([]*contender{pingPong}, ops...)
	playing = append(playing, bulk, gets, transfer, rate, stream)
	ucx := make([]*contender, len(ops)) // nil: UCX has no such operation, or there is no UCX
	s, err := newSession(l, Options{})
	if err != nil {
		return nil, err
	}
	folder, err := makeFolder()
	if err != nil {
		return nil, err
	}
	defer folder.Remove()
	s.dir = folder.Path()
	if r.UCXNote = absent(ucxNeeds); r.UCXNote == "" {
		for i, op := range ops {
			test, ok := rmaUCX[op.name]
			if !ok {
				continue
			}
			ucx[i] = &contender{name: "ucx " + test.name, spared: failures,
				run: func(ctx context.Context) (float64, error) {
					sample, err := s.ucx(ctx, test.name, RMABytes, r.UCXExchanges, leastUCX/10)
					return sample.P50 * test.trips, err
				}}
			playing = append(playing, ucx[i])
		}
	}
	c := comparison{what: what, unit: "us, Gbit/s, a second", rounds: o.Rounds,
		deadline: time.Minute + time.Duration(o.Exchanges)*5*time.Millisecond, progress: o.Progress}
	others := rivals()
	for _, v := range others {
		if v.contend(ctx, &c, s, r); v.c != nil {
			playing = append(playing, v.c)
		}
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s: %w", what, ctx.Err())
	}
	if err := c.play(ctx, playing...); err != nil {
		return nil, err
	}
	r.PingPong = pingPong.median()
	for i, p := range ops {
		op := RMAOperation{Op: p.name, P50: p.median(), Rounds: byRound(p.figures, pingPong.figures)}
		op.Ratio = *median(op.Rounds)
		if u := ucx[i]; u != nil {
			op.UCX, op.RoundsU = median(u.figures), byRound(p.figures, u.figures)
			op.ToUCX = median(op.RoundsU)
			if u.err != nil {
				r.UCXNote = u.err.Error()
			}
		}
		r.Ops = append(r.Ops, op)
	}
	for _, v := range others {
		r.Rivals = append(r.Rivals, v.report(r))
	}
	r.Gets, r.RoundsGets = gets.median(), byRound(gets.figures, transfer.figures)
	r.GetsRatio = *median(r.RoundsGets)
	r.Bulk, r.Transfer, r.RoundsBulk = bulk.median(), transfer.median(), byRound(bulk.figures, transfer.figures)
	r.PutRate, r.Rate, r.RoundsRate = rate.median(), stream.median(), byRound(rate.figures, stream.figures)
	r.BulkRatio, r.PutRateRatio = *median(r.RoundsBulk), *median(r.RoundsRate)
	return r, nil
}

// perUCX returns the ratio to UCX as text; some of UCX's operations take milliseconds.
func (o *RMAOperation) perUCX() string {
	if o.ToUCX == nil {
		return "-"
	}
	return fmt.Sprintf("%.2g", *o.ToUCX)
}

// WriteTable prints the report for people.
func (r *RMAReport) WriteTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "operations on another process's memory, medians of %d rounds; XDP %s, %s\n", r.Rounds,
		r.XDPMode, r.BindMode)
	fmt.Fprintf(&b, "%-34s %9s %9s %9s %9s  %s\n", "8 bytes, there and back", "p50 us", "x am", "UCX us", "x UCX",
		"x am by round")
	for _, op := range r.Ops {
		fmt.Fprintf(&b, "%-34s %9.2f %9.3f %9s %9s  %s\n", op.Op, op.P50, op.Ratio, figure(op.UCX), op.perUCX(),
			ratios(op.Rounds))
	}
	fmt.Fprintf(&b, "%-34s %9.2f\n", "am's request and reply", r.PingPong)
	fmt.Fprintf(&b, "%-34s %9.2f Gbit/s, transfers %.2f, ratio %.3f (%s)\n", "blocks of 1 MiB, 8 at once", r.Bulk,
		r.Transfer, r.BulkRatio, ratios(r.RoundsBulk))
	fmt.Fprintf(&b, "%-34s %9.2f Gbit/s, transfers %.2f, ratio %.3f (%s)\n", "gets of 1 MiB, 8 at once", r.Gets,
		r.Transfer, r.GetsRatio, ratios(r.RoundsGets))
	fmt.Fprintf(&b, "%-34s %9.2f million/s, messages %.2f, ratio %.3f (%s)\n", "8 bytes, one way", r.PutRate/1e6,
		r.Rate/1e6, r.PutRateRatio, ratios(r.RoundsRate))
	if r.UCXNote != "" {
		fmt.Fprintf(&b, "ucx: %s\n", r.UCXNote)
	}
	for _, v := range r.Rivals {
		v.write(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
