package engine_test

// This file holds what lies outside of the window: frames of which no sender can have
// so many unanswered, and answers to frames that were never sent.

import (
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// Rule: a sender has at most Window frames unanswered (Config, Window). A frame whose
// age says that it has more is dropped and counted, whatever its sequence number; the
// largest age that is possible is taken.
func TestMoreUnansweredThanTheWindow(t *testing.T) {
	message := []arctic.PacketHeader{{Length: 1, Type: 5, Source: 1, Destination: 0}}
	for _, c := range []struct {
		sequence uint32
		age      uint16
		dropped  uint64
	}{{1, 0, 0}, {1, engine.Window - 1, 0}, {1, engine.Window, 1}, {1, 0xffff, 1}, {engine.Window + 1, engine.Window, 1}} {
		b := newBed(t, setup{cards: 2, slots: 16, net: near})
		exactlyOnce(b, newTraffic(b, 1, 2)) // sequence 1 is next
		before := b.cards[0].Counters()
		b.inject(forge(message, func(h *arctic.Header) { h.Sequence, h.Age = c.sequence, c.age }))
		b.pass(time.Millisecond)
		after := b.cards[0].Counters()
		dropped, delivered := after.OutOfWindow-before.OutOfWindow, after.PacketsDelivered-before.PacketsDelivered
		if dropped != c.dropped || delivered != 1-c.dropped {
			t.Errorf("sequence %d of age %d: counted %d times as out of the window and delivered %d times, want %d and %d", c.sequence, c.age, dropped, delivered, c.dropped, 1-c.dropped)
		}
		if err := b.cards[0].Check(); err != nil {
			t.Errorf("sequence %d of age %d: %v", c.sequence, c.age, err)
		}
	}
}

// Rule: an acknowledgment of what was never sent is ignored (RFC 9293 section 3.10.7.4),
// in the cumulative number as in the selective bits, so what is in flight keeps its
// line and is sent again until it is answered (doc.go).
func TestAcknowledgmentOfWhatWasNeverSent(t *testing.T) {
	for _, c := range []struct {
		ack       uint32
		selective uint64
	}{{3, 0}, {1 + engine.Window, 0}, {1 << 16, ^uint64(0)}, {1, ^uint64(0)}, {0, ^uint64(1)}} {
		b := newBed(t, setup{cards: 2, slots: 16, net: near})
		exactlyOnce(b, newTraffic(b, 1, 2))
		b.net.Cut(func(from, _ [6]byte) bool { return from == address(0) })
		b.mustSend(0, funi.Request, 1, 77)
		b.step(b.now) // as sequence 1
		if next := b.cards[0].Link().Sequence(1, arctic.Request); next != 2 {
			t.Fatalf("the next frame is %d, so this tests nothing", next)
		}
		b.inject(forge(nil, func(h *arctic.Header) {
			h.Sequence, h.Acks[arctic.Request], h.Selective[arctic.Request] = 1, c.ack, c.selective
		}))
		b.pass(100 * time.Microsecond)
		if b.ctx[0].Idle() {
			t.Fatalf("acknowledgment %d, selective %#x: frame 1 counts as answered", c.ack, c.selective)
		}
		if err := b.cards[0].Check(); err != nil {
			t.Errorf("acknowledgment %d, selective %#x: %v", c.ack, c.selective, err)
		}
		b.net.Cut(nil)
		var s funi.Slot
		b.until(time.Second, "the message arrives", func() (ok bool) { s, ok = take(b.proc[1], funi.Request); return ok })
		if s.Payload()[0] != 77 {
			t.Errorf("got %#x", s[:])
		}
		b.idle(time.Second)
	}
}
