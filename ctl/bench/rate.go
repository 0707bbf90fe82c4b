// This file compares the one-way rate of FUNet with that of sendmmsg(2) and recvmmsg(2) over UDP
// with the same payload, in turn on one lab. Host 1 sends, host 0 receives and counts.

package bench

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/funet/funet/ctl/lab"
)

// RateMessages are the limits of RateOptions.Messages.
var RateMessages = Limits{100_000, 1_000_000_000, 5_000_000}

const (
	// RateWords is the number of words in a message.
	RateWords = 4
	// RatePayload is a datagram's payload in bytes: as long as the words of a message.
	RatePayload = 4 * RateWords
	// RateBatch is the number of datagrams that a system call sends, and the most that it receives.
	RateBatch = 64

	// perDatagram is the number of FUNet's messages for each datagram, so that both runs take about
	// as long.
	perDatagram = 10
)

// RateOptions say what Rate does. Zero values stand for the defaults.
type RateOptions struct {
	Rounds   int // see Rounds
	Messages int // FUNet's in a round, see RateMessages; a tenth as many datagrams

	// Funet sends messages of RateWords words from host 1 to host 0 as fast as possible, within
	// ctx, and counts those that arrive. It is required.
	Funet func(ctx context.Context, l *lab.Lab, messages int) (RateSample, error)

	// RoleCommand are the arguments with which this program's binary calls RunRole; two more
	// are appended, the role and its configuration.
	RoleCommand []string

	Progress io.Writer // progress, once a step has taken two seconds; nil: none
}

// RateSample has the measurements of one run of FUNet.
type RateSample struct {
	PerSecond         float64 // messages that arrived a second, from the first to the last
	XDPMode, BindMode string
}

// RateReport is the result of Rate. Its JSON form is stable. Rates are in messages a second; those
// outside of rounds are medians over the rounds.
type RateReport struct {
	PerSecond float64 `json:"msgs_per_s"` // FUNet's messages that arrived
	// datagrams that arrived, from the first to the last
	SendmmsgPerSecond float64 `json:"sendmmsg_msgs_per_s"`
	Ratio             float64 `json:"ratio_to_sendmmsg"` // PerSecond by SendmmsgPerSecond
	SendmmsgOffered   float64 `json:"sendmmsg_offered_per_s"`
	SendmmsgLost      float64 `json:"sendmmsg_lost_fraction"` // of the datagrams sent

	Rounds          int       `json:"rounds"`
	RoundsPerSecond []float64 `json:"rounds_msgs_per_s"` // figures of each round, in order
	RoundsSendmmsg  []float64 `json:"rounds_sendmmsg_msgs_per_s"`
	RoundsOffered   []float64 `json:"rounds_sendmmsg_offered_per_s"`
	RoundsRatio     []float64 `json:"rounds_ratio"`

	Messages  int    `json:"messages"`          // FUNet's in a round
	Datagrams int    `json:"sendmmsg_messages"` // in a round
	Batch     int    `json:"sendmmsg_batch"`
	Words     int    `json:"words"`
	XDPMode   string `json:"xdp_mode"`  // FUNet's
	BindMode  string `json:"bind_mode"` // FUNet's
}

// Rate compares the rates of short messages one way between hosts 1 and 0 of a lab, which nothing
// else uses meanwhile. Errors: ErrOptions, ErrFunet, the context's, or a failure in the UDP sender
// or receiver. Any goroutine may call it, one at a time for a lab.
func Rate(ctx context.Context, l *lab.Lab, o RateOptions) (*RateReport, error) {
	const what = "measure rates"
	err := complete(number{&o.Rounds, Rounds, "%d rounds"}, number{&o.Messages, RateMessages, "%d messages"})
	if err == nil && (o.Funet == nil || len(o.RoleCommand) == 0) {
		err = fmt.Errorf("%w: Funet and RoleCommand are required", ErrOptions)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	s, err := newSession(l, Options{RoleCommand: o.RoleCommand})
	if err != nil {
		return nil, err
	}

	r := &RateReport{Rounds: o.Rounds, Messages: o.Messages, Datagrams: o.Messages / perDatagram, Batch: RateBatch,
		Words: RateWords}
	var lost []float64
	run := func(ctx context.Context) (RateSample, error) { return o.Funet(ctx, l, o.Messages) }
	funet := ours("funet", run, func(s RateSample) float64 {
		r.XDPMode, r.BindMode = s.XDPMode, s.BindMode
		return s.PerSecond
	})
	sendmmsg := &contender{name: "sendmmsg", run: func(ctx context.Context) (float64, error) {
		c, err := s.countDatagrams(ctx, r.Datagrams)
		if err != nil {
			return 0, err
		}
		r.RoundsOffered = append(r.RoundsOffered, nanos(c.Offered))
		lost = append(lost, 1-float64(c.Arrived)/float64(r.Datagrams))
		return c.PerSecond, nil
	}}
	c := comparison{what: what, unit: "messages/s", rounds: o.Rounds, deadline: longest(o.Messages),
		progress: o.Progress}
	if err := c.play(ctx, funet, sendmmsg); err != nil {
		return nil, err
	}
	r.RoundsPerSecond, r.RoundsSendmmsg = funet.figures, sendmmsg.figures
	r.PerSecond, r.SendmmsgPerSecond = funet.median(), sendmmsg.median()
	r.SendmmsgOffered, r.SendmmsgLost = *median(r.RoundsOffered), *median(lost)
	r.Ratio, r.RoundsRatio = nanos(r.PerSecond/r.SendmmsgPerSecond), byRound(r.RoundsPerSecond, r.RoundsSendmmsg)
	return r, nil
}

// longest returns the deadline of a run of that many messages: fifty times the usual duration.
func longest(messages int) time.Duration {
	return 30*time.Second + time.Duration(messages)*20*time.Microsecond
}

// WriteTable prints the report for people.
func (r *RateReport) WriteTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "messages of %d words one way, medians of %d rounds; XDP %s, %s\n", r.Words, r.Rounds,
		r.XDPMode, r.BindMode)
	fmt.Fprintf(&b, "%-14s %12s  %s\n", "sender", "million/s", "rounds")
	fmt.Fprintf(&b, "%-14s %12.2f  %s\n", "funet", r.PerSecond/1e6, millions(r.RoundsPerSecond))
	fmt.Fprintf(&b, "%-14s %12.2f  %s\n", fmt.Sprintf("sendmmsg(%d)", r.Batch), r.SendmmsgPerSecond/1e6,
		millions(r.RoundsSendmmsg))
	fmt.Fprintf(&b, "%-14s %12.2f  %s; %.1f %% lost\n", "  offered", r.SendmmsgOffered/1e6, millions(r.RoundsOffered),
		100*r.SendmmsgLost)
	fmt.Fprintf(&b, "%-14s %12.2f\n", "ratio", r.Ratio)
	_, err := io.WriteString(w, b.String())
	return err
}

func millions(perSecond []float64) string {
	var s []string
	for _, v := range perSecond {
		s = append(s, fmt.Sprintf("%.2f", v/1e6))
	}
	return strings.Join(s, " ")
}
