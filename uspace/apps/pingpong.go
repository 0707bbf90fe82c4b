package apps

// This file is ping-pong: round trips of a four-word request and a four-word reply
// between nodes 0 and 1.

import (
	"errors"
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/funet/funet/uspace/am"
)

// Handler numbers of ping-pong.
const (
	pingHandler = 0
	pongHandler = 1
)

// longest is the longest round trip that the histogram distinguishes: 10 s in ns.
const longest = 10_000_000_000

// ErrVerify reports that a program got wrong data.
var ErrVerify = errors.New("apps: verification failed")

// PingPongOptions are the same on all nodes.
type PingPongOptions struct {
	Exchanges int // measured
	WarmUp    int // before that, not measured
	Progress  Progress
}

// PingPong runs ping-pong. On node 0 it returns the histogram of round trips in nanoseconds; each
// round trip was checked to have returned its own words. On other nodes the histogram is nil. clock
// returns nanoseconds.
func PingPong(e *am.Endpoint, clock func() int64, o PingPongOptions) (*hdrhistogram.Histogram, error) {
	var pong [4]uint32
	answered, failed := 0, error(nil)
	err := errors.Join(
		e.Handle(pingHandler, func(m *am.Message) {
			if len(m.Words) != 4 {
				failed = fmt.Errorf("%w: ping of %d words", ErrVerify, len(m.Words))
				return
			}
			if err := m.Reply4(pongHandler, m.Words[0], m.Words[1], ^m.Words[2], ^m.Words[3]); err != nil {
				failed = err
			}
		}),
		e.Handle(pongHandler, func(m *am.Message) {
			answered++
			copy(pong[:], m.Words)
		}))
	if err != nil {
		return nil, err
	}
	if err := e.Barrier(); err != nil {
		return nil, err
	}
	var h *hdrhistogram.Histogram
	if e.Node() == 0 {
		h = hdrhistogram.New(1, longest, 3)
		begin := clock()
		for i := range o.WarmUp + o.Exchanges {
			if i%progressEvery == 0 {
				o.Progress.tell(i, o.WarmUp+o.Exchanges)
			}
			a, b := uint32(i), uint32(i)*2654435761
			want := answered + 1
			if err := e.Request4(1, pingHandler, a, b, a, b); err != nil {
				return nil, err
			}
			for answered < want {
				if _, err := e.Poll(); err != nil {
					return nil, err
				}
			}
			end := clock()
			if pong != [4]uint32{a, b, ^a, ^b} {
				return nil, fmt.Errorf("%w: exchange %d brought back %x", ErrVerify, i, pong)
			}
			if i >= o.WarmUp {
				if err := h.RecordValue(end - begin); err != nil {
					return nil, fmt.Errorf("recording exchange %d: %w", i, err)
				}
			}
			begin = end
		}
	}
	return h, errors.Join(e.Barrier(), failed)
}
