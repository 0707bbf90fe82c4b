package arctic

// This file has the payload of a packet of KindResponse: the answer of an operation on a window
// (operation.go). It has the level Reply and is for the one request that it names. It needs no
// action of the process that it goes to, which has made room for it.
//
// The type of the packet: pad 1:0, how many bytes of the last word do not count; flag 11, block:
// the data is the frame's block, which is a positive multiple of 16 bytes.
//
//	word 0  the request: index 15:0, generation 31:16
//	word 1  offset of the data in what was asked for, in bytes
//	        data, 0 to 64 bytes

import "encoding/binary"

const (
	MaxResponseBytes = 64 // the most data of a packet without a block

	responseWords = 2
	// responseBlockBytes is how much longer the packet of a response with a block is than the
	// packet of a transfer with one.
	responseBlockBytes = (responseWords - 1) * WordSize
	responsePad        = 3
	responseOffset     = PacketHeaderSize + WordSize
)

// Response is the payload of a packet of KindResponse.
type Response struct {
	Block  bool // the frame has the data, see PutBlock
	ID     uint32
	Offset uint32
	Data   []byte
}

// Type returns the type of the packet.
func (r *Response) Type() uint16 {
	if r.Block {
		return remoteBlock
	}
	return uint16(-len(r.Data) & responsePad)
}

// PutResponse encodes r into b, which must have room for MaxPayloadWords, and returns the length in
// payload words.
func PutResponse(b []byte, r *Response) int {
	binary.LittleEndian.PutUint32(b, r.ID)
	binary.LittleEndian.PutUint32(b[4:], r.Offset)
	return putPadded(b, responseWords*WordSize, r.Data)
}

// Response decodes the payload of a packet of KindResponse with header h into r, whose Data aliases
// the packet, and reports whether a card sends such a payload. It accepts any payload. With Block
// the data is Frame.Block.
func (p Packet) Response(h *PacketHeader, r *Response) bool {
	b := p.Payload()
	if len(b) < responseWords*WordSize || len(b) > responseWords*WordSize+MaxResponseBytes ||
		h.Type&^(remoteBlock|responsePad) != 0 {
		return false
	}
	*r = Response{Block: h.Type&remoteBlock != 0, ID: binary.LittleEndian.Uint32(b),
		Offset: binary.LittleEndian.Uint32(b[4:])}
	b = b[responseWords*WordSize:]
	pad := int(h.Type & responsePad)
	if r.Block {
		return len(b) == 0 && pad == 0
	}
	if pad > len(b) || !zeros(b[len(b)-pad:]) {
		return false
	}
	r.Data = b[:len(b)-pad]
	return true
}

// MaxResponseBlock is MaxBlock for a packet of KindResponse.
func MaxResponseBlock(size int) int {
	return max(MaxBlock(size)-(responseBlockBytes+TransferAlign-1)/TransferAlign*TransferAlign, 0)
}

// IsResponse reports whether the packet is of KindResponse.
func (p Packet) IsResponse() bool {
	return p[11]>>6 == byte(KindResponse&3) && p[3]>>6&1 == byte(KindResponse>>2)
}

func isResponseBlock(p Packet) bool {
	return len(p) == blockPacketSize+responseBlockBytes && p.IsResponse() && p.Header().Type&remoteBlock != 0
}
