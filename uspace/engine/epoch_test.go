package engine_test

// This file holds what the epoch of two cards is for: both begin to count together, or not at all.

import (
	"slices"
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
)

// overhear is setup.wrap that keeps the last nonce of each card's greetings.
func overhear(nonces *[2]uint64) func(int, *wire.Port) port.Port {
	return func(card int, p *wire.Port) port.Port {
		return &tap{Port: p, see: func(b []byte) bool {
			if f, err := arctic.Look(b); err == nil && f.Hello() {
				var g arctic.Greeting
				f.Greeting(&g)
				nonces[card] = g.Nonce
			}
			return true
		}}
	}
}

// Rule: who sees the greetings of a card, and echoes each of its nonces with an incarnation that he
// made up, makes it begin an epoch that the peer does not hold; and then the two begin another one
// together. Every message arrives once or comes back, and none is acknowledged that its receiver
// has not seen; afterwards all is as before (package link, handshake.go).
func TestEchoOfAnotherLife(t *testing.T) {
	// before, so that the count of the peer is inside of the window, and far from it
	for _, sent := range []int{0, 3, 100, 700} {
		var nonces [2]uint64
		b := newBed(t, setup{cards: 2, slots: 64, tune: quick, net: near, wrap: overhear(&nonces)})
		exactlyOnce(b, newTraffic(b, sent+1, 3))
		for i := range uint64(6) {
			b.inject(forge(nil, func(h *arctic.Header) { h.Epoch = 77 })) // which has it greet
			b.pass(50 * time.Microsecond)
			before := b.cards[0].Epoch(1)
			b.inject(forgeGreeting(&arctic.Greeting{Nonce: 99 + i, Echo: nonces[0], Incarnation: uint32(77 + i),
				Longest: 1514}))
			b.pass(20 * time.Microsecond)
			if i == 0 && b.cards[0].Epoch(1) == before {
				b.inject(forgeGreeting(&arctic.Greeting{Nonce: 99 + i, Echo: nonces[0], Incarnation: uint32(77 + i),
					Longest: 1514}))
				b.pass(20 * time.Microsecond)
			}
		}
		if b.cards[0].Counters().PeersRestarted == 0 {
			t.Fatal("the card believed nothing, so nothing is tested")
		}
		tr := newTraffic(b, 1388/4, 3)
		tr.reasons = []arctic.Reason{arctic.ReasonResynchronised, arctic.ReasonRestarted}
		b.until(time.Minute, "all messages delivered, or back", tr.pump)
		b.idle(time.Minute)
		b.pass(200 * time.Millisecond)
		tr.pump()
		if got, back := tr.totals(); got+back < 4*(1388/4) || back > 4*64 {
			t.Errorf("%d messages before: %d delivered, %d came back", sent, got, back)
		}
		if b.cards[0].Epoch(1) != b.cards[1].Epoch(0) {
			t.Errorf("%d messages before: epochs %x and %x", sent, b.cards[0].Epoch(1), b.cards[1].Epoch(0))
		}
		exactlyOnce(b, newTraffic(b, 200, 3))
	}
}

// Rule: acknowledgments of what was never sent, three in a row, make two cards begin to count anew;
// no fewer do, and they do so no more often than each 100 ms (package link, acknowledge.go,
// greeting.go).
func TestImpossibleAcknowledgments(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 64, tune: quick, net: near})
	exactlyOnce(b, newTraffic(b, 20, 3))
	lie := func(times int) {
		b.mustSend(0, funi.Request, 1, 1) // so that there is something to acknowledge
		b.step(b.now)
		for i := range times {
			b.inject(forge(nil, func(h *arctic.Header) { h.Sequence, h.Acks = 40, [2]uint32{uint32(5000 + i), 5000} }))
		}
		b.pass(10 * time.Millisecond) // its own acknowledgment comes, too
	}
	epoch := b.cards[0].Epoch(1)
	lie(2)
	lie(2)
	if c := b.cards[0].Counters(); c.NeverSent == 0 || b.cards[0].Epoch(1) != epoch {
		t.Fatalf("%d impossible acknowledgments, epoch %x, before %x", c.NeverSent, b.cards[0].Epoch(1), epoch)
	}
	lie(3)
	b.pass(time.Second)
	if b.cards[0].Epoch(1) == epoch || b.cards[0].Epoch(1) != b.cards[1].Epoch(0) ||
		b.cards[1].Counters().Resynchronised != 1 {
		t.Fatalf("epochs %x and %x, before %x\n%s", b.cards[0].Epoch(1), b.cards[1].Epoch(0), epoch, b.counters())
	}
	for _, p := range b.proc {
		for r, ok := p.NextReturn(); ok; r, ok = p.NextReturn() {
			if r.Reason != arctic.ReasonResynchronised {
				t.Errorf("came back: %v", r.Reason)
			}
		}
		for l := range funi.Level(2) {
			for _, ok := take(p, l); ok; _, ok = take(p, l) {
			}
		}
	}
	exactlyOnce(b, newTraffic(b, 100, 3))
}

// Rule (transfer.go): a long transfer that is open when two cards begin to count anew comes back,
// once, and makes no notice; and the reason is the truth: the peer's card was restarted, or it was
// not. In either direction.
func TestCountingAnewWithinATransfer(t *testing.T) {
	for _, after := range []time.Duration{20 * time.Microsecond, 60 * time.Microsecond, 150 * time.Microsecond} {
		b, _ := transferBed(t, setup{cards: 2, slots: 16, net: near, tune: quick})
		exactlyOnce(b, newTraffic(b, 3, 2))
		for from := range 2 {
			for range 3 { // so that some of them wait for lines
				request(b.proc[from], funi.Request, 1-from,
					funi.Transfer{Source: area, Destination: area, Argument: 7, Words: areaSize / 4})
			}
		}
		b.pass(after)
		epoch, lied := b.cards[0].Epoch(1), b.now
		for b.cards[0].Counters().NeverSent < 3 || b.now < lied+int64(time.Millisecond) {
			for i := range 4 {
				b.inject(forge(nil, func(h *arctic.Header) {
					h.Epoch, h.Sequence, h.Acks = epoch, 4000, [2]uint32{uint32(50_000 + i), 50_000}
				}))
			}
			b.pass(20 * time.Microsecond)
		}
		var back, noticed [2]int
		b.until(5*time.Second, "the transfers come back, or are noticed", func() bool {
			for i, p := range b.proc {
				for r, ok := p.NextReturn(); ok; r, ok = p.NextReturn() {
					if r.Reason != arctic.ReasonResynchronised {
						t.Fatalf("after %v: came back to %d as %+v", after, i, r)
					}
					if r.Header.Transfer() {
						back[i]++
					}
				}
				for s, ok := take(p, funi.Request); ok; s, ok = take(p, funi.Request) {
					if s.Header().Transfer() {
						noticed[1-i]++
					}
				}
				put(p, funi.Request, 1-i, 1) // so that the cards meet
			}
			return back[0]+noticed[0] >= 3 && back[1]+noticed[1] >= 3
		})
		b.pass(100 * time.Millisecond)
		for i := range 2 {
			if back[i]+noticed[i] != 3 || back[0]+back[1] == 0 {
				t.Errorf("after %v: of three transfers of card %d %d came back, and %d were noticed", after,
					i, back[i], noticed[i])
			}
		}
		if c := b.cards[1].Counters(); c.Resynchronised == 0 || c.PeersRestarted != 0 {
			t.Errorf("after %v: nothing is tested: %s", after, b.counters())
		}
		for _, c := range b.cards {
			if err := c.Check(); err != nil {
				t.Error(err)
			}
		}
	}
}

// Rule: forged greetings and frames of other epochs cost a card a bounded number of answers, for
// each peer and in all (package link, greeting.go), and nothing else: what it sends meanwhile
// arrives.
func TestForgedGreetingsAreAnsweredNowAndThen(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 64, net: near})
	exactlyOnce(b, newTraffic(b, 20, 3))
	before, began := b.cards[0].Counters(), b.now
	for i := range 4000 {
		b.inject(forgeGreeting(&arctic.Greeting{Nonce: uint64(i + 1), Incarnation: uint32(i + 1), Flags: arctic.Asks}))
		b.inject(forge(nil, func(h *arctic.Header) { h.Epoch = uint64(i + 1) }))
		b.pass(time.Microsecond)
	}
	b.pass(time.Millisecond)
	c := b.cards[0].Counters()
	if most := uint64(b.now-began)/100_000 + 5; c.Greetings-before.Greetings > most || c.Greetings == before.Greetings {
		t.Errorf("%d greetings for 8000 forged frames in %v, want at most %d", c.Greetings-before.Greetings,
			time.Duration(b.now-began), most)
	}
	if c.PeersRestarted != 0 || c.Resynchronised != 0 {
		t.Errorf("%d restarts and %d resynchronisations", c.PeersRestarted, c.Resynchronised)
	}
	exactlyOnce(b, newTraffic(b, 200, 3))
}

// narrow is a port that silently drops frames longer than a number of bytes.
type narrow struct {
	*wire.Port
	bytes int
}

func (p *narrow) FrameSize() int  { return p.bytes }
func (p *narrow) Reserve() []byte { return p.Port.Reserve()[:p.bytes] }

func (p *narrow) Receive(frames [][]byte) int {
	n, kept := p.Port.Receive(frames), 0
	for _, f := range frames[:n] {
		if len(f) <= p.bytes {
			frames[kept] = f
			kept++
		}
	}
	return kept
}

// Rule: cards whose ports carry frames of different lengths agree about the shorter one, whoever
// says that longer ones pass: no long frame is lost for ever, or at all (package link, limit.go).
func TestFrameSizesAreAgreedUpon(t *testing.T) {
	sizes := [2]int{9014, 1514}
	b := newBed(t, setup{cards: 2, slots: 64, net: wire.Config{Delay: 10 * time.Microsecond, MTU: 9000},
		wrap: func(card int, p *wire.Port) port.Port { return &narrow{p, sizes[card]} }})
	exactlyOnce(b, newTraffic(b, 300, 21))
	for card, c := range b.cards {
		if c.Limit(uint16(1-card)) != 1514 {
			t.Errorf("card %d sends frames of %d bytes, want 1514", card, c.Limit(uint16(1-card)))
		}
		c.SetLimit(uint16(1-card), 9014)
		if c.Limit(uint16(1-card)) != 1514 {
			t.Errorf("card %d sends frames of %d bytes because somebody says that they pass", card,
				c.Limit(uint16(1-card)))
		}
	}
	exactlyOnce(b, newTraffic(b, 300, 21))
	for card, c := range b.cards {
		if n := c.Counters(); n.Retransmitted != 0 || n.Timeouts != 0 || n.TooLong != 0 {
			t.Errorf("card %d: %d frames sent again, %d timeouts, %d too long", card, n.Retransmitted,
				n.Timeouts, n.TooLong)
		}
	}
}

// Rule: a card never begins an epoch twice, whatever is repeated and echoed: what the peer counts
// in one it has counted from the same beginning (package link, handshake.go).
func TestNoEpochTwice(t *testing.T) {
	var frames [][]byte
	b := newBed(t, setup{cards: 2, slots: 64, tune: quick, net: near, wrap: capture(&frames)})
	exactlyOnce(b, newTraffic(b, 100, 3))
	greetings := func(from int) (all [][]byte) {
		for _, f := range frames {
			if g, err := arctic.Look(f); err == nil && g.Hello() && [6]byte(f[6:12]) == address(from) {
				all = append(all, f)
			}
		}
		return all
	}
	left, at, times := map[uint64]bool{}, b.cards[0].Epoch(1), uint64(0)
	look := func() {
		t.Helper()
		now, c := b.cards[0].Epoch(1), b.cards[0].Counters()
		if begun := c.PeersRestarted + c.Resynchronised; begun != times && (now == at || left[now]) {
			t.Fatalf("epoch %x was begun again", now)
		} else if times = begun; now != at {
			left[at], at = true, now
		}
	}
	for i := range uint64(20) {
		var own arctic.Greeting
		// the last first: whatever proves nothing has the card draw another nonce
		for _, f := range slices.Backward(greetings(0)) {
			g, _ := arctic.Look(f)
			g.Greeting(&own)
			b.inject(forgeGreeting(&arctic.Greeting{Nonce: 1000 + i/4, Echo: own.Nonce, Incarnation: 77,
				Longest: 1514}))
			// else what the peer has said brings the card back to the nonce of their epoch, which
			// begins none
			if i%3 == 0 {
				// those that echo a nonce before those that ask for one
				for _, f := range slices.Backward(greetings(1)) {
					b.inject(append([]byte(nil), f...))
				}
			}
			b.pass(11 * time.Microsecond)
			look()
		}
		b.pass(time.Millisecond)
		look()
	}
	if len(left) == 0 {
		t.Fatal("no epoch was begun, so nothing is tested")
	}
	b.pass(time.Second)
	tr := newTraffic(b, 100, 3)
	tr.reasons = []arctic.Reason{arctic.ReasonResynchronised, arctic.ReasonRestarted}
	b.until(time.Minute, "all messages delivered, or back", tr.pump)
	exactlyOnce(b, newTraffic(b, 100, 3))
}
