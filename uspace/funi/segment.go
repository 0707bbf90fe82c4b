package funi

// This file has segments: the memory of a process that its card may use for the sources and
// destinations of XFER (thesis 2.6, 3.2.4).
//
// On the hardware an address was a virtual address, and memory management said which ones belonged
// to the process. Here the process registers segments with its card. Each covers a range of a
// 32-bit address space of the context. The addresses in XFER slots and packets are of that space.
// Address 0 means none. A transfer lies in one segment.
//
// Memory is bytes: a transfer moves them unchanged. Where a slot's words go to
// memory or come from it, word i is bytes 4i to 4i+3 in little-endian order.

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/funet/funet/uspace/arctic"
)

// MaxSegments is the most segments of a context.
const MaxSegments = 64

// Errors of segments.
var (
	// ErrSegment reports a segment with an invalid base, size or rights.
	ErrSegment = errors.New("funi: a segment starts at a multiple of 16 other than 0, has a positive multiple of 16 bytes, ends within 32 bits and gives a right")
	// ErrOverlap reports a range of which a part is registered already.
	ErrOverlap = errors.New("funi: segments must not overlap")
	// ErrTooManySegments reports a context that has MaxSegments already.
	ErrTooManySegments = errors.New("funi: a context has at most 64 segments")
	// ErrNoSegment reports that no segment starts at the address.
	ErrNoSegment = errors.New("funi: no segment is registered at that address")
)

// Rights say what a segment is for.
type Rights uint8

// The rights.
const (
	Source      Rights = 1 << iota // lets the card fetch transfers that the process itself asks for
	Destination                    // lets every node of the group write
	// Keyed lets the process open key slots in the segment, for nodes that have the keys
	// (remote.go). XFER does not reach it.
	Keyed
)

// Segment is a range of a context's addresses and the memory behind it.
type Segment struct {
	Base uint32 // the address of the first byte
	// Memory must not be moved while it is registered. The card reads a source
	// until its slot is retired and writes a destination until its notice.
	Memory []byte
	Rights Rights
}

// Bytes returns the memory of words as bytes, for a Segment: each word in the machine's byte order.
func Bytes(words []uint32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*4)
}

// Doubles returns the memory of a segment as doubles, in the machine's byte order; bytes behind the
// last whole one are left out. The memory must begin on a word, as all memory from cards does.
func Doubles(b []byte) []float64 {
	return unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/8)
}

// Segments is the segments of a context, as the card keeps them. It belongs to the
// card's goroutine. The zero value has none.
type Segments struct {
	table []Segment // in order of address
	last  int       // where the last address was found
}

// Register adds a segment. It refuses an invalid one (ErrSegment), one that overlaps another
// (ErrOverlap), and one too many (ErrTooManySegments).
func (t *Segments) Register(s Segment) error {
	size := uint64(len(s.Memory))
	if s.Base == 0 || s.Base%arctic.TransferAlign != 0 || size == 0 || size%arctic.TransferAlign != 0 ||
		uint64(s.Base)+size > 1<<32 || s.Rights&(Source|Destination|Keyed) == 0 {
		return fmt.Errorf("registering %d bytes at %#x with rights %d: %w", size, s.Base, s.Rights, ErrSegment)
	}
	at := 0
	for ; at < len(t.table) && t.table[at].Base < s.Base; at++ {
	}
	if at > 0 && uint64(t.table[at-1].Base)+uint64(len(t.table[at-1].Memory)) > uint64(s.Base) ||
		at < len(t.table) && uint64(s.Base)+size > uint64(t.table[at].Base) {
		return fmt.Errorf("registering %d bytes at %#x: %w", size, s.Base, ErrOverlap)
	}
	if len(t.table) == MaxSegments {
		return fmt.Errorf("registering %d bytes at %#x: %w", size, s.Base, ErrTooManySegments)
	}
	t.table = append(t.table, Segment{})
	copy(t.table[at+1:], t.table[at:])
	t.table[at] = s
	t.last = at
	return nil
}

// Unregister removes the segment that starts at base, or returns ErrNoSegment.
func (t *Segments) Unregister(base uint32) error {
	for i := range t.table {
		if t.table[i].Base == base {
			copy(t.table[i:], t.table[i+1:])
			t.table[len(t.table)-1] = Segment{}
			t.table = t.table[:len(t.table)-1]
			t.last = 0
			return nil
		}
	}
	return fmt.Errorf("unregistering the segment at %#x: %w", base, ErrNoSegment)
}

// At returns the segment that starts at base, or ErrNoSegment.
func (t *Segments) At(base uint32) (Segment, error) {
	for _, s := range t.table {
		if s.Base == base {
			return s, nil
		}
	}
	return Segment{}, fmt.Errorf("looking for the segment at %#x: %w", base, ErrNoSegment)
}

// All returns the segments in the order of their addresses. The list is valid until the next is
// registered or unregistered.
func (t *Segments) All() []Segment { return t.table }

// Memory returns size bytes at an address, or nil unless they lie in one segment
// that has the right. It accepts any address and any size.
func (t *Segments) Memory(address uint32, size int, right Rights) []byte {
	if t.last < len(t.table) {
		if s := &t.table[t.last]; s.Covers(address) {
			return s.memory(address, size, right)
		}
	}
	for i := range t.table {
		if s := &t.table[i]; s.Covers(address) {
			t.last = i
			return s.memory(address, size, right)
		}
	}
	return nil
}

// Address returns the address of memory that lies in one segment with the right, or false.
func (t *Segments) Address(b []byte, right Rights) (uint32, bool) {
	for i := range t.table {
		s := &t.table[i]
		at := uintptr(unsafe.Pointer(unsafe.SliceData(b))) - uintptr(unsafe.Pointer(unsafe.SliceData(s.Memory)))
		if s.Rights&right == right && at < uintptr(len(s.Memory)) && len(b) <= len(s.Memory)-int(at) {
			return s.Base + uint32(at), true
		}
	}
	return 0, false
}

// Covers reports whether an address is the segment's.
func (s *Segment) Covers(address uint32) bool {
	return address >= s.Base && uint64(address-s.Base) < uint64(len(s.Memory))
}

// memory returns size bytes at an address that the segment covers.
func (s *Segment) memory(address uint32, size int, right Rights) []byte {
	at := int(address - s.Base)
	if s.Rights&right != right || size < 0 || size > len(s.Memory)-at {
		return nil
	}
	return s.Memory[at : at+size : at+size]
}

// Holds reports whether memory of at least one byte begins in the segment.
func (s *Segment) Holds(b []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))-uintptr(unsafe.Pointer(unsafe.SliceData(s.Memory))) <
		uintptr(len(s.Memory))
}
