package hello

// This file tests discovery: who finds whom, and what is believed.

import (
	"slices"
	"testing"
)

// Rule: cards of one cluster find each other within seconds, also where a third of the frames is
// lost, and the news say each once.
func TestDiscovery(t *testing.T) {
	for seed := range uint64(50) {
		s := newSegment(t, seed)
		s.loss = []float64{0, 0.3}[seed%2]
		for i := range 5 {
			s.add(uint16(10*i), byte(i), nil)
		}
		all := func() bool {
			for _, h := range s.hosts {
				for _, o := range s.hosts {
					if h != o && !h.knows(o.c.Self.Card, o) {
						return false
					}
				}
			}
			return true
		}
		s.run(20*second, all)
		if s.now > 3*second && s.loss == 0 {
			t.Errorf("seed %d: it took %d ms", seed, s.now/millisecond)
		}
		s.run(20*second, nil)
		for _, h := range s.hosts {
			var cards []int
			for _, c := range h.TakeNews(100) {
				if c.Gone || !c.Found {
					t.Errorf("%+v", c)
				}
				cards = append(cards, int(c.Card))
			}
			slices.Sort(cards)
			if len(cards) != 4 || len(slices.Compact(cards)) != 4 {
				t.Errorf("seed %d: news of %v", seed, cards)
			}
			if f := h.lines(); len(f) > 0 {
				t.Errorf("%q", f)
			}
		}
	}
}

// Rule: a station that does not discover neither announces itself nor finds or is found by anybody,
// and answers.
func TestWithoutDiscovery(t *testing.T) {
	s := newSegment(t, 1)
	a, b := s.add(0, 1, nil), s.add(1, 2, func(c *Config) { c.Discover = false })
	s.run(10*second, nil)
	if _, ok := a.Peer(1); ok {
		t.Error("it was found")
	}
	if b.Counters().Questions != 0 {
		t.Error("it has asked")
	}
	a.SetPeer(1, 0, b.mac)
	s.run(5*second, func() bool { return a.knows(1, b) })
	if p, _ := a.Peer(1); p.Host != "host-2" || p.RoundTrip < 20_000 || p.RoundTrip > 80_000 || p.Found ||
		p.Incarnation != b.c.Self.Incarnation {
		t.Errorf("%+v", p)
	}
}

// Rule: a peer that falls silent stays; one that says goodbye and is silent is gone, and one in
// whose name another says it stays.
func TestGoodbye(t *testing.T) {
	s := newSegment(t, 2)
	a, b := s.add(0, 1, nil), s.add(1, 2, nil)
	s.run(10*second, func() bool { return a.knows(1, b) && b.knows(0, a) })
	a.TakeNews(10)
	forged := make([]byte, Size)
	(&Message{Kind: Goodbye, Said: Said{Card: 1, IsCard: true, Cluster: "one", Frames: 3, FrameSize: 1514}}).Put(forged,
		broadcast, b.mac)
	s.carry(nil, forged)
	s.run(5*second, nil)
	if !a.knows(1, b) || a.News() {
		t.Fatal("a goodbye in another's name is believed")
	}
	b.off = true
	s.run(100*second, nil)
	if p, ok := a.Peer(1); !ok || p.Silent < 5 || a.News() {
		t.Fatalf("a silent peer: %+v, %v", p, ok)
	}
	b.off = false
	s.run(20*second, func() bool { p, _ := a.Peer(1); return p.Silent == 0 })
	b.Leave() // and answers no more, though it is stepped once or twice
	s.run(5*second, func() bool { return a.News() })
	if n := a.TakeNews(10); len(n) != 1 || !n[0].Gone || n[0].Card != 1 {
		t.Fatalf("%+v", n)
	}
}

// Rule: a number passes on to another host when its owner does not answer any more, and not before:
// then both are named, once.
func TestNumberPassesOn(t *testing.T) {
	s := newSegment(t, 3)
	a, b := s.add(0, 1, nil), s.add(1, 2, nil)
	s.run(10*second, func() bool { return a.knows(1, b) })
	c := s.add(1, 3, nil)
	s.run(20*second, nil)
	if !a.knows(1, b) {
		t.Error("the number passed on while its owner was there")
	}
	lines := a.lines()
	wantLine(t, lines, "card 1 is", b.macString(), "host-3 ("+c.macString()+")")
	if len(lines) != 1 || a.News() && len(a.lines()) > 0 {
		t.Errorf("%q", lines)
	}
	wantLine(t, b.lines(), "card 1 is this host", c.macString())
	wantLine(t, c.lines(), "card 1 is this host", b.macString())
	b.off = true
	s.run(20*second, func() bool { return a.knows(1, c) })
	a.TakeNews(10)
	// A host that comes back with another NIC and number of life.
	c.off = true
	d := s.add(1, 4, nil)
	s.run(20*second, func() bool { return a.knows(1, d) })
	if n := a.TakeNews(10); len(n) != 1 || n[0].Gone || n[0].Address != d.mac {
		t.Errorf("%+v", n)
	}
}

// Rule: a host that was heard never replaces one that was listed; that it claims the number is
// named.
func TestListedPeersStay(t *testing.T) {
	s := newSegment(t, 4)
	a := s.add(0, 1, nil)
	listed := &host{mac: [6]byte{2, 0, 0, 0, 0, 77}}
	a.SetPeer(1, 0, listed.mac)
	b := s.add(1, 2, nil)
	s.run(30*second, nil)
	if p, _ := a.Peer(1); p.Address != listed.mac || p.Found || p.Heard != Never {
		t.Fatalf("%+v", p)
	}
	wantLine(t, a.lines(), "card 1 is listed at "+listed.macString(), "nobody answers", b.macString())
	// The wrong number at a listed address.
	a.RemovePeer(1)
	a.SetPeer(5, 0, b.mac)
	s.run(30*second, nil)
	wantLine(t, a.lines(), "is listed as card 5 and says that it is card 1")
	if p, ok := a.Peer(1); ok {
		t.Errorf("%+v", p)
	}
}
