package rats

// This file opens memory with a key, areas, and seeds for both, and returns the records of messages
// that have arrived.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

var (
	// ErrFull reports that the send queue, the key slots, the areas or the table of handles are
	// full. Let the card run, read records, or close something.
	ErrFull = errors.New("rats: no room; let the card run, or close what is not needed")
	// ErrMemory reports memory that lies in no segment with the right for it.
	ErrMemory = errors.New("rats: the memory is in no segment that has the right for it; register it with the card and tell the endpoint (Use)")
	// ErrTooLong reports a message longer than its ticket, or more than 11 words of metadata.
	ErrTooLong = errors.New("rats: the message is longer than its ticket allows, or has more than 11 words of metadata")
	// ErrNone reports a context that was attached without room for remote memory.
	ErrNone = errors.New("rats: the context has no remote memory; ask for it when it is attached")
	// ErrHandle reports a handle of a message that the endpoint does not know, or no longer knows.
	ErrHandle = errors.New("rats: no such handle, or one of more than 1024 messages ago")
)

// Endpoint is a process's end of remote memory. See doc.go.
type Endpoint struct {
	iface    *funi.Interface
	node     uint16
	random   io.Reader
	segments funi.Segments
	keys     []key // by key slot
	keySlots numbers
	areas    numbers
	sent     sends
	pace     pace
	// OtherNotes takes entries of the notification ring that are not of areas but of operations on
	// windows (funi/operation.go); nil: there are none.
	OtherNotes func(*funi.Notification)
	// Others takes returned requests that are not of remote memory; nil: there are none.
	Others func(funi.Returned)
	// Shared says that another library on the same interface reads the returns, and passes those of
	// this package to Returned.
	Shared bool
	// owned takes returned requests of a manager's instances; nil: there is no manager.
	owned func(funi.Returned)
	// suspect tells a manager's instances of returns that were lost; nil: there is no manager.
	suspect func(*funi.Lost)
	lost    uint32 // number of lost returns that hearLost knows of
	lostTo  funi.Lost
}

// Key is the secret that gives access to memory: see Expose.
type Key uint64

type key struct {
	key  Key
	open bool
}

// New returns the endpoint of the process that is the given node of its group. Keys are drawn from
// random, which is crypto/rand's Reader except in virtual time. It returns ErrNone.
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

// Expose assigns a new key to memory, which lies in a segment with the right Keyed. Messages sent
// afterwards on the request level may pass the key on. Errors are ErrMemory, ErrFull, and those of
// the source of randomness.
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

// draw draws a key for the next free key slot, and returns the address of the memory.
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

// opened records that the next free key slot has a key.
func (e *Endpoint) opened(k Key) {
	e.keySlots.take()
	e.keys[uint16(k)] = key{k, true}
}

// Revoke takes a key back. Once Status of the handle is Sent, no holder of the key can write any
// more, and the memory is the process's alone. Errors are ErrHandle for a closed key, and ErrFull.
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

// Open opens an area that counts for a key. At most credit records of it are unread. A packet that
// would make one more waits at its sender, or with returns comes back there
// (arctic.ReasonNoBuffer). The handle fails (arctic.ReasonNotOpened) if all areas together would
// have more credit than the context has notifications (funi.RemoteSizes). Open returns ErrFull.
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

// Reset sets the counter of an area to 0, for a group one of whose members has died with its
// message half sent. Messages in flight still count: see Close.
func (e *Endpoint) Reset(area uint16) (Handle, error) {
	return e.launch(func(s *funi.Slot, cookie uint32) { s.SetResetArea(area, cookie) })
}

// Close closes an area. Packets for it are refused from then on. Its records must be read before
// its number is opened again.
func (e *Endpoint) Close(area uint16) (Handle, error) {
	h, err := e.launch(func(s *funi.Slot, cookie uint32) { s.SetCloseArea(area, cookie) })
	if err == nil {
		e.areas.give(area)
	}
	return h, err
}

// Seed returns a seed for messages to all memory of a key. Each message is complete by itself.
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

// TakeKeySlot reserves a key slot for the process's own use and returns its number. It returns
// false if none is free.
func (e *Endpoint) TakeKeySlot() (n uint16, ok bool) {
	if n, ok = e.keySlots.next(); ok {
		e.keySlots.take()
	}
	return n, ok
}

// GiveKeySlot returns a slot of TakeKeySlot, which must be closed by then.
func (e *Endpoint) GiveKeySlot(n uint16) { e.keySlots.give(n) }

// Poll takes the requests that the card has returned. Those of another user of the interface go to
// Others. With Shared it takes none.
func (e *Endpoint) Poll() {
	for !e.Shared {
		r, ok := e.iface.NextReturn()
		if !ok {
			break
		}
		if !e.Returned(r) && e.Others != nil {
			e.Others(r)
		}
	}
	e.hearLost()
}

// hearLost handles returns that were lost because the return ring was full: it determines their
// nodes.
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

// Returned handles a returned request, and reports whether it belonged to remote memory: a write,
// or a request for a key slot or an area.
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

// numbers is a set of free numbers; the one that has been free longest is taken first.
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

// NoReason is the Reason of a message that was not returned.
const NoReason = arctic.ReasonNone
