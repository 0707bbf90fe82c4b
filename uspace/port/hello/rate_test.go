package hello

// This file tests what hosts that answer at once, as forgers can, make a station ask.

import (
	"slices"
	"testing"
)

// forger is somebody who answers every question at once, at addresses that begin with 2, 9, as
// whatever card is asked for.
func (s *segment) forger(of string) {
	s.see = func(b []byte) {
		m, from, err := Parse(b)
		if err != nil || m.Kind != Question || b[0] != 2 || b[1] != 9 {
			return
		}
		at := [6]byte(b)
		m.Kind, m.Said = Answer, Said{Card: m.To, IsCard: true, Discovers: true, Incarnation: 8, Frames: 3,
			FrameSize: 1514, Cluster: of}
		answer := make([]byte, Size)
		m.Put(answer, from, at)
		s.flying = append(s.flying, flying{s.now + 1_000, answer, nil})
	}
}

// say puts a hello on the segment, in the name of whoever is at an address.
func (s *segment) say(kind Kind, card uint16, from, to [6]byte) {
	b := make([]byte, Size)
	m := Message{Kind: kind, Said: Said{Card: card, IsCard: true, Discovers: true, Incarnation: 7, Frames: 3,
		FrameSize: 1514, Cluster: "one"}}
	m.Put(b, to, from)
	s.flying = append(s.flying, flying{s.now, b, nil})
}

// Rule: hosts that nobody knows cause newcomersPerSecond questions, however quickly they answer,
// and one of them a tenth of that.
func TestNewcomersAreAskedAtABoundedRate(t *testing.T) {
	for name, addresses := range map[string]int{"one address": 1, "many addresses": 5000} {
		t.Run(name, func(t *testing.T) {
			s := newSegment(t, 20)
			a := s.add(0, 1, nil)
			s.forger("one")
			const seconds = 10
			for i := range seconds * 5000 {
				n := i % addresses
				s.say(Announcement, uint16(1+i%40000), [6]byte{2, 9, 0, 0, byte(n >> 8), byte(n)}, broadcast)
				s.run(millisecond/5, nil)
				if a.News() {
					a.TakeNews(1000)
				}
			}
			limit := uint64(seconds*newcomersPerSecond + newcomersAtOnce)
			if addresses == 1 {
				limit = seconds*sourcePerSecond + sourceAtOnce
			}
			limit += seconds*turnsPerSecond + uint64(proofRounds*a.queues) // of the card itself
			n := a.Counters()
			if n.Questions > limit {
				t.Errorf("%d questions in %d s, at most %d", n.Questions, seconds, limit)
			}
			if n.Crowded == 0 {
				t.Error("nothing was too much")
			}
		})
	}
}

// Rule: whoever claims another's number, however often, does not get it while its owner answers:
// the claims do not use up what the owner answers.
func TestClaimsDoNotSilenceTheOwner(t *testing.T) {
	for name, addresses := range map[string]int{"one address": 1, "many addresses": 5000} {
		t.Run(name, func(t *testing.T) {
			s := newSegment(t, 21)
			a, b := s.add(0, 1, nil), s.add(1, 2, nil)
			s.run(10*second, func() bool { return a.knows(1, b) && b.knows(0, a) })
			a.TakeNews(10)
			before := a.Counters().Questions
			s.forger("one")
			const seconds = 20
			for i := range seconds * 2000 {
				n := i % addresses
				s.say(Announcement, 1, [6]byte{2, 9, 0, 0, byte(n >> 8), byte(n)}, broadcast)
				s.run(millisecond/2, nil)
				if !a.knows(1, b) {
					t.Fatalf("the number passed on after %d claims", i+1)
				}
			}
			if a.News() && len(a.TakeNews(10)) > 0 || b.Counters().Refused > 0 {
				t.Errorf("%d questions were refused by the owner", b.Counters().Refused)
			}
			if n, most := a.Counters().Questions-before,
				uint64(seconds*(peerPerSecond+turnsPerSecond)+peerAtOnce); n > most {
				t.Errorf("%d questions in %d s, at most %d", n, seconds, most)
			}
		})
	}
}

// Rule: goodbyes in a peer's name, however many, do not use up what it answers: it stays.
func TestForgedGoodbyesDoNotSilenceAPeer(t *testing.T) {
	s := newSegment(t, 22)
	a, b := s.add(0, 1, nil), s.add(1, 2, nil)
	s.run(10*second, func() bool { return a.knows(1, b) && b.knows(0, a) })
	before := a.Counters()
	const seconds = 20
	for range seconds * 2000 {
		s.say(Goodbye, 1, b.mac, a.mac)
		s.run(millisecond/2, nil)
		if !a.knows(1, b) {
			t.Fatal("the peer was dropped")
		}
	}
	n := a.Counters()
	if q, most := n.Questions-before.Questions, uint64(seconds*(peerPerSecond+turnsPerSecond)+peerAtOnce); q > most {
		t.Errorf("%d questions in %d s, at most %d", q, seconds, most)
	}
	if n.Crowded == before.Crowded || b.Counters().Refused > 0 {
		t.Errorf("%d were too much, the peer refused %d", n.Crowded-before.Crowded, b.Counters().Refused)
	}
}

// Rule: goodbyes and claims about many peers together cause no more questions than their purposes
// have.
func TestManyPeersAreAskedAtABoundedRate(t *testing.T) {
	for kind, most := range map[Kind]int{Goodbye: partedPerSecond, Announcement: claimsPerSecond} {
		s := newSegment(t, 23)
		a := s.add(0, 1, nil)
		s.forger("one")
		const peers = 300
		at := func(i int) [6]byte { return [6]byte{2, 9, 1, 0, byte(i >> 8), byte(i)} }
		for i := 1; i <= peers; {
			s.say(Announcement, uint16(i), at(i), broadcast)
			s.run(20*millisecond, nil)
			if _, ok := a.Peer(uint16(i)); ok {
				i++
			}
		}
		a.TakeNews(peers)
		before := a.Counters().Questions
		const seconds = 10
		for i := range seconds * 5000 {
			card := 1 + i%peers
			from := at(card)
			if kind == Announcement {
				from[2], from[3] = 2, byte(i)
			}
			s.say(kind, uint16(card), from, broadcast)
			s.run(millisecond/5, nil)
		}
		if n, limit := int(a.Counters().Questions-before), seconds*(most+turnsPerSecond)+claimsAtOnce; n > limit {
			t.Errorf("%d questions in %d s for hellos of kind %d, at most %d", n, seconds, kind, limit)
		}
		if len(a.order) != peers {
			t.Errorf("%d peers of %d stayed", len(a.order), peers)
		}
	}
}

// Rule: in a large cluster the cards together ask the owner of a number that somebody else claims
// no faster than it answers: each of them less often, and not at the same time.
func TestOwnersOfLargeClustersAreAskedInTurn(t *testing.T) {
	const others, stations = 2000, 40
	s := newSegment(t, 24)
	owner := [6]byte{2, 9, 3}
	var asked []int64
	for i := range stations {
		a := s.add(uint16(5000+i), byte(i), nil)
		for k := range others {
			a.add(uint16(k+2), 0, [6]byte{2, 8, 0, 0, byte(k >> 8), byte(k)})
			a.byCard[uint16(k+2)].Found = true
			a.found++
		}
		p := a.add(1, 0, owner)
		p.Found, p.Heard, p.Incarnation = true, 0, 5
		a.found++
	}
	s.forger("one")
	answer := s.see
	s.see = func(b []byte) {
		if [6]byte(b) == owner {
			asked = append(asked, s.now)
		}
		answer(b)
	}
	const seconds = 10
	for range seconds * 100 {
		s.say(Announcement, 1, [6]byte{2, 7}, broadcast)
		s.run(10*millisecond, nil)
	}
	// Each station has the share that it would have among as many stations as it has peers, and one
	// question at once.
	if most := stations * (seconds*questionedPerSecond/others + 1); len(asked) > most || len(asked) < stations {
		t.Errorf("%d questions in %d s, at most %d", len(asked), seconds, most)
	}
	for i, n := range counts(asked, second/10) {
		if n > stations/4 {
			t.Errorf("%d of %d stations asked in tenth %d of a second", n, stations, i)
		}
	}
}

// counts is how many times are in each interval.
func counts(times []int64, interval int64) []int {
	slices.Sort(times)
	var n []int
	for _, t := range times {
		for int64(len(n)) <= t/interval {
			n = append(n, 0)
		}
		n[t/interval]++
	}
	return n
}

// Rule: peers that are found, however quickly, take no turn from those that are there.
func TestNewcomersTakeNoTurns(t *testing.T) {
	s := newSegment(t, 25)
	a, b := s.add(0, 1, nil), s.add(1, 2, nil)
	s.run(10*second, func() bool { return a.knows(1, b) })
	s.forger("one")
	for i := range 40 * 100 {
		s.say(Announcement, uint16(2+i%30000), [6]byte{2, 9, 0, 0, byte(i % 20)}, broadcast)
		s.run(10*millisecond, nil)
	}
	if p, _ := a.Peer(1); s.now-p.Heard > 3*period {
		t.Errorf("a peer had its last turn %d ms ago", (s.now-p.Heard)/millisecond)
	}
	if len(a.order) > 21 || len(a.fresh) > 21 {
		t.Errorf("%d peers, %d without a turn", len(a.order), len(a.fresh))
	}
}

// Rule: of two cards that say to be at one address the one that was found last stays, also if it
// has another number than before, unless one is listed there.
func TestOneCardAtAnAddress(t *testing.T) {
	s := newSegment(t, 26)
	a := s.add(0, 1, nil)
	s.forger("one")
	at := [6]byte{2, 9, 0, 0, 0, 1}
	for card := range uint16(5) {
		s.say(Announcement, 10+card, at, broadcast)
		s.run(100*millisecond, nil)
		if len(a.order) != 1 || a.order[0].Card != 10+card {
			t.Fatalf("%d peers, the first is card %d", len(a.order), a.order[0].Card)
		}
		if err := a.consistent(); err != nil {
			t.Fatal(err)
		}
	}
	// Two are listed at the address: neither they nor the order in which they were listed gives
	// way.
	a.SetPeer(30, 0, at)
	a.SetPeer(31, 0, at)
	a.RemovePeer(30)
	s.say(Announcement, 20, at, broadcast)
	s.run(second, nil)
	if _, ok := a.Peer(20); ok {
		t.Error("it is found where another is listed")
	}
	wantLine(t, a.lines(), "is listed as card 31 and says that it is card 20")
	a.RemovePeer(31)
	s.say(Announcement, 20, at, broadcast)
	s.run(second, nil)
	if _, ok := a.Peer(20); !ok {
		t.Error("it is not found where nobody is listed any more")
	}
	if err := a.consistent(); err != nil {
		t.Fatal(err)
	}
}
