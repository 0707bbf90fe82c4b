package afxdp

// This file sends frames that may be chains of descriptors (Config.Jumbo).
//
// A frame is composed in one piece in a slab: as many UMEM frames in a row as the longest frame
// needs. Commit makes a descriptor of each UMEM frame that was written to. The completion ring
// returns them one by one, and with the last one the slab is free again. There are never more
// descriptors under way than UMEM frames to send. When no slab is free Reserve returns nil.

import "github.com/funet/funet/xdp"

// slabs are the memory of frames to send.
type slabs struct {
	umem  *xdp.UMEM
	first uint64 // address of slab 0
	size  uint64 // bytes of a slab
	frame int    // bytes of a UMEM frame
	free  []uint32
	under []uint8 // descriptors of each slab that the kernel has
}

// newSlabs divides the UMEM frames, from number first on, into slabs.
func newSlabs(u *xdp.UMEM, first uint32, z sizes) *slabs {
	count := z.txFrames / z.txParts
	s := &slabs{umem: u, first: u.Addr(first), size: uint64(z.txParts) * uint64(z.umemFrame), frame: int(z.umemFrame),
		free: make([]uint32, count), under: make([]uint8, count)}
	for i := range s.free {
		s.free[i] = count - 1 - uint32(i) // lowest address on top
	}
	return s
}

// get takes the slab that was returned last, which is likely still in the cache.
func (s *slabs) get() (addr uint64, ok bool) {
	if len(s.free) == 0 {
		return 0, false
	}
	i := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	return s.first + uint64(i)*s.size, true
}

// sent notes that the kernel was given parts descriptors of the slab at addr.
func (s *slabs) sent(addr uint64, parts int) { s.under[(addr-s.first)/s.size] = uint8(parts) }

// put takes a descriptor back. It ignores an address that is in no slab under way, which only a
// faulty kernel returns.
func (s *slabs) put(addr uint64) {
	i := (addr - s.first) / s.size
	if addr < s.first || i >= uint64(len(s.under)) || s.under[i] == 0 {
		return
	}
	if s.under[i]--; s.under[i] == 0 {
		s.free = append(s.free, uint32(i))
	}
}

// reserveSlab is Reserve when nothing is reserved.
func (p *Port) reserveSlab() []byte {
	at, ok := p.slabs.get()
	if !ok {
		p.reap()
		if at, ok = p.slabs.get(); !ok {
			return nil
		}
	}
	p.at = at
	p.reserved = p.umem.Span(at+uint64(p.room), p.frameMax)
	return p.reserved
}

// unused takes back a slab that was reserved and not sent.
func (s *slabs) unused(addr uint64) { s.free = append(s.free, uint32((addr-s.first)/s.size)) }

// commitChain puts the bytes from start to end of the slab on the tx ring of a queue. It reports
// false if the ring has no room.
func (p *Port) commitChain(q *queue, start, end int) bool {
	parts := uint32((end-1)/p.slabs.frame - start/p.slabs.frame + 1)
	if q.tx.Reserve(q.committed+parts) < q.committed+parts {
		return false
	}
	for at, i := start, uint32(0); i < parts; i++ {
		next := min(end, at-at%p.slabs.frame+p.slabs.frame)
		d := xdp.Desc{Addr: p.at + uint64(at), Len: uint32(next - at)}
		if next < end {
			d.Options = xdp.PacketContinued
		}
		q.tx.Set(q.committed+i, d)
		at = next
	}
	q.committed += parts
	p.slabs.sent(p.at, int(parts))
	return true
}
