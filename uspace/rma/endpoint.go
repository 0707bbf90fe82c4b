package rma

// This file defines the endpoint of a process, and opens its windows to other nodes.

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync/atomic"
	"unsafe"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// Endpoint is one process's access to windows: its own, and those of other nodes. See doc.go.
type Endpoint struct {
	iface    *funi.Interface
	random   io.Reader
	drive    func() error
	segments funi.Segments
	slots    []uint64 // by key slot, the key in use; 0: none
	credit   int      // of open windows, and of closed windows with unread notifications
	receives int      // of the credit, that for messages
	life     [4]byte  // tells this process from earlier processes of the node, for locks

	ops operations
	// inbox holds notifications that Poll has read and Notification has not yet returned. Poll
	// reads into entry.
	inbox queue
	entry funi.Notification
	// Others takes returned requests that are not of this package; nil: there are none.
	Others func(funi.Returned)
	// Entry takes entries of the notification ring that are not of this package; nil: they are left
	// out. It keeps no pointer. Held returns how many of those the program has not taken yet. As
	// many as the ring has entries stop Poll from reading more. nil: Entry keeps none.
	Entry func(*funi.Notification)
	Held  func() int
	// Beside is how many operations under way are not this endpoint's. They need room, too.
	Beside int
	// Shared says that another library on the same interface reads the returns, and passes those of
	// this package to Back.
	Shared bool
}

// Key is the secret that gives access to a window.
type Key uint64

// Options describe a window, besides its memory.
type Options struct {
	Address uint64            // the address by which other nodes name its first byte, up to 48 bits
	Rights  funi.WindowRights // what other nodes may do; 0: read, write and atomics
	// Notifications is how many notifications of puts may be unread (funi.RightNotify). A further
	// put with a notification waits at its sender.
	Notifications int
	// Key is a key agreed on beforehand, whose lower 16 bits are the number of a key slot; 0: a
	// random key. Such a fixed key is only as secret as those who agreed on it keep it.
	Key Key
	// Absent opens the window suspended: operations on it wait at their senders until Resume.
	Absent bool
	// Counts is memory for the window's counts (Window.Counts): funi.CountsBytes in a segment with
	// the right Keyed, from a multiple of 8 on. The counts go on from what is there, also of an
	// earlier window. No other window should hold it. nil: the window counts nothing.
	Counts []byte
}

// Window is memory that other nodes may access.
type Window struct {
	Key     Key
	Address uint64
	Memory  []byte
	credit  int
	counts  []byte
}

// Counts says how many operations of other nodes a window has counted (With.Count).
type Counts struct {
	Writes  uint64 // puts, and operations on elements without an answer
	Fetches uint64 // operations on elements that were changed and whose old values were answered
	Reads   uint64 // gets, and reads of elements
}

// Counts returns what the window has counted, or zeros for a window without Options.Counts. What a
// counted operation wrote is in memory. Until waits for a count.
func (w *Window) Counts() (c Counts) {
	if w.counts != nil {
		word := func(n int) uint64 { return atomic.LoadUint64((*uint64)(unsafe.Pointer(&w.counts[8*n]))) }
		c = Counts{word(funi.CountWrites), word(funi.CountFetches), word(funi.CountReads)}
	}
	return c
}

// Target names bytes of a window, from an address on.
type Target struct {
	Node    uint16
	Key     Key
	Address uint64
}

// Target returns a target at the window's start, for other nodes; node is this process's number.
func (w *Window) Target(node uint16) Target { return Target{node, w.Key, w.Address} }

// At returns the target that lies offset bytes further on.
func (t Target) At(offset uint64) Target {
	t.Address += offset
	return t
}

// New returns an endpoint on an interface. Keys are drawn from random, which is crypto/rand's
// Reader except in virtual time. drive lets the card run, and returns an error when waits must end.
// Errors are ErrNone, and those of random.
func New(iface *funi.Interface, random io.Reader, drive func() error) (*Endpoint, error) {
	sizes := iface.Remote()
	if sizes == (funi.RemoteSizes{}) {
		return nil, ErrNone
	}
	e := &Endpoint{iface: iface, random: random, drive: drive, slots: make([]uint64, sizes.KeySlots)}
	e.ops.limit = min(sizes.Notifications, funi.MaxRequests)
	e.ops.lost = iface.OperationsLost()
	e.ops.begin(min(2*sizes.Notifications, funi.MaxRequests))
	if _, err := io.ReadFull(random, e.life[:]); err != nil {
		return nil, fmt.Errorf("rma: drawing a number for locks: %w", err)
	}
	return e, nil
}

// Use tells the endpoint of a segment that the process has registered with its card. Errors are
// those of funi.Segments.
func (e *Endpoint) Use(s funi.Segment) error { return e.segments.Register(s) }

// Forget ends what Use told. Errors are those of funi.Segments.
func (e *Endpoint) Forget(base uint32) error { return e.segments.Unregister(base) }

// Expose opens a window over memory that lies in a segment with the right Keyed. When it returns,
// other nodes may use the window. Errors are ErrMemory, ErrFull, ErrWindow, ErrUntold, and those of
// drive and random.
func (e *Endpoint) Expose(memory []byte, o Options) (*Window, error) {
	w, err := e.expose(memory, o)
	if err != nil {
		return nil, fmt.Errorf("exposing %d bytes: %w", len(memory), err)
	}
	return w, nil
}

func (e *Endpoint) expose(memory []byte, o Options) (*Window, error) {
	base, err := e.Address(memory)
	if err != nil {
		return nil, err
	}
	counts := uint32(0)
	if o.Counts != nil {
		if len(o.Counts) != funi.CountsBytes || uintptr(unsafe.Pointer(&o.Counts[0]))%8 != 0 {
			return nil, ErrWindow
		}
		if counts, err = e.Address(o.Counts); err != nil {
			return nil, err
		}
	}
	if o.Rights == 0 {
		o.Rights = funi.RightRead | funi.RightWrite | funi.RightAtomic
		if o.Notifications > 0 {
			o.Rights |= funi.RightNotify
		}
	}
	if o.Address > arctic.MaxAddress-uint64(len(memory))+1 || o.Notifications < 0 ||
		o.Notifications > 0 && o.Rights&funi.RightNotify == 0 {
		return nil, ErrWindow
	}
	key, err := e.draw(o.Key)
	if err != nil {
		return nil, err
	}
	if e.credit+o.Notifications >= e.iface.Remote().Notifications {
		return nil, ErrFull // one entry at least is left for operations
	}
	e.slots[uint16(key)] = uint64(key) // also if nobody knows whether it was opened
	w := funi.Window{Key: uint64(key), Base: base, Bytes: uint32(len(memory)), Address: o.Address, Rights: o.Rights,
		Credit: uint32(o.Notifications), Absent: o.Absent, Counts: counts}
	reason, err := e.Command(func(s *funi.Slot, cookie uint32) { s.SetOpenWindow(&w, cookie) })
	switch {
	case err != nil:
		return nil, err
	case reason != arctic.ReasonNone:
		e.slots[uint16(key)] = 0
		return nil, fmt.Errorf("%w: %v", ErrFull, reason)
	}
	e.credit += o.Notifications
	e.ops.limit = min(e.iface.Remote().Notifications-e.credit, funi.MaxRequests)
	return &Window{Key: key, Address: o.Address, Memory: memory, credit: o.Notifications, counts: o.Counts}, nil
}

// draw returns the given fixed key, or a random key for a free key slot.
func (e *Endpoint) draw(fixed Key) (Key, error) {
	if fixed != 0 {
		if n := int(uint16(fixed)); n >= len(e.slots) || e.slots[n] != 0 {
			return 0, ErrFull
		}
		return fixed, nil
	}
	for n, key := range e.slots {
		if key != 0 {
			continue
		}
		var secret [8]byte
		for secret == ([8]byte{}) { // a key that is 0 would be none
			if _, err := io.ReadFull(e.random, secret[2:]); err != nil {
				return 0, fmt.Errorf("drawing a key: %w", err)
			}
		}
		return Key(binary.LittleEndian.Uint64(secret[:])&^0xffff | uint64(n)), nil
	}
	return 0, ErrFull
}

// Revoke closes a window. When it returns, no other node changes or reads its memory any more.
// Errors are ErrWindow, ErrUntold, and those of drive.
func (e *Endpoint) Revoke(w *Window) error {
	if err := e.change("revoking", w, func(s *funi.Slot, cookie uint32) {
		s.SetCloseKeySlot(uint64(w.Key), cookie)
	}); err != nil {
		return err
	}
	e.slots[uint16(w.Key)] = 0
	e.credit -= w.credit
	e.ops.limit = min(e.iface.Remote().Notifications-e.credit, funi.MaxRequests)
	return nil
}

// Suspend makes operations on a window wait at their senders, until Resume or Revoke. The first of
// them makes a notification with Absent, if the window has room for one (Options.Notifications).
// Operations fail with ErrAbsent once engine.Config.ConnectTimeout, 30 s by default, has passed
// since that first one. Errors are those of Revoke.
func (e *Endpoint) Suspend(w *Window) error {
	return e.change("suspending", w, func(s *funi.Slot, cookie uint32) { s.SetSuspendWindow(uint64(w.Key), cookie) })
}

// Resume ends a Suspend. It also removes a lock on the window, which frees windows that a dead
// process had locked. Errors are those of Revoke.
func (e *Endpoint) Resume(w *Window) error {
	return e.change("resuming", w, func(s *funi.Slot, cookie uint32) { s.SetResumeWindow(uint64(w.Key), cookie) })
}

func (e *Endpoint) change(what string, w *Window, compose func(*funi.Slot, uint32)) error {
	if n := int(uint16(w.Key)); n >= len(e.slots) || e.slots[n] != uint64(w.Key) {
		return fmt.Errorf("%s a window: %w", what, ErrWindow)
	}
	reason, err := e.Command(compose)
	switch {
	case err != nil:
		return fmt.Errorf("%s a window: %w", what, err)
	case reason != arctic.ReasonNone:
		return fmt.Errorf("%s a window: %w: %v", what, ErrWindow, reason)
	}
	return nil
}

// commandCookie marks blocks that are not operations. One of them is in flight at a time.
const commandCookie = 1<<32 - 1

// Command commits a block that is not an operation, with that cookie, and waits until the card has
// carried it out or returned it for the reason. It is for packages that build on this one. Returns
// of earlier operations are read before that. So the return ring has room for this one, unless many
// others are returned at that time.
func (e *Endpoint) Command(compose func(s *funi.Slot, cookie uint32)) (arctic.Reason, error) {
	if err := e.retire(e.ops.upTo); err != nil {
		return 0, err
	}
	s, err := e.slot()
	if err != nil {
		return 0, err
	}
	lost := e.iface.ReturnsLost()
	compose(s, commandCookie)
	e.iface.Commit(funi.Request)
	e.ops.refused = arctic.ReasonNone
	if err := e.retire(e.iface.Committed(funi.Request)); err != nil {
		return 0, err
	}
	if e.ops.refused == arctic.ReasonNone && e.iface.ReturnsLost() != lost {
		return 0, ErrUntold
	}
	return e.ops.refused, nil
}

// retired returns how many slots of requests the card has given back.
func (e *Endpoint) retired() uint64 {
	return e.iface.Committed(funi.Request) - uint64(e.iface.Unsent(funi.Request))
}

// retire lets the card run until it has given back upTo slots, and handles returned requests.
func (e *Endpoint) retire(upTo uint64) error {
	for e.retired() < upTo {
		if err := e.step(); err != nil {
			return err
		}
	}
	e.Poll() // the card says what it gives back before it retires the slot, or in the same step
	return nil
}

// slot waits for a slot of the send queue and returns it.
func (e *Endpoint) slot() (*funi.Slot, error) {
	for {
		if s := e.iface.Reserve(funi.Request); s != nil {
			return s, nil
		}
		if err := e.step(); err != nil {
			return nil, err
		}
	}
}

// step lets the card run once, and reads what it reports.
func (e *Endpoint) step() error {
	if err := e.drive(); err != nil {
		return err
	}
	if e.Poll(); e.full() {
		return ErrUnread
	}
	return nil
}
