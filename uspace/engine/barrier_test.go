package engine_test

// This file holds the rules of barriers (barrier.go).

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// member is a process that reaches barriers.
type member struct {
	*funi.Interface
	reached, passed, failed uint32
	waits                   bool
}

// members attaches n processes that issue by triggers to the two cards of a couple in turn. They
// are the nodes of group 100, from 0 on.
func (c *couple) members(t testing.TB, n int) (all []*member) {
	t.Helper()
	routes := make([]uint32, n)
	for i := range routes {
		routes[i] = uint32(i % 2)
	}
	for _, card := range c.cards {
		if err := card.SetGroupRoutes(100, routes); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		mem, err := funi.NewMemory(16)
		if err != nil {
			t.Fatal(err)
		}
		if err := mem.AddRemote(funi.RemoteSizes{KeySlots: 1, Areas: 1, Notifications: 8}); err != nil {
			t.Fatal(err)
		}
		mem.Page.IssueByTrigger(true)
		p, err := funi.Initialize(mem)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.cards[i%2].Attach(mem, 100, uint16(i), jobTag); err != nil {
			t.Fatal(err)
		}
		all = append(all, &member{Interface: p})
	}
	return all
}

// take takes the notifications of a member, and gives them back.
func (m *member) take(t interface{ Fatalf(string, ...any) }, number uint8) {
	var n funi.Notification
	for m.NextNotification(&n) {
		switch {
		case n.Kind != funi.NoteBarrier || n.Cookie != uint32(number) || !m.waits:
			t.Fatalf("a notification %+v, of a member that waits: %v", n, m.waits)
		case n.Reason != arctic.ReasonNone:
			m.failed++
		default:
			m.passed++
		}
		m.waits = false
	}
	if _, _, answered := m.TriggerAnswer(); answered {
		m.GiveNotes()
	}
}

// Rule: whatever the order in which members reach a barrier, and how often each says so, nobody
// passes a round before all have reached it, and all pass it then (barrier.go).
func TestBarrierAtRandom(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := newCouple(t, 16)
		count := rapid.IntRange(1, 7).Draw(rt, "members")
		all := c.members(t, count)
		const number = 5
		reach := func(m *member) {
			m.take(rt, number)
			for _, _, answered := m.TriggerAnswer(); !answered; _, _, answered = m.TriggerAnswer() {
				c.step()
			}
			m.Trigger(funi.TriggerBarrier, funi.Barrier(number, count))
			for {
				c.step()
				_, s, ok := m.TriggerAnswer()
				if !ok {
					continue
				}
				if s == funi.TriggerForbidden && m.waits {
					return
				}
				if m.take(rt, number); s != funi.TriggerDone || m.waits {
					rt.Fatalf("it waits: %v, and the answer is %v", m.waits, s)
				}
				m.waits = true
				m.reached++
				return
			}
		}
		look := func() {
			least := all[0].reached
			for _, m := range all {
				least = min(least, m.reached)
			}
			for i, m := range all {
				if m.take(rt, number); m.passed > least || m.failed > 0 {
					rt.Fatalf("member %d has passed %d times and failed %d times; one has reached it %d times", i,
						m.passed, m.failed, least)
				}
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"reach": func(rt *rapid.T) { reach(all[rapid.IntRange(0, count-1).Draw(rt, "member")]) },
			"step":  func(*rapid.T) { c.step() },
			"":      func(*rapid.T) { look() },
		})
		rounds := uint32(0)
		for _, m := range all {
			rounds = max(rounds, m.reached)
		}
		for range 100 * count {
			for _, m := range all {
				if m.take(rt, number); m.reached < rounds && !m.waits {
					reach(m)
				}
			}
			c.step()
		}
		for i, m := range all {
			if m.passed != rounds {
				rt.Fatalf("member %d has passed %d times of %d", i, m.passed, rounds)
			}
		}
	})
}

// Rule: a member counts once in a round, also if its arrival comes with other numbers (design of
// virtni: a barrier is not counted twice).
func TestBarrierCountsOnce(t *testing.T) {
	c := newCouple(t, 16)
	all := c.members(t, 3)
	for id := range uint32(4) {
		o := funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteAdd, Element: arctic.Uint64,
			Fetch: true, Bytes: 8, Operands: []byte{0: 1, 4: 3, 7: 0}}, Cookie: 1<<31 | id, Silent: true}
		all[1].Reserve(funi.Request).SetOperation(0, &o)
		all[1].Commit(funi.Request)
		c.trigger(t, all[1].Interface, funi.TriggerIssue, 1)
	}
	c.trigger(t, all[0].Interface, funi.TriggerBarrier, funi.Barrier(0, 3))
	for range 50 {
		c.step()
	}
	var n funi.Notification
	if all[0].NextNotification(&n) {
		t.Fatalf("one member of three has reached it, and one four times: %+v", n)
	}
	c.trigger(t, all[2].Interface, funi.TriggerBarrier, funi.Barrier(0, 3))
	for range 50 {
		c.step()
	}
	for i, m := range all {
		want := i != 1
		if got := m.NextNotification(&n) && n.Kind == funi.NoteBarrier; got != want {
			t.Errorf("member %d is told: %v, want %v", i, got, want)
		}
	}
}

// Rule: a barrier that cannot be is refused by its own card or by the root, and takes no room
// (funi/trigger.go, TriggerBarrier).
func TestBarrierRefused(t *testing.T) {
	c := newCouple(t, 16)
	all := c.members(t, 2)
	p := all[1].Interface
	if _, s := c.trigger(t, p, funi.TriggerBarrier, 1<<24-1); s != funi.TriggerInvalid {
		t.Errorf("%d members: %v", 1<<19, s)
	}
	for range 20 {
		if _, s := c.trigger(t, p, funi.TriggerBarrier, funi.Barrier(1, 1)); s != funi.TriggerDone {
			t.Fatalf("a barrier of node 0 alone: %v", s)
		}
		for range 20 {
			c.step()
		}
		var n funi.Notification
		if !p.NextNotification(&n) || n.Kind != funi.NoteBarrier || n.Reason != arctic.ReasonRange || n.Cookie != 1 {
			t.Fatalf("node 1 at a barrier of node 0 alone: %+v", n)
		}
		p.GiveNotes()
		c.step()
		if _, s, ok := p.TriggerAnswer(); !ok || s != funi.TriggerDone {
			t.Fatalf("giving it back: %v, %v", s, ok)
		}
	}
	for i := range 8 {
		if _, s := c.trigger(t, p, funi.TriggerPointers, 0); s != funi.TriggerDone {
			t.Fatalf("pointers %d: %v", i, s)
		}
	}
	if _, s := c.trigger(t, p, funi.TriggerBarrier, funi.Barrier(2, 2)); s != funi.TriggerFull {
		t.Errorf("a barrier while the ring is full: %v", s)
	}
}
