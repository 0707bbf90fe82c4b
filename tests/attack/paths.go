package attack

// This file attacks the card by ULTRA paths (funi/path.go). Every context opens and closes ends for
// all nodes in a loop, most of which no other end waits for, and stores lines on the others, one
// over the other and malformed. It scribbles in the memory of its ends, and gives no slice back.

import (
	"encoding/binary"
	"math/rand/v2"
	"sync/atomic"
	"unsafe"

	"github.com/funet/funet/uspace/funi"
)

const (
	pathContexts = 16
	pathEnds     = 16   // of a context: remoteSizes has as many key slots
	pathStride   = 4096 // bytes of an end's memory
	pathSlices   = 32
	// pathsOpened is how many ends a context opens or closes in a round.
	pathsOpened = 4
)

func pathRequests() Attack {
	return Attack{
		Name: "paths_16", Does: "ULTRA paths opened and closed by 16 contexts, and lines one over the other",
		Groups: 1, Contexts: pathContexts, slots: 64, segment: pathEnds * pathStride, remote: remoteSizes,
		round: (*player).path,
	}
}

// path opens or closes some ends of each context, and stores a line on each of the others.
func (p *player) path() (done int) {
	for _, s := range p.seats {
		if s.k == nil {
			continue
		}
		s.forget()
		memory := s.k.Maps[2]
		for range pathsOpened {
			s.next++
			end := uint32(s.next % pathEnds)
			to, slices := uint16(rand.IntN(2*p.Contexts)), rand.IntN(2)*pathSlices
			opens := func(w *funi.Slot) { w.SetOpenPath(to, segmentBase+end*pathStride, slices, 0) }
			if rand.IntN(2) == 0 {
				opens = func(w *funi.Slot) { w.SetClosePath(segmentBase+end*pathStride, 0) }
			}
			if s.commit(opens) {
				done++
			}
		}
		for end := range pathEnds {
			at := memory[end*pathStride : (end+1)*pathStride]
			turn := binary.NativeEndian.Uint64(at[64:])>>32 + uint64(rand.IntN(3))
			line := turn<<32 | uint64(rand.IntN(9)) | uint64(rand.IntN(10))<<8
			atomic.StoreUint64((*uint64)(unsafe.Pointer(&at[56])), line)
			at[rand.IntN(len(at))] = byte(rand.Uint32())
			done++
		}
	}
	return done
}
