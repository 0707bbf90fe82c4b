package arctic

// This file has the frame: Ethernet header, frame header, rejects, and a train of packets or one
// packet and its block. Header.Encode, PutReject, PutPacket and PutBlock write one, Seal finishes
// it, and Parse checks one that came from the wire.

import (
	"encoding/binary"
	"errors"
	"math"
)

const (
	EtherType = 0x88B5 // marks FUNet frames: IEEE 802 local experimental EtherType 1
	Version   = 6      // the version of the frame format
	// VersionDirect is the version of frames between the cards of one job's nodes (Header.Direct).
	// All of them have the tag, so that a program at a port can tell which job they belong to.
	VersionDirect = 7

	EthernetSize = 14 // the Ethernet header, before the frame header
	HeaderSize   = 80 // where rejects and packets start
	RejectSize   = 16 // the size of one reject
	MaxTrain     = 64 // the most packets of a frame: rejects have a bit for each
	// MaxRejects is the most rejects of a frame, so that a frame with rejects
	// and one packet still fits an Ethernet frame of 1500 bytes.
	MaxRejects = 32
	// MinMTU is the smallest Ethernet payload with room for MaxRejects rejects and any one packet.
	MinMTU   = HeaderSize - EthernetSize + MaxRejects*RejectSize + MaxPacketSize
	MaxFrame = EthernetSize + math.MaxUint16 // the longest frame that the length field can describe
)

// Flags of the frame header.
const (
	flagReply    = 1 << 0
	flagHello    = 1 << 1
	flagBye      = 1 << 2
	flagBlock    = 1 << 3
	flagSealed   = 1 << 4
	flagReadable = 1 << 5
	flagDefer    = 1 << 6
	flagsAll     = flagReply | flagHello | flagBye | flagBlock | flagSealed | flagReadable | flagDefer
)

const (
	tagOffset = 68
	crcOffset = 76
	crcAfter  = crcOffset + 4
)

// Errors of Parse. They carry no detail on purpose: a damaged frame has none
// that can be trusted, and refusing one must not allocate.
var (
	ErrForeign  = errors.New("arctic: not a FUNet frame")
	ErrShort    = errors.New("arctic: frame shorter than its header")
	ErrVersion  = errors.New("arctic: frame of another version")
	ErrLength   = errors.New("arctic: frame length field does not fit the frame")
	ErrFlags    = errors.New("arctic: frame has unknown flags or reserved bits set")
	ErrChecksum = errors.New("arctic: frame checksum does not match")
	ErrPacket   = errors.New("arctic: packet does not fit its frame")
	ErrTrain    = errors.New("arctic: packets of several trains in one frame")
	ErrBlock    = errors.New("arctic: block without the packet that says where it goes")
	ErrSealed   = errors.New("arctic: sealed frame, which its key has to open first")
)

// Header is a frame header, decoded, with its Ethernet addresses.
type Header struct {
	To, From   [6]byte // Ethernet addresses
	Level      Level
	Hello, Bye bool
	// Defer: of a frame with packets, it says that a switch may answer the frame with its header
	// alone if the group is absent behind it. Of a frame without, it says that the frame is such an
	// answer, a deferral. Its Epoch, Level and Sequence are those of the frame, which has not
	// reached the card, this time. Only frames of Version that are not sealed have it.
	Defer           bool
	Direct          bool // the frame is of VersionDirect
	GID             uint16
	Route           uint32
	SourceCard      uint16
	DestinationCard uint16
	// Epoch is the epoch of the sequence state that the sender has for the peer (package link); 0:
	// none, in a greeting.
	Epoch    uint64
	Sequence uint32
	Age      uint16 // Sequence minus the sender's lowest unanswered sequence
	// Acks and Selective are indexed by level.
	Acks      [Levels]uint32
	Selective [Levels]uint64
	Tag       uint64 // the tag of the packets' job (JobTag); 0 without packets, unless Direct
}

// Encode writes the header into b, which must hold HeaderSize bytes, with no
// rejects and no packets. The frame is not valid before Seal.
func (h *Header) Encode(b []byte) {
	b = b[:HeaderSize]
	copy(b[0:6], h.To[:])
	copy(b[6:12], h.From[:])
	binary.BigEndian.PutUint16(b[12:], EtherType)
	b[14] = Version
	if h.Direct {
		b[14] = VersionDirect
	}
	flags := byte(h.Level & 1)
	if h.Hello {
		flags |= flagHello
	}
	if h.Bye {
		flags |= flagBye
	}
	if h.Defer {
		flags |= flagDefer
	}
	b[15] = flags
	binary.LittleEndian.PutUint16(b[18:], h.GID&MaxGID)
	binary.LittleEndian.PutUint32(b[20:], h.Route&MaxRoute)
	binary.LittleEndian.PutUint16(b[24:], h.SourceCard)
	binary.LittleEndian.PutUint16(b[26:], h.DestinationCard)
	b[28], b[29] = 0, 0
	binary.LittleEndian.PutUint16(b[30:], h.Age)
	binary.LittleEndian.PutUint64(b[32:], h.Epoch)
	binary.LittleEndian.PutUint32(b[40:], h.Sequence)
	binary.LittleEndian.PutUint32(b[44:], h.Acks[Request])
	binary.LittleEndian.PutUint64(b[48:], h.Selective[Request])
	binary.LittleEndian.PutUint32(b[56:], h.Acks[Reply])
	binary.LittleEndian.PutUint64(b[60:], h.Selective[Reply])
	binary.LittleEndian.PutUint64(b[tagOffset:], h.Tag)
}

// SetBye sets the bye flag of an encoded header.
func SetBye(b []byte) { b[15] |= flagBye }

// SetDefer lets a switch answer the frame with a deferral (Header.Defer). The frame has packets,
// and no rejects.
func SetDefer(b []byte) { b[15] |= flagDefer }

// Defer turns a frame that a switch may answer into its deferral, and returns how long that is. It
// does what the NIC program does.
func Defer(b []byte) int {
	var to [6]byte
	copy(to[:], b[6:12])
	copy(b[6:12], b[0:6])
	copy(b[0:6], to[:])
	b[15] &^= flagBlock
	source := binary.LittleEndian.Uint16(b[24:])
	binary.LittleEndian.PutUint32(b[20:], uint32(source))
	copy(b[24:26], b[26:28])
	binary.LittleEndian.PutUint16(b[26:], source)
	b[28], b[30], b[31] = 0, 0, 0
	clear(b[acksOffset:HeaderSize])
	Seal(b, HeaderSize)
	return HeaderSize
}

// MayDefer reports whether a switch may answer a frame that has not been parsed with a deferral.
func (f Frame) MayDefer() bool {
	return f[14] == Version && f[15]&^(flagReply|flagBlock) == flagDefer && f[28] != 0 && f[29] == 0
}

// Reject answers packets of an earlier frame of the receiver's: bit i of Bits
// stands for packet i of frame Sequence of Level.
type Reject struct {
	Sequence uint32
	Level    Level
	Reason   Reason
	Bits     uint64
}

// PutReject writes r behind n bytes of b and returns the new length. Rejects go before the first
// packet. The caller observes MaxRejects and the size of b.
func PutReject(b []byte, n int, r Reject) int {
	e := b[n : n+RejectSize]
	binary.LittleEndian.PutUint32(e[0:], r.Sequence)
	e[4], e[5], e[6], e[7] = byte(r.Level), byte(r.Reason), 0, 0
	binary.LittleEndian.PutUint64(e[8:], r.Bits)
	b[29]++
	return n + RejectSize
}

// Rejects returns how many rejects PutReject has put into the frame that b begins with.
func Rejects(b []byte) int { return int(b[29]) }

// PutPacket copies the wire form of a packet behind n bytes of b and returns the new length. The
// caller observes MaxTrain and the size of b.
func PutPacket(b []byte, n int, p []byte) int {
	copy(b[n:n+len(p)], p)
	b[28]++
	return n + len(p)
}

// PutBlock copies data behind the only packet of the frame, which ends at n, and returns the new
// length. The packet is a transfer of form Block, or a remote write, response or send with a block.
// The caller observes MaxBlock.
func PutBlock(b []byte, n int, data []byte) int {
	b[15] |= flagBlock
	return n + copy(b[n:n+len(data)], data)
}

// MaxBlock returns how many bytes of block a frame of size bytes has room for, with no
// rejects: a multiple of TransferAlign, 0 if there is no room.
func MaxBlock(size int) int {
	const before = HeaderSize + PacketHeaderSize + WordSize
	return max(min(size, MaxFrame)-before, 0) &^ (TransferAlign - 1)
}

// Seal writes length and checksum of a frame of n bytes.
func Seal(b []byte, n int) {
	b = b[:n]
	binary.LittleEndian.PutUint16(b[16:], uint16(n-EthernetSize))
	binary.LittleEndian.PutUint32(b[crcOffset:], checksum(b))
}

// Frame is the bytes of a frame that Parse has accepted, without padding.
type Frame []byte

// Parse is Look and Check: it checks every field of the frame in b against the format and returns
// the frame without its padding. It accepts any bytes; the result aliases b. After Parse, every
// packet lies inside the frame and belongs to one train. A sealed frame is refused with ErrSealed,
// because nothing behind its header can be read before it is opened.
func Parse(b []byte) (Frame, error) {
	f, err := Look(b)
	if err != nil {
		return nil, err
	}
	if err := f.Check(); err != nil {
		return nil, err
	}
	return f, nil
}

// Look makes the cheap checks: that b is a frame of a version known here, with a header, and as
// long as the header says. It returns the frame without its padding. Until Check, or Opened for a
// sealed frame, only the fields of the header may be read, and each may be damaged or forged.
func Look(b []byte) (Frame, error) {
	if len(b) < EthernetSize || binary.BigEndian.Uint16(b[12:]) != EtherType {
		return nil, ErrForeign
	}
	if len(b) < HeaderSize {
		return nil, ErrShort
	}
	if b[14] != Version && b[14] != VersionDirect {
		return nil, ErrVersion
	}
	n := EthernetSize + int(binary.LittleEndian.Uint16(b[16:]))
	if n < HeaderSize || n > len(b) {
		return nil, ErrLength
	}
	return Frame(b[:n]), nil
}

// Check checks the checksum of a frame that Look returned, and then everything else.
func (f Frame) Check() error {
	if f.Sealed() {
		return ErrSealed
	}
	if checksum(f) != binary.LittleEndian.Uint32(f[crcOffset:]) {
		return ErrChecksum
	}
	return f.checkFields()
}

// checkFields checks the reserved bits, and everything behind the header.
func (f Frame) checkFields() error {
	flags := f[15]
	switch {
	case flags&^flagsAll != 0, flags&(flagSealed|flagReadable) == flagReadable,
		flags&flagDefer != 0 && (flags&^(flagReply|flagBlock) != flagDefer || f[29] != 0 || f.Direct()),
		binary.LittleEndian.Uint16(f[18:]) > MaxGID, binary.LittleEndian.Uint32(f[20:]) > MaxRoute:
		return ErrFlags
	case flags&flagHello != 0:
		return f.checkGreeting()
	}
	return f.checkTrain()
}

// checkTrain walks rejects and packets. They must end exactly where the frame or its block does.
// All packets must be of the frame's level, group and route, and of one pair of nodes.
func (f Frame) checkTrain() error {
	packets, rejects := int(f[28]), int(f[29])
	if packets > MaxTrain || rejects > MaxRejects {
		return ErrTrain
	}
	at := HeaderSize + rejects*RejectSize
	if at > len(f) {
		return ErrLength
	}
	for i := HeaderSize; i < at; i += RejectSize {
		if f[i+4] >= Levels || f[i+5] == 0 || f[i+5] >= byte(ReasonLocal) || f[i+6]|f[i+7] != 0 {
			return ErrFlags
		}
	}
	if packets == 0 {
		if f[15]&flagBlock != 0 {
			return ErrBlock
		}
		if at != len(f) {
			return ErrLength
		}
		if !f.Direct() && binary.LittleEndian.Uint64(f[tagOffset:]) != 0 {
			return ErrFlags
		}
		return nil
	}
	want0 := uint32(f[15]&flagReply)<<31 | binary.LittleEndian.Uint32(f[20:])
	wantGID := binary.LittleEndian.Uint16(f[18:])
	var nodes uint32
	for i := range packets {
		if len(f)-at < PacketHeaderSize {
			return ErrPacket
		}
		w0 := binary.LittleEndian.Uint32(f[at:])
		w1 := binary.LittleEndian.Uint32(f[at+4:])
		w2 := binary.LittleEndian.Uint32(f[at+8:])
		pair := w1<<16 | w2&0xffff
		if i == 0 {
			nodes = pair
		}
		if w0&^(1<<30) != want0 || uint16(w1>>21) != wantGID || pair != nodes {
			return ErrTrain
		}
		length := int(w1 >> 16 & 31)
		size := PacketHeaderSize + length*WordSize
		if length > MaxPayloadWords || len(f)-at < size {
			return ErrPacket
		}
		at += size
	}
	if f[15]&flagBlock != 0 {
		return f.checkBlock(packets, at)
	}
	if at != len(f) {
		return ErrLength
	}
	return nil
}

// checkBlock checks the block that starts at the given offset: it is not empty, and the only packet
// says where it goes.
func (f Frame) checkBlock(packets, at int) error {
	size := len(f) - at
	if packets != 1 {
		return ErrBlock
	}
	if p := Packet(f[HeaderSize+int(f[29])*RejectSize : at]); !isBlock(p) && !isRemoteBlock(p) && !isResponseBlock(p) &&
		!isSendBlock(p) {
		return ErrBlock
	}
	if size == 0 || size%TransferAlign != 0 {
		return ErrLength
	}
	return nil
}

// Header decodes the frame header.
func (f Frame) Header() Header {
	h := Header{}
	f.DecodeHeader(&h)
	return h
}

// DecodeHeader decodes the frame header into h.
func (f Frame) DecodeHeader(h *Header) {
	b := f[:HeaderSize]
	copy(h.To[:], b[0:6])
	copy(h.From[:], b[6:12])
	h.Level = Level(b[15] & flagReply)
	h.Hello = b[15]&flagHello != 0
	h.Bye = b[15]&flagBye != 0
	h.Defer = b[15]&flagDefer != 0
	h.Direct = b[14] == VersionDirect
	h.GID = binary.LittleEndian.Uint16(b[18:])
	h.Route = binary.LittleEndian.Uint32(b[20:])
	h.SourceCard = binary.LittleEndian.Uint16(b[24:])
	h.DestinationCard = binary.LittleEndian.Uint16(b[26:])
	h.Age = binary.LittleEndian.Uint16(b[30:])
	h.Epoch = binary.LittleEndian.Uint64(b[32:])
	h.Sequence = binary.LittleEndian.Uint32(b[40:])
	h.Acks[Request] = binary.LittleEndian.Uint32(b[44:])
	h.Selective[Request] = binary.LittleEndian.Uint64(b[48:])
	h.Acks[Reply] = binary.LittleEndian.Uint32(b[56:])
	h.Selective[Reply] = binary.LittleEndian.Uint64(b[60:])
	h.Tag = binary.LittleEndian.Uint64(b[tagOffset:])
}

// Direct reports whether the frame is of VersionDirect.
func (f Frame) Direct() bool { return f[14] == VersionDirect }

// Packets returns how many packets the train has.
func (f Frame) Packets() int { return int(f[28]) }

// Rejects returns how many rejects the frame has.
func (f Frame) Rejects() int { return int(f[29]) }

// Reject decodes reject i, which must be below Rejects.
func (f Frame) Reject(i int) Reject {
	e := f[HeaderSize+i*RejectSize:][:RejectSize]
	return Reject{
		Sequence: binary.LittleEndian.Uint32(e[0:]),
		Level:    Level(e[4]),
		Reason:   Reason(e[5]),
		Bits:     binary.LittleEndian.Uint64(e[8:]),
	}
}

// Train returns the bytes of all packets, for Next to walk.
func (f Frame) Train() []byte {
	train := f[HeaderSize+int(f[29])*RejectSize:]
	if f[15]&flagBlock != 0 {
		return train[:PacketHeaderSize+int(train[6]&31)*WordSize]
	}
	return train
}

// Block returns the block behind the frame's packet, or nil.
func (f Frame) Block() []byte {
	if f[15]&flagBlock == 0 {
		return nil
	}
	packet := f[HeaderSize+int(f[29])*RejectSize:]
	return packet[PacketHeaderSize+int(packet[6]&31)*WordSize:]
}

// Next splits the first packet off the train of a frame that Parse accepted.
// The train must not be empty.
func Next(train []byte) (Packet, []byte) {
	n := PacketHeaderSize + int(train[6]&31)*WordSize
	return Packet(train[:n:n]), train[n:]
}
