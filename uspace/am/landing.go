package am

// This file is the memory that long messages land in and are sent from: which part of it is free.

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

	// The library's own addresses. Each life of a node has its memory elsewhere, so that what was
	// meant for its predecessor comes back (arctic.ReasonDestination). Below lie the windows
	// through which the card reads messages where they are.
	landingBase = 0xc000_0000
	lifeStride  = MostMemory
	windowBase  = landingBase - windows*MaxBytes
	windows     = 8

	// grain is the multiple to which sizes of memory are rounded up.
	grain = 64
	// stages is how many parts of messages that are copied may be under way, and mostStage the most
	// bytes of one.
	stages    = 4
	mostStage = 256 << 10
	// mostLeases is the most bytes of memory that is leased.
	mostLeases = 4 << 20
)

// ErrLimit: Memory.Limit and Grow are out of bounds, or the endpoint has memory already.
var ErrLimit = errors.New("am: no such limit of memory for messages")

// ErrNoMemory: messages of more than ShortBytes bytes need UseMemory, once.
var ErrNoMemory = errors.New("am: messages of more than 80 bytes need memory that the card may use (UseMemory, once)")

// Memory holds what messages of more than ShortBytes bytes need of the card that the endpoint is
// on.
type Memory struct {
	// Segment returns new memory that the card may use, as the method Segment of cards.
	Segment func(base uint32, bytes int, rights funi.Rights) ([]byte, error)
	// Register lets the card use memory of the process, Unregister ends that, and Withdraw ends it
	// although transfers are under way, as the methods of a card in this process. With them long
	// messages are read where they are; without Register they are copied, unless they lie in shared
	// memory. Withdraw goes with Register, and Unregister with it or Grow.
	Register             func(funi.Segment) error
	Unregister, Withdraw func(base uint32) error
	// Now is the card's clock, in nanoseconds.
	Now func() int64
	// Limit is how many bytes of memory are taken, LeastMemory to MostMemory. An eighth of it, at
	// most 1 MiB, is for messages that are copied and leave, and a quarter, at most 4 MiB, for
	// those that come at once. Messages that arrive share the rest, so that a message which is
	// longer than that is refused (ErrMemory at its sender) or needs Grow. Copies of long replies,
	// which wait for their receivers, may take Limit and Grow again.
	Limit int
	// Grow is how many bytes more may be taken for messages that are longer than that (grow.go):
	// each has a segment of its own while it arrives, and a second one waits. 0: such messages are
	// refused. Limit and Grow together are at most MostMemory. Messages with tags do without, and
	// travel in pieces.
	Grow int
	// Hold is how long memory is left alone whose message was given up, because late packets may
	// still be written there: as long as a card sends a packet again (engine.Config.PeerTimeout).
	// 0: five seconds.
	Hold time.Duration
}

// landing is the memory of an endpoint for long messages.
type landing struct {
	Memory
	base    uint32
	memory  []byte
	stage   int // bytes of each part of memory that copies leave from; those lie first
	staged  [stages]bool
	extents     // for messages that are granted memory
	longest int // bytes of them all
	growth
	leases extents // apart, at the end, because a lease is held for long
	window [windows]windowState
	closed []quarantine // in order of time
}

type windowState uint8

const (
	windowFree windowState = iota
	windowOpen
	windowClosing // the message was delivered; the card has to unregister it yet
)

// quarantine is memory that late packets may be written to until a time.
type quarantine struct {
	extent
	to    *extents
	until int64
}

// UseMemory gives the endpoint memory for messages of more than ShortBytes bytes, once, before the
// first of them. Without it such a message can be neither sent nor received (ErrNoMemory, and
// ErrMemory at the sender). It comes after Rejoin. It takes addresses from 0xa0000000 up, which
// must be free. Errors are those of Segment, and ErrLimit. Any context; it sends nothing.
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

// close puts memory into quarantine, that of a grant or of a lease.
func (l *landing) close(x extent, to *extents) {
	l.closed = append(l.closed, quarantine{x, to, l.Now() + int64(l.Hold)})
}

// reopen ends the quarantines whose time has come.
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

// extents is memory that is free: in order, and no two that adjoin.
type extents struct{ free []extent }

// extent is size bytes from at on, both multiples of grain.
type extent struct{ at, size int }

// take returns size bytes, rounded up, the first that are free; false: no free memory is as long.
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

// give frees what was taken.
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
