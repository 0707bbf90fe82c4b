package bench

// This file is a match: a benchmark that is played on a lab, and what FUNet's nodes print there.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/program"
	"github.com/funet/funet/uspace/apps"
)

// errFunet reports that a run of FUNet failed.
var errFunet = errors.New("funet failed")

// match is a benchmark that is played on a lab.
type match struct {
	comparison
	*session
	f       *flags
	playing []*contender
	// attach and bind are the XDP modes of FUNet's last run.
	attach, bind string
	// nodes runs a program of FUNet's on the hosts of the lab. It returns what the nodes print.
	nodes func(ctx context.Context, f *program.Flags, name string, args []string) ([]node, error)
}

func newMatch(f *flags, l *lab.Lab) (*match, error) {
	s, err := newSession(l)
	if err != nil {
		return nil, err
	}
	return &match{session: s, f: f, comparison: comparison{rounds: f.rounds, progress: os.Stderr},
		nodes: func(ctx context.Context, f *program.Flags, name string, args []string) ([]node, error) {
			return program.RunNodes[node](ctx, f, l, name, args)
		}}, nil
}

// compete has the contenders of a benchmark play.
func (m *match) compete(ctx context.Context, b benchmark) error {
	if err := b.enter(ctx, m); err != nil {
		return fmt.Errorf("%s: %w", m.what, err)
	}
	return m.play(ctx, m.playing...)
}

// node is what a program of FUNet's prints on one node. Figures that all programs have, have the
// same names.
type node struct {
	sample
	Rate      float64    `json:"msgs_per_s"`         // messages that arrived, with answers
	Goodput   float64    `json:"goodput_gbit_per_s"` // data that arrived, in 10^9 bits
	PerSecond float64    `json:"per_s"`              // connections or datagrams
	Gbit      float64    `json:"gbit_per_s"`         // data of connections
	EmptyPoll float64    `json:"empty_poll_ns"`
	Jain      float64    `json:"jain"`
	BytesEach float64    `json:"bytes_per_connection"`
	CPU       float64    `json:"cpu_percent"`
	Seconds   float64    `json:"seconds"`
	Kernel    string     `json:"kernel"`
	Card      congestion `json:"card"`
	XDPMode   string     `json:"xdp_mode"`
	BindMode  string     `json:"bind_mode"`
}

// sample has the round trips of one run, in microseconds.
type sample struct {
	P50 float64 `json:"rtt_p50_us"` // median; the mean for some tools
	P99 float64 `json:"rtt_p99_us"` // 0 when the tool does not report it
}

// congestion counts losses, rejects and repetitions.
type congestion struct {
	Rejected      uint64 `json:"packets_rejected"` // the receive queue was full; sent again
	Retransmitted uint64 `json:"frames_retransmitted"`
	Timeouts      uint64 `json:"retransmission_timeouts"`
	Duplicates    uint64 `json:"duplicate_frames"`
}

// add adds the counts of another node or run.
func (c *congestion) add(o congestion) {
	c.Rejected += o.Rejected
	c.Retransmitted += o.Retransmitted
	c.Timeouts += o.Timeouts
	c.Duplicates += o.Duplicates
}

// Figures of FUNet's programs.
func p50(n []node) float64     { return n[0].P50 }
func goodput(n []node) float64 { return n[0].Goodput }

// arrived is the rate of messages, which the receiving node has.
func arrived(n []node) (rate float64) {
	for _, n := range n {
		rate = max(rate, n.Rate)
	}
	return rate
}

// args is the command line of a program of FUNet's.
type args interface{ Arguments() []string }

func pingPong(exchanges int) args {
	return program.PingPongOptions{PingPongOptions: apps.PingPongOptions{Exchanges: exchanges, WarmUp: warmUp}}
}

func transfer(bytes, block, depth int) args {
	return program.TransferOptions{TransferOptions: apps.TransferOptions{Bytes: bytes, Block: block, Depth: depth}}
}

func stream(senders, messages, words int) args {
	return program.StreamOptions{StreamOptions: apps.StreamOptions{Senders: senders, Messages: messages, Words: words}}
}

// funet enters a program of FUNet's as a contender, whose failure ends the match.
func (m *match) funet(name, program string, a args, figure func([]node) float64) {
	m.ours(name, func(ctx context.Context) ([]node, error) {
		return m.nodes(ctx, &m.f.Flags, program, a.Arguments())
	}, figure)
}

// ours enters a contender that runs nodes of FUNet's.
func (m *match) ours(name string, run func(context.Context) ([]node, error), figure func([]node) float64) *contender {
	return m.theirs(name, func(ctx context.Context) (float64, error) {
		nodes, err := run(ctx)
		if err != nil {
			return 0, fmt.Errorf("%w: %w", errFunet, err)
		}
		m.attach, m.bind = nodes[0].XDPMode, nodes[0].BindMode
		return figure(nodes), nil
	})
}

// theirs enters a contender whose failure ends the match.
func (m *match) theirs(name string, run func(context.Context) (float64, error)) *contender {
	c := &contender{name: name, run: run}
	m.playing = append(m.playing, c)
	return c
}

// of returns a contender.
func (m *match) of(name string) *contender {
	return m.playing[slices.IndexFunc(m.playing, func(c *contender) bool { return c.name == name })]
}

// median returns the median of a contender's figures.
func (m *match) median(name string) float64 { return *median(m.of(name).figures) }

// ratios returns the ratios of two contenders in each round.
func (m *match) ratios(a, b string) []float64 { return byRound(m.of(a).figures, m.of(b).figures) }

// ratio returns the median of the ratios.
func (m *match) ratio(a, b string) float64 { return *median(m.ratios(a, b)) }

// leastDeadline is that of a run without any round trips.
var leastDeadline = time.Minute

// patient is a deadline of a run of so many round trips, far more than the slowest peer needs. A
// busy machine can be that slow.
func patient(exchanges int) time.Duration {
	return leastDeadline + time.Duration(exchanges)*5*time.Millisecond
}

// longest is a deadline of a run of so many messages: fifty times the usual duration.
func longest(messages int) time.Duration {
	return 30*time.Second + time.Duration(messages)*20*time.Microsecond
}

// list writes figures, each divided.
func list(format string, figures []float64, by float64) string {
	var words []string
	for _, v := range figures {
		words = append(words, fmt.Sprintf(format, v/by))
	}
	return strings.Join(words, " ")
}

// ratios3 writes the ratios of rounds.
func ratios3(rounds []float64) string { return list("%.3f", rounds, 1) }
