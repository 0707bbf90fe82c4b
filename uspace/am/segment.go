package am

// This file implements segments (CMAM's, thesis appendix A and C). A segment is memory that other
// nodes fill. It counts the missing bytes, and calls a function when none are missing. A sender
// names a place in a segment by one word: segment and offset.

import (
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

const (
	// OpenSegments is the largest number of segments of an endpoint that are open at a time.
	OpenSegments = 256
	// MaxSegmentSize is the largest segment in bytes: 2^24 words, as many as the largest transfer
	// has.
	MaxSegmentSize = 1 << 26

	placeShift = 24
	placeMask  = 1<<placeShift - 1
)

// ErrSegment reports a segment that does not exist, that all segments are open, or a size or place
// beyond a segment's limits.
var ErrSegment = errors.New("am: segments are 256 of up to 64 MiB, in multiples of 4 bytes, each there from OpenSegment until it is full or closed")

// Place is a place in a segment of some node. The segment's number is in its upper 8 bits, and the
// offset, in words, in its lower 24. It travels in a word of a message.
type Place uint32

// At returns the place that is the given number of bytes further on, a multiple of 4, in the same
// segment. Beyond 64 MiB it wraps to the segment's start.
func (p Place) At(bytes int) Place {
	return p&^placeMask | (p+Place(bytes/4))&placeMask
}

// offset returns the offset in bytes.
func (p Place) offset() int { return int(p&placeMask) * 4 }

// Completion runs when a segment has been filled and closed. It runs in the handler of the last
// message, under the same rules: it may reply to the sender if the message was a request.
type Completion func(m *Message, info any)

// segments holds the segments of an endpoint. Numbers are assigned in turn, so that a late message
// for a closed segment matches none for a while.
type segments struct {
	*core
	table []segment // OpenSegments; nil: none was ever opened
	next  uint8
	// the next of the library's calls, which have their own sequence, so that nodes that open the
	// same number of them use the same names
	own uint8
}

// ownSegments is how many segments, at the end of the table, the library's own calls use.
const ownSegments = OpenSegments / 2

type segment struct {
	memory []byte // nil: not open
	base   uint32
	remain int // bytes missing
	done   Completion
	info   any
}

// OpenSegment opens a segment of size bytes of shared memory at base, for other nodes to fill, and
// returns its start. base is an address of a region with the right Destination (ErrAddress). When
// size bytes have arrived in it, at whatever places, it is closed and done is called with info;
// done may be nil. size is a multiple of 4 from 4 to MaxSegmentSize (ErrSegment).
//
// OpenSegment also returns ErrSegment while all segments are open. A program then polls until one
// has been filled, as CMAM's programs do. Any context; it sends nothing.
func (e *Endpoint) OpenSegment(base uint32, size int, done Completion, info any) (Place, error) {
	return e.segments.open(base, size, done, info, false)
}

// open opens a segment for the program, or for a call of the library.
func (t *segments) open(base uint32, size int, done Completion, info any, own bool) (Place, error) {
	if size < 4 || size%4 != 0 || size > MaxSegmentSize {
		return 0, fmt.Errorf("opening a segment of %d bytes: %w", size, ErrSegment)
	}
	memory, err := t.e.regions.own(base, size/4, funi.Destination)
	if err != nil {
		return 0, fmt.Errorf("opening a segment: %w", err)
	}
	if t.table == nil {
		t.table = make([]segment, OpenSegments)
	}
	for range t.table {
		i := t.next
		if own {
			i = OpenSegments - ownSegments + t.own%ownSegments
			t.own++
		} else {
			t.next++
		}
		if s := &t.table[i]; s.memory == nil {
			*s = segment{memory: memory, base: base, remain: size, done: done, info: info}
			return Place(i) << placeShift, nil
		}
	}
	return 0, fmt.Errorf("opening one more segment: %w", ErrSegment)
}

// Remaining returns how many bytes of an open segment have yet to arrive. It returns 0 for a
// segment that is not open, such as one that has been filled. Any context.
func (e *Endpoint) Remaining(p Place) int {
	if s := e.segments.find(p); s != nil {
		return s.remain
	}
	return 0
}

// CloseSegment closes a segment that is not full, without calling its function, and returns how
// many bytes were missing. Data that still arrives for it by Xfer is dropped and counted by
// Unknown; the card still writes data that arrives by Mfer. ErrSegment reports a segment that is
// not open. Any context; it sends nothing.
func (e *Endpoint) CloseSegment(p Place) (int, error) {
	s := e.segments.find(p)
	if s == nil {
		return 0, fmt.Errorf("closing segment %d: %w", p>>placeShift, ErrSegment)
	}
	remain := s.remain
	*s = segment{}
	return remain, nil
}

// find returns an open segment, or nil.
func (t *segments) find(p Place) *segment {
	if t.table == nil || t.table[p>>placeShift].memory == nil {
		return nil
	}
	return &t.table[p>>placeShift]
}

// at returns the open segment that contains an address, or nil. Only the library of a
// modelled machine calls it.
func (t *segments) at(address uint32) *segment {
	if !t.pace.cuts() {
		return t.find(0)
	}
	for i := range t.table {
		if s := &t.table[i]; s.memory != nil && address-s.base < uint32(len(s.memory)) {
			return s
		}
	}
	return nil
}

// xferArrived stores words at their place.
func (t *segments) xferArrived(m *Message, p Place) {
	s := t.find(p)
	if s == nil || p.offset()+4*len(m.Words) > len(s.memory) {
		t.unknown++
		return
	}
	store(s.memory[p.offset():], m.Words)
	s.count(m, 4*len(m.Words))
}

// mferArrived counts data that the card has stored at its place.
func (t *segments) mferArrived(m *Message, n funi.Notice) {
	s := t.find(Place(n.Argument))
	if n.Words > arctic.MaxSingleWords && n.Argument == 0 {
		s = t.at(n.Address) // one packet, which had no room to name it
	}
	if s == nil || n.Address < s.base || uint64(n.Address-s.base)+uint64(4*n.Words) > uint64(len(s.memory)) {
		t.unknown++
		return
	}
	s.count(m, 4*n.Words)
}

// count subtracts arrived bytes, and closes the segment when none are missing.
func (s *segment) count(m *Message, bytes int) {
	if s.remain -= bytes; s.remain > 0 {
		return
	}
	done, info := s.done, s.info
	*s = segment{}
	if done != nil {
		done(m, info)
	}
}
