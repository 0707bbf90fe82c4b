// This file measures incast: the goodput of several hosts that send to one, and of one host that
// sends alone, in turn on one lab. All hosts run a node in both cases, so only the number of
// senders differs.

package bench

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/funet/funet/ctl/lab"
)

// IncastMessages are the limits of IncastOptions.Messages. The usual number is divisible by 1 to 7
// senders.
var IncastMessages = Limits{10_000, 1_000_000_000, 2_100_000}

// IncastWords is the number of words in a message, the most that a message can have.
const IncastWords = 20

// IncastOptions say what Incast does. Zero values stand for the defaults.
type IncastOptions struct {
	Rounds   int // see Rounds
	Messages int // in a run, of all senders together, see IncastMessages

	// Funet sends messages of IncastWords words to host 0 from hosts 1 to senders, that number from
	// each, as fast as possible, within ctx. All hosts of the lab run a node. It is required.
	Funet func(ctx context.Context, l *lab.Lab, senders, messages int) (GoodputSample, error)

	Progress io.Writer // progress, once a step has taken two seconds; nil: none
}

// IncastReport is the result of Incast. Its JSON form is stable. Goodput outside of rounds is the
// median over the rounds.
type IncastReport struct {
	OneToOne float64 `json:"one_to_one_gbit_per_s"`
	Incast   float64 `json:"incast_gbit_per_s"`
	Ratio    float64 `json:"ratio"` // Incast by OneToOne

	Senders int `json:"senders"` // of the incast
	Rounds  int `json:"rounds"`
	// figures of each round, in order
	RoundsOneToOne []float64 `json:"rounds_one_to_one_gbit_per_s"`
	RoundsIncast   []float64 `json:"rounds_incast_gbit_per_s"`
	RoundsRatio    []float64 `json:"rounds_ratio"`

	// Of each round, in order.
	OneToOneCongestion []Congestion `json:"rounds_one_to_one_congestion"`
	IncastCongestion   []Congestion `json:"rounds_incast_congestion"`

	Messages int    `json:"messages"` // in a run, of all senders together
	Words    int    `json:"words"`
	XDPMode  string `json:"xdp_mode"`
	BindMode string `json:"bind_mode"`
}

// Incast compares the goodput at host 0 when all other hosts send with that when host 1 sends
// alone. The lab has at least three hosts, and nothing else uses it meanwhile. Errors: ErrOptions,
// ErrFunet or the context's. Any goroutine may call it, one at a time for a lab.
func Incast(ctx context.Context, l *lab.Lab, o IncastOptions) (*IncastReport, error) {
	const what = "measure incast"
	senders := len(l.Hosts()) - 1
	err := complete(number{&o.Rounds, Rounds, "%d rounds"}, number{&o.Messages, IncastMessages, "%d messages"})
	switch {
	case err != nil:
	case senders < 2:
		err = fmt.Errorf("%w: a lab of %d hosts; use at least 3", ErrOptions, senders+1)
	case o.Funet == nil:
		err = fmt.Errorf("%w: Funet is required", ErrOptions)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	// As many of each sender, so that both runs carry the same.
	each := o.Messages / senders
	r := &IncastReport{Senders: senders, Rounds: o.Rounds, Messages: each * senders, Words: IncastWords}
	side := func(name string, senders, messages int, congestion *[]Congestion) *contender {
		run := func(ctx context.Context) (GoodputSample, error) { return o.Funet(ctx, l, senders, messages) }
		return ours(name, run, func(s GoodputSample) float64 {
			*congestion = append(*congestion, s.Congestion)
			r.XDPMode, r.BindMode = s.XDPMode, s.BindMode
			return s.Gbit
		})
	}
	one := side("one to one", 1, r.Messages, &r.OneToOneCongestion)
	all := side(fmt.Sprintf("%d to one", senders), senders, each, &r.IncastCongestion)
	c := comparison{what: what, unit: "Gbit/s", rounds: o.Rounds, deadline: longest(o.Messages), progress: o.Progress}
	if err := c.play(ctx, one, all); err != nil {
		return nil, err
	}
	r.RoundsOneToOne, r.RoundsIncast = one.figures, all.figures
	r.OneToOne, r.Incast = one.median(), all.median()
	r.Ratio, r.RoundsRatio = nanos(r.Incast/r.OneToOne), byRound(r.RoundsIncast, r.RoundsOneToOne)
	return r, nil
}

// WriteTable prints the report for people.
func (r *IncastReport) WriteTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "messages of %d words to one host, medians of %d rounds; XDP %s, %s\n", r.Words, r.Rounds,
		r.XDPMode, r.BindMode)
	fmt.Fprintf(&b, "%-12s %8s %10s %10s %9s  %s\n", "senders", "Gbit/s", "rejected", "sent again",
		"timeouts", "rounds")
	row := func(senders int, gbit float64, rounds []float64, congestion []Congestion) {
		var sum Congestion
		var each []string
		for i, c := range congestion {
			sum.Rejected += c.Rejected
			sum.Retransmitted += c.Retransmitted
			sum.Timeouts += c.Timeouts
			each = append(each, fmt.Sprintf("%.2f", rounds[i]))
		}
		fmt.Fprintf(&b, "%-12d %8.2f %10d %10d %9d  %s\n", senders, gbit, sum.Rejected, sum.Retransmitted, sum.Timeouts,
			strings.Join(each, " "))
	}
	row(1, r.OneToOne, r.RoundsOneToOne, r.OneToOneCongestion)
	row(r.Senders, r.Incast, r.RoundsIncast, r.IncastCongestion)
	fmt.Fprintf(&b, "%-12s %8.2f\n", "ratio", r.Ratio)
	_, err := io.WriteString(w, b.String())
	return err
}
