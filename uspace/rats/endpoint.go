package rats

// This file is what a process opens: memory with a key, areas, seeds for both; and the records of
// what has come.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

var (
	// ErrFull: the send queue, the key slots, the areas or the table of handles are full. Let the
	// card run, read records, or close something.
	ErrFull = errors.New("rats: no room; let the card run, or close what is not needed")
	// ErrMemory: the memory is in no segment that was registered for it.
	ErrMemory = errors.New("rats: the memory is in no segment that has the right for it; register it with the card and tell the endpoint (Use)")
	// ErrTooLong: the message is longer than its ticket allows, or its metadata than 11 words.
	ErrTooLong = errors.New("rats: the message is longer than its ticket allows, or has more than 11 words of metadata")
	// ErrNone: the context was attached without room for remote memory.
	ErrNone = errors.New("rats: the context has no remote memory; ask for it when it is attached")
	// ErrHandle: the handle is of no message that the endpoint knows of, or no longer.
	ErrHandle = errors.New("rats: no such handle, or one of more than 1024 messages ago")
)

// Endpoint is a process's end. See doc.go.
type Endpoint struct {
	iface    *funi.Interface
	node     uint16
	random   io.Reader
	segments funi.Segments
	keys     []key // index the key slot
	keySlots numbers
	areas    numbers
	sent     sends
	pace     pace
	// OtherNotes takes entries of the notification ring that are not of areas: of operations on
	// windows (funi/operation.go); nil: there are none.
	OtherNotes func(*funi.Notification)
	// Others takes requests that came back and are not of remote memory; nil: there are none.
	Others func(funi.Returned)
	// takes what came back of a manager's instances; nil: there is no manager
	owned func(funi.Returned)
	// suspect tells a manager's instances of returns that were lost; nil: there is no manager.
	suspect func(*funi.Lost)
	lost    uint32 // returns, as far as hearLost knows
	lostTo  funi.Lost
}

// Key is what gives access to memory: see Expose.
type Key uint64

// key is a key slot as the endpoint knows it.
type key struct {
	key  Key
	open bool
}

// New returns the end of the process that is the node of its group. random is where keys come from:
// crypto/rand's Reader, but in virtual time. It returns ErrNone.
func New(iface *funi.Interface, node int, random io.Reader) (*Endpoint, error) {
	sizes := iface.Remote()
	if sizes == (funi.RemoteSizes{}) {
		return nil, ErrNone
	}
	e := &Endpoint{iface: iface, node: uint16(node), random: random, keys: make([]key, sizes.KeySlots)}
	e.keySlots.fill(sizes.KeySlots)
	e.areas.fill(sizes.Areas)
	e.lost = iface.ReturnsLost()
	e.lostTo.Look(iface)
	return e, nil
}

// Use tells the endpoint of a segment that the process has registered with its card. Errors are
// those of funi.Segments.
func (e *Endpoint) Use(s funi.Segment) error { return e.segments.Register(s) }

// Expose gives a new key to memory, which lies in a segment with the right Keyed. What is sent
// afterwards on the request level may tell others of it. Errors are ErrMemory, ErrFull, and those
// of the source of randomness.
func (e *Endpoint) Expose(memory []byte) (Key, Handle, error) {
	k, address, err := e.draw(memory)
	if err != nil {
		return 0, 0, fmt.Errorf("exposing %d bytes: %w", len(memory), err)
	}
	h, err := e.launch(func(s *funi.Slot, cookie uint32) {
		s.SetOpenKeySlot(uint64(k), address, uint32(len(memory)), cookie)
	})
	if err != nil {
		return 0, 0, fmt.Errorf("exposing %d bytes: %w", len(memory), err)
	}
	e.opened(k)
	return k, h, nil
}

// draw draws a key for the key slot that is free next, and returns the address of the memory.
func (e *Endpoint) draw(memory []byte) (k Key, address uint32, err error) {
	address, ok := e.segments.Address(memory, funi.Keyed)
	if !ok || len(memory) == 0 {
		return 0, 0, ErrMemory
	}
	var secret [8]byte
	if _, err := io.ReadFull(e.random, secret[2:]); err != nil {
		return 0, 0, fmt.Errorf("drawing a key: %w", err)
	}
	n, ok := e.keySlots.next()
	if !ok {
		return 0, 0, ErrFull
	}
	return Key(binary.LittleEndian.Uint64(secret[:])&^0xffff | uint64(n)), address, nil
}

// opened notes that the key slot that was free next has a key.
func (e *Endpoint) opened(k Key) {
	e.keySlots.take()
	e.keys[uint16(k)] = key{k, true}
}

// Revoke takes a key back. Whoever still has it cannot write any more when Status of the handle is
// Sent: then the memory is the process's alone. Errors are ErrHandle for a key that is not open,
// ErrFull.
func (e *Endpoint) Revoke(k Key) (Handle, error) {
	n := uint16(k)
	if int(n) >= len(e.keys) || e.keys[n] != (key{k, true}) {
		return 0, fmt.Errorf("revoking a key: %w", ErrHandle)
	}
	h, err := e.launch(func(s *funi.Slot, cookie uint32) { s.SetCloseKeySlot(uint64(k), cookie) })
	if err == nil {
		e.keys[n].open = false
		e.keySlots.give(n)
	}
	return h, err
}

// Open opens an area that counts for a key. At most credit records of it are unread: what would be
// one more waits at its sender, or with returns comes back there (arctic.ReasonNoBuffer). The
// handle fails (arctic.ReasonNotOpened) when all areas together would have more credit than the
// context has notifications (funi.RemoteSizes). It returns ErrFull.
func (e *Endpoint) Open(k Key, credit int, returns bool) (area uint16, h Handle, err error) {
	area, ok := e.areas.next()
	if !ok {
		return 0, 0, fmt.Errorf("opening an area: %w", ErrFull)
	}
	h, err = e.launch(func(s *funi.Slot, cookie uint32) { s.SetOpenArea(area, uint64(k), credit, returns, cookie) })
	if err != nil {
		return 0, 0, fmt.Errorf("opening an area: %w", err)
	}
	e.areas.take()
	return area, h, nil
}

// Reset makes the counter of an area 0, when a member of a group has died with its message half
// sent. Messages under way still count: see Close.
func (e *Endpoint) Reset(area uint16) (Handle, error) {
	return e.launch(func(s *funi.Slot, cookie uint32) { s.SetResetArea(area, cookie) })
}

// Close closes an area; its records have to be read before its number is opened again, and what
// comes for it is refused.
func (e *Endpoint) Close(area uint16) (Handle, error) {
	h, err := e.launch(func(s *funi.Slot, cookie uint32) { s.SetCloseArea(area, cookie) })
	if err == nil {
		e.areas.give(area)
	}
	return h, err
}

// Seed returns a seed for messages to all of the memory of a key, each complete by itself.
func (e *Endpoint) Seed(k Key, area uint16, size uint32, protocol uint8) Seed {
	return Seed{Protocol: protocol, Ticket: Ticket{Node: e.node, Area: area, Key: uint64(k), Size: size}}
}

// NextRecord takes the oldest notification record into n, or returns false if there is none (3.1,
// get_notification_record).
func (e *Endpoint) NextRecord(n *funi.Notification) bool {
	for e.iface.NextNotification(n) {
		if n.Kind == funi.NoteArea {
			return true
		}
		if e.OtherNotes != nil {
			e.OtherNotes(n)
		}
	}
	return false
}

// TakeKeySlot returns the number of a key slot that the endpoint leaves to the process from now on,
// or false if none is free.
func (e *Endpoint) TakeKeySlot() (n uint16, ok bool) {
	if n, ok = e.keySlots.next(); ok {
		e.keySlots.take()
	}
	return n, ok
}

// GiveKeySlot gives it back; it is not open any more.
func (e *Endpoint) GiveKeySlot(n uint16) { e.keySlots.give(n) }

// Poll takes what the card has returned. Where something else reads the returns of the interface
// too, that passes them on to Returned; Others takes what Poll finds of its.
func (e *Endpoint) Poll() {
	for r, ok := e.iface.NextReturn(); ok; r, ok = e.iface.NextReturn() {
		if !e.Returned(r) && e.Others != nil {
			e.Others(r)
		}
	}
	e.hearLost()
}

// hearLost notes for which nodes the return ring had no room since the last time.
func (e *Endpoint) hearLost() {
	lost := e.iface.ReturnsLost()
	if lost == e.lost {
		return
	}
	e.lost = lost
	e.lostTo.Look(e.iface)
	e.sent.suspect(&e.lostTo)
	if e.suspect != nil {
		e.suspect(&e.lostTo)
	}
}

// Returned notes a request that came back, and reports whether it was of remote memory: a write, or
// of a key slot or an area.
func (e *Endpoint) Returned(r funi.Returned) bool {
	if op := r.Header.Operation(); !r.Header.Remote() || op != funi.RemotePut &&
		(op < funi.OpenKeySlot || op > funi.ResetArea) {
		return false
	}
	if r.Word&ownerCookie != 0 {
		if e.owned != nil {
			e.owned(r)
		}
	} else if m := e.sent.at(r.Word); m != nil {
		m.reason = r.Reason
	}
	return true
}

// numbers is a set of numbers that are free; the one that has been free longest is taken first.
type numbers struct {
	free  []uint16
	first int
	n     int
}

func (s *numbers) fill(n int) {
	s.free, s.n = make([]uint16, n), n
	for i := range s.free {
		s.free[i] = uint16(i)
	}
}

// next returns the number that take takes, or false if none is free.
func (s *numbers) next() (uint16, bool) { return s.free[s.first], s.n > 0 }

func (s *numbers) take() {
	s.first = (s.first + 1) % len(s.free)
	s.n--
}

func (s *numbers) give(v uint16) {
	s.free[(s.first+s.n)%len(s.free)] = v
	s.n++
}

// NoReason is the Reason of a message that did not come back.
const NoReason = arctic.ReasonNone
