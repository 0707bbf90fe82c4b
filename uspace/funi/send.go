package funi

// This file has messages that the receiving process has named the memory for (Froening's thesis,
// sections 2.4.1, 4.1.4 to 4.1.7 and 4.2.3 to 4.2.5; arctic/send.go). The sender chooses a node and
// tags. The receiver decides how it receives; the sender cannot know how.
//
// The block of Send:
//
//	word 0      header: bits 31:30 = 01, type = Send, node 15:0, the rest 0
//	word 1      ack 8, silent 10
//	word 2      cookie: in what completes the message, or the first word of the block if it comes
//	            back
//	word 3      API tag
//	words 4, 5  user tag, its lower half first
//	words 8, 9  source address, in a segment with the right Source; 0: the data is in the slot; 0
//	word 10     length in bytes, up to arctic.MaxSendBytes; in the slot up to arctic.MaxFastSend
//	word 12     data
//
// With ack the card completes the message once, by an entry of the notification ring, when the
// receiver has it or will not have it. The entry is that of a completion, with operation
// arctic.RemoteSend. silent leaves it out if all went well. arctic.ReasonTruncated: the receiver
// has the beginning of the message, and knows that it is cut. Without ack a message that fails
// comes back. So does one for whose entry or record there is no room (arctic.ReasonNoBuffer). The
// source may be changed when the block is retired.
//
// Messages arrive in any order, also from one process to one other. A process that needs an order
// sends the next message when the one before is complete, or numbers them in the API tag.
//
// The block of OpenReceive says where the process receives, and that of CloseReceive that it
// receives no more:
//
//	word 1      mode, a ReceiveMode
//	word 8      address of the ring or queue in a segment with the right Keyed; with ReceiveFast 0
//	word 10     its bytes: a power of two
//	word 11     credit: how many messages may be unread, from 1
//
// A message of up to arctic.MaxFastSend bytes stands in its entry of the notification ring in all
// modes. A longer one goes to memory:
//
//	ReceiveRing    (the thesis's RDR) 64 bytes to 128 MiB. The card stores messages from the
//	               first byte on, each at a multiple of 8 bytes and in one piece. Pointers count
//	               units of 8 bytes and have 24 bits. One unit stays free. A message longer than
//	               half of the ring is refused (arctic.ReasonNoBuffer)
//	ReceivePosted  (the thesis's PRQ) a queue of 1 to 65,536 descriptors of 16 bytes, which the
//	               process writes and the card takes in order, one for each message:
//
//	                   word 0      address of the buffer in a segment with the right Keyed
//	                   word 1      bytes of the buffer, at least 1
//	                   words 2, 3  the process's own
//
// A message waits at its sender while there is no credit, no room in the ring or no posted buffer.
// The process gives room back, or says that it has posted buffers, with TriggerReceive or the block
// of GiveReceive. Its word 10, and the trigger's parameter, is how many units or descriptors.
// GiveReceive belongs into the reply send queue: in the request queue it would wait behind messages
// that wait for room themselves. Units are given back in the order of the ring; RingReader works
// out how many.
//
// Entries of the notification ring:
//
//	word 0       node that sent it, for which the card vouches 15:0
//	word 1       bytes of the message
//	words 2, 3   user tag
//	words 4..13  NoteFastReceive: the data
//	word 4       NoteReceive: pointer to the message. NotePostedReceive: number of the descriptor
//	word 5       NoteReceive: the card's pointer before the message. NotePostedReceive: address of
//	             the buffer
//	word 6       NoteReceive: the card's pointer behind it. NotePostedReceive: bytes stored
//	word 8       reason why not all of it is there, or arctic.ReasonNone.
//	             arctic.ReasonBroken: the sender has fallen silent, or the memory was withdrawn.
//	             arctic.ReasonTruncated: the buffer was too short.
//	             arctic.ReasonWindow: the descriptor names no memory that it may. Nothing is lost
//	word 14      API tag
//	word 15      NoteFastReceive, NoteReceive or NotePostedReceive
//
// The entry is shown when all of the message is there. So entries are not in the order of the ring.

import (
	"sync/atomic"
	"unsafe"

	"github.com/funet/funet/uspace/arctic"
)

const (
	Send         RemoteOperation = 265 // sends a message
	OpenReceive  RemoteOperation = 266 // says where the process receives messages
	CloseReceive RemoteOperation = 267 // ends that; messages under way are given up
	GiveReceive  RemoteOperation = 268 // gives room of the ring back, or posts buffers

	// MaxReceiveRing is the most bytes of a receive ring: 2^24 units.
	MaxReceiveRing = arctic.MaxSendBytes
	// MinReceiveRing is the least bytes of a receive ring.
	MinReceiveRing = 64
	// ReceiveUnit is the unit in bytes of pointers into a receive ring (thesis 4.1.5).
	ReceiveUnit = 8
	// MaxPosted is the most descriptors of a queue of posted buffers.
	MaxPosted = 1 << 16
	// PostedBytes is the length of a descriptor in bytes.
	PostedBytes = 16
	// MaxReservations is the most messages of many packets that a context receives at a time.
	MaxReservations = 64

	sendAck    = operateAck
	sendSilent = operateSilent

	noteReasonWord = 8
	noteAPIWord    = 14
)

// The kinds of entries of the notification ring that tell of messages.
const (
	NoteFastReceive   = NotePointers + 1 + iota // a message of up to arctic.MaxFastSend bytes
	NoteReceive                                 // one in the receive ring
	NotePostedReceive                           // one in a posted buffer
)

// ReceiveMode says where longer messages go.
type ReceiveMode uint32

// The modes.
const (
	ReceiveFast   ReceiveMode = iota // nowhere: they are refused (arctic.ReasonNoBuffer)
	ReceiveRing                      // into a ring
	ReceivePosted                    // into posted buffers
	receiveModes
)

// Receive is what SetOpenReceive opens.
type Receive struct {
	Mode ReceiveMode
	// Base is the address of the ring or the queue in the process's own segment, which must be
	// Keyed. Bytes is its length. Both are 0 with ReceiveFast.
	Base, Bytes uint32
	// Credit is how many messages may be unread; the notification ring must have room for them.
	Credit uint32
}

// Valid reports whether a card with such a segment would accept r.
func (r *Receive) Valid() bool {
	if r.Credit < 1 || r.Credit > MaxNotifications {
		return false
	}
	switch r.Mode {
	case ReceiveFast:
		return r.Base == 0 && r.Bytes == 0
	case ReceiveRing:
		return r.Bytes&(r.Bytes-1) == 0 && r.Bytes >= MinReceiveRing && r.Bytes <= MaxReceiveRing &&
			r.Base%ReceiveUnit == 0
	case ReceivePosted:
		return r.Bytes&(r.Bytes-1) == 0 && r.Bytes >= PostedBytes && r.Bytes <= MaxPosted*PostedBytes &&
			r.Base%PostedBytes == 0
	}
	return false
}

// SendRequest is a message to another process.
type SendRequest struct {
	UserTag uint64
	APITag  uint32
	// Source is an address in a segment of the process with the right Source, or 0 for Data.
	Source uint32
	Length int    // bytes; with Source, up to arctic.MaxSendBytes
	Data   []byte // with Source 0, up to arctic.MaxFastSend bytes
	Cookie uint32
	Ack    bool // completes the message by an entry of the notification ring
	Silent bool // with Ack: without an entry if all went well
}

// Valid reports whether a card would accept the lengths of r.
func (r *SendRequest) Valid() bool {
	if r.Silent && !r.Ack {
		return false
	}
	if r.Source != 0 {
		return len(r.Data) == 0 && r.Length >= 0 && r.Length <= arctic.MaxSendBytes
	}
	return len(r.Data) <= arctic.MaxFastSend
}

// SetSend composes the block of a message that is Valid, for the request send queue.
func (s *Slot) SetSend(node uint16, r *SendRequest) {
	s.setRemote(Send, node, r.UserTag, r.Cookie)
	if r.Ack {
		s[RemoteAreaWord] |= sendAck
	}
	if r.Silent {
		s[RemoteAreaWord] |= sendSilent
	}
	s[3] = r.APITag
	if s[RemoteSourceWord], s[RemoteLengthWord] = r.Source, uint32(r.Length); r.Source == 0 {
		s[RemoteLengthWord] = uint32(len(r.Data))
		s.setBytes(RemoteDataWord, r.Data)
	}
}

// SetOpenReceive composes the block that says where the process receives messages, in place of what
// it has said before. The card returns it with arctic.ReasonNotOpened if it is not Valid, if the
// memory is not in a Keyed segment, or if the notification ring lacks room for the credit.
func (s *Slot) SetOpenReceive(r *Receive, cookie uint32) {
	s.setRemote(OpenReceive, 0, 0, cookie)
	s[RemoteAreaWord], s[RemoteSourceWord], s[RemoteLengthWord], s[RemoteCountWord] = uint32(r.Mode), r.Base, r.Bytes,
		r.Credit
}

// SetCloseReceive composes the block that ends receiving. When it is retired the process may use
// the memory for something else.
func (s *Slot) SetCloseReceive(cookie uint32) { s.setRemote(CloseReceive, 0, 0, cookie) }

// SetGiveReceive composes the block that gives n units of the receive ring back, or tells the card
// of n more posted buffers. Commit it to the reply send queue, so that it waits behind no message.
// The card returns it with arctic.ReasonNotOpened if there are not so many.
func (s *Slot) SetGiveReceive(n, cookie uint32) {
	s.setRemote(GiveReceive, 0, 0, cookie)
	s[RemoteLengthWord] = n
}

// postedWords returns the words of a descriptor.
func postedWords(queue []byte, n uint32) []uint32 {
	at := int(n) * PostedBytes & (len(queue) - 1)
	return unsafe.Slice((*uint32)(unsafe.Pointer(&queue[at])), PostedBytes/4)
}

// PutPosted writes descriptor number n, modulo their number, into a queue of posted buffers: a
// buffer of the given bytes at an address. queue is the memory of the queue, which must begin on a
// word.
func PutPosted(queue []byte, n, address, bytes uint32) {
	e := postedWords(queue, n)
	e[0], e[1] = address, bytes
}

// Message is what the notification of a message says, beside Source, Tag and Reason of the
// Notification. Tag is the user tag.
type Message struct {
	APITag uint32
	Bytes  uint32                   // of the message, as it was sent
	Data   [arctic.MaxFastSend]byte // with NoteFastReceive; Bytes says how many count

	// With NoteReceive, in units of ReceiveUnit: where in the ring it is, and the card's pointer
	// before and behind it. Between First and Offset is room that the ring's end left free.
	Offset, First, Next uint32

	// With NotePostedReceive: the number of the descriptor, modulo 2^32, its address, and how many
	// bytes the buffer has of the message.
	Descriptor, Address, Stored uint32
}

// readMessage decodes the entry of a message.
func (n *Notification) readMessage(e []uint32) {
	m := &n.Message
	n.Source, n.Tag, n.Reason = uint16(e[0]), uint64(e[2])|uint64(e[3])<<32, arctic.ReasonNone
	m.Bytes, m.APITag = e[1], e[noteAPIWord]
	switch n.Kind {
	case NoteFastReceive:
		m.Bytes = min(m.Bytes, arctic.MaxFastSend)
		arctic.PutWords(m.Data[:], e[noteMetadataWord:noteMetadataWord+arctic.MaxFastSend/arctic.WordSize])
		return
	case NoteReceive:
		m.Offset, m.First, m.Next = e[4], e[5], e[6]
	default:
		m.Descriptor, m.Address, m.Stored = e[4], e[5], e[6]
	}
	n.Reason = arctic.Reason(e[noteReasonWord])
}

// RingReader is the process's view of its receive ring. It works out how much room can be given
// back, whatever the order in which the messages are read. It belongs to one goroutine.
type RingReader struct {
	mask uint32 // of pointers
	read uint32 // up to which room was given back
	done []span // read, behind a message that is not; in no order
}

// span is a part of the ring, from pointer to pointer.
type span struct{ first, next uint32 }

// NewRingReader returns the view of a ring of the given bytes that has just been opened.
func NewRingReader(bytes uint32) *RingReader { return &RingReader{mask: bytes/ReceiveUnit - 1} }

// Done says that the process needs a message of the ring no more: the notification is of kind
// NoteReceive. It returns how many units can be given back now (TriggerReceive, SetGiveReceive): 0
// while an earlier message is needed or on its way.
func (r *RingReader) Done(m *Message) (units uint32) {
	r.done = append(r.done, span{m.First & r.mask, m.Next & r.mask})
	was := r.read
	for i := 0; i < len(r.done); i++ {
		if r.done[i].first == r.read {
			r.read = r.done[i].next
			last := len(r.done) - 1
			r.done[i] = r.done[last]
			r.done = r.done[:last]
			i = -1 // one that was looked at may be next
		}
	}
	return (r.read - was) & r.mask
}

// The card's end.

// ReadSend decodes a message from a block, except for its data, and reports whether the block is
// well formed. The words are the card's copy.
func ReadSend(w *Slot, r *SendRequest) bool {
	flags := w[RemoteAreaWord]
	*r = SendRequest{UserTag: uint64(w[RemoteKeyWord]) | uint64(w[RemoteKeyWord+1])<<32, APITag: w[3],
		Source: w[RemoteSourceWord], Length: int(w[RemoteLengthWord]), Cookie: w[RemoteCookieWord],
		Ack: flags&sendAck != 0, Silent: flags&sendSilent != 0}
	return flags&^(sendAck|sendSilent) == 0 && w[RemoteCountWord]|w[RemoteOffsetWord] == 0 && (r.Ack || !r.Silent)
}

// ReadReceive decodes a block of OpenReceive, and reports whether it is valid. The words are the
// card's copy.
func ReadReceive(w *Slot, r *Receive) bool {
	*r = Receive{Mode: ReceiveMode(w[RemoteAreaWord]), Base: w[RemoteSourceWord], Bytes: w[RemoteLengthWord],
		Credit: w[RemoteCountWord]}
	return w[RemoteOffsetWord] == 0 && r.Valid()
}

// ReadPosted reads descriptor n of a queue of posted buffers, each word once.
func ReadPosted(queue []byte, n uint32) (address, bytes uint32) {
	e := postedWords(queue, n)
	return atomic.LoadUint32(&e[0]), atomic.LoadUint32(&e[1])
}

// NotifyFast puts a message of up to arctic.MaxFastSend bytes into the ring as entry n.
func (c *Card) NotifyFast(n uint32, source uint16, userTag uint64, apiTag uint32, data []byte) {
	e := c.memory.note(n)
	var all [arctic.MaxFastSend]byte
	copy(all[:], data)
	e[0], e[1], e[2], e[3] = uint32(source), uint32(len(data)), uint32(userTag), uint32(userTag>>32)
	arctic.Words(e[noteMetadataWord:noteMetadataWord+arctic.MaxFastSend/arctic.WordSize], all[:])
	e[noteAPIWord], e[noteKindWord] = apiTag, uint32(NoteFastReceive)
	c.noted(n)
}

// NotifyMessage puts the notification of a message in memory into the ring as entry n. where is
// words 4 to 6 of the entry.
func (c *Card) NotifyMessage(n uint32, kind NoteKind, source uint16, m *SendRequest, where [3]uint32,
	reason arctic.Reason) {
	e := c.memory.note(n)
	clear(e)
	e[0], e[1], e[2], e[3] = uint32(source), uint32(m.Length), uint32(m.UserTag), uint32(m.UserTag>>32)
	copy(e[noteMetadataWord:], where[:])
	e[noteReasonWord], e[noteAPIWord], e[noteKindWord] = uint32(reason), m.APITag, uint32(kind)
	c.noted(n)
}
