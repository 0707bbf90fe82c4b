package afxdp

// This file receives frames that may be chains of descriptors (Config.Jumbo).
//
// A frame in one descriptor is lent in place. So is a chain whose parts lie one behind the other;
// its descriptors but the last have PacketContinued. In copy mode the parts do lie so: the kernel
// takes addresses from the fill ring in turn that are as far apart as it writes
// (xdp.UMEMConfig.Unaligned), and gets them back in the same order. The exceptions are the chain
// that goes on at the beginning of the memory, and chains in zero-copy mode. The card reads frames
// in one piece, so these are copied into assembly memory, one piece for each frame that can be
// lent. All UMEM frames go back to the fill ring with Release.
//
// A chain whose end is not yet in the ring waits for it. A chain that cannot be a frame of this
// interface is dropped and counted. It is longer than the longest frame, has more than maxParts
// descriptors (or than the ring has slots), or has a descriptor outside the UMEM.

import "github.com/funet/funet/xdp"

// assembly is the memory where chains become frames.
type assembly struct {
	memory []byte // maxLent pieces
	piece  int    // bytes
	most   uint32 // descriptors of a chain
	chains Chains
}

// Chains are counters of frames in several descriptors.
type Chains struct {
	Assembled uint64 // received whole
	Copied    uint64 // received whole, and copied because they did not lie in one piece
	Dropped   uint64 // chains that could not be a frame
}

// newAssembly makes an assembly for chains of pieces of piece bytes that come through rings of the
// given number of slots.
func newAssembly(piece int, slots uint32) *assembly {
	return &assembly{memory: make([]byte, maxLent*piece), piece: piece, most: min(maxParts, slots)}
}

// Chains returns the counters: zero without Jumbo.
func (p *Port) Chains() Chains {
	if p.asm == nil {
		return Chains{}
	}
	return p.asm.chains
}

// takeChains fills frames from the ring of q. It returns the number of descriptors that it took,
// and the number of frames. It keeps the descriptors' addresses in addr.
func (p *Port) takeChains(q *queue, frames [][]byte) (taken uint32, lent int) {
	a, umem := p.asm, p.umem
	// As many descriptors as the longest chains have, so that a chain which is whole in the ring is
	// seen whole. The kernel's index is read anew, because that may bring the rest of a chain.
	n := q.rx.PeekMore(uint32(len(p.addr)))
	for taken < n && lent < len(frames) {
		parts, whole := q.chain(taken, min(n, taken+a.most))
		if !whole && parts < a.most {
			break // the rest is still to come
		}
		var frame []byte
		switch {
		case q.cutting:
		case !whole:
			a.chains.Dropped++
		case parts == 1:
			if frame = umem.Data(q.rx.At(taken)); frame == nil {
				a.chains.Dropped++
			}
		default:
			if frame = a.span(q, umem, taken, parts); frame == nil {
				frame = a.join(q, umem, taken, parts, lent)
			}
		}
		q.cutting = !whole
		for i := range parts {
			p.addr[taken+i] = q.rx.At(taken + i).Addr
		}
		taken += parts
		if frame != nil {
			frames[lent] = frame
			lent++
		}
	}
	return taken, lent
}

// chain returns the number of the ring's entries, from entry first on and before end, that belong
// to one frame. It also reports whether the frame's last entry is among them.
func (q *queue) chain(first, end uint32) (parts uint32, whole bool) {
	for i := first; i < end; i++ {
		if q.rx.At(i).Options&xdp.PacketContinued == 0 {
			return i - first + 1, true
		}
	}
	return end - first, false
}

// span returns a chain that lies in one piece. It returns nil if the chain does not, or cannot be a
// frame.
func (a *assembly) span(q *queue, umem *xdp.UMEM, first, parts uint32) []byte {
	start := umem.Start(q.rx.At(first).Addr)
	end := start
	for i := range parts {
		d := q.rx.At(first + i)
		if umem.Start(d.Addr) != end || umem.Data(d) == nil {
			return nil
		}
		end += uint64(d.Len)
	}
	if end-start > uint64(a.piece) {
		return nil
	}
	a.chains.Assembled++
	return umem.Span(start, int(end-start))
}

// join copies a chain into a piece of assembly memory, or returns nil when it cannot be a frame.
func (a *assembly) join(q *queue, umem *xdp.UMEM, first, parts uint32, piece int) []byte {
	memory := a.memory[piece*a.piece:][:a.piece]
	size := 0
	for i := range parts {
		b := umem.Data(q.rx.At(first + i))
		if b == nil || len(b) > len(memory)-size {
			a.chains.Dropped++
			return nil
		}
		size += copy(memory[size:], b)
	}
	a.chains.Assembled++
	a.chains.Copied++
	return memory[:size:size]
}
