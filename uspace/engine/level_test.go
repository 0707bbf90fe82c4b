package engine_test

// This file holds the rules of the two levels and of the TICKET register, and of
// acknowledgments that ride on data.

import (
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// Rule: replies are retrieved and sent before requests, whatever was committed
// first (thesis 5.2.2: precedence is given to the reply packet; design idea 5).
func TestRepliesGoFirst(t *testing.T) {
	var frames [][]byte
	b := newBed(t, setup{cards: 2, slots: 64, net: near, tune: func(c *engine.Config) {
		c.Train = 1
	}, wrap: capture(&frames)})
	exactlyOnce(b, newTraffic(b, 10, 2))
	frames = nil
	for i := range uint32(4) {
		b.mustSend(0, funi.Request, 1, i)
	}
	for i := range uint32(4) {
		b.mustSend(0, funi.Reply, 1, i)
	}
	b.step(b.now)
	var order []arctic.Level
	for _, raw := range frames {
		if f, err := arctic.Parse(raw); err == nil && f.Packets() > 0 {
			order = append(order, f.Header().Level)
		}
	}
	if len(order) != 8 {
		t.Fatalf("%d frames with packets, want 8", len(order))
	}
	for i, l := range order {
		if want := []arctic.Level{arctic.Reply, arctic.Request}[i/4]; l != want {
			t.Fatalf("frame %d is of level %v, want %v; %v", i, l, want, order)
		}
	}
}

// Rule: TICKET has a bit for each of eight lines, set while the line is free (thesis 3.1.2, 5.2.4).
// A packet takes the lowest free line. Requests stop at the lines reserved for replies (hi),
// replies when none is left (full). An acknowledgment sets the bit again.
func TestTicketRegister(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 64, net: near, tune: thesis})
	ticket := func(want uint32, when string) {
		t.Helper()
		b.step(b.now) // the register follows when the card has nothing else to do (publish)
		if got := b.mem[0].Page.Load(funi.Ticket); got != want {
			t.Errorf("%s: TICKET %#010b, want %#010b", when, got, want)
		}
	}
	ticket(0b11111111, "fresh")
	b.cards[1] = nil
	b.mustSend(0, funi.Request, 1, 0)
	b.step(b.now)
	ticket(0b11111110, "one request")
	for i := range uint32(10) {
		b.mustSend(0, funi.Request, 1, i)
	}
	b.step(b.now)
	ticket(0b11000000, "eleven requests: hi")
	if n := b.proc[0].Unsent(funi.Request); n != 5 {
		t.Errorf("%d requests wait in the send queue, want 5", n)
	}
	b.mustSend(0, funi.Reply, 1, 0)
	b.step(b.now)
	ticket(0b10000000, "a reply passes")
	b.mustSend(0, funi.Reply, 1, 1)
	b.mustSend(0, funi.Reply, 1, 2)
	b.step(b.now)
	ticket(0b00000000, "full")
	if n := b.proc[0].Unsent(funi.Reply); n != 1 {
		t.Errorf("%d replies wait in the send queue, want 1", n)
	}
	b.start(1)
	b.idle(time.Second)
	ticket(0b11111111, "all acknowledged")
}

// Rule: replies get through while every line for requests waits on a receiver that
// takes none (thesis 2.10: the second level breaks the deadlock).
func TestRepliesPassStalledRequests(t *testing.T) {
	for kind, tune := range cardConfigs {
		b := newBed(t, setup{cards: 2, slots: 16, net: near, tune: tune})
		flood := func() {
			for b.send(0, funi.Request, 1, 0) {
			}
		}
		b.alarm = b.now + int64(20*time.Millisecond)
		b.until(time.Second, "requests are stuck", func() bool { flood(); return b.now >= b.alarm })
		b.alarm = 0
		sent, got := 0, 0
		begin := b.now
		b.until(time.Second, "replies arrive", func() bool {
			flood()
			for sent < 500 && b.send(0, funi.Reply, 1, uint32(sent)) {
				sent++
			}
			for _, ok := take(b.proc[1], funi.Reply); ok; _, ok = take(b.proc[1], funi.Reply) {
				got++
			}
			return got == 500
		})
		if took := time.Duration(b.now - begin); took > 100*time.Millisecond {
			t.Errorf("%s: 500 replies took %v", kind, took)
		}
	}
}
