package arctic_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
)

// pathPacket is the packet of a path.
func pathPacket(d *arctic.PathPacket) arctic.Packet {
	p := make(arctic.Packet, arctic.MaxPacketSize)
	n := arctic.PutPath(p.Payload(), d)
	h := arctic.PacketHeader{Kind: arctic.KindExtended, Length: uint8(n), Type: uint16(d.Kind)}
	h.Encode(p)
	return p[:arctic.PacketHeaderSize+n*arctic.WordSize]
}

func pathOf(p arctic.Packet) (d arctic.PathPacket, ok bool) {
	h := p.Header()
	return d, p.Path(&h, &d)
}

func drawPath(t *rapid.T) *arctic.PathPacket {
	end := rapid.Uint16Range(0, arctic.MaxPathEnds-1)
	d := &arctic.PathPacket{Kind: arctic.PathType(rapid.Uint16Range(0, uint16(arctic.PathTarget)).Draw(t, "type")),
		Generation: rapid.Uint16().Draw(t, "generation"), Target: end.Draw(t, "target")}
	if d.Kind != arctic.PathInit {
		d.Origin = end.Draw(t, "origin")
	}
	if d.Kind == arctic.PathData {
		n := 8 * rapid.IntRange(0, arctic.MaxPathWords).Draw(t, "words")
		d.Sequence, d.Data = rapid.Uint16().Draw(t, "sequence"), rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "data")
	}
	return d
}

// Rule: what is encoded is decoded to the same (Froening's thesis, 3.5.2: tag, payload and the two
// UPIDs), and the longest is shorter than a packet.
func TestPathRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawPath(t)
		got, ok := pathOf(pathPacket(want))
		if diff := cmp.Diff(*want, got, cmpopts.EquateEmpty()); !ok || diff != "" {
			t.Fatalf("accepted %v: %s", ok, diff)
		}
	})
}

// Rule: data is the same whether it is written and read as a whole or by its head (Froening's
// thesis, 3.5.2: the static part is made when the path is configured).
func TestPathHead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawPath(t)
		want.Kind = arctic.PathData
		b := make([]byte, arctic.MaxPacketSize)
		copy(arctic.PathWords(b)[:], want.Data)
		n := arctic.PutPathData(b, want.Head(), want.Sequence, len(want.Data))
		p := pathPacket(want)
		if !bytes.Equal(b[:n*arctic.WordSize], p.Payload()) {
			t.Fatalf("%x, by its head %x", p.Payload(), b[:n*arctic.WordSize])
		}
		if head, sequence, data, ok := p.PathData(); !ok || head != want.Head() || sequence != want.Sequence ||
			!bytes.Equal(data, want.Data) {
			t.Fatalf("%+v is read as head %x, sequence %d, %x", want, head, sequence, data)
		}
	})
}

// Rule: a payload that no card sends is refused: a length that is no multiple of 64 bits or too
// long, an end beyond 11 bits (Froening's thesis, 3.5.3), a reserved type, data or a sequence
// without PathData.
func TestPathRefuses(t *testing.T) {
	good := arctic.PathPacket{Data: make([]byte, 56)}
	init := arctic.PathPacket{Kind: arctic.PathInit}
	for what, p := range map[string]arctic.Packet{
		"empty":         pathPacket(&good)[:arctic.PacketHeaderSize],
		"odd":           pathPacket(&good)[:arctic.PacketHeaderSize+12],
		"too long":      append(pathPacket(&good), make([]byte, 8)...),
		"origin":        pathPacket(&arctic.PathPacket{Origin: arctic.MaxPathEnds}),
		"target":        pathPacket(&arctic.PathPacket{Target: arctic.MaxPathEnds}),
		"type":          pathPacket(&arctic.PathPacket{Kind: arctic.PathTarget + 1}),
		"init's origin": pathPacket(&arctic.PathPacket{Kind: arctic.PathInit, Origin: 1}),
		"init's data":   append(pathPacket(&init), make([]byte, 8)...),
		"sequence":      pathPacket(&arctic.PathPacket{Kind: arctic.PathResponse, Sequence: 1}),
	} {
		if d, ok := pathOf(p); ok {
			t.Errorf("%s: accepted as %+v", what, d)
		}
		if _, _, _, ok := p.PathData(); ok && len(p.Payload())%8 != 0 {
			t.Errorf("%s: accepted as data", what)
		}
	}
	if _, ok := pathOf(pathPacket(&good)); !ok {
		t.Error("the longest packet of a path is refused")
	}
}

// FuzzPath: what is accepted encodes to the same bytes.
func FuzzPath(f *testing.F) {
	f.Add(uint16(0), pathPacket(&arctic.PathPacket{Sequence: 5, Data: make([]byte, 16)}).Payload())
	f.Add(uint16(1), pathPacket(&arctic.PathPacket{Kind: arctic.PathInit, Target: 7}).Payload())
	f.Fuzz(func(t *testing.T, typ uint16, payload []byte) {
		h := arctic.PacketHeader{Kind: arctic.KindExtended, Type: typ & arctic.MaxType}
		p := make(arctic.Packet, arctic.PacketHeaderSize+len(payload))
		copy(p.Payload(), payload)
		h.Encode(p)
		var d arctic.PathPacket
		if p.Path(&h, &d) && !bytes.Equal(pathPacket(&d).Payload(), payload) {
			t.Fatalf("%x is read as %+v", payload, d)
		}
	})
}
