package shared

// This file is a ring: frames from one process to another, in memory that both map. Either may be
// hostile to the other. So each end keeps its own position in its own memory, and checks every word
// that it reads from the ring.
//
//	0      u32 reader: 0 nobody, 1 it reads, 2 it sleeps, 3 it reads no more; the reader's to
//	       write
//	64     u64 tail: bytes that the reader has taken since the beginning; the reader's to write
//	4096   data: records, each at a multiple of 64 bytes (a cache line)
//
// A record is a u32 word, 4 unused bytes, and a frame of as many bytes as the word says. A record
// does not go around the end of the data. Where the rest is too short there is a record whose word
// is around, and the next record is at the beginning.
//
// The word of a record makes it visible. So the reader looks at one cache line; a head beside the
// data would be another. Bytes from a lap ago might look like a word. The writer therefore clears
// the word behind a record before it makes the record visible, and keeps a line free for that.
//
// The words are atomic. Go's atomics are sequentially consistent, and sleeping needs that. The
// writer stores a record's word and then loads reader; the reader stores asleep and then loads the
// next record's word. One of the two sees the other's store (Dekker), so no frame waits for a
// reader that sleeps.

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
	// tellEvery is the number of bytes that the reader takes before it stores tail. So the cache
	// line of tail goes to the writer's processor once for many frames.
	tellEvery = capacity / 8

	ringSize = control + capacity
	// Size is the memory that two neighbours share, in bytes: a ring for each direction. The lower
	// node writes the first.
	Size = 2 * ringSize
)

// These are values of the word reader.
const (
	reads  = 1
	asleep = 2
	left   = 3
)

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

// word returns the word of the record at a position, a multiple of line.
func (r *ring) word(at uint64) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&r.data[at%capacity]))
}

func span(frame int) uint64 { return uint64(frame+frameAt+line-1) &^ (line - 1) }

type writer struct {
	ring
	head uint64 // position of the next record
	seen uint64 // tail, when it was last loaded
}

// fate is the outcome of putting or taking a frame.
type fate uint8

const (
	none   fate = iota // no frame is there, or there is no room for one
	moved              // one was put in, or taken out
	broken             // the other end has written a contradiction
)

// put adds a frame of arctic.HeaderSize bytes or more to the ring.
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

type reader struct {
	ring
	at   uint64 // position of the next record
	told uint64 // tail
}

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

// tell stores tail when the reader has taken tellEvery bytes more.
func (r *reader) tell() {
	if r.at-r.told >= tellEvery {
		r.told = r.at
		r.tail.Store(r.at)
	}
}
