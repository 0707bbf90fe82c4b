package rma

// This file defines the errors.

import (
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/arctic"
)

var (
	// ErrNone reports a context that was attached without room for remote memory.
	ErrNone = errors.New("rma: the context has no remote memory; ask for it when it is attached (funi.RemoteSizes)")
	// ErrFull reports that all key slots have windows, or that the ring has no room for that many
	// notifications.
	ErrFull = errors.New("rma: no room for another window, or for that many notifications; revoke one, or attach with larger funi.RemoteSizes")
	// ErrMemory reports memory that lies in no segment with the required right.
	ErrMemory = errors.New("rma: the memory is in no segment that has the right for it; register it with the card and tell the endpoint (Use)")
	// ErrWindow reports a window that is not open, or options that describe no valid window.
	ErrWindow = errors.New("rma: no such window, or addresses beyond 48 bits, or notifications without the right")
	// ErrTooLong reports more bytes than fit a slot, or than the operation may have.
	ErrTooLong = errors.New("rma: more bytes than that operation may have")
	// ErrUnread reports that unread notifications of other nodes' puts fill the ring, so that the
	// card can report nothing else.
	ErrUnread = errors.New("rma: notifications of puts are unread; take them (Notification)")
	// ErrSilent reports a silent read, whose answer would be lost.
	ErrSilent = errors.New("rma: a read is for its answer, which a silent operation has not; leave With.Silent out, or get into memory (Get)")
	// ErrUntold reports that a change of a window or of a chain may have been refused; the return
	// ring had no room to tell.
	ErrUntold = errors.New("rma: more came back than the return ring holds, so it is not known whether the card has done it; revoke the window or join again")
	// ErrID reports an operation that was never issued, or was waited for already.
	ErrID = errors.New("rma: no such operation is under way")

	// Reasons for the failure of an operation (Error) that callers may test for.

	// ErrKey reports a window that was revoked, never existed, or has another key; the card does
	// not tell which.
	ErrKey = errors.New("rma: no such window there, or another key; Ready waits for one that is not there yet")
	// ErrRange reports bytes that do not lie within the window.
	ErrRange = errors.New("rma: not within the window")
	// ErrRights reports an operation that the window does not permit.
	ErrRights = errors.New("rma: the window does not permit it")
	// ErrAbsent reports that the owner suspended the window, and did not bring it back within the
	// time that its card lets other nodes wait.
	ErrAbsent = errors.New("rma: the window was suspended for too long")
	// ErrLocked reports that another process has locked the window.
	ErrLocked = errors.New("rma: the window is locked")
	// ErrUnreachable reports that the node's host does not answer or has left, or that no process
	// is the node.
	ErrUnreachable = errors.New("rma: the node cannot be reached")
)

// Error reports that an operation was not carried out, or may not have been (Doubtful).
type Error struct {
	Operation arctic.Operation
	Node      uint16
	// ReasonNone: the operation was returned, and the return ring had no room for the reason.
	Reason arctic.Reason
}

// Error names the operation, its node, and the reason that the card gave.
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
	switch e.Operation {
	case arctic.RemoteSend:
		return fmt.Sprintf("rma: sending a message to node %d: %s", e.Node, why)
	case arctic.RemoteMulticast:
		return fmt.Sprintf("rma: sending along the chain from node %d on: %s", e.Node, why)
	}
	return fmt.Sprintf("rma: %s a window of node %d: %s", what, e.Node, why)
}

// Is makes errors.Is match the errors that callers may test for.
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

// Doubtful reports whether the operation may have been carried out in spite of the error.
func (e *Error) Doubtful() bool {
	switch e.Reason {
	case arctic.ReasonSilent, arctic.ReasonRestarted, arctic.ReasonDeparted, arctic.ReasonResynchronised,
		arctic.ReasonGivenUp, arctic.ReasonWindow:
		return true
	}
	return false
}
