package engine_test

// This file holds the rules of triggers and of the conditional store buffer (trigger.go,
// funi/trigger.go; Froening's thesis, sections 3.4.4 and 4.2.7).

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// triggering attaches n contexts of one account to the first card of a couple, whose processes
// issue by triggers. They are nodes of group 100, in queues of the given number of slots.
func (c *couple) triggering(t testing.TB, n, slots int) (proc []*funi.Interface, ctx []*engine.Context) {
	t.Helper()
	for i := range n {
		mem, err := funi.NewMemory(slots)
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
		x, err := c.cards[0].Attach(mem, 100, uint16(i), jobTag)
		if err != nil {
			t.Fatal(err)
		}
		proc, ctx = append(proc, p), append(ctx, x)
	}
	return proc, ctx
}

// nowhere is a node that no route leads to: what is sent there comes back once.
const nowhere = 65535

// trigger stores a trigger and returns its answer, which is there after two steps at the latest.
func (c *couple) trigger(t testing.TB, p *funi.Interface, command funi.TriggerCommand,
	n uint32) (count int, s funi.TriggerStatus) {
	t.Helper()
	p.Trigger(command, n)
	for range 100 {
		c.step()
		if count, s, ok := p.TriggerAnswer(); ok {
			return count, s
		}
	}
	t.Fatal("a trigger was not answered")
	return 0, 0
}

// returns takes all returns of a process and returns their number.
func returns(p *funi.Interface) (n int) {
	for {
		if _, ok := p.NextReturn(); !ok {
			return n
		}
		n++
	}
}

// Rule: only slots that the card has accepted in an answer are retrieved, whatever HD says, and
// each is retrieved once (table 4.3, issue).
func TestIssue(t *testing.T) {
	c := newCouple(t, 64)
	proc, ctx := c.triggering(t, 1, 64)
	p := proc[0]
	for range 40 {
		put(p, funi.Request, nowhere, 1)
	}
	page := ctx[0].Page()
	page.Store(funi.RQSQHead, 17)
	for range 10 {
		c.step()
	}
	if n := returns(p); n != 0 || p.Unissued() != 40 {
		t.Fatalf("%d slots were retrieved without a trigger, %d are not issued", n, p.Unissued())
	}
	for _, n := range []int{5, 31, 4} {
		if count, s := c.trigger(t, p, funi.TriggerIssue, uint32(n)); count != n || s != funi.TriggerDone {
			t.Fatalf("issue %d: %d, %v", n, count, s)
		}
		if c.step(); returns(p) != n {
			t.Errorf("after the issue of %d slots as many have not come back", n)
		}
	}
	if p.Unissued() != 0 || p.Unsent(funi.Request) != 0 {
		t.Errorf("%d slots are not issued, %d not given back", p.Unissued(), p.Unsent(funi.Request))
	}
}

// Rule: an answer that the process has not read when it changes its queues is not counted for the
// new ones, and a trigger that was not answered is withdrawn: each slot is issued once (Resize).
func TestResizeBetweenTriggerAndAnswer(t *testing.T) {
	for _, answered := range []bool{false, true} {
		c := newCouple(t, 64)
		proc, _ := c.triggering(t, 1, 64)
		p := proc[0]
		for range 5 {
			put(p, funi.Request, nowhere, 1)
		}
		p.Trigger(funi.TriggerIssue, 3)
		if answered {
			c.step()
		}
		if err := p.Resize(32, func() error { c.step(); return nil }); err != nil {
			t.Fatal(err)
		}
		came := returns(p)
		for range 100 {
			p.Issue()
			c.step()
			came += returns(p)
		}
		if came != 5 || p.Unissued() != 0 || p.Unsent(funi.Request) != 0 {
			t.Errorf("answered %v: %d slots were issued, want 5; %d are not issued", answered, came, p.Unissued())
		}
	}
}

// Rule: each trigger has the answer of the thesis for it (table 4.4), and a refused one does
// nothing.
func TestTriggerAnswers(t *testing.T) {
	c := newCouple(t, 64)
	proc, ctx := c.triggering(t, 2, 64)
	p := proc[0]
	answer := func(name string, command funi.TriggerCommand, n uint32, count int, want funi.TriggerStatus) {
		t.Helper()
		if got, s := c.trigger(t, p, command, n); got != count || s != want {
			t.Errorf("%s: %d, %v; want %d, %v", name, got, s, count, want)
		}
	}
	answer("issue nothing", funi.TriggerIssue, 0, 0, funi.TriggerInvalid)
	answer("issue too many", funi.TriggerIssue, 32, 0, funi.TriggerInvalid)
	for command := funi.TriggerCommand(5); command < 16; command++ {
		answer("no command", command, 1, 0, funi.TriggerInvalid)
	}
	answer("nothing to read", funi.TriggerNotesRead, 1, 0, funi.TriggerInvalid)
	for range 8 {
		answer("pointers", funi.TriggerPointers, 0, 1, funi.TriggerDone)
	}
	answer("the ring is full", funi.TriggerPointers, 0, 0, funi.TriggerFull)
	answer("more than there is", funi.TriggerNotesRead, 9, 0, funi.TriggerInvalid)
	var n funi.Notification
	for i := range uint32(9) {
		want := funi.Pointers{Notified: i}
		if i == 3 {
			answer("read", funi.TriggerNotesRead, 3, 3, funi.TriggerDone)
			answer("pointers again", funi.TriggerPointers, 0, 1, funi.TriggerDone)
		}
		if i == 8 {
			want.NotesRead = 3
		}
		if !p.NextNotification(&n) || n.Kind != funi.NotePointers || n.Pointers != want {
			t.Fatalf("notification %d: %+v, want %+v", i, n.Pointers, want)
		}
	}
	p.Trigger(funi.TriggerPointers, 0)
	answer("two at a time", funi.TriggerNotesRead, 1, 0, funi.TriggerBurst)
	answer("after it", funi.TriggerNotesRead, 1, 1, funi.TriggerDone)
	if err := ctx[0].Store(funi.Control, funi.CTXM); err != nil {
		t.Fatal(err)
	}
	answer("halted", funi.TriggerNotesRead, 1, 0, funi.TriggerDisabled)
	if err := ctx[0].Store(funi.Control, 0); err != nil {
		t.Fatal(err)
	}
	answer("going on", funi.TriggerNotesRead, 1, 1, funi.TriggerDone)
	for range 63 {
		put(p, funi.Request, nowhere, 1)
	}
	answer("a queue of 64 slots", funi.TriggerIssue, 31, 31, funi.TriggerDone)

	without, _ := funi.NewMemory(4)
	without.Page.IssueByTrigger(true)
	p, err := funi.Initialize(without)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.cards[0].Attach(without, 7, 7, jobTag); err != nil {
		t.Fatal(err)
	}
	answer2 := func(command funi.TriggerCommand) funi.TriggerStatus {
		_, s := c.trigger(t, p, command, 1)
		return s
	}
	if a, b := answer2(funi.TriggerPointers), answer2(funi.TriggerNotesRead); a != funi.TriggerForbidden ||
		b != funi.TriggerForbidden {
		t.Errorf("without a ring: %v, %v", a, b)
	}
	for range 3 {
		put(p, funi.Request, nowhere, 1)
	}
	if n, s := c.trigger(t, p, funi.TriggerIssue, 31); n != 3 || s != funi.TriggerPartial {
		t.Errorf("more than a queue of 4 slots holds: %d, %v", n, s)
	}
}

// Rule: one trigger gives back at most funi.MaxNotesRead notifications, so that it does not take
// long, and says how many. Interface.Issue gives all back that were read, and then issues what
// waits.
func TestNotesAreGivenBack(t *testing.T) {
	const notes = 2500
	c := newCouple(t, 64)
	mem, err := funi.NewMemory(64)
	if err != nil {
		t.Fatal(err)
	}
	if err := mem.AddRemote(funi.RemoteSizes{KeySlots: 1, Areas: 1, Notifications: 4096}); err != nil {
		t.Fatal(err)
	}
	mem.Page.IssueByTrigger(true)
	p, err := funi.Initialize(mem)
	if err != nil {
		t.Fatal(err)
	}
	x, err := c.cards[0].Attach(mem, 100, 0, jobTag)
	if err != nil {
		t.Fatal(err)
	}
	for range notes {
		if n, s := c.trigger(t, p, funi.TriggerPointers, 0); n != 1 || s != funi.TriggerDone {
			t.Fatal(n, s)
		}
	}
	var n funi.Notification
	for p.NextNotification(&n) {
	}
	put(p, funi.Request, nowhere, 1)
	if n, s := c.trigger(t, p, funi.TriggerNotesRead, notes); n != funi.MaxNotesRead || s != funi.TriggerPartial {
		t.Errorf("of %d notifications %d were taken: %v", notes, n, s)
	}
	for range 10 {
		p.Issue()
		c.step()
	}
	use, _ := x.Remote()
	if back := returns(p); use.Unread != 0 || back != 1 {
		t.Errorf("%d notifications are unread, %d slots came back", use.Unread, back)
	}
}

// Rule: an account has at most half of the conditional store buffer, another always finds room, and
// a full buffer is answered and loses nothing.
func TestStoreBufferIsShared(t *testing.T) {
	const many = 2600
	c := newCouple(t, 64)
	proc, ctx := c.triggering(t, many, 8)
	for i, x := range ctx {
		account := uint32(1)
		if i == many-1 {
			account = 2
		}
		c.cards[0].Account(x, account)
	}
	sent, back, full := 0, 0, 0
	waits := make([]bool, many)
	for range 3000 {
		if full > 100 {
			break
		}
		for i, p := range proc[:many-1] {
			if waits[i] {
				count, s, ok := p.TriggerAnswer()
				if !ok {
					continue
				}
				waits[i] = false
				sent += count
				if s == funi.TriggerFull {
					full++
				}
			}
			for put(p, funi.Request, nowhere, 1) {
			}
			if p.Unissued() > 0 {
				waits[i] = true
				p.Trigger(funi.TriggerIssue, uint32(p.Unissued()))
			}
			back += returns(p)
		}
		c.cards[0].Budget(ctx[0], c.cards[0].Link().Quantum/2) // for answers alone
		c.step()
		if n := c.cards[0].Stored(); n > 2048 {
			t.Fatalf("one account has %d entries", n)
		}
	}
	if full == 0 || c.cards[0].Stored() < 2000 {
		t.Fatalf("%d triggers found the buffer full; it has %d entries", full, c.cards[0].Stored())
	}
	last := proc[many-1]
	put(last, funi.Request, nowhere, 1)
	if n, s := c.trigger(t, last, funi.TriggerIssue, 1); n != 1 || s != funi.TriggerDone {
		t.Errorf("another account: %d, %v", n, s)
	}
	for range 10000 {
		c.step()
		for i, p := range proc {
			if waits[i] {
				if count, _, ok := p.TriggerAnswer(); ok {
					waits[i] = false
					sent += count
				}
			}
			back += returns(p)
		}
		if back == sent+1 && c.cards[0].Stored() == 0 {
			break
		}
	}
	if back != sent+1 {
		t.Errorf("%d slots were accepted, %d came back", sent+1, back)
	}
}

// Rule: whatever processes store in their trigger lines, and whenever contexts halt, go on, switch
// and end, what is accepted comes back once, and no entry of the buffer is left behind.
func TestTriggersAtRandom(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		c := newCouple(t, 64)
		proc, ctx := c.triggering(t, 5, 8)
		accepted, back := make([]int, 5), make([]int, 5)
		waits, away := make([]bool, 5), make([]*engine.Saved, 5)
		look := func(i int) {
			if count, s, ok := proc[i].TriggerAnswer(); waits[i] && ok {
				if waits[i] = false; s <= funi.TriggerPartial {
					accepted[i] += count
				}
			}
			back[i] += returns(proc[i])
		}
		for range rapid.IntRange(1, 60).Draw(r, "actions") {
			i := rapid.IntRange(0, 4).Draw(r, "process")
			x, p := ctx[i], proc[i]
			look(i)
			switch rapid.IntRange(0, 7).Draw(r, "action") {
			case 0, 1:
				put(p, funi.Request, nowhere, 1)
			case 2:
				if !waits[i] {
					waits[i] = true
					p.Trigger(funi.TriggerIssue, uint32(p.Unissued()))
				}
			case 3:
				c.step()
			case 4:
				if away[i] == nil {
					_ = x.Store(funi.Control, funi.CTXM*uint32(rapid.IntRange(0, 1).Draw(r, "halt")))
				}
			case 5:
				if away[i] == nil {
					away[i], _ = c.cards[0].SwitchOut(x, false)
				} else {
					if err := c.cards[0].SwitchIn(away[i]); err != nil {
						r.Fatal(err)
					}
					away[i] = nil
				}
			case 6: // what is accepted stays in the buffer
				put(p, funi.Request, nowhere, 1)
				if !waits[i] {
					waits[i] = true
					p.Trigger(funi.TriggerIssue, uint32(p.Unissued()))
				}
				c.cards[0].Budget(x, rapid.IntRange(1, 1000).Draw(r, "budget"))
				c.step()
			case 7:
				c.cards[0].Account(x, uint32(rapid.IntRange(1, 2).Draw(r, "account")))
			}
			if err := c.cards[0].Check(); err != nil {
				r.Fatal(err)
			}
		}
		for i := range proc {
			if away[i] != nil {
				if err := c.cards[0].SwitchIn(away[i]); err != nil {
					r.Fatal(err)
				}
			}
			if err := ctx[i].Store(funi.Control, 0); err != nil {
				r.Fatal(err)
			}
		}
		for range 50 {
			c.step()
			for i := range proc {
				look(i)
			}
		}
		for i := range proc {
			if waits[i] || accepted[i] != back[i] {
				r.Errorf("process %d: a trigger waits: %v; %d slots accepted, %d came back", i, waits[i],
					accepted[i], back[i])
			}
			c.cards[0].Detach(ctx[i])
		}
		if n := c.cards[0].Stored(); n != 0 {
			r.Errorf("%d entries of nobody in the buffer", n)
		}
	})
}

// Rule: a context that sleeps wakes by a trigger, and a step of a card with many such contexts that
// are quiet costs what the active ones cost (wake.go).
func TestTriggerWakes(t *testing.T) {
	c := newCouple(t, 64)
	proc, _ := c.triggering(t, 200, 4)
	for range 1000 {
		c.step()
	}
	if n := c.cards[0].Awake(); n != 0 {
		t.Fatalf("%d contexts are awake", n)
	}
	for i, p := range proc {
		put(p, funi.Request, nowhere, 1)
		p.Trigger(funi.TriggerIssue, 1)
		c.step()
		if n, s, ok := p.TriggerAnswer(); n != 1 || s != funi.TriggerDone || !ok {
			t.Fatalf("context %d: %d, %v, %v", i, n, s, ok)
		}
	}
}

// Rule: a trigger allocates nothing.
func TestTriggersDoNotAllocate(t *testing.T) {
	c := newCouple(t, 64)
	proc, _ := c.triggering(t, 2, 64)
	p := proc[0]
	one := func() {
		put(p, funi.Request, nowhere, 1)
		p.Trigger(funi.TriggerIssue, 1)
		c.step()
		returns(p)
	}
	for range 100 {
		one()
	}
	if n := testing.AllocsPerRun(1000, one); n != 0 {
		t.Errorf("%.1f allocations for a trigger", n)
	}
}
