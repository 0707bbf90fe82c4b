package hostile

// This file is the enemy in the memory that it shares with the card.

import (
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

// pageWords is the register page, in words.
const pageWords = funi.PageSize / 4

// Words of the register page that are no registers (package funi): return head and tail,
// returns lost, asleep, fault, version, wake, gone, and the notification ring's.
var otherWords = []int{0x400 / 4, 0x440 / 4, 0x480 / 4, 0x4c0 / 4, 0x4c8 / 4, 0x4d0 / 4, 0x4d8 / 4, 0x4e0 / 4,
	0x600 / 4, 0x640 / 4, 0x680 / 4, 0x688 / 4, 0x690 / 4}

// scribble writes anything anywhere.
func (e *enemy) scribble() {
	for range 2000 {
		i := e.r.IntN(len(e.words))
		if e.r.IntN(2) == 0 {
			i = e.r.IntN(pageWords)
		}
		atomic.StoreUint32(&e.words[i], e.value())
	}
}

// registers writes the registers.
func (e *enemy) registers() {
	for range 500 {
		e.k.Memory.Page.Store(funi.Register(e.r.IntN(funi.Registers)), e.value())
	}
}

// modes goes through changes of the queues, by the book but for what it writes.
func (e *enemy) modes() {
	p := e.k.Memory.Page
	for range 20 {
		mode := []uint32{funi.CSQM, funi.CRQM, funi.UserModes, e.value()}[e.r.IntN(4)]
		p.Store(funi.Control, mode)
		e.k.Wake()
		for range e.r.IntN(50) {
			unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		}
		slots := uint32(2) << e.r.IntN(8)
		p.Store(funi.QMask, slots-1)
		for i := range funi.Register(4) {
			base := uint32(e.r.IntN(len(e.words)-pageWords)) * 4
			if e.r.IntN(8) == 0 {
				base = e.value()
			}
			p.Store(funi.RPSQBase+i, base)
			p.Store(funi.RPSQHead+2*i, 0)
			p.Store(funi.RPSQHead+2*i+1, 0)
		}
		p.Store(funi.Control, 0)
	}
}

// calm makes queues that work, so that what follows reaches the card.
func (e *enemy) calm() {
	p := e.k.Memory.Page
	slots := 2
	for 2*slots*6*funi.SlotWords <= len(e.k.Memory.Queues) {
		slots *= 2
	}
	p.Store(funi.Control, funi.UserModes)
	e.k.Wake()
	for range 200 {
		if ready := uint32(funi.CSQR | funi.CRQR); p.Load(funi.Control)&ready == ready {
			break
		}
		unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
	p.Store(funi.QMask, uint32(slots-1))
	for i := range funi.Register(4) {
		p.Store(funi.RPSQBase+i, uint32(int(i)*slots*funi.SlotWords*4))
		p.Store(funi.RPSQHead+2*i, 0)
		p.Store(funi.RPSQHead+2*i+1, 0)
	}
	p.Store(funi.Control, 0)
}

// indices races heads and tails while the card reads.
func (e *enemy) indices() {
	e.calm()
	p := e.k.Memory.Page
	for i := range 3000 {
		r := funi.RPSQHead + funi.Register(e.r.IntN(8))
		p.Store(r, p.Load(r)+uint32(e.r.IntN(64))-32)
		if i%500 == 0 {
			e.k.Wake()
		}
	}
}

// forge fills the send queues with messages and transfers to anybody, in the name of anybody it
// likes, of the types that the victims use.
func (e *enemy) forge() {
	e.calm()
	queues := e.words[pageWords:]
	for range 4 {
		for i := 0; i+funi.SlotWords <= len(queues); i += funi.SlotWords {
			e.slot((*funi.Slot)(queues[i : i+funi.SlotWords]))
			if i > 64*funi.SlotWords && e.r.IntN(64) == 0 {
				break
			}
		}
		e.k.Memory.Page.Store(funi.RPSQHead, e.value())
		e.k.Memory.Page.Store(funi.RQSQHead, e.value())
		e.k.Wake()
	}
}

// slot forges one.
func (e *enemy) slot(s *funi.Slot) {
	for i := range s {
		s[i] = e.value()
	}
	s[funi.SourceWord] = uint32(e.r.IntN(2))
	node := uint16(e.r.IntN(3))
	if e.r.IntN(4) == 0 {
		node = uint16(e.value())
	}
	typ := []uint16{typeRequest, typeAnswer, typeBlock, typeBlockAnswer, uint16(e.value())}[e.r.IntN(5)]
	switch e.r.IntN(5) {
	case 0:
		s.SetHeader(funi.Header(e.value()))
	case 2:
		e.block(s, node)
	case 1:
		words := e.r.IntN(2) * 4 * e.r.IntN(1<<18)
		s.SetTransfer(node, typ, funi.Transfer{Source: e.address(), Destination: e.address(),
			Argument: blockArgument | uint32(e.r.IntN(1000)), Words: words})
	default:
		s.SetHeader(funi.NewHeader(node, typ, e.r.IntN(32)))
	}
}

// block forges a request block for remote memory: a few keys and areas, so that some of it is in
// order.
func (e *enemy) block(s *funi.Slot, node uint16) {
	key, area := uint64(e.r.IntN(4))<<16|uint64(e.r.IntN(4)), uint16(e.r.IntN(4))
	switch e.r.IntN(8) {
	case 0:
		s.SetOpenKeySlot(key, e.address(), e.value(), 0)
	case 1:
		s.SetOpenKeySlot(key, segmentBase, segmentBytes, 0)
	case 2:
		s.SetCloseKeySlot(key, 0)
	case 3:
		s.SetOpenArea(area, key, e.r.IntN(8), e.r.IntN(2) == 0, 0)
	case 4:
		s.SetCloseArea(area, 0)
	case 5:
		s.SetResetArea(area, 0)
	default:
		p := funi.Put{Key: key, Offset: uint32(e.r.IntN(segmentBytes)), Area: area, Counted: e.r.IntN(2) == 0,
			Count: uint32(e.r.IntN(3)) - 1}
		if e.r.IntN(2) == 0 {
			p.Source, p.Length = e.address(), e.r.IntN(segmentBytes)
		}
		s.SetPut(node, &p)
	}
	if e.r.IntN(8) == 0 {
		s[e.r.IntN(funi.RemoteDataWord)] = e.value()
	}
}

// address returns an address in a segment, its own or a victim's, or any.
func (e *enemy) address() uint32 {
	if e.r.IntN(4) == 0 {
		return e.value()
	}
	return segmentBase + uint32(e.r.IntN(3))<<20 + uint32(e.r.IntN(segmentBytes))
}

// race changes slots while the card reads them.
func (e *enemy) race() {
	e.calm()
	p := e.k.Memory.Page
	queues := e.words[pageWords:]
	slots := int(p.Load(funi.QMask)) + 1
	if slots*funi.SlotWords*2 > len(queues) || slots < 2 {
		return
	}
	for i := range 3000 {
		q := e.r.IntN(2)
		at := q*slots*funi.SlotWords + e.r.IntN(min(slots, 16))*funi.SlotWords
		s := (*funi.Slot)(queues[at : at+funi.SlotWords])
		if i%4 == 0 {
			e.slot(s)
			head := funi.RPSQHead + funi.Register(2*q)
			p.Store(head, (p.Load(head)+1)&uint32(slots-1))
		}
		atomic.StoreUint32(&s[e.r.IntN(5)], e.value())
		atomic.StoreUint32(&s[0], s[0]^1<<e.r.IntN(32))
		if i%500 == 0 {
			e.k.Wake()
		}
	}
}

// otherWords writes the rest of the page.
func (e *enemy) otherWords() {
	for range 1000 {
		atomic.StoreUint32(&e.words[otherWords[e.r.IntN(len(otherWords))]], e.value())
	}
}

// ring rings for others, takes their rings away, and writes what is no bell.
func (e *enemy) ring() {
	for range 1000 {
		i := e.r.IntN(len(e.bells))
		if e.r.IntN(2) == 0 {
			i = e.r.IntN(64)
		}
		v := e.value()
		if e.r.IntN(3) == 0 {
			v = 0
		}
		atomic.StoreUint32(&e.bells[i], v)
	}
}

// flood sends messages and long transfers that are in order to its own nodes, which never
// take them.
func (e *enemy) flood() {
	e.calm()
	p := e.k.Memory.Page
	queues := e.words[pageWords:]
	slots := int(p.Load(funi.QMask)) + 1
	if slots < 2 || 4*slots*funi.SlotWords > len(queues) {
		return
	}
	for q := range 2 {
		for i := range slots {
			at := (q*slots + i) * funi.SlotWords
			s := (*funi.Slot)(queues[at : at+funi.SlotWords])
			to := uint16(e.r.IntN(2))
			if e.r.IntN(4) == 0 {
				s.SetTransfer(to, 7, funi.Transfer{Source: segmentBase, Destination: segmentBase,
					Words: 4 * e.r.IntN(segmentBytes/16)})
			} else {
				s.SetHeader(funi.NewHeader(to, 7, funi.MaxPayloadWords))
			}
		}
		head := funi.RPSQHead + funi.Register(2*q)
		p.Store(head, (p.Load(head)+uint32(slots-1))&uint32(slots-1))
	}
	e.k.Wake()
	for range 200 { // as fast as the card takes them
		for q := range 2 {
			head := funi.RPSQHead + funi.Register(2*q)
			p.Store(head, (p.Load(head+1)+uint32(slots-1))&uint32(slots-1))
		}
		unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
}

// events fills, empties and changes the descriptors for waking.
func (e *enemy) events() {
	card, process := e.k.FDs[attach.CardDescriptor], e.k.FDs[attach.ProcessDescriptor]
	var b [4096]byte
	switch e.r.IntN(6) {
	case 0:
		_, _ = unix.Write(card, []byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	case 1:
		_, _ = unix.Read(card, b[:8])
	case 2:
		for _, fd := range []int{card, process} { // without O_NONBLOCK a write waits for room
			_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_ASYNC)
			_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETOWN, unix.Getppid())
		}
	case 3:
		_, _ = unix.FcntlInt(uintptr(process), unix.F_SETPIPE_SZ, e.r.IntN(1<<20))
		if _, err := unix.Write(process, b[:8]); err == nil {
			bad("wrote to the descriptor that the card wakes processes with")
		}
	case 4:
		for range 200 {
			atomic.StoreUint32(&e.words[0x4d8/4], 1)
			e.k.Wake()
		}
	case 5:
		_, _ = unix.FcntlInt(uintptr(card), unix.F_SETFL, unix.O_NONBLOCK)
		_, _ = unix.FcntlInt(uintptr(process), unix.F_SETFL, unix.O_NONBLOCK)
		_, _ = unix.Read(process, b[:])
	}
}

// collapse is MADV_COLLAPSE (Linux 6.1).
const collapse = 25

// holes tries to make some in a file that is shared with the card. Where memory cannot have any
// that is refused as long as the card uses it, which this process cannot tell for sure; what it can
// is that nobody but the daemon changes that.
func (e *enemy) holes(fd int, st *unix.Stat_t) {
	for range 20 {
		_ = unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(e.r.IntN(int(st.Size))),
			int64(1+e.r.IntN(1<<16)))
		_ = unix.Fallocate(fd, unix.FALLOC_FL_ZERO_RANGE, 0, st.Size)
		_ = unix.Madvise(e.k.Maps[0], unix.MADV_REMOVE)
		if unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, 0) == nil {
			bad("the flags of a file that is shared with the card were changed")
		}
	}
}

// files treats the memory as the file that it is.
func (e *enemy) files() {
	fd := e.k.FDs[e.r.IntN(len(e.k.FDs))]
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return
	}
	for _, size := range []int64{0, 1, st.Size - 1, st.Size + 1, 1 << 40} {
		if unix.Ftruncate(fd, size) == nil {
			bad("a file of %d bytes that is shared with the card was cut to %d", st.Size, size)
		}
	}
	if unix.Fallocate(fd, 0, 0, st.Size+1<<20) == nil {
		bad("a file that is shared with the card has grown")
	}
	for _, seal := range []int{unix.F_SEAL_WRITE, unix.F_SEAL_FUTURE_WRITE, unix.F_SEAL_EXEC} {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seal); err == nil {
			bad("a seal was added to a file that is shared with the card")
		}
	}
	e.holes(fd, &st)
	m := e.k.Maps[0]
	_ = unix.Madvise(m, []int{unix.MADV_DONTNEED, unix.MADV_HWPOISON, unix.MADV_DONTFORK, unix.MADV_PAGEOUT,
		collapse}[e.r.IntN(5)])
	if other, err := unix.Mmap(fd, 0, int(st.Size), unix.PROT_READ, unix.MAP_SHARED); err == nil && e.r.IntN(4) > 0 {
		_ = unix.Munmap(other)
	}
	if e.r.IntN(8) == 0 {
		_ = unix.Close(fd)
		e.k.FDs = e.k.FDs[:0] // the numbers may become others'
		e.k = nil
	}
}
