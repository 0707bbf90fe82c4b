package daemon

// This file tests the turns of accounts at the card's thread, with a clock of its own.

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/tests/long"
)

// turnsOf has accounts keep so many commands in a mailbox, each of which takes what its account's
// take, for a time, and a thread that carries them out. It returns the time that each account's
// took, and how long account 0 waited for each of its own, which it asks for one after the other
// with a pause in between.
func turnsOf(cost []int64, depth int, until, pause int64) (took []int64, waits []int64) {
	m := &mailbox{}
	took = make([]int64, len(cost))
	ask := func(account int) {
		m.put(&command{connection: &connection{peer: peer{account: uint32(account)}}})
	}
	for account := range cost {
		for range depth {
			if account > 0 {
				ask(account)
			}
		}
	}
	now, asked, next := int64(0), int64(-1), int64(0)
	for now < until {
		if asked < 0 && now >= next {
			asked = now
			ask(0)
		}
		c, accounts := m.take(now)
		if c == nil {
			wake := m.due
			if asked < 0 {
				wake = min(wake, next)
			}
			now = max(now+1, wake)
			continue
		}
		account := c.account()
		if account == 0 {
			waits = append(waits, now-asked)
		}
		now += cost[account]
		took[account] += cost[account]
		m.rest(c, now, cost[account], accounts)
		if account == 0 {
			asked, next = -1, now+pause
		} else {
			ask(int(account))
		}
	}
	return took, waits
}

// Rule: commands take at most a third of the card's thread's time, and a quarter where those who
// ask do not change. Who asks the card's thread for something seldom waits for the one command of
// another that has begun, however many wait and however long they take, and for one of each other
// user that has just become ready.
func TestTurnsOfAccounts(t *testing.T) {
	long.Test(t)
	rapid.Check(t, func(t *rapid.T) {
		cost := []int64{rapid.Int64Range(1, 50).Draw(t, "own")}
		longest, others := int64(0), rapid.IntRange(1, 5).Draw(t, "others")
		for range others {
			c := rapid.Int64Range(1, 20_000).Draw(t, "cost")
			cost = append(cost, c)
			longest += c
		}
		const until = 3_000_000
		took, waits := turnsOf(cost, rapid.IntRange(1, 300).Draw(t, "depth"), until, 4*cost[0]*int64(others+1))
		sum := int64(0)
		for _, n := range took {
			sum += n
		}
		if most := until/stepsFirst + 2*longest + cost[0]; sum > most {
			t.Fatalf("commands took %d of %d, more than %d", sum, until, most)
		}
		if len(waits) < 10 {
			t.Fatalf("%d commands were carried out", len(waits))
		}
		for i, w := range waits {
			if w > longest {
				t.Fatalf("command %d waited for %d, where others take %v", i, w, cost[1:])
			}
		}
	})
}

// Rule: accounts that want more of the card's thread than there is get the same time, whatever
// their commands take.
func TestTurnsAreEqual(t *testing.T) {
	cost := []int64{1, 10, 100, 5000}
	took, _ := turnsOf(cost, 20, 20_000_000, 1_000_000)
	for account := 2; account < len(cost); account++ {
		if a, b := took[account], took[1]; a > b+b/10+2*cost[account] || b > a+a/10+2*cost[account] {
			t.Errorf("commands of %d took %d, those of %d took %d", cost[account], a, cost[1], b)
		}
	}
}
