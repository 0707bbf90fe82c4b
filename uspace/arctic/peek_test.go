package arctic

// This file tests what is read in the header of a frame that has not been parsed.

import (
	"testing"

	"pgregory.net/rapid"
)

// Rule: of every frame Peek tells what Parse and DecodeHeader tell, and the checksum that Seal has
// written.
func TestPeekAgreesWithParse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := Header{
			Level:    Level(rapid.IntRange(0, 1).Draw(t, "level")),
			Route:    rapid.Uint32Range(0, MaxRoute).Draw(t, "route"),
			Sequence: rapid.Uint32().Draw(t, "sequence"),
			Acks:     [Levels]uint32{rapid.Uint32().Draw(t, "request"), rapid.Uint32().Draw(t, "reply")},
		}
		b := make([]byte, HeaderSize+PacketHeaderSize)
		h.Encode(b)
		n, packets := HeaderSize, rapid.IntRange(0, 1).Draw(t, "packets")
		if packets == 1 {
			p := make([]byte, PacketHeaderSize)
			(&PacketHeader{Level: h.Level, Route: h.Route}).Encode(p)
			n = PutPacket(b, n, p)
		}
		Seal(b, n)
		parsed, err := Parse(b[:n])
		if err != nil {
			t.Fatal(err)
		}
		f, ok := Peek(b[:n])
		if !ok {
			t.Fatal("a whole frame is too short")
		}
		want := parsed.Header()
		if f.Level() != want.Level || f.Route() != want.Route || f.Sequence() != want.Sequence ||
			f.Packets() != packets ||
			f.Acknowledged(Request) != want.Acks[Request] || f.Acknowledged(Reply) != want.Acks[Reply] ||
			f.Checksum() != checksum(parsed) {
			t.Fatalf("Peek tells %v %#x %d %d %d %d %#x of %+v with checksum %#x", f.Level(), f.Route(),
				f.Sequence(), f.Packets(),
				f.Acknowledged(Request), f.Acknowledged(Reply), f.Checksum(), want, checksum(parsed))
		}
		// Thesis 5.6.1: requests wait for replies and for what is between cards only.
		if f.Urgent() != (h.Level == Reply || packets == 0) {
			t.Fatalf("level %v with %d packets: urgent is %v", h.Level, packets, f.Urgent())
		}
	})
}

// Rule: what is shorter than a header is no frame; of any bytes that are not, all methods tell
// something.
func TestPeekTakesAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 0, 2*HeaderSize).Draw(t, "bytes")
		f, ok := Peek(b)
		if ok != (len(b) >= HeaderSize) {
			t.Fatalf("%d bytes: %v", len(b), ok)
		}
		if ok {
			_, _, _, _ = f.Level(), f.Urgent(), f.Route(), f.Sequence()
			_, _, _, _ = f.Acknowledged(Request), f.Acknowledged(Reply), f.Checksum(), f.Packets()
		}
	})
}
