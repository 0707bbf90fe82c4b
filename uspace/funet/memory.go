package funet

// This file manages memory that other nodes may read and write, and that the card sends from
// without a copy.

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/funi"
)

// Addresses that Alloc assigns. Addresses below are the program's own, for Share; those above are
// the library's.
const (
	firstAddress = 0x4000_0000
	endAddress   = 0xA000_0000
	pageSize     = 4096
	segmentUnit  = 16 // bytes; a segment is a multiple of it
)

// memory holds the segments that Alloc has returned, in the order of addresses.
type memory struct {
	blocks []block
}

type block struct {
	base  uint32
	bytes []byte
	keyed bool // for windows, until Close
}

// Default sizes of the memory for messages, in bytes, where Options gives none. A message too long
// for this memory gets a segment of its own (am.Memory.Grow).
const (
	embeddedMemory = 64 << 20 // occupies memory only when used
	attachedMemory = 4 << 20  // a daemon makes and locks all of it at once
)

// useMemory takes memory for messages from the card.
func (e *Endpoint) useMemory(limit int) error {
	m := am.Memory{Segment: e.carrier.Segment, Unregister: e.carrier.Unregister, Now: e.carrier.Now, Limit: limit}
	if limit == 0 {
		m.Grow = am.MaxBytes
	}
	k, embedded := e.carrier.(*card.Card)
	switch {
	case limit < 0, embedded && k.CPU() != nil: // a modelled machine has no long messages
		return nil
	case embedded:
		m.Register, m.Withdraw = k.Register, k.Withdraw
		m.Limit = cmp.Or(limit, embeddedMemory)
	case limit == 0:
		m.Limit = attachedMemory
	}
	err := e.am.UseMemory(m)
	for limit == 0 && errors.Is(err, attach.ErrQuota) && m.Limit > am.LeastMemory {
		m.Limit /= 2
		err = e.am.UseMemory(m)
	}
	if err != nil {
		return fmt.Errorf("%w; see Options.Memory", err)
	}
	return nil
}

// Alloc returns zeroed memory of the given number of bytes, 1 to 1.5*2^30, that the card may use,
// whether the card is in this process or in a daemon. Transfers may go from and to it. Other nodes
// may read and write it at the address that Address returns (am.Endpoint.Get, Put and so on). It
// belongs to the program until Free or Close.
//
// The address is the lowest page where the memory fits. So nodes that allocate the same sizes in
// the same order have the same addresses, as in a symmetric heap of OpenSHMEM. A card has at most
// 64 segments, and a daemon's card gives no more than its administrator allows (attach.ErrQuota).
func (e *Endpoint) Alloc(bytes int) ([]byte, error) {
	if err := e.lock(); err != nil {
		return nil, fmt.Errorf("allocating %d bytes: %w", bytes, err)
	}
	defer e.unlock()
	s, err := e.alloc(bytes, funi.Source|funi.Destination)
	if err != nil {
		return nil, fmt.Errorf("allocating %d bytes: %w", bytes, err)
	}
	return s.Memory[:bytes], nil
}

// alloc takes memory of at least the given number of bytes; the lock is held.
func (e *Endpoint) alloc(bytes int, rights funi.Rights) (funi.Segment, error) {
	base, at := e.memory.place(bytes)
	if base == 0 {
		return funi.Segment{}, ErrAddress
	}
	b, err := e.am.ShareNew(e.carrier.Segment, base, (bytes+segmentUnit-1)&^(segmentUnit-1), rights)
	if err != nil {
		return funi.Segment{}, err
	}
	e.memory.blocks = slices.Insert(e.memory.blocks, at, block{base, b, rights&funi.Keyed != 0})
	return funi.Segment{Base: base, Memory: b, Rights: rights}, nil
}

// place finds room: an address, and the index of the new block. Address 0 means that there is no
// room.
func (m *memory) place(bytes int) (base uint32, at int) {
	if bytes < 1 || bytes > endAddress-firstAddress {
		return 0, 0
	}
	free := uint64(firstAddress)
	for i, b := range m.blocks {
		if free+uint64(bytes) <= uint64(b.base) {
			return uint32(free), i
		}
		free = (uint64(b.base) + uint64(len(b.bytes)) + pageSize - 1) &^ (pageSize - 1)
	}
	if free+uint64(bytes) > endAddress {
		return 0, 0
	}
	return uint32(free), len(m.blocks)
}

// find returns the index of the block that begins where b does, or -1.
func (m *memory) find(b []byte) int {
	if len(b) == 0 {
		return -1
	}
	return slices.IndexFunc(m.blocks, func(x block) bool { return &x.bytes[0] == &b[0] })
}

// Address returns the address of memory that Alloc returned, or ErrAddress.
func (e *Endpoint) Address(b []byte) (uint32, error) {
	if err := e.lock(); err != nil {
		return 0, fmt.Errorf("finding memory: %w", err)
	}
	defer e.unlock()
	at := e.memory.find(b)
	if at < 0 {
		return 0, fmt.Errorf("finding %d bytes: %w", len(b), ErrAddress)
	}
	return e.memory.blocks[at].base, nil
}

// Free gives back memory that Alloc returned; the program must not touch it afterwards. While
// transfers use the memory the card refuses (attach.ErrBusy, engine.ErrSegmentBusy), and Free can
// be called again.
func (e *Endpoint) Free(b []byte) error {
	if err := e.lock(); err != nil {
		return fmt.Errorf("freeing memory: %w", err)
	}
	defer e.unlock()
	at := e.memory.find(b)
	if at < 0 || e.memory.blocks[at].keyed {
		return fmt.Errorf("freeing %d bytes: %w", len(b), ErrAddress)
	}
	if err := e.am.Unshare(e.carrier.Unregister, e.memory.blocks[at].base); err != nil {
		return fmt.Errorf("freeing %d bytes: %w", len(b), err)
	}
	e.memory.blocks = slices.Delete(e.memory.blocks, at, at+1)
	return nil
}

// Share lets the card and other nodes use memory of the program, at addresses below 0x40000000. It
// works with a card in this process. A daemon's card refuses it (attach.ErrOwnMemory): use memory
// of Alloc instead, and build the data there.
func (e *Endpoint) Share(region funi.Segment) error {
	if err := e.lock(); err != nil {
		return fmt.Errorf("sharing memory: %w", err)
	}
	defer e.unlock()
	if uint64(region.Base)+uint64(len(region.Memory)) > firstAddress {
		return fmt.Errorf("sharing memory at %#x: %w; use addresses below %#x", region.Base, ErrAddress, firstAddress)
	}
	return e.am.Share(e.carrier.Register, region)
}
