package wait

// This file is the policy. Functions stand in the order of a wait.

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
	looks  int   // of them until the next
	others bool  // the last yield let another thread run that yields, too
	since  int64 // when this wait first came to yield or sleep; 0: it has not yet
	until  int64 // somebody computes beside us, as far as we know
	nap    int64 // bounds the next sleep

	at      int64  // the last time that is known,
	calls   uint64 // and how many calls there had been
	working bool   // those up to it were far apart

	thread int // that slept last
}

// New returns a Waiter that has not waited yet.
func New(p Policy) Waiter { return Waiter{policy: p, looks: p.Looks, nap: p.FirstSleep} }

// Found ends a wait. Whether others want the processor stays known.
func (w *Waiter) Found() { w.idle, w.since, w.nap = 0, 0, w.policy.FirstSleep }

// Called tells, with the time, how many calls there have been of the function in which a program
// lets its card run: if they are far apart the program works between them (Working).
func (w *Waiter) Called(now int64, calls uint64) {
	w.working = now-w.at > AtWork*int64(calls-w.calls)
	w.at, w.calls = now, calls
	if w.working {
		w.idle, w.since = 0, 0
	}
}

// Working reports whether the program worked between the calls up to the last Called. Then it does
// not wait.
func (w *Waiter) Working() bool { return w.working }

// Contended reports whether the last yield let another thread run that yields, too: then the next
// look in vain is one for a yield.
func (w *Waiter) Contended() bool { return w.others }

// Tired counts a look in vain, and reports whether to ask Next, with the time. It needs no clock,
// which is dear on virtual machines.
func (w *Waiter) Tired() bool {
	if w.idle++; w.idle < w.looks {
		return false
	}
	w.idle = 0
	return true
}

// Next says what to do at a time, after as many looks in vain as it takes.
func (w *Waiter) Next(now int64) Action {
	if w.since == 0 {
		w.since = now
	}
	if now < w.until || w.policy.Awake != 0 && now-w.since > w.policy.Awake {
		return Sleep
	}
	return Yield
}

// Yielded says when a yield began and ended.
func (w *Waiter) Yielded(began, ended int64) {
	w.at = ended // a rest is no work
	switch took := ended - began; {
	case took > SomeoneComputes:
		w.until, w.looks, w.others = ended+Sharing, w.policy.Beside, false
	case took > SomeoneRan:
		w.looks, w.others = 1, true
		w.since += took // what others ran is not time waited in vain
	default:
		w.looks, w.others = w.policy.Looks, false
	}
}

// Nap bounds the next sleep, in nanoseconds.
func (w *Waiter) Nap() int64 { return w.nap }

// Slept says when a sleep ended. What ended it may have been for another, or not be there yet: half
// of the time that one waits in vain is to come again.
func (w *Waiter) Slept(now int64) {
	w.at, w.since = now, now-w.policy.Awake/2
	w.nap = min(2*w.nap, w.policy.LongestSleep)
}
