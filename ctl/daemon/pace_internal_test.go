package daemon

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Rule: what a user's requests cost, however large they are, is at most the time that passes,
// a burst and the last of them; nobody waits for another, and no debts are left when they
// are paid.
func TestDebts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := debts{}
		start := time.Unix(1e6, 0)
		now, spent := start, time.Duration(0)
		for range rapid.IntRange(1, 400).Draw(t, "requests") {
			cost := time.Duration(rapid.Int64Range(0, int64(3*time.Second)).Draw(t, "cost"))
			now = now.Add(d.add(7, now, cost)) // one connection
			if most := now.Sub(start) + burst; spent > most {
				t.Fatalf("requests of %v before one at %v", spent, now.Sub(start))
			}
			spent += cost
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(burst)).Draw(t, "pause")))
			if wait := d.add(8, now.Add(time.Hour), requestCost); wait != 0 {
				t.Fatalf("another waits %v", wait)
			}
			delete(d, 8)
		}
	})
	d := debts{}
	for account := range uint32(10 * manyDebts) {
		d.add(account, time.Unix(1e6+int64(account), 0), requestCost)
	}
	if len(d) > manyDebts {
		t.Errorf("%d debts are left", len(d))
	}
}

// Rule: with many connections that ask at once the same holds: each waits for what those
// before it cost, however much that is, and one that goes away while it waits costs nothing.
func TestDebtsOfManyConnections(t *testing.T) {
	const cost = time.Second
	d := debts{}
	now := time.Unix(1e6, 0)
	for n := range time.Duration(1000) {
		if wait, want := d.add(7, now, cost), max(n*cost-burst, 0); wait != want {
			t.Fatalf("request %d waits %v, not %v", n, wait, want)
		}
	}
	for range 999 {
		d.forgive(7, cost)
	}
	if wait := d.add(7, now, cost); wait != cost-burst {
		t.Errorf("a wait of %v when the others have gone, not %v", wait, cost-burst)
	}
}

// Rule: a user who asks for more memory than he may have does not wait for it.
func TestRefusedMemoryCostsNothing(t *testing.T) {
	r := DefaultRule()
	if c := memoryCost(uint64(r.Bytes), &r); c != time.Duration(r.Bytes)*byteCost {
		t.Errorf("%d bytes cost %v", r.Bytes, c)
	}
	if c := memoryCost(1<<63, &r); c != 0 {
		t.Errorf("what is refused costs %v", c)
	}
}

// Rule: the card's thread is asked at most 300 times in a minute whether a context that
// lingers can end, and its end is found later by at most a quarter of the time that it took.
func TestFewLooks(t *testing.T) {
	looks := 0
	for at := time.Duration(0); at < longestLinger; looks++ {
		next := nextLook(at)
		if at > 4*firstLook && next > at/4 {
			t.Fatalf("a look %v after %v", next, at)
		}
		at += next
	}
	if looks > 300 {
		t.Errorf("%d looks", looks)
	}
}
