package arctic

// This file is what can be read in the header of a frame that nobody has parsed: of one's own on its way to the
// wire, or of one that may say anything. Ports and tracers look there, and decide nothing that Parse has to.

import "encoding/binary"

// Peek returns the bytes of a frame that nobody has parsed; ok is false if they are shorter than a frame
// header. What may be asked of the result is Packets and the methods below. They never read outside the header, and
// tell what stands there, whatever that is.
func Peek(b []byte) (f Frame, ok bool) {
	if len(b) < HeaderSize {
		return nil, false
	}
	return Frame(b), true
}

// Level returns the level of the frame's packets and sequence number.
func (f Frame) Level() Level { return Level(f[15] & flagReply) }

// Urgent reports whether a link sends the frame before requests that wait (thesis 5.6.1): replies, and what has no
// packets but acknowledgments, rejects or a greeting.
func (f Frame) Urgent() bool { return f[15]&flagReply != 0 || f[28] == 0 }

// Route returns the route bits, upper two as they stand there.
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
