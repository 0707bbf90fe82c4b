package turns

// This file is the turns of the groups on one card.

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"time"
)

// Never is later than all times.
const Never = math.MaxInt64

const (
	// Turn is the length of a turn in nanoseconds.
	Turn = int64(10 * time.Millisecond)
	// pause is the time between two looks at what the groups do.
	pause = Turn / 10
	// patient is how long a switch waits for acknowledgments.
	patient = 10 * Turn
	// again is how soon a switch that waits looks again, at the latest. A card that steps when a
	// frame arrives does it then. A card that looked all the while would keep the processor from
	// those that are to acknowledge.
	again = Turn / 500
	// looks bounds the contexts that are out and looked at in one look.
	looks = 1024
	// overdue is how many turns a group waits, for each group that is awake, before it goes first.
	overdue = 4
	// classes is the number of the first class in rank, behind all GIDs.
	classes = 1 << 16
)

// Member is a context of a group.
type Member interface {
	// Out takes the context off the card, and reports false as long as that has to wait. With
	// unacknowledged it does not wait for packets in flight. It returns true for a context that is
	// off the card already.
	Out(unacknowledged bool) bool
	In()           // puts the context back
	Waits() bool   // reports whether the context has something to do on the card
	Moved() uint64 // returns how many packets the context has sent and received
}

// Turns is the turns of the groups on a card. Its user calls Step when Step said, and after all
// other calls.
type Turns struct {
	room   int
	clock  *Clock // nil: this host takes its turns alone
	groups []*group
	turn   uint64
	end    int64 // of the turn
	look   int64 // time of the next look
	cursor int   // index of the group at which the next look begins
	stale  bool  // groups have come or gone since the last choice
	out    bool  // a switch is under way
	since  int64 // beginning of the switch
}

// group is a group's contexts on this card.
type group struct {
	gid     uint16
	class   int // of the number of its hosts
	members []Member
	on      bool
	next    bool // it will be on the card after the switch
	rests   bool
	// stirs says that it has moved packets in this turn, or had some to move. Then it does not
	// begin to rest before the next one: what it waits for may be on the way.
	stirs  bool
	moved  uint64
	waited int // turns off the card; negative: turns on it
	// order is the place of its class in the turn, and rank its own among those of the class: the
	// highest is the first.
	order, rank uint64
	asked       bool // it goes first until it is on the card
}

// New makes the turns on a card with room for the given number of groups. Without a clock the host
// takes its turns alone.
func New(room int, clock *Clock) *Turns { return &Turns{room: room, clock: clock} }

// Enter adds a context to its group, which has contexts on so many hosts. It switches the context
// out if the group is not on the card and there is no room for it.
func (t *Turns) Enter(gid uint16, hosts int, m Member) {
	g := t.find(gid)
	if g == nil {
		g = &group{gid: gid, class: bits.Len(uint(max(hosts, 1) - 1)), on: !t.out && t.onCard() < t.room}
		t.groups = append(t.groups, g)
		t.stale = true
	}
	g.members = append(g.members, m)
	if !g.on || t.out {
		m.Out(true) // nothing of it is in flight yet
	}
}

// Leave takes a context out of its group before it is detached.
func (t *Turns) Leave(m Member) {
	for i, g := range t.groups {
		if at := slices.Index(g.members, m); at >= 0 {
			g.members = slices.Delete(g.members, at, at+1)
			if len(g.members) == 0 {
				t.groups = slices.Delete(t.groups, i, i+1)
				t.stale = true
			}
			return
		}
	}
}

// Next starts the turn of a group at once. It returns false if the group has no context here.
func (t *Turns) Next(gid uint16) bool {
	g := t.find(gid)
	if g != nil && !g.on {
		g.asked, g.rests = true, false
		t.groups = slices.DeleteFunc(t.groups, func(other *group) bool { return other == g })
		t.groups = slices.Insert(t.groups, 0, g)
		t.stale, t.end = true, 0
	}
	return g != nil
}

func (t *Turns) find(gid uint16) *group {
	if i := slices.IndexFunc(t.groups, func(g *group) bool { return g.gid == gid }); i >= 0 {
		return t.groups[i]
	}
	return nil
}

func (t *Turns) onCard() (n int) {
	for _, g := range t.groups {
		if g.on {
			n++
		}
	}
	return n
}

// Step switches groups when it is time to, and returns when it wants to be called again.
func (t *Turns) Step(now int64) (next int64) {
	if !t.out {
		if t.onCard() == len(t.groups) {
			return Never
		}
		if now < min(t.look, t.end) && !t.stale {
			return min(t.look, t.end)
		}
		begins := t.advance(now)
		if now >= t.look || begins {
			t.watch(now)
		}
		t.stale = false
		if !t.choose(begins) {
			return min(t.look, t.end)
		}
		t.out, t.since = true, now
	}
	for _, g := range t.groups {
		for _, m := range g.members {
			if g.on && !g.next && !m.Out(now-t.since > patient) {
				return now + again // packets are in flight
			}
		}
	}
	t.change()
	if t.look = now + pause; now-t.since > pause {
		t.end = now + Turn // a slow switch leaves nothing of its turn
	}
	t.out = false
	return now
}

// change ends a switch, after those that leave the card have left it.
func (t *Turns) change() {
	for _, g := range t.groups {
		if g.on = g.next; !g.on {
			continue
		}
		for _, m := range g.members {
			m.In()
		}
		g.moved = g.count()
	}
}

// advance begins the next turn when it is time to, and reports whether it did.
func (t *Turns) advance(now int64) bool {
	if now < t.end {
		return false
	}
	k, end := t.turn+1, now+Turn
	if t.clock != nil {
		k, end = t.clock.turn(now)
	}
	same := k == t.turn && end-t.end < Turn/2 // time has slowed down
	if t.turn, t.end = k, end; same {
		return false
	}
	awake := 0
	for _, g := range t.groups {
		switch {
		case g.on:
			g.waited = min(g.waited, 0) - 1
		case g.rests:
			g.waited = 0
		default:
			g.waited = max(g.waited, 0) + 1
		}
		if !g.rests {
			awake++
		}
		g.order, g.rank = rank(uint64(classes+g.class), k), rank(uint64(g.gid), k)
		g.asked, g.stirs = g.asked && !g.on, false
	}
	slices.SortStableFunc(t.groups, func(a, b *group) int {
		if a.asked != b.asked {
			return before(a.asked)
		}
		if late := a.waited > overdue*awake; t.clock != nil && late == (b.waited > overdue*awake) && !late {
			return cmp.Or(cmp.Compare(b.order, a.order), cmp.Compare(b.rank, a.rank))
		}
		return cmp.Compare(b.waited, a.waited)
	})
	return true
}

// before returns the order of two groups; first says that the one on the left goes first.
func before(first bool) int {
	if first {
		return -1
	}
	return 1
}

// rank returns the place of a group or a class in the order of a turn: the highest is the first.
func rank(of, turn uint64) uint64 {
	x := turn>>1*0x9e3779b97f4a7c15 ^ of*0xd6e8feb86659fd93 // splitmix64, Steele 2014
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	if x ^= x >> 31; turn&1 != 0 {
		x = ^x
	}
	return x
}

// watch finds out which groups rest. Together, a group that is off the card does not begin to rest:
// in its turn it waits on the card for what others of the group send in that turn.
func (t *Turns) watch(now int64) {
	due, left, awake := now >= t.look, looks, false
	first := t.cursor % len(t.groups)
	for n := range t.groups {
		switch g := t.groups[(first+n)%len(t.groups)]; {
		case g.on && due:
			moved := g.count()
			g.stirs = g.stirs || moved != g.moved || g.waits()
			g.rests, g.moved = !g.stirs, moved
		case !g.on && !g.asked && (g.rests || t.clock == nil) && left > 0:
			left -= len(g.members)
			g.stirs = g.waits()
			g.rests = !g.stirs
			if left <= 0 {
				t.cursor = first + n + 1
			}
		}
	}
	for _, g := range t.groups {
		awake = awake || !g.rests
	}
	if due {
		t.look = now + pause
	}
	if !awake || t.clock == nil {
		t.look = max(t.look, t.end)
	}
}

// choose marks the groups that are on the card next, and reports whether one of them is not on it
// yet.
func (t *Turns) choose(begins bool) (some bool) {
	room := t.room
	pick := func(which func(*group) bool) {
		for _, g := range t.groups {
			if room > 0 && !g.next && which(g) {
				g.next = true
				some = some || !g.on
				room--
			}
		}
	}
	for _, g := range t.groups {
		g.next = false
	}
	if t.clock == nil && !begins {
		pick(func(g *group) bool { return g.on && !g.rests })
	}
	pick(func(g *group) bool { return !g.rests })
	pick(func(g *group) bool { return g.on })
	pick(func(*group) bool { return true })
	return some
}

// waits reports whether a context of the group has something to do on the card.
func (g *group) waits() bool { return slices.ContainsFunc(g.members, Member.Waits) }

func (g *group) count() (n uint64) {
	for _, m := range g.members {
		n += m.Moved()
	}
	return n
}
