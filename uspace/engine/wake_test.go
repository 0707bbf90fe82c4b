package engine_test

// This file holds the rules of sleeping contexts and what idle ones cost.

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// crowd attaches n idle contexts of other groups to a card of a couple and lets them
// fall asleep.
func (c *couple) crowd(t testing.TB, n int) (proc []*funi.Interface, ctx []*engine.Context) {
	t.Helper()
	for i := range n {
		p, x := c.one(t, uint16(100+i%1000), uint16(i/1000))
		proc, ctx = append(proc, p), append(ctx, x)
	}
	for range 1000 {
		c.step()
	}
	return proc, ctx
}

// one attaches an idle context to a card of a couple.
func (c *couple) one(t testing.TB, gid, node uint16) (*funi.Interface, *engine.Context) {
	t.Helper()
	mem, err := funi.NewMemory(4)
	if err != nil {
		t.Fatal(err)
	}
	p, err := funi.Initialize(mem)
	if err != nil {
		t.Fatal(err)
	}
	x, err := c.cards[0].Attach(mem, gid, node, jobTag)
	if err != nil {
		t.Fatal(err)
	}
	return p, x
}

// Rule: one of many contexts that has been quiet sleeps, and wakes by what its process
// does in the next step, by what arrives, and by what its owner does (wake.go).
func TestSleepingContextsWake(t *testing.T) {
	c := newCouple(t, 64)
	proc, ctx := c.crowd(t, 500)
	if n := c.cards[0].Awake(); n != 0 {
		t.Fatalf("%d contexts are awake", n)
	}
	for i, p := range proc {
		put(p, funi.Request, 9, uint32(i)) // no such route: it comes back
		c.step()
		if _, ok := p.NextReturn(); !ok {
			t.Fatalf("context %d was not seen in the next step", i)
		}
	}
	put(c.proc[1], funi.Request, 0, 1)
	for range 1000 {
		c.step()
	}
	if c.proc[0].Receive(funi.Request) == nil {
		t.Error("what arrived for a sleeper is not in its queue")
	}
	if err := ctx[3].Store(funi.Control, funi.CTXM); err != nil {
		t.Fatal(err)
	}
	for i := 5; i < 500; i += 7 { // places of those that leave are taken by others
		c.cards[0].Detach(ctx[i])
	}
	for range 1000 {
		c.step()
	}
	for i, p := range proc {
		put(p, funi.Request, 9, uint32(i))
		c.step()
		if _, ok := p.NextReturn(); ok != (i != 3 && (i < 5 || (i-5)%7 != 0)) {
			t.Fatalf("context %d: a return is there: %v", i, ok)
		}
	}
}

// Rule: what a user does to the doorbells that he can reach delays no other user. He may take all
// rings away at every step, or ring for everybody. With 512 users whose contexts sleep a ring is
// seen after 512/8 + 1 steps at the latest, whichever process rings (Card.Doorbells).
func TestBellsOfUsers(t *testing.T) {
	const users, most = 512, 512/8 + 1
	c := newCouple(t, 64)
	proc, ctx := c.crowd(t, users)
	pages := make([]*funi.Doorbells, users)
	for i, x := range ctx {
		pages[i] = new(funi.Doorbells)
		c.cards[0].Account(x, uint32(i))
		c.cards[0].Doorbells(x, pages[i], nil)
	}
	for range 1000 {
		c.step()
	}
	if n := c.cards[0].Awake(); n != 0 {
		t.Fatalf("%d contexts are awake", n)
	}
	attacks := map[string]func(*funi.Doorbells){
		"none":  func(*funi.Doorbells) {},
		"takes": func(d *funi.Doorbells) { *d = funi.Doorbells{} },
		"rings": func(d *funi.Doorbells) {
			d.Summary = ^uint64(0)
			for i := range d.Bells {
				d.Bells[i] = ^uint64(0)
			}
		},
	}
	for name, attack := range attacks {
		for victim := 1; victim < users; victim += 5 {
			for range 1000 {
				if c.step(); c.cards[0].Awake() == 0 {
					break
				}
			}
			put(proc[victim], funi.Request, 9, 1) // no such route: it comes back
			steps, seen := 0, false
			for ; !seen && steps <= most; steps++ {
				attack(pages[0])
				c.step()
				_, seen = proc[victim].NextReturn()
			}
			if !seen {
				t.Fatalf("attack %q: after %d steps the ring of user %d was not seen", name, steps, victim)
			}
		}
	}
	if n := c.cards[0].Awake(); n > users/4 {
		t.Errorf("%d contexts were woken by rings of one user who has one", n)
	}
	for _, x := range ctx {
		c.cards[0].Detach(x)
	}
	c.roundTrip()
}

// Rule: a ring is seen in the next step where the contexts that sleep have at most eight pages,
// however many contexts there are. Here they have seven pages and the card's own. A context that is
// switched out and in rings where it did.
func TestBellsOfFewUsers(t *testing.T) {
	c := newCouple(t, 64)
	proc, ctx := c.crowd(t, 400)
	var pages [7]funi.Doorbells
	for i, x := range ctx {
		c.cards[0].Doorbells(x, &pages[i%len(pages)], nil)
	}
	for range 1000 {
		c.step()
	}
	for i := 0; i < len(ctx); i += 7 {
		saved, err := c.cards[0].SwitchOut(ctx[i], true)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.cards[0].SwitchIn(saved); err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 {
			c.cards[0].Detach(ctx[i])
		}
	}
	for range 1000 {
		c.step()
	}
	if n := c.cards[0].Awake(); n != 0 {
		t.Fatalf("%d contexts are awake", n)
	}
	for i, p := range proc {
		put(p, funi.Request, 9, uint32(i))
		c.step()
		if _, ok := p.NextReturn(); ok != (i%21 != 0) {
			t.Fatalf("context %d: a return is there: %v", i, ok)
		}
	}
}

// Rule: a process that takes rings away from others on its page delays them for a bounded number of
// steps, and one that rings for others there, or for none, does no harm (funi.Doorbells).
func TestStolenRings(t *testing.T) {
	bells := new(funi.Doorbells)
	c := newCouple(t, 64, func(cfg *engine.Config) { cfg.Doorbells = bells })
	proc, _ := c.crowd(t, 100)
	for i, p := range proc {
		put(p, funi.Request, 9, uint32(i))
		*bells = funi.Doorbells{}
	}
	for range 16 * 102 {
		c.step()
	}
	for i, p := range proc {
		if _, ok := p.NextReturn(); !ok {
			t.Fatalf("context %d was never seen", i)
		}
	}
	bells.Summary = ^uint64(0)
	for i := range bells.Bells {
		bells.Bells[i] = ^uint64(0)
	}
	c.step()
	c.roundTrip()
}

// Rule: few contexts never sleep, so their processes never ring.
func TestFewStayAwake(t *testing.T) {
	c := newCouple(t, 64)
	c.crowd(t, 7)
	if n := c.cards[0].Awake(); n != 8 {
		t.Errorf("%d of 8 contexts are awake", n)
	}
}

// Rule: a card has at most funi.MaxContexts contexts; one more is refused.
func TestMaxContexts(t *testing.T) {
	c := newCouple(t, 4)
	_, ctx := c.crowd(t, funi.MaxContexts-1)
	mem, _ := funi.NewMemory(4)
	if _, err := funi.Initialize(mem); err != nil {
		t.Fatal(err)
	}
	if _, err := c.cards[0].Attach(mem, 7, 77, jobTag); !errors.Is(err, engine.ErrContexts) {
		t.Fatalf("%v, want ErrContexts", err)
	}
	c.cards[0].Detach(ctx[1000])
	if _, err := c.cards[0].Attach(mem, 7, 77, jobTag); err != nil {
		t.Fatal(err)
	}
	c.roundTrip()
}

// BenchmarkIdleContexts is the time of a step with nothing to do, and of a round trip,
// with a number of idle contexts attached to one of the two cards.
func BenchmarkIdleContexts(b *testing.B) {
	for _, n := range []int{1, 16, 256, 2048} {
		c := newCouple(b, 1024)
		c.crowd(b, n-1)
		b.Run(fmt.Sprintf("step/%d", n), func(b *testing.B) {
			now := c.now
			for b.Loop() {
				now++
				c.cards[0].Step(now)
			}
			c.now = now
		})
		b.Run(fmt.Sprintf("round trip/%d", n), func(b *testing.B) {
			for b.Loop() {
				c.roundTrip()
			}
		})
		c.now += int64(time.Second)
	}
}

// Rule: a context without a bell in the page has one behind it, of two levels, and is woken in the
// next step like any other (funi.FarDoorbells). Where there are none behind the page it stays
// awake.
func TestFarBells(t *testing.T) {
	c := newCouple(t, 64)
	proc, ctx := c.crowd(t, funi.NearBells+300)
	if n := c.cards[0].Awake(); n != 0 {
		t.Fatalf("%d contexts are awake", n)
	}
	for i := funi.NearBells - 10; i < len(proc); i++ {
		put(proc[i], funi.Request, 9, uint32(i)) // no such route: it comes back
		c.step()
		if _, ok := proc[i].NextReturn(); !ok {
			t.Fatalf("context %d was not seen in the next step", ctx[i].Bell())
		}
	}
	c.cards[0].Doorbells(ctx[len(ctx)-1], new(funi.Doorbells), nil)
	for range 1000 {
		c.step()
	}
	if n := c.cards[0].Awake(); n != 1 {
		t.Errorf("%d contexts are awake, want the one that has no bell", n)
	}
}

// Rule: contexts that an owner wants far bells for get them, and leave the near ones to others
// (Card.FarBells). Far bells may come behind a page that has been without, whose contexts have near
// ones. Processes of both kinds wake their contexts in the next step.
func TestFarBellsFirst(t *testing.T) {
	c := newCouple(t, 64)
	card, page, far := c.cards[0], new(funi.Doorbells), new(funi.FarDoorbells)
	proc, ctx := c.crowd(t, 20)
	for _, x := range ctx {
		card.Doorbells(x, page, nil)
	}
	card.FarBells(true)
	for i := range uint16(70) {
		p, x := c.one(t, 50, i)
		if n := x.Bell(); n != funi.NearBells+uint32(i) {
			t.Fatalf("context %d has bell %d", i, n)
		}
		card.Doorbells(x, page, far)
		proc, ctx = append(proc, p), append(ctx, x)
	}
	card.FarBells(false)
	_, near := c.one(t, 51, 0)
	if n := near.Bell(); n >= funi.NearBells {
		t.Errorf("a context after them has bell %d", n)
	}
	card.Detach(ctx[30])
	for range 1000 {
		c.step()
	}
	if n := card.Awake(); n != 0 {
		t.Fatalf("%d contexts are awake", n)
	}
	for i, p := range proc {
		put(p, funi.Request, 9, 1) // no such route: it comes back
		c.step()
		if _, ok := p.NextReturn(); ok != (i != 30) {
			t.Fatalf("context %d: a return is there: %v", ctx[i].Bell(), ok)
		}
	}
}

// Rule: a context whose queues its process has halted, and for which nothing waits, sleeps like any
// other: it costs a step nothing, and goes on when the process stores CNTL (Context.drowsy).
func TestHaltedContextsSleep(t *testing.T) {
	c := newCouple(t, 64)
	proc, _ := c.crowd(t, 100)
	step := func() error { c.step(); return nil }
	for _, p := range proc {
		if err := p.Halt(funi.UserModes, step); err != nil {
			t.Fatal(err)
		}
	}
	for range 1000 {
		c.step()
	}
	if n := c.cards[0].Awake(); n != 0 {
		t.Fatalf("%d contexts are awake", n)
	}
	for i, p := range proc {
		p.Go(funi.UserModes)
		put(p, funi.Request, 9, 1)
		c.step()
		c.step()
		if _, ok := p.NextReturn(); !ok {
			t.Fatalf("context %d does not go on", i)
		}
	}
}

// Rule: what an account owes for work beyond its budgets is paid by the steps that go by, also
// while its contexts sleep (account.refill).
func TestDebtIsPaidByTime(t *testing.T) {
	c := newCouple(t, 64)
	proc, ctx := c.crowd(t, 20)
	c.cards[0].Owe(ctx[3], 100)
	for range 100 {
		c.step()
	}
	put(proc[3], funi.Request, 9, 1)
	c.step()
	if _, ok := proc[3].NextReturn(); !ok {
		t.Error("a debt of 100 steps was not paid by 100 steps")
	}
	c.cards[0].Owe(ctx[3], 100)
	put(proc[3], funi.Request, 9, 1)
	c.step()
	if _, ok := proc[3].NextReturn(); ok {
		t.Error("a debt of 100 steps was paid by one")
	}
}

// Rule: a step puts few contexts to sleep, at the expense of their account, and none while that
// rests. A user with a thousand contexts cannot make steps long by them (scheduler.dropsOff).
func TestFallingAsleepIsPaid(t *testing.T) {
	const contexts, most = 500, 32
	c := newCouple(t, 64)
	for i := range contexts {
		_, x := c.one(t, uint16(100+i), 0)
		c.cards[0].Account(x, 7)
	}
	falls := func() int {
		was := c.cards[0].Awake()
		c.step()
		return was - c.cards[0].Awake()
	}
	c.cards[0].Charge(c.now, 0) // forgets what attaching cost
	const own = 1               // context of the couple, of another account
	fell := 0
	for i := 0; fell <= own; i++ {
		if fell = falls(); i == 100 {
			t.Fatal("none falls asleep")
		}
	}
	c.cards[0].Charge(c.now, 20e3)
	for ends := c.now + 40e3; c.now < ends-1000; {
		if n := falls(); n > own {
			t.Fatalf("%d fell asleep in a step, and were not paid for: their account does not rest", n)
		}
	}
	for i := 0; c.cards[0].Awake() > 0; i++ {
		if n := falls(); n > most {
			t.Fatalf("%d fell asleep in a step, more than %d", n, most)
		}
		if i == 1000 {
			t.Fatalf("%d stay awake", c.cards[0].Awake())
		}
	}
}
