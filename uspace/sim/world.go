package sim

// This file has the world: the clock, the events, and the hash of a run.

import (
	"cmp"
	"io"
	"time"

	"github.com/funet/funet/uspace/funi"
)

// Options say how time passes in a world. The zero value is useful.
type Options struct {
	// PollTime is the processor time of one look of a process at its queues, and
	// StepTime that of one step of a card; 0 stands for 100 ns each.
	PollTime, StepTime time.Duration
	// IdleTime is how long a process that looks in vain sleeps at most. Anything that its card does
	// for it wakes it earlier. 0 stands for 20 us.
	IdleTime time.Duration
	Remote   funi.RemoteSizes // how much remote memory each process can open
	// IssueByTrigger says which processes issue their requests by triggers; nil: none.
	IssueByTrigger func(gid, node uint16) bool
	// Watch, if not nil, is called after every event of a card, and after every event of a process
	// with the process's card. It is for checking invariants.
	Watch func(c *Card)
}

// World is a simulation in virtual time. It and everything in it belong to one goroutine.
type World struct {
	o       Options
	now     int64
	queue   queue
	events  uint64
	hash    uint64
	cards   []*Card
	lives   uint64 // endpoints that were made, each the life of a process
	trace   *tracer
	capture io.Writer
	err     error // of trace or capture
}

// NewWorld makes an empty world at time 1 ns: zero is "never was" in many places.
func NewWorld(o Options) *World {
	o.PollTime, o.StepTime = cmp.Or(o.PollTime, 100), cmp.Or(o.StepTime, 100)
	o.IdleTime = cmp.Or(o.IdleTime, 20*time.Microsecond)
	return &World{o: o, now: 1, hash: 14695981039346656037}
}

// Now returns the time in nanoseconds.
func (w *World) Now() int64 { return w.now }

// Events returns how many events have happened: steps of cards, turns of processes,
// frames that moved on, and actions.
func (w *World) Events() uint64 { return w.events }

// Hash returns a number over every event so far, its time, and every frame that was sent. Two runs
// with the same hash were the same.
func (w *World) Hash() uint64 { return w.hash }

// Next returns the time of the next event, or Never.
func (w *World) Next() int64 { return w.queue.next() }

// At calls do at the given time, or now if that has passed.
func (w *World) At(at int64, do func()) { w.queue.push(max(at, w.now), action(do), 0) }

// Step makes the next event happen. It returns false if there is none.
func (w *World) Step() bool {
	for !w.queue.empty() {
		if w.one() {
			return true
		}
	}
	return false
}

// one takes the first event from the queue; there must be one. It returns false if the event's
// actor no longer wants it.
func (w *World) one() bool {
	at, a, token, arg := w.queue.pop()
	w.now = at
	if !a.happen(token, arg) {
		return false
	}
	w.events++
	w.mix(uint64(at))
	return true
}

// Run makes events happen until the given time, or until done returns true. done may be nil, and is
// called after every event. Run returns false when no event is left; the clock then stays.
func (w *World) Run(until int64, done func() bool) bool {
	for w.queue.next() <= until {
		if !w.Step() {
			return false
		}
		if done != nil && done() {
			return true
		}
	}
	if w.queue.empty() {
		return false
	}
	w.now = max(w.now, until)
	return true
}

// Cards returns the cards in the order in which they were made.
func (w *World) Cards() []*Card { return w.cards }

// Close ends all programs. The world must not be used after it.
func (w *World) Close() {
	for _, c := range w.cards {
		c.Crash()
	}
}

// mix adds a number to the hash.
func (w *World) mix(v uint64) { w.hash = mixed(w.hash, v) }

func mixed(hash, v uint64) uint64 {
	h := (hash ^ v) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}
