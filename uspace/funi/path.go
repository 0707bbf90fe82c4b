package funi

// This file has the memory of a path's end, which process and card share: ULTRA's ports (Froening's
// thesis, sections 3.5.2 to 3.5.5). With one store the process sends a cache line, and with one
// load it receives one.
//
// A process opens an end by a request block (remote.go), with words 8 and 9 the address of its
// memory in a segment with the right Keyed, a multiple of 64, and word 10 its slices; 0: it sends.
// The node of the header is that of the other end. Word 2 is the cookie of the end's notifications.
// A block of ClosePath names the end by its address. When that block is retired, the card uses the
// memory no more.
//
// The memory of an end, in bytes:
//
//	0x000  line (process): seven words of 64 bits, and the control word
//	0x040  answer (card): turn 63:32, a PathStatus 7:0
//	0x048  read (card): how many lines the target has
//	0x080  state (card): a PathState 7:0, an arctic.Reason 15:8
//	0x0c0  read pointer (process): how many slices it has given back
//	0x100  slices of 64 bytes, of an end that receives
//
// A line has a variable start and a fixed end: of n words the first, the tag, is word 7-n, and the
// last is word 6. The store of the control word sends it:
//
//	63:32  turn, one more than that of the line before
//	 15:8  PathFlags
//	  7:0  n, 0 to 7; 0: the line is the last of the path
//
// The process waits for the card's answer before it writes the next line. The card copies a line
// once, before it answers.
//
// A slice has up to seven words from its beginning, then the status word, which the card stores
// last:
//
//	63:32  0x80000000
//	31:16  words
//	 15:0  sequence of the packet
//
// The sequence tells the packet that the process waits for from the packet that was in the slice
// before. In the thesis the process writes a zero there instead. A packet has its slice by its
// sequence, so the process receives in order, in whatever order packets arrive.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/funet/funet/uspace/arctic"
)

const (
	// MinSlices and MaxSlices bound the ring of an end that receives, a power of two.
	MinSlices = 32
	MaxSlices = 1 << 14

	// OpenPath opens an end of a path, and ClosePath closes it.
	OpenPath  RemoteOperation = 272
	ClosePath RemoteOperation = 273

	pathLineWords = 8 // words of 64 bits of a line and of a slice
	pathControl   = pathLineWords - 1
	pathAnswer    = 8
	pathRead      = 9
	pathState     = 16
	pathReadPoint = 24
	pathSlices    = 32
	pathValid     = 1 << 63
)

// ErrSlices reports a ring that no end can have.
var ErrSlices = errors.New("funi: an end that receives has a power of two of slices, from 32 to 16384")

// PathFlags say what a process wants to hear of a line (Froening's thesis, 3.5.4).
type PathFlags uint8

// The flags. Each notification is an entry of the notification ring (NotePath).
const (
	PathNotify PathFlags = 1 << iota // one when the card has taken the line
	PathAck                          // one when the target has the line, or when that has failed
	PathIRQ                          // with one of the others: it also counts as a write (Watch)
	pathFlags  = PathNotify | PathAck | PathIRQ
)

// PathStatus is the card's answer to a line.
type PathStatus uint8

const (
	PathTaken PathStatus = iota // the card has the line
	// PathFull says that 16 lines are on their way, or that the notification ring has no room. The
	// card has not taken the line; try again.
	PathFull
	PathInvalid // the control word is malformed, or asks for notifications without a ring
	PathClosed  // the path is not open
	pathStatuses
)

var pathTexts = [pathStatuses]string{"taken", "the path is full; try again", "malformed line", "the path is not open"}

// String returns the meaning of the answer.
func (s PathStatus) String() string {
	if s < pathStatuses {
		return pathTexts[s]
	}
	return fmt.Sprintf("answer %d, of another version", uint8(s))
}

// PathState is the state of an end.
type PathState uint8

const (
	PathOpening PathState = iota // the other end is not there yet
	PathOpen
	PathEnded // for the reason in the state
)

// NotePath is the entry of the ring for a line: its tag, and whether the target has it.
const NotePath NoteKind = 9

// Path is the memory of a path's end.
type Path struct {
	words  []uint64
	ring   []slice
	slices uint32 // 0: the end sends
}

// slice is a place for a line: its words, then the status word.
type slice [pathLineWords]uint64

// PathBytes returns the size of the memory of an end with that many slices; 0: it sends. Errors:
// ErrSlices.
func PathBytes(slices int) (int, error) {
	if slices != 0 && (slices < MinSlices || slices > MaxSlices || bits.OnesCount(uint(slices)) != 1) {
		return 0, fmt.Errorf("%d slices: %w", slices, ErrSlices)
	}
	return (pathSlices + slices*pathLineWords) * 8, nil
}

// MapPath makes a Path of memory of PathBytes, on a multiple of 8 bytes. Errors: ErrSlices,
// ErrLayout.
func MapPath(b []byte, slices int) (*Path, error) {
	n, err := PathBytes(slices)
	switch {
	case err != nil:
		return nil, err
	case len(b) < n || uintptr(unsafe.Pointer(unsafe.SliceData(b)))%8 != 0:
		return nil, fmt.Errorf("%d bytes for a path's end of %d: %w", len(b), n, ErrLayout)
	}
	words := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), n/8)
	p := &Path{words: words, slices: uint32(slices)}
	if slices > 0 {
		p.ring = unsafe.Slice((*slice)(unsafe.Pointer(&words[pathSlices])), slices)
	}
	return p, nil
}

// SetOpenPath composes a block that opens an end of a path to a node. Its memory is at the address.
func (s *Slot) SetOpenPath(node uint16, address uint32, slices int, cookie uint32) {
	s.setRemote(OpenPath, node, 0, cookie)
	s[RemoteSourceWord], s[RemoteLengthWord] = address, uint32(slices)
}

// SetClosePath composes a block that closes the end whose memory is at the address.
func (s *Slot) SetClosePath(address, cookie uint32) {
	s.setRemote(ClosePath, 0, 0, cookie)
	s[RemoteSourceWord] = address
}

// State returns the state of the end, and why the path has ended.
func (p *Path) State() (PathState, arctic.Reason) {
	w := atomic.LoadUint64(&p.words[pathState])
	return PathState(w), arctic.Reason(w >> 8)
}

// The process's ends.

// PathSender is the process's end of a path that it sends on. It belongs to one goroutine.
type PathSender struct {
	path  *Path
	iface *Interface
	turn  uint32
}

// SendsOn returns the end of a path that the process of the interface sends on.
func (i *Interface) SendsOn(p *Path) PathSender {
	return PathSender{path: p, iface: i}
}

// Send stores a line of up to arctic.MaxPathWords words, the tag first. Without words it is the
// last of the path. Wait for the answer before the next line.
func (s *PathSender) Send(flags PathFlags, words []uint64) {
	at := pathControl - len(words)
	copy(s.path.words[at:pathControl], words)
	s.turn++
	atomic.StoreUint64(&s.path.words[pathControl], uint64(s.turn)<<32|uint64(flags)<<8|uint64(len(words)))
	i := s.iface
	i.lines++
	if n := atomic.LoadUint32(&i.page[asleepWord]); n != 0 {
		i.memory.rouse(n)
	}
}

// Answer returns the card's answer to the last line, or false while there is none.
func (s *PathSender) Answer() (PathStatus, bool) {
	w := atomic.LoadUint64(&s.path.words[pathAnswer])
	return PathStatus(w), uint32(w>>32) == s.turn
}

// Read returns how many lines the target has, modulo 2^32.
func (s *PathSender) Read() uint32 { return uint32(atomic.LoadUint64(&s.path.words[pathRead])) }

// Lines returns how many lines the process has stored on its paths, modulo 2^32.
func (i *Interface) Lines() uint32 { return i.lines }

// PathReceiver is the process's end of a path that it receives on. It belongs to one goroutine.
type PathReceiver struct {
	path *Path
	next uint32 // packets that were received
	told uint32 // as last stored in the read pointer
}

// ReceivesOn returns the end of a path that the process receives on.
func (i *Interface) ReceivesOn(p *Path) PathReceiver { return PathReceiver{path: p} }

// Arrived reports whether the next packet is there.
func (r *PathReceiver) Arrived() bool {
	return r.holds(atomic.LoadUint64(&r.path.slice(r.next)[pathControl]))
}

func (r *PathReceiver) holds(status uint64) bool {
	return status&pathValid != 0 && uint16(status) == uint16(r.next)
}

// slice returns the slice of a packet with that number.
func (p *Path) slice(n uint32) *slice { return &p.ring[n&(p.slices-1)] }

// Receive copies the next packet of the path into words, and gives its slice back. It returns how
// many words there are, the tag first, or false if the packet is not there. 0 words are the last of
// the path. Of slices that were given back the card hears when they are a quarter of the ring.
func (r *PathReceiver) Receive(words *[arctic.MaxPathWords]uint64) (n int, ok bool) {
	w := r.path.slice(r.next)
	status := atomic.LoadUint64(&w[pathControl])
	if !r.holds(status) {
		return 0, false
	}
	*words = *(*[arctic.MaxPathWords]uint64)(w[:arctic.MaxPathWords])
	r.next++
	if r.next-r.told >= r.path.slices/4 {
		r.told = r.next
		atomic.StoreUint64(&r.path.words[pathReadPoint], uint64(r.next))
	}
	return min(int(status>>16&0xffff), arctic.MaxPathWords), true
}

// The card's end.

// CardPath is the card's end of a path. What it keeps is never read from the process's memory
// again.
type CardPath struct {
	*Path
	turn uint32 // of the last line that was answered
}

// NewCardPath returns the card's end, which has answered nothing.
func NewCardPath(p *Path) CardPath { return CardPath{Path: p} }

// Stored reports whether the process has stored a line that was not answered.
func (c *CardPath) Stored() bool {
	return uint32(atomic.LoadUint64(&c.words[pathControl])>>32) != c.turn
}

// Line copies the line that the process has stored into data, and returns its length in bytes and
// what the process wants to hear. It returns false if there is none. ok is false if the line is
// malformed, or a turn was skipped. Answer it with Answer.
func (c *CardPath) Line(data *[arctic.MaxPathWords * 8]byte) (size int, flags PathFlags, ok, there bool) {
	w := atomic.LoadUint64(&c.words[pathControl])
	turn := uint32(w >> 32)
	if turn == c.turn {
		return 0, 0, false, false
	}
	n := int(w & 0xff)
	flags, ok = PathFlags(w>>8), turn == c.turn+1 && n <= arctic.MaxPathWords && PathFlags(w>>8)&^pathFlags == 0 &&
		w>>16&0xffff == 0
	c.turn = turn
	if !ok {
		return 0, 0, false, true
	}
	// Once: the process may change it. Word by word, as a loop takes three times as long.
	line := (*slice)(c.words[:pathLineWords])
	var b [arctic.MaxPathWords * 8]byte
	binary.LittleEndian.PutUint64(b[0:], line[0])
	binary.LittleEndian.PutUint64(b[8:], line[1])
	binary.LittleEndian.PutUint64(b[16:], line[2])
	binary.LittleEndian.PutUint64(b[24:], line[3])
	binary.LittleEndian.PutUint64(b[32:], line[4])
	binary.LittleEndian.PutUint64(b[40:], line[5])
	binary.LittleEndian.PutUint64(b[48:], line[6])
	copy(data[:], b[len(b)-8*n:])
	return 8 * n, flags, true, true
}

// Answer answers the line that Line returned last.
func (c *CardPath) Answer(s PathStatus) {
	atomic.StoreUint64(&c.words[pathAnswer], uint64(c.turn)<<32|uint64(s))
}

// PutRead tells the process how many lines the target has.
func (c *CardPath) PutRead(n uint32) { atomic.StoreUint64(&c.words[pathRead], uint64(n)) }

// PutState tells the process the state of the end.
func (c *CardPath) PutState(s PathState, why arctic.Reason) {
	atomic.StoreUint64(&c.words[pathState], uint64(why)<<8|uint64(s))
}

// Fits reports whether the slice of a packet with that sequence is free, as far as the process
// says. A wrong read pointer harms that process alone.
func (c *CardPath) Fits(sequence uint16) bool {
	return uint32(sequence-uint16(atomic.LoadUint64(&c.words[pathReadPoint]))) < c.slices
}

// Put stores a packet's words, at most arctic.MaxPathWords of 64 bits, in its slice. Words that it
// does not have become 0.
func (c *CardPath) Put(sequence uint16, data []byte) {
	w := c.slice(uint32(sequence))
	var b [arctic.MaxPathWords * 8]byte
	copy(b[:], data)
	w[0], w[1] = binary.LittleEndian.Uint64(b[0:]), binary.LittleEndian.Uint64(b[8:])
	w[2], w[3] = binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])
	w[4], w[5] = binary.LittleEndian.Uint64(b[32:]), binary.LittleEndian.Uint64(b[40:])
	w[6] = binary.LittleEndian.Uint64(b[48:])
	atomic.StoreUint64(&w[pathControl], pathValid|uint64(len(data)/8)<<16|uint64(sequence))
}

// NotifyPath puts the notification of a line into the ring as entry n: the cookie of the end, the
// line's tag, and why the target has not got it. The caller makes sure that there is room.
func (c *Card) NotifyPath(n, cookie uint32, tag uint64, why arctic.Reason) {
	e := c.memory.note(n)
	clear(e)
	e[0], e[1], e[2], e[3] = cookie, uint32(why), uint32(tag), uint32(tag>>32)
	e[noteKindWord] = uint32(NotePath)
	c.noted(n)
}
