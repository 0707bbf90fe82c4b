package afxdp

// This file has the memory of frames to send.
//
// A frame is composed in one piece in a slab: as many UMEM frames in a row as the longest frame
// needs, which is one without Config.Jumbo. Commit makes a descriptor of each UMEM frame that was
// written to. The completion ring returns them one by one, and with the last one the slab is free
// again. There are never more descriptors under way than UMEM frames to send. When no slab is free
// Reserve returns nil.

import (
	"math/bits"

	"github.com/funet/funet/xdp"
)

// slabs are the memory of frames to send.
type slabs struct {
	first uint64 // address of slab 0
	size  uint32 // bytes of a slab
	shift uint8  // a UMEM frame has 1<<shift bytes
	free  []uint32
	under []uint8 // descriptors of each slab that the kernel has
}

// newSlabs divides the UMEM frames, from number first on, into slabs.
func newSlabs(u *xdp.UMEM, first uint32, z sizes) *slabs {
	count := z.txFrames / z.txParts
	s := &slabs{first: u.Addr(first), size: z.txParts * z.umemFrame, shift: uint8(bits.Len32(z.umemFrame - 1)),
		free: make([]uint32, count), under: make([]uint8, count)}
	for i := range s.free {
		s.free[i] = count - 1 - uint32(i) // lowest address on top
	}
	return s
}

// get takes the slab that was returned last, which is likely still in the cache.
func (s *slabs) get() (i uint32, ok bool) {
	if len(s.free) == 0 {
		return 0, false
	}
	i = s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	return i, true
}

// put takes a descriptor back. It ignores an address that is in no slab under way, which only a
// faulty kernel returns.
func (s *slabs) put(addr uint64) {
	addr -= s.first
	if addr >= uint64(len(s.under))*uint64(s.size) {
		return
	}
	i := uint32(addr) / s.size
	if s.under[i] == 0 {
		return
	}
	if s.under[i]--; s.under[i] == 0 {
		s.free = append(s.free, i)
	}
}
