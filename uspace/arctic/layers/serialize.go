package layers

// This file composes: a FUNet layer to the bytes after the EtherType. It writes
// the fields in the order in which decode.go reads them.

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/gopacket"
)

// ErrUnwritable is wrapped by SerializeTo's error when a field's value does not fit the layout. The
// error names the field.
var ErrUnwritable = errors.New("layers: the wire has no room for it")

// SerializeTo writes f in front of the bytes of b. These then follow the frame as Ethernet's
// padding does: they are not its payload, and no length counts them. With opts.FixLengths it first
// sets Length, PacketCount, RejectCount and each packet's Length from Rejects, Packets and Block.
// With opts.ComputeChecksums it sets Checksum over as many bytes as Length says, or over those that
// there are if they are fewer. Otherwise these fields are written as they stand. It does not check
// whether a card would accept the frame.
func (f *FUNet) SerializeTo(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	size := headerBytes + len(f.Rejects)*rejectBytes
	for i := range f.Packets {
		size += packetHeaderBytes + len(f.Packets[i].Payload)
	}
	size += len(f.Block) + len(f.Ciphertext) + len(f.MAC)
	switch {
	case f.MAC != nil && len(f.MAC) != macBytes || f.Sealed && f.MAC == nil || !f.Sealed && f.Ciphertext != nil:
		return fmt.Errorf("compose FUNet frame: a MAC of %d bytes, sealed %v, %d bytes of ciphertext: %w", len(f.MAC),
			f.Sealed, len(f.Ciphertext), ErrUnwritable)
	case f.Sealed:
		size += sealBytes - macBytes
	case f.MAC != nil:
		size += greetingBytes - macBytes
	}
	if opts.FixLengths {
		if err := f.fixLengths(size); err != nil {
			return err
		}
	}
	if err := f.checkRoom(); err != nil {
		return err
	}
	front, err := b.PrependBytes(size)
	if err != nil {
		return fmt.Errorf("compose FUNet frame of %d bytes: %w", size, err)
	}
	w := f.appendHeader(front[:0])
	for _, r := range f.Rejects {
		w = binary.LittleEndian.AppendUint32(w, r.Sequence)
		w = append(w, byte(r.Level), byte(r.Reason), 0, 0)
		w = binary.LittleEndian.AppendUint64(w, r.Bits)
	}
	for i := range f.Packets {
		w = f.Packets[i].appendTo(w)
	}
	w = append(append(w, f.Block...), f.Ciphertext...)
	if f.MAC != nil && !f.Sealed {
		w = f.appendGreeting(w)
	}
	w = append(w, f.MAC...)
	if f.Sealed {
		_ = binary.LittleEndian.AppendUint32(w, uint32(f.Counter>>32)) // into the bytes of front
		return nil
	}
	if opts.ComputeChecksums {
		covered := b.Bytes()
		covered = covered[:min(max(int(f.Length), headerBytes), len(covered))]
		f.Checksum = frameChecksum(covered)
		binary.LittleEndian.PutUint32(front[checksumAt:], f.Checksum)
	}
	return nil
}

// fixLengths sets every field that follows from the numbers of rejects, packets and payload bytes.
// size is the size of the frame.
func (f *FUNet) fixLengths(size int) error {
	if len(f.Packets) > 0xff || len(f.Rejects) > 0xff || size > 0xffff {
		return fmt.Errorf("compose FUNet frame: %d packets, %d rejects, %d bytes: %w", len(f.Packets), len(f.Rejects),
			size, ErrUnwritable)
	}
	for i := range f.Packets {
		p := &f.Packets[i]
		if len(p.Payload)%4 != 0 || len(p.Payload)/4 > 31 {
			return fmt.Errorf("compose FUNet frame: packet %d has %d payload bytes, want whole words and at most 31: %w", i, len(p.Payload), ErrUnwritable)
		}
		p.Length = uint8(len(p.Payload) / 4)
	}
	f.Length = uint16(size)
	if f.Ciphertext == nil { // its header counts what it hides
		f.PacketCount, f.RejectCount = uint8(len(f.Packets)), uint8(len(f.Rejects))
	}
	return nil
}

// checkRoom finds fields whose values would spill into their neighbours or be cut.
func (f *FUNet) checkRoom() error {
	if f.Level > 1 || f.GID >= 1<<11 || f.Route >= 1<<30 {
		return fmt.Errorf("compose FUNet frame: level %d, GID %d, route %#x, want at most 1, 11 and 30 bits: %w",
			f.Level, f.GID, f.Route, ErrUnwritable)
	}
	for i := range f.Packets {
		h := &f.Packets[i].PacketHeader
		if h.Level > 1 || h.Kind > 7 || h.Route >= 1<<30 || h.GID >= 1<<11 || h.Length > 31 || h.Type >= 1<<14 {
			return fmt.Errorf("compose FUNet frame: packet %d: level %d, kind %d, route %#x, GID %d, length %d, type %d, want at most 1, 3, 30, 11, 5 and 14 bits: %w", i, h.Level, h.Kind, h.Route, h.GID, h.Length, h.Type, ErrUnwritable)
		}
	}
	return nil
}

func (f *FUNet) appendHeader(w []byte) []byte {
	flags := byte(f.Level)
	if f.Hello {
		flags |= bitHello
	}
	if f.Bye {
		flags |= bitBye
	}
	if f.Block != nil {
		flags |= bitBlock
	}
	if f.Sealed {
		flags |= bitSealed
	}
	if f.Readable {
		flags |= bitReadable
	}
	if f.Defer {
		flags |= bitDefer
	}
	w = append(w, f.Version, flags)
	w = binary.LittleEndian.AppendUint16(w, f.Length)
	w = binary.LittleEndian.AppendUint16(w, f.GID)
	w = binary.LittleEndian.AppendUint32(w, f.Route)
	w = binary.LittleEndian.AppendUint16(w, f.SourceCard)
	w = binary.LittleEndian.AppendUint16(w, f.DestinationCard)
	w = append(w, f.PacketCount, f.RejectCount)
	w = binary.LittleEndian.AppendUint16(w, f.Age)
	w = binary.LittleEndian.AppendUint64(w, f.Epoch)
	w = binary.LittleEndian.AppendUint32(w, f.Sequence)
	for level := range f.Acks {
		w = binary.LittleEndian.AppendUint32(w, f.Acks[level])
		w = binary.LittleEndian.AppendUint64(w, f.Selective[level])
	}
	w = binary.LittleEndian.AppendUint64(w, f.Tag)
	if f.Sealed {
		return binary.LittleEndian.AppendUint32(w, uint32(f.Counter))
	}
	return binary.LittleEndian.AppendUint32(w, f.Checksum)
}

// appendGreeting appends the greeting but for its MAC to w.
func (f *FUNet) appendGreeting(w []byte) []byte {
	g := &f.Greeting
	for _, v := range []uint64{g.Nonce, g.Echo, g.Number} {
		w = binary.LittleEndian.AppendUint64(w, v)
	}
	for _, v := range []uint32{g.Incarnation, g.Longest, uint32(g.Flags), g.Key} {
		w = binary.LittleEndian.AppendUint32(w, v)
	}
	return w
}

// appendTo appends header words and payload to w.
func (p *Packet) appendTo(w []byte) []byte {
	kind := uint32(p.Kind)
	w = binary.LittleEndian.AppendUint32(w, uint32(p.Level)<<31|kind>>2<<30|p.Route)
	w = binary.LittleEndian.AppendUint32(w, uint32(p.GID)<<21|uint32(p.Length)<<16|uint32(p.Destination))
	w = binary.LittleEndian.AppendUint32(w, kind&3<<30|uint32(p.Type)<<16|uint32(p.Source))
	return append(w, p.Payload...)
}
