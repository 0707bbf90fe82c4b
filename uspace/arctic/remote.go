package arctic

// This file has the payload of a packet of KindRemote with the flag area: a write into memory that
// a process has given a key to (Hamlyn, HPL-95-86, sections 2.2 to 2.5). The packet names a key
// slot instead of an address, and every node with the key may write there. Packets without the flag
// are operations on windows (operation.go).
//
// The packet's type says what is asked: operation 3:0, RemotePut, element type 7:4, 0, flags 13:8.
//
//	13  area: words 2 to 4 are as below
//	11  block: the data is the frame's block
//
// The payload:
//
//	words 0, 1  key: the number of the key slot 15:0, the secret 63:16
//	word 2      offset from the first byte of the key slot's memory
//	word 3      area 31:16, counted 15, zero 14:12, pad 11:8, zero 7:4, words of metadata 3:0
//	word 4      delta
//	            metadata, 0 to 11 words
//	            data, any number of bytes, and as many zeros as pad says, 0 to 3, up to the next
//	            word
//
// Metadata and data have 64 bytes together, so that a packet has 24 words at most. A packet with
// the flag block has neither; its data are a positive multiple of 16 bytes. Any offset is valid,
// and so is a write of no bytes.
//
// A packet that is counted adds its delta to the counter of the area, modulo 2^32 (section 2.5). A
// packet that is not counted only writes. If a frame has no room for a block, the block goes in
// pieces, and only the last piece is counted; no piece leaves before the one before it has arrived.
// So a block counts once, when all of it is there.

import "encoding/binary"

const (
	MaxRemoteMetadata = 11 // the most metadata of a packet in words
	// MaxRemoteBytes is the most metadata and data of a packet in bytes, without a block.
	MaxRemoteBytes = (MaxPayloadWords - remoteWords) * WordSize

	RemoteHeadSize = remoteWords * WordSize // how many bytes stand before metadata and data

	remoteWords = 5 // before metadata and data
	// remoteBlockBytes is how much longer the packet of a remote write with a block is than the
	// packet of a transfer with one.
	remoteBlockBytes = (remoteWords - 1) * WordSize

	counted      = 1 << 15
	remoteZeros  = 7<<12 | 0xf<<4
	remoteMost   = 3 // of pad
	countedByte  = PacketHeaderSize + 3*WordSize + 1
	countedInIt  = counted >> 8
	remoteOffset = PacketHeaderSize + 2*WordSize
)

// The flags of the type of a packet of KindRemote.
const (
	remoteArea  = 1 << 13
	remoteBlock = 1 << 11
)

// Remote is the payload of a packet of KindRemote.
type Remote struct {
	Block    bool   // the frame has the data, see PutBlock
	Counted  bool   // Delta is to be added to the area's counter
	Area     uint16 // a number of the receiver's
	Key      uint64
	Offset   uint32
	Delta    uint32
	Metadata []byte // a multiple of WordSize, up to MaxRemoteMetadata words
	Data     []byte
}

// Type returns the type of the packet.
func (r *Remote) Type() uint16 {
	if r.Block {
		return uint16(RemotePut) | remoteArea | remoteBlock
	}
	return uint16(RemotePut) | remoteArea
}

// PutRemote encodes r into b, which must have room for MaxPayloadWords, and returns the length in
// payload words. Metadata and data that do not fit panic, as with any slice; the card checks
// before.
func PutRemote(b []byte, r *Remote) int {
	n, pad := PutRemoteHead(b, r, len(r.Metadata)/WordSize, len(r.Data))
	n += copy(b[n:n+len(r.Metadata)], r.Metadata)
	n += copy(b[n:n+len(r.Data)], r.Data)
	clear(b[n : n+pad])
	return (n + pad) / WordSize
}

// PutRemoteHead encodes what stands before metadata and data, and returns its length in bytes.
// metadata is how many words and data how many bytes will follow. pad is how many zeros must follow
// the data.
func PutRemoteHead(b []byte, r *Remote, metadata, data int) (n, pad int) {
	binary.LittleEndian.PutUint64(b, r.Key)
	binary.LittleEndian.PutUint32(b[8:], r.Offset)
	pad = -data & (WordSize - 1)
	word := uint32(r.Area)<<16 | uint32(pad)<<8 | uint32(metadata)
	if r.Counted {
		word |= counted
	}
	binary.LittleEndian.PutUint32(b[12:], word)
	binary.LittleEndian.PutUint32(b[16:], r.Delta)
	return remoteWords * WordSize, pad
}

// Remote decodes the payload of a packet of KindRemote with header h into r, whose Metadata and
// Data alias the packet, and reports whether a card sends such a payload. It accepts any payload.
// With Block the data is Frame.Block; such a packet in a frame without a block is invalid.
func (p Packet) Remote(h *PacketHeader, r *Remote) bool {
	b := p.Payload()
	if len(b) < remoteWords*WordSize || h.Type&^remoteBlock != uint16(RemotePut)|remoteArea {
		return false
	}
	word := binary.LittleEndian.Uint32(b[12:])
	r.Block, r.Counted, r.Area = h.Type&remoteBlock != 0, word&counted != 0, uint16(word>>16)
	r.Key, r.Offset, r.Delta = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint32(b[8:]),
		binary.LittleEndian.Uint32(b[16:])
	b = b[remoteWords*WordSize:]
	if r.Block {
		r.Metadata, r.Data = nil, nil
		return len(b) == 0 && word&(remoteZeros|0xf<<8|0xf) == 0
	}
	pad, metadata := int(word>>8&0xf), int(word&0xf)*WordSize
	if word&remoteZeros != 0 || pad > remoteMost || metadata > MaxRemoteMetadata*WordSize || metadata+pad > len(b) ||
		pad > 0 && metadata+WordSize > len(b) || !zeros(b[len(b)-pad:]) {
		return false
	}
	r.Metadata, r.Data = b[:metadata:metadata], b[metadata:len(b)-pad]
	return true
}

// MaxRemoteBlock is MaxBlock for a packet of KindRemote.
func MaxRemoteBlock(size int) int { return max(MaxBlock(size)-remoteBlockBytes, 0) }

// IsRemote reports whether the packet is of KindRemote.
func (p Packet) IsRemote() bool {
	return p[11]>>6 == byte(KindRemote&3) && p[3]>>6&1 == byte(KindRemote>>2)
}

// CountPiece marks a packet of KindRemote with a block as counted or not. It is counted if its
// frame carries the last piece of a block that is to be counted.
func (p Packet) CountPiece(counts bool) {
	if IsOperation(p.Header().Type) { // whose receiver counts nothing
		return
	}
	if counts {
		p[countedByte] |= countedInIt
	} else {
		p[countedByte] &^= countedInIt
	}
}

func isRemoteBlock(p Packet) bool {
	if len(p) != blockPacketSize+remoteBlockBytes || !p.IsRemote() {
		return false
	}
	h := p.Header()
	return h.Type&remoteBlock != 0
}
