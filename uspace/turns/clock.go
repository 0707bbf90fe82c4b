package turns

// This file is the clock that hosts share.

const (
	// listens is how long a new clock listens before it tells its time.
	listens = 300 * Turn
	// quiet is how long the card that tells the time may be silent.
	quiet = 300 * Turn
	// jumpGap is the average time between two jumps of the number of the turn, at least. Of jumps
	// that were not made, jumps may follow each other at once.
	jumpGap = 1000 * Turn
	jumps   = 3
	// sampleGap is the least time between two times that are heard. Earlier ones are ignored.
	sampleGap = Turn
	samples   = 8
	// settled is how many times a card has told before the number of the turn jumps to its own. The
	// first that is heard need not be the one that others follow.
	settled = 3
	// slewing is by which part of itself time runs faster or slower until the clock is right.
	slewing = 8
	// near is how far from the time that was heard the clock may be to be called coordinated.
	near = Turn / 10
)

// Clock is a clock that hosts share. A time of it is the sum of the host's own time and the offset.
type Clock struct {
	card    uint16
	started int64
	offset  uint64
	slewed  int64 // when offset was last brought nearer
	jump    int64 // earliest time of the next jump

	leader  uint16 // the card that this clock follows
	follows bool
	heard   int64 // time of the last sample
	// ring has the last differences between the leader's time and the own time. The largest is the
	// one that was least delayed.
	ring [samples]uint64
	n    int // how many samples there were from this leader
}

// NewClock makes the clock of a card.
func NewClock(card uint16, now int64) *Clock {
	return &Clock{card: card, started: now, jump: now - jumps*jumpGap}
}

// Heard takes the time that another card has told.
func (c *Clock) Heard(now int64, card uint16, told uint64) {
	c.expire(now)
	switch {
	case card > c.card && now-c.started >= listens || c.follows && card > c.leader:
		return
	case !c.follows || card != c.leader:
		c.follows, c.leader, c.n = true, card, 0
	case now-c.heard < sampleGap:
		return
	}
	c.ring[c.n%samples] = told - uint64(now)
	c.n++
	c.heard = now
	c.slew(now)
}

// Tell returns the time if this card is the one that tells it.
func (c *Clock) Tell(now int64) (told uint64, ok bool) {
	c.expire(now)
	return uint64(now) + c.offset, !c.follows && now-c.started >= listens
}

// expire ends the lead of a card that has fallen silent, or that only a new clock listens to.
func (c *Clock) expire(now int64) {
	if c.follows && (now-c.heard > quiet || c.leader > c.card && now-c.started >= listens) {
		c.follows = false
	}
}

// apart returns by how much the clock is behind the leader's: a number of turns, and at most half
// of one.
func (c *Clock) apart() (turns, rest int64) {
	if !c.follows {
		return 0, 0
	}
	d := int64(c.ring[0] - c.offset)
	for _, s := range c.ring[1:min(c.n, samples)] {
		d = max(d, int64(s-c.offset))
	}
	turns, rest = d/Turn, d%Turn
	if rest > Turn/2 {
		return turns + 1, rest - Turn
	}
	if rest < -Turn/2 {
		return turns - 1, rest + Turn
	}
	return turns, rest
}

// slew brings the clock nearer to the leader's, within bounds.
func (c *Clock) slew(now int64) {
	turns, rest := c.apart()
	most := (now - c.slewed) / slewing
	c.slewed = now
	c.offset += uint64(min(max(rest, -most), most))
	if turns != 0 && now >= c.jump && c.n >= settled {
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
	Leader uint16 // card whose time counts; the own one: it tells the time
	// Together says that the clock is with the leader's. Apart is by how many nanoseconds it is
	// behind, as far as it knows.
	Together bool
	Apart    int64
}

// State describes the clock.
func (c *Clock) State(now int64) State {
	c.expire(now)
	if !c.follows {
		return State{Leader: c.card, Together: now-c.started >= listens}
	}
	turns, rest := c.apart()
	return State{c.leader, turns == 0 && max(rest, -rest) <= near, turns*Turn + rest}
}
