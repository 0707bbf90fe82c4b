// This file finds the fastest XDP mode by trying. The name and promises of a driver say little
// about which mode is faster on one machine.

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/xdp"
)

const (
	calibrationRounds = 3
	// calibrationExchanges is the number of exchanges in a round. The differences between modes
	// exceed the variation of medians of that many. On a busy machine each exchange waits
	// milliseconds until both sides have run.
	calibrationExchanges = 500
	calibrationWarmup    = 200
	// calibrationDeadline ends the trials on a stuck machine; usually half a second is enough.
	calibrationDeadline = 2 * time.Minute
)

// chooseMode is the prefix of CalibrateMode's errors.
const chooseMode = "choose an XDP mode"

// ModeResult has the measurements of CalibrateMode in one mode.
type ModeResult struct {
	Attach xdp.AttachMode
	Bind   xdp.BindMode
	Rounds []float64 // p50 round trips of raw_afxdp in us, in order
	P50    float64   // their median in us; 0 when Err is set
	Err    error     // why the mode was left out; nil otherwise
}

// MarshalJSON writes the modes and the error as text.
func (r ModeResult) MarshalJSON() ([]byte, error) {
	v := struct {
		Attach string    `json:"xdp_mode"`
		Bind   string    `json:"bind_mode"`
		P50    *float64  `json:"rtt_p50_us,omitempty"`
		Rounds []float64 `json:"rounds_p50_us,omitempty"`
		Error  string    `json:"error,omitempty"`
	}{Attach: r.Attach.String(), Bind: r.Bind.String(), Rounds: r.Rounds}
	if r.Err != nil {
		v.Error = r.Err.Error()
	} else {
		v.P50 = &r.P50
	}
	return json.Marshal(v)
}

// CalibrateMode measures raw_afxdp's round trip between hosts 0 and 1 of a lab in every mode that
// works there: generic and native with copy, and native with zero-copy if every host supports it.
// The modes take turns in three rounds of 500 exchanges each, less than half a second in all.
// CalibrateMode returns the mode with the smallest median of the rounds' p50, the first of equals.
// It also returns the results of all modes in the order in which they were tried. Of the options it
// uses FrameSize, Jumbo and RoleCommand.
//
// Errors: ErrOptions, ErrNoMode, or the context's. Any goroutine may call it, one at a time for a
// lab, which nothing else uses meanwhile.
func CalibrateMode(ctx context.Context, l *lab.Lab, o Options) (xdp.AttachMode, xdp.BindMode, []ModeResult, error) {
	fail := func(results []ModeResult, err error) (xdp.AttachMode, xdp.BindMode, []ModeResult, error) {
		return xdp.AttachAuto, xdp.BindAuto, results, err
	}
	o, err := o.withDefaults(l)
	if err != nil {
		return fail(nil, err)
	}
	s, err := newSession(l, o)
	if err != nil {
		return fail(nil, err)
	}
	ctx, cancel := context.WithTimeout(ctx, calibrationDeadline)
	defer cancel()

	results := []ModeResult{
		{Attach: xdp.AttachGeneric, Bind: xdp.BindCopy},
		{Attach: xdp.AttachNative, Bind: xdp.BindCopy},
		{Attach: xdp.AttachNative, Bind: xdp.BindZeroCopy, Err: s.zeroCopy()},
	}
	if mtu := l.Options().MTU; mtu > plainMTU && !o.Jumbo {
		for i := range results {
			if r := &results[i]; r.Attach == xdp.AttachNative && r.Err == nil {
				r.Err = fmt.Errorf("%w: MTU %d with frames of one buffer", xdp.ErrNotSupported, mtu)
			}
		}
	}
	contenders := make([]*contender, len(results)) // nil for a mode that does not work
	var playing []*contender
	for i := range results {
		r := &results[i]
		if r.Err != nil {
			continue
		}
		var p *pair
		if p, r.Err = s.startPair(ctx, rawAFXDP, s.roleConfig(r.Attach, r.Bind, calibrationWarmup,
			calibrationExchanges)); r.Err != nil {
			continue
		}
		defer p.end()
		contenders[i] = &contender{name: fmt.Sprintf("%s, %s", r.Attach, r.Bind), spared: 1,
			run: func(ctx context.Context) (float64, error) {
				var out outcome
				err := p.turn(ctx, &out, nil)
				if err != nil {
					p.end() // before the next mode needs its queue
				}
				return out.P50, err
			}}
		playing = append(playing, contenders[i])
	}
	c := comparison{what: chooseMode, unit: "p50 us", rounds: calibrationRounds, deadline: calibrationDeadline}
	err = c.play(ctx, playing...)
	for i, p := range contenders {
		if p != nil {
			results[i].Rounds, results[i].Err = p.figures, p.err
		}
	}
	if err != nil {
		return fail(results, err)
	}
	if ctx.Err() != nil {
		return fail(results, fmt.Errorf("%s: %w", chooseMode, context.Cause(ctx)))
	}
	return fastest(results)
}

// fastest computes the median of each mode and picks the smallest.
func fastest(results []ModeResult) (xdp.AttachMode, xdp.BindMode, []ModeResult, error) {
	var best *ModeResult
	none := ErrNoMode
	for i := range results {
		r := &results[i]
		if r.Err != nil {
			none = fmt.Errorf("%w; %s, %s: %w", none, r.Attach, r.Bind, r.Err)
			continue
		}
		r.P50 = *median(r.Rounds)
		if best == nil || r.P50 < best.P50 {
			best = r
		}
	}
	if best == nil {
		return xdp.AttachAuto, xdp.BindAuto, results, fmt.Errorf("%s: %w", chooseMode, none)
	}
	return best.Attach, best.Bind, results, nil
}

// zeroCopy tries to bind the lab's interfaces in zero-copy mode. It returns nil if that works, else
// the reason.
func (s *session) zeroCopy() error {
	for host := range s.hosts {
		err := s.lab.Do(host, func() error {
			umem, err := xdp.NewUMEM(xdp.UMEMConfig{FrameSize: umemFrame, FrameCount: umemFrames})
			if err != nil {
				return err
			}
			socket, err := xdp.Open(xdp.SocketConfig{Interface: s.hosts[host].Interfaces[0].Name, UMEM: umem,
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
