package arctic

// This file has the payload of a packet of KindExtended: the packets of ULTRA paths (Froening's
// thesis, section 3.5). The packet has the level Request.
//
//	word 0      generation 31:16, sequence 15:0
//	word 1      target end 31:16, origin end 15:0
//	words 2..   of PathData: the tag and the payload, 0 to 7 words of 64 bits, lower halves first
//
// The type of the packet is a PathType. The ends of a path are the thesis's ULTRA ports, and their
// numbers the UPIDs, of 11 bits. The origin's card numbers ends that send, the target's ends that
// receive. The generation is the target end's. It tells a packet of the path from a packet of an
// earlier path between ends of the same numbers.

import "encoding/binary"

// PathType is the type of a packet of KindExtended.
type PathType uint16

const (
	PathData     PathType = 0 // a packet of the path; without words it is the last one
	PathInit     PathType = 1 // the target asks the origin for the other end of the path
	PathResponse PathType = 2 // the origin says which end that is
	PathOrigin   PathType = 3 // the target asks whether the origin's end is still there
	PathTarget   PathType = 4 // the origin asks whether the target's end is still there
	pathTypes             = 5
)

const (
	MaxPathEnds  = 1 << 11 // the most ends of each direction of a card: UPIDs have 11 bits
	MaxPathWords = 7       // the most words of 64 bits of a packet of a path, its tag included

	pathHeaderWords = 2
	pathHeaderSize  = pathHeaderWords * WordSize
)

// PathPacket is the payload of a packet of KindExtended.
type PathPacket struct {
	Kind       PathType
	Sequence   uint16 // of PathData, counted from 0 by path; otherwise 0
	Generation uint16 // of the target's end
	Origin     uint16 // number of the end that sends; of PathInit 0
	Target     uint16 // number of the end that receives
	Data       []byte // words of 64 bits, at most MaxPathWords; only of PathData
}

// PutPath encodes p into b, which has room for MaxPayloadWords, and returns the payload's words.
func PutPath(b []byte, p *PathPacket) int {
	binary.LittleEndian.PutUint32(b, uint32(p.Generation)<<16|uint32(p.Sequence))
	binary.LittleEndian.PutUint32(b[WordSize:], uint32(p.Target)<<16|uint32(p.Origin))
	return pathHeaderWords + copy(b[pathHeaderSize:], p.Data)/WordSize
}

// Head returns the first two words of all data of a path, as one, but for the sequence in the lower
// 16 bits. Ends keep it, so that a card compares and writes one word for each line.
func (p *PathPacket) Head() uint64 {
	return uint64(p.Target)<<48 | uint64(p.Origin)<<32 | uint64(p.Generation)<<16
}

// PutPathData encodes a packet of PathData into b: its head with the sequence, and the data behind
// pathHeaderSize, which is there already. It returns the payload's words.
func PutPathData(b []byte, head uint64, sequence uint16, size int) int {
	binary.LittleEndian.PutUint64(b, head|uint64(sequence))
	return pathHeaderWords + size/WordSize
}

// PathWords returns where the data of a packet of PathData goes in its payload.
func PathWords(payload []byte) *[MaxPathWords * 8]byte {
	return (*[MaxPathWords * 8]byte)(payload[pathHeaderSize:])
}

// PathData returns the head of a packet of PathData of a header with no other type, its sequence
// and its data, or false if no card sends such a payload.
func (p Packet) PathData() (head uint64, sequence uint16, data []byte, ok bool) {
	b := p.Payload()
	if len(b) < pathHeaderSize || len(b) > pathHeaderSize+MaxPathWords*8 || len(b)%8 != 0 {
		return 0, 0, nil, false
	}
	w := binary.LittleEndian.Uint64(b)
	return w &^ 0xffff, uint16(w), b[pathHeaderSize:], true
}

// Path decodes the payload of a packet of KindExtended with header h into d, whose Data is then a
// part of the packet. It reports whether a card sends such a payload. It accepts any payload.
func (p Packet) Path(h *PacketHeader, d *PathPacket) bool {
	b := p.Payload()
	if len(b) < pathHeaderSize || len(b) > pathHeaderSize+MaxPathWords*8 || len(b)%8 != 0 || h.Type >= uint16(pathTypes) {
		return false
	}
	w, ports := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[WordSize:])
	*d = PathPacket{Kind: PathType(h.Type), Sequence: uint16(w), Generation: uint16(w >> 16), Origin: uint16(ports),
		Target: uint16(ports >> 16), Data: b[pathHeaderSize:]}
	return d.Origin < MaxPathEnds && d.Target < MaxPathEnds &&
		(d.Kind == PathData || d.Sequence == 0 && len(d.Data) == 0) && (d.Kind != PathInit || d.Origin == 0)
}

// ForPaths reports whether a card knows what a packet of KindExtended of that type is.
func ForPaths(typ uint16) bool { return typ < uint16(pathTypes) }
