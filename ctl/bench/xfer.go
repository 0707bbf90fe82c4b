package bench

// This file is `funet bench xfer`, at one MTU after the other. Host 0 sends, host 1 receives. Raw
// AF_XDP moves the same frames in the same way on the same lab (role_stream.go). iperf3 has a lab
// of its own without an XDP program, which would slow its interfaces.

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/program"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/port/afxdp"
)

var (
	// xferBlock is in bytes. A block is also a multiple of xferBlockUnit. The usual block has as
	// many bytes as one write of iperf3.
	xferBlock = limits{xferBlockUnit, arctic.MaxTransferWords * arctic.WordSize, 128 << 10}
	xferDepth = limits{1, 256, 8}
)

const (
	xferBlockUnit = arctic.TransferAlign // bytes
	maxXferMemory = 1 << 30              // bytes of all blocks under way
	// probeBytes is the approximate length of the first transfer, whose speed gives the length of
	// the others, and of those that try a way.
	probeBytes = 128 << 20
)

// xfer compares block transfers with raw AF_XDP and iperf3.
type xfer struct {
	*flags
	mtus                  []int
	seconds, block, depth int
	runs                  []xferRun
	iperf3Note            string // why iperf3 is absent; "": it is present
	control               string // iperf3's TCP congestion control, such as "cubic"
	// up makes the lab of two hosts on which FUNet runs, and sets the flags so that its frames
	// travel in the returned way.
	up func(ctx context.Context, f *flags) (*match, way, error)
}

// way says how FUNet's frames travel.
type way struct {
	// frames are received on the receiver's processor (lab.Options.Steer), not on the sender's
	Steered bool `json:"steered"`
	Jumbo   bool `json:"jumbo"`       // frames as long as the MTU allows, in several buffers
	Frame   int  `json:"frame_bytes"` // of the longest frame
}

// xferRun is the comparison at one MTU. Figures outside of rounds are medians over the rounds;
// those of iperf3 are nil when it is absent.
type xferRun struct {
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
	Congestion          []congestion `json:"rounds_congestion"`
	Iperf3Retransmitted []uint64     `json:"rounds_iperf3_segments_retransmitted,omitempty"`

	Bytes    int    `json:"bytes"`     // moved by FUNet in a round
	XDPMode  string `json:"xdp_mode"`  // FUNet's
	BindMode string `json:"bind_mode"` // FUNet's
	way
}

func xferCommand() *cobra.Command {
	o := &xfer{flags: new(flags)}
	o.up = o.fastest
	c := &cobra.Command{
		Use:   "xfer",
		Short: "Compare the bandwidth of block transfers with raw AF_XDP's and that of TCP by iperf3",
		Long: `Compare how fast blocks of memory move from one host of a lab to the other with how
fast raw AF_XDP moves the same frames, with one copy in, one out and no protocol, and
with how fast iperf3 sends there by one TCP stream, at one MTU after the other. iperf3
has a lab of its own without an XDP program. Senders run on processor 0, receivers on 1.
FUNet's frames travel in the way that a few short transfers find fastest: received on the
sender's processor, as TCP's are, or on the receiver's (steered); of one buffer, or as
long as the MTU allows (jumbo). The three take turns; figures are medians over the
rounds, ratios are medians of those in each round. Without iperf3 the report says so and
lacks its figures.`,
		Example: "  funet bench xfer --lab 2 --mtu 1500,9000,65535",
	}
	c.Flags().IntSliceVar(&o.mtus, "mtu", []int{1500, 9000, 65535}, "of the labs' links, in bytes")
	o.number(c, &o.seconds, "seconds", limits{1, 60, 1}, "that each run takes, about")
	o.number(c, &o.block, "block", xferBlock, "bytes of one transfer, a multiple of 16 up to 64 MiB")
	o.number(c, &o.depth, "depth", xferDepth, "transfers under way at once")
	o.RegisterCard(c)
	return o.run(o.register(c, 2, 2, 2), func(ctx context.Context) (output.Report, error) {
		err := o.measure(ctx)
		return o.report(), err
	})
}

// measure makes the comparisons at all MTUs.
func (o *xfer) measure(ctx context.Context) error {
	if o.OnPorts() { // whose frames are no longer
		o.mtus = slices.DeleteFunc(slices.Clone(o.mtus), func(mtu int) bool { return mtu > program.LongestDirect })
		if len(o.mtus) == 0 {
			return fmt.Errorf("--mtu: direct ports have up to %d on a lab", program.LongestDirect)
		}
	}
	if err := o.check(); err != nil {
		return fmt.Errorf("measure transfers: %w", err)
	}
	o.iperf3Note = absent(iperf3Needs)
	for _, mtu := range o.mtus {
		if err := o.at(ctx, mtu); err != nil {
			return err
		}
	}
	return nil
}

// check refuses impossible options.
func (o *xfer) check() error {
	for i, mtu := range o.mtus {
		if mtu < arctic.MinMTU || mtu > lab.MaxMTU {
			return fmt.Errorf("%w: MTU %d; use %d to %d", errOptions, mtu, arctic.MinMTU, lab.MaxMTU)
		}
		if slices.Contains(o.mtus[:i], mtu) {
			return fmt.Errorf("%w: MTU %d twice; give each once", errOptions, mtu)
		}
	}
	switch {
	case len(o.mtus) == 0:
		return fmt.Errorf("%w: no MTU; give at least one", errOptions)
	case o.block%xferBlockUnit != 0:
		return fmt.Errorf("%w: blocks of %d bytes; use a multiple of %d", errOptions, o.block, xferBlockUnit)
	case o.depth*o.block > maxXferMemory:
		return fmt.Errorf("%w: %d blocks of %d bytes at once; use at most %d bytes of them", errOptions, o.depth,
			o.block, maxXferMemory)
	}
	return nil
}

// at adds the comparison at one MTU.
func (o *xfer) at(ctx context.Context, mtu int) (err error) {
	what := fmt.Sprintf("measure transfers at MTU %d", mtu)
	here := *o.flags
	here.MTU = mtu
	m, way, err := o.up(ctx, &here)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer func() { err = errors.Join(err, m.lab.Close()) }()
	m.what, m.unit = what, fmt.Sprintf("Gbit/s at MTU %d", mtu)
	m.deadline = 30*time.Second + time.Duration(o.seconds)*20*time.Second
	run := xferRun{MTU: mtu, way: way}
	funet := m.ours("funet", func(ctx context.Context) ([]node, error) {
		return m.nodes(ctx, &here.Flags, "transfer", transfer(run.Bytes, o.block, o.depth).Arguments())
	}, func(n []node) float64 {
		run.Congestion = append(run.Congestion, sum(n))
		return goodput(n)
	})
	m.theirs(rawAFXDP, func(ctx context.Context) (float64, error) {
		c := m.roleConfig(m.modes, 0, run.Bytes/o.block) // FUNet's frames, modes and blocks
		c.FrameSize, c.Frags = run.Frame, c.Frags || run.Jumbo
		c.streamConfig = streamConfig{Block: o.block, Memory: o.block * o.depth, Jumbo: run.Jumbo}
		return m.stream(ctx, c)
	})
	if o.iperf3Note == "" {
		theirs, err := lab.Up(lab.Options{Hosts: 2, MTU: mtu})
		if err != nil {
			return fmt.Errorf("%s: make iperf3's lab: %w", what, err)
		}
		s, err := newSession(theirs)
		if err != nil {
			return errors.Join(err, theirs.Close())
		}
		defer func() { err = errors.Join(err, theirs.Close()) }()
		m.theirs("iperf3", func(ctx context.Context) (float64, error) {
			found, err := runIperf3(ctx, s, o.seconds)
			run.Iperf3Retransmitted = append(run.Iperf3Retransmitted, found.Retransmitted)
			o.control = found.Control
			return found.Gbit, err
		})
	}
	run.Bytes = o.blocks(probeBytes)
	gbit, err := m.once(ctx, funet)
	if err != nil {
		return fmt.Errorf("%s: first transfer: %w", what, err)
	}
	run.Bytes, run.Congestion = o.blocks(gbit*1e9/8*float64(o.seconds)), nil
	if err := m.play(ctx, m.playing...); err != nil {
		return err
	}
	run.XDPMode, run.BindMode = m.attach, m.bind
	run.sum(m)
	o.runs = append(o.runs, run)
	return nil
}

// sum enters the figures of the rounds, with medians and ratios.
func (r *xferRun) sum(m *match) {
	r.RoundsGbit, r.Gbit = m.of("funet").figures, m.median("funet")
	r.RoundsRaw, r.Raw = m.of(rawAFXDP).figures, m.median(rawAFXDP)
	r.RoundsRatioRaw, r.RatioRaw = m.ratios("funet", rawAFXDP), m.ratio("funet", rawAFXDP)
	if len(m.playing) > 2 {
		r.RoundsIperf3, r.RoundsRatio = m.of("iperf3").figures, m.ratios("funet", "iperf3")
		r.Iperf3, r.Ratio = median(r.RoundsIperf3), median(r.RoundsRatio)
	}
}

// blocks rounds a number of bytes up to whole blocks.
func (o *xfer) blocks(bytes float64) int {
	return int(math.Ceil(bytes/float64(o.block))) * o.block
}

// fastest makes the lab on which a transfer is fastest. It tries each way three times. The caller
// closes the lab.
func (o *xfer) fastest(ctx context.Context, f *flags) (best *match, found way, err error) {
	longest := f.MTU + arctic.EthernetSize
	single := min(longest, afxdp.MaxSingle)
	ways := []way{{Frame: single}, {Frame: single, Steered: true}}
	if longest > single {
		ways = append(ways, way{Frame: longest, Jumbo: true}, way{Frame: longest, Jumbo: true, Steered: true})
	}
	defer func() {
		if err != nil && best != nil {
			err = errors.Join(err, best.lab.Close())
		}
	}()
	most := 0.0
	for _, w := range ways {
		f.Steer, f.Jumbo = w.Steered, w.Jumbo
		l, err := measuredLab(ctx, &f.Flags)
		if err != nil {
			return best, found, err
		}
		m, err := newMatch(f, l)
		gbit := 0.0
		for range 3 {
			if err == nil {
				var n []node
				n, err = m.nodes(ctx, &f.Flags, "transfer", transfer(o.blocks(probeBytes), o.block, o.depth).Arguments())
				gbit = max(gbit, append(n, node{})[0].Goodput)
			}
		}
		if err != nil {
			return best, found, errors.Join(err, l.Close())
		}
		worse := m
		if gbit > most {
			worse, best, most, found = best, m, gbit, w
		}
		if worse != nil {
			if err := worse.lab.Close(); err != nil {
				return best, found, err
			}
		}
	}
	f.Steer, f.Jumbo = found.Steered, found.Jumbo
	if best.modes.Attach, err = program.ParseAttach(f.Mode); err == nil {
		best.modes.Bind, err = program.ParseBind(f.Bind)
	}
	return best, found, err
}

// String names the special properties of the way.
func (w way) String() (s string) {
	if w.Steered {
		s += ", steered"
	}
	if w.Jumbo {
		s += ", jumbo"
	}
	return s
}

func (o *xfer) report() (r report) {
	r.with(figure{"runs", o.runs}, figure{"rounds", o.rounds}, figure{"seconds", o.seconds},
		figure{"block_bytes", o.block}, figure{"blocks_at_once", o.depth},
		figure{"iperf3_present", o.iperf3Note == ""})
	if o.iperf3Note != "" {
		r.with(figure{"iperf3_note", o.iperf3Note})
	}
	r.with(figure{"iperf3_block_bytes", iperf3Block})
	if o.control != "" {
		r.with(figure{"iperf3_tcp_congestion_control", o.control})
	}
	r.print("memory to memory in blocks of %d bytes, %d at once; medians of %d rounds of about %d s\n", o.block,
		o.depth, o.rounds, o.seconds)
	r.print("%-6s %8s %9s %7s %8s %7s %11s %10s  %-30s %s\n", "MTU", "Gbit/s", rawAFXDP, "ratio", "iperf3",
		"ratio", "sent again", "by iperf3", "way", "ratios of each round")
	for _, run := range o.runs {
		var again, tcpAgain uint64
		for _, c := range run.Congestion {
			again += c.Retransmitted
		}
		for _, n := range run.Iperf3Retransmitted {
			tcpAgain += n
		}
		by := "-"
		if o.iperf3Note == "" {
			by = fmt.Sprint(tcpAgain)
		}
		var rounds []string
		for i, v := range run.RoundsRatioRaw {
			ratios := fmt.Sprintf("%.2f", v)
			if o.iperf3Note == "" {
				ratios += fmt.Sprintf("/%.2f", run.RoundsRatio[i])
			}
			rounds = append(rounds, ratios)
		}
		r.line("%-6d %8.2f %9.2f %7.2f %8s %7s %11d %10s  %-30s %s", run.MTU, run.Gbit, run.Raw,
			run.RatioRaw, two(run.Iperf3), two(run.Ratio), again, by,
			run.XDPMode+", "+run.BindMode+run.way.String(), strings.Join(rounds, " "))
	}
	r.print("%s: the same frames in the same way, one copy in and one out, no protocol; ratios are FUNet's by the others'\n", rawAFXDP)
	if o.iperf3Note == "" {
		r.print("iperf3: one TCP stream with %s, no XDP program, received on the sender's processor\n", o.control)
	} else {
		r.print("iperf3: absent; %s\n", o.iperf3Note)
	}
	return r
}
