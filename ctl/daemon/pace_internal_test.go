package daemon

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Rule: what a user's requests cost is at most the time that passes and a burst, or each
// waits as long as there is to wait; nobody waits for another, and no debts are left when
// they are paid.
func TestDebts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := debts{}
		start := time.Unix(1e6, 0)
		now, spent := start, time.Duration(0)
		for range rapid.IntRange(1, 400).Draw(t, "requests") {
			cost := time.Duration(rapid.Int64Range(0, int64(longestPace)).Draw(t, "cost"))
			wait := d.add(7, now, cost)
			if wait < 0 || wait > longestPace {
				t.Fatalf("a wait of %v", wait)
			}
			now, spent = now.Add(wait), spent+cost // one connection
			if most := now.Sub(start) + burst; spent > most {
				t.Fatalf("requests of %v in %v", spent, now.Sub(start))
			}
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(burst)).Draw(t, "pause")))
			if wait := d.add(8, now.Add(time.Hour), requestCost); wait != 0 {
				t.Fatalf("another waits %v", wait)
			}
			delete(d, 8)
		}
	})
	d := debts{}
	for uid := range uint32(10 * manyDebts) {
		d.add(uid, time.Unix(1e6+int64(uid), 0), requestCost)
	}
	if len(d) > manyDebts {
		t.Errorf("%d debts are left", len(d))
	}
}

// Rule: with many connections each waits as long as there is to wait, and the debt stays
// bounded, so the user goes on soon after.
func TestDebtsOfManyConnections(t *testing.T) {
	d := debts{}
	now := time.Unix(1e6, 0)
	for range 10000 {
		d.add(7, now, time.Second)
	}
	if wait := d.add(7, now, requestCost); wait != longestPace {
		t.Errorf("a wait of %v, not %v", wait, longestPace)
	}
	if wait := d.add(7, now.Add(longestPace+burst), requestCost); wait != 0 {
		t.Errorf("a wait of %v after the debt is paid", wait)
	}
}
