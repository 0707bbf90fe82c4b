package wait

// This file has the Waiter. Functions stand in the order of a wait.

// Action is the next thing to do.
type Action uint8

// The actions.
const (
	Look  Action = iota // again
	Yield               // the processor (YieldProcessor), and say how long that took (Yielded)
	Sleep               // as long as Nap says at most, and say when that ended (Slept)
)

// Waiter is the state of a wait. New makes one.
type Waiter struct {
	policy Policy
	idle   int   // looks in vain since the last yield or sleep
	looks  int   // how many of them are allowed
	others bool  // the last yield let another thread run that yields, too
	since  int64 // when this wait first came to yield or sleep; 0: it has not yet
	until  int64 // until then another thread computes, as far as is known
	nap    int64 // bounds the next sleep
	slept  bool  // in this wait
	vain   int   // waits in a row whose looks beside a thread that computes found nothing

	at    int64  // the last time that is known,
	calls uint64 // and how many calls there had been

	thread int // that slept last
}

// New returns a Waiter that has not waited yet.
func New(p Policy) Waiter { return Waiter{policy: p, looks: p.Looks, nap: p.FirstSleep} }

// Found ends a wait. Whether others want the processor stays known.
func (w *Waiter) Found() {
	if w.idle > 0 && !w.slept {
		w.vain = 0
	}
	w.idle, w.since, w.nap, w.slept = 0, 0, w.policy.FirstSleep, false
}

// Called notes the time and the number of calls so far of the function in which a program lets its
// card run. It reports whether the calls are far apart: then the program works between them, and
// does not wait.
func (w *Waiter) Called(now int64, calls uint64) (working bool) {
	working = now-w.at > AtWork*int64(calls-w.calls)
	w.at, w.calls = now, calls
	if working {
		w.idle, w.since = 0, 0
	}
	return working
}

// Contended reports whether the last yield let another thread run that also yields. Then the next
// look in vain leads to a yield.
func (w *Waiter) Contended() bool { return w.others }

// Tired counts a look in vain, and reports whether to call Next with the time. It needs no clock,
// because reading a clock is dear on virtual machines.
func (w *Waiter) Tired() bool {
	if w.idle++; w.idle < w.looks {
		return false
	}
	w.idle = 0
	return true
}

// Next returns the next action at a time, after Tired has reported true.
func (w *Waiter) Next(now int64) Action {
	if w.since == 0 {
		w.since = now
	}
	if now < w.until {
		if !w.slept {
			w.vain++
		}
		w.looks = w.beside()
		return Sleep
	}
	if w.policy.Awake != 0 && now-w.since > w.policy.Awake {
		return Sleep
	}
	return Yield
}

// beside returns the number of looks before the next sleep beside a thread that computes.
func (w *Waiter) beside() int {
	if most := w.policy.Futile; most > 0 && w.vain >= most && w.vain%(most*Retrial) != 0 {
		return 1
	}
	return w.policy.Beside
}

// Yielded notes when a yield began and ended.
func (w *Waiter) Yielded(began, ended int64) {
	w.at = ended // a rest is no work
	switch took := ended - began; {
	case took > SomeoneComputes:
		w.until, w.looks, w.others = ended+Sharing, w.beside(), false
	case took > SomeoneRan:
		w.looks, w.others = 1, true
		w.since += took // what others ran is not time waited in vain
	default:
		w.looks, w.others = w.policy.Looks, false
	}
}

// Nap bounds the next sleep, in nanoseconds.
func (w *Waiter) Nap() int64 { return w.nap }

// Slept notes when a sleep ended. The event that ended it may have been for another waiter, or its
// message may not be there yet. So the waiter waits in vain for half of Awake again before the next
// sleep.
func (w *Waiter) Slept(now int64) {
	w.at, w.since, w.slept = now, now-w.policy.Awake/2, true
	w.nap = min(2*w.nap, w.policy.LongestSleep)
}
