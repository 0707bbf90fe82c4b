// Incast: goodput of several hosts that send to one, beside that of one that sends alone, in turn
// on one lab. All hosts run a node in both, so that only the number of senders differs.

package bench

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/funet/funet/ctl/lab"
)

// Defaults and limits of IncastOptions.
const (
	DefaultIncastMessages = 2_100_000 // divides by 1 to 7 senders
	MinIncastMessages     = 10_000
	MaxIncastMessages     = 1_000_000_000

	// IncastWords are the words of a message, the most that one has.
	IncastWords = 20
)

// IncastOptions say what Incast does. Zero values stand for the defaults.
type IncastOptions struct {
	Rounds   int // 1..1000, default 5
	Messages int // in a run, of all senders together, 10,000..1,000,000,000, default 2,100,000

	// Funet sends messages of IncastWords words to host 0 from hosts 1 to senders, so many
	// each, as fast as they can, within ctx. All hosts of the lab run a node. It is required.
	Funet func(ctx context.Context, l *lab.Lab, senders, messages int) (GoodputSample, error)

	Progress io.Writer // a line after every round that ends later than two seconds after the start; nil for none
}

// IncastReport is the result of Incast. Its JSON form is stable. Goodput without a round is the
// median over the rounds.
type IncastReport struct {
	OneToOne float64 `json:"one_to_one_gbit_per_s"`
	Incast   float64 `json:"incast_gbit_per_s"`
	Ratio    float64 `json:"ratio"` // Incast by OneToOne

	Senders        int       `json:"senders"` // of the incast
	Rounds         int       `json:"rounds"`
	RoundsOneToOne []float64 `json:"rounds_one_to_one_gbit_per_s"` // figures of each round, in order
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

// Incast compares the goodput at host 0 of a lab of at least three hosts when all others send and
// when host 1 sends alone. Nothing else uses the lab meanwhile. Errors: ErrOptions, ErrFunet or the
// context's. Any goroutine may call it, one at a time for a lab.
func Incast(ctx context.Context, l *lab.Lab, o IncastOptions) (*IncastReport, error) {
	if o.Rounds == 0 {
		o.Rounds = DefaultRounds
	}
	if o.Messages == 0 {
		o.Messages = DefaultIncastMessages
	}
	const what = "measure incast"
	senders := len(l.Hosts()) - 1
	switch {
	case o.Rounds < 1 || o.Rounds > MaxRounds:
		return nil, fmt.Errorf("%s: %w: %d rounds; use 1 to %d", what, ErrOptions, o.Rounds, MaxRounds)
	case o.Messages < MinIncastMessages || o.Messages > MaxIncastMessages:
		return nil, fmt.Errorf("%s: %w: %d messages; use %d to %d", what, ErrOptions, o.Messages, MinIncastMessages, MaxIncastMessages)
	case senders < 2:
		return nil, fmt.Errorf("%s: %w: a lab of %d hosts; use at least 3", what, ErrOptions, senders+1)
	case o.Funet == nil:
		return nil, fmt.Errorf("%s: %w: Funet is required", what, ErrOptions)
	}
	// As many of each sender, so that both runs carry the same.
	each := o.Messages / senders
	r := &IncastReport{Senders: senders, Rounds: o.Rounds, Messages: each * senders, Words: IncastWords}
	side := func(name string, senders, messages int, congestion *[]Congestion) contender {
		return contender{name, func(ctx context.Context) (float64, error) {
			sample, err := o.Funet(ctx, l, senders, messages)
			if err != nil {
				return 0, fmt.Errorf("%w: %w", ErrFunet, err)
			}
			*congestion = append(*congestion, sample.Congestion)
			r.XDPMode, r.BindMode = sample.XDPMode, sample.BindMode
			return sample.Gbit, nil
		}}
	}
	t := turns{what: what, unit: "Gbit/s", rounds: o.Rounds, deadline: longest(o.Messages), progress: o.Progress}
	figures, err := t.play(ctx,
		side("one to one", 1, r.Messages, &r.OneToOneCongestion),
		side(fmt.Sprintf("%d to one", senders), senders, each, &r.IncastCongestion))
	if err != nil {
		return nil, err
	}
	r.RoundsOneToOne, r.RoundsIncast = figures[0], figures[1]
	r.OneToOne, r.Incast = *median(r.RoundsOneToOne), *median(r.RoundsIncast)
	r.Ratio, r.RoundsRatio = nanos(r.Incast/r.OneToOne), perRound(r.RoundsIncast, r.RoundsOneToOne)
	return r, nil
}

// WriteTable prints the report for people.
func (r *IncastReport) WriteTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "messages of %d words to one host, medians of %d rounds; XDP %s, %s\n", r.Words, r.Rounds, r.XDPMode, r.BindMode)
	fmt.Fprintf(&b, "%-12s %8s %10s %10s %9s  %s\n", "senders", "Gbit/s", "rejected", "sent again", "timeouts", "rounds")
	row := func(senders int, gbit float64, rounds []float64, congestion []Congestion) {
		var sum Congestion
		var each []string
		for i, c := range congestion {
			sum.Rejected += c.Rejected
			sum.Retransmitted += c.Retransmitted
			sum.Timeouts += c.Timeouts
			each = append(each, fmt.Sprintf("%.2f", rounds[i]))
		}
		fmt.Fprintf(&b, "%-12d %8.2f %10d %10d %9d  %s\n", senders, gbit, sum.Rejected, sum.Retransmitted, sum.Timeouts, strings.Join(each, " "))
	}
	row(1, r.OneToOne, r.RoundsOneToOne, r.OneToOneCongestion)
	row(r.Senders, r.Incast, r.RoundsIncast, r.IncastCongestion)
	fmt.Fprintf(&b, "%-12s %8.2f\n", "ratio", r.Ratio)
	_, err := io.WriteString(w, b.String())
	return err
}
