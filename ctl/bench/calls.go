// Calls: a call of 64 bytes that is answered with as many, beside a ping-pong of short messages and beside gRPC, in turn
// on one lab. The caller is on host 0.

package bench

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/funet/funet/ctl/lab"
)

// CallsOptions say what Calls does. Zero values stand for the defaults.
type CallsOptions struct {
	Rounds    int // see Rounds
	Exchanges int // calls and exchanges in each run, see Exchanges

	// Call makes calls of PayloadBytes from host 0 to host 1, one after the other, and PingPong exchanges a request and
	// a reply of 16 bytes, within ctx. Both are required.
	Call, PingPong func(ctx context.Context, l *lab.Lab) (CallsSample, error)

	// RoleCommand are the arguments with which this program's binary calls RunRole; two more
	// are appended, the role and its configuration.
	RoleCommand []string

	Progress io.Writer // where to say how it goes on, once it has taken two seconds; nil: nowhere
}

// CallsSample has the measurements of one run of FUNet.
type CallsSample struct {
	Sample
	XDPMode, BindMode string
}

// CallsReport is the result of Calls. Its JSON form is stable. Times without a round are medians over the rounds, ratios
// medians of those in each round.
type CallsReport struct {
	Call            float64 `json:"call_p50_us"`
	PingPong        float64 `json:"pingpong_p50_us"`
	RatioToPingPong float64 `json:"ratio_to_pingpong"` // Call by PingPong
	GRPC            float64 `json:"grpc_p50_us"`
	RatioToGRPC     float64 `json:"ratio_to_grpc"` // Call by GRPC

	Rounds                int       `json:"rounds"`
	RoundsCall            []float64 `json:"rounds_call_p50_us"` // figures of each round, in order
	RoundsPingPong        []float64 `json:"rounds_pingpong_p50_us"`
	RoundsRatioToPingPong []float64 `json:"rounds_ratio_to_pingpong"`
	RoundsGRPC            []float64 `json:"rounds_grpc_p50_us"`
	RoundsRatioToGRPC     []float64 `json:"rounds_ratio_to_grpc"`

	Bytes     int    `json:"call_bytes"` // of a call and of its answer
	Exchanges int    `json:"exchanges"`
	XDPMode   string `json:"xdp_mode"`  // FUNet's
	BindMode  string `json:"bind_mode"` // FUNet's
}

// Calls compares calls with ping-pong and with gRPC between hosts 0 and 1 of a lab, which nothing else uses meanwhile.
// Errors: ErrOptions, ErrFunet, the context's, or what failed in gRPC. Any goroutine may call it, one at a time for a lab.
func Calls(ctx context.Context, l *lab.Lab, o CallsOptions) (*CallsReport, error) {
	const what = "measure calls"
	err := complete(number{&o.Rounds, Rounds, "%d rounds"}, number{&o.Exchanges, Exchanges, "%d exchanges"})
	if err == nil && (o.Call == nil || o.PingPong == nil || len(o.RoleCommand) == 0) {
		err = fmt.Errorf("%w: Call, PingPong and RoleCommand are required", ErrOptions)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	s, err := newSession(l, Options{RoleCommand: o.RoleCommand, Exchanges: o.Exchanges})
	if err != nil {
		return nil, err
	}
	r := &CallsReport{Rounds: o.Rounds, Bytes: PayloadBytes, Exchanges: o.Exchanges}
	of := func(name string, run func(context.Context, *lab.Lab) (CallsSample, error)) *contender {
		return ours(name, func(ctx context.Context) (CallsSample, error) { return run(ctx, l) }, func(s CallsSample) float64 {
			r.XDPMode, r.BindMode = s.XDPMode, s.BindMode
			return s.P50
		})
	}
	call, pingpong := of("call", o.Call), of("pingpong", o.PingPong)
	grpc := &contender{name: roleGRPC, run: func(ctx context.Context) (float64, error) {
		sample, err := own(roleGRPC)(ctx, s)
		return sample.P50, err
	}}
	c := comparison{what: what, unit: "p50 us", rounds: o.Rounds, deadline: time.Minute + time.Duration(o.Exchanges)*5*time.Millisecond, progress: o.Progress}
	if err := c.play(ctx, call, pingpong, grpc); err != nil {
		return nil, err
	}
	r.RoundsCall, r.RoundsPingPong, r.RoundsGRPC = call.figures, pingpong.figures, grpc.figures
	r.Call, r.PingPong, r.GRPC = call.median(), pingpong.median(), grpc.median()
	r.RoundsRatioToPingPong, r.RoundsRatioToGRPC = byRound(r.RoundsCall, r.RoundsPingPong), byRound(r.RoundsCall, r.RoundsGRPC)
	r.RatioToPingPong, r.RatioToGRPC = *median(r.RoundsRatioToPingPong), *median(r.RoundsRatioToGRPC)
	return r, nil
}

// WriteTable prints the report for people.
func (r *CallsReport) WriteTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "calls of %d bytes and answers of as many, one after the other; medians of %d rounds; XDP %s, %s\n", r.Bytes, r.Rounds, r.XDPMode, r.BindMode)
	fmt.Fprintf(&b, "%-10s %9s %14s  %s\n", "", "p50 us", "call by it", "by round")
	line := func(name string, p50, ratio float64, rounds []float64) {
		by := "-"
		if ratio > 0 {
			by = fmt.Sprintf("%.3f", ratio)
		}
		var each []string
		for _, v := range rounds {
			each = append(each, fmt.Sprintf("%.3f", v))
		}
		b.WriteString(strings.TrimRight(fmt.Sprintf("%-10s %9.2f %14s  %s", name, p50, by, strings.Join(each, " ")), " ") + "\n")
	}
	line("call", r.Call, 0, nil)
	line("pingpong", r.PingPong, r.RatioToPingPong, r.RoundsRatioToPingPong)
	line("grpc", r.GRPC, r.RatioToGRPC, r.RoundsRatioToGRPC)
	b.WriteString("pingpong: a request and a reply of 16 bytes; grpc: unary calls over one TCP connection, with the runtime's scheduler, an end on each processor\n")
	_, err := io.WriteString(w, b.String())
	return err
}
