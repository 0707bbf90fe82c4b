package link_test

// This file tests deferrals: a switch in front of a card answers for it while a group is absent.

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
	"github.com/funet/funet/uspace/port"
)

const lateGroup = 9 // which is absent at first

// nic is a card's port behind a switch, which does what bpf/nic.c does.
type nic struct {
	*wire.Port
	absent   bool // lateGroup is
	deaf     bool // it answers nothing
	dead     bool // the card behind it hears nothing
	answered int
}

func (n *nic) Receive(into [][]byte) int {
	got := n.Port.Receive(into)
	kept := 0
	for _, b := range into[:got] {
		if f, ok := arctic.Peek(b); !n.absent || !ok || !f.MayDefer() || f.Header().GID != lateGroup {
			if into[kept] = b; !n.dead {
				kept++
			}
			continue
		}
		out := n.Port.Reserve()
		if out == nil || n.deaf {
			continue // as where a NIC's ring is full
		}
		copy(out, b)
		n.Port.Commit(arctic.Defer(out))
		n.Port.Flush()
		n.answered++
	}
	return kept
}

// deferBed is a bed whose cards take deferrals, with card 1 behind a switch, and an owner of
// lateGroup on card 0.
func deferBed(t *testing.T, s setup) (b *bed, n *nic, late *owner) {
	t.Helper()
	tune := s.tune
	s.cards, n = 2, &nic{absent: true}
	s.tune = func(c *link.Config) {
		c.Defers, c.AnyGroup = true, true
		if tune != nil {
			tune(c)
		}
	}
	s.wrap = func(card int, p *wire.Port) port.Port {
		if card != 1 {
			return p
		}
		n.Port = p
		return n
	}
	b = newBed(t, s)
	late = b.join(0, new(link.Account))
	late.GID = lateGroup
	return b, n, late
}

// Rule: whatever the network does, and however often a group comes and goes, each message arrives
// once, or comes back for a reason that its receiver gave (design idea 4).
func TestDeferredExactlyOnce(t *testing.T) {
	for name, faults := range networks {
		for seed := range uint64(6) {
			t.Run(fmt.Sprintf("%s %d", name, seed), func(t *testing.T) {
				net := wire.Config{Seed: seed, Delay: 10 * time.Microsecond, Faults: faults}
				b, n, late := deferBed(t, setup{net: net})
				random := rand.New(rand.NewPCG(seed, 1))
				for range 400 {
					for range random.IntN(4) {
						l := arctic.Level(random.IntN(2))
						var block []byte
						if random.IntN(8) == 0 {
							block, l = make([]byte, 3200), arctic.Request
						}
						b.put(late, 1, uint16(random.IntN(5)), l, 2, block)
						b.put(b.own[0], 1, 1, l, 2, nil)
						b.put(b.own[1], 0, 0, l, 2, nil)
					}
					if random.IntN(10) == 0 {
						n.absent = !n.absent
					}
					b.pass(time.Duration(random.IntN(300)) * time.Microsecond)
					b.checked()
				}
				n.absent = false
				b.idle(time.Minute)
				b.checked()
				for _, m := range b.messages {
					if !m.accepted() {
						t.Errorf("message %d of group %d has not arrived: %v", m.id, m.owner.GID, m.reason)
					}
				}
				if b.cards[0].Counters.Deferred == 0 || n.answered == 0 {
					t.Errorf("%d deferrals, %d answered: nothing was tested", b.cards[0].Counters.Deferred, n.answered)
				}
			})
		}
	}
}

// Rule: frames of an absent group hold up nobody: the numbers that all groups share go on, without
// a retransmission, and each message leaves with no more than a void frame.
func TestDeferredHoldUpNobody(t *testing.T) {
	b, n, late := deferBed(t, setup{net: near})
	b.send(0, arctic.Request, 1)
	b.idle(time.Second)
	var waiting []*message
	for node := range uint16(40) {
		waiting = append(waiting, b.put(late, 1, node, arctic.Request, 2, nil))
	}
	b.pass(time.Millisecond)
	for range 3000 {
		m, back := b.send(0, arctic.Request, 1), b.send(1, arctic.Request, 0)
		b.until(5*time.Millisecond, "another group's messages arrive", func() bool { return m.back && back.back })
	}
	b.checked()
	c := b.cards[0].Counters
	if c.Timeouts != 0 || b.cards[1].Counters.Timeouts != 0 || n.answered < 100 {
		t.Errorf("%d answered\n%s", n.answered, b.counters())
	}
	n.absent = false
	b.idle(time.Second)
	for _, m := range waiting {
		if !m.accepted() {
			t.Errorf("message %d has not arrived", m.id)
		}
	}
}

// Rule: a frame that a switch may answer carries nothing that somebody else waits for: what the
// peer is owed leaves before it.
func TestDeferredCarryNothing(t *testing.T) {
	b, n, late := deferBed(t, setup{net: near, tune: func(c *link.Config) { c.AckDelay = time.Millisecond }})
	b.send(1, arctic.Request, 0)
	b.idle(time.Second)
	for i := range uint16(20) {
		m := b.send(1, arctic.Request, 0)
		b.until(time.Second, "it arrives", func() bool { return m.accepted() })
		if i%2 == 1 {
			m = b.send(1, arctic.Reply, 0)
			b.until(time.Second, "a reply arrives", func() bool { return m.accepted() })
		}
		b.put(late, 1, i, arctic.Request, 2, nil) // while an acknowledgment is owed
		b.until(900*time.Microsecond, "the message is acknowledged", func() bool { return m.back })
	}
	n.absent = false
	b.idle(time.Second)
	if b.cards[1].Counters.Timeouts != 0 || n.answered < 20 {
		t.Errorf("%d answered\n%s", n.answered, b.counters())
	}
}

// Rule: an account cannot have a switch answer more often than it may try, however many nodes it
// sends to: the switch answers a host only so often.
func TestDeferredTriesAreBounded(t *testing.T) {
	b, n, late := deferBed(t, setup{net: near})
	b.send(0, arctic.Request, 1)
	b.idle(time.Second)
	var all []*message
	for node := range uint16(900) {
		all = append(all, b.put(late, 1, node, arctic.Request, 2, nil))
	}
	b.pass(2 * time.Millisecond)
	b.checked()
	// those in flight before the first deferral, a burst, and a try each 50 us
	if most := link.Window + 64 + 2000/50; n.answered < 32 || n.answered > most {
		t.Errorf("%d answered in 2 ms, want at most %d", n.answered, most)
	}
	n.absent = false
	b.idle(10 * time.Second)
	for _, m := range all {
		if !m.accepted() {
			t.Errorf("message %d has not arrived", m.id)
		}
	}
}

// Rule: a deferral is no sign of life of the card, and puts off no retransmission. Both would let
// one user keep the others' messages waiting.
func TestDeferralIsNoSignOfLife(t *testing.T) {
	b, n, late := deferBed(t, setup{net: near, tune: func(c *link.Config) {
		quick(c)
		c.MaxHold = time.Millisecond // so that a deferral comes each millisecond, or more often
	}})
	b.send(0, arctic.Request, 1)
	b.idle(time.Second)
	for node := range uint16(8) {
		b.put(late, 1, node, arctic.Request, 2, nil)
	}
	b.pass(10 * time.Millisecond)
	n.dead = true
	m := b.send(0, arctic.Request, 1)
	b.pass(time.Millisecond)
	n.dead = false
	b.until(25*time.Millisecond, "the lost frame is sent again", func() bool { return m.accepted() })
	b.pass(20 * time.Millisecond)
	was := n.answered
	n.dead = true
	m = b.send(0, arctic.Reply, 1) // which the requests' congestion window does not stop
	b.reasons = []arctic.Reason{arctic.ReasonSilent}
	b.until(400*time.Millisecond, "the message comes back", func() bool { return m.back })
	if m.reason != arctic.ReasonSilent || n.answered < was+20 || b.cards[0].Counters.PeersLost != 1 {
		t.Errorf("it came back: %v, after %d answers; %d peers lost", m.reason, n.answered-was,
			b.cards[0].Counters.PeersLost)
	}
}

// Rule: the card has the last word. After ConnectTimeout a frame is sent so that no switch may
// answer it, and comes back with the reason that the card gives; later ones for the node, too.
func TestDeferredLastWord(t *testing.T) {
	b, n, late := deferBed(t, setup{net: near, tune: quick})
	b.judge = func(_ int, m *message) arctic.Reason {
		if m.owner == late {
			return arctic.ReasonNoContext
		}
		return arctic.ReasonNone
	}
	m := b.put(late, 1, 1, arctic.Request, 2, nil)
	b.pass(400 * time.Millisecond)
	if m.back || n.answered < 10 {
		t.Fatalf("it came back: %t, after %d answers", m.back, n.answered)
	}
	b.idle(time.Second)
	if m.reason != arctic.ReasonNoContext {
		t.Errorf("it came back: %v", m.reason)
	}
	was := n.answered
	again := b.put(late, 1, 1, arctic.Request, 2, nil)
	b.idle(5 * time.Millisecond)
	if again.reason != arctic.ReasonNoContext || n.answered != was {
		t.Errorf("the next came back: %v, after %d answers more", again.reason, n.answered-was)
	}
}

// Rule: an owner that halts has nothing outstanding soon, and what it has sent waits; one that ends
// gets its lines back.
func TestDeferredHalted(t *testing.T) {
	b, n, late := deferBed(t, setup{net: near})
	m := b.put(late, 1, 1, arctic.Request, 2, nil)
	b.until(time.Second, "it is deferred", func() bool { return n.answered > 20 })
	late.Halted = true
	b.cards[0].Resume(&late.Owner)
	b.touched = true
	b.until(time.Millisecond, "nothing is outstanding", func() bool { return !late.Outstanding() })
	was := n.answered
	b.pass(time.Second)
	if m.back || n.answered != was {
		t.Errorf("it came back: %t; %d answers more", m.back, n.answered-was)
	}
	late.Halted = false
	b.cards[0].Resume(&late.Owner)
	b.touched = true
	b.until(time.Second, "it is deferred again", func() bool { return n.answered > was })
	late.Halted, late.Ended = true, true
	m.rejected++ // as Discarded asks
	b.idle(time.Second)
	if m.settled != link.Discarded {
		t.Errorf("it was settled as %v", m.settled)
	}
	b.checked()
}

// Rule: a deferral counts only for a frame in flight of that group whose stream has not been met,
// from the peer, of the epoch. Others change nothing.
func TestForgedDeferral(t *testing.T) {
	b, n, late := deferBed(t, setup{net: near})
	b.send(0, arctic.Request, 1)
	b.idle(time.Second)
	var sent []byte
	b.cards[0].See = func(_ int, f []byte, fate link.Fate) {
		if fate.Outcome == link.Sent && arctic.Frame(f).Packets() > 0 {
			sent = append([]byte(nil), f...)
		}
	}
	forge := func(what string, counts bool, change func(h *arctic.Header)) {
		t.Helper()
		b.cards[0].See(0, nil, link.Fate{Outcome: link.Stale})
		was := b.cards[0].Counters.Deferred
		f := append([]byte(nil), sent...)
		f = f[:arctic.Defer(f)]
		h := arctic.Frame(f).Header()
		change(&h)
		h.Encode(f)
		arctic.Seal(f, len(f))
		out := n.Port.Reserve()
		n.Port.Commit(copy(out, f))
		n.Port.Flush()
		b.pass(30 * time.Microsecond)
		if got := b.cards[0].Counters.Deferred != was; got != counts {
			t.Errorf("%s: counted %t, want %t", what, got, counts)
		}
		b.checked()
	}
	same := func(*arctic.Header) {}
	m := b.send(0, arctic.Request, 1)
	b.step(b.now)
	forge("a stream that was met", false, same)
	b.idle(time.Second)
	if m.reason != arctic.ReasonNone || !m.accepted() {
		t.Errorf("it came back: %v", m.reason)
	}

	n.deaf = true
	m = b.put(late, 1, 1, arctic.Request, 2, nil)
	b.pass(time.Millisecond)
	forge("another epoch", false, func(h *arctic.Header) { h.Epoch++ })
	forge("a frame never sent", false, func(h *arctic.Header) { h.Sequence += 7 })
	forge("another level", false, func(h *arctic.Header) { h.Level = arctic.Reply })
	forge("another group", false, func(h *arctic.Header) { h.GID = gid })
	forge("another card", false, func(h *arctic.Header) { h.SourceCard = 5 })
	forge("another address", false, func(h *arctic.Header) { h.From[0] ^= 4 })
	forge("the switch's", true, same)
	n.absent = false
	b.idle(time.Second)
	forge("a frame that was answered", false, same)
	if !m.accepted() {
		t.Error("it has not arrived")
	}
}

// Rule: cards with a key never let a switch answer, and a card lets none answer frames to a peer
// that does not take them.
func TestNotDeferred(t *testing.T) {
	for name, tune := range map[string]func(*link.Config){
		"keyed":    keyed(t, 5),
		"an older": func(c *link.Config) { c.Defers = c.Card == 0 },
	} {
		t.Run(name, func(t *testing.T) {
			b, n, late := deferBed(t, setup{net: near, tune: tune})
			m := b.put(late, 1, 1, arctic.Request, 2, nil)
			b.idle(time.Second)
			if !m.accepted() || n.answered != 0 {
				t.Errorf("accepted %t, answered %d", m.accepted(), n.answered)
			}
		})
	}
}
