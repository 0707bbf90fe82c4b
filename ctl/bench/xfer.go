// This file compares block transfers of FUNet with raw AF_XDP and iperf3, in turn, at one MTU after
// the other. Host 0 sends, host 1 receives. Raw AF_XDP moves the same frames in the same way on the
// same lab (role_stream.go). iperf3 has a lab of its own without an XDP program, which would slow
// its interfaces.

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/xdp"
)

// The limits of XferOptions.
var (
	XferSeconds = Limits{1, 60, 1}
	// XferBlock is in bytes. A block is also a multiple of XferBlockUnit. The usual block has as
	// many bytes as one write of iperf3.
	XferBlock = Limits{XferBlockUnit, arctic.MaxTransferWords * arctic.WordSize, 128 << 10}
	XferDepth = Limits{1, 256, 8}
)

const (
	XferBlockUnit = arctic.TransferAlign // bytes
	MaxXferMemory = 1 << 30              // bytes of all blocks under way
	MinXferMTU    = arctic.MinMTU        // bytes
	MaxXferMTU    = lab.MaxMTU

	// probeBytes is the approximate length of the first transfer, whose speed gives the length of
	// the others.
	probeBytes = 128 << 20
)

// XferOptions say what Xfer does. Zero values stand for the defaults.
type XferOptions struct {
	MTUs    []int // bytes, each once; required
	Rounds  int   // at each MTU, see Rounds
	Seconds int   // approximate duration of a run, see XferSeconds
	Block   int   // bytes of FUNet's blocks, see XferBlock
	// blocks under way at once, see XferDepth; their bytes are at most MaxXferMemory
	Depth int

	// Up makes the lab of two hosts on which Funet runs, and returns how its frames travel. Xfer
	// closes the lab. It is required.
	Up func(ctx context.Context, mtu int) (*lab.Lab, XferWay, error)
	// Funet moves the given number of bytes, a multiple of Block, from the memory of host 0 to that
	// of host 1, within ctx, and checks them there. It is required.
	Funet func(ctx context.Context, l *lab.Lab, bytes int) (GoodputSample, error)

	// RoleCommand are the arguments with which this program's binary calls RunRole; two more
	// are appended, the role and its configuration.
	RoleCommand []string

	// progress of each MTU, once it has taken two seconds; nil: none
	Progress io.Writer
}

// XferWay says how FUNet's frames travel.
type XferWay struct {
	// frames are received on the receiver's processor (lab.Options.Steer), not on the sender's
	Steered bool `json:"steered"`
	Jumbo   bool `json:"jumbo"`       // frames as long as the MTU allows, in several buffers
	Frame   int  `json:"frame_bytes"` // of the longest frame

	Attach xdp.AttachMode `json:"-"` // FUNet's
	Bind   xdp.BindMode   `json:"-"`
}

// XferReport is the result of Xfer. Its JSON form is stable.
type XferReport struct {
	Runs []XferRun `json:"runs"` // one for each MTU, in the order of the options

	Rounds      int    `json:"rounds"`
	Seconds     int    `json:"seconds"` // approximate duration of a run
	Block       int    `json:"block_bytes"`
	Depth       int    `json:"blocks_at_once"`
	Iperf3      bool   `json:"iperf3_present"`
	Iperf3Note  string `json:"iperf3_note,omitempty"` // why iperf3 is absent
	Iperf3Block int    `json:"iperf3_block_bytes"`
	TCP         string `json:"iperf3_tcp_congestion_control,omitempty"` // such as "cubic"
}

// XferRun is the comparison at one MTU. Figures outside of rounds are medians over the rounds;
// those of iperf3 are nil when it is absent.
type XferRun struct {
	MTU      int      `json:"mtu"` // bytes
	Gbit     float64  `json:"gbit_per_s"`
	Iperf3   *float64 `json:"iperf3_gbit_per_s"`
	Ratio    *float64 `json:"ratio"` // median of RoundsRatio
	Raw      float64  `json:"raw_afxdp_gbit_per_s"`
	RatioRaw float64  `json:"ratio_to_raw_afxdp"` // median of RoundsRatioRaw

	RoundsGbit     []float64 `json:"rounds_gbit_per_s"` // figures of each round, in order
	RoundsIperf3   []float64 `json:"rounds_iperf3_gbit_per_s,omitempty"`
	RoundsRatio    []float64 `json:"rounds_ratio,omitempty"` // Gbit by Iperf3
	RoundsRaw      []float64 `json:"rounds_raw_afxdp_gbit_per_s"`
	RoundsRatioRaw []float64 `json:"rounds_ratio_to_raw_afxdp"` // Gbit by Raw

	// Of each round, in order.
	Congestion          []Congestion `json:"rounds_congestion"`
	Iperf3Retransmitted []uint64     `json:"rounds_iperf3_segments_retransmitted,omitempty"`

	Bytes    int    `json:"bytes"`     // moved by FUNet in a round
	XDPMode  string `json:"xdp_mode"`  // FUNet's
	BindMode string `json:"bind_mode"` // FUNet's
	XferWay
}

// Xfer compares the rates at which FUNet, raw AF_XDP and iperf3 over TCP move memory from one host
// to another. Without iperf3 the report says so and lacks its figures. Errors: ErrOptions,
// ErrFunet, the context's, or a failure in a lab, in raw AF_XDP or in iperf3. Any goroutine may
// call it.
func Xfer(ctx context.Context, o XferOptions) (*XferReport, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("measure transfers: %w", err)
	}
	r := &XferReport{Rounds: o.Rounds, Seconds: o.Seconds, Block: o.Block, Depth: o.Depth, Iperf3Block: iperf3Block}
	r.Iperf3Note = absent(iperf3Needs)
	r.Iperf3 = r.Iperf3Note == ""
	for _, mtu := range o.MTUs {
		if err := r.at(ctx, mtu, &o); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// check refuses impossible options, and replaces zeros by the usual numbers.
func (o *XferOptions) check() error {
	for i, mtu := range o.MTUs {
		if mtu < MinXferMTU || mtu > MaxXferMTU {
			return fmt.Errorf("%w: MTU %d; use %d to %d", ErrOptions, mtu, MinXferMTU, MaxXferMTU)
		}
		if slices.Contains(o.MTUs[:i], mtu) {
			return fmt.Errorf("%w: MTU %d twice; give each once", ErrOptions, mtu)
		}
	}
	err := complete(number{&o.Rounds, Rounds, "%d rounds"}, number{&o.Seconds, XferSeconds, "%d seconds"},
		number{&o.Block, XferBlock, "blocks of %d bytes"}, number{&o.Depth, XferDepth, "%d blocks at once"})
	switch {
	case err != nil:
		return err
	case len(o.MTUs) == 0:
		return fmt.Errorf("%w: no MTU; give at least one", ErrOptions)
	case o.Block%XferBlockUnit != 0:
		return fmt.Errorf("%w: blocks of %d bytes; use a multiple of %d", ErrOptions, o.Block, XferBlockUnit)
	case o.Depth*o.Block > MaxXferMemory:
		return fmt.Errorf("%w: %d blocks of %d bytes at once; use at most %d bytes of them", ErrOptions, o.Depth,
			o.Block, MaxXferMemory)
	case o.Up == nil || o.Funet == nil || len(o.RoleCommand) == 0:
		return fmt.Errorf("%w: Up, Funet and RoleCommand are required", ErrOptions)
	}
	return nil
}

// at adds the comparison at one MTU.
func (r *XferReport) at(ctx context.Context, mtu int, o *XferOptions) (err error) {
	c := comparison{what: fmt.Sprintf("measure transfers at MTU %d", mtu), unit: fmt.Sprintf("Gbit/s at MTU %d", mtu),
		rounds:   o.Rounds,
		deadline: 30*time.Second + time.Duration(o.Seconds)*20*time.Second, progress: o.Progress}
	mine, way, err := o.Up(ctx, mtu)
	if err != nil {
		return fmt.Errorf("%s: %w", c.what, err)
	}
	defer func() { err = errors.Join(err, mine.Close()) }()
	run := XferRun{MTU: mtu, XferWay: way}
	transfer := func(ctx context.Context) (GoodputSample, error) { return o.Funet(ctx, mine, run.Bytes) }
	funet := ours("funet", transfer, func(s GoodputSample) float64 {
		run.Congestion = append(run.Congestion, s.Congestion)
		run.XDPMode, run.BindMode = s.XDPMode, s.BindMode
		return s.Gbit
	})
	here, err := newSession(mine, Options{RoleCommand: o.RoleCommand})
	if err != nil {
		return fmt.Errorf("%s: %w", c.what, err)
	}
	contenders := []*contender{funet, {name: rawAFXDP, run: func(ctx context.Context) (float64, error) {
		return here.stream(ctx, run.raw(here, o))
	}}}
	if r.Iperf3 {
		theirs, err := lab.Up(lab.Options{Hosts: 2, MTU: mtu})
		if err != nil {
			return fmt.Errorf("%s: make iperf3's lab: %w", c.what, err)
		}
		s, err := newSession(theirs, Options{})
		if err != nil {
			return errors.Join(err, theirs.Close())
		}
		defer func() { err = errors.Join(err, theirs.Close()) }()
		contenders = append(contenders, &contender{name: "iperf3", run: func(ctx context.Context) (float64, error) {
			sample, err := runIperf3(ctx, s, o.Seconds)
			run.Iperf3Retransmitted = append(run.Iperf3Retransmitted, sample.Retransmitted)
			r.TCP = sample.Control
			return sample.Gbit, err
		}})
	}

	run.Bytes = o.blocks(probeBytes)
	gbit, err := c.run(ctx, funet)
	if err != nil {
		return fmt.Errorf("%s: first transfer: %w", c.what, err)
	}
	run.Bytes, run.Congestion = o.blocks(gbit*1e9/8*float64(o.Seconds)), nil
	if err := c.play(ctx, contenders...); err != nil {
		return err
	}
	run.sum(figures(contenders))
	r.Runs = append(r.Runs, run)
	return nil
}

// raw returns the configuration of both ends of raw AF_XDP: FUNet's frames, modes and blocks.
func (r *XferRun) raw(s *session, o *XferOptions) roleConfig {
	c := s.roleConfig(r.Attach, r.Bind, 0, r.Bytes/o.Block)
	c.FrameSize, c.Frags = r.Frame, c.Frags || r.Jumbo
	c.streamConfig = streamConfig{Block: o.Block, Memory: o.Block * o.Depth, Jumbo: r.Jumbo}
	return c
}

// sum enters the figures of the rounds, with medians and ratios. They are FUNet's, raw AF_XDP's
// and, if it ran, iperf3's.
func (r *XferRun) sum(figures [][]float64) {
	r.RoundsGbit, r.Gbit = figures[0], *median(figures[0])
	r.RoundsRaw, r.RoundsRatioRaw = figures[1], byRound(figures[0], figures[1])
	r.Raw, r.RatioRaw = *median(r.RoundsRaw), *median(r.RoundsRatioRaw)
	if len(figures) > 2 {
		r.RoundsIperf3, r.RoundsRatio = figures[2], byRound(figures[0], figures[2])
		r.Iperf3, r.Ratio = median(r.RoundsIperf3), median(r.RoundsRatio)
	}
}

// blocks rounds a number of bytes up to whole blocks.
func (o *XferOptions) blocks(bytes float64) int {
	return int(math.Ceil(bytes/float64(o.Block))) * o.Block
}

// String names the special properties of the way.
func (w XferWay) String() (s string) {
	if w.Steered {
		s += ", steered"
	}
	if w.Jumbo {
		s += ", jumbo"
	}
	return s
}

// WriteTable prints the report for people.
func (r *XferReport) WriteTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "memory to memory in blocks of %d bytes, %d at once; medians of %d rounds of about %d s\n", r.Block,
		r.Depth, r.Rounds, r.Seconds)
	fmt.Fprintf(&b, "%-6s %8s %9s %7s %8s %7s %11s %10s  %-30s %s\n", "MTU", "Gbit/s", rawAFXDP, "ratio", "iperf3",
		"ratio", "sent again", "by iperf3", "way", "ratios of each round")
	for _, run := range r.Runs {
		var again, tcpAgain uint64
		for _, c := range run.Congestion {
			again += c.Retransmitted
		}
		for _, n := range run.Iperf3Retransmitted {
			tcpAgain += n
		}
		by := "-"
		if r.Iperf3 {
			by = fmt.Sprint(tcpAgain)
		}
		var rounds []string
		for i, v := range run.RoundsRatioRaw {
			ratios := fmt.Sprintf("%.2f", v)
			if r.Iperf3 {
				ratios += fmt.Sprintf("/%.2f", run.RoundsRatio[i])
			}
			rounds = append(rounds, ratios)
		}
		line := fmt.Sprintf("%-6d %8.2f %9.2f %7.2f %8s %7s %11d %10s  %-30s %s", run.MTU, run.Gbit, run.Raw,
			run.RatioRaw, figure(run.Iperf3), figure(run.Ratio), again, by,
			run.XDPMode+", "+run.BindMode+run.XferWay.String(), strings.Join(rounds, " "))
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	fmt.Fprintf(&b,
		"%s: the same frames in the same way, one copy in and one out, no protocol; ratios are FUNet's by the others'\n", rawAFXDP)
	if r.Iperf3 {
		fmt.Fprintf(&b, "iperf3: one TCP stream with %s, no XDP program, received on the sender's processor\n", r.TCP)
	} else {
		fmt.Fprintf(&b, "iperf3: absent; %s\n", r.Iperf3Note)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
