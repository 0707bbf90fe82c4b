package link_test

// This file holds the rules of fate.go: what news of processes change, and what they do not.

import (
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
)

// fated is a direct card whose timeouts are longer than every test lasts that does not wait for
// them.
func fated(c *link.Config) {
	direct(c)
	c.PeerTimeout, c.ConnectTimeout, c.MaxRTO = 10*time.Second, 20*time.Second, 20*time.Millisecond
}

// tell gives card 0 news of card 1, and takes back what that returned.
func (b *bed) tell(news func(card uint16, life uint32), life uint32) {
	b.t.Helper()
	news(1, life)
	b.settle(b.cards[0])
	b.touched = true
}

// Rule (Ended): what waits for a process that has ended comes back at once, and what is sent to it
// later, too; others suffer nothing; another life that greets is spoken to.
func TestEndedPeer(t *testing.T) {
	b := newBed(t, setup{cards: 3, tune: fated, net: near})
	exactlyOnce(b, newTraffic(b, 20))
	life := b.cards[1].cfg.Incarnation
	b.stop(1)
	b.reasons = []arctic.Reason{arctic.ReasonDeparted}
	waits := []*message{b.send(0, arctic.Request, 1), b.send(0, arctic.Reply, 1)}
	b.pass(50 * time.Millisecond)
	if waits[0].back {
		t.Fatalf("it came back before anybody said so: %v", waits[0].reason)
	}
	b.tell(b.cards[0].Ended, life)
	for _, m := range waits {
		b.comesBack(0, m, arctic.ReasonDeparted)
	}
	greetings := b.cards[0].Counters.Greetings
	b.comesBack(time.Millisecond, b.send(0, arctic.Request, 1), arctic.ReasonDeparted)
	if n := b.cards[0].Counters.Greetings; n != greetings || b.cards[0].Established(1) || !b.cards[0].Established(2) {
		t.Errorf("%d greetings to the dead; established are 1 %v, 2 %v", n-greetings, b.cards[0].Established(1),
			b.cards[0].Established(2))
	}
	b.start(1)
	b.reasons = nil
	b.arrives(time.Second, b.send(1, arctic.Request, 0)) // it greets
	b.arrives(time.Second, b.send(0, arctic.Request, 1))
	b.tell(b.cards[0].Ended, life) // again, and late
	b.arrives(time.Second, b.send(0, arctic.Request, 1))
}

// Rule (Ended): a card that never met the process believes it as well; Lives of another life ends
// that, and so does ConnectTimeout.
func TestEndedPeerThatWasNeverMet(t *testing.T) {
	b := newBed(t, setup{cards: 2, tune: fated, net: near})
	b.stop(1)
	b.reasons = []arctic.Reason{arctic.ReasonDeparted}
	waits := b.send(0, arctic.Request, 1)
	b.pass(50 * time.Millisecond)
	b.tell(b.cards[0].Ended, 77)
	b.comesBack(0, waits, arctic.ReasonDeparted)
	b.comesBack(time.Millisecond, b.send(0, arctic.Request, 1), arctic.ReasonDeparted)
	b.tell(b.cards[0].Lives, 77) // late
	b.comesBack(time.Millisecond, b.send(0, arctic.Request, 1), arctic.ReasonDeparted)
	b.start(1)
	b.tell(b.cards[0].Lives, b.cards[1].cfg.Incarnation)
	b.arrives(time.Second, b.send(0, arctic.Request, 1))

	b.start(0)
	b.tell(b.cards[0].Ended, 77)
	b.comesBack(time.Millisecond, b.send(0, arctic.Request, 1), arctic.ReasonDeparted)
	b.pass(20 * time.Second)
	b.reasons = []arctic.Reason{arctic.ReasonRestarted} // card 1 has known another card 0
	b.arrives(time.Second, b.send(0, arctic.Request, 1))
}

// Rule (Ended, Lives): news of another life change nothing while the peer is there, news of no
// card, of the card itself and of life 0 nothing at all, and none of them a card that is not
// direct.
func TestLateNews(t *testing.T) {
	for name, tune := range map[string]func(*link.Config){"direct": fated, "of a host": quick} {
		b := newBed(t, setup{cards: 2, tune: tune, net: near})
		exactlyOnce(b, newTraffic(b, 20))
		life := b.cards[1].cfg.Incarnation
		lives := []uint32{0, life + 1, life - 1}
		if name != "direct" {
			lives = append(lives, life)
		}
		for _, life := range lives {
			b.tell(b.cards[0].Ended, life)
			b.tell(b.cards[0].Lives, life)
		}
		for _, card := range []uint16{0, 2, 77} {
			b.cards[0].Ended(card, 5)
			b.cards[0].Lives(card, 5)
		}
		if c := b.cards[0].Counters; c.PeersLost != 0 || !b.cards[0].Established(1) {
			t.Errorf("%s: %d peers lost", name, c.PeersLost)
		}
		exactlyOnce(b, newTraffic(b, 20))
	}
}

// Rule (greeted): a greeting that the network held up until its sender's end was known makes no
// peer of the dead.
func TestGreetingOfTheDead(t *testing.T) {
	var frames []arctic.Frame
	b := newBed(t, setup{cards: 2, tune: fated, net: near, wrap: capture(&frames)})
	exactlyOnce(b, newTraffic(b, 20))
	life := b.cards[1].cfg.Incarnation
	b.stop(1)
	b.tell(b.cards[0].Ended, life)
	before := b.cards[0].Counters
	for _, f := range frames {
		if h := f.Header(); h.SourceCard == 1 && h.Hello {
			b.inject(f)
		}
	}
	b.pass(time.Millisecond)
	if c := b.cards[0].Counters; c.Stale == before.Stale || c.Greetings != before.Greetings ||
		b.cards[0].Established(1) {
		t.Errorf("%d stale, %d answered, established %v", c.Stale-before.Stale, c.Greetings-before.Greetings,
			b.cards[0].Established(1))
	}
}

// Rule (Doubt, Lives): the owner is asked about a silent peer once a silence, after half of
// PeerTimeout; if the peer lives its silence may last for ConnectTimeout, and not longer; what it
// missed meanwhile arrives.
func TestSilentPeerThatLives(t *testing.T) {
	type doubt struct {
		card uint16
		life uint32
	}
	var doubts []doubt
	b := newBed(t, setup{cards: 2, net: near, tune: func(c *link.Config) {
		direct(c)
		quick(c)
		if c.Card == 0 {
			c.Doubt = func(card uint16, life uint32) { doubts = append(doubts, doubt{card, life}) }
		}
	}})
	exactlyOnce(b, newTraffic(b, 20))
	life := b.cards[1].cfg.Incarnation
	stopped := b.cards[1]
	hold := func(d time.Duration) *message {
		b.cards[1] = nil // as a debugger does
		m := b.send(0, arctic.Request, 1)
		b.pass(d)
		return m
	}
	m := hold(90 * time.Millisecond)
	if len(doubts) != 0 {
		t.Fatalf("asked early: %v", doubts)
	}
	b.pass(60 * time.Millisecond)
	if len(doubts) != 1 || doubts[0] != (doubt{1, life}) {
		t.Fatalf("asked %v", doubts)
	}
	b.tell(b.cards[0].Lives, life)
	b.pass(300 * time.Millisecond) // more than PeerTimeout
	b.cards[1] = stopped
	b.touched = true
	b.arrives(time.Second, m)

	m = hold(150 * time.Millisecond)
	b.tell(b.cards[0].Lives, life+1) // which helps nobody
	b.reasons = []arctic.Reason{arctic.ReasonSilent}
	b.comesBack(100*time.Millisecond, m, arctic.ReasonSilent)
	b.cards[1], b.reasons = stopped, nil
	b.touched = true
	exactlyOnce(b, newTraffic(b, 20))

	doubts = nil
	m = hold(150 * time.Millisecond)
	b.tell(b.cards[0].Lives, life)
	b.reasons = []arctic.Reason{arctic.ReasonSilent}
	b.pass(300 * time.Millisecond)
	if m.back {
		t.Fatal("given up although it lives")
	}
	b.comesBack(100*time.Millisecond, m, arctic.ReasonSilent)
	if len(doubts) != 1 {
		t.Errorf("asked %d times", len(doubts))
	}
}

// Rule (vouchedFor): a peer that was silent for longer than PeerTimeout, and was vouched for, has
// time to answer when it is heard again, until ConnectTimeout is over.
func TestSilentPeerThatIsHeardAgain(t *testing.T) {
	drop := false
	b := newBed(t, setup{cards: 2, net: near, tune: func(c *link.Config) {
		direct(c)
		quick(c)
	}, wrap: tapped(func(card int, f arctic.Frame) bool {
		return card != 0 || f.Packets() == 0 || f.Header().Level != arctic.Request || !drop
	})})
	exactlyOnce(b, newTraffic(b, 20))
	stopped, life := b.cards[1], b.cards[1].cfg.Incarnation
	for _, answers := range []bool{true, false} {
		b.cards[1], drop = nil, true // what waits in its ring is none of it
		m := b.send(0, arctic.Request, 1)
		b.pass(150 * time.Millisecond)
		b.tell(b.cards[0].Lives, life)
		b.pass(150 * time.Millisecond)
		b.cards[1] = stopped
		b.arrives(time.Second, b.send(1, arctic.Reply, 0))
		b.pass(100 * time.Millisecond)
		if m.back {
			t.Fatalf("it came back when the peer was heard: %v", m.reason)
		}
		if drop = !answers; answers {
			b.arrives(time.Second, m)
			continue
		}
		b.reasons = []arctic.Reason{arctic.ReasonSilent}
		b.comesBack(150*time.Millisecond, m, arctic.ReasonSilent)
	}
}
