package turns

// This file tests which groups are on a card, with contexts that are only counted.

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// member is a context that is on the card or not, and busy or idle.
type member struct {
	off, idle bool
	moved     uint64
	flying    int // how often Out has to wait
}

func (m *member) Out(unacknowledged bool) bool {
	if m.flying > 0 && !unacknowledged {
		m.flying--
		return false
	}
	m.off = true
	return true
}

func (m *member) In()         { m.off = false }
func (m *member) Waits() bool { return !m.idle && m.off }

func (m *member) Moved() uint64 {
	if !m.off && !m.idle {
		m.moved++
	}
	return m.moved
}

// card has one member of each group.
type card struct {
	*Turns
	members map[uint16]*member
	now     int64
}

func newCard(room int, clock *Clock, gids ...uint16) *card {
	c := &card{Turns: New(room, clock), members: map[uint16]*member{}, now: 1}
	for _, gid := range gids {
		c.members[gid] = &member{}
		c.Enter(gid, 2, c.members[gid])
	}
	return c
}

// run lets time pass, and calls see after every step.
func (c *card) run(d int64, see func()) {
	for end := c.now + d; c.now < end; {
		next := c.Step(c.now)
		if see != nil {
			see()
		}
		c.now = min(max(next, c.now+1000), end)
	}
}

// on returns the groups that are on the card, in order.
func (c *card) on() (gids []uint16) {
	for gid, m := range c.members {
		if !m.off {
			gids = append(gids, gid)
		}
	}
	slices.Sort(gids)
	return gids
}

// counted lets turns pass and counts those that each group was on the card in.
func (c *card) counted(turns int) map[uint16]int {
	n := map[uint16]int{}
	for range turns {
		c.run(Turn/2, nil)
		for _, gid := range c.on() {
			n[gid]++
		}
		c.run(Turn/2, nil)
	}
	return n
}

// Rule: hosts with the same groups and the same time have the same ones on their cards, however
// they have come to have these groups, and whichever these are.
func TestSameChoice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gids := rapid.SliceOfNDistinct(rapid.Uint16Range(1, 2047), 2, 12, rapid.ID[uint16]).Draw(t, "groups")
		room := rapid.IntRange(1, len(gids)-1).Draw(t, "room")
		a := newCard(room, NewClock(0, 0), gids...)
		other := slices.Clone(gids)
		slices.Reverse(other)
		b := newCard(room, NewClock(0, 0), other...)
		same := 0
		for range 200 {
			a.run(Turn, nil)
			b.run(Turn, nil)
			if slices.Equal(a.on(), b.on()) {
				same++
			}
		}
		// A group that has waited for long goes first where it has.
		if same < 190 {
			t.Fatalf("the same groups in %d of 200 turns", same)
		}
	})
}

// Rule: where hosts have different groups, the group that goes first among all of them is on the
// card of every host that has it.
func TestFirstIsEverywhere(t *testing.T) {
	all := []uint16{1, 2, 3, 4, 5, 6}
	a, b := newCard(1, NewClock(0, 0), all[:4]...), newCard(1, NewClock(0, 0), all[2:]...)
	same, most := 0, 0
	for range 400 {
		a.run(Turn, nil)
		b.run(Turn, nil)
		first := slices.MaxFunc(all, func(x, y uint16) int {
			if rank(uint64(x), a.turn) < rank(uint64(y), a.turn) {
				return -1
			}
			return 1
		})
		if first == 3 || first == 4 {
			most++
			if slices.Equal(a.on(), []uint16{first}) && slices.Equal(b.on(), []uint16{first}) {
				same++
			}
		}
	}
	if most < 80 || same < most*9/10 {
		t.Errorf("in %d of %d turns", same, most)
	}
}

// Rule: groups that are awake have the same share, alone to the turn, together over many turns, and
// two groups every other one.
func TestFairShares(t *testing.T) {
	for _, groups := range []int{2, 3, 7, 20} {
		for _, together := range []bool{false, true} {
			var gids []uint16
			for i := range groups {
				gids = append(gids, uint16(100+i*i))
			}
			var clock *Clock
			if together {
				clock = NewClock(0, 0)
			}
			const turns = 4000
			fair := turns / groups
			least, most := fair-1, fair+1
			if together && groups > 2 {
				least, most = fair*3/4, fair*5/4
			}
			n := newCard(1, clock, gids...).counted(turns)
			for _, gid := range gids {
				if n[gid] < least || n[gid] > most {
					t.Errorf("together %v: of %d groups one has %d of %d turns", together, groups, n[gid], turns)
				}
			}
		}
	}
}

// Rule: a group that does nothing gives its turns to the others, and has its own again soon after
// it begins. With all idle nothing is switched.
func TestIdleGroups(t *testing.T) {
	for _, clock := range []*Clock{nil, NewClock(0, 0)} {
		c := newCard(1, clock, 1, 2, 3)
		c.members[1].idle, c.members[2].idle = true, true
		c.run(10*Turn, nil)
		if n := c.counted(300); n[3] < 299 {
			t.Errorf("beside idle groups: %v of 300 turns", n)
		}
		c.members[1].idle = false
		c.run(10*Turn, nil)
		if n := c.counted(300); n[1] < 149 || n[3] < 149 {
			t.Errorf("after one has begun, alone %v: %v of 300 turns", clock == nil, n)
		}
		c.members[1].idle, c.members[3].idle = true, true
		c.run(10*Turn, nil)
		on := c.on()
		c.run(100*Turn, func() {
			if !slices.Equal(c.on(), on) {
				t.Fatal("groups are switched that do nothing")
			}
		})
	}
}

// Rule: a group that has moved packets in its turn keeps it to the end, also if it has none to move
// for a while: what it waits for may be on the way.
func TestStirringGroupKeepsItsTurn(t *testing.T) {
	for _, clock := range []*Clock{nil, NewClock(0, 0)} {
		c := newCard(1, clock, 1, 2)
		c.run(10*Turn, nil)
		for turn := range 20 {
			c.run(c.end-c.now+Turn*3/10, nil) // into the next turn
			on := c.on()
			c.members[on[0]].idle = true
			c.run(c.end-c.now-Turn/10, func() {
				if now := c.on(); !slices.Equal(now, on) {
					t.Fatalf("turn %d of group %d: %v is on the card, alone %v", turn, on[0], now, clock == nil)
				}
			})
			c.members[on[0]].idle = false
		}
	}
}

// Rule: whatever another card tells about the time, no group waits longer than its bound, no turn
// is much shorter or longer, and no group has less than half of its share.
func TestLiar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gids := rapid.SliceOfNDistinct(rapid.Uint16Range(1, 2047), 2, 8, rapid.ID[uint16]).Draw(t, "groups")
		clock := NewClock(5, 0)
		c := newCard(1, clock, gids...)
		seen := map[uint16]int64{}
		had := map[uint16]int64{}
		end, began := c.end, int64(0)
		const turns = 1500
		for range turns {
			for range rapid.IntRange(0, 2).Draw(t, "lies") {
				told := rapid.OneOf(rapid.Uint64(), rapid.Custom(func(t *rapid.T) uint64 {
					return uint64(c.now) + clock.offset + uint64(rapid.Int64Range(-Turn, Turn).Draw(t, "by"))
				})).Draw(t, "told")
				clock.Heard(c.now, rapid.Uint16Range(0, 8).Draw(t, "card"), told)
			}
			was := c.now
			c.run(Turn, func() {
				if c.end > end+Turn/2 {
					if took := c.now - began; began > 0 && (took < Turn*8/10 || took > Turn*12/10) {
						t.Fatalf("a turn took %d us", took/1000)
					}
					began = c.now
				}
				end = c.end
				for _, gid := range c.on() {
					had[gid] += c.now - was
					seen[gid] = c.now
				}
				was = c.now
				for _, gid := range gids {
					if wait := c.now - seen[gid]; wait > (2*overdue+1)*int64(len(gids))*Turn*12/10 {
						t.Fatalf("group %d of %d has waited for %d ms", gid, len(gids), wait/1_000_000)
					}
				}
			})
		}
		for _, gid := range gids {
			if had[gid] < turns*Turn/int64(2*len(gids)) {
				t.Fatalf("group %d of %d had %d of %d ms", gid, len(gids), had[gid]/1_000_000, turns*Turn/1_000_000)
			}
		}
	})
}

// Rule: there is no run of a thousand turns, to which a liar could have the number jump, in which a
// group is the first less than half as often as others.
func TestChosenNumbers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	const run, groups = uint64(jumpGap / Turn), 8
	for range 3000 {
		first, k := 0, random.Uint64()
		for turn := k; turn != k+run; turn++ {
			first++
			for gid := range uint16(groups - 1) {
				if rank(uint64(gid+2), turn) > rank(1, turn) {
					first--
					break
				}
			}
		}
		if first < int(run)/groups/2 {
			t.Fatalf("from turn %d on a group is the first %d times in %d turns", k, first, run)
		}
	}
}

// Rule: groups on many hosts, on some and on few have the same part of the turns, and those of one
// class share its part.
func TestClassesShare(t *testing.T) {
	c := newCard(1, NewClock(0, 0))
	hosts := map[uint16]int{1: 16, 2: 4, 3: 1, 4: 1, 5: 1}
	for gid := uint16(1); gid <= 5; gid++ {
		c.members[gid] = &member{}
		c.Enter(gid, hosts[gid], c.members[gid])
	}
	const turns = 900
	for gid, n := range c.counted(turns) {
		part := turns / 3
		if hosts[gid] == 1 {
			part /= 3
		}
		if n < part*2/3 || n > part*4/3 {
			t.Errorf("the group %d on %d hosts has %d of %d turns, want about %d", gid, hosts[gid], n, turns, part)
		}
	}
}

// Rule: a switch waits for packets in flight, but not for ever, and a slow one does not use up the
// turn that it begins.
func TestSlowSwitch(t *testing.T) {
	for _, clock := range []*Clock{nil, NewClock(0, 0)} {
		c := newCard(1, clock, 1, 2)
		c.run(Turn/2, nil)
		on := c.on()[0]
		c.members[on].flying = 1 << 40
		var began, ended int64
		c.run(40*Turn, func() {
			switch {
			case began == 0 && c.members[on].off:
				began = c.now
			case began > 0 && ended == 0 && !c.members[on].off:
				ended = c.now
			}
		})
		if began < patient || began > patient+4*Turn || ended-began < Turn {
			t.Errorf("switched at %d us, and back at %d us", began/1000, ended/1000)
		}
	}
}

// Rule: while a switch waits for packets in flight it is looked at again soon, and not all the
// while.
func TestWaitingSwitchRests(t *testing.T) {
	c := newCard(1, nil, 1, 2)
	c.run(Turn/2, nil)
	c.members[c.on()[0]].flying = 1 << 40
	waited := 0
	for end := c.now + 2*Turn; c.now < end; {
		next := c.Step(c.now)
		if c.out {
			if waited++; next <= c.now || next > c.now+Turn/100 {
				t.Fatalf("it is looked at again after %d us", (next-c.now)/1000)
			}
		}
		c.now = max(next, c.now+1)
	}
	if waited == 0 {
		t.Error("no switch has waited")
	}
}

// Rule: a switch goes on when groups end in the middle of it, also the last one. The room that they
// leave is taken at once.
func TestGroupsEndWhileTheySwitch(t *testing.T) {
	c := newCard(1, nil, 1, 2, 3)
	for !c.out {
		c.members[1].flying = 1 << 40
		c.run(Turn/100, nil)
	}
	for gid := range uint16(2) {
		c.Leave(c.members[gid+1])
		delete(c.members, gid+1)
	}
	c.run(Turn/10, nil)
	if on := c.on(); !slices.Equal(on, []uint16{3}) {
		t.Errorf("on the card: %v", on)
	}
	c.Leave(c.members[3])
	if next := c.Step(c.now); next != Never || c.out {
		t.Errorf("without a group: next step at %d, switching %v", next, c.out)
	}
}

// Rule: the group that an administrator wants on the card is on it at once, unless it has ended.
func TestNext(t *testing.T) {
	for _, clock := range []*Clock{nil, NewClock(0, 0)} {
		c := newCard(1, clock, 1, 2, 3)
		for i := range 50 {
			for _, m := range c.members {
				m.idle = i%2 > 0
			}
			c.run(Turn*7/10, nil)
			gid := uint16(1)
			for gid = range uint16(3) {
				if c.members[gid+1].off {
					break
				}
			}
			if !c.Next(gid + 1) {
				t.Fatal("a group is not there")
			}
			c.run(Turn/100, nil)
			if on := fmt.Sprint(c.on()); on != fmt.Sprintf("[%d]", gid+1) {
				t.Errorf("asked for %d, on the card: %s", gid+1, on)
			}
		}
		if c.Next(9) {
			t.Error("a group that is not here can have a turn")
		}
	}
}

// Rule: contexts that are many are looked at a part at a time, and none is forgotten.
func TestManyContexts(t *testing.T) {
	c := newCard(1, NewClock(0, 0), 1)
	for gid := range uint16(20) {
		for range 300 {
			c.Enter(gid+2, 2, &member{idle: true})
		}
		c.members[gid+2] = &member{idle: true}
		c.Enter(gid+2, 2, c.members[gid+2])
	}
	c.run(100*Turn, nil) // they begin to rest
	for gid := range uint16(20) {
		c.members[gid+2].idle = false
		c.run(3*20*Turn, nil)
		if n := c.counted(40); n[gid+2] < 19 {
			t.Errorf("group %d is on the card in %d of 40 turns", gid+2, n[gid+2])
		}
		c.members[gid+2].idle = true
	}
}
