package scoreboard

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// theExample is the group of figure 3.20: two units of four stages, which make 8 entries.
func theExample(t testing.TB, p Policy) *Group {
	t.Helper()
	g, err := New(Config{Units: 2, Stages: 4, Queue: 64, Policy: p})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// of returns a request of a context to the card of the same number.
func of(context uint16, serial uint32) Request {
	return Request{Key{Context: context, Destination: context, Type: Put}, serial}
}

// offer puts requests of contexts into the issue queue, numbered in order.
func offer(t testing.TB, g *Group, contexts ...uint16) {
	t.Helper()
	for i, c := range contexts {
		if !g.Offer(of(c, uint32(i))) {
			t.Fatal("the issue queue is full")
		}
	}
}

// run carries out slots in which the receivers of all contexts but one take everything. It returns
// the serials in the order in which they left.
func run(g *Group, slots int, blocked uint16) (left []uint32) {
	for range slots {
		g.Slot(func(r Request) bool {
			if r.Context == blocked {
				return false
			}
			left = append(left, r.Serial)
			return true
		})
	}
	return left
}

const nobody = 0xffff

// Rule (3.2.6): the key is inserted when work is dispatched, advances with each stage, and is
// removed after its end. A unit of four stages holds a request for four slots, and four requests.
func TestStages(t *testing.T) {
	g, err := New(Config{Units: 1, Stages: 4, Queue: 64, Policy: Single()})
	if err != nil {
		t.Fatal(err)
	}
	offer(t, g, 1, 2, 3, 4, 5)
	for slot, want := range []int{1, 2, 3, 4, 4, 3, 2, 1, 0} {
		if left := run(g, 1, nobody); len(left) != min(1, max(0, slot-3)) || g.Busy() != want {
			t.Errorf("slot %d: %d requests in the unit, want %d; left: %v", slot, g.Busy(), want, left)
		}
	}
}

// Rule (3.2.6, figure 3.20): a request with a key that is in the scoreboard goes to the unit that
// has it, before the other is complete. A request with another key goes to any unit.
func TestSameKeySameUnit(t *testing.T) {
	g := theExample(t, Single())
	offer(t, g, 1, 1, 2, 2)
	run(g, 4, nobody)
	for i := range g.units {
		for _, s := range g.units[i].stages {
			if s.busy && int(s.Context) != i+1 {
				t.Errorf("unit %d has a request of context %d", i, s.Context)
			}
		}
	}
}

// Rule (3.2.6): with single issue a blocked request at the head blocks those behind it. With
// look-ahead and multi-issue one blocked entry does not, but as many as are looked at do. Wait
// queues take the blocked requests out of the issue queue.
func TestHeadOfLine(t *testing.T) {
	// Context 1 fills its unit with four requests, and has more behind them. The receivers of the
	// others take what comes.
	ones := func(n int) (all []uint16) {
		for range n {
			all = append(all, 1)
		}
		return all
	}
	for _, c := range []struct {
		name    string
		policy  Policy
		blocked int // requests of context 1 in front of context 2's
		passes  bool
	}{
		{"single", Single(), 4, true}, {"single", Single(), 5, false},
		{"look-ahead", LookAhead(2), 5, true}, {"look-ahead", LookAhead(2), 6, false},
		{"multi", Multi(2), 5, true}, {"multi", Multi(2), 6, false},
		{"wait queues", MultiWait(2, 4), 9, true}, {"wait queues", MultiWait(2, 4), 10, false},
		{"single with wait queues", MultiWait(1, 4), 8, true}, {"single with wait queues", MultiWait(1, 4), 9, false},
	} {
		g := theExample(t, c.policy)
		offer(t, g, append(ones(c.blocked), 2)...)
		if left := run(g, 40, 1); (len(left) == 1) != c.passes {
			t.Errorf("%s, %d blocked in front: %v left; want context 2 to pass: %v", c.name, c.blocked, left, c.passes)
		}
	}
}

// Rule (3.2.6): a request may not pass one with the same key that waits in the issue queue, though
// a unit has room.
func TestNoPassingInTheQueue(t *testing.T) {
	g := theExample(t, Multi(4))
	offer(t, g, 1, 1, 1, 1, 1, 1, 2)
	run(g, 20, 1)
	if g.Queued() != 2 {
		t.Errorf("%d requests in the issue queue, want the 2 of context 1", g.Queued())
	}
	if left := run(g, 20, nobody); fmt.Sprint(left) != "[0 1 2 3 4 5]" {
		t.Errorf("left in the order %v", left)
	}
}

// Rule (3.2.6): single issue and look-ahead issue one request a slot, multi-issue several.
func TestIssuesInASlot(t *testing.T) {
	for want, p := range map[uint64][]Policy{1: {Single(), LookAhead(4)}, 2: {Multi(2), MultiWait(2, 4)}} {
		for _, p := range p {
			g := theExample(t, p)
			offer(t, g, 1, 2, 3, 4)
			if run(g, 1, nobody); g.Issued() != want {
				t.Errorf("%+v issued %d requests, want %d", p, g.Issued(), want)
			}
		}
	}
}

// Rule (3.2.5, 3.4.1): any unit serves any context, so one context with several keys fills all.
func TestOneContextFillsAllUnits(t *testing.T) {
	g := theExample(t, Multi(2))
	for i := range uint16(8) {
		g.Offer(Request{Key{Context: 1, Destination: i}, uint32(i)})
	}
	if run(g, 4, 1); g.Busy() != 8 {
		t.Errorf("%d requests in 2 units of 4 stages", g.Busy())
	}
}

// Rule: issue queue and wait queues are bounded, and what they do not take stays with the caller.
func TestBounds(t *testing.T) {
	g, err := New(Config{Units: 1, Stages: 2, Queue: 3, Policy: MultiWait(2, 2)})
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	for i := range 100 {
		if g.Offer(of(1, uint32(i))) {
			taken++
		}
		run(g, 1, 1)
	}
	if taken != 2+2+3 || g.Busy() != 4 || g.Queued() != 3 || g.Room() != 0 {
		t.Errorf("%d taken, %d in the unit, %d queued", taken, g.Busy(), g.Queued())
	}
	ok := Config{Units: 1, Stages: 1, Queue: 1, Policy: Single()}
	for _, spoil := range []func(*Config){
		func(c *Config) { c.Units = 0 }, func(c *Config) { c.Units = MaxUnits + 1 },
		func(c *Config) { c.Stages = 0 }, func(c *Config) { c.Stages = MaxStages + 1 },
		func(c *Config) { c.Queue = 0 }, func(c *Config) { c.Queue = MaxQueue + 1 },
		func(c *Config) { c.Policy = Policy{} }, func(c *Config) { c.Policy = Policy{Issues: 2, Window: 1} },
		func(c *Config) { c.Policy = LookAhead(MaxWindow + 1) }, func(c *Config) { c.Policy = MultiWait(1, -1) },
		func(c *Config) { c.Policy = MultiWait(1, MaxWait+1) },
	} {
		c := ok
		if spoil(&c); c == ok {
			t.Fatal("nothing is wrong with it")
		}
		if _, err := New(c); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v", c, err)
		}
		if _, err := NewCard([Kinds]Config{ok, ok, c}); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Rule (2.3.1): Send and Put go from requester to completer, Get and atomics by a responder.
func TestWays(t *testing.T) {
	for typ, want := range map[Type]string{Send: "requester completer", Put: "requester completer",
		Get: "requester responder completer", Atomic: "requester responder completer"} {
		got := Requester.String()
		for k, more := typ.Next(Requester); more; k, more = typ.Next(k) {
			got += " " + k.String()
		}
		if got != want {
			t.Errorf("type %d goes %s, want %s", typ, got, want)
		}
	}
}

// policies are drawn for properties.
func policies(t *rapid.T) Policy {
	width := rapid.IntRange(1, 6).Draw(t, "width")
	all := []Policy{Single(), LookAhead(width), Multi(width), MultiWait(width, rapid.IntRange(0, 5).Draw(t, "wait"))}
	return all[rapid.IntRange(0, len(all)-1).Draw(t, "policy")]
}

// Rule (3.2.6), under all policies: each request leaves once, requests with equal keys leave in the
// order in which they were offered, and a key is never in two units. Receivers refuse at random.
// When they all take what comes, everything leaves.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Config{Units: rapid.IntRange(1, 4).Draw(t, "units"), Stages: rapid.IntRange(1, 5).Draw(t, "stages"),
			Queue: rapid.IntRange(1, 20).Draw(t, "queue"), Policy: policies(t)}
		g, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		var offered uint32
		last := map[Key]uint32{}
		left := map[uint32]bool{}
		slot := func(refuse map[uint16]bool) {
			g.Slot(func(r Request) bool {
				if refuse[r.Destination] {
					return false
				}
				if left[r.Serial] || last[r.Key] > r.Serial {
					t.Fatalf("%+v left after %d", r, last[r.Key])
				}
				left[r.Serial], last[r.Key] = true, r.Serial
				return true
			})
			in := map[Key]int{}
			for i := range g.units {
				u := &g.units[i]
				held := u.wait.n
				note := func(k Key) {
					if at, ok := in[k]; ok && at != i {
						t.Fatalf("%+v is in units %d and %d", k, at, i)
					}
					in[k] = i
				}
				for _, s := range u.stages {
					if s.busy {
						held++
						note(s.Key)
					}
				}
				for j := range u.wait.n {
					note(u.wait.at(j).Key)
				}
				if held != u.n {
					t.Fatalf("unit %d counts %d requests and has %d", i, u.n, held)
				}
			}
			if int(offered) != len(left)+g.Queued()+g.Busy() {
				t.Fatalf("%d offered, %d left, %d queued, %d in units", offered, len(left), g.Queued(), g.Busy())
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "slots") {
			for range rapid.IntRange(0, 4).Draw(t, "offers") {
				k := Key{uint16(rapid.IntRange(0, 3).Draw(t, "context")), uint16(rapid.IntRange(0, 2).Draw(t, "to")),
					Type(rapid.IntRange(0, 3).Draw(t, "type"))}
				if room := g.Room(); g.Offer(Request{k, offered + 1}) {
					offered++
				} else if room != 0 {
					t.Fatal("it is refused, though there is room")
				}
			}
			slot(map[uint16]bool{0: rapid.Bool().Draw(t, "refuses"), 1: rapid.Bool().Draw(t, "refuses")})
		}
		for range (int(offered) + 1) * (c.Stages + 1) {
			slot(nil)
		}
		if len(left) != int(offered) {
			t.Fatalf("%d of %d left", len(left), offered)
		}
	})
}

// Rule: two cards, joined by queues of their bounds, process every request once, and requests with
// equal keys in their order. A full queue holds the packet in the unit that sends it.
func TestTwoCards(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var configs [Kinds]Config
		for k := range configs {
			configs[k] = Config{Units: 2, Stages: rapid.IntRange(1, 4).Draw(t, "stages"),
				Queue: rapid.IntRange(1, 4).Draw(t, "queue"), Policy: policies(t)}
		}
		var cards [2]*Card
		for i := range cards {
			var err error
			if cards[i], err = NewCard(configs); err != nil {
				t.Fatal(err)
			}
		}
		last, ended := map[Key]uint32{}, uint32(0)
		slot := func() {
			for i, c := range cards {
				c.Slot(func(k Kind, r Request) bool {
					if next, more := r.Type.Next(k); more {
						return cards[1-i].Group(next).Offer(r)
					}
					if last[r.Key] >= r.Serial || (i == 0) != r.Type.ThreeStaged() {
						t.Fatalf("%+v ended at card %d, after %d", r, i, last[r.Key])
					}
					last[r.Key] = r.Serial
					ended++
					return true
				})
			}
		}
		var offered uint32
		for range rapid.IntRange(1, 40).Draw(t, "slots") {
			k := Key{uint16(rapid.IntRange(0, 2).Draw(t, "context")), 1, Type(rapid.IntRange(0, 3).Draw(t, "type"))}
			if cards[0].Group(Requester).Offer(Request{k, offered + 1}) {
				offered++
			}
			slot()
		}
		for range 40 * int(offered+1) {
			slot()
		}
		if ended != offered || cards[0].Busy()+cards[1].Busy() != 0 {
			t.Fatalf("%d of %d ended, %d and %d are left", ended, offered, cards[0].Busy(), cards[1].Busy())
		}
	})
}

// Rule: nothing allocates once a card is made.
func TestAllocations(t *testing.T) {
	c := Config{Units: 2, Stages: 4, Queue: 8, Policy: MultiWait(2, 4)}
	card, err := NewCard([Kinds]Config{c, c, c})
	if err != nil {
		t.Fatal(err)
	}
	n := uint32(0)
	if got := testing.AllocsPerRun(100, func() {
		n++
		card.Group(Requester).Offer(of(uint16(n%5), n))
		card.Slot(func(Kind, Request) bool { return true })
	}); got != 0 {
		t.Errorf("a slot allocates %v times", got)
	}
}
