// This file compares calls and messages with similar operations, in turn on one lab. Host 0 calls
// and sends. A call of 64 bytes with an answer of 64 is compared with a ping-pong of short messages
// and with gRPC. Messages of 16 bytes are compared with requests of 16 bytes in words, and messages
// of 1 MiB with blocks. Calls of several goroutines are measured too.

package bench

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/funet/funet/ctl/lab"
)

// CallsMessages are the limits of CallsOptions.Messages.
var CallsMessages = Limits{1000, 100_000_000, 1_000_000}

// Mebibyte is the size of a long message in bytes. LongMessages is how many are sent in a run.
const (
	Mebibyte     = 1 << 20
	LongMessages = 512
)

// CallsGoroutines are the numbers of goroutines that call at once.
var CallsGoroutines = []int{1, 2, 8}

// CallsOptions say what Calls does. Zero values stand for the defaults.
type CallsOptions struct {
	Rounds    int // see Rounds
	Exchanges int // calls and exchanges in each run, see Exchanges
	Messages  int // in each run, see CallsMessages

	// Call makes calls of PayloadBytes from host 0 to host 1, one after the other. PingPong
	// exchanges a request and a reply of 16 bytes. Send sends messages of 16 bytes from host 0 to
	// host 1, and Request sends as many in words; each lets the card run after each message.
	// Goroutines has the given number of goroutines call. Send1M sends messages of Mebibyte bytes
	// from host 0 to host 1, one after the other. Transfer moves as many bytes in blocks, as Xfer
	// does. All are required, and end within ctx.
	Call, PingPong, Send, Request func(ctx context.Context, l *lab.Lab) (CallsSample, error)
	Send1M, Transfer              func(ctx context.Context, l *lab.Lab, bytes int) (CallsSample, error)
	Goroutines                    func(ctx context.Context, l *lab.Lab, n int) (CallsSample, error)

	// RoleCommand are the arguments with which this program's binary calls RunRole; two more
	// are appended, the role and its configuration.
	RoleCommand []string

	Progress io.Writer // progress, once a step has taken two seconds; nil: none
}

// CallsSample has the measurements of one run of FUNet. Figures that the run does not have are 0.
type CallsSample struct {
	Sample
	PerSecond         float64 // messages that arrived a second; an answer counts as one
	Gbit              float64 // bits of data that arrived a second, in 10^9
	XDPMode, BindMode string
}

// CallsReport is the result of Calls. Its JSON form is stable. Times outside of rounds are medians
// over the rounds. Ratios outside of rounds are medians of the ratios of each round.
type CallsReport struct {
	Call            float64 `json:"call_p50_us"`
	PingPong        float64 `json:"pingpong_p50_us"`
	RatioToPingPong float64 `json:"ratio_to_pingpong"` // Call by PingPong
	GRPC            float64 `json:"grpc_p50_us"`
	RatioToGRPC     float64 `json:"ratio_to_grpc"` // Call by GRPC

	// time of a message of 16 bytes by that of a request of four words
	Send16Ratio        float64 `json:"send16_ratio"`
	Send16PerSecond    float64 `json:"send16_msgs_per_s"`
	Request16PerSecond float64 `json:"request16_msgs_per_s"`
	// rate of messages of 1 MiB by that of blocks
	Send1MRatio  float64         `json:"send1m_ratio"`
	Send1MGbit   float64         `json:"send1m_gbit_per_s"`
	TransferGbit float64         `json:"xfer_gbit_per_s"`
	Goroutines   []GoroutineRate `json:"goroutines"`

	Rounds                int       `json:"rounds"`
	RoundsCall            []float64 `json:"rounds_call_p50_us"` // figures of each round, in order
	RoundsPingPong        []float64 `json:"rounds_pingpong_p50_us"`
	RoundsRatioToPingPong []float64 `json:"rounds_ratio_to_pingpong"`
	RoundsGRPC            []float64 `json:"rounds_grpc_p50_us"`
	RoundsRatioToGRPC     []float64 `json:"rounds_ratio_to_grpc"`
	RoundsSend16Ratio     []float64 `json:"rounds_send16_ratio"`
	RoundsSend1MRatio     []float64 `json:"rounds_send1m_ratio"`

	Bytes     int    `json:"call_bytes"` // of a call and of its answer
	Exchanges int    `json:"exchanges"`
	Messages  int    `json:"messages"`
	XDPMode   string `json:"xdp_mode"`  // FUNet's
	BindMode  string `json:"bind_mode"` // FUNet's
}

// GoroutineRate is the rate at which a number of goroutines call together.
type GoroutineRate struct {
	N               int       `json:"n"`
	PerSecond       float64   `json:"msgs_per_s"` // calls and answers
	RoundsPerSecond []float64 `json:"rounds_msgs_per_s"`
}

// Calls compares calls with ping-pong and with gRPC between hosts 0 and 1 of a lab, which nothing
// else uses meanwhile. Errors: ErrOptions, ErrFunet, the context's, or a failure in gRPC. Any
// goroutine may call it, one at a time for a lab.
func Calls(ctx context.Context, l *lab.Lab, o CallsOptions) (*CallsReport, error) {
	const what = "measure calls"
	err := complete(number{&o.Rounds, Rounds, "%d rounds"}, number{&o.Exchanges, Exchanges, "%d exchanges"},
		number{&o.Messages, CallsMessages, "%d messages"})
	if err == nil && (o.Call == nil || o.PingPong == nil || o.Send == nil || o.Request == nil || o.Send1M == nil ||
		o.Transfer == nil || o.Goroutines == nil || len(o.RoleCommand) == 0) {
		err = fmt.Errorf("%w: Call, PingPong, Send, Request, Send1M, Transfer, Goroutines and RoleCommand are required",
			ErrOptions)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	s, err := newSession(l, Options{RoleCommand: o.RoleCommand, Exchanges: o.Exchanges})
	if err != nil {
		return nil, err
	}
	r := &CallsReport{Rounds: o.Rounds, Bytes: PayloadBytes, Exchanges: o.Exchanges, Messages: o.Messages}
	of := func(name string, run func(context.Context, *lab.Lab) (CallsSample, error),
		figure func(CallsSample) float64) *contender {
		return ours(name, func(ctx context.Context) (CallsSample, error) {
			return run(ctx, l)
		}, func(s CallsSample) float64 {
			r.XDPMode, r.BindMode = s.XDPMode, s.BindMode
			return figure(s)
		})
	}
	p50, rate := func(s CallsSample) float64 { return s.P50 }, func(s CallsSample) float64 { return s.PerSecond }
	call, pingpong := of("call", o.Call, p50), of("pingpong", o.PingPong, p50)
	send, request := of("send16", o.Send, rate), of("request16", o.Request, rate)
	grpc := &contender{name: roleGRPC, run: func(ctx context.Context) (float64, error) {
		sample, err := own(roleGRPC)(ctx, s)
		return sample.P50, err
	}}
	long := func(run func(context.Context, *lab.Lab, int) (CallsSample, error)) func(context.Context,
		*lab.Lab) (CallsSample, error) {
		return func(ctx context.Context, l *lab.Lab) (CallsSample, error) { return run(ctx, l, LongMessages*Mebibyte) }
	}
	gbit := func(s CallsSample) float64 { return s.Gbit }
	send1m, transfer := of("send1m", long(o.Send1M), gbit), of("xfer", long(o.Transfer), gbit)
	playing := []*contender{call, pingpong, grpc, send, request, send1m, transfer}
	for _, n := range CallsGoroutines {
		playing = append(playing, of(fmt.Sprintf("%d goroutines", n),
			func(ctx context.Context, l *lab.Lab) (CallsSample, error) { return o.Goroutines(ctx, l, n) }, rate))
	}
	c := comparison{what: what, unit: "p50 us, messages/s and Gbit/s", rounds: o.Rounds,
		deadline: time.Minute + time.Duration(o.Exchanges)*5*time.Millisecond + time.Duration(o.Messages)*20*time.Microsecond, progress: o.Progress}
	if err := c.play(ctx, playing...); err != nil {
		return nil, err
	}
	r.RoundsCall, r.RoundsPingPong, r.RoundsGRPC = call.figures, pingpong.figures, grpc.figures
	r.Call, r.PingPong, r.GRPC = call.median(), pingpong.median(), grpc.median()
	r.RoundsRatioToPingPong, r.RoundsRatioToGRPC = byRound(r.RoundsCall, r.RoundsPingPong),
		byRound(r.RoundsCall, r.RoundsGRPC)
	r.RatioToPingPong, r.RatioToGRPC = *median(r.RoundsRatioToPingPong), *median(r.RoundsRatioToGRPC)
	r.Send16PerSecond, r.Request16PerSecond = send.median(), request.median()
	r.RoundsSend16Ratio = byRound(request.figures, send.figures)
	r.Send16Ratio = *median(r.RoundsSend16Ratio)
	r.Send1MGbit, r.TransferGbit = send1m.median(), transfer.median()
	r.RoundsSend1MRatio = byRound(send1m.figures, transfer.figures)
	r.Send1MRatio = *median(r.RoundsSend1MRatio)
	for i, p := range playing[len(playing)-len(CallsGoroutines):] {
		r.Goroutines = append(r.Goroutines, GoroutineRate{CallsGoroutines[i], p.median(), p.figures})
	}
	return r, nil
}

// WriteTable prints the report for people.
func (r *CallsReport) WriteTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "calls of %d bytes and answers of as many, one after the other; medians of %d rounds; XDP %s, %s\n",
		r.Bytes, r.Rounds, r.XDPMode, r.BindMode)
	fmt.Fprintf(&b, "%-10s %9s %14s  %s\n", "", "p50 us", "call by it", "by round")
	line := func(name string, p50, ratio float64, rounds []float64) {
		by := "-"
		if ratio > 0 {
			by = fmt.Sprintf("%.3f", ratio)
		}
		b.WriteString(strings.TrimRight(fmt.Sprintf("%-10s %9.2f %14s  %s", name, p50, by, ratios(rounds)), " ") + "\n")
	}
	line("call", r.Call, 0, nil)
	line("pingpong", r.PingPong, r.RatioToPingPong, r.RoundsRatioToPingPong)
	line("grpc", r.GRPC, r.RatioToGRPC, r.RoundsRatioToGRPC)
	b.WriteString("pingpong: a request and a reply of 16 bytes; grpc: unary calls over one TCP connection, with the runtime's scheduler, an end on each processor\n")
	fmt.Fprintf(&b,
		"messages of 16 bytes: %.2f million/s; requests of four words: %.2f; time of the first by that of the second %.3f (%s)\n",
		r.Send16PerSecond/1e6, r.Request16PerSecond/1e6, r.Send16Ratio, ratios(r.RoundsSend16Ratio))
	fmt.Fprintf(&b, "messages of 1 MiB: %.2f Gbit/s; blocks: %.2f; the first by the second %.3f (%s)\n",
		r.Send1MGbit, r.TransferGbit, r.Send1MRatio, ratios(r.RoundsSend1MRatio))
	for _, g := range r.Goroutines {
		fmt.Fprintf(&b, "%d goroutines call: %.2f million messages/s\n", g.N, g.PerSecond/1e6)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func ratios(rounds []float64) string {
	var each []string
	for _, v := range rounds {
		each = append(each, fmt.Sprintf("%.3f", v))
	}
	return strings.Join(each, " ")
}
