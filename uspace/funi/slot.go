package funi

// This file is the slot and its header word (thesis 3.1.1, 3.2.2).

import "github.com/funet/funet/uspace/arctic"

const (
	SlotWords       = 32                     // the size of a slot in words of 32 bits
	MaxPayloadWords = arctic.MaxPayloadWords // the longest payload of a packet in words
	PayloadWord     = 1                      // the first payload word of a slot
	SourceWord      = 31                     // holds the sending node in a slot of a receive queue
	// MaxType is the largest packet type of the programming interface: bits
	// 29:21 of the header, nine bits (thesis 3.2.2; the "256" there is a slip).
	MaxType = 1<<9 - 1
)

// Level is the priority level of a queue: arctic.Request or arctic.Reply.
type Level = arctic.Level

// Request and Reply are the two levels.
const (
	Request = arctic.Request
	Reply   = arctic.Reply
)

// Slot is one packet slot of a queue.
type Slot [SlotWords]uint32

// Header is the first word of a slot.
type Header uint32

// NewHeader composes the header of a message-passing packet: words payload words (at most
// MaxPayloadWords) of the given type (at most MaxType) for, or at, the node.
//
// It refuses nothing. Bits that do not fit a field are cut off, as a register's would be, and never
// reach the node's or the transfer's bits. Every message passes through it, with constants or with
// fields of another header. A caller with a type or a number of words from outside compares it with
// MaxType and MaxPayloadWords first, as package am does with numbers of handlers.
func NewHeader(node uint16, typ uint16, words int) Header {
	return Header(uint32(typ&MaxType)<<21 | uint32(words&31)<<16 | uint32(node))
}

// Fields returns what NewHeader has composed: node, type, and how many payload words follow.
func (h Header) Fields() (node, typ uint16, words int) {
	return uint16(h), uint16(h >> 21 & MaxType), min(int(h>>16&31), MaxPayloadWords)
}

// Transfer reports whether bit 31 asks for XFER mode (thesis 3.2.4).
func (h Header) Transfer() bool { return h>>31 != 0 }

// Plain reports whether bits 31 and 30 ask for message passing (thesis 3.2.2).
func (h Header) Plain() bool { return h>>30 == 0 }

// Type returns bits 29:21.
func (h Header) Type() uint16 { return uint16(h >> 21 & MaxType) }

// Length returns how many payload words follow; more than 21 counts as 21 (thesis 3.2.2).
func (h Header) Length() int { return min(int(h>>16&31), MaxPayloadWords) }

// Node returns bits 15:0.
func (h Header) Node() uint16 { return uint16(h) }

// Header returns the slot's header word.
func (s *Slot) Header() Header { return Header(s[0]) }

// SetHeader writes the slot's header word.
func (s *Slot) SetHeader(h Header) { s[0] = uint32(h) }

// Payload returns the payload words that the header announces. The slice aliases the slot.
func (s *Slot) Payload() []uint32 { return s[PayloadWord : PayloadWord+s.Header().Length()] }

// Message returns the sender, the type and the payload words of a message in a slot of a receive
// queue. Of a notice it returns no words. The words alias the slot.
func (s *Slot) Message() (source, typ uint16, words []uint32) {
	h := s[0]
	if h>>30 != 0 {
		return 0, 0, nil
	}
	n := min(h>>16&31, MaxPayloadWords)
	return uint16(s[SourceWord]), uint16(h >> 21), s[PayloadWord : PayloadWord+n]
}

// Source returns the node that sent the packet of a receive slot.
func (s *Slot) Source() uint16 { return uint16(s[SourceWord]) }
