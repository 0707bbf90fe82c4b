package am

// This file is shared memory as such: which of this process's memory the library may use
// for others (regions), and values in it.

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/funi"
)

// ErrAddress: an address and length do not lie in a region that was shared, with the
// right that it takes, or are not multiples of 4 bytes.
var ErrAddress = errors.New("am: not in a region that the node has shared for it, or not a multiple of 4 bytes")

// Share makes memory known to the card, by register, which is Register of the card that
// the endpoint is on, and to the library. It is known by the addresses that the region
// gives it, in bytes.
//
// With the right Destination all nodes of the group may write it: by transfers, in
// segments and by Put and Write; with Source they may read it by Get and Read, and this
// process may send from it. Memory is as transfers have it: a word is 4 bytes, a double
// 8, little-endian. What is read while it is being written may be partly old.
//
// It returns the errors of register and of funi.Segments. Any context; it sends nothing. A
// region is shared for as long as the endpoint lives.
func (e *Endpoint) Share(register func(funi.Segment) error, region funi.Segment) error {
	if err := register(region); err != nil {
		return fmt.Errorf("sharing memory: %w", err)
	}
	if err := e.regions.Register(region); err != nil {
		return fmt.Errorf("sharing memory: %w", err)
	}
	return nil
}

// ShareNew makes a region of new memory of the given size in bytes, all 0, known to the card and to
// the library, and returns it. It is Share for programs that run on embedded cards and on
// those of daemons, whose memory comes from the daemon: segment is Segment of the card
// that the endpoint is on.
func (e *Endpoint) ShareNew(segment func(uint32, int, funi.Rights) ([]byte, error), base uint32, bytes int, rights funi.Rights) ([]byte, error) {
	memory, err := segment(base, bytes, rights)
	if err == nil {
		err = e.regions.Register(funi.Segment{Base: base, Memory: memory, Rights: rights})
	}
	if err != nil {
		return nil, fmt.Errorf("sharing memory: %w", err)
	}
	return memory, nil
}

// memory returns words of the node's own shared memory, or nil.
func (e *Endpoint) memory(address uint32, words int, right funi.Rights) []byte {
	if address%4 != 0 || words < 0 || words > 1<<30 {
		return nil
	}
	return e.regions.Memory(address, 4*words, right)
}

// ownMemory is memory with an error.
func (e *Endpoint) ownMemory(address uint32, words int, right funi.Rights) ([]byte, error) {
	b := e.memory(address, words, right)
	if b == nil {
		return nil, fmt.Errorf("%d words of this node's memory at %#x: %w", words, address, ErrAddress)
	}
	return b, nil
}

// load reads as many words as fit dst.
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
