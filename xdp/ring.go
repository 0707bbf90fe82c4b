// This file has the four rings. Each has a single producer and a single consumer. Indices run
// through 2^32 and are masked only when a slot is touched. The other side is the kernel.

package xdp

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Desc is a slot of the rx and tx rings (struct xdp_desc).
type Desc struct {
	Addr    uint64 // byte offset in the UMEM
	Len     uint32 // bytes
	Options uint32 // PacketContinued, or 0
}

// PacketContinued in Desc.Options says that the packet continues in the next descriptor. It is used
// only with SocketConfig.MultiBuffer (XDP_PKT_CONTD, af_xdp.rst "Multi-Buffer Support").
const PacketContinued = unix.XDP_PKT_CONTD

// shared is the part of a ring that both sides see.
type shared struct {
	producer *atomic.Uint32
	consumer *atomic.Uint32
	flags    *atomic.Uint32
	size     uint32 // slots, a power of two; 0 when closed
	mask     uint32
}

// Len returns the number of entries in the ring now: those that the producer has handed over and
// the consumer has not yet given back. It reads both shared indices, so it is for monitoring and
// not for the hot path.
func (s *shared) Len() uint32 { return min(s.producer.Load()-s.consumer.Load(), s.size) }

// Cap returns the number of slots; 0 when the socket is closed.
func (s *shared) Cap() uint32 { return s.size }

// NeedWakeup reports whether the kernel sleeps on this ring until it is kicked. It has a meaning
// for the fill and tx rings of a socket with NeedWakeup.
func (s *shared) NeedWakeup() bool { return s.flags.Load()&unix.XDP_RING_NEED_WAKEUP != 0 }

// producer is our side of the fill and tx rings.
//
// The pairing is that of net/xdp/xsk_queue.h. The kernel's store of the consumer index (D) is read
// by reload (A), so that a slot is overwritten only after the kernel has read it. Submit's store of
// the producer index (B) is read by the kernel (C), so that it sees the slots and the frame bytes
// written before. sync/atomic is stronger than the acquire and release that this needs.
type producer struct {
	shared
	prod uint32 // our index, as last stored
	cons uint32 // the kernel's index, as last read
}

// Reserve asks for n slots and returns how many it got: fewer than n, down to 0, when the ring is
// full. They are slots 0 to the result-1 for Set. Nothing changes until Submit, so unused slots
// need no cancelling.
func (p *producer) Reserve(n uint32) uint32 {
	if p.size-(p.prod-p.cons) >= n {
		return n
	}
	return p.reload(n)
}

// reload reads the kernel's index (A). An index that no kernel would store makes
// the ring appear full.
func (p *producer) reload(n uint32) uint32 {
	cons := p.consumer.Load()
	used := p.prod - cons
	if used > p.size {
		return 0
	}
	p.cons = cons
	return min(n, p.size-used)
}

// Submit hands the first n reserved slots to the kernel with one release store (B), or with none
// when n is 0. If n is more than are free, it submits those.
func (p *producer) Submit(n uint32) {
	if n > 0 {
		p.prod += min(n, p.size-(p.prod-p.cons))
		p.producer.Store(p.prod)
	}
}

// Submitted returns how many slots were submitted since the socket was opened, modulo 2^32. Any
// goroutine may ask while the socket is open.
func (p *producer) Submitted() uint32 { return p.producer.Load() }

// Taken returns how many of the submitted slots the kernel reports as taken; the report may be
// late. Any goroutine may ask while the socket is open.
func (p *producer) Taken() uint32 { return p.consumer.Load() }

// consumer is our side of the rx and completion rings: Peek's load of the
// producer index (C) pairs with the kernel's store (B), Release's store of the
// consumer index (D) with the kernel's load (A).
type consumer struct {
	shared
	prod uint32 // the kernel's index, as last read
	cons uint32 // our index, as last stored
}

// Peek returns how many entries there are to take, n at most. They are entries 0 to the result-1.
// Nothing changes until Release. Peek reads the kernel's index only when all known entries are
// released. So the ring may have more entries even if the result is below n.
func (c *consumer) Peek(n uint32) uint32 {
	if c.prod == c.cons {
		c.reload()
	}
	return min(n, c.prod-c.cons)
}

// PeekMore is Peek, but always reads the kernel's index. It is for packets of several descriptors:
// the last may not have been in the ring when Peek read the index.
func (c *consumer) PeekMore(n uint32) uint32 {
	c.reload()
	return min(n, c.prod-c.cons)
}

// reload reads the kernel's index (C). An index that no kernel would store makes
// the ring appear as it was.
func (c *consumer) reload() {
	if prod := c.producer.Load(); prod-c.cons <= c.size {
		c.prod = prod
	}
}

// Release gives the first n entries' slots back to the kernel with one release store (D), or with
// none when n is 0. If n is more than there were, it releases those.
func (c *consumer) Release(n uint32) {
	if n > 0 {
		c.cons += min(n, c.prod-c.cons)
		c.consumer.Store(c.cons)
	}
}

// Filled returns how many entries the kernel has put into the ring since the socket was opened,
// modulo 2^32. Any goroutine may ask while the socket is open.
func (c *consumer) Filled() uint32 { return c.producer.Load() }

// FillRing gives free frames to the kernel to receive into. It belongs to one goroutine. When it
// runs empty the kernel drops frames and counts them in Statistics.RxFillRingEmpty.
type FillRing struct {
	producer
	slots []uint64
}

// Set writes the address of a free frame into reserved slot i. The address may point anywhere into
// the frame.
func (r *FillRing) Set(i uint32, addr uint64) { r.slots[(r.prod+i)&r.mask] = addr }

// CompletionRing returns the frames that were sent. It belongs to one goroutine.
// When it is full the kernel sends nothing more and Kick says ErrTxPending.
type CompletionRing struct {
	consumer
	slots []uint64
}

// At returns the address in entry i, as it was given to the tx ring. Use UMEM.Base or
// Allocator.Put, which check it and find its frame.
func (r *CompletionRing) At(i uint32) uint64 { return r.slots[(r.cons+i)&r.mask] }

// RxRing brings received frames. It belongs to one goroutine. When it is full the
// kernel drops frames and counts them in Statistics.RxRingFull.
type RxRing struct {
	consumer
	slots []Desc
}

// Desc returns a copy of entry i. UMEM.Data checks it and gives its bytes.
func (r *RxRing) Desc(i uint32) Desc { return r.slots[(r.cons+i)&r.mask] }

// TxRing takes frames to send, which leave at the next Kick. It belongs to one
// goroutine. When it is full Reserve returns 0 and nothing is lost.
type TxRing struct {
	producer
	slots []Desc
}

// Set writes a descriptor into reserved slot i. The kernel skips a descriptor that
// does not lie within one frame and counts it in Statistics.TxInvalid. Some kernels
// (seen on 6.18) also return its address, as it was, in the completion ring.
func (r *TxRing) Set(i uint32, d Desc) { r.slots[(r.prod+i)&r.mask] = d }

// newShared finds the indices and the n slots of T in a ring's mapping.
func newShared[T any](mapping []byte, off unix.XDPRingOffset, n uint32) (shared, []T) {
	base := unsafe.Pointer(unsafe.SliceData(mapping))
	return shared{
		producer: (*atomic.Uint32)(unsafe.Add(base, off.Producer)),
		consumer: (*atomic.Uint32)(unsafe.Add(base, off.Consumer)),
		flags:    (*atomic.Uint32)(unsafe.Add(base, off.Flags)),
		size:     n,
		mask:     n - 1,
	}, unsafe.Slice((*T)(unsafe.Add(base, off.Desc)), n)
}

// closedShared returns a ring without slots to give, but with one slot to touch. A ring used after
// Close is therefore full and empty at once, and does not fault.
func closedShared[T any]() (shared, []T) {
	return shared{producer: new(atomic.Uint32), consumer: new(atomic.Uint32), flags: new(atomic.Uint32)}, make([]T, 1)
}
