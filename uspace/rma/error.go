package rma

// This file is what fails, and why.

import (
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/arctic"
)

var (
	// ErrNone: the context was attached without room for remote memory.
	ErrNone = errors.New("rma: the context has no remote memory; ask for it when it is attached (funi.RemoteSizes)")
	// ErrFull: all key slots have windows, or the ring has no room for as many notifications.
	ErrFull = errors.New("rma: no room for another window, or for that many notifications; revoke one, or attach with larger funi.RemoteSizes")
	// ErrMemory: the memory is in no segment with the right for it.
	ErrMemory = errors.New("rma: the memory is in no segment that has the right for it; register it with the card and tell the endpoint (Use)")
	// ErrWindow: the window is not open, or what it is to be is none.
	ErrWindow = errors.New("rma: no such window, or addresses beyond 48 bits, or notifications without the right")
	// ErrTooLong: more bytes than a slot has room for, or than an operation may have.
	ErrTooLong = errors.New("rma: more bytes than that operation may have")
	// ErrUnread: as many notifications of others' puts are unread as the ring holds, so that the
	// card can tell of nothing else.
	ErrUnread = errors.New("rma: notifications of puts are unread; take them (Notification)")
	// ErrSilent: a read whose answer nobody is told.
	ErrSilent = errors.New("rma: a read is for its answer, which a silent operation has not; leave With.Silent out, or get into memory (Get)")
	// ErrUntold: a change of a window or of a chain may have been refused, and the return ring had
	// no room to tell.
	ErrUntold = errors.New("rma: more came back than the return ring holds, so it is not known whether the card has done it; revoke the window or join again")
	// ErrID: the operation was waited for already, or never issued.
	ErrID = errors.New("rma: no such operation is under way")

	// What others may decide on, of what an operation failed with (Error).

	// ErrKey: the window was revoked, or never was, or has another key; which of them is not told.
	ErrKey = errors.New("rma: no such window there, or another key; Ready waits for one that is not there yet")
	// ErrRange: it does not lie within the window.
	ErrRange = errors.New("rma: not within the window")
	// ErrRights: the window does not permit it.
	ErrRights = errors.New("rma: the window does not permit it")
	// ErrAbsent: the owner has suspended the window and has not brought it back for as long as its
	// card lets others wait.
	ErrAbsent = errors.New("rma: the window was suspended for too long")
	// ErrLocked: another process has locked the window.
	ErrLocked = errors.New("rma: the window is locked")
	// ErrUnreachable: the node's host does not answer, or has left, or no process is the node.
	ErrUnreachable = errors.New("rma: the node cannot be reached")
)

// Error says that an operation was not carried out, or that nobody knows (Doubtful).
type Error struct {
	Operation arctic.Operation
	Node      uint16
	// ReasonNone: it came back undone, and the return ring had no room to say why
	Reason arctic.Reason
}

// Error says what was being done, where, and what the card gave as the reason.
func (e *Error) Error() string {
	what := "operating on"
	switch e.Operation {
	case arctic.RemotePut, arctic.RemoteWrite:
		what = "writing to"
	case arctic.RemoteGet, arctic.RemoteRead:
		what = "reading from"
	case arctic.RemoteLock:
		what = "locking"
	case arctic.RemoteUnlock:
		what = "unlocking"
	}
	why := e.Reason.String()
	if e.Reason == arctic.ReasonNone {
		why = "the card gave it back, with more than the return ring holds; let the card run (Poll) between operations"
	}
	if e.Operation == arctic.RemoteMulticast {
		return fmt.Sprintf("rma: sending along the chain from node %d on: %s", e.Node, why)
	}
	return fmt.Sprintf("rma: %s a window of node %d: %s", what, e.Node, why)
}

// Is makes errors.Is find what one may decide on.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrKey:
		return e.Reason == arctic.ReasonKeySlot
	case ErrRange:
		return e.Reason == arctic.ReasonRange
	case ErrRights:
		return e.Reason == arctic.ReasonRights
	case ErrAbsent:
		return e.Reason == arctic.ReasonWithheld
	case ErrLocked:
		return e.Reason == arctic.ReasonLocked
	case ErrUnreachable:
		switch e.Reason {
		case arctic.ReasonSilent, arctic.ReasonRestarted, arctic.ReasonDeparted, arctic.ReasonNoRoute,
			arctic.ReasonNoContext:
			return true
		}
	}
	return false
}

// Doubtful reports whether the operation may have been carried out all the same.
func (e *Error) Doubtful() bool {
	switch e.Reason {
	case arctic.ReasonSilent, arctic.ReasonRestarted, arctic.ReasonDeparted, arctic.ReasonResynchronised,
		arctic.ReasonGivenUp, arctic.ReasonWindow:
		return true
	}
	return false
}
