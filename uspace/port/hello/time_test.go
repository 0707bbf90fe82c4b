package hello

// This file tests who is told the time of turns, and by whom it may be told.

import (
	"testing"

	"pgregory.net/rapid"
)

// clock is a clock that may be for its card to tell, and remembers what it has heard.
type clock struct {
	tells bool
	heard map[uint16][]uint64 // by card
	times []int64
}

func (c *clock) Tell(now int64) (uint64, bool) { return uint64(now) + 1, c.tells }

func (c *clock) Heard(now int64, card uint16, time uint64) {
	c.heard[card] = append(c.heard[card], time)
	c.times = append(c.times, now)
}

func (s *segment) clocked(card uint16, tells bool) (*host, *clock) {
	c := &clock{tells: tells, heard: map[uint16][]uint64{}}
	return s.add(card, byte(card+1), func(cfg *Config) { cfg.Clock = c }), c
}

// Rule: the card whose time counts tells each peer some ten times a second, and little later than
// it says. A station without a clock ignores it, and a card whose time does not count says nothing.
func TestTimeIsTold(t *testing.T) {
	s := newSegment(t, 1)
	a, mine := s.clocked(0, true)
	b, its := s.clocked(1, false)
	c, other := s.clocked(2, false)
	plain := s.add(3, 4, nil)
	s.run(10*second, func() bool {
		return a.knows(1, b) && a.knows(2, c) && a.knows(3, plain) && b.knows(0, a) && c.knows(0, a)
	})
	before := len(its.heard[0])
	s.run(10*second, nil)
	if n := len(its.heard[0]) - before; n < 90 || n > 110 || len(other.heard[0]) < 90 || len(mine.heard) > 0 ||
		len(its.heard) > 1 {
		t.Errorf("in 10 s one heard %d times, %d in all; the others %d and %v", n, len(its.heard[0]),
			len(other.heard[0]), mine.heard)
	}
	for i, told := range its.heard[0] {
		if late := its.times[i] - int64(told); late < 0 || late > 100_000 {
			t.Fatalf("heard %d us late", late/1000)
		}
	}
}

// Rule: times are told within a budget, however many peers there are, and silent peers are told
// none.
func TestTimesHaveABudget(t *testing.T) {
	s := newSegment(t, 1)
	a, _ := s.clocked(0, true)
	times := 0
	s.see = func(f []byte) {
		if m, _, err := Parse(f); err == nil && m.Time != 0 {
			times++
		}
	}
	for card := range uint16(300) {
		a.SetPeer(card+1, 0, [6]byte{2, 7, 0, 0, byte(card >> 8), byte(card)})
	}
	s.run(2*second, nil)
	if times > 0 {
		t.Errorf("peers that were never heard were told the time %d times", times)
	}
	for _, p := range a.order {
		p.Heard, p.Silent = s.now, 0
	}
	a.silent = 0
	s.run(second, nil)
	if times < 200 || times > timesPerSecond {
		t.Errorf("300 peers are told %d times a second", times)
	}
}

// Rule: only a peer at its own address can tell the time.
func TestTimeOfStrangers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSegment(t, 1)
		a, heard := s.clocked(0, false)
		a.SetPeer(5, 0, [6]byte{2, 5})
		m := drawMessage(t)
		m.IsCard, m.Cluster = true, "one"
		from := [6]byte{2, 4 + rapid.Byte().Draw(t, "from")%2}
		if rapid.Bool().Draw(t, "peer") {
			m.Card = 5
		}
		if rapid.Bool().Draw(t, "announcement") {
			m.Kind = Announcement
		}
		f := make([]byte, Longest)
		s.carry(nil, f[:m.Put(f, a.mac, from)])
		s.run(millisecond, nil)
		want := m.Time != 0 && m.Kind == Announcement && m.Card == 5 && from == [6]byte{2, 5}
		if got := len(heard.heard) > 0; got != want {
			t.Fatalf("%+v from %v: heard %v", m, from, heard.heard)
		}
	})
}
