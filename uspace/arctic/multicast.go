package arctic

// This file has the payload of a packet of KindMulticast. It is a message, or a write into windows
// that have the same key, and goes from member to member of a chain (Tokyo, sections 2.2.1 and
// 3.3.1.3). A member delivers it and sends a copy to each node that its owner has named. At the end
// of the chain, or where it is not taken, the origin gets an answer (Report).
//
// In the paper the packet has the path. Here the members' cards have it, so a packet has the same
// size at any length of the chain.
//
// The type of the packet: flag 13, put; else it is the type of the message, 8:0.
//
//	word 0   chain 15:0, left 31:16: members from here on that it is to reach, the receiver
//	         included
//	word 1   done 15:0: members before the receiver that have it and that no other copy counts;
//	         origin node 31:16
//	word 2   the origin's request: index 15:0, generation 31:16
//	word 3   place of the receiver 15:0, proof 31:16
//	         message: 0 to 17 words
//	         put: key, 2 words; address 31:0; address 47:32 in 15:0 with bytes 31:16; data, 0 to
//	         52 bytes, and as many zeros as fill up the last word
//
// Places number the members of a chain in preorder. The first member has place 0; the members
// behind a member have the numbers after its own, branch after branch. So the members that a copy
// is to reach have the places from its receiver's on, and the members that it counts as done have
// the places just before. Together they are one interval.
//
// A report is the data of a response (Response) with offset 0. It names the copy that it is about,
// and reports the outcome:
//
//	word 0   place 15:0, done 31:16: the copy's
//	word 1   where it was not taken, node 15:0, and why, reason 23:16; 0 if the receiver has it
//	         and nobody is behind it
//	word 2   left 15:0: the copy's; proof 31:16
//
// The members from place - done on have it, up to the one before the place. Without a reason the
// member at the place has it, too. With a reason the members from the place on, as many as are
// left, do not have it. If the reason is Doubtful they may have it, and a report of theirs may
// still come. The origin draws the proof for each multicast: a member can report only if it has had
// a copy.

import "encoding/binary"

const (
	MaxMulticastWords = MaxPayloadWords - multicastWords // the longest message of a multicast
	// MaxMulticastBytes is the most bytes that a multicast writes.
	MaxMulticastBytes = (MaxMulticastWords - multicastPutWords) * WordSize
	MaxMembers        = 1<<16 - 1    // the most members of a chain
	MaxMessageType    = 1<<9 - 1     // the largest type of a message (thesis 3.2.2)
	ReportBytes       = 3 * WordSize // the length of a report

	multicastWords    = 4
	multicastPutWords = 4
	multicastPut      = 1 << 13
)

// Multicast is the payload of a packet of KindMulticast.
type Multicast struct {
	Chain  uint16
	Left   uint16
	Done   uint16
	Origin uint16
	ID     uint32
	Place  uint16
	Proof  uint16
	// Put makes the receiver write Data to Address in each member's window with the Key. Without
	// it, Data is the words of a message of type Message.
	Put     bool
	Message uint16
	Key     uint64
	Address uint64 // at most MaxAddress
	Data    []byte
}

// Type returns the type of the packet.
func (m *Multicast) Type() uint16 {
	if m.Put {
		return multicastPut
	}
	return m.Message & MaxMessageType
}

// PutMulticast encodes m into b, which must have room for MaxPayloadWords, and returns the length
// in payload words. The data of a message must be whole words. Data that does not fit panics, as
// with any slice; the card checks before.
func PutMulticast(b []byte, m *Multicast) int {
	binary.LittleEndian.PutUint32(b, uint32(m.Chain)|uint32(m.Left)<<16)
	binary.LittleEndian.PutUint32(b[4:], uint32(m.Done)|uint32(m.Origin)<<16)
	binary.LittleEndian.PutUint32(b[8:], m.ID)
	binary.LittleEndian.PutUint32(b[12:], uint32(m.Place)|uint32(m.Proof)<<16)
	n := multicastWords * WordSize
	if m.Put {
		binary.LittleEndian.PutUint64(b[n:], m.Key)
		binary.LittleEndian.PutUint32(b[n+8:], uint32(m.Address))
		binary.LittleEndian.PutUint32(b[n+12:], uint32(len(m.Data))<<16|uint32(m.Address>>32))
		n += multicastPutWords * WordSize
	}
	return putPadded(b, n, m.Data)
}

// Multicast decodes the payload of a packet of KindMulticast with header h into m, whose Data
// aliases the packet, and reports whether a card sends such a payload. It accepts any payload.
func (p Packet) Multicast(h *PacketHeader, m *Multicast) bool {
	b := p.Payload()
	if len(b) < multicastWords*WordSize || len(b) > MaxPayloadWords*WordSize || len(b)%WordSize != 0 {
		return false
	}
	w0, w1, w3 := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[12:])
	*m = Multicast{Chain: uint16(w0), Left: uint16(w0 >> 16), Done: uint16(w1), Origin: uint16(w1 >> 16),
		ID:    binary.LittleEndian.Uint32(b[8:]),
		Place: uint16(w3), Proof: uint16(w3 >> 16)}
	if !isCopy(m.Place, m.Done, m.Left) {
		return false
	}
	b = b[multicastWords*WordSize:]
	if m.Put = h.Type == multicastPut; !m.Put {
		m.Message, m.Data = h.Type, b
		return h.Type <= MaxMessageType
	}
	if len(b) < multicastPutWords*WordSize {
		return false
	}
	word := binary.LittleEndian.Uint32(b[12:])
	m.Key, m.Address = binary.LittleEndian.Uint64(b), uint64(word&0xffff)<<32|uint64(binary.LittleEndian.Uint32(b[8:]))
	b = b[multicastPutWords*WordSize:]
	n := int(word >> 16)
	if n > len(b) || len(b)-n >= WordSize || !zeros(b[n:]) {
		return false
	}
	m.Data = b[:n:n]
	return true
}

// isCopy reports whether a chain can have a copy with these members.
func isCopy(place, done, left uint16) bool {
	return left > 0 && done <= place && uint32(place)+uint32(left) <= MaxMembers
}

// Report is the outcome of a copy of a multicast.
type Report struct {
	Place, Done, Left uint16 // the copy's
	Proof             uint16 // the multicast's
	Node              uint16 // the node that has not taken it, with Reason; else 0
	Reason            Reason // why; ReasonNone: it has been taken, and Left is 1
}

// PutReport encodes r into b, which must have ReportBytes.
func PutReport(b []byte, r *Report) {
	binary.LittleEndian.PutUint32(b, uint32(r.Place)|uint32(r.Done)<<16)
	binary.LittleEndian.PutUint32(b[4:], uint32(r.Node)|uint32(r.Reason)<<16)
	binary.LittleEndian.PutUint32(b[8:], uint32(r.Left)|uint32(r.Proof)<<16)
}

// ReadReport decodes the data of a response into r, and reports whether a card sends such data. It
// accepts any bytes.
func ReadReport(b []byte, r *Report) bool {
	if len(b) != ReportBytes {
		return false
	}
	w0, w1, w2 := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:])
	*r = Report{Place: uint16(w0), Done: uint16(w0 >> 16), Node: uint16(w1), Reason: Reason(w1 >> 16), Left: uint16(w2),
		Proof: uint16(w2 >> 16)}
	return isCopy(r.Place, r.Done, r.Left) && w1>>24 == 0 && (r.Reason != ReasonNone || r.Left == 1 && r.Node == 0)
}
