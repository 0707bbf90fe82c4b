// This file compares package rats with active messages and transfers, in turn on one lab. It
// compares round trips of tagged writes and of simple datagrams with am's ping-pong. It also
// compares messages of 16 KiB and their notification with blocks of 16 KiB, one at a time.

package bench

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/funet/funet/ctl/lab"
)

// RatsBlock is the length in bytes of a long message, and of a block to compare.
const RatsBlock = 16 << 10

// RatsOptions say what Rats does. Zero values stand for the defaults.
type RatsOptions struct {
	Rounds    int // see Rounds
	Exchanges int // round trips in each run, see Exchanges

	// Tags, Calls and Bulk make round trips between hosts 0 and 1 by package rats, and PingPong by
	// active messages. Transfer moves blocks of RatsBlock bytes, one after the other, and returns
	// the microseconds of each. All are required, and end within ctx.
	Tags, Calls, Bulk, PingPong, Transfer func(ctx context.Context, l *lab.Lab) (RatsSample, error)

	Progress io.Writer // progress, once a step has taken two seconds; nil: none
}

// RatsSample has the measurements of one run.
type RatsSample struct {
	Sample
	XDPMode, BindMode string
}

// RatsReport is the result of Rats. Its JSON form is stable. Times outside of rounds are medians
// over the rounds. Ratios outside of rounds are medians of the ratios of each round.
type RatsReport struct {
	TagsRatio  float64 `json:"tagged_ratio_to_am"` // time of a round trip by that of am's
	CallsRatio float64 `json:"call_ratio_to_am"`
	// time of a message of RatsBlock bytes and its answer by that of a block
	BulkRatio float64 `json:"bulk16k_ratio_to_xfer"`

	Tags     float64 `json:"tagged_rtt_p50_us"`
	Calls    float64 `json:"call_p50_us"`
	PingPong float64 `json:"am_rtt_p50_us"`
	Bulk     float64 `json:"bulk16k_p50_us"`
	Transfer float64 `json:"xfer16k_us"`

	// OwnCalls are the costs of calls to their process, without the card, and the paper's.
	OwnCalls []RatsCall `json:"own_calls"`

	RoundsTags  []float64 `json:"rounds_tagged_ratio_to_am"` // of each round, in order
	RoundsCalls []float64 `json:"rounds_call_ratio_to_am"`
	RoundsBulk  []float64 `json:"rounds_bulk16k_ratio_to_xfer"`

	Rounds    int    `json:"rounds"`
	Exchanges int    `json:"exchanges"`
	XDPMode   string `json:"xdp_mode"`
	BindMode  string `json:"bind_mode"`
}

// Rats compares package rats with active messages and transfers between hosts 0 and 1 of a lab,
// which nothing else uses meanwhile. Errors: ErrOptions, ErrFunet, and the context's. Any goroutine
// may call it, one at a time for a lab.
func Rats(ctx context.Context, l *lab.Lab, o RatsOptions) (*RatsReport, error) {
	const what = "measure rats"
	err := complete(number{&o.Rounds, Rounds, "%d rounds"}, number{&o.Exchanges, Exchanges, "%d exchanges"})
	if err == nil && (o.Tags == nil || o.Calls == nil || o.Bulk == nil || o.PingPong == nil || o.Transfer == nil) {
		err = fmt.Errorf("%w: Tags, Calls, Bulk, PingPong and Transfer are required", ErrOptions)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	r := &RatsReport{Rounds: o.Rounds, Exchanges: o.Exchanges}
	of := func(name string, run func(context.Context, *lab.Lab) (RatsSample, error)) *contender {
		return ours(name, func(ctx context.Context) (RatsSample, error) {
			return run(ctx, l)
		}, func(s RatsSample) float64 {
			r.XDPMode, r.BindMode = s.XDPMode, s.BindMode
			return s.P50
		})
	}
	tags, calls, pingPong, bulk, transfer := of("tags", o.Tags), of("calls", o.Calls), of("am", o.PingPong),
		of("bulk", o.Bulk), of("xfer", o.Transfer)
	c := comparison{what: what, unit: "us", rounds: o.Rounds,
		deadline: time.Minute + time.Duration(o.Exchanges)*5*time.Millisecond, progress: o.Progress}
	if err := c.play(ctx, tags, calls, pingPong, bulk, transfer); err != nil {
		return nil, err
	}
	r.RoundsTags, r.RoundsCalls, r.RoundsBulk = byRound(tags.figures, pingPong.figures),
		byRound(calls.figures, pingPong.figures), byRound(bulk.figures, transfer.figures)
	r.TagsRatio, r.CallsRatio, r.BulkRatio = *median(r.RoundsTags), *median(r.RoundsCalls), *median(r.RoundsBulk)
	if r.OwnCalls, err = RatsCalls(); err != nil {
		return nil, err
	}
	r.Tags, r.Calls, r.PingPong, r.Bulk, r.Transfer = tags.median(), calls.median(), pingPong.median(), bulk.median(),
		transfer.median()
	return r, nil
}

// WriteTable prints the report for people.
func (r *RatsReport) WriteTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "package rats beside active messages and transfers; p50 us, medians of %d rounds; XDP %s, %s\n",
		r.Rounds, r.XDPMode, r.BindMode)
	line := func(name, beside string, mine, theirs, ratio float64, rounds []float64) {
		fmt.Fprintf(&b, "%-34s %8.2f   %-28s %8.2f   ratio %6.3f (%s)\n", name, mine, beside, theirs,
			ratio, ratios(rounds))
	}
	line("tagged writes, there and back", "am's request and reply", r.Tags, r.PingPong, r.TagsRatio, r.RoundsTags)
	line("simple datagrams, there and back", "am's request and reply", r.Calls, r.PingPong, r.CallsRatio, r.RoundsCalls)
	line("16 KiB with notification, answered", "a block of 16 KiB", r.Bulk, r.Transfer, r.BulkRatio, r.RoundsBulk)
	b.WriteString("\nthe process's own time for a call, without the card's, beside that of HPL-95-86 (PA-7200, 120 MHz)\n")
	for _, c := range r.OwnCalls {
		fmt.Fprintf(&b, "%-34s %8.0f ns   table %d, on the path %8.2f us\n", c.Call, c.NS, c.Table, c.Paper)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
