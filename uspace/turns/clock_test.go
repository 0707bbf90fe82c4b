package turns

// This file tests the clock that hosts share.

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

const second = 100 * Turn

// Rule: clocks that begin anywhere and run at different rates come together, follow the
// lowest-numbered card that lives, and its end moves nobody by more than a hundredth of a turn.
func TestClocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type host struct {
			clock *Clock
			ahead int64
			fast  int64 // millionths
			begin int64
			dead  bool
		}
		var hosts []*host
		for card := range rapid.IntRange(2, 6).Draw(t, "hosts") {
			h := &host{ahead: rapid.Int64Range(0, 3600*second).Draw(t, "ahead"),
				begin: rapid.Int64Range(0, 2*second).Draw(t, "begin"),
				fast:  rapid.Int64Range(-100, 100).Draw(t, "fast")}
			h.clock = NewClock(uint16(card), h.ahead+h.begin+h.begin*h.fast/1_000_000)
			hosts = append(hosts, h)
		}
		own := func(h *host, now int64) int64 { return h.ahead + now + now*h.fast/1_000_000 }
		run := func(from, to int64) {
			for now := from; now < to; now += second / 10 {
				for card, h := range hosts {
					told, ok := h.clock.Tell(own(h, now))
					if !ok || h.dead || now < h.begin {
						continue
					}
					for _, other := range hosts {
						if other != h && now >= other.begin && rapid.IntRange(0, 9).Draw(t, "lost") > 0 {
							late := now + rapid.Int64Range(20_000, 80_000).Draw(t, "late")
							other.clock.Heard(own(other, late), uint16(card), told)
						}
					}
				}
				for _, h := range hosts {
					h.clock.turn(own(h, now))
				}
			}
		}
		check := func(now int64, leader uint16) {
			t.Helper()
			least, most := ^uint64(0), uint64(0)
			for i, h := range hosts {
				if h.dead {
					continue
				}
				if s := h.clock.State(own(h, now)); s.Leader != leader || !s.Together {
					t.Fatalf("host %d: %+v, want the time of card %d", i, s, leader)
				}
				time := uint64(own(h, now)) + h.clock.offset
				least, most = min(least, time), max(most, time)
			}
			if most-least > uint64(Turn/20) {
				t.Fatalf("clocks are %d us apart", (most-least)/1000)
			}
		}
		run(0, 20*second)
		check(20*second, 0)
		turn := func(now int64) uint64 {
			k, _ := hosts[1].clock.turn(own(hosts[1], now))
			return k
		}
		before := turn(20 * second)
		hosts[0].dead = true
		run(20*second, 26*second)
		check(26*second, 1)
		if went := turn(26*second) - before; went < 599 || went > 601 {
			t.Fatalf("%d turns in 6 s", went)
		}
	})
}

// Rule: a card that is new and has the lowest number takes over the time of the others before it
// tells its own.
func TestNewcomerTakesOver(t *testing.T) {
	old := NewClock(4, 0)
	old.offset = 77 * uint64(second)
	newcomer := NewClock(0, 50*second)
	for now := 50 * second; now < 60*second; now += second / 10 {
		if told, ok := old.Tell(now); ok {
			newcomer.Heard(now+20_000, 4, told)
		}
		if told, ok := newcomer.Tell(now); ok {
			if apart := int64(told - uint64(now) - 77*uint64(second)); max(apart, -apart) > Turn/50 {
				t.Fatalf("it tells a time that is %d us away", apart/1000)
			}
			old.Heard(now+20_000, 0, told)
		}
	}
	if s := old.State(60 * second); s.Leader != 0 || !s.Together {
		t.Errorf("%+v", s)
	}
	if s := newcomer.State(60 * second); s.Leader != 0 || !s.Together {
		t.Errorf("%+v", s)
	}
}

// Rule: the clocks of honest cards come together, and stay so, whatever less than a third of all
// cards tell each of them: lies of one kind to one card and of another kind to the next.
func TestLiars(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		liars := rapid.IntRange(1, 2).Draw(t, "liars")
		honest := rapid.IntRange(2*liars+1, 6).Draw(t, "honest")
		first := rapid.IntRange(0, honest).Draw(t, "first liar") // the liars' numbers are in a row
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		type host struct {
			clock       *Clock
			ahead, fast int64
			kinds       []int // of the lies of each liar
		}
		var hosts []*host
		for i := range honest {
			card := i
			if i >= first {
				card += liars
			}
			h := &host{ahead: random.Int64N(3600 * second), fast: random.Int64N(201) - 100}
			h.clock = NewClock(uint16(card), h.ahead)
			for range liars {
				h.kinds = append(h.kinds, random.IntN(6))
			}
			hosts = append(hosts, h)
		}
		own := func(h *host, now int64) int64 { return h.ahead + now + now*h.fast/1_000_000 }
		for now := int64(0); now < 80*second; now += second / 10 {
			for _, h := range hosts {
				told, ok := h.clock.Tell(own(h, now))
				for _, other := range hosts {
					if other != h && ok && random.IntN(10) > 0 {
						late := now + 20_000 + random.Int64N(60_000)
						other.clock.Heard(own(other, late), h.clock.card, told)
					}
				}
			}
			for i, h := range hosts {
				at := own(h, now+second/20)
				for n, kind := range h.kinds {
					h.clock.Heard(at, uint16(first+n), lie(kind, i, at, h.clock.offset, random))
				}
				h.clock.turn(own(h, now+second/20))
			}
			least, most := ^uint64(0), uint64(0)
			for _, h := range hosts {
				time := uint64(own(h, now+second/20)) + h.clock.offset
				least, most = min(least, time), max(most, time)
			}
			if now > 75*second && most-least > uint64(near) {
				t.Fatalf("after %d s honest clocks are %d us apart", now/second, (most-least)/1000)
			}
		}
	})
}

// lie returns a lie of a kind to a host.
func lie(kind, to int, now int64, offset uint64, random *rand.Rand) uint64 {
	right := uint64(now) + offset
	switch kind {
	case 0:
		return random.Uint64()
	case 1:
		return right // whatever that host believes
	case 2:
		return right + uint64(near)*9/10
	case 3:
		return right - uint64(near)*9/10
	case 4:
		return uint64(now) + 1<<40 + uint64(to)*uint64(Turn)
	default:
		return right + uint64(Turn)
	}
}

// Rule: whatever is told, the number of the turn jumps three times, and then once in ten seconds.
func TestJumps(t *testing.T) {
	c := NewClock(5, 0)
	random := rand.New(rand.NewPCG(1, 1))
	last, _ := c.turn(0)
	jumps := 0
	for now := int64(0); now < 100*second; now += Turn {
		c.Heard(now, uint16(random.IntN(5)), random.Uint64())
		c.Heard(now+Turn/2, 0, uint64(now/second/4)*1_000_000_007)
		k, _ := c.turn(now + Turn)
		if k-last > 2 {
			jumps++
		}
		last = k
	}
	if jumps < 3 || jumps > 13 {
		t.Errorf("%d jumps in 100 s", jumps)
	}
}
