package rats

// This file implements the receiving end of a Stream.

import (
	"fmt"
	"io"
	"math/bits"

	"github.com/funet/funet/uspace/funi"
)

// Receiver is the end of a Stream that reads. It belongs to the goroutine of its manager.
type Receiver struct {
	end
	ring     []byte  // where the sender writes
	base     uint64  // place of the ring's first byte in the stream, when the ring began
	old      []byte  // the previous ring, until all of it was read; nil: none
	most     int     // bytes of a ring
	next     uint64  // place up to which everything has arrived
	queue    []piece // arrived and not released, in order
	unread   int     // the first of queue that was not read
	early    []piece // arrived early, or without room in queue
	ended    bool    // the end is at next
	seen     struct{ shorts, longs uint32 }
	told     struct{ bytes, shorts, longs uint32 } // in the last credit
	released uint64                                // place up to which the reader has released
	grown    uint64                                // released when the ring became longer
	// the sender has stopped at stop, and waits for an answer
	wants bool
	stop  uint64
	say   uint8 // what is to be said
}

// What a receiver has to say.
const (
	sayRing = 1 << iota
	sayCredit
	sayAnswer // with the credit
	sayDone
)

type piece struct {
	at     uint64 // place in the stream
	length int
	bytes  []byte // once it is in the queue
	record bool   // its end is that of a record
	end    bool   // and of the stream
	long   bool   // it came in an area of its own
}

// NewReceiver returns the receiving end of a Stream, with a ring of the given number of bytes
// (ErrRing). The ring may grow up to most when the sender has more to write. Any holder of its seed
// can make the sender. It returns ErrFull.
func (m *Manager) NewReceiver(bytes, most int) (*Receiver, error) {
	r, err := m.receiver(bytes, most)
	if err != nil {
		return nil, fmt.Errorf("making the receiver of a stream: %w", err)
	}
	return r, nil
}

// ReceiveFrom returns the receiving end of a Stream whose sender made the seed. Errors are those of
// NewReceiver, and ErrSeed.
func (m *Manager) ReceiveFrom(s Seed, bytes, most int) (*Receiver, error) {
	if s.Protocol != protocolSender || s.Key == 0 {
		return nil, fmt.Errorf("making the receiver of a stream: %w", ErrSeed)
	}
	r, err := m.NewReceiver(bytes, most)
	if err == nil {
		r.peer = s.Ticket
		r.say |= sayRing
		r.m.await(&r.instance)
	}
	return r, err
}

func (m *Manager) receiver(bytes, most int) (_ *Receiver, err error) {
	for _, n := range []int{bytes, most} {
		if n < LeastRing || n > MostRing || bits.OnesCount(uint(n)) != 1 {
			return nil, fmt.Errorf("%d bytes: %w", n, ErrRing)
		}
	}
	if !m.room(1+longAreas, shortCredit+longAreas) {
		return nil, ErrFull
	}
	r := &Receiver{most: max(bytes, most)}
	if r.ring, err = m.Alloc(bytes); err != nil {
		return nil, err
	}
	if err = r.begin(m, r, r.ring, shortCredit, longAreas); err != nil {
		if r.key == 0 {
			m.Free(r.ring)
		}
		return nil, err
	}
	return r, nil
}

// Seed returns the seed for the sender (NewSender of the other process).
func (r *Receiver) Seed() Seed { return r.m.Seed(r.key, r.areas[0], 0, protocolReceiver) }

// Piece is a part of the stream that was read without copying it.
type Piece struct {
	Bytes []byte // in the receiver's memory, until Release
	// EndOfRecord says that its end is that of a record.
	EndOfRecord bool
	to          uint64
}

// ReadBytes returns the next contiguous unread bytes. A Piece without bytes means that there are
// none at present. It returns io.EOF at the end of the stream. If the stream has failed, it returns
// the reason once everything that arrived before was read.
func (r *Receiver) ReadBytes() (Piece, error) {
	for ; r.unread < len(r.queue); r.unread++ {
		if p := &r.queue[r.unread]; len(p.bytes) > 0 {
			r.unread++
			return Piece{Bytes: p.bytes, EndOfRecord: p.record, to: p.at + uint64(len(p.bytes))}, nil
		}
	}
	return Piece{}, r.nothing()
}

// nothing says why there is nothing to read.
func (r *Receiver) nothing() error {
	switch {
	case r.ended && len(r.early) == 0:
		return io.EOF
	case r.closing:
		return ErrClosed
	}
	return r.err
}

// Read copies bytes that have arrived and releases them. 0 without an error means that there are
// none at present. Errors are those of ReadBytes. Read must not be called while a Piece of
// ReadBytes is not released.
func (r *Receiver) Read(b []byte) (n int, err error) {
	taken := 0
	for ; taken < len(r.queue) && n < len(b); taken++ {
		p := &r.queue[taken]
		k := copy(b[n:], p.bytes)
		n += k
		r.released += uint64(k)
		if k < len(p.bytes) {
			p.bytes, p.length, p.at = p.bytes[k:], p.length-k, p.at+uint64(k)
			break
		}
	}
	if taken > 0 {
		r.queue = append(r.queue[:0], r.queue[taken:]...)
	}
	r.unread = 0
	if n > 0 {
		r.afterRelease()
		return n, nil
	}
	if len(b) == 0 {
		return 0, nil
	}
	return 0, r.nothing()
}

// Release gives the memory of a piece, and of all pieces before it, back to the sender.
func (r *Receiver) Release(p Piece) {
	n := 0
	for ; n < r.unread && r.queue[n].at+uint64(len(r.queue[n].bytes)) <= p.to; n++ {
	}
	r.queue = append(r.queue[:0], r.queue[n:]...)
	r.unread -= n
	if p.to > r.released {
		r.released = p.to
		r.afterRelease()
	}
}

// afterRelease goes on with what waited for room, and tells the sender.
func (r *Receiver) afterRelease() {
	r.absorb()
	if r.old != nil && r.released >= r.base {
		r.m.freeLater(r.old)
		r.old = nil
	}
	r.consider()
}

// Close closes the receiver. A sender that has not sent the end is told that the stream is aborted.
func (r *Receiver) Close() {
	if r.closing {
		return
	}
	r.closing = true
	r.abort = r.err == nil && !r.ended
	r.queue, r.early, r.unread = nil, nil, 0
	r.m.await(&r.instance)
}

func (r *Receiver) arrived(n *funi.Notification) {
	if r.err != nil || r.closing {
		return
	}
	w := n.Metadata
	kind := w[0] >> kindShift
	if r.peer.Key == 0 {
		if r.helloFrom(n) {
			r.seen.shorts++
			r.say |= sayRing
			r.m.await(&r.instance)
			r.m.tell(&r.instance)
		}
		return
	}
	if n.Source != r.peer.Node {
		return // it has the key, and no business here
	}
	long := n.Area != r.areas[0]
	switch {
	case n.Words == dataWords && kind == kindData:
		r.take(w[0], w[1], long)
	case n.Words == 2 && kind == kindWant && !long:
		r.seen.shorts++
		r.wants, r.stop = true, r.place(w[1])
		r.consider()
	case n.Words == 1 && kind == kindAbort && !long:
		r.fail(ErrAborted)
	default:
		r.lies("kind", kind)
	}
}

// place returns the place in the stream that is nearest to the next one, of those whose lower 32
// bits are given.
func (r *Receiver) place(low uint32) uint64 { return r.next + uint64(int64(int32(low-uint32(r.next)))) }

func (r *Receiver) take(head, low uint32, long bool) {
	at := r.place(low)
	if at < r.next || at-r.next > uint64(len(r.ring)) || r.ended || len(r.early) >= shortCredit+longAreas {
		r.lies("place", low)
		return
	}
	r.early = append(r.early, piece{at: at, length: int(head & lengthMax), record: head&recordBit != 0,
		end: head&endBit != 0, long: long})
	r.absorb()
	r.consider()
}

// absorb moves early pieces that are next in order into the queue.
func (r *Receiver) absorb() {
	before := r.next
	for again := true; again && !r.ended && r.err == nil && len(r.queue) < maxPieces; {
		again = false
		for i := range r.early {
			if p := r.early[i]; p.at == r.next {
				last := len(r.early) - 1
				r.early[i] = r.early[last]
				r.early = r.early[:last]
				r.accept(p)
				again = true
				break
			}
		}
	}
	if r.next != before || r.ended {
		r.m.tell(&r.instance)
	}
}

func (r *Receiver) accept(p piece) {
	size, length := uint64(len(r.ring)), uint64(p.length)
	offset := (p.at - r.base) & (size - 1)
	if p.at+length-max(r.released, r.base) > size || offset+length > size {
		r.lies("length", uint32(length))
		return
	}
	if r.next += length; p.end {
		r.ended = true
		r.say |= sayDone
		r.m.await(&r.instance)
	}
	if p.long {
		r.seen.longs++
	} else {
		r.seen.shorts++
	}
	if length == 0 {
		return
	}
	if last := len(r.queue) - 1; last >= r.unread && !r.queue[last].record && offset > 0 && p.at > r.base {
		q := &r.queue[last] // they lie together
		q.length += p.length
		q.bytes, q.record = r.ring[offset+length-uint64(q.length):offset+length:offset+length], p.record
		return
	}
	p.bytes = r.ring[offset : offset+length : offset+length]
	r.queue = append(r.queue, p)
}

func (r *Receiver) consider() {
	if r.peer.Key == 0 || r.err != nil || r.closing {
		return
	}
	if r.wants && r.next == r.stop && !r.ended {
		r.wants = false
		if r.grow() {
			r.say |= sayRing
		} else {
			r.say |= sayCredit | sayAnswer
		}
	}
	if uint32(r.released)-r.told.bytes >= uint32(len(r.ring)/4) || r.seen.shorts-r.told.shorts >= shortCredit/2 ||
		r.seen.longs-r.told.longs >= longAreas/2 {
		r.say |= sayCredit
	}
	if r.say != 0 && !r.tell() {
		r.m.await(&r.instance)
	}
}

// grow puts memory twice as long behind the key, if the reader has read half a ring since the last
// growth. The sender has stopped, so nothing is in flight to the old memory.
func (r *Receiver) grow() bool {
	size := 2 * len(r.ring)
	if size > r.most || r.old != nil || r.released-r.grown < uint64(len(r.ring)/2) || !r.m.room(2, 0) {
		return false
	}
	memory := r.m.heap.alloc(size)
	if memory == nil || !r.replace(r.key, memory) {
		return false
	}
	if r.old = r.ring; r.released == r.next {
		r.m.freeLater(r.old)
		r.old = nil
	}
	r.ring, r.base, r.grown = memory, r.next, r.released
	return true
}

// tell sends what the sender must be told. It returns false if the send queue had no room for all.
func (r *Receiver) tell() bool {
	if r.say&sayRing != 0 {
		a := r.areas
		w := []uint32{kindRing << kindShift, uint32(len(r.ring)), uint32(r.key), uint32(r.key >> 32),
			uint32(a[0])<<16 | uint32(a[1]), uint32(a[2])<<16 | uint32(a[3]), uint32(a[4]) << 16, uint32(r.base)}
		if !r.send(r.peer, 0, nil, w, true) {
			return false
		}
		r.say &^= sayRing
	}
	if r.say&(sayCredit|sayAnswer) != 0 {
		t := struct{ bytes, shorts, longs uint32 }{uint32(r.released), r.seen.shorts, r.seen.longs}
		w := []uint32{kindCredit << kindShift, t.bytes, t.shorts, t.longs}
		if r.say&sayAnswer != 0 {
			w[0] |= answerBit
		}
		if !r.send(r.peer, 0, nil, w, true) {
			return false
		}
		r.told = t
		r.say &^= sayCredit | sayAnswer
	}
	if r.say&sayDone != 0 {
		if !r.send(r.peer, 0, nil, []uint32{kindDone << kindShift}, true) {
			return false
		}
		r.say &^= sayDone
	}
	return true
}

// turn says what could not be said before, and closes what is to be closed.
func (r *Receiver) turn() bool {
	if r.say != 0 && r.peer.Key != 0 && r.err == nil && !r.tell() {
		return false
	}
	if r.closing && r.old != nil {
		r.m.freeLater(r.old) // no key leads there any more
		r.old = nil
	}
	return r.finish(r.ring)
}
