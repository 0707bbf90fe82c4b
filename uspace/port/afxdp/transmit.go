package afxdp

// This file sends, on all queues of the interface.
//
// Commit chooses the queue by the frame's pair of cards and level, whose frames have one series of
// sequence numbers. They leave on one queue, so none overtakes another. With datagrams they have
// one source port (package encap), so routers and the receiving NIC keep their order, too. Flush
// kicks each queue that has committed frames.
//
// The frames to send are one pool for all queues. Reserve, which comes before the queue is known,
// returns nil only when the whole pool is under way. So each tx ring must have room, whatever the
// other rings hold. The kernel reports late: it stores its index when it has taken all the frames
// that it knew of. So two kinds of frames lie between that index and ours. Those that the kernel
// knew of then may have been sent meanwhile, and are at most the pool. Those that were committed
// since are at most the pool again. So a tx ring has twice as many slots as the pool has frames.
// The completion ring returns only frames that are under way, so it needs only as many slots as the
// pool has frames.
//
// A queue that does not send keeps its frames, and in the end all frames of the pool. Watch notices
// that (watcher.go).

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/port/encap"
	"github.com/funet/funet/xdp"
)

// Reserve returns a transmit frame, or nil while all are under way.
func (p *Port) Reserve() []byte {
	if p.reserved == nil {
		i, ok := p.slabs.get()
		if !ok {
			p.reap()
			if i, ok = p.slabs.get(); !ok {
				return nil
			}
		}
		p.slab, p.at = i, p.slabs.first+uint64(i)*uint64(p.slabs.size)
		p.reserved = p.umem.Span(p.at+uint64(p.room), p.frameMax)
	}
	return p.reserved
}

// Offsets in a frame; see package arctic.
const (
	flagsOffset = arctic.EthernetSize + 1
	cardsOffset = 24 // source card and destination card
	cardsEnd    = cardsOffset + 4
	levelBit    = 1
)

// queueOf chooses the queue that a frame leaves on. It assigns the queues in turn to a card's peers
// and their levels. The sum of both card numbers spreads frames as evenly at the receiving card.
// Some interfaces there (veth) choose the queue by the number of the queue that a frame left on.
func (p *Port) queueOf(frame []byte) *queue {
	if len(frame) < cardsEnd {
		return p.sends[0]
	}
	cards := binary.LittleEndian.Uint32(frame[cardsOffset:])
	flow := cards>>16 + cards&0xffff + uint32(frame[flagsOffset]&levelBit)
	return p.sends[flow%uint32(len(p.sends))]
}

// Commit puts the reserved frame of n bytes on the tx ring of its queue. A frame that cannot be
// sent, such as one without a path, stays reserved.
func (p *Port) Commit(n int) {
	q := p.sends[0]
	if len(p.sends) > 1 {
		q = p.queueOf(p.reserved[:n])
	}
	start, end := 0, n
	if !q.heard {
		p.remember(q, p.reserved[:n])
	}
	if p.udp != nil {
		var ok bool
		if start, end, ok = p.udp.wrap(p.umem.Span(p.at, p.room+n), n); !ok {
			return
		}
	}
	if p.sums {
		encap.PutSum(p.reserved[:n])
	}
	if p.vlan != 0 {
		start, end = wrapTag(p.umem.Span(p.at, p.room+n), n, p.vlan)
	}
	// There is room; only a kernel in error says otherwise, and then the frame is lost as on any
	// network.
	shift := p.slabs.shift
	parts := uint32((end-1)>>shift-start>>shift) + 1
	if q.tx.Reserve(q.committed+parts) < q.committed+parts {
		return
	}
	for at := start; at < end; q.committed++ {
		next := min(end, (at>>shift+1)<<shift)
		d := xdp.Desc{Addr: p.at + uint64(at), Len: uint32(next - at)}
		if next < end {
			d.Options = xdp.PacketContinued
		}
		q.tx.Set(q.committed, d)
		at = next
	}
	p.slabs.under[p.slab] = uint8(parts)
	if !q.busy {
		q.busy = true
		p.busy = append(p.busy, q)
	}
	p.flush = true
	p.reserved = nil
}

// Flush hands committed frames to the kernel and has it send them.
func (p *Port) Flush() {
	if !p.flush {
		return
	}
	p.flush = false
	for _, q := range p.busy {
		if q.committed == 0 && !q.unsent {
			continue
		}
		if q.committed > 0 {
			q.under += q.committed
			q.tx.Submit(q.committed)
			q.committed = 0
		}
		if q.kickErr = q.sock.Kick(); q.kickErr == xdp.ErrTxPending {
			q.vain.Add(1)
		}
		// A NIC that sends zero-copy may stop before the end of the ring, and asks then.
		q.unsent = q.kickErr != nil || p.info.BindMode == xdp.BindZeroCopy && q.tx.Len() > 0
		p.flush = p.flush || q.unsent
	}
	p.reap()
}

// reap takes back frames that have been sent.
func (p *Port) reap() {
	still := p.busy[:0]
	for _, q := range p.busy {
		for n := q.done.Peek(txFrames); n > 0; n = q.done.Peek(txFrames) {
			for i := range n {
				p.slabs.put(q.done.At(i))
			}
			q.done.Release(n)
			q.under -= min(n, q.under)
		}
		if q.busy = q.under > 0 || q.committed > 0 || q.unsent; q.busy {
			still = append(still, q)
		}
	}
	p.busy = still
}

// submitted returns the number of descriptors that were handed to the kernel, on all queues, modulo
// 2^32.
func (p *Port) submitted() (n uint32) {
	for _, q := range p.queues {
		n += q.tx.Submitted()
	}
	return n
}

const (
	// drainTime bounds the wait of Close for frames to leave. It is many times the time that a NIC
	// takes for a full ring, so only a NIC without a carrier, or one in a reset, reaches it.
	drainTime = 200 * time.Millisecond
	drainStep = 100 * time.Microsecond
)

// drain waits until all committed frames have left. In copy mode a frame is safe when the kernel
// has taken it off the tx ring; in zero-copy mode the NIC reads it from the UMEM, so only its
// completion says that it has left.
func (p *Port) drain() {
	if len(p.queues) == 0 {
		return
	}
	for end := time.Now().Add(p.drainTime); ; time.Sleep(drainStep) {
		p.Flush()
		p.reap()
		left := p.flush || p.info.BindMode == xdp.BindZeroCopy && p.underWay() > 0
		if !left || errors.Is(p.Err(), xdp.ErrNoInterface) || time.Now().After(end) {
			return
		}
	}
}

// underWay returns the number of slabs that are neither free nor reserved.
func (p *Port) underWay() int {
	n := len(p.slabs.under) - len(p.slabs.free)
	if p.reserved != nil {
		n--
	}
	return n
}
