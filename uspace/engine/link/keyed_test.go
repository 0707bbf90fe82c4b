package link_test

// This file holds the rules of greetings between cards with keys: what each knows of the other's
// key, and how soon two cards that hold different epochs agree, although nobody answers frames that
// anybody may have sent.

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
)

// keyed is setup.tune that gives each card a key made of its byte; 0: none.
func keyed(t testing.TB, of ...byte) func(*link.Config) {
	t.Helper()
	return func(c *link.Config) {
		secret := of[int(c.Card)%len(of)]
		if secret == 0 {
			return
		}
		k, err := link.NewKey(bytes.Repeat([]byte{secret, 1}, link.KeySize/2))
		if err != nil {
			t.Fatal(err)
		}
		for i := range c.Peers {
			c.Peers[i].Key = k
		}
	}
}

// says returns what a card says of another's key.
func (b *bed) says(card, of int) link.PeerState {
	b.t.Helper()
	s, ok := b.cards[card].PeerState(uint16(of))
	if !ok {
		b.t.Fatalf("card %d does not know card %d", card, of)
	}
	return s
}

// Rule (greeting.go, PeerState): when one of two cards has greeted the other, both know how their
// keys differ, also the one that has nothing to say to the other.
func TestBothKnowHowKeysDiffer(t *testing.T) {
	for name, c := range map[string]struct {
		keys []byte
		want [2]link.KeyState
	}{
		"the same":     {[]byte{1, 1}, [2]link.KeyState{link.Sealed, link.Sealed}},
		"none":         {[]byte{0, 0}, [2]link.KeyState{link.Unkeyed, link.Unkeyed}},
		"another":      {[]byte{1, 2}, [2]link.KeyState{link.OtherKey, link.OtherKey}},
		"no key there": {[]byte{1, 0}, [2]link.KeyState{link.NoKeyThere, link.NoKeyHere}},
		"no key here":  {[]byte{0, 1}, [2]link.KeyState{link.NoKeyHere, link.NoKeyThere}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, setup{cards: 2, net: near, tune: keyed(t, c.keys...)})
			b.reasons = []arctic.Reason{arctic.ReasonKey}
			m := b.send(0, arctic.Request, 1)
			b.until(3*time.Second, "the line comes back", func() bool { return m.back })
			for i, want := range c.want {
				if s := b.says(i, 1-i); s.Key != want || s.Doubt != link.Unkeyed {
					t.Errorf("card %d says %v, doubt %v; want %v", i, s.Key, s.Doubt, want)
				}
			}
		})
	}
}

// Rule (Greet): a known peer that was restarted with another key is in doubt when it has been
// asked. Its state stays what it was until the peer is lost. With the right key again it is in no
// doubt.
func TestGreetFindsAnotherKey(t *testing.T) {
	of := []byte{1, 1}
	b := newBed(t, setup{cards: 2, net: near, tune: func(c *link.Config) { quick(c); keyed(t, of...)(c) }})
	exactlyOnce(b, newTraffic(b, 10))
	ask := func() link.PeerState {
		t.Helper()
		if !b.cards[0].Greet(1) {
			t.Fatal("the greeting was not sent")
		}
		b.touched = true
		b.pass(time.Millisecond)
		return b.says(0, 1)
	}
	if s := ask(); s.Key != link.Sealed || s.Doubt != link.Unkeyed {
		t.Fatalf("with the key: %v, doubt %v", s.Key, s.Doubt)
	}
	for _, c := range []struct {
		key  byte
		want link.KeyState
	}{{2, link.OtherKey}, {0, link.NoKeyThere}} {
		of[1] = c.key
		b.start(1)
		epoch := b.cards[0].Epoch(1)
		if s := ask(); s.Key != link.Sealed || s.Doubt != c.want || b.cards[0].Epoch(1) != epoch {
			t.Errorf("restarted with key %d: %v, doubt %v; want doubt %v", c.key, s.Key, s.Doubt, c.want)
		}
	}
	of[1] = 1
	b.start(1)
	if s := ask(); s.Key != link.Sealed || s.Doubt != link.Unkeyed {
		t.Errorf("with the key again: %v, doubt %v", s.Key, s.Doubt)
	}
	b.stop(1)
	m := b.send(0, arctic.Request, 1)
	b.comesBack(time.Second, m, arctic.ReasonSilent)
	if s := b.says(0, 1); s.Key != link.Waiting {
		t.Errorf("a peer that is lost: %v", s.Key)
	}
	if b.cards[0].Greet(9) {
		t.Error("it greets a card that is none of the peers")
	}
}

// Rule (greeting.go): frames of another epoch, which anybody can have sent, get no answer from a
// card with a key as soon as a frame of the present epoch has been opened.
func TestForgedEpochsGetNoAnswerWithAKey(t *testing.T) {
	var frames []arctic.Frame
	b := newBed(t, setup{cards: 2, net: near, tune: keyed(t, 1), wrap: lookedAt(func(_ int, f arctic.Frame) bool {
		frames = append(frames, bytes.Clone(f))
		return true
	})})
	m := b.send(0, arctic.Request, 1) // so that card 0 greets, and card 1 answers
	b.arrives(time.Second, m)
	b.pass(10 * time.Millisecond)
	before := []link.Counters{b.cards[0].Counters, b.cards[1].Counters}
	sent := [2]uint64{}
	for range 20 {
		for _, f := range frames {
			if f.Sealed() {
				forged := bytes.Clone(f)
				binary.LittleEndian.PutUint64(forged[32:], 77) // the epoch
				b.inject(forged)
				sent[f.Header().DestinationCard]++
			}
		}
		b.pass(time.Millisecond)
	}
	for i, c := range b.cards {
		n := &c.Counters
		if sent[i] == 0 || n.Stale-before[i].Stale != sent[i] || n.Greetings != before[i].Greetings {
			t.Errorf("card %d: %d forged frames, %d stale, answered by %d greetings", i, sent[i],
				n.Stale-before[i].Stale, n.Greetings-before[i].Greetings)
		}
	}
}

// Rule (peer.go, timeout): a card that begins an epoch tells its peer. If the peer has not heard of
// it, the card says so again when the first frame of the epoch is not answered in time. So two
// cards with a key are never apart for longer than a retransmission or two.
func TestLostGreetingWithAKey(t *testing.T) {
	var greetings []arctic.Frame // of card 1
	pass := func(int, arctic.Frame) bool { return true }
	b := newBed(t, setup{cards: 2, net: near, tune: keyed(t, 1), wrap: lookedAt(func(card int, f arctic.Frame) bool {
		if card == 1 && f.Hello() {
			greetings = append(greetings, bytes.Clone(f))
		}
		return pass(card, f)
	})})
	exactlyOnce(b, newTraffic(b, 5))
	earlier := greetings[0]
	b.start(1)
	b.meet()
	exactlyOnce(b, newTraffic(b, 5))
	// Somebody repeats a greeting of the earlier life. Card 0 answers with a new nonce, and what
	// card 1 says to that is held up.
	greetings = nil
	pass = func(card int, f arctic.Frame) bool { return card == 0 || !f.Hello() }
	b.inject(earlier)
	b.pass(time.Millisecond)
	if len(greetings) != 1 {
		t.Fatalf("card 1 has sent %d greetings", len(greetings))
	}
	held := greetings[0]
	// Card 0 begins anew, and the network loses it. Then what was held up arrives, from which card
	// 0 makes an epoch; of that the network loses the news.
	lost := 0
	pass = func(card int, f arctic.Frame) bool {
		if card == 0 && f.Hello() && lost < 2 {
			lost++
			return false
		}
		return true
	}
	epoch := b.cards[0].Epoch(1)
	b.cards[0].Resynchronise(1)
	b.touched = true
	b.pass(100 * time.Microsecond)
	b.inject(held)
	b.pass(100 * time.Microsecond)
	if now := b.cards[0].Epoch(1); now == epoch || now == 0 || now == b.cards[1].Epoch(0) || lost != 2 {
		t.Fatalf("the epochs are %x and %x, before %x, and %d greetings were lost: nothing is tested", now,
			b.cards[1].Epoch(0), epoch, lost)
	}
	began := b.now
	b.arrives(time.Second, b.send(0, arctic.Request, 1))
	if took := time.Duration(b.now - began); took > 40*time.Millisecond {
		t.Errorf("a message took %v, want two retransmission timeouts of 10 ms, and a little", took)
	}
	if b.cards[0].Epoch(1) != b.cards[1].Epoch(0) {
		t.Error("they hold different epochs")
	}
	exactlyOnce(b, newTraffic(b, 20))
}

// Rule (handshake.go): a greeting of a peer's dead life, which the network held up, may begin an
// epoch with that life, if it answers the present nonce. That costs what was sent meanwhile, and
// lasts a round trip; where the greetings that follow are lost a retransmission or two.
func TestGreetingOfADeadLife(t *testing.T) {
	for _, lose := range []int{0, 2} {
		var held arctic.Frame
		lost := 0
		b := newBed(t, setup{cards: 2, net: near, tune: keyed(t, 1),
			wrap: lookedAt(func(card int, f arctic.Frame) bool {
				switch {
				case card == 1 && f.Hello() && held == nil:
					held = bytes.Clone(f)
					return false
				case f.Hello() && lost < lose && held != nil && card == 0:
					lost++
					return false
				}
				return true
			})})
		m := b.send(0, arctic.Request, 1)
		b.until(time.Second, "card 1 answers", func() bool { return held != nil })
		b.start(1) // its answer arrives when it is dead
		b.inject(held)
		b.pass(30 * time.Microsecond)
		if !b.cards[0].Established(1) || b.cards[1].Established(0) {
			t.Fatal("the dead life is not believed, so nothing is tested")
		}
		b.reasons = []arctic.Reason{arctic.ReasonRestarted}
		began := b.now
		b.until(time.Second, "the message arrives or comes back", func() bool { return m.back })
		next := b.send(0, arctic.Request, 1)
		b.arrives(time.Second, next)
		if took := time.Duration(b.now - began); took > 40*time.Millisecond {
			t.Errorf("with %d greetings lost: %v until a message arrives at the present life", lose, took)
		}
		b.reasons = nil
		exactlyOnce(b, newTraffic(b, 20))
	}
}
