package arctic

// This file reads the header of a frame that has not been parsed: a frame on its way to the wire,
// or a received frame with any content. Ports and tracers use it. Take no decision here that
// depends on a check of Parse.

import "encoding/binary"

// Peek returns the bytes of a frame that has not been parsed; ok is false if they are shorter than
// a frame header. Only Packets, Header and the methods below may be called on the result. They
// never read outside the header, and return its fields unchecked.
func Peek(b []byte) (f Frame, ok bool) {
	if len(b) < HeaderSize {
		return nil, false
	}
	return Frame(b), true
}

// PeekSource returns the source card and level of a frame not yet parsed, HeaderSize bytes or more.
func PeekSource(b []byte) (card uint16, l Level) {
	b = b[:HeaderSize]
	return binary.LittleEndian.Uint16(b[24:]), Level(b[15] & flagReply)
}

// Level returns the level of the frame's packets and sequence number.
func (f Frame) Level() Level { return Level(f[15] & flagReply) }

// Urgent reports whether a link sends the frame before requests that wait (thesis 5.6.1). Frames of
// replies are urgent, and so are frames without packets: acknowledgments, rejects, a greeting.
func (f Frame) Urgent() bool { return f[15]&flagReply != 0 || f[28] == 0 }

// Route returns the route bits, with the upper two as they stand in the frame.
func (f Frame) Route() uint32 { return binary.LittleEndian.Uint32(f[20:]) }

// Sequence returns the frame's number.
func (f Frame) Sequence() uint32 { return binary.LittleEndian.Uint32(f[40:]) }

// Acknowledged returns the acknowledgment of a level: every frame before it has been answered.
func (f Frame) Acknowledged(l Level) uint32 {
	if l == Reply {
		return binary.LittleEndian.Uint32(f[56:])
	}
	return binary.LittleEndian.Uint32(f[44:])
}

// Checksum returns the checksum that the frame says it has.
func (f Frame) Checksum() uint32 { return binary.LittleEndian.Uint32(f[crcOffset:]) }
