package engine

// This file is the image of a context that moves to another card: all that the card keeps about the
// context besides the process's own memory, as bytes. The image passes through the process's hands,
// and the card that takes it believes nothing. An image can say nothing that the process could not
// have asked its card for itself. All of it is read and checked before anything changes
// (imageContent). A slot that was drained is checked as the packet that it becomes (repack).
// Traffic is not in the image, since each card counts the packets that it has moved itself.
//
// All numbers are little-endian. Counts come before the items that they count. Bytes after the end
// are refused.
//
//	u32 magic 0x4d55464e ("NFUM"), u16 version 2, u16 gid, u16 node, u16 segments
//	segments times: u32 base, u32 rights, u64 bytes
//	u64 lineage (see Context)
//	u32 key slots, u32 areas, u32 entries of the notification ring: the sizes of the tables
//	u32 n, n times a window: u32 number and flags (see below), u64 key, u32 base, u32 bytes,
//	    u64 address, u32 locker and rights, u32 life, u32 credit, and if it has counts their u32
//	    address
//	u32 n, n times an area: u32 number and flags, u32 counter, u32 credit, u32 key slot and words
//	    of metadata
//	u32 head, u32 tail of the ring, head - tail times u32: the kind of the entry
//	u64 completed, u64 notified, u64 operations, u64 failed
//	u32 n, n times u16 (and 0 to a whole u32): the generations of records of operations
//	u32 n, n times a chain: u32 number and flags, u32 parent, u32 next, next times u32 node and
//	    members
//	for each level: u32 n, n times a slot that was drained
//	if the context receives messages, or has unread ones: u32 mode, u32 base, u32 bytes,
//	    u32 credit, u32 read, u32 write (receiver); no message of many packets is under way
//
// The windows and all after them, up to the chains, are there only if the context has such tables.

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

const (
	imageMagic   = 0x4d55464e
	imageVersion = 2

	imageFlag    = 1 << 16 // of a window: suspended; of an area: returns; of a chain: first
	imageLocked  = 1 << 17 // of a window
	imageCounts  = 1 << 18 // of a window
	imageFlags   = imageFlag | imageLocked | imageCounts
	windowImage  = 40
	areaImage    = 16
	segmentImage = 16
)

// ErrImage reports bytes that are no image of a context, or an image of a context with other
// segments or tables.
var ErrImage = errors.New("engine: that is not the image of a context like this one; take it from the card that the context leaves, and register the same segments")

// ImageSegment is a segment of a context that has left its card.
type ImageSegment struct {
	Base   uint32
	Rights funi.Rights
	Bytes  uint64
}

// Image is the result of ReadImage: the data needed to make a context into which Import can take
// the image.
type Image struct {
	GID, Node uint16
	Segments  []ImageSegment
	Remote    funi.RemoteSizes

	lineage uint64
}

// encodeImage returns the image of a context that is off the card, and of its drained slots.
func (x *Context) encodeImage(drained *[arctic.Levels][]funi.Slot) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, imageMagic)
	segments := x.segments.All()
	for _, v := range []uint16{imageVersion, x.gid, x.node, uint16(len(segments))} {
		b = le.AppendUint16(b, v)
	}
	for _, s := range segments {
		b = le.AppendUint32(b, s.Base)
		b = le.AppendUint32(b, uint32(s.Rights))
		b = le.AppendUint64(b, uint64(len(s.Memory)))
	}
	b = le.AppendUint64(b, x.lineage)
	b = x.encodeRemote(b)
	var chains []byte
	n := uint32(0)
	if x.chains != nil {
		for i, ch := range x.chains {
			if ch == nil || !ch.member {
				continue
			}
			n++
			chains = le.AppendUint32(chains, uint32(i)|flag(ch.first, imageFlag))
			chains = le.AppendUint32(chains, uint32(ch.parent))
			chains = le.AppendUint32(chains, uint32(len(ch.next)))
			for _, next := range ch.next {
				chains = le.AppendUint32(chains, uint32(next.Node)|uint32(next.Members)<<16)
			}
		}
	}
	b = append(le.AppendUint32(b, n), chains...)
	for _, slots := range drained {
		b = le.AppendUint32(b, uint32(len(slots)))
		for i := range slots {
			for _, w := range slots[i] {
				b = le.AppendUint32(b, w)
			}
		}
	}
	if x.remote != nil && x.remote.receiver != nil {
		if v := x.remote.receiver; v.credit|v.unread != 0 {
			for _, w := range []uint32{uint32(v.mode), v.base, uint32(len(v.memory)), v.credit, v.read, v.write} {
				b = le.AppendUint32(b, w)
			}
		}
	}
	return b
}

func flag(set bool, bit uint32) uint32 {
	if set {
		return bit
	}
	return 0
}

// encodeRemote appends the remote memory.
func (x *Context) encodeRemote(b []byte) []byte {
	le := binary.LittleEndian
	r := x.remote
	if r == nil {
		return append(b, make([]byte, 12)...)
	}
	for _, n := range []int{len(r.keySlots), len(r.areas), len(r.ring)} {
		b = le.AppendUint32(b, uint32(n))
	}
	at, n := len(b), uint32(0)
	b = le.AppendUint32(b, 0)
	for i := range r.keySlots {
		s := &r.keySlots[i]
		if s.memory == nil {
			continue // what is unread of it stands in the ring
		}
		base, _ := x.segments.Address(s.memory, funi.Keyed)
		b = le.AppendUint32(b, uint32(i)|flag(s.suspended, imageFlag)|flag(s.locked, imageLocked)|
			flag(s.counts != 0, imageCounts))
		b = le.AppendUint64(b, s.key)
		b = le.AppendUint32(b, base)
		b = le.AppendUint32(b, uint32(len(s.memory)))
		b = le.AppendUint64(b, s.address)
		b = le.AppendUint32(b, uint32(s.locker)|uint32(s.rights)<<16)
		b = le.AppendUint32(b, s.life)
		b = le.AppendUint32(b, s.credit)
		if s.counts != 0 {
			b = le.AppendUint32(b, s.counts)
		}
		n++
	}
	le.PutUint32(b[at:], n)
	at, n = len(b), 0
	b = le.AppendUint32(b, 0)
	for i := range r.areas {
		a := &r.areas[i]
		if a.credit == 0 {
			continue
		}
		b = le.AppendUint32(b, uint32(i)|flag(a.returns, imageFlag))
		b = le.AppendUint32(b, a.counter)
		b = le.AppendUint32(b, a.credit)
		b = le.AppendUint32(b, uint32(a.keySlot)|uint32(a.metadata)<<16)
		n++
	}
	le.PutUint32(b[at:], n)
	b = le.AppendUint32(b, r.head)
	b = le.AppendUint32(b, r.tail)
	for i := r.tail; i != r.head; i++ {
		b = le.AppendUint32(b, r.ring[i&uint32(len(r.ring)-1)])
	}
	for _, v := range []uint64{r.requests.completed, r.use.Notified, r.use.Operations, r.use.Failed} {
		b = le.AppendUint64(b, v)
	}
	b = le.AppendUint32(b, uint32(len(r.requests.table)))
	for i := range r.requests.table {
		b = le.AppendUint16(b, r.requests.table[i].generation)
	}
	if len(r.requests.table)%2 != 0 {
		b = le.AppendUint16(b, 0)
	}
	return b
}

// imageReader takes an image apart. After the end, or after an error, it reads only zeros, and
// wrong is set.
type imageReader struct {
	b     []byte
	wrong bool
}

func (r *imageReader) take(n int) []byte {
	if n > len(r.b) {
		r.wrong, r.b = true, nil
		return make([]byte, n)
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *imageReader) u16() uint16 { return binary.LittleEndian.Uint16(r.take(2)) }
func (r *imageReader) u32() uint32 { return binary.LittleEndian.Uint32(r.take(4)) }
func (r *imageReader) u64() uint64 { return binary.LittleEndian.Uint64(r.take(8)) }

// count reads how many items of that many bytes follow. It refuses more than most, and more than
// the image has room for.
func (r *imageReader) count(bytes, most int) int {
	n := r.u32()
	if uint64(n) > uint64(most) || uint64(n)*uint64(bytes) > uint64(len(r.b)) {
		r.wrong, r.b = true, nil
		return 0
	}
	return int(n)
}

// ensure sets wrong unless ok.
func (r *imageReader) ensure(ok bool) {
	if !ok {
		r.wrong, r.b = true, nil
	}
}

// head reads the part of an image before the windows.
func (r *imageReader) head() (m Image) {
	r.ensure(r.u32() == imageMagic)
	r.ensure(r.u16() == imageVersion)
	m.GID, m.Node = r.u16(), r.u16()
	n := int(r.u16())
	r.ensure(m.GID <= arctic.MaxGID && n <= funi.MaxSegments && n*segmentImage <= len(r.b))
	for range n {
		if r.wrong {
			break
		}
		s := ImageSegment{Base: r.u32()}
		rights := r.u32()
		s.Rights, s.Bytes = funi.Rights(rights), r.u64()
		r.ensure(rights&^uint32(funi.Source|funi.Destination|funi.Keyed) == 0 && s.Bytes <= 1<<32)
		m.Segments = append(m.Segments, s)
	}
	m.lineage = r.u64()
	sizes := [3]uint32{r.u32(), r.u32(), r.u32()}
	for _, v := range sizes {
		r.ensure(v <= funi.MaxNotifications)
	}
	m.Remote = funi.RemoteSizes{KeySlots: int(sizes[0]), Areas: int(sizes[1]), Notifications: int(sizes[2])}
	r.ensure(m.Remote.Check() == nil)
	return m
}

// ReadImage reads which context an image is of, and what that context needs. It returns ErrImage
// for bytes that do not begin as an image. Import checks the rest. The bytes may be anything.
func ReadImage(b []byte) (Image, error) {
	r := imageReader{b: b}
	if m := r.head(); !r.wrong {
		return m, nil
	}
	return Image{}, fmt.Errorf("reading an image of %d bytes: %w", len(b), ErrImage)
}

// imageContent is the decoded content of an image. Nothing of it refers to the context.
type imageContent struct {
	lineage     uint64
	remote      *remote
	answers     bool        // a window is open that others may read or change
	unread      uint32      // messages whose entries are in the ring
	generations []uint16    // of the records of operations; nil: there are none
	chains      []funi.Slot // a block of SetChain for each
	drained     [arctic.Levels][]funi.Slot
}

// decodeImage reads an image for a context that is off the card and has nothing yet. It returns
// ErrImage if the image does not fit. In either case it changes only the memory of the context's
// tables. After ErrImage the caller must clear these again.
func (x *Context) decodeImage(b []byte) (*imageContent, error) {
	r := imageReader{b: b}
	m := r.head()
	sizes := funi.RemoteSizes{}
	if x.remote != nil {
		sizes = x.iface.Memory().Remote
	}
	segments := x.segments.All()
	r.ensure(m.GID == x.gid && m.Node == x.node && m.Remote == sizes && len(m.Segments) == len(segments))
	for i := 0; !r.wrong && i < len(segments); i++ {
		s := &segments[i]
		r.ensure(m.Segments[i] == ImageSegment{Base: s.Base, Rights: s.Rights, Bytes: uint64(len(s.Memory))})
	}
	content := &imageContent{lineage: m.lineage}
	if x.remote != nil && !r.wrong {
		content.remote = x.remote.anew() // with the context's tables, which are empty
		r.decodeRemote(content, &x.segments)
	}
	for range r.count(12, funi.MaxChains) {
		r.decodeChain(content)
	}
	for l := range content.drained {
		for range r.count(4*funi.SlotWords, x.fifo[l].size) {
			var s funi.Slot
			for i := range s {
				s[i] = r.u32()
			}
			var packet [arctic.MaxPacketSize]byte
			_, ok := x.repack(arctic.Level(l), &s, &packet)
			r.ensure(ok)
			content.drained[l] = append(content.drained[l], s)
		}
	}
	if content.remote != nil && !r.wrong {
		r.decodeReceiver(content, x)
	}
	r.ensure(len(r.b) == 0)
	if r.wrong {
		return nil, fmt.Errorf("taking an image of %d bytes: %w", len(b), ErrImage)
	}
	return content, nil
}

// takeContent gives a context the content of an image.
func (x *Context) takeContent(content *imageContent) {
	x.lineage = content.lineage
	if x.remote = content.remote; x.remote == nil {
		return
	}
	x.remote.moved = true
	if content.answers {
		x.makeAnswers()
	}
	if content.generations != nil {
		x.remote.adoptRequests(x, content.generations)
	}
	for i := range content.chains {
		x.setChain(&content.chains[i])
	}
}

// decodeRemote reads the remote memory. It counts the ring's promises anew: the ring must have room
// for each.
func (b *imageReader) decodeRemote(content *imageContent, segments *funi.Segments) {
	r := content.remote
	for range b.count(windowImage, len(r.keySlots)) {
		n := b.u32()
		s := keySlot{key: b.u64()}
		base, size := b.u32(), b.u32()
		s.address = b.u64()
		word := b.u32()
		s.locker, s.rights, s.life, s.credit = uint16(word), funi.WindowRights(word>>16), b.u32(), b.u32()
		s.suspended, s.locked, s.from = n&imageFlag != 0, n&imageLocked != 0, base
		if n&imageCounts != 0 {
			s.counts = b.u32()
			b.ensure(countsAt(segments, s.counts) != nil)
		}
		n &^= imageFlags
		b.ensure(n < uint32(len(r.keySlots)) && n == uint32(uint16(s.key)) && word>>16 <=
			uint32(funi.RightRead|funi.RightWrite|funi.RightAtomic|funi.RightNotify) && size > 0 && s.credit <=
			uint32(len(r.ring)) &&
			s.address <= arctic.MaxAddress && s.address+uint64(size)-1 <= arctic.MaxAddress)
		if b.wrong {
			return
		}
		s.memory = segments.Memory(base, int(size), funi.Keyed)
		b.ensure(s.memory != nil && r.keySlots[n].memory == nil)
		if b.wrong {
			return
		}
		r.keySlots[n] = s
		r.use.KeySlotsOpen++
		if s.rights&(funi.RightRead|funi.RightAtomic) != 0 {
			content.answers = true
		}
	}
	for range b.count(areaImage, len(r.areas)) {
		n := b.u32()
		a := area{counter: b.u32(), credit: b.u32(), returns: n&imageFlag != 0}
		word := b.u32()
		a.keySlot, a.metadata = uint16(word), uint8(word>>16)
		n &^= imageFlag
		b.ensure(n < uint32(len(r.areas)) && int(a.keySlot) < len(r.keySlots) && a.credit > 0 && a.credit <=
			uint32(len(r.ring)) && word>>16 <= arctic.MaxRemoteMetadata)
		if b.wrong || r.areas[n].credit != 0 {
			b.ensure(false)
			return
		}
		r.areas[n] = a
		r.use.AreasOpen++
	}
	r.head, r.tail = b.u32(), b.u32()
	b.ensure(r.head-r.tail <= uint32(len(r.ring)) && uint64(r.head-r.tail)*4 <= uint64(len(b.b)))
	if b.wrong {
		r.head, r.tail = 0, 0
		return
	}
	for i := r.tail; i != r.head; i++ {
		of := b.u32()
		switch {
		case of == noteOfRequest:
		case of == noteOfMessage:
			content.unread++
		case of >= noteOfWindow && of-noteOfWindow < uint32(len(r.keySlots)):
			r.keySlots[of-noteOfWindow].unread++
		case of < uint32(len(r.areas)):
			r.areas[of].unread++
		default:
			b.ensure(false)
			return
		}
		r.ring[i&uint32(len(r.ring)-1)] = of
	}
	r.requests.completed, r.use.Notified, r.use.Operations, r.use.Failed = b.u64(), b.u64(), b.u64(), b.u64()
	r.use.Completed = r.requests.completed
	if n := b.count(2, min(len(r.ring), funi.MaxRequests)); n > 0 {
		b.ensure(n == min(len(r.ring), funi.MaxRequests))
		for range n {
			content.generations = append(content.generations, b.u16())
		}
		if n%2 != 0 {
			b.ensure(b.u16() == 0)
		}
	}
	for i := range r.keySlots {
		b.ensure(r.keySlots[i].memory == nil || r.keySlots[i].unread <= r.keySlots[i].credit)
	}
	for i := range r.areas {
		b.ensure(r.areas[i].credit == 0 || r.areas[i].unread <= r.areas[i].credit)
	}
	r.promised = r.owed()
	b.ensure(r.promised <= uint32(len(r.ring)))
}

// decodeReceiver reads where the context receives messages.
func (b *imageReader) decodeReceiver(content *imageContent, x *Context) {
	r := content.remote
	if len(b.b) == 0 {
		b.ensure(content.unread == 0)
		return
	}
	o := funi.Receive{Mode: funi.ReceiveMode(b.u32()), Base: b.u32(), Bytes: b.u32(), Credit: b.u32()}
	read, write := b.u32(), b.u32()
	memory, ok := x.receiveMemory(&o)
	v := &receiver{ctx: x, unread: content.unread}
	if o.Credit > 0 {
		if b.ensure(ok); ok {
			v.receives(x, &o, memory)
			v.read, v.write = read, write
		}
		b.ensure(v.unread <= v.credit && write-read <= v.units())
	} else {
		b.ensure(o.Mode == funi.ReceiveFast && o.Base == 0 && o.Bytes == 0 && v.unread > 0)
	}
	r.promised += max(v.credit, v.unread)
	b.ensure(v.credit <= uint32(len(r.ring)) && r.promised <= uint32(len(r.ring)))
	r.receiver = v
	content.answers = content.answers || v.memory != nil
}

// owed returns how many entries the ring must have room for.
func (r *remote) owed() (n uint32) {
	sum := uint64(0)
	for i := range r.keySlots {
		s := &r.keySlots[i]
		sum += uint64(max(s.credit, s.unread))
	}
	for i := range r.areas {
		a := &r.areas[i]
		sum += uint64(max(a.credit, a.unread))
	}
	for i := r.tail; i != r.head; i++ {
		if r.ring[i&uint32(len(r.ring)-1)] == noteOfRequest {
			sum++
		}
	}
	return uint32(min(sum, 1<<32-1))
}

// decodeChain reads a chain, as a block of SetChain.
func (b *imageReader) decodeChain(content *imageContent) {
	word, parent := b.u32(), b.u32()
	var next, again [funi.MaxNext]funi.Next
	n := b.count(4, funi.MaxNext)
	for i := range n {
		v := b.u32()
		next[i] = funi.Next{Node: uint16(v), Members: uint16(v >> 16)}
	}
	b.ensure(word&^imageFlag < funi.MaxChains && parent <= 0xffff && content.remote != nil)
	if b.wrong {
		return
	}
	var w funi.Slot
	w.SetChain(&funi.Chain{Number: uint16(word), First: word&imageFlag != 0, Parent: uint16(parent), Next: next[:n]}, 0)
	leaves, ok := funi.ReadChain(&w, &again, new(funi.Chain))
	b.ensure(ok && !leaves)
	content.chains = append(content.chains, w)
}
