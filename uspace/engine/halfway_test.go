package engine_test

// This file holds the rules of transfers that cannot go on: something drops their frames
// alone, or the peer's card is started anew.

import (
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
)

// blockFlag is the bit of a frame's flags that says that it has a block (package arctic).
const blockFlag = 1 << 3

// Rule: nothing hangs for ever (design idea 4). A peer that takes all frames but blocks,
// because they are too long for its port, is heard all the time; the transfer comes back
// all the same, within a few PeerTimeouts.
func TestBlocksThatNeverArrive(t *testing.T) {
	b, _ := transferBed(t, setup{cards: 2, slots: 16, net: near, tune: quick,
		wrap: func(_ int, p *wire.Port) port.Port {
			return &tap{Port: p, see: func(frame []byte) bool { return frame[15]&blockFlag == 0 }}
		}})
	exactlyOnce(b, newTraffic(b, 3, 2))
	request(b.proc[0], funi.Request, 1, funi.Transfer{Source: area, Destination: area, Argument: 7,
		Words: areaSize / 4})
	var back funi.Returned
	arrived := 0
	b.until(5*time.Second, "the transfer comes back", func() (ok bool) {
		put(b.proc[1], funi.Request, 0, 1)
		for _, ok := take(b.proc[0], funi.Request); ok; _, ok = take(b.proc[0], funi.Request) {
			arrived++
		}
		for r, more := b.proc[0].NextReturn(); more; r, more = b.proc[0].NextReturn() {
			if r.Header.Transfer() {
				back, ok = r, true
			}
		}
		return ok
	})
	if back.Reason != arctic.ReasonSilent || back.Word != 7 || arrived < 3 {
		t.Errorf("came back as %+v while %d messages arrived", back, arrived)
	}
	if b.cards[0].Counters().PeersLost != 0 {
		t.Error("the peer was lost, so nothing was tested")
	}
}

// Rule: a transfer whose receiver's card is started anew half way comes back, once, and makes no
// notice. What the card had of the transfer went with its memory. No later life is given what an
// earlier one was sent (design idea 4).
func TestRestartWithinATransfer(t *testing.T) {
	for _, after := range []time.Duration{5 * time.Microsecond, 50 * time.Microsecond, 200 * time.Microsecond,
		time.Millisecond} {
		b, m := transferBed(t, setup{cards: 2, slots: 16, net: near, tune: quick})
		exactlyOnce(b, newTraffic(b, 3, 2))
		request(b.proc[0], funi.Request, 1, funi.Transfer{Source: area, Destination: area, Argument: 7,
			Words: areaSize / 4})
		b.pass(after)
		noticed, ok := take(b.proc[1], funi.Request)
		b.cards[1] = nil
		b.start(1)
		if err := b.ctx[1].Register(funi.Segment{Base: area, Memory: m[1].area, Rights: funi.Destination}); err != nil {
			t.Fatal(err)
		}
		if ok {
			t.Logf("noticed %v before the card was started anew", noticed.Notice())
			continue
		}
		back := 0
		b.until(5*time.Second, "the transfer comes back", func() bool {
			for r, ok := b.proc[0].NextReturn(); ok; r, ok = b.proc[0].NextReturn() {
				if r.Reason != arctic.ReasonRestarted || r.Word != 7 {
					t.Fatalf("after %v: came back as %+v", after, r)
				}
				back++
			}
			if s, ok := take(b.proc[1], funi.Request); ok {
				t.Fatalf("after %v: noticed %v in the next life", after, s.Notice())
			}
			put(b.proc[1], funi.Request, 0, 1) // so that the cards meet
			return back == 1
		})
		b.pass(500 * time.Millisecond)
		if _, ok := b.proc[0].NextReturn(); ok {
			t.Errorf("after %v: came back twice", after)
		}
		if s, ok := take(b.proc[1], funi.Request); ok {
			t.Errorf("after %v: noticed %v", after, s.Notice())
		}
		if err := b.cards[0].Check(); err != nil {
			t.Error(err)
		}
	}
}
