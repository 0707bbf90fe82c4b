package hello

// This file tests floods: what strangers can make a station do.

import (
	"fmt"
	"testing"
)

// Rule: a flood of forged announcements, of other numbers, clusters and versions, makes nobody a
// peer, and is named within bounds; questions to those that do not exist are bounded, and peers
// stay.
func TestForgedAnnouncements(t *testing.T) {
	s := newSegment(t, 6)
	a, b := s.add(0, 1, nil), s.add(1, 2, nil)
	s.run(10*second, func() bool { return a.knows(1, b) })
	a.TakeNews(10)
	before, lines := a.Counters().Questions, 0
	const seconds = 20
	for i := range seconds * 1000 {
		m := Message{Kind: Announcement, Said: Said{Card: uint16(s.random.Uint32()), Cluster: "one", Host: "nobody",
			Incarnation: 1}}
		switch i % 4 {
		case 1:
			m.Card = 1
		case 2:
			m.Cluster = fmt.Sprint(i)
		case 3:
			m.Card = 0
		}
		s.forge(m, broadcast)
		s.run(millisecond, nil)
		lines += len(a.lines())
	}
	if n := a.Counters().Questions - before; n > seconds*(32+16+16)*6 {
		t.Errorf("%d questions in %d s", n, seconds)
	}
	if len(a.order) != 1 || !a.knows(1, b) || a.TakeNews(10) != nil {
		t.Errorf("%d peers", len(a.order))
	}
	if lines > mostFaults+seconds/20+1 {
		t.Errorf("%d lines", lines)
	}
	if a.Counters().Crowded == 0 {
		t.Error("nothing was too much")
	}
	c := s.add(2, 3, nil)
	s.run(20*second, func() bool { return a.knows(2, c) })
}

// Rule: of a flood of questions few are answered, none with more bytes than it has, and a peer gets
// its answers all the while; one stranger takes no other's.
func TestForgedQuestions(t *testing.T) {
	s := newSegment(t, 7)
	a, b := s.add(0, 1, nil), s.add(1, 2, nil)
	s.run(10*second, func() bool { return a.knows(1, b) && b.knows(0, a) })
	before := a.Counters()
	const seconds = 10
	asked, answered := 0, 0
	for i := range seconds * 2000 {
		s.forge(Message{Kind: Question, Nonce: uint64(i), Said: Said{Card: uint16(s.random.Uint32()), Cluster: "one"}},
			a.mac)
		if i%100 == 0 {
			asked++
			if err := b.Ask(s.now, 0, a.mac, 0, func(r Reply) {
				if r.Answered && r.Tries == 1 {
					answered++
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
		s.run(millisecond/2, nil)
	}
	s.run(second, nil)
	if answered != asked {
		t.Errorf("of %d questions of a peer %d were answered at once", asked, answered)
	}
	n := a.Counters()
	if sent := n.Answers - before.Answers; sent > uint64(asked)+seconds*450+200 {
		t.Errorf("%d answers in %d s", sent, seconds)
	}
	if n.Refused == before.Refused {
		t.Error("none was refused")
	}
}

// Rule: nothing that arrives makes the station allocate, once it is known.
func TestNoAllocation(t *testing.T) {
	s := newSegment(t, 10)
	a, b := s.add(0, 1, nil), s.add(1, 2, nil)
	s.run(10*second, func() bool { return a.knows(1, b) })
	s.run(5*second, nil)
	frames := [4][Size]byte{}
	for i := range frames {
		m := Message{Kind: Kind(i + 1), Said: b.c.Self}
		m.FrameSize = 1514
		if i == 1 {
			m.Cluster = "other" // an answer that nobody waits for
		}
		m.Put(frames[i][:], a.mac, b.mac)
	}
	sink := &sink{}
	a.port.Plug(sink)
	var list [8][]byte
	now := s.now
	if n := testing.AllocsPerRun(1000, func() {
		for i := range frames[:3] {
			sink.in = frames[i][:]
			a.port.Receive(list[:])
			now += millisecond
			a.Step(now)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Rule: what finds no room is not put into words either: a flood of strangers makes the station
// allocate nothing.
func TestFloodAllocatesNothing(t *testing.T) {
	s := newSegment(t, 12)
	a := s.add(0, 1, nil)
	sink := &sink{}
	a.port.Plug(sink)
	now := s.now
	var f [Size]byte
	var list [8][]byte
	n := uint32(0)
	one := func() {
		n++
		m := Message{Kind: Announcement, Said: Said{IsCard: true, Card: uint16(n), Cluster: "elsewhere",
			Host: "stranger", Frames: 3}}
		m.Put(f[:], broadcast, [6]byte{2, 9, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
		sink.in = f[:]
		a.port.Receive(list[:])
		now += millisecond
		a.Step(now)
	}
	for range 2 * mostFaults {
		one()
	}
	if n := testing.AllocsPerRun(1000, one); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
