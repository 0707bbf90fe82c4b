package rawxdp

// This file finds the fastest XDP mode by trying. The name and promises of a driver say little
// about which mode is faster on one machine.

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/pin"
	"github.com/funet/funet/xdp"
)

const (
	rounds = 3
	// exchanges is the number of exchanges in a round. The differences between modes exceed the
	// variation of medians of that many. On a busy machine each exchange waits milliseconds until
	// both sides have run.
	exchanges = 500
	warmUp    = 200
	// slowest is the longest exchange that the histogram can tell from longer ones.
	slowest = 2 * Patience
	// deadline ends the trials on a stuck machine; usually half a second is enough.
	deadline = 2 * time.Minute
)

// ErrNoMode reports that every mode failed.
var ErrNoMode = errors.New("no XDP mode works")

// Mode is what Fastest finds out about one mode.
type Mode struct {
	Modes
	Rounds []float64 // p50 round trips in us, in order
	P50    float64   // their median in us; 0 when Err is set
	Err    error     // why the mode was left out; nil otherwise
}

// Fastest measures round trips between hosts 0 and 1 of a lab in every mode that works there:
// generic and native with copy, and native with zero-copy if every host supports it. The modes take
// turns in three rounds of 500 exchanges each, less than half a second in all. Fastest returns the
// mode with the smallest median of the rounds' p50, the first of equals, and the results of all
// modes in the order in which they were tried. Without jumbo, which says that FUNet takes frames of
// several buffers, native mode is not tried if the MTU lets frames be longer than a buffer.
//
// Both ends are in this process. Meanwhile it collects no garbage. Errors: ErrNoMode, or the
// context's. Any goroutine may call it, one at a time for a lab, which nothing else uses meanwhile.
func Fastest(ctx context.Context, l *lab.Lab, jumbo bool) (Modes, []Mode, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	all := []Mode{
		{Modes: Modes{xdp.AttachGeneric, xdp.BindCopy}},
		{Modes: Modes{xdp.AttachNative, xdp.BindCopy}},
		{Modes: Modes{xdp.AttachNative, xdp.BindZeroCopy}, Err: zeroCopy(l)},
	}
	for i := range all {
		if mtu := l.Options().MTU; mtu > PlainMTU && !jumbo && all[i].Attach == xdp.AttachNative && all[i].Err == nil {
			all[i].Err = fmt.Errorf("%w: MTU %d with frames of one buffer", xdp.ErrNotSupported, mtu)
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	// Processors besides the two that spin.
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 2)
	defer runtime.SetDefaultGOMAXPROCS()
	for round := range rounds {
		for n := range all {
			m := &all[(n+round)%len(all)]
			if m.Err != nil {
				continue
			}
			p50, err := turn(ctx, l, m.Modes)
			if ctx.Err() != nil {
				return Modes{}, all, fmt.Errorf("choose an XDP mode: %w", context.Cause(ctx))
			}
			if err != nil {
				m.Err = fmt.Errorf("round %d: %w", round+1, err)
				continue
			}
			m.Rounds = append(m.Rounds, p50)
		}
	}
	return choose(all)
}

// choose computes the median of each mode and picks the smallest.
func choose(all []Mode) (Modes, []Mode, error) {
	var best *Mode
	none := ErrNoMode
	for i := range all {
		m := &all[i]
		if m.Err != nil {
			none = fmt.Errorf("%w; %s, %s: %w", none, m.Attach, m.Bind, m.Err)
			continue
		}
		m.P50 = slices.Sorted(slices.Values(m.Rounds))[len(m.Rounds)/2]
		if best == nil || m.P50 < best.P50 {
			best = m
		}
	}
	if best == nil {
		return Modes{}, all, fmt.Errorf("choose an XDP mode: %w", none)
	}
	return best.Modes, all, nil
}

// turn measures one mode and returns the median round trip in microseconds.
func turn(ctx context.Context, l *lab.Lab, m Modes) (p50 float64, err error) {
	var ends [2]*End
	for host := range ends {
		mine, theirs := l.Hosts()[host].Interfaces[0], l.Hosts()[1-host].Interfaces[0]
		c := Config{Interface: mine.Name, LocalMAC: mine.MAC, RemoteMAC: theirs.MAC, FrameSize: DefaultFrameSize,
			Frags: l.Options().MTU > PlainMTU, Modes: m}
		if err := l.Do(host, func() (err error) { ends[host], err = Open(c); return err }); err != nil {
			return 0, fmt.Errorf("host %d: %w", host, err)
		}
		defer func() { err = errors.Join(err, ends[host].Close()) }()
		defer context.AfterFunc(ctx, ends[host].Stop)()
	}
	times := hdrhistogram.New(1, slowest.Nanoseconds(), 3)
	answered := make(chan error, 1)
	go func() {
		answered <- pinned(1, func(int) error { return ends[1].Answer() })
	}()
	base := time.Now()
	asked := make(chan error, 1)
	go func() {
		asked <- pinned(0, func(i int) error {
			start := time.Since(base)
			err := ends[0].Ask(uint64(i))
			if took := time.Since(base) - start; err == nil && i >= warmUp {
				err = times.RecordValue(min(took, slowest).Nanoseconds())
			}
			return err
		})
	}()
	if err := errors.Join(<-asked, <-answered); err != nil {
		return 0, err
	}
	return float64(times.ValueAtQuantile(50)) / 1000, nil
}

// pinned does something for each exchange on a thread that is pinned to a CPU. The thread ends with
// the goroutine.
func pinned(cpu int, do func(int) error) error {
	runtime.LockOSThread()
	if err := pin.Thread(cpu); err != nil {
		return fmt.Errorf("%w; measuring the modes needs CPUs 0 and 1", err)
	}
	for i := range warmUp + exchanges {
		if err := do(i); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	return nil
}

// zeroCopy tries to bind the lab's interfaces in zero-copy mode. It returns nil if that works, else
// the reason.
func zeroCopy(l *lab.Lab) error {
	for host, h := range l.Hosts() {
		err := l.Do(host, func() error {
			umem, err := xdp.NewUMEM(xdp.UMEMConfig{FrameSize: UMEMFrame, FrameCount: umemFrames})
			if err != nil {
				return err
			}
			socket, err := xdp.Open(xdp.SocketConfig{Interface: h.Interfaces[0].Name, UMEM: umem,
				Bind: xdp.BindZeroCopy})
			if err != nil {
				return errors.Join(err, umem.Close())
			}
			return errors.Join(socket.Close(), umem.Close())
		})
		if err != nil {
			return fmt.Errorf("host %d: %w", host, err)
		}
	}
	return nil
}
