package attack

// This file is a process that writes over the rings of its ports, which it shares with the kernel.

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/arctic"
)

// rings holds the mapped rings and frames of a port.
type rings struct {
	fd     int
	all    [4]ring
	frames []byte
}

type ring struct {
	memory  []byte
	indices [3]int // offsets of producer, consumer and flags
	slots   int    // offset of the first slot
	size    int    // of a slot, in bytes
}

// These are indices into rings.all.
const sendRing, fillRing = 1, 2

// openRings takes the port of a seat, and maps its rings and frames. It fills every frame with one
// that may be sent.
func (p *player) openRings(s *seat) error {
	place, token, err := p.askPort(s)
	if err != nil {
		return err
	}
	defer place.Memory.Close()
	var off unix.XDPMmapOffsets
	size := uint32(unsafe.Sizeof(off))
	if _, _, e := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(place.Socket), unix.SOL_XDP, unix.XDP_MMAP_OFFSETS,
		uintptr(unsafe.Pointer(&off)), uintptr(unsafe.Pointer(&size)), 0); e != 0 {
		return fmt.Errorf("asking where rings lie: %w", e)
	}
	g := place.Answer.Geometry
	r := &rings{fd: place.Socket}
	for i, of := range []struct {
		at          int64
		off         unix.XDPRingOffset
		size, slots int
	}{{unix.XDP_PGOFF_RX_RING, off.Rx, 16, int(g.RxSize)}, {unix.XDP_PGOFF_TX_RING, off.Tx, 16, int(g.TxSize)},
		{unix.XDP_UMEM_PGOFF_FILL_RING, off.Fr, 8, int(g.FillSize)},
		{unix.XDP_UMEM_PGOFF_COMPLETION_RING, off.Cr, 8, int(g.CompletionSize)}} {
		memory, err := unix.Mmap(place.Socket, of.at, int(of.off.Desc)+of.size*of.slots, unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_SHARED)
		if err != nil {
			return fmt.Errorf("mapping ring %d: %w", i, err)
		}
		r.all[i] = ring{memory, [3]int{int(of.off.Producer), int(of.off.Consumer), int(of.off.Flags)},
			int(of.off.Desc), of.size}
	}
	if r.frames, err = unix.Mmap(int(place.Memory.Fd()), 0, int(g.Bytes()), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED); err != nil {
		return fmt.Errorf("mapping frames: %w", err)
	}
	of := &gate{seat: s, tag: arctic.JobTag(token[:], s.group.GID)}
	for at := 0; at < len(r.frames); at += int(g.FrameSize) {
		p.right(r.frames[at:at+floodFrame], of, p.twin(s))
	}
	p.rings = append(p.rings, r)
	return nil
}

// scribble writes over indices, descriptors and frames, and has the kernel look at them.
//
// Most of the slots keep values that the kernel accepts. This matters in the fill ring. For each
// frame that arrives, the kernel searches this ring for the first valid address, from the consumer
// as far as the producer says (__xp_alloc). It does so in the thread that sends, with softirqs off.
// Without a valid address the search takes 2.6 ns for each of up to 2^32 slots on Linux 6.18. Only
// the kernel can bound it.
func (p *player) scribble() (did int) {
	le := binary.LittleEndian
	for _, r := range p.rings {
		for range burst {
			i := rand.IntN(len(r.all))
			ring := &r.all[i]
			slot := ring.memory[ring.slots+rand.IntN((len(ring.memory)-ring.slots)/ring.size)*ring.size:]
			switch rand.IntN(8) {
			case 0:
				le.PutUint32(ring.memory[ring.indices[rand.IntN(3)]:], rand.Uint32()>>rand.IntN(32))
			case 1: // of the frames, or of none, and with options that there are not
				le.PutUint64(slot, rand.Uint64()>>rand.IntN(64))
				if ring.size == 16 {
					le.PutUint64(slot[8:], rand.Uint64()>>rand.IntN(64))
				}
			case 2:
				le.PutUint64(r.frames[rand.IntN(len(r.frames)/8)*8:], rand.Uint64())
			default: // which the kernel takes
				le.PutUint64(slot, uint64(rand.IntN(len(r.frames))))
				if ring.size == 16 {
					le.PutUint64(slot[8:], floodFrame)
				}
			}
			did++
		}
		for _, i := range []int{sendRing, fillRing} { // producers that the kernel takes
			ring := &r.all[i]
			slots := (len(ring.memory) - ring.slots) / ring.size
			le.PutUint32(ring.memory[ring.indices[0]:], le.Uint32(ring.memory[ring.indices[1]:])+
				rand.Uint32N(uint32(slots)+1))
		}
		_, _, _ = unix.Syscall6(unix.SYS_SENDTO, uintptr(r.fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
		_, _, _ = unix.Syscall6(unix.SYS_RECVFROM, uintptr(r.fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	}
	return did
}
