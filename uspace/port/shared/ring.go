package shared

// This file is a ring: frames of one process for one other, in memory that both map. Both may be
// hostile: each end keeps its own position in memory of its own, and believes of a word in the ring
// no more than it has checked.
//
//	0      u32 reader: 0 nobody, 1 it reads, 2 it sleeps, 3 it reads no more; the reader's to
//	       write
//	64     u64 tail: bytes that the reader has taken since the beginning; the reader's to write
//	4096   data: records, each at a multiple of 64 bytes (a cache line)
//
// A record is a u32, 4 bytes of nothing, and a frame of as many bytes as the word says. It does not
// go around the end of the data: where the rest is too short it has a record whose word is around,
// and the next record is at the beginning.
//
// The word of a record makes it visible, so the reader looks at one line where a head beside the
// data would be another. Whatever was there a lap ago might look like a word; the writer therefore
// clears the word behind a record before it makes the record visible, and keeps a line free for
// that.
//
// The words are atomic. Those of Go are sequentially consistent, which the sleep needs: the writer
// stores a record's word and then loads reader; the reader stores asleep and then loads the next
// record's word. One of the two sees the other's store (Dekker), so no frame waits for a reader
// that sleeps.

import (
	"sync/atomic"
	"unsafe"

	"github.com/funet/funet/uspace/arctic"
)

const (
	line     = 64
	control  = 4096       // before the data
	capacity = 256 << 10  // of the data, in bytes; a power of two
	around   = ^uint32(0) // word of a record: the next one is at the beginning
	frameAt  = 8          // in a record
	// tellEvery is how many bytes the reader takes until it stores tail: its line then goes to the
	// writer's processor once for many frames.
	tellEvery = capacity / 8

	ringSize = control + capacity
	// Size is how much memory two neighbours share, in bytes: a ring for each direction, the first
	// of which is the lower node's to write.
	Size = 2 * ringSize
)

// Words of reader.
const (
	reads  = 1
	asleep = 2
	left   = 3
)

// ring is the memory of one direction.
type ring struct {
	reader *atomic.Uint32
	tail   *atomic.Uint64
	data   []byte
}

// ringOf finds a ring in ringSize bytes at the beginning of a page.
func ringOf(b []byte) ring {
	return ring{(*atomic.Uint32)(unsafe.Pointer(&b[0])), (*atomic.Uint64)(unsafe.Pointer(&b[line])),
		b[control:ringSize]}
}

// word is that of the record at a position, a multiple of line.
func (r *ring) word(at uint64) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&r.data[at%capacity]))
}

// span is how many bytes the record of a frame takes.
func span(frame int) uint64 { return uint64(frame+frameAt+line-1) &^ (line - 1) }

// writer is the writing end.
type writer struct {
	ring
	head uint64 // position of the next record
	seen uint64 // tail, when it was last looked at
}

// fate is what became of a frame.
type fate uint8

const (
	none   fate = iota // no frame is there, or there is no room for one
	moved              // one was put in, or taken out
	broken             // the other end has written what cannot be
)

// put puts a frame of arctic.HeaderSize bytes or more in.
func (w *writer) put(frame []byte) fate {
	at, need := w.head, span(len(frame))
	if rest := capacity - at%capacity; need > rest {
		at += rest
	}
	end := at + need
	if end+line-w.seen > capacity {
		tail := w.tail.Load()
		if tail-w.seen > w.head-w.seen { // it has taken more than there was, or given back
			return broken
		}
		if w.seen = tail; end+line-tail > capacity {
			return none
		}
	}
	*(*uint32)(unsafe.Pointer(&w.data[end%capacity])) = 0 // which the store below makes visible
	copy(w.data[at%capacity+frameAt:], frame)
	w.word(at).Store(uint32(len(frame)))
	if at != w.head {
		w.word(w.head).Store(around)
	}
	w.head = end
	return moved
}

// reader is the reading end.
type reader struct {
	ring
	at   uint64 // position of the next record
	told uint64 // tail
}

// ready reports whether something is there.
func (r *reader) ready() bool { return r.word(r.at).Load() != 0 }

// next copies the next frame into b. Each word is loaded once.
func (r *reader) next(b []byte) (frame []byte, _ fate) {
	n := r.word(r.at).Load()
	if n == 0 {
		return nil, none
	}
	if n == around {
		r.at += capacity - r.at%capacity
		n = r.word(r.at).Load() // which was there before
	}
	if n < arctic.HeaderSize || n > uint32(len(b)) {
		return nil, broken
	}
	// what goes beyond the end is shorter than it says
	frame = b[:copy(b[:n], r.data[r.at%capacity+frameAt:])]
	r.at += span(int(n))
	return frame, moved
}

// tell says now and then how far the reader is.
func (r *reader) tell() {
	if r.at-r.told >= tellEvery {
		r.told = r.at
		r.tail.Store(r.at)
	}
}
