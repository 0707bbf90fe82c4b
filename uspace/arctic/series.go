package arctic

// This file has what the frames of a series have in common. In a dialogue of two cards, frames with
// one packet differ only in their numbers and their payload. The sender copies the rest from a
// Template. The receiver recognises the rest as what it has checked before (header prediction,
// Jacobson, "4BSD TCP Header Prediction", 1990).

import "encoding/binary"

// Where numbers stand in a frame header.
const (
	ageOffset      = 30
	epochOffset    = 32
	sequenceOffset = 40
	acksOffset     = 44
)

// Template is an encoded header.
type Template [HeaderSize]byte

// Set encodes a header into the template.
func (t *Template) Set(h *Header) { h.Encode(t[:]) }

// Put writes the template into b, which must hold HeaderSize bytes, with the numbers of h: Age,
// Sequence, Acks and Selective.
func (t *Template) Put(b []byte, h *Header) {
	to := (*Template)(b)
	*to = *t
	binary.LittleEndian.PutUint16(to[ageOffset:], h.Age)
	binary.LittleEndian.PutUint32(to[sequenceOffset:], h.Sequence)
	binary.LittleEndian.PutUint32(to[acksOffset:], h.Acks[Request])
	binary.LittleEndian.PutUint64(to[acksOffset+4:], h.Selective[Request])
	binary.LittleEndian.PutUint32(to[acksOffset+12:], h.Acks[Reply])
	binary.LittleEndian.PutUint64(to[acksOffset+16:], h.Selective[Reply])
}

// Prediction describes the frame that is expected next in a series. Its zero value expects none.
type Prediction struct {
	Header Header       // of the last frame that matched, or of the model
	First  PacketHeader // of the packet of frames that match
	size   int
	words  [4]uint64 // bytes 0 to 31, but for the age
	packet [2]uint64 // its header
}

const ageMask = 1<<(8*(ageOffset-24)) - 1 // of the last word

// Expect makes f, a frame that Parse has accepted, the model of the next frame. f must have one
// packet, and no reject, block, seal, greeting or goodbye. After others nothing is expected.
func (x *Prediction) Expect(f Frame, h *Header) {
	x.size = 0
	if f.Packets() != 1 || f.Rejects() != 0 || f[15]&^flagReply != 0 {
		return
	}
	for i := range x.words {
		x.words[i] = binary.LittleEndian.Uint64(f[8*i:])
	}
	x.words[3] &= ageMask
	x.packet = [2]uint64{binary.LittleEndian.Uint64(f[HeaderSize:]),
		uint64(binary.LittleEndian.Uint32(f[HeaderSize+8:]))}
	x.Header, x.First = *h, Packet(f[HeaderSize:]).Header()
	x.size = len(f)
}

// Match returns the frame that b begins with, without its padding, if it is as expected and its
// checksum is right: Parse would accept it. Header is then that of the frame. Otherwise Match
// returns nil, which says nothing about b.
func (x *Prediction) Match(b []byte) Frame {
	if x.size == 0 || len(b) < x.size {
		return nil
	}
	f := Frame(b[:x.size])
	h := (*[HeaderSize + PacketHeaderSize]byte)(f)
	le := binary.LittleEndian
	if (le.Uint64(h[0:])^x.words[0])|(le.Uint64(h[8:])^x.words[1])|(le.Uint64(h[16:])^x.words[2])|(le.Uint64(h[24:])&ageMask^x.words[3])|
		(le.Uint64(h[epochOffset:])^x.Header.Epoch)|(le.Uint64(h[tagOffset:])^x.Header.Tag)|
		(le.Uint64(h[HeaderSize:])^x.packet[0])|(uint64(le.Uint32(h[HeaderSize+8:]))^x.packet[1]) != 0 ||
		checksum(f) != binary.LittleEndian.Uint32(h[crcOffset:]) {
		return nil
	}
	x.Header.Age = le.Uint16(h[ageOffset:])
	x.Header.Sequence = le.Uint32(h[sequenceOffset:])
	x.Header.Acks = [Levels]uint32{le.Uint32(h[acksOffset:]), le.Uint32(h[acksOffset+12:])}
	x.Header.Selective = [Levels]uint64{le.Uint64(h[acksOffset+4:]), le.Uint64(h[acksOffset+16:])}
	return f
}
