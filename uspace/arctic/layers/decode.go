package layers

// This file decodes: bytes after the EtherType to a FUNet layer. A cursor takes
// one field after the other, so where a field lies follows from the sizes of
// those before it, which arctic's fixed offsets must agree with.

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/google/gopacket"

	"github.com/funet/funet/uspace/arctic"
)

// Sizes in bytes, counted from the version: the Ethernet header is not ours.
const (
	headerBytes       = 66 // version to checksum
	checksumAt        = 62
	rejectBytes       = 16
	packetHeaderBytes = 12

	mostPackets      = 64
	mostRejects      = 32
	mostPayloadWords = 21
	firstLocalReason = 128
	blockAlign       = 16
	macBytes         = 16
	greetingBytes    = 56
	sealBytes        = macBytes + 4
)

// Flags of the frame header.
const (
	bitReply    = 0x01
	bitHello    = 0x02
	bitBye      = 0x04
	bitBlock    = 0x08
	bitSealed   = 0x10
	bitReadable = 0x20
	bitDefer    = 0x40
	bitsAll     = 0x7f
)

var crc32c = crc32.MakeTable(crc32.Castagnoli)

// cursor reads little-endian fields from the front of b. Its user has made sure
// that the bytes are there.
type cursor struct{ b []byte }

func (c *cursor) bytes(n int) []byte {
	v := c.b[:n:n]
	c.b = c.b[n:]
	return v
}

func (c *cursor) u8() uint8   { return c.bytes(1)[0] }
func (c *cursor) u16() uint16 { return binary.LittleEndian.Uint16(c.bytes(2)) }
func (c *cursor) u32() uint32 { return binary.LittleEndian.Uint32(c.bytes(4)) }
func (c *cursor) u64() uint64 { return binary.LittleEndian.Uint64(c.bytes(8)) }

func decodeFUNet(data []byte, p gopacket.PacketBuilder) error {
	f := &FUNet{}
	if err := f.DecodeFromBytes(data, p); err != nil {
		return err
	}
	p.AddLayer(f)
	return nil
}

// DecodeFromBytes makes f the frame whose bytes after the EtherType are data, which may end in
// padding. Payloads alias data; the slices of f are reused. It accepts any bytes. An error wraps
// one of arctic's ErrShort, ErrVersion, ErrLength, ErrChecksum, ErrFlags, ErrTrain, ErrPacket and
// ErrBlock, and leaves f in a state that means nothing.
func (f *FUNet) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	if len(data) < headerBytes {
		df.SetTruncated()
		return fmt.Errorf("decode FUNet frame: %d bytes after the EtherType, a header has %d: %w", len(data),
			headerBytes, arctic.ErrShort)
	}
	flags := f.decodeHeader(data)
	if f.Version != arctic.Version && f.Version != arctic.VersionDirect {
		return fmt.Errorf("decode FUNet frame: version %d, this decoder knows versions %d and %d: %w", f.Version,
			arctic.Version, arctic.VersionDirect, arctic.ErrVersion)
	}
	size := int(f.Length)
	if size > len(data) {
		df.SetTruncated()
	}
	if size < headerBytes || size > len(data) {
		return fmt.Errorf("decode FUNet frame: length %d, want %d to the %d bytes there are: %w", size, headerBytes,
			len(data), arctic.ErrLength)
	}
	if sum := frameChecksum(data[:size]); sum != f.Checksum && !f.Sealed {
		return fmt.Errorf("decode FUNet frame: checksum %#08x, its bytes have %#08x: %w", f.Checksum, sum,
			arctic.ErrChecksum)
	}
	if flags&^bitsAll != 0 || f.Readable && !f.Sealed || f.GID >= 1<<11 || f.Route >= 1<<30 {
		return fmt.Errorf("decode FUNet frame: flags %#02x, GID %d, route %#x: a reserved bit is set: %w", flags, f.GID,
			f.Route, arctic.ErrFlags)
	}
	if f.Defer && (flags&^(bitReply|bitBlock) != bitDefer || f.RejectCount != 0 || f.Version != arctic.Version) {
		return fmt.Errorf("decode FUNet frame: defer with flags %#02x, %d rejects, version %d: %w", flags,
			f.RejectCount, f.Version, arctic.ErrFlags)
	}
	f.Contents, f.Payload = data[:size:size], nil
	f.Counter, f.MAC, f.Ciphertext = 0, nil, nil
	body := f.Contents[headerBytes:]
	switch {
	case f.Hello:
		return f.decodeGreeting(body, flags)
	case f.Sealed && len(body) < sealBytes:
		return fmt.Errorf("decode FUNet frame: %d bytes behind the header of a sealed frame, want at least %d: %w",
			len(body), sealBytes, arctic.ErrLength)
	case f.Sealed:
		end := cursor{body[len(body)-sealBytes:]}
		body = body[:len(body)-sealBytes]
		f.MAC = end.bytes(macBytes)
		f.Counter, f.Checksum = uint64(end.u32())<<32|uint64(f.Checksum), 0
		if !f.Readable {
			f.Rejects, f.Packets, f.Block, f.Ciphertext = f.Rejects[:0], f.Packets[:0], nil, body[:len(body):len(body)]
			if flags&bitBlock != 0 {
				f.Block = []byte{} // its bytes are in Ciphertext
			}
			return nil
		}
	}
	return f.decodeBody(body, flags&bitBlock != 0)
}

// decodeGreeting reads what follows the header of a hello: a greeting and nothing else.
func (f *FUNet) decodeGreeting(b []byte, flags uint8) error {
	f.Rejects, f.Packets, f.Block = f.Rejects[:0], f.Packets[:0], nil
	if f.PacketCount != 0 || f.RejectCount != 0 {
		return fmt.Errorf("decode FUNet frame: hello with %d packets and %d rejects, it carries none: %w",
			f.PacketCount, f.RejectCount, arctic.ErrTrain)
	}
	if flags&(bitBlock|bitSealed) != 0 || f.Tag != 0 && f.Version == arctic.Version {
		return fmt.Errorf("decode FUNet frame: hello with flags %#02x and tag %#x: %w", flags, f.Tag, arctic.ErrFlags)
	}
	if len(b) != greetingBytes {
		return fmt.Errorf("decode FUNet frame: greeting of %d bytes, want %d: %w", len(b), greetingBytes,
			arctic.ErrLength)
	}
	c := cursor{b}
	g := &f.Greeting
	g.Nonce, g.Echo, g.Number = c.u64(), c.u64(), c.u64()
	g.Incarnation, g.Longest, g.Flags, g.Key = c.u32(), c.u32(), arctic.GreetingFlags(c.u32()), c.u32()
	if g.Nonce == 0 || g.Incarnation == 0 {
		return fmt.Errorf("decode FUNet frame: greeting with nonce %#x and incarnation %#x: %w", g.Nonce, g.Incarnation,
			arctic.ErrFlags)
	}
	f.MAC = c.bytes(macBytes)
	return nil
}

// decodeHeader reads all fields of the frame header from b and returns its flags,
// the only ones that f does not keep as they are.
func (f *FUNet) decodeHeader(b []byte) (flags uint8) {
	c := cursor{b}
	f.Version = c.u8()
	flags = c.u8()
	f.Level = arctic.Level(flags & bitReply)
	f.Hello = flags&bitHello != 0
	f.Bye = flags&bitBye != 0
	f.Sealed = flags&bitSealed != 0
	f.Readable = flags&bitReadable != 0
	f.Defer = flags&bitDefer != 0
	f.Length = c.u16()
	f.GID = c.u16()
	f.Route = c.u32()
	f.SourceCard = c.u16()
	f.DestinationCard = c.u16()
	f.PacketCount = c.u8()
	f.RejectCount = c.u8()
	f.Age = c.u16()
	f.Epoch = c.u64()
	f.Sequence = c.u32()
	for level := range f.Acks {
		f.Acks[level] = c.u32()
		f.Selective[level] = c.u64()
	}
	f.Tag = c.u64()
	f.Checksum = c.u32()
	return flags
}

// frameChecksum is the CRC-32C of a frame, b from its version on, without the
// four bytes that hold it.
func frameChecksum(b []byte) uint32 {
	h := crc32.New(crc32c)
	h.Write(b[:checksumAt])
	h.Write(b[headerBytes:])
	return h.Sum32()
}

// decodeBody reads what follows the header: rejects, then packets, then the block if
// there is one, which must end where b does.
func (f *FUNet) decodeBody(b []byte, block bool) error {
	f.Rejects, f.Packets, f.Block = f.Rejects[:0], f.Packets[:0], nil
	if f.PacketCount > mostPackets || f.RejectCount > mostRejects {
		return fmt.Errorf("decode FUNet frame: %d packets and %d rejects, at most %d and %d: %w", f.PacketCount,
			f.RejectCount, mostPackets, mostRejects, arctic.ErrTrain)
	}
	c := cursor{b}
	if len(c.b) < int(f.RejectCount)*rejectBytes {
		return fmt.Errorf("decode FUNet frame: %d rejects in %d bytes: %w", f.RejectCount, len(c.b), arctic.ErrLength)
	}
	for i := range int(f.RejectCount) {
		if err := f.decodeReject(i, &c); err != nil {
			return err
		}
	}
	for i := range int(f.PacketCount) {
		if err := f.decodePacket(i, &c); err != nil {
			return err
		}
	}
	if block {
		return f.decodeBlock(&c)
	}
	if len(c.b) != 0 {
		return fmt.Errorf("decode FUNet frame: %d bytes behind the last of %d packets: %w", len(c.b), f.PacketCount,
			arctic.ErrLength)
	}
	if f.PacketCount == 0 && f.Tag != 0 && f.Version == arctic.Version {
		return fmt.Errorf("decode FUNet frame: tag %#x without packets: %w", f.Tag, arctic.ErrFlags)
	}
	return nil
}

// decodeBlock takes the rest as the block. Only these packets have one: a transfer of one word with
// both low bits set, and with bit 11 of its type a remote write of five words, a response of two,
// or a send of 8 to 12.
func (f *FUNet) decodeBlock(c *cursor) error {
	named := false
	if len(f.Packets) == 1 {
		p := &f.Packets[0]
		named = p.Kind == arctic.KindTransfer && len(p.Payload) == 4 && p.Payload[0]&3 == 3 ||
			p.Type&(1<<11) != 0 && (p.Kind == arctic.KindRemote && len(p.Payload) == 20 ||
				p.Kind == arctic.KindResponse && len(p.Payload) == 8 ||
				p.Kind == arctic.KindSend && len(p.Payload) >= 32 && len(p.Payload) <= 48)
	}
	if !named {
		return fmt.Errorf("decode FUNet frame: a block of %d bytes behind %d packets, of which none says where it goes: %w", len(c.b), len(f.Packets), arctic.ErrBlock)
	}
	if len(c.b) == 0 || len(c.b)%blockAlign != 0 {
		return fmt.Errorf("decode FUNet frame: a block of %d bytes, want a positive multiple of %d: %w", len(c.b),
			blockAlign, arctic.ErrLength)
	}
	f.Block = c.bytes(len(c.b))
	return nil
}

func (f *FUNet) decodeReject(i int, c *cursor) error {
	sequence, level, reason, zero, bits := c.u32(), c.u8(), c.u8(), c.u16(), c.u64()
	if level > 1 || reason == 0 || reason >= firstLocalReason || zero != 0 {
		return fmt.Errorf("decode FUNet frame: reject %d has level %d, reason %d and reserved bytes %#04x: %w", i,
			level, reason, zero, arctic.ErrFlags)
	}
	f.Rejects = append(f.Rejects, arctic.Reject{Sequence: sequence, Level: arctic.Level(level),
		Reason: arctic.Reason(reason), Bits: bits})
	return nil
}

// decodePacket reads packet i. It must be of the frame's level, GID and route, and go between the
// nodes of the packets before it.
func (f *FUNet) decodePacket(i int, c *cursor) error {
	if len(c.b) < packetHeaderBytes {
		return fmt.Errorf("decode FUNet frame: packet %d of %d has %d bytes, its header %d: %w", i, f.PacketCount,
			len(c.b), packetHeaderBytes, arctic.ErrPacket)
	}
	word0, word1, word2 := c.u32(), c.u32(), c.u32()
	h := arctic.PacketHeader{
		Level:       arctic.Level(field(word0, 31, 31)),
		Kind:        arctic.Kind(field(word0, 30, 30)<<2 | field(word2, 31, 30)),
		Route:       field(word0, 29, 0),
		GID:         uint16(field(word1, 31, 21)),
		Length:      uint8(field(word1, 20, 16)),
		Destination: uint16(field(word1, 15, 0)),
		Type:        uint16(field(word2, 29, 16)),
		Source:      uint16(field(word2, 15, 0)),
	}
	if h.Level != f.Level || h.GID != f.GID || h.Route != f.Route {
		return fmt.Errorf("decode FUNet frame: packet %d is of level %d, GID %d, route %#x, its frame of %d, %d, %#x: %w", i, h.Level, h.GID, h.Route, f.Level, f.GID, f.Route, arctic.ErrTrain)
	}
	if i > 0 && (h.Source != f.Packets[0].Source || h.Destination != f.Packets[0].Destination) {
		return fmt.Errorf("decode FUNet frame: packet %d goes from node %d to %d, the first from %d to %d: %w", i,
			h.Source, h.Destination, f.Packets[0].Source, f.Packets[0].Destination, arctic.ErrTrain)
	}
	if h.Length > mostPayloadWords || len(c.b) < int(h.Length)*4 {
		return fmt.Errorf("decode FUNet frame: packet %d has %d payload words, at most %d and %d bytes are left: %w", i,
			h.Length, mostPayloadWords, len(c.b), arctic.ErrPacket)
	}
	f.Packets = append(f.Packets, Packet{PacketHeader: h, Payload: c.bytes(int(h.Length) * 4)})
	return nil
}

// field returns bits high to low of a header word, both included, as package
// arctic's diagram numbers them.
func field(word uint32, high, low uint) uint32 {
	return word << (31 - high) >> (31 - high + low)
}
