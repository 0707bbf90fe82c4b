package am

// This file manages the memory that long messages arrive in and are sent from.

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/funet/funet/uspace/funi"
)

const (
	// LeastMemory and MostMemory are the bounds of Memory.Limit, in bytes.
	LeastMemory = 64 << 10
	MostMemory  = 128 << 20

	// The library's own addresses. Each life of a node has its memory elsewhere, so that messages
	// for an earlier life come back (arctic.ReasonDestination). Below lie the windows through which
	// the card reads messages in place.
	landingBase = 0xc000_0000
	lifeStride  = MostMemory
	windowBase  = landingBase - windows*MaxBytes
	windows     = 8

	// grain is the multiple to which sizes of memory are rounded.
	grain = 64
	// stages is how many parts of copied messages may be under way, and mostStage the largest
	// number of bytes of a part.
	stages    = 4
	mostStage = 256 << 10
	// mostLeases is the largest number of bytes of leased memory.
	mostLeases = 4 << 20
)

// ErrLimit reports that Memory.Limit or Grow is out of bounds, or that the endpoint has memory
// already.
var ErrLimit = errors.New("am: no such limit of memory for messages")

// ErrNoMemory reports a message of more than ShortBytes bytes on an endpoint without UseMemory.
var ErrNoMemory = errors.New("am: messages of more than 80 bytes need memory that the card may use (UseMemory, once)")

// Memory describes the memory for messages of more than ShortBytes bytes, and the methods of the
// endpoint's card that provide it.
type Memory struct {
	// Segment returns new memory that the card may use, as the method Segment of cards does.
	Segment func(base uint32, bytes int, rights funi.Rights) ([]byte, error)
	// Register lets the card use memory of the process, and Unregister ends that. Withdraw ends it
	// even while transfers are under way, as the method of a card in this process does. With them
	// long messages are read in place. Without Register they are copied, unless they lie in shared
	// memory. Withdraw is required with Register, and Unregister with Register or Grow.
	Register             func(funi.Segment) error
	Unregister, Withdraw func(base uint32) error
	// Now is the card's clock, in nanoseconds.
	Now func() int64
	// Limit is the number of bytes of memory, LeastMemory to MostMemory. An eighth of it, at most 1
	// MiB, is for outgoing messages that are copied. A quarter, at most 4 MiB, is for incoming
	// messages that leave at once. Arriving long messages share the rest. A message longer than the
	// rest is refused (ErrMemory at its sender) or needs Grow. Copies of long replies, which wait
	// for their receivers, may take as much as Limit and Grow in addition.
	Limit int
	// Grow is how many further bytes may be taken for messages longer than that (grow.go). Each has
	// a segment of its own while it arrives; if Grow has no room for it, it waits. 0: such messages
	// are refused. Limit and Grow together are at most MostMemory. Messages with tags do not use
	// Grow; they travel in pieces.
	Grow int
	// Hold is how long the memory of a message that was given up is left alone, because late
	// packets may still be written there. It is as long as a card retransmits
	// (engine.Config.PeerTimeout). 0: five seconds.
	Hold time.Duration
}

// landing is the memory of an endpoint for long messages.
type landing struct {
	Memory
	base    uint32
	memory  []byte
	stage   int // bytes of each part of memory for copies that leave; these come first
	staged  [stages]bool
	extents     // granted to messages
	longest int // total bytes of extents
	growth
	leases extents // apart, at the end, because a lease is held for long
	window [windows]windowState
	closed []quarantine // in order of time
}

type windowState uint8

const (
	windowFree windowState = iota
	windowOpen
	windowClosing // the message was delivered; the card has yet to unregister it
)

// quarantine is memory that late packets may still be written to, until the given time.
type quarantine struct {
	extent
	to    *extents
	until int64
}

// UseMemory gives the endpoint memory for messages of more than ShortBytes bytes. It is called
// once, before the first of them and after Rejoin. Without it such a message can be neither sent
// nor received (ErrNoMemory, and ErrMemory at the sender). It takes addresses from 0xa0000000 up,
// which must be free. Errors are those of Segment, and ErrLimit. Any context; it sends nothing.
func (e *Endpoint) UseMemory(m Memory) error {
	if m.Limit < LeastMemory || m.Grow < 0 || m.Limit > MostMemory-m.Grow || e.bytes.landing != nil {
		return fmt.Errorf("using %d bytes for messages: %w: limits are %d to %d bytes, once", m.Limit, ErrLimit,
			LeastMemory, MostMemory)
	}
	l := &landing{Memory: m, base: landingBase + uint32(e.Life(e.node)&7)*lifeStride}
	if l.Hold == 0 {
		l.Hold = 5 * time.Second
	}
	size := m.Limit &^ (grain - 1)
	l.stage = min(size/8/stages, mostStage) &^ (grain - 1)
	var err error
	if l.memory, err = m.Segment(l.base, size, funi.Source|funi.Destination); err != nil {
		return fmt.Errorf("using %d bytes for messages: %w", size, err)
	}
	leases := min(size/4/leaseBytes*leaseBytes, mostLeases)
	l.longest = size - stages*l.stage - leases
	l.give(extent{stages * l.stage, l.longest})
	l.leases.give(extent{size - leases, leases})
	e.bytes.landing = l
	e.bytes.peers = make([]*bytePeer, e.nodes)
	return nil
}

// close puts the memory of a grant or of a lease into quarantine.
func (l *landing) close(x extent, to *extents) {
	l.closed = append(l.closed, quarantine{x, to, l.Now() + int64(l.Hold)})
}

// reopen frees the memory whose quarantine has ended.
func (l *landing) reopen() {
	if len(l.closed) == 0 {
		return
	}
	n := 0
	for now := l.Now(); n < len(l.closed) && l.closed[n].until <= now; n++ {
		l.giveBack(l.closed[n].extent, l.closed[n].to)
	}
	l.closed = slices.Delete(l.closed, 0, n)
}

// extents holds free memory, in order; no two extents adjoin.
type extents struct{ free []extent }

// extent is size bytes from at on, both multiples of grain.
type extent struct{ at, size int }

// take returns the first free extent of size bytes, rounded up; false: no free extent is long
// enough.
func (x *extents) take(size int) (extent, bool) {
	size = (size + grain - 1) &^ (grain - 1)
	for i := range x.free {
		if f := &x.free[i]; f.size >= size {
			taken := extent{f.at, size}
			if f.at, f.size = f.at+size, f.size-size; f.size == 0 {
				x.free = slices.Delete(x.free, i, i+1)
			}
			return taken, true
		}
	}
	return extent{}, false
}

// give frees an extent that was taken.
func (x *extents) give(f extent) {
	i, _ := slices.BinarySearchFunc(x.free, f.at, func(a extent, at int) int { return a.at - at })
	if i > 0 && x.free[i-1].at+x.free[i-1].size == f.at {
		i--
		x.free[i].size += f.size
	} else {
		x.free = slices.Insert(x.free, i, f)
	}
	if i+1 < len(x.free) && x.free[i].at+x.free[i].size == x.free[i+1].at {
		x.free[i].size += x.free[i+1].size
		x.free = slices.Delete(x.free, i+1, i+2)
	}
}
