package wait_test

// This file tests the policy in virtual time. Each test names the rule of doc.go that it states.

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/wait"
)

const (
	microsecond = int64(time.Microsecond)
	// alone, turns and computes are yields: nobody else wants the processor, somebody who yields
	// does, or somebody who does not.
	alone    = wait.SomeoneRan / 4
	turns    = wait.SomeoneRan + 1
	computes = wait.SomeoneComputes + 1
)

var policies = map[string]wait.Policy{"Embedded": wait.Embedded, "Modelled": wait.Modelled, "Daemon": wait.Daemon,
	"Client": wait.Client, "C": wait.C}

// waiting is somebody who waits in virtual time.
type waiting struct {
	wait.Waiter
	now   int64
	look  int64 // what a look takes
	yield int64 // what a yield takes
}

func newWaiting(p wait.Policy) *waiting {
	return &waiting{Waiter: wait.New(p), now: 1, look: 10 * microsecond / int64(p.Looks), yield: alone}
}

// next looks in vain until there is something else to do, does it, and returns what it was and how
// many looks there were.
func (w *waiting) next() (wait.Action, int) {
	for looks := 1; ; looks++ {
		w.now += w.look
		if !w.Tired() {
			continue
		}
		did := w.Next(w.now)
		switch did {
		case wait.Yield:
			began := w.now
			w.now += w.yield
			w.Yielded(began, w.now)
		case wait.Sleep:
			w.now += w.Nap()
			w.Slept(w.now)
		}
		return did, looks
	}
}

// Rules 1, 2 and 5: a waiter alone on a processor yields once in as many looks as the policy says.
// It sleeps after it has waited in vain for as long as the policy says, no sooner; or never.
func TestAlone(t *testing.T) {
	for name, p := range policies {
		w := newWaiting(p)
		for began, n := int64(0), 0; n < 100; n++ {
			did, looks := w.next()
			if looks != p.Looks {
				t.Fatalf("%s: %d looks before the first thing else, want %d", name, looks, p.Looks)
			}
			if n == 0 {
				began = w.now - w.yield
			}
			if did == wait.Yield {
				continue
			}
			if slept := w.now - p.FirstSleep - began; p.Awake == 0 || slept <= p.Awake ||
				slept > p.Awake+12*microsecond {
				t.Fatalf("%s: it slept after %d ns in vain, want %d", name, slept, p.Awake)
			}
			break
		}
	}
}

// Rule 3: somebody else yields, too, on this processor: one who waits then yields at every look,
// also in the next wait, until a yield finds nobody; and the time of others does not bring its
// sleep nearer.
func TestTakingTurns(t *testing.T) {
	for name, p := range policies {
		w := newWaiting(p)
		w.next()
		w.yield = turns
		w.next()
		if !w.Contended() {
			t.Fatalf("%s: a yield that let somebody run is not known", name)
		}
		w.Found()
		own := int64(0)
		for own < 30*microsecond {
			did, looks := w.next()
			if did != wait.Yield || looks != 1 {
				t.Fatalf("%s: %v after %d looks and %d ns of its own", name, did, looks, own)
			}
			own += w.look
		}
		w.yield = alone
		w.next()
		if did, looks := w.next(); did != wait.Yield || looks != p.Looks || w.Contended() {
			t.Errorf("%s: %v after %d looks when nobody else wants the processor", name, did, looks)
		}
	}
}

// Rule 3: two who share a processor and wait for each other pass it on within one look and one
// yield, from the second exchange on. With a threshold above what two switches take both look for
// 10 us first.
func TestTwoOnOneProcessor(t *testing.T) {
	w := newWaiting(wait.Embedded)
	w.yield = 2 * 1400 // two switches, in nanoseconds
	for n := range 100 {
		began := w.now
		did, looks := w.next()
		if did != wait.Yield || n > 0 && looks != 1 {
			t.Fatalf("exchange %d: %v after %d looks", n, did, looks)
		}
		if took := w.now - began; n > 0 && took > w.look+w.yield {
			t.Fatalf("exchange %d took %d ns", n, took)
		}
		w.Found() // the other's message
	}
}

// Rule 4: after a yield that took as long as a time slice nobody yields for Sharing, but sleeps,
// whatever is found between; then it yields again to see who is there.
func TestBesideWhoComputes(t *testing.T) {
	for name, p := range policies {
		w := newWaiting(p)
		w.yield = computes
		w.next()
		end := w.now + wait.Sharing
		for {
			w.Found()
			before := w.now
			did, looks := w.next()
			if looks != p.Beside && (looks != 1 || p.Futile == 0) {
				t.Fatalf("%s: %d looks", name, looks)
			}
			if at := before + int64(looks)*w.look; at < end != (did == wait.Sleep) {
				t.Fatalf("%s: %v, %d ns before the end", name, did, end-at)
			}
			if did != wait.Sleep {
				break
			}
		}
	}
}

// Rule 4: looks beside somebody who computes go on for one whom they find something. After Futile
// waits in a row with none a single look must do, but for one wait in Retrial times as many. When
// that one finds something, all looks are allowed again.
func TestFutileLooks(t *testing.T) {
	p := wait.Embedded
	w := newWaiting(p)
	w.yield = computes
	w.next()
	w.look = 1 // 200 ms do not pass
	inVain := func(n, want int) {
		t.Helper()
		w.Found()
		if _, looks := w.next(); looks != want {
			t.Fatalf("%d looks after %d waits in vain, want %d", looks, n, want)
		}
		w.now -= p.FirstSleep // something came at once
	}
	for range 3 {
		for range 5 {
			for n := range p.Futile - 1 {
				inVain(n, p.Beside)
			}
			w.Found()
			if w.Tired() {
				t.Fatal("one look is too many")
			}
			w.Found() // by the second
		}
		for n := range p.Futile {
			inVain(n, p.Beside)
		}
		for n := p.Futile; n < 3*p.Futile*wait.Retrial; n++ {
			want := 1
			if n%(p.Futile*wait.Retrial) == 0 {
				want = p.Beside
			}
			inVain(n, want)
		}
		w.Found()
		if w.Tired() {
			t.Fatal("it does not try again")
		}
		w.Found() // at the second look
	}
}

// Rule 6: sleeps in vain are twice as long each, within the policy's bounds; one who found
// something begins anew.
func TestNaps(t *testing.T) {
	for name, p := range policies {
		w := newWaiting(p)
		for range 2 {
			w.Found()
			want := p.FirstSleep
			for range 5 {
				if w.Nap() != want {
					t.Errorf("%s: a nap of %d ns, want %d", name, w.Nap(), want)
				}
				w.Slept(w.now)
				want = min(2*want, p.LongestSleep)
			}
		}
	}
}

// Rule 7: calls that are far apart are those of a program that works in between; it waits again as
// soon as they are not, and what it waited before counts no more. A rest is no work.
func TestWorking(t *testing.T) {
	w := wait.New(wait.Client)
	for i, c := range []struct {
		now, slept int64
		calls      uint64
		working    bool
	}{
		{now: 16 * 100, calls: 16},
		{now: 16*100 + 16*wait.AtWork, calls: 32},
		{now: 16*100 + 32*wait.AtWork + 1, calls: 48, working: true},
		{now: 16*100 + 34*wait.AtWork, calls: 49, working: true}, // every call is a look now
		{now: 16*100 + 35*wait.AtWork, calls: 50},
		{now: 16*100 + 36*wait.AtWork, calls: 66},
		{now: 1e9 + 100, slept: 1e9, calls: 82},
	} {
		if c.slept != 0 {
			w.Slept(c.slept)
		}
		if working := w.Called(c.now, c.calls); working != c.working {
			t.Errorf("look %d: working is %v", i, working)
		}
	}
	began := int64(2e9)
	w.Yielded(began, began+alone)
	if w.Next(began); w.Next(began+wait.Client.Awake+1) != wait.Sleep {
		t.Fatal("it does not sleep after its time")
	}
	if !w.Called(3e9, 83) {
		t.Fatal("the program does not work")
	}
	if w.Next(3e9+1) != wait.Yield {
		t.Error("what was waited before the work counts for the sleep after it")
	}
}

// Whatever happens: nobody sleeps before its time but beside one who computes, and nobody yields
// then; the looks between two rests are never more than the policy's.
func TestAnyWait(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := policies[rapid.SampledFrom([]string{"Embedded", "Modelled", "Daemon", "Client", "C"}).Draw(t, "policy")]
		w := newWaiting(p)
		var until, vain int64 // somebody computes; time waited in vain, without what others ran
		for range rapid.IntRange(1, 60).Draw(t, "rests") {
			if rapid.Bool().Draw(t, "found") {
				w.Found()
				vain = 0
			}
			w.yield = rapid.SampledFrom([]int64{alone, turns, 10 * turns, computes, 4 * computes}).Draw(t, "yield")
			first, before := vain == 0, w.now
			did, looks := w.next()
			if looks > p.Looks {
				t.Fatalf("%d looks", looks)
			}
			at := before + int64(looks)*w.look
			if first {
				vain = 1
			} else {
				vain += at - before
			}
			if should := at < until || p.Awake != 0 && vain-1 > p.Awake; should != (did == wait.Sleep) {
				t.Fatalf("%v at %d, after %d ns in vain; somebody computes until %d", did, at, vain, until)
			}
			switch {
			case did == wait.Sleep:
				vain = 1 + p.Awake/2
			case w.yield > wait.SomeoneComputes:
				until = w.now + wait.Sharing
				vain += w.yield
			case w.yield <= wait.SomeoneRan:
				vain += w.yield
			}
		}
	})
}
