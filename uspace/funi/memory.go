package funi

// This file is the memory of a context and its division into queues.

import (
	"errors"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/funet/funet/uspace/arctic"
)

const (
	// MinSlots and MaxSlots bound the size of a queue (thesis 3.1.1). Sizes are powers of two.
	MinSlots  = 2
	MaxSlots  = 1 << 16
	queues    = 4             // how many queues a context has
	slotBytes = SlotWords * 4 // the size of a slot in bytes
)

// ErrSlots reports a queue size that is not a power of two from MinSlots to MaxSlots.
var ErrSlots = errors.New("funi: a queue has a power of two of slots, from 2 to 65536")

// ErrLayout reports queue registers that do not lie in the queue memory.
var ErrLayout = errors.New("funi: queue registers point outside the queue memory")

// Memory is the memory that a context shares with its card.
type Memory struct {
	Page   *Page
	Queues []uint32
	// Doorbells is where the process rings. Attaching fills it in if the card is in the process.
	// Far is nil if contexts from NearBells on cannot ring.
	Doorbells *Doorbells
	Far       *FarDoorbells
	// Wake wakes the thread of a card that runs elsewhere and sleeps. The process calls it. It is
	// nil for a card that never sleeps.
	Wake func()
	// Remote is how much remote memory the context can open. notes is the notification ring and
	// what lies behind it (remote.go).
	Remote RemoteSizes
	notes  []uint32
}

// NewMemory allocates the memory of a context whose card lives in the same
// process, with room for four queues of the given number of slots.
func NewMemory(slots int) (*Memory, error) {
	if !legal(slots) {
		return nil, fmt.Errorf("making queues of %d slots: %w", slots, ErrSlots)
	}
	return &Memory{Page: (*Page)(alignedWords(PageSize / 4)), Queues: alignedWords(queues * slots * SlotWords)}, nil
}

// alignedWords allocates n words that start on a cache line.
func alignedWords(n int) []uint32 {
	const line = 64
	w := make([]uint32, n+line/4)
	skip := 0
	if over := uintptr(unsafe.Pointer(&w[0])) % line; over != 0 {
		skip = int(line-over) / 4
	}
	return w[skip : skip+n : skip+n]
}

// ring is one queue, as both ends see it: slots, a mask for indices, and the registers HD and TL.
// Without slots it is halted.
type ring struct {
	slots  []Slot
	mask   uint32
	hd, tl *uint32
}

// halted returns the queues of one direction without slots.
func (p *Page) halted(bases [arctic.Levels]Register) (r [arctic.Levels]ring) {
	for l, base := range bases {
		head := int(RPSQHead + 2*(base-RPSQBase))
		r[l] = ring{hd: &p[head*registerWords], tl: &p[(head+1)*registerWords]}
	}
	return r
}

// rings reads Q_MASK and the BASE registers of one direction once, and returns its queues, or
// ErrSlots or ErrLayout. Bases are truncated to 32-word alignment (thesis 3.1.2).
func (m *Memory) rings(bases [arctic.Levels]Register) ([arctic.Levels]ring, error) {
	r, err := m.Page.halted(bases), error(nil)
	mask := m.Page.Load(QMask)
	slots := int(mask) + 1
	if mask >= MaxSlots || !legal(slots) {
		return r, fmt.Errorf("reading Q_MASK %#x: %w", mask, ErrSlots)
	}
	for l := range r {
		if r[l].slots, err = m.slots(m.Page.Load(bases[l]), slots); err != nil {
			return r, err
		}
		r[l].mask = mask
	}
	return r, nil
}

// slots returns the slots of the queue of that many slots, a legal number, at a base.
func (m *Memory) slots(base uint32, slots int) ([]Slot, error) {
	at, words := uint64(base)&^(slotBytes-1)/4, uint64(slots*SlotWords)
	if at+words > uint64(len(m.Queues)) {
		return nil, fmt.Errorf("reading base %#x of a queue of %d slots in %d bytes: %w", base, slots,
			len(m.Queues)*4, ErrLayout)
	}
	return unsafe.Slice((*Slot)(unsafe.Pointer(unsafe.SliceData(m.Queues[at:at+words]))), slots), nil
}

// legal reports whether a queue may have the given number of slots.
func legal(slots int) bool {
	return slots >= MinSlots && slots <= MaxSlots && bits.OnesCount(uint(slots)) == 1
}
