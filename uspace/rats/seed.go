package rats

// This file defines tickets, and the seeds that carry them (HPL-95-86, sections 3.1 and 3.2).

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/funet/funet/uspace/arctic"
)

const (
	SeedSize    = 32 // the size of a seed in bytes
	seedVersion = 1  // its first byte
)

var (
	// ErrSeed reports bytes or text that are not a seed, or a seed of another version.
	ErrSeed = errors.New("rats: this is no seed; it may be cut off, changed, or of another version of FUNet")
	// ErrSplit reports a part that is empty or everything, or whose share of the count is too small
	// for the packets of a message to it.
	ErrSplit = errors.New("rats: the seed cannot be split so: a part has at least a byte and leaves one, and each needs a larger share of the count than the packets that fill it")
)

// Ticket says where one message goes, and how it is counted (3.1).
type Ticket struct {
	Node   uint16 // of the receiver
	Area   uint16 // that counts the message's packets
	Key    uint64
	Offset uint32 // of the first byte, in the key's memory
	Size   uint32 // bytes that a message may have
	// Count is what the message adds to the area's counter, modulo 2^32: 0 for one that is complete
	// by itself, or the share of a member of a group, for which 0 stands for 2^32.
	Count uint32
}

// Seed is a ticket that travels, with its protocol, which the layer above assigns.
type Seed struct {
	Ticket
	Protocol uint8
}

// Encode returns the seed's bytes:
//
//	u8 version@0, u8 protocol@1, u16 node@2, u16 area@4, u16 0@6, u64 key@8,
//	u32 offset@16, u32 size@20, u32 count@24, CRC-32C of these@28
func (s *Seed) Encode() (b [SeedSize]byte) {
	b[0], b[1] = seedVersion, s.Protocol
	binary.LittleEndian.PutUint16(b[2:], s.Node)
	binary.LittleEndian.PutUint16(b[4:], s.Area)
	binary.LittleEndian.PutUint64(b[8:], s.Key)
	binary.LittleEndian.PutUint32(b[16:], s.Offset)
	binary.LittleEndian.PutUint32(b[20:], s.Size)
	binary.LittleEndian.PutUint32(b[24:], s.Count)
	binary.LittleEndian.PutUint32(b[28:], seedSum(b[:28]))
	return b
}

func seedSum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// DecodeSeed returns the seed that the bytes encode, or ErrSeed. Only the receiver's card knows
// whether the receiver has such a key.
func DecodeSeed(b []byte) (Seed, error) {
	if len(b) != SeedSize || b[0] != seedVersion || b[6]|b[7] != 0 ||
		binary.LittleEndian.Uint32(b[28:]) != seedSum(b[:28]) {
		return Seed{}, ErrSeed
	}
	s := Seed{Protocol: b[1], Ticket: Ticket{
		Node: binary.LittleEndian.Uint16(b[2:]), Area: binary.LittleEndian.Uint16(b[4:]),
		Key:    binary.LittleEndian.Uint64(b[8:]),
		Offset: binary.LittleEndian.Uint32(b[16:]), Size: binary.LittleEndian.Uint32(b[20:]),
		Count: binary.LittleEndian.Uint32(b[24:]),
	}}
	if uint64(s.Offset)+uint64(s.Size) > 1<<32 {
		return Seed{}, ErrSeed
	}
	return s, nil
}

// String returns the seed as text: 43 letters, digits, - and _. Anyone who reads it can write.
func (s *Seed) String() string {
	b := s.Encode()
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// ParseSeed returns the seed that a text encodes, or ErrSeed.
func ParseSeed(text string) (Seed, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return Seed{}, ErrSeed
	}
	return DecodeSeed(b)
}

// Split takes the first bytes off the seed's memory and returns a seed for them. Each seed keeps
// what it needs of the share of the count; the returned one also gets half of the rest. One record
// comes when a message has arrived with each (2.5). Split returns ErrSplit, and changes nothing.
//
// Why shares have a least size: a counter may be 0 before everything has arrived. This happens when
// one member's only packet has delta -1 and another's first has 1. If each share is larger than the
// number of packets that its member can send, this is impossible: as long as any packet is missing,
// the sum of those that arrived lies between 1 and 2^32 - 1.
func (s *Seed) Split(bytes uint32) (Seed, error) {
	whole := uint64(s.Count)
	if whole == 0 {
		whole = 1 << 32
	}
	if bytes == 0 || bytes >= s.Size {
		return Seed{}, fmt.Errorf("splitting %d bytes off %d: %w", bytes, s.Size, ErrSplit)
	}
	part, rest := leastShare(bytes), leastShare(s.Size-bytes)
	if part+rest > whole {
		return Seed{}, fmt.Errorf("splitting %d bytes off %d with %d of the count: %w", bytes, s.Size, whole, ErrSplit)
	}
	share := part + (whole-part-rest)/2
	n := *s
	n.Size, n.Count = bytes, uint32(share)
	s.Offset, s.Size, s.Count = s.Offset+bytes, s.Size-bytes, uint32(whole-share)
	return n, nil
}

// leastShare returns the least share of the count for a message of up to that many bytes: one more
// than its largest number of packets.
func leastShare(bytes uint32) uint64 { return uint64(bytes)/arctic.MaxRemoteBytes + 3 }
