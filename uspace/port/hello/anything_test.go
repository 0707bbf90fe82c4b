package hello

// This file tests that a station stays consistent, whatever arrives.

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// consistent says what contradicts itself in a station.
func (h *host) consistent() error {
	var waits [purposes]int
	for i := range h.questions {
		if q := &h.questions[i]; q.open {
			waits[q.why]++
		}
	}
	silent, found, placed := 0, 0, 0
	for at, p := range h.at {
		for ; p != nil; p = p.beside {
			placed++
			if p.Port != at.port || p.Address != at.address || h.order[p.at] != p {
				return fmt.Errorf("at %v is peer %+v", at, p.Peer)
			}
		}
	}
	for i, p := range h.order {
		if p.at != i || p.gone || h.byCard[p.Card] != p {
			return fmt.Errorf("place %d has peer %+v", i, p.Peer)
		}
		if p.Silent > 0 {
			silent++
		}
		if p.Found {
			found++
		}
	}
	if waits != h.waits || silent != h.silent || found != h.found || len(h.order) != len(h.byCard) ||
		placed != len(h.order) || h.nFaults > mostFaults {
		return fmt.Errorf("%v questions and %v; %d silent and %d; %d found and %d; %d peers, %d and %d; %d faults",
			waits, h.waits, silent, h.silent, found, h.found, len(h.order), len(h.byCard), placed, h.nFaults)
	}
	for why, n := range waits {
		if n > most[why] {
			return fmt.Errorf("%d questions for purpose %d", n, why)
		}
	}
	return nil
}

// Rule: whatever comes, in whoever's name, the station stays consistent and bounded; and afterwards
// two honest hosts still find each other.
func TestAnythingFromAnybody(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSegment(t, rapid.Uint64().Draw(t, "seed"))
		a := s.add(0, 1, nil)
		var last Message
		s.see = func(f []byte) {
			if m, _, err := Parse(f); err == nil && m.Kind == Question {
				last = m
			}
		}
		for range rapid.IntRange(1, 120).Draw(t, "frames") {
			m := drawMessage(t)
			m.Card, m.To = rapid.Uint16Range(0, 3).Draw(t, "number"), 0
			m.IsCard, m.Discovers = true, rapid.Bool().Draw(t, "finds")
			m.Incarnation = rapid.Uint32Range(1, 3).Draw(t, "life")
			if rapid.IntRange(0, 3).Draw(t, "ours") > 0 {
				m.Cluster, m.Frames, m.FrameSize = "one", 3, 1514
			}
			from := [6]byte{2, 5, 0, 0, 0, rapid.Byte().Draw(t, "from") % 5}
			if m.Kind == Answer && rapid.Bool().Draw(t, "to a question") {
				m.Nonce = last.Nonce
			}
			f := make([]byte, Longest)
			s.carry(nil, f[:m.Put(f, a.mac, from)])
			switch rapid.IntRange(0, 9).Draw(t, "besides") {
			case 0:
				a.SetPeer(m.Card+1, 0, from)
			case 1:
				a.RemovePeer(m.Card)
			case 2:
				a.TakeNews(2)
			case 3:
				a.Prove(0)
			case 4:
				_ = a.Ask(s.now, 0, from, m.Card, func(Reply) {})
			}
			a.Due = 0
			s.run(rapid.Int64Range(1, 400).Draw(t, "ms")*millisecond, nil)
			if err := a.consistent(); err != nil {
				t.Fatal(err)
			}
		}
		for card := range uint16(6) {
			a.RemovePeer(card)
		}
		b := s.add(9, 99, nil)
		s.run(20*second, func() bool { return a.knows(9, b) && b.knows(0, a) })
	})
}
