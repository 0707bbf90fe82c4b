package wait

// This file is the numbers: what all who wait have in common, and what differs between them.

import "time"

// In nanoseconds; doc.go has the reasons.
const (
	// SomeoneRan: a yield that took longer let another thread run.
	SomeoneRan = int64(2 * time.Microsecond)
	// SomeoneComputes: a yield that took longer let one run that does not yield.
	SomeoneComputes = int64(time.Millisecond)
	// Sharing is how long after that a sleep takes the place of every yield.
	Sharing = int64(200 * time.Millisecond)
	// AtWork is how far calls are apart, or farther, when the program works in between.
	AtWork = int64(3 * time.Microsecond)
)

// Policy holds the figures that differ between those who wait.
type Policy struct {
	// Looks is how many looks in vain pass before a yield: some 10 us of them.
	Looks int
	// Beside is how many looks in vain pass before a sleep beside one who computes.
	Beside int
	// Awake is how long, in nanoseconds, one yields in vain before one sleeps; 0: for ever.
	Awake int64
	// FirstSleep and LongestSleep bound a sleep, in nanoseconds. Each that was in vain is twice as
	// long as the one before.
	FirstSleep, LongestSleep int64
}

// The policies of those who wait.
var (
	// Embedded is that of a card in its program's own process.
	Embedded = Policy{Looks: 32, Beside: 32, FirstSleep: int64(time.Millisecond), LongestSleep: int64(time.Millisecond)}
	// Modelled is that of such a card of a modelled machine.
	Modelled = Policy{Looks: 16, Beside: 16, FirstSleep: int64(time.Millisecond), LongestSleep: int64(time.Millisecond)}
	// Daemon is that of the card's thread of a daemon.
	Daemon = Policy{Looks: 8, Beside: 1, Awake: int64(200 * time.Microsecond), FirstSleep: int64(time.Second),
		LongestSleep: int64(time.Second)}
	// Client is that of a process with a context on a daemon's card.
	Client = Policy{Looks: 32, Beside: 32, Awake: int64(50 * time.Microsecond), FirstSleep: int64(time.Millisecond),
		LongestSleep: int64(8 * time.Millisecond)}
	// C is that of such a process in C (funi.h).
	C = Policy{Looks: 500, Beside: 500, Awake: int64(50 * time.Microsecond), FirstSleep: int64(200 * time.Millisecond),
		LongestSleep: int64(200 * time.Millisecond)}
)
