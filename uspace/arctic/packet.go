package arctic

// This file is the Arctic packet: three header words and up to 21 of payload.

import "encoding/binary"

const (
	WordSize = 4 // the size of a word in bytes
	// HeaderWords is how many network header words a packet has (thesis 5.2.2).
	HeaderWords     = 3
	MaxPayloadWords = 21                            // the longest payload (thesis 3.2.2)
	MaxPacketWords  = HeaderWords + MaxPayloadWords // the longest packet on Arctic
	// PacketHeaderSize and MaxPacketSize are the same in bytes.
	PacketHeaderSize = HeaderWords * WordSize
	MaxPacketSize    = MaxPacketWords * WordSize

	MaxGID   = 1<<11 - 1 // the largest group identifier: GIDs have 11 bits (thesis 3.1.2)
	MaxRoute = 1<<30 - 1 // the largest value of the 30 route bits (thesis 5.4)
	MaxType  = 1<<14 - 1 // the largest packet type that the wire can carry
)

// Level is one of the two priority levels of every queue and flow.
type Level uint8

const (
	Request Level = 0 // the lower priority
	Reply   Level = 1 // the higher priority; it goes before Request everywhere
	Levels        = 2 // how many there are
)

// String returns "request" or "reply".
func (l Level) String() string {
	if l == Reply {
		return "reply"
	}
	return "request"
}

// Kind says what a packet asks of the card that receives it.
type Kind uint8

const (
	KindMessage  Kind = 0 // a message-passing packet (thesis 3.2.2)
	KindTransfer Kind = 1 // an XFER packet, which goes to memory (thesis 3.2.4); see Transfer
	// KindRemote is a write into memory that a process has given a key to, see Remote, or an
	// operation on it, see WindowRequest.
	KindRemote    Kind = 2
	KindResponse  Kind = 3 // the answer of an operation on a window; see Response
	KindSend      Kind = 4 // a message that the receiver stores where it has said; see Send
	KindMulticast Kind = 5 // a message or write that goes along a chain; see Multicast
	KindForward   Kind = 6 // says that the process of a node is on another card now; see Forward
	KindExtended  Kind = 7 // a packet of an ULTRA path, see PathPacket; other types are reserved
)

// Kinds is how many kinds the field can tell apart.
const Kinds = 8

// PacketHeader is the three header words of a packet, decoded.
type PacketHeader struct {
	Level       Level
	Kind        Kind
	Route       uint32 // at most MaxRoute
	GID         uint16 // at most MaxGID
	Length      uint8  // payload words, at most MaxPayloadWords
	Type        uint16 // at most MaxType
	Destination uint16 // node in the group
	Source      uint16 // node in the group
}

// Encode writes the header into the first PacketHeaderSize bytes of b, which
// must be that long. Fields above their limit lose their upper bits.
func (h *PacketHeader) Encode(b []byte) {
	_ = b[PacketHeaderSize-1]
	binary.LittleEndian.PutUint32(b[0:], uint32(h.Level&1)<<31|uint32(h.Kind>>2&1)<<30|h.Route&MaxRoute)
	binary.LittleEndian.PutUint32(b[4:], uint32(h.GID&MaxGID)<<21|uint32(h.Length&31)<<16|uint32(h.Destination))
	binary.LittleEndian.PutUint32(b[8:], uint32(h.Kind&3)<<30|uint32(h.Type&MaxType)<<16|uint32(h.Source))
}

// Packet is the bytes of one packet in wire format, as Next returns it.
type Packet []byte

func (p Packet) word(i int) uint32 { return binary.LittleEndian.Uint32(p[i*WordSize:]) }

// Header decodes the three header words.
func (p Packet) Header() PacketHeader {
	_ = p[PacketHeaderSize-1]
	w0, w1, w2 := p.word(0), p.word(1), p.word(2)
	return PacketHeader{
		Level:       Level(w0 >> 31),
		Kind:        Kind(w0>>30&1<<2 | w2>>30),
		Route:       w0 & MaxRoute,
		GID:         uint16(w1 >> 21),
		Length:      uint8(w1 >> 16 & 31),
		Type:        uint16(w2 >> 16 & MaxType),
		Destination: uint16(w1),
		Source:      uint16(w2),
	}
}

// Payload returns the bytes after the header words.
func (p Packet) Payload() []byte { return p[PacketHeaderSize:] }

// Word returns payload word i.
func (p Packet) Word(i int) uint32 { return p.word(HeaderWords + i) }

// PutWords encodes words into b, which must hold four bytes for each.
func PutWords(b []byte, words []uint32) {
	for len(words) >= 2 { // which the compiler makes one load and one store
		binary.LittleEndian.PutUint64(b, uint64(words[0])|uint64(words[1])<<32)
		b, words = b[2*WordSize:], words[2:]
	}
	if len(words) > 0 {
		binary.LittleEndian.PutUint32(b, words[0])
	}
}

// Words decodes len(words) words from b, which must hold four bytes for each.
func Words(words []uint32, b []byte) {
	for len(words) >= 2 {
		w := binary.LittleEndian.Uint64(b)
		words[0], words[1] = uint32(w), uint32(w>>32)
		b, words = b[2*WordSize:], words[2:]
	}
	if len(words) > 0 {
		words[0] = binary.LittleEndian.Uint32(b)
	}
}
