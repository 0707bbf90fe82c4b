package am

// This file manages shared memory: the regions of this process's memory that the library may read
// and write for other nodes, and access to their words.

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/funi"
)

// ErrAddress reports an address or length that is not a multiple of 4 bytes, or memory that does
// not lie in one shared region with the right that the call needs.
var ErrAddress = errors.New("am: not in a region that the node has shared for it, or not a multiple of 4 bytes")

// Share lets the card and the library use a region of this process's memory, at the region's byte
// addresses. register is the method Register of the endpoint's card.
//
// With the right Destination all nodes of the group may write the region: by transfers, in
// segments, and by Put and Write. With Source they may read it by Get and Read, and this process
// may send transfers from it. A word has 4 bytes and a double 8, little-endian, as in transfers. A
// read at the same time as a write may return some words of the old data and some of the new.
//
// Share returns the errors of register and of funi.Segments. Any context; it sends nothing. A
// region is shared until Unshare.
func (e *Endpoint) Share(register func(funi.Segment) error, region funi.Segment) error {
	if err := register(region); err != nil {
		return fmt.Errorf("sharing memory: %w", err)
	}
	if err := e.regions.Register(region); err != nil {
		return fmt.Errorf("sharing memory: %w", err)
	}
	return nil
}

// ShareNew is Share of new zeroed memory of the given size in bytes, which it returns. It works on
// embedded cards, and on the cards of daemons, which make such memory themselves. segment is the
// method Segment of the endpoint's card.
func (e *Endpoint) ShareNew(segment func(uint32, int, funi.Rights) ([]byte, error), base uint32, bytes int,
	rights funi.Rights) ([]byte, error) {
	memory, err := segment(base, bytes, rights)
	if err == nil {
		err = e.regions.Register(funi.Segment{Base: base, Memory: memory, Rights: rights})
	}
	if err != nil {
		return nil, fmt.Errorf("sharing memory: %w", err)
	}
	return memory, nil
}

// Unshare ends the sharing of the region at base. unregister is the method Unregister of the card.
// If it returns an error, for example because the card still uses the memory, Unshare returns that,
// and the region remains shared. Any context.
func (e *Endpoint) Unshare(unregister func(uint32) error, base uint32) error {
	if _, err := e.regions.At(base); err != nil {
		return fmt.Errorf("unsharing memory: %w", err)
	}
	if err := unregister(base); err != nil {
		return fmt.Errorf("unsharing memory: %w", err)
	}
	return e.regions.Unregister(base)
}

// regions are the regions of the node's own memory that are shared.
type regions struct{ funi.Segments }

// words returns words of shared memory, or nil.
func (r *regions) words(address uint32, words int, right funi.Rights) []byte {
	if address%4 != 0 || words < 0 || words > 1<<30 {
		return nil
	}
	return r.Memory(address, 4*words, right)
}

// own is words that returns an error.
func (r *regions) own(address uint32, words int, right funi.Rights) ([]byte, error) {
	b := r.words(address, words, right)
	if b == nil {
		return nil, fmt.Errorf("%d words of this node's memory at %#x: %w", words, address, ErrAddress)
	}
	return b, nil
}

// load reads words from memory until dst is full.
func load(dst []uint32, memory []byte) {
	for i := range dst {
		dst[i] = binary.LittleEndian.Uint32(memory[4*i:])
	}
}

// store writes words.
func store(memory []byte, words []uint32) {
	for i, w := range words {
		binary.LittleEndian.PutUint32(memory[4*i:], w)
	}
}
