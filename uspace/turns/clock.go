package turns

// This file is the clock that hosts share.

import (
	"cmp"
	"slices"
)

const (
	// listens is how long a new clock listens before it tells its time.
	listens = 300 * Turn
	// quiet is how long a card may be silent whose time counts.
	quiet = 300 * Turn
	// mostTellers is how many cards tell their time: the lowest-numbered ones that are heard.
	mostTellers = 16
	// jumpGap is the average time between two jumps of the number of the turn, at least. Of jumps
	// that were not made, jumps may follow each other at once.
	jumpGap = 1000 * Turn
	jumps   = 3
	// firm is how long the time to jump to has been the same: at a start cards are heard one by
	// one.
	firm = 50 * Turn
	// sampleGap is the least time between two times that are heard of a card. Earlier ones are
	// ignored.
	sampleGap = Turn
	samples   = 8
	// settled is how many times a card has told before its time counts.
	settled = 3
	// slewing is by which part of itself time runs faster or slower until the clock is right. A
	// clock that is within still of what is right is left as it is: frames take time to arrive, so
	// each clock sees the others a little late.
	slewing = 8
	still   = Turn / 100
	// near is how far apart clocks may be to be together.
	near = Turn / 10
	// trust is how long a card may lead that does not bring most clocks together. barred is how
	// long another one leads then. A clock has jumped in that time if it had to.
	trust  = jumps * jumpGap
	barred = 2 * trust
)

// Clock is a clock that hosts share. A time of it is the sum of the host's own time and the offset.
type Clock struct {
	card    uint16
	started int64
	offset  uint64
	slewed  int64 // when offset was last brought nearer
	jump    int64 // earliest time of the next jump
	goal    uint64
	goalAt  int64 // since when goal is about the offset that is right

	tellers []teller // whose times were heard, by their numbers; at most mostTellers
	leader  uint16   // the card that this clock followed last, while most were not together
	since   int64    // since when it does, or when most were together
}

// teller is a card whose time is heard.
type teller struct {
	card  uint16
	heard int64 // time of the last sample
	// ring has the last differences between the card's time and the own time. The largest is the
	// one that was least delayed.
	ring   [samples]uint64
	n      int   // how many samples there were
	barred int64 // it does not lead until then
}

// NewClock makes the clock of a card.
func NewClock(card uint16, now int64) *Clock {
	return &Clock{card: card, started: now, jump: now - jumps*jumpGap, leader: card,
		tellers: make([]teller, 0, mostTellers)}
}

// Heard takes the time that another card has told.
func (c *Clock) Heard(now int64, card uint16, told uint64) {
	c.expire(now)
	i, known := c.find(card)
	switch {
	case card == c.card || i == mostTellers:
		return
	case !known && len(c.tellers) == mostTellers:
		c.tellers = slices.Insert(c.tellers[:mostTellers-1], i, teller{card: card})
	case !known:
		c.tellers = slices.Insert(c.tellers, i, teller{card: card})
	case now-c.tellers[i].heard < sampleGap:
		return
	}
	t := &c.tellers[i]
	t.ring[t.n%samples] = told - uint64(now)
	t.n++
	t.heard = now
	c.slew(now)
}

// find returns the place of a card among the tellers, and whether it is there.
func (c *Clock) find(card uint16) (i int, known bool) {
	return slices.BinarySearchFunc(c.tellers, card, func(t teller, card uint16) int {
		return cmp.Compare(t.card, card)
	})
}

// Tell returns the time if this card is one of those that tell it.
func (c *Clock) Tell(now int64) (told uint64, ok bool) {
	c.expire(now)
	return uint64(now) + c.offset, c.tells(now)
}

func (c *Clock) tells(now int64) bool {
	lower, _ := c.find(c.card)
	return now-c.started >= listens && lower < mostTellers
}

// expire forgets cards that have fallen silent.
func (c *Clock) expire(now int64) {
	c.tellers = slices.DeleteFunc(c.tellers, func(t teller) bool { return now-t.heard > quiet })
}

// ahead returns by how much a teller's time is ahead of the clock.
func (c *Clock) ahead(t *teller) int64 {
	d := int64(t.ring[0] - c.offset)
	for _, s := range t.ring[1:min(t.n, samples)] {
		d = max(d, int64(s-c.offset))
	}
	return d
}

// right returns by how much the clock is behind the time that counts, and a card that has it. While
// most of those that tell are together it is in the middle of them, without a third that may lie
// (Welch and Lynch, Information and Computation 77, 1988). If they are not, one of them leads.
func (c *Clock) right(now int64) (behind int64, leader uint16) {
	var votes [mostTellers + 1]int64
	n := 0
	if c.tells(now) {
		n++ // 0 is its own
	}
	for i := range c.tellers {
		if t := &c.tellers[i]; t.n >= settled {
			votes[n] = c.ahead(t)
			n++
		}
	}
	if n == 0 {
		return 0, c.card
	}
	sorted := votes[:n]
	slices.Sort(sorted)
	median := sorted[n/2]
	low := slices.IndexFunc(sorted, func(v int64) bool { return apart(v, median) <= uint64(near) })
	high := low
	for high+1 < n && apart(sorted[high+1], median) <= uint64(near) {
		high++
	}
	agree := high - low + 1
	if 2*agree <= n {
		return c.led(now)
	}
	c.since = now
	liars := (n - 1) / 3
	if n == 3 {
		liars = 1 // the one in the middle is at least between the others
	}
	liars = min(liars, (agree-1)/2)
	first, last := sorted[low+liars], sorted[high-liars]
	behind = first + (last-first)/2
	leader = c.card
	for i := range c.tellers {
		t := &c.tellers[i]
		own := c.tells(now) && c.card < t.card && apart(behind, 0) <= uint64(near)
		if t.n >= settled && !own && apart(c.ahead(t), behind) <= uint64(near) {
			leader = t.card
			break
		}
	}
	return behind, leader
}

// apart returns the distance of two times, which may be lies of any size.
func apart(a, b int64) uint64 {
	if a < b {
		a, b = b, a
	}
	return uint64(a) - uint64(b)
}

// led returns by how much the clock is behind that of the lowest-numbered card. One that has led
// for long in vain, because it tells others another time, leads no more for a while.
func (c *Clock) led(now int64) (behind int64, leader uint16) {
	var to *teller
	for i := range c.tellers {
		t := &c.tellers[i]
		if t.n >= settled && now >= t.barred {
			to = t
			break
		}
	}
	if to == nil || to.card > c.card && c.tells(now) {
		c.leader, c.since = c.card, now
		return 0, c.card
	}
	if to.card != c.leader {
		c.leader, c.since = to.card, now
	}
	if now-c.since > trust {
		to.barred = now + barred
	}
	return c.ahead(to), to.card
}

// turnsOf splits a time into turns and at most half of one.
func turnsOf(d int64) (turns, rest int64) {
	turns, rest = d/Turn, d%Turn
	if rest > Turn/2 {
		return turns + 1, rest - Turn
	}
	if rest < -Turn/2 {
		return turns - 1, rest + Turn
	}
	return turns, rest
}

// slew brings the clock nearer to what is right, within bounds.
func (c *Clock) slew(now int64) {
	behind, _ := c.right(now)
	turns, rest := turnsOf(behind)
	most := (now - c.slewed) / slewing
	c.slewed = now
	if goal := c.offset + uint64(behind); apart(int64(goal-c.goal), 0) > uint64(near) {
		c.goal, c.goalAt = goal, now
	}
	if max(rest, -rest) > still {
		c.offset += uint64(min(max(rest, -most), most))
	}
	if turns != 0 && now >= c.jump && now-c.goalAt >= firm {
		c.offset += uint64(turns * Turn)
		c.jump = max(c.jump, now-(jumps-1)*jumpGap) + jumpGap
	}
}

// turn returns the number of the turn at a time, and when the turn ends.
func (c *Clock) turn(now int64) (k uint64, end int64) {
	c.expire(now)
	c.slew(now)
	t := uint64(now) + c.offset
	return t / uint64(Turn), now + Turn - int64(t%uint64(Turn))
}

// State is what a clock says about itself.
type State struct {
	Leader uint16 // the lowest-numbered card whose time is the one that counts
	// Together says that the clock has that time. Apart is by how many nanoseconds it is behind, as
	// far as it knows.
	Together bool
	Apart    int64
}

// State describes the clock.
func (c *Clock) State(now int64) State {
	c.expire(now)
	behind, leader := c.right(now)
	return State{leader, apart(behind, 0) <= uint64(near) && (leader != c.card || c.tells(now)), behind}
}
