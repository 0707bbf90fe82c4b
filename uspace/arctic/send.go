package arctic

// This file has the payload of a packet of KindSend: a message that its receiver stores where it
// has said before (Froening's thesis, sections 2.4.1, 4.1.5, 4.1.7 and 4.2.3). The sender names no
// memory of the receiver. It sends the message with one packet, or first asks for room and then
// sends pieces. The level is Request.
//
// The type of the packet: form 1:0, pad 3:2, flags 11 and 8:
//
//	11  block: data precedes the packet's own, and is the frame's block
//	8   ack: the sender waits for the acknowledgment, which therefore leaves at once
//
// The forms:
//
//	0  whole: all of the message. More than 40 bytes come in a block, and in the packet those 0 to
//	   15 bytes that are left. A block that its frame has no room for goes in several frames, each
//	   when the one before has arrived; each has the packet, with its own offset
//	1  open: asks for room for a message. The receiver answers how many bytes of the message it
//	   will take, 4 bytes (Response)
//	2  piece: a part of the message, a block or 1 to 48 bytes
//	3  last: the end of the message, 0 to 48 bytes. It leaves when all pieces are acknowledged
//
// The payload:
//
//	word 0      bytes of the message. In pieces and last: that the receiver takes
//	words 1, 2  key of the message, drawn by the sender's card; 0 if the packet has all of it
//	word 3      offset of the data in the message
//	word 4      of open: the request that the answer is to, index 15:0, generation 31:16; else 0
//	words 5, 6  user tag; in pieces and last 0
//	word 7      API tag; in pieces and last 0
//	            data, and as many zeros as pad says, 0 to 3, up to the next word

import "encoding/binary"

const (
	// MaxFastSend is the most bytes of a message without a block: five words of 64 bits (thesis
	// 4.2.3).
	MaxFastSend = 40
	// MaxSendPiece is the most bytes of a piece without a block.
	MaxSendPiece = 48
	// MaxSendBytes is the longest message. A receive ring of the thesis's 24-bit pointers in units
	// of 64 bits has as many bytes (4.1.5).
	MaxSendBytes = 1 << 27

	// sendWords is how many words precede the data.
	sendWords = 8
	// sendBlockBytes is how much longer the packet of a send with a block can be than the packet of
	// a transfer with one.
	sendBlockBytes = (sendWords-1)*WordSize + TransferAlign
	sendBlock      = remoteBlock
	sendAck        = remoteAck
	sendFormMask   = 3
	sendPadShift   = 2
	sendOffset     = PacketHeaderSize + 3*WordSize
)

// SendForm says what a packet of KindSend is of its message.
type SendForm uint8

// The forms.
const (
	SendWhole SendForm = iota
	SendOpen
	SendPiece
	SendLast
)

// Send is the payload of a packet of KindSend.
type Send struct {
	Form    SendForm
	Block   bool // the frame has data before Data, see PutBlock
	Ack     bool
	Total   uint32 // bytes of the message, up to MaxSendBytes
	Key     uint64
	Offset  uint32 // of the block, or of Data, in the message
	ID      uint32 // generation 31:16, index 15:0; of SendOpen
	UserTag uint64
	APITag  uint32
	Data    []byte
}

// Type returns the type of the packet.
func (s *Send) Type() uint16 {
	t := uint16(s.Form) | uint16(-len(s.Data)&3)<<sendPadShift
	if s.Block {
		t |= sendBlock
	}
	if s.Ack {
		t |= sendAck
	}
	return t
}

// PutSend encodes s into b, which must have room for MaxPayloadWords, and returns the length in
// payload words. Data that does not fit panics, as with any slice; the card checks before.
func PutSend(b []byte, s *Send) int {
	binary.LittleEndian.PutUint32(b, s.Total)
	binary.LittleEndian.PutUint64(b[4:], s.Key)
	binary.LittleEndian.PutUint32(b[12:], s.Offset)
	binary.LittleEndian.PutUint32(b[16:], s.ID)
	binary.LittleEndian.PutUint64(b[20:], s.UserTag)
	binary.LittleEndian.PutUint32(b[28:], s.APITag)
	return putPadded(b, sendWords*WordSize, s.Data)
}

// Send decodes the payload of a packet of KindSend with header h into s, whose Data aliases the
// packet, and reports whether a card sends such a payload. It accepts any payload. With Block, what
// precedes Data is Frame.Block; a packet with that flag in a frame without a block is invalid.
func (p Packet) Send(h *PacketHeader, s *Send) bool {
	b := p.Payload()
	if len(b) < sendWords*WordSize || len(b)%WordSize != 0 || h.Level != Request ||
		h.Type&^(sendFormMask|3<<sendPadShift|sendBlock|sendAck) != 0 {
		return false
	}
	*s = Send{Form: SendForm(h.Type & sendFormMask), Block: h.Type&sendBlock != 0, Ack: h.Type&sendAck != 0,
		Total: binary.LittleEndian.Uint32(b), Key: binary.LittleEndian.Uint64(b[4:]),
		Offset: binary.LittleEndian.Uint32(b[12:]), ID: binary.LittleEndian.Uint32(b[16:]),
		UserTag: binary.LittleEndian.Uint64(b[20:]), APITag: binary.LittleEndian.Uint32(b[28:])}
	b = b[sendWords*WordSize:]
	pad := int(h.Type >> sendPadShift & 3)
	if pad > len(b) || !zeros(b[len(b)-pad:]) {
		return false
	}
	s.Data = b[: len(b)-pad : len(b)-pad]
	return s.valid()
}

// valid reports whether the fields fit the form.
func (s *Send) valid() bool {
	if s.Total > MaxSendBytes || s.Offset > s.Total {
		return false
	}
	n, left := len(s.Data), int(s.Total-s.Offset)
	switch s.Form {
	case SendWhole:
		if s.ID != 0 {
			return false
		}
		if !s.Block {
			return s.Key == 0 && s.Offset == 0 && n == int(s.Total) && n <= MaxFastSend
		}
		return s.Total > MaxFastSend && n == int(s.Total)%TransferAlign && s.Offset%TransferAlign == 0 &&
			left-n >= TransferAlign
	case SendOpen:
		return !s.Block && n == 0 && s.Offset == 0 && s.Total > MaxFastSend
	}
	if s.ID != 0 || s.UserTag != 0 || s.APITag != 0 || n > left {
		return false
	}
	if s.Form == SendLast {
		return !s.Block && n <= MaxSendPiece && n == left
	}
	if s.Block {
		return n == 0 && left >= TransferAlign
	}
	return n > 0 && n <= MaxSendPiece
}

// MaxSendBlock is MaxBlock for a packet of KindSend.
func MaxSendBlock(size int) int {
	return max(MaxBlock(size)-(sendBlockBytes+TransferAlign-1)/TransferAlign*TransferAlign, 0)
}

// IsSend reports whether the packet is of KindSend.
func (p Packet) IsSend() bool {
	return p[11]>>6 == byte(KindSend&3) && p[3]>>6&1 == byte(KindSend>>2)
}

func isSendBlock(p Packet) bool {
	return len(p) >= PacketHeaderSize+sendWords*WordSize && len(p) <= blockPacketSize+sendBlockBytes && p.IsSend() &&
		p.Header().Type&sendBlock != 0
}
