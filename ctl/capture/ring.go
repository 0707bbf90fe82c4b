package capture

// This file is the ring between the card's thread, which puts records in, and a goroutine that
// takes them out. Each side owns one index, and publishes it (release) when the bytes before it are
// written or read. The other side reads that index (acquire) before it touches the bytes. Both
// indexes count bytes and never wrap. Frames of direct ports come from a ring of the kernel
// (package bpf); the same goroutine adds them to its batches.

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/funet/funet/uspace/engine"
)

// RingSize is the size of a ring in bytes. It holds a tenth of a second of 20 Gbit/s with whole
// frames, more with short ones.
const RingSize = 1 << 25

// Ring holds records between the card's thread and the goroutine that sends them.
type Ring struct {
	memory []byte // its length is a power of two
	snap   int
	put    atomic.Uint64 // bytes ever put in; written by the card's thread
	taken  atomic.Uint64 // bytes ever taken out; written by the other goroutine
	counts []counts
	head   [recordHeader]byte // of the record that Put writes
}

// counts are the counters of one interface. The card's thread, Add and Lost write them.
type counts struct{ seen, lost atomic.Uint64 }

// NewRing makes a ring of size bytes, a power of two, for the frames of a number of interfaces. It
// keeps at most snap bytes of each frame.
func NewRing(size, interfaces, snap int) *Ring {
	return &Ring{memory: make([]byte, size), snap: min(snap, MaxSnap), counts: make([]counts, interfaces)}
}

// Put puts a frame into the ring, if there is room. at is when the frame was seen, in nanoseconds
// since 1970. One goroutine may call Put. It neither waits nor allocates.
func (r *Ring) Put(at int64, port int, frame []byte, fate engine.Fate) {
	if port >= len(r.counts) {
		return // an interface that came later
	}
	n := &r.counts[port]
	n.seen.Add(1)
	kept := frame[:min(len(frame), r.snap)]
	put := r.put.Load()
	if size := uint64(recordHeader + len(kept)); uint64(len(r.memory))-(put-r.taken.Load()) < size {
		n.lost.Add(1)
		return
	}
	encodeHeader(&r.head, &Record{Time: at, Length: len(frame), Data: kept, Interface: port, Fate: fate})
	r.copyIn(put, r.head[:])
	r.copyIn(put+recordHeader, kept)
	r.put.Store(put + uint64(recordHeader+len(kept)))
}

func (r *Ring) copyIn(at uint64, b []byte) {
	n := copy(r.memory[at&uint64(len(r.memory)-1):], b)
	copy(r.memory, b[n:])
}

// Take appends the counts to b, then whole records for which b has capacity. It reports whether
// there were records. One goroutine may call it.
func (r *Ring) Take(b []byte) (batch []byte, some bool) {
	b = r.appendCounts(b)
	taken, put := r.taken.Load(), r.put.Load()
	begin := taken
	for taken < put {
		var head [recordHeader]byte
		r.copyOut(head[:], taken)
		n := recordHeader + headerKept(&head)
		if cap(b)-len(b) < n {
			break
		}
		b = b[:len(b)+n]
		r.copyOut(b[len(b)-n:], taken)
		taken += uint64(n)
	}
	r.taken.Store(taken)
	return b, taken != begin
}

// Add counts a record that was not in the ring and appends it to a batch of Take, if there is room.
// The record's interface must be one of the batch's. The goroutine that calls Take may call Add.
func (r *Ring) Add(b []byte, record *Record) (batch []byte, added bool) {
	kept := record.Data[:min(len(record.Data), r.snap)]
	if cap(b)-len(b) < recordHeader+len(kept) {
		return b, false
	}
	seen := r.counts[record.Interface].seen.Add(1)
	binary.LittleEndian.PutUint64(b[batchHeader+countsSize*record.Interface:], seen)
	var head [recordHeader]byte
	cut := *record
	cut.Data = kept
	encodeHeader(&head, &cut)
	return append(append(b, head[:]...), kept...), true
}

// Lost counts frames of an interface as lost that never reached the ring. For any goroutine.
func (r *Ring) Lost(port int, frames uint64) {
	n := &r.counts[port]
	n.seen.Add(frames)
	n.lost.Add(frames)
}

func (r *Ring) copyOut(b []byte, at uint64) {
	n := copy(b, r.memory[at&uint64(len(r.memory)-1):])
	copy(b[n:], r.memory)
}
