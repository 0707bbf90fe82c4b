package wait

// This file has the numbers: those that all waiters have in common, and those that differ.

import "time"

// These are in nanoseconds; doc.go has the reasons.
const (
	// SomeoneRan is the time of a yield above which the yield let another thread run.
	SomeoneRan = int64(2 * time.Microsecond)
	// SomeoneComputes is the time of a yield above which it let a thread run that does not yield.
	SomeoneComputes = int64(time.Millisecond)
	// Sharing is the time after such a yield in which a sleep takes the place of every yield.
	Sharing = int64(200 * time.Millisecond)
	// AtWork is the time between calls from which on the program works in between.
	AtWork = int64(3 * time.Microsecond)
)

// Retrial times Futile waits pass before looks are tried again that have found nothing.
const Retrial = 32

// Policy holds the figures that differ between waiters.
type Policy struct {
	// Looks is the number of looks in vain before a yield: some 10 us of them.
	Looks int
	// Beside is the number of looks in vain before a sleep beside a thread that computes.
	Beside int
	// Futile is the number of waits in a row whose looks beside such a thread found nothing, after
	// which the others have a single look, but for one in Retrial times as many. 0: all have all.
	Futile int
	// Awake is how long, in nanoseconds, a waiter yields in vain before it sleeps; 0: for ever.
	Awake int64
	// FirstSleep and LongestSleep bound a sleep, in nanoseconds. After each sleep in vain the bound
	// doubles.
	FirstSleep, LongestSleep int64
}

// These are the policies of the waiters.
var (
	// Embedded is the policy of a card in its program's own process.
	Embedded = Policy{Looks: 32, Beside: 8, Futile: 4, FirstSleep: int64(time.Millisecond), LongestSleep: int64(time.Millisecond)}
	// Modelled is the policy of such a card of a modelled machine.
	Modelled = Policy{Looks: 16, Beside: 16, FirstSleep: int64(time.Millisecond), LongestSleep: int64(time.Millisecond)}
	// Daemon is the policy of the card's thread of a daemon.
	Daemon = Policy{Looks: 8, Beside: 1, Awake: int64(200 * time.Microsecond), FirstSleep: int64(time.Second),
		LongestSleep: int64(time.Second)}
	// Client is the policy of a process with a context on a daemon's card.
	Client = Policy{Looks: 32, Beside: 32, Awake: int64(50 * time.Microsecond), FirstSleep: int64(time.Millisecond),
		LongestSleep: int64(8 * time.Millisecond)}
	// C is the policy of such a process in C (funi.h).
	C = Policy{Looks: 500, Beside: 500, Awake: int64(50 * time.Microsecond), FirstSleep: int64(200 * time.Millisecond),
		LongestSleep: int64(200 * time.Millisecond)}
)
