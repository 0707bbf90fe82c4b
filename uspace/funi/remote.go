package funi

// This file has remote memory (Hamlyn, HPL-95-86, sections 2.2 to 2.5; arctic/remote.go). With its
// request blocks a process opens its memory to others and writes into theirs. Its ring tells the
// process that something is complete.
//
// A key slot is a part of a segment with the right Keyed, to which the process has given a key. An
// area has a counter, to which each counted packet for the area adds its delta. When the counter
// becomes 0 everything is there, and the card puts a notification into the ring. Key slots and
// areas are tables in the card. Their sizes are fixed when the context is attached (RemoteSizes).
//
// A request block in a slot of a send queue:
//
//	word 0      header: bits 31:30 = 01, type = RemoteOperation, node 15:0, the rest 0
//	word 1      area 31:16, counted 15, words of metadata 3:0
//	word 2      cookie: the first word of the block if it comes back (Returned.Word)
//	word 3      0
//	words 4, 5  key, its lower half first
//	words 6, 7  offset in the receiver's key slot; to open a key slot its address in the process's
//	            own segment
//	words 8, 9  source address; 0: the data follows the metadata
//	word 10     length in bytes; to open an area its credit
//	word 11     count: what the deltas of the packets will sum up to; to open an area 1 if more
//	            than its credit is to return to the sender (arctic.ReasonNoBuffer) instead of
//	            waiting there
//	word 12     metadata, then data: 64 bytes together
//
// The card carries blocks out in the order in which they were committed, each level for itself. So
// what is sent after a block that opens something is sent when that is open. A block with its data
// in the slot, or with no more than fits one packet, is retired when the data has been copied. A
// longer block is retired when its source is no longer needed. That is when all its packets are
// acknowledged, when it comes back, or when the card has copied the data that no peer acknowledges
// (engine/late.go). A block that the card refuses returns, and has done nothing.
//
// A notification in the ring, 64 bytes:
//
//	word 0       key slot 31:16, area 15:0
//	word 1       words of metadata 19:16, source node 15:0, of the packet that made the counter 0,
//	             for which the card vouches
//	words 2, 3   0
//	words 4..14  metadata: that packet's, or else what another packet has brought since the last
//	             notification of the area
//	word 15      0: what it tells (NoteKind)
//
// Behind the ring each area has 64 bytes, in which the card keeps metadata that came early.

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/funet/funet/uspace/arctic"
)

// RemoteOperation is what a request block asks for: bits 29:21 of its header.
type RemoteOperation uint16

// The operations.
const (
	// RemotePut writes to the node's memory. For operations on windows see Operate.
	RemotePut                   = RemoteOperation(arctic.RemotePut)
	OpenKeySlot RemoteOperation = 256 // gives a key to a part of one of the process's segments
	// CloseKeySlot takes the key back. When the block is retired the process may use the memory for
	// something else.
	CloseKeySlot RemoteOperation = 257
	// OpenArea makes the counter of an area 0, and binds the area to a key slot.
	OpenArea  RemoteOperation = 258
	CloseArea RemoteOperation = 259 // closes an area
	// ResetArea makes the counter of an open area 0, and discards metadata that has come.
	ResetArea RemoteOperation = 260
)

const (
	MaxRemote        = 1 << 16 // the most key slots, and the most areas, of a context
	MaxNotifications = 1 << 20 // the most notifications in the ring, of 64 bytes each

	// Words of a request block.
	RemoteAreaWord   = 1
	RemoteCookieWord = 2
	RemoteKeyWord    = 4
	RemoteOffsetWord = 6
	RemoteSourceWord = 8
	RemoteLengthWord = 10
	RemoteCountWord  = 11
	RemoteDataWord   = 12
	// RemoteCounted is the bit of RemoteAreaWord that says that the area counts the packets.
	RemoteCounted = 1 << 15

	remoteBit = 1 << 30

	notesHead     = 0x600 / 4
	notesTail     = 0x640 / 4
	keySlotsWord  = 0x680 / 4
	areasWord     = 0x688 / 4
	notesSizeWord = 0x690 / 4

	noteWords        = 16
	noteMetadataWord = 4
	noteBytes        = noteWords * 4
)

// ErrRemoteSizes reports sizes that no context can have.
var ErrRemoteSizes = errors.New("funi: key slots and areas are powers of two up to 65536, notifications one up to 1048576, or all three are 0")

// RemoteSizes says how much remote memory a context can open. KeySlots and Areas are powers of two
// up to MaxRemote, and Notifications is one up to MaxNotifications. Or all three are 0: none.
type RemoteSizes struct {
	KeySlots, Areas int
	Notifications   int // the sum of the credits that its areas can have
}

// Check returns ErrRemoteSizes if no context can have the sizes.
func (s RemoteSizes) Check() error {
	if s == (RemoteSizes{}) {
		return nil
	}
	for i, n := range []int{s.KeySlots, s.Areas, s.Notifications} {
		most := MaxRemote
		if i == 2 {
			most = MaxNotifications
		}
		if n < 1 || n > most || n&(n-1) != 0 {
			return fmt.Errorf("%d key slots, %d areas, %d notifications: %w", s.KeySlots, s.Areas,
				s.Notifications, ErrRemoteSizes)
		}
	}
	return nil
}

// Bytes returns how much they take of the memory that process and card share, behind the queues.
func (s RemoteSizes) Bytes() int { return (s.Notifications + s.Areas) * noteBytes }

// AddRemote gives a context whose card lives in the same process room for remote memory, before it
// is attached. It returns ErrRemoteSizes if no context can have the sizes.
func (m *Memory) AddRemote(s RemoteSizes) error {
	if err := s.Check(); err != nil {
		return err
	}
	m.Remote, m.notes = s, alignedWords(s.Bytes()/4)
	return nil
}

// Remote reports whether bits 31 and 30 ask for remote memory.
func (h Header) Remote() bool { return h>>30 == 1 }

// Put is a write into the memory of another process.
type Put struct {
	Key    uint64
	Offset uint32 // in the key slot
	// Source is an address in a segment of the process with the right Source, or 0 for Data
	Source  uint32
	Length  int // bytes; with Source
	Area    uint16
	Counted bool // makes the area count the packets; without it there must be no metadata
	// Count is the sum of the packets' deltas, modulo 2^32: 0 for a message notified by itself.
	Count    uint32
	Cookie   uint32
	Metadata []uint32 // up to arctic.MaxRemoteMetadata
	Data     []byte   // Data, with Source 0: with Metadata at most arctic.MaxRemoteBytes
}

// Valid reports whether a card would accept the lengths of p.
func (p *Put) Valid() bool {
	if len(p.Metadata) > arctic.MaxRemoteMetadata || !p.Counted && len(p.Metadata) > 0 {
		return false
	}
	if p.Source != 0 {
		return len(p.Data) == 0 && p.Length >= 0 && p.Length <= arctic.MaxTransferWords*arctic.WordSize
	}
	return len(p.Data)+len(p.Metadata)*arctic.WordSize <= arctic.MaxRemoteBytes
}

// SetPut composes the request block of a write that is Valid.
func (s *Slot) SetPut(node uint16, p *Put) {
	word := uint32(p.Area)<<16 | uint32(len(p.Metadata))
	if p.Counted {
		word |= RemoteCounted
	}
	s.setRemote(RemotePut, node, p.Key, p.Cookie)
	s[RemoteAreaWord] = word
	s[RemoteOffsetWord], s[RemoteSourceWord], s[RemoteLengthWord], s[RemoteCountWord] = p.Offset, p.Source,
		uint32(p.Length), p.Count
	n := RemoteDataWord + copy(s[RemoteDataWord:], p.Metadata)
	if p.Source != 0 {
		return
	}
	s[RemoteLengthWord] = uint32(len(p.Data))
	s.setBytes(n, p.Data)
}

// SetOpenKeySlot composes a block that gives a key to the bytes of a segment from address on. The
// lower 16 bits of the key are the number of the key slot.
func (s *Slot) SetOpenKeySlot(key uint64, address, bytes, cookie uint32) {
	s.setRemote(OpenKeySlot, 0, key, cookie)
	s[RemoteOffsetWord], s[RemoteLengthWord] = address, bytes
	s[openWindowWord], s[openWindowWord+1] = 0, 0
}

// SetCloseKeySlot composes a block that takes a key back.
func (s *Slot) SetCloseKeySlot(key uint64, cookie uint32) { s.setRemote(CloseKeySlot, 0, key, cookie) }

// SetOpenArea composes a block that binds an area to the key slot of a key. At most credit
// notifications of the area are unread at any time. A further one waits at its sender, or returns
// to it with arctic.ReasonNoBuffer if returns is true.
func (s *Slot) SetOpenArea(area uint16, key uint64, credit int, returns bool, cookie uint32) {
	s.setRemote(OpenArea, 0, key, cookie)
	s[RemoteAreaWord], s[RemoteLengthWord] = uint32(area)<<16, uint32(credit)
	if returns {
		s[RemoteCountWord] = 1
	}
}

// SetCloseArea composes a block that closes an area.
func (s *Slot) SetCloseArea(area uint16, cookie uint32) {
	s.setRemote(CloseArea, 0, 0, cookie)
	s[RemoteAreaWord] = uint32(area) << 16
}

// SetResetArea composes a block that resets an area; see ResetArea.
func (s *Slot) SetResetArea(area uint16, cookie uint32) {
	s.setRemote(ResetArea, 0, 0, cookie)
	s[RemoteAreaWord] = uint32(area) << 16
}

// setRemote writes the words that most blocks have, and clears the rest. Key 0 stands for none.
func (s *Slot) setRemote(op RemoteOperation, node uint16, key uint64, cookie uint32) {
	clear(s[:RemoteDataWord])
	s.SetHeader(remoteBit | NewHeader(node, uint16(op), 0))
	s[RemoteCookieWord], s[RemoteKeyWord], s[RemoteKeyWord+1] = cookie, uint32(key), uint32(key>>32)
}

// Operation returns what the header of a request block for remote memory asks for.
func (h Header) Operation() RemoteOperation { return RemoteOperation(h.Type()) }

// Notification is an entry of the ring. With NoteArea it says that the counter of an area became 0.
type Notification struct {
	Kind          NoteKind
	KeySlot, Area uint16
	// Source is the node that sent the packet which made the counter 0, the node of a put, or the
	// node to which an operation of the process's own went
	Source   uint16
	Words    int // of Metadata
	Metadata [arctic.MaxRemoteMetadata]uint32

	// Tag is that of a put's trailer with NoteWindow, with NoteFault the address that is wanted,
	// and with NotePath the line's first word.
	Tag     uint64
	Address uint64 // of the first byte of the put's last packet

	// With NoteCompletion. NotePath has the first and Reason, too.
	Cookie    uint32
	Operation arctic.Operation
	Reason    arctic.Reason // why not; arctic.ReasonNone: it was carried out
	Bytes     uint32        // of the answer
	Answer    [MaxAnswer]byte

	Pointers Pointers // With NotePointers.
	Message  Message  // With NoteFastReceive, NoteReceive and NotePostedReceive (send.go).
}

// NextNotification takes the oldest notification out of the ring into n, and so gives its area a
// credit back. It returns false if there is none.
func (i *Interface) NextNotification(n *Notification) bool {
	if i.notes == atomic.LoadUint32(&i.page[notesHead]) {
		return false
	}
	e := i.memory.note(i.notes)
	if n.Kind = NoteKind(e[noteKindWord]); n.Kind != NoteArea {
		n.readWindow(e)
	} else {
		n.KeySlot, n.Area, n.Source = uint16(e[0]>>16), uint16(e[0]), uint16(e[1])
		n.Words = min(int(e[1]>>16&0xf), arctic.MaxRemoteMetadata)
		copy(n.Metadata[:], e[noteMetadataWord:noteMetadataWord+n.Words])
	}
	i.notes++
	atomic.StoreUint32(&i.page[notesTail], i.notes)
	return true
}

// Brought reports whether there is a notification or a return to read, or more than the given
// number of returns were lost.
func (i *Interface) Brought(lost uint32) bool {
	return i.notes != atomic.LoadUint32(&i.page[notesHead]) || i.returns != atomic.LoadUint32(&i.page[returnHead]) ||
		atomic.LoadUint32(&i.page[returnsLost])-i.lost != lost
}

// Remote returns how much remote memory the context can open.
func (i *Interface) Remote() RemoteSizes { return i.memory.Remote }

// note returns an entry of the ring, which must not be empty.
func (m *Memory) note(n uint32) []uint32 {
	at := int(n) & (m.Remote.Notifications - 1) * noteWords
	return m.notes[at : at+noteWords : at+noteWords]
}

func (m *Memory) early(area uint16) []uint32 {
	at := (m.Remote.Notifications+int(area))*noteWords + noteMetadataWord
	return m.notes[at : at+arctic.MaxRemoteMetadata : at+arctic.MaxRemoteMetadata]
}

// Notified returns how many notifications the card has put into the ring.
func (p *Page) Notified() uint32 { return atomic.LoadUint32(&p[notesHead]) }

// The card's end.

// PutRemoteSizes tells the process the sizes, and that the ring is empty.
func (c *Card) PutRemoteSizes() {
	s := c.memory.Remote
	atomic.StoreUint32(&c.page[notesHead], 0)
	atomic.StoreUint64(c.page.completed(), 0)
	atomic.StoreUint32(&c.page[keySlotsWord], uint32(s.KeySlots))
	atomic.StoreUint32(&c.page[areasWord], uint32(s.Areas))
	atomic.StoreUint32(&c.page[notesSizeWord], uint32(s.Notifications))
}

// NotesTail returns how many notifications the process says that it has read. It is not checked,
// except of a process that issues by triggers.
func (c *Card) NotesTail() uint32 {
	if c.trigger.on {
		return c.trigger.notes
	}
	return atomic.LoadUint32(&c.page[notesTail])
}

// Notify puts entry n, counted since the context was attached, into the ring. If the packet that
// made the counter 0 has no metadata, early is how many words of the area's metadata came before.
// The caller makes sure that there is room.
func (c *Card) Notify(n uint32, keySlot, area, source uint16, metadata []byte, early int) {
	e := c.memory.note(n)
	words := len(metadata) / arctic.WordSize
	if words > 0 {
		arctic.Words(e[noteMetadataWord:noteMetadataWord+words], metadata)
	} else if words = early; words > 0 {
		// the process may have changed them: they are its own
		copy(e[noteMetadataWord:], c.memory.early(area)[:words])
	}
	e[0], e[1] = uint32(keySlot)<<16|uint32(area), uint32(words)<<16|uint32(source)
	e[2], e[3], e[noteKindWord] = 0, 0, uint32(NoteArea)
	c.noted(n)
}

// noted shows the process entry n of the ring.
func (c *Card) noted(n uint32) {
	atomic.StoreUint32(&c.page[notesHead], n+1)
	c.changed = true
}

// KeepMetadata keeps metadata of an area until its notification.
func (c *Card) KeepMetadata(area uint16, metadata []byte) {
	arctic.Words(c.memory.early(area)[:len(metadata)/arctic.WordSize], metadata)
}
