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

// ring is a ring of slots, as both sides see it, with the two indices as we know them.
type ring[T any] struct {
	producer *atomic.Uint32
	consumer *atomic.Uint32
	flags    *atomic.Uint32
	size     uint32 // slots, a power of two; 0 when closed
	mask     uint32
	slots    []T
	prod     uint32 // the producer's index: ours as last stored, or the kernel's as last read
	cons     uint32 // the same of the consumer
}

// Len returns the number of entries in the ring now: those that the producer has handed over and
// the consumer has not yet given back. It reads both shared indices, so it is for monitoring and
// not for the hot path.
func (r *ring[T]) Len() uint32 { return min(r.producer.Load()-r.consumer.Load(), r.size) }

// Cap returns the number of slots; 0 when the socket is closed.
func (r *ring[T]) Cap() uint32 { return r.size }

// NeedWakeup reports whether the kernel sleeps on this ring until it is kicked. It has a meaning
// for the fill and tx rings of a socket with NeedWakeup.
func (r *ring[T]) NeedWakeup() bool { return r.flags.Load()&unix.XDP_RING_NEED_WAKEUP != 0 }

// Producer is our side of the fill and tx rings. It belongs to one goroutine.
//
// The pairing is that of net/xdp/xsk_queue.h. The kernel's store of the consumer index (D) is read
// by Reserve (A), so that a slot is overwritten only after the kernel has read it. Submit's store
// of the producer index (B) is read by the kernel (C), so that it sees the slots and the frame
// bytes written before. sync/atomic is stronger than the acquire and release that this needs.
type Producer[T any] struct{ ring[T] }

// Reserve asks for n slots and returns how many it got: fewer than n, down to 0, when the ring is
// full. They are slots 0 to the result-1 for Set. Nothing changes until Submit, so unused slots
// need no cancelling. Reserve reads the kernel's index (A) only when it knows of too few slots. An
// index that no kernel would store makes the ring appear as it was.
func (p *Producer[T]) Reserve(n uint32) uint32 {
	if p.size-(p.prod-p.cons) < n {
		if cons := p.consumer.Load(); p.prod-cons <= p.size {
			p.cons = cons
		}
	}
	return min(n, p.size-(p.prod-p.cons))
}

// Set writes a slot that is reserved.
func (p *Producer[T]) Set(i uint32, slot T) { p.slots[(p.prod+i)&p.mask] = slot }

// Submit hands the first n reserved slots to the kernel with one release store (B), or with none
// when n is 0. If n is more than are free, it submits those.
func (p *Producer[T]) Submit(n uint32) {
	if n > 0 {
		p.prod += min(n, p.size-(p.prod-p.cons))
		p.producer.Store(p.prod)
	}
}

// Submitted returns how many slots were submitted since the socket was opened, modulo 2^32. Any
// goroutine may ask while the socket is open.
func (p *Producer[T]) Submitted() uint32 { return p.producer.Load() }

// Taken returns how many of the submitted slots the kernel reports as taken; the report may be
// late. Any goroutine may ask while the socket is open.
func (p *Producer[T]) Taken() uint32 { return p.consumer.Load() }

// Consumer is our side of the rx and completion rings. It belongs to one goroutine. Peek's load of
// the producer index (C) pairs with the kernel's store (B), Release's store of the consumer index
// (D) with the kernel's load (A).
type Consumer[T any] struct{ ring[T] }

// Peek returns how many entries there are to take, n at most. They are entries 0 to the result-1.
// Nothing changes until Release. Peek reads the kernel's index (C) only when all known entries are
// released. So the ring may have more entries even if the result is below n. An index that no
// kernel would store makes the ring appear empty.
func (c *Consumer[T]) Peek(n uint32) uint32 {
	if c.prod == c.cons {
		if prod := c.producer.Load(); prod-c.cons <= c.size {
			c.prod = prod
		}
	}
	return min(n, c.prod-c.cons)
}

// Index returns the kernel's index, and the value that it has while the ring is empty.
func (c *Consumer[T]) Index() (at *atomic.Uint32, empty uint32) { return c.producer, c.cons }

// PeekMore is Peek, but always reads the kernel's index. It is for packets of several descriptors:
// the last may not have been in the ring when Peek read the index.
func (c *Consumer[T]) PeekMore(n uint32) uint32 {
	c.prod = c.cons
	return c.Peek(n)
}

// At returns a copy of entry i.
func (c *Consumer[T]) At(i uint32) T { return c.slots[(c.cons+i)&c.mask] }

// Release gives the first n entries' slots back to the kernel with one release store (D), or with
// none when n is 0. If n is more than there were, it releases those.
func (c *Consumer[T]) Release(n uint32) {
	if n > 0 {
		c.cons += min(n, c.prod-c.cons)
		c.consumer.Store(c.cons)
	}
}

// Filled returns how many entries the kernel has put into the ring since the socket was opened,
// modulo 2^32. Any goroutine may ask while the socket is open.
func (c *Consumer[T]) Filled() uint32 { return c.producer.Load() }

// The four rings of a socket.
type (
	// FillRing gives free frames to the kernel to receive into. A slot is any address in the frame;
	// in an Unaligned UMEM it is where the frame begins, or an address of the rx ring. When the
	// ring runs empty the kernel drops frames and counts them in Statistics.RxFillRingEmpty.
	FillRing = Producer[uint64]
	// CompletionRing returns the frames that were sent, each by the address that was given to the
	// tx ring. Allocator.Put checks it and finds its frame. When the ring is full the kernel sends
	// nothing more and Kick says ErrTxPending.
	CompletionRing = Consumer[uint64]
	// RxRing brings received frames. UMEM.Data checks a descriptor and gives its bytes. When the
	// ring is full the kernel drops frames and counts them in Statistics.RxRingFull.
	RxRing = Consumer[Desc]
	// TxRing takes frames to send, which leave at the next Kick. When it is full Reserve returns 0
	// and nothing is lost. The kernel skips a descriptor that does not lie within one frame and
	// counts it in Statistics.TxInvalid. Some kernels (seen on 6.18) also return its address, as it
	// was, in the completion ring.
	TxRing = Producer[Desc]
)

// mapRing maps a ring of n slots and notes the mapping, so that Close finds it.
func mapRing[T any](fd int, at int64, off unix.XDPRingOffset, n uint32, mappings *[][]byte) (r ring[T], err error) {
	size := off.Desc + uint64(n)*uint64(unsafe.Sizeof(*new(T)))
	m, err := unix.Mmap(fd, at, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return r, err
	}
	*mappings = append(*mappings, m)
	return newRing[T](m, off, n), keepFromChildren(m)
}

// newRing finds the indices and the n slots in a ring's mapping.
func newRing[T any](mapping []byte, off unix.XDPRingOffset, n uint32) ring[T] {
	base := unsafe.Pointer(unsafe.SliceData(mapping))
	return ring[T]{
		producer: (*atomic.Uint32)(unsafe.Add(base, off.Producer)),
		consumer: (*atomic.Uint32)(unsafe.Add(base, off.Consumer)),
		flags:    (*atomic.Uint32)(unsafe.Add(base, off.Flags)),
		size:     n,
		mask:     n - 1,
		slots:    unsafe.Slice((*T)(unsafe.Add(base, off.Desc)), n),
	}
}

// closedRing returns a ring without slots to give, but with one slot to touch. A ring used after
// Close is therefore full and empty at once, and does not fault.
func closedRing[T any]() ring[T] {
	return ring[T]{producer: new(atomic.Uint32), consumer: new(atomic.Uint32), flags: new(atomic.Uint32),
		slots: make([]T, 1)}
}
