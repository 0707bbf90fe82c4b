package funet

// This file is the boundary to what carries messages: the card, in this process or in a daemon.

import (
	"time"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/funi"
)

// Carrier is the part of a card that an endpoint uses. The card is in this process (card.Card) or
// in a daemon (attach.Client). Interrupt is for any goroutine; everything else is for one at a
// time, which the endpoint's lock sees to.
type Carrier interface {
	// Interface is the process's end of the queues.
	Interface() *funi.Interface
	// Drive lets the card run. When there is nothing to do it may sleep for some milliseconds,
	// which a message ends, and Interrupt.
	Drive()
	// Look is Drive that neither yields nor sleeps, for a program that does both by itself.
	Look()
	// Now is the card's clock, in nanoseconds.
	Now() int64
	// Segment returns new memory of the given number of bytes, all 0, that the card may use, at an
	// address.
	Segment(base uint32, bytes int, rights funi.Rights) ([]byte, error)
	// Register lets the card use memory of the process; a daemon's refuses (attach.ErrOwnMemory).
	Register(funi.Segment) error
	// Unregister ends the use of either.
	Unregister(base uint32) error
	// Err returns the card's fault; nil: none is known.
	Err() error
	// Close waits until everything sent is delivered, at most for the time given, and detaches.
	Close(linger time.Duration) error

	// Interrupt ends a sleep in Drive, and one that follows Arm.
	Interrupt()
	// Fd is readable when the card has something to do while Arm is in force.
	Fd() (int, error)
	Arm() bool
	Disarm()
}

var (
	_ Carrier = (*card.Card)(nil)
	_ Carrier = (*attach.Client)(nil)
)
