package funet

// This file defines Carrier, the boundary to the card, which is in this process or in a daemon.

import (
	"time"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/funi"
)

// Carrier is the part of a card that an endpoint uses. The card is in this process (card.Card) or
// in a daemon (attach.Client). Any goroutine may call Interrupt. The other methods are for one
// goroutine at a time, which the endpoint's lock ensures.
type Carrier interface {
	// Interface is the process's end of the queues.
	Interface() *funi.Interface
	// Drive lets the card run. When there is nothing to do it may sleep for some milliseconds. A
	// message or Interrupt ends the sleep.
	Drive()
	// Look is Drive without yielding and sleeping, for a program that does both by itself.
	Look()
	// Now is the card's clock, in nanoseconds.
	Now() int64
	// Segment returns new zeroed memory of the given number of bytes, which the card may use, at
	// the given address.
	Segment(base uint32, bytes int, rights funi.Rights) ([]byte, error)
	// Register lets the card use memory of the process. A daemon's card refuses
	// (attach.ErrOwnMemory).
	Register(funi.Segment) error
	// Unregister ends what Segment or Register began.
	Unregister(base uint32) error
	// Err returns the card's fault, or nil if no fault is known.
	Err() error
	// Close waits until everything sent is delivered, at most for the time given, and detaches.
	Close(linger time.Duration) error

	// Watch arms w with the words that change when the card has something to do. It returns
	// false if it has, or the program works between its calls. recall takes them back. Skipped
	// says how often the program has found them unchanged.
	Watch(w *funi.Watch, recall func()) bool
	Skipped(times int)

	// Interrupt ends a sleep in Drive, and a sleep that follows Arm.
	Interrupt()
	// Fd returns a descriptor that is readable when the card has something to do while Arm is in
	// force.
	Fd() (int, error)
	Arm() bool
	Disarm()
}

var (
	_ Carrier = (*card.Card)(nil)
	_ Carrier = (*attach.Client)(nil)
)
