package arctic_test

// This file holds the rules of the payload of XFER packets (thesis 3.2.4; transfer.go).

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
)

// transferPacket makes a packet of KindTransfer with t as its payload.
func transferPacket(t *arctic.Transfer) arctic.Packet {
	var b [arctic.MaxPacketSize]byte
	n := arctic.PutTransfer(b[arctic.PacketHeaderSize:], t)
	h := arctic.PacketHeader{Kind: arctic.KindTransfer, Length: uint8(n)}
	h.Encode(b[:])
	return b[:arctic.PacketHeaderSize+n*arctic.WordSize]
}

// drawTransfer draws a transfer packet of any form that a card may send.
func drawTransfer(t *rapid.T) *arctic.Transfer {
	x := &arctic.Transfer{Form: arctic.Form(rapid.IntRange(0, 3).Draw(t, "form")),
		Argument: rapid.Uint32().Draw(t, "argument")}
	quads := rapid.IntRange([]int{0, 1, 1, 0}[x.Form], []int{4, 5, 4, 0}[x.Form]).Draw(t, "quads")
	x.Data = rapid.SliceOfN(rapid.Byte(), quads*16, quads*16).Draw(t, "data")
	x.Address = 16 * rapid.Uint32Range(1, 1<<28-1).Draw(t, "address")
	switch x.Form {
	case arctic.Part, arctic.Block:
		x.Argument, x.AtOnce = 0, rapid.Bool().Draw(t, "at once")
	case arctic.Last:
		most := min(arctic.MaxTransferWords/4, int(x.Address)/16-1+quads)
		x.Total = 4 * uint32(rapid.IntRange(quads, max(quads, most)).Draw(t, "total"))
		x.First = rapid.Uint32().Draw(t, "first")
	}
	return x
}

// Rule: what is encoded is decoded, and fits a packet of 24 words.
func TestTransferRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawTransfer(t)
		p := transferPacket(want)
		if len(p) > arctic.MaxPacketSize {
			t.Fatalf("%d bytes", len(p))
		}
		var got arctic.Transfer
		if !p.Transfer(&got) {
			t.Fatalf("refused %+v", want)
		}
		if got.Form != want.Form || got.AtOnce != want.AtOnce || got.Address != want.Address ||
			got.Argument != want.Argument || got.Total != want.Total || got.First != want.First ||
			!bytes.Equal(got.Data, want.Data) {
			t.Fatalf("%+v came back as %+v", want, got)
		}
		if got.Form == arctic.Last && uint64(got.Start())+4*uint64(got.Total) != uint64(got.Address)+
			uint64(len(got.Data)) {
			t.Fatalf("start %#x, %d words, end %#x", got.Start(), got.Total, got.Address+uint32(len(got.Data)))
		}
	})
}

// unnamed is the place of a single without an argument among the good ones.
const unnamed = arctic.Block + 1

// Rule: every form is checked: lengths, total, reserved bits, address 0.
func TestTransferRefusesOtherForms(t *testing.T) {
	good := func() []*arctic.Transfer {
		return []*arctic.Transfer{
			{Form: arctic.Single, Address: 32, Data: make([]byte, 16)},
			{Form: arctic.Part, Address: 32, Data: make([]byte, 80)},
			{Form: arctic.Last, Address: 64, Data: make([]byte, 16), Total: 8},
			{Form: arctic.Block, Address: 32},
			{Form: arctic.Single, Address: 32, Data: make([]byte, 80)},
		}
	}
	for _, c := range []struct {
		name string
		form arctic.Form
		bend func(p arctic.Packet) arctic.Packet
	}{
		{"no words", arctic.Single, func(p arctic.Packet) arctic.Packet { return p[:12] }},
		{"one word", arctic.Part, func(p arctic.Packet) arctic.Packet { return p[:16] }},
		{"last without total", arctic.Last, func(p arctic.Packet) arctic.Packet { return p[:20] }},
		{"last without first", arctic.Last, func(p arctic.Packet) arctic.Packet { return p[:24] }},
		{"last without data", arctic.Last, func(p arctic.Packet) arctic.Packet { return p[:28] }},
		{"not a multiple of four words", arctic.Single, func(p arctic.Packet) arctic.Packet { return p[:len(p)-4] }},
		{"not a multiple of four words", arctic.Part, func(p arctic.Packet) arctic.Packet { return p[:len(p)-8] }},
		{"single of 20 words", arctic.Single, func(p arctic.Packet) arctic.Packet {
			return append(p, make([]byte, 64)...)
		}},
		{"last of 20 words", arctic.Last, func(p arctic.Packet) arctic.Packet {
			return append(p, make([]byte, 64)...)
		}},
		{"address 0", arctic.Single, func(p arctic.Packet) arctic.Packet { p[12] = 0; return p }},
		{"form 3", arctic.Part, func(p arctic.Packet) arctic.Packet { p[12] |= 3; return p }},
		{"bit 3 of 16 words", arctic.Part, func(p arctic.Packet) arctic.Packet { p[12] |= 8; return p[:len(p)-16] }},
		{"bit 3 of a last", arctic.Last, func(p arctic.Packet) arctic.Packet { p[12] |= 8; return p }},
		{"single of 24 words", unnamed, func(p arctic.Packet) arctic.Packet { return append(p, make([]byte, 16)...) }},
		{"single of 20 words at once", unnamed, func(p arctic.Packet) arctic.Packet { p[12] |= 4; return p }},
		{"single of 20 words, address 0", unnamed, func(p arctic.Packet) arctic.Packet { p[12] &= 0xf; return p }},
		{"single at once", arctic.Single, func(p arctic.Packet) arctic.Packet { p[12] |= 4; return p }},
		{"total not a multiple", arctic.Last, func(p arctic.Packet) arctic.Packet { p[20]++; return p }},
		{"total less than data", arctic.Last, func(p arctic.Packet) arctic.Packet { p[20] = 0; return p }},
		{"start at 0", arctic.Last, func(p arctic.Packet) arctic.Packet { p[20] = 20; return p }},
		{"total before 0", arctic.Last, func(p arctic.Packet) arctic.Packet { p[20] = 40; return p }},
		{"block of two words", arctic.Block, func(p arctic.Packet) arctic.Packet { return append(p, 0, 0, 0, 0) }},
		{"block with data in the packet", arctic.Block, func(p arctic.Packet) arctic.Packet {
			return append(p, make([]byte, 16)...)
		}},
		{"block, address 0", arctic.Block, func(p arctic.Packet) arctic.Packet { p[12] &= 3; return p }},
		{"block, bit 3", arctic.Block, func(p arctic.Packet) arctic.Packet { p[12] |= 8; return p }},
		{"total too long", arctic.Last, func(p arctic.Packet) arctic.Packet { p[15], p[23] = 0xff, 2; return p }},
	} {
		p := c.bend(transferPacket(good()[c.form]))
		var got arctic.Transfer
		if p.Transfer(&got) {
			t.Errorf("%s: form %d decoded to %+v", c.name, c.form, got)
		}
	}
	for _, g := range good() {
		if !transferPacket(g).Transfer(new(arctic.Transfer)) {
			t.Errorf("refused %+v", g)
		}
	}
}

// FuzzTransfer: any payload is taken apart without a panic, and what is accepted
// encodes to the same bytes.
func FuzzTransfer(f *testing.F) {
	for _, x := range []*arctic.Transfer{
		{Form: arctic.Single, Address: 1 << 4, Argument: 7},
		{Form: arctic.Single, Address: 0xfffffff0, Data: make([]byte, 64)},
		{Form: arctic.Part, AtOnce: true, Address: 0x1000, Data: make([]byte, 80)},
		{Form: arctic.Last, Address: 0xfffffff0, Data: make([]byte, 16), Total: arctic.MaxTransferWords,
			First: 1<<32 - 1},
		{Form: arctic.Block, AtOnce: true, Address: 0xfffffff0},
		{Form: arctic.Single, Address: 1 << 4, Data: make([]byte, 80)},
	} {
		f.Add(transferPacket(x).Payload())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		b = b[:min(len(b), arctic.MaxPayloadWords*arctic.WordSize)/arctic.WordSize*arctic.WordSize]
		h := arctic.PacketHeader{Kind: arctic.KindTransfer, Length: uint8(len(b) / arctic.WordSize)}
		p := arctic.Packet(append(make([]byte, arctic.PacketHeaderSize), b...))
		h.Encode(p)
		var x arctic.Transfer
		if p.Transfer(&x) && !bytes.Equal(transferPacket(&x).Payload(), b) {
			t.Fatalf("%#x decoded to %+v", b, x)
		}
	})
}
