package daemon

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/ctl/ports"
)

// Rule: what a user's requests cost, however large they are, is at most the time that passes, a
// burst and the last of them; and what he owes is forgotten when it is paid.
func TestDebts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d debt
		start := time.Unix(1e6, 0)
		now, spent := start, time.Duration(0)
		for range rapid.IntRange(1, 400).Draw(t, "requests") {
			now = now.Add(d.wait(now))
			if most := now.Sub(start) + burst; spent > most {
				t.Fatalf("requests of %v before one at %v", spent, now.Sub(start))
			}
			cost := time.Duration(rapid.Int64Range(0, int64(3*time.Second)).Draw(t, "cost"))
			d.add(now, cost)
			spent += cost
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(burst)).Draw(t, "pause")))
		}
		if wait := d.wait(now.Add(time.Hour + spent)); wait != 0 {
			t.Fatalf("a wait of %v when all is paid", wait)
		}
	})
}

// Rule: accounts that owe nothing and have no connection leave nothing behind.
func TestPursesAreBounded(t *testing.T) {
	d := &Daemon{purses: map[uint32]*purse{}}
	for account := range uint32(10 * manyPurses) {
		d.leavePurse(d.purseOf(account))
	}
	if len(d.purses) > manyPurses {
		t.Errorf("%d purses are left", len(d.purses))
	}
}

// Rule: the requests of one account are carried out one after the other, and nobody waits for
// another account's.
func TestRequestsOfAnAccountTakeTurns(t *testing.T) {
	d := &Daemon{purses: map[uint32]*purse{}}
	connectionFor := func(account uint32) *connection { return &connection{d: d, purse: d.purseOf(account)} }
	first, second, other := connectionFor(7), connectionFor(7), connectionFor(8)
	done := make(chan string, 2)
	if err := first.enter(); err != nil {
		t.Fatal(err)
	}
	var ended sync.WaitGroup
	ended.Go(func() {
		err := second.enter()
		done <- fmt.Sprintf("second %v", err)
		second.exit()
	})
	if err := other.enter(); err != nil { // or the test hangs here
		t.Fatal(err)
	}
	other.exit()
	for begin := ports.ThreadTime(); ports.ThreadTime()-begin < time.Millisecond; {
		continue // the thread is the goroutine's
	}
	done <- "first"
	first.exit()
	if a, b := <-done, <-done; a != "first" || b != "second <nil>" {
		t.Errorf("%q came before %q", a, b)
	}
	ended.Wait()
	if d.purses[7].debt == (debt{}) || time.Until(time.Time(d.purses[7].debt)) > time.Minute {
		t.Errorf("a request that computed for a millisecond owes until %v", time.Time(d.purses[7].debt))
	}
	if first.spent != 0 || first.working {
		t.Error("a request that has ended is measured still")
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
