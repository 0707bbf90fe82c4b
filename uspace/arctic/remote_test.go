package arctic_test

// This file holds the rules of the payload of remote writes (remote.go).

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
)

// remotePacket makes a packet of KindRemote with r as its payload.
func remotePacket(r *arctic.Remote) arctic.Packet {
	var b [arctic.MaxPacketSize]byte
	n := arctic.PutRemote(b[arctic.PacketHeaderSize:], r)
	h := arctic.PacketHeader{Kind: arctic.KindRemote, Length: uint8(n), Type: r.Type()}
	h.Encode(b[:])
	return b[:arctic.PacketHeaderSize+n*arctic.WordSize]
}

// remoteOf decodes a packet.
func remoteOf(p arctic.Packet) (r arctic.Remote, ok bool) {
	h := p.Header()
	ok = p.Remote(&h, &r)
	return r, ok
}

// drawRemote draws a remote write that a card may send.
func drawRemote(t *rapid.T) *arctic.Remote {
	x := &arctic.Remote{
		Block: rapid.Bool().Draw(t, "block"), Counted: rapid.Bool().Draw(t, "counted"),
		Area: rapid.Uint16().Draw(t, "area"),
		Key:  rapid.Uint64().Draw(t, "key"), Offset: rapid.Uint32().Draw(t, "offset"),
		Delta: rapid.Uint32().Draw(t, "delta"),
	}
	if !x.Block {
		metadata := arctic.WordSize * rapid.IntRange(0, arctic.MaxRemoteMetadata).Draw(t, "words")
		x.Metadata = rapid.SliceOfN(rapid.Byte(), metadata, metadata).Draw(t, "metadata")
		x.Data = rapid.SliceOfN(rapid.Byte(), 0, arctic.MaxRemoteBytes-metadata).Draw(t, "data")
	}
	return x
}

// Rule: what is encoded is decoded, and fits a packet of 24 words. 64 bytes, or 44 of metadata and
// 16 or 20, fit one (Hamlyn's table 2).
func TestRemoteRoundTrip(t *testing.T) {
	check := func(t interface{ Fatalf(string, ...any) }, want *arctic.Remote) {
		p := remotePacket(want)
		got, ok := remoteOf(p)
		if !ok || len(p) > arctic.MaxPacketSize || !p.IsRemote() {
			t.Fatalf("refused %+v of %d bytes", want, len(p))
		}
		if got.Block != want.Block || got.Counted != want.Counted || got.Area != want.Area || got.Key != want.Key ||
			got.Offset != want.Offset ||
			got.Delta != want.Delta || !bytes.Equal(got.Metadata, want.Metadata) || !bytes.Equal(got.Data, want.Data) {
			t.Fatalf("%+v came back as %+v", want, got)
		}
	}
	for _, c := range [][2]int{{0, 64}, {44, 16}, {44, 20}, {44, 19}, {0, 0}, {4, 0}, {0, 1}} {
		check(t, &arctic.Remote{Metadata: bytes.Repeat([]byte{1}, c[0]), Data: bytes.Repeat([]byte{2}, c[1])})
	}
	rapid.Check(t, func(t *rapid.T) { check(t, drawRemote(t)) })
}

// Rule: everything is checked: length, type, reserved bits, pad and metadata against the length,
// what pads.
func TestRemoteRefusesOtherForms(t *testing.T) {
	// 9 words, 3 of pad
	good := &arctic.Remote{Counted: true, Metadata: make([]byte, 8), Data: []byte{1, 2, 3, 4, 5}}
	for name, bend := range map[string]func(p arctic.Packet) arctic.Packet{
		"no words":             func(p arctic.Packet) arctic.Packet { return p[:12] },
		"four words":           func(p arctic.Packet) arctic.Packet { return p[:28] },
		"metadata beyond it":   func(p arctic.Packet) arctic.Packet { return p[:36] },
		"pad in the metadata":  func(p arctic.Packet) arctic.Packet { return p[:40] },
		"pad of four":          func(p arctic.Packet) arctic.Packet { p[25] = p[25]&0xf0 | 4; return p },
		"pad that is not zero": func(p arctic.Packet) arctic.Packet { p[len(p)-1] = 1; return p },
		"bit 12":               func(p arctic.Packet) arctic.Packet { p[25] |= 1 << 4; return p },
		"bit 14":               func(p arctic.Packet) arctic.Packet { p[25] |= 1 << 6; return p },
		"bit 4":                func(p arctic.Packet) arctic.Packet { p[24] |= 1 << 4; return p },
		"twelve metadata words": func(p arctic.Packet) arctic.Packet {
			p[24], p[25] = 12, 0
			return append(p, make([]byte, 48)...)
		},
		"another operation": func(p arctic.Packet) arctic.Packet { p[10] |= 1; return p },
		"an element type":   func(p arctic.Packet) arctic.Packet { p[10] |= 1 << 4; return p },
		"another flag":      func(p arctic.Packet) arctic.Packet { p[11] |= 1; return p },
		"without area":      func(p arctic.Packet) arctic.Packet { p[11] &^= 1 << 5; return p },
		"block with data":   func(p arctic.Packet) arctic.Packet { p[11] |= 1 << 3; return p },
	} {
		if got, ok := remoteOf(bend(remotePacket(good))); ok {
			t.Errorf("%s: decoded to %+v", name, got)
		}
	}
	if _, ok := remoteOf(remotePacket(good)); !ok {
		t.Errorf("refused %+v", good)
	}
}

// Rule: of a block that goes in pieces only the last is counted, and one that is not to be counted
// is not; Advance moves the offset and nothing else; Void leaves what no receiver takes without a
// block.
func TestRemoteBlockInPieces(t *testing.T) {
	for _, counts := range []bool{false, true} {
		delta := uint32(0) // as what adds up to 2^32 has
		p := remotePacket(&arctic.Remote{Block: true, Counted: counts, Area: 9, Key: 7, Offset: 100, Delta: delta})
		p.CountPiece(false)
		if got, _ := remoteOf(p); got.Counted {
			t.Fatalf("the first piece is counted: %+v", got)
		}
		p.Advance(1392)
		p.CountPiece(counts)
		got, ok := remoteOf(p)
		if want := (arctic.Remote{Block: true, Counted: counts, Area: 9, Key: 7, Offset: 1492, Delta: delta}); !ok ||
			got.Counted != want.Counted || got.Offset != want.Offset || got.Key != want.Key || got.Area != want.Area ||
			got.Delta != want.Delta {
			t.Fatalf("%+v, want %+v", got, want)
		}
		before := bytes.Clone(p)
		if p.Void(); !bytes.Equal(p, before) {
			t.Fatal("Void changed it")
		}
	}
}

// FuzzRemote: any payload is taken apart without a panic, and what is accepted encodes to the same
// bytes.
func FuzzRemote(f *testing.F) {
	for _, x := range []*arctic.Remote{
		{}, {Block: true, Counted: true, Delta: 1},
		{Key: 1<<64 - 1, Metadata: make([]byte, 44), Data: make([]byte, 17)}, {Counted: true, Data: make([]byte, 64)},
	} {
		p := remotePacket(x)
		f.Add(p.Payload(), x.Type())
	}
	f.Fuzz(func(t *testing.T, b []byte, typ uint16) {
		b = b[:min(len(b), arctic.MaxPayloadWords*arctic.WordSize)/arctic.WordSize*arctic.WordSize]
		h := arctic.PacketHeader{Kind: arctic.KindRemote, Length: uint8(len(b) / arctic.WordSize),
			Type: typ & arctic.MaxType}
		p := arctic.Packet(append(make([]byte, arctic.PacketHeaderSize), b...))
		h.Encode(p)
		var x arctic.Remote
		if p.Remote(&h, &x) && (!bytes.Equal(remotePacket(&x).Payload(), b) || x.Type() != h.Type) {
			t.Fatalf("%#x of type %#x decoded to %+v", b, typ, x)
		}
	})
}
