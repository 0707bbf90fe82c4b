package arctic_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
)

// sendPacket is a packet of a message.
func sendPacket(s *arctic.Send) arctic.Packet {
	p := make(arctic.Packet, arctic.MaxPacketSize)
	n := arctic.PutSend(p.Payload(), s)
	h := arctic.PacketHeader{Kind: arctic.KindSend, Length: uint8(n), Type: s.Type()}
	h.Encode(p)
	return p[:arctic.PacketHeaderSize+n*arctic.WordSize]
}

func sendOf(p arctic.Packet) (s arctic.Send, ok bool) {
	h := p.Header()
	return s, p.Send(&h, &s)
}

func drawSend(t *rapid.T) *arctic.Send {
	s := &arctic.Send{Form: arctic.SendForm(rapid.IntRange(0, 3).Draw(t, "form")), Ack: rapid.Bool().Draw(t, "ack")}
	size := func(most int) int { return rapid.IntRange(0, most).Draw(t, "bytes") }
	data := 0
	if s.Form <= arctic.SendOpen {
		s.UserTag, s.APITag = rapid.Uint64().Draw(t, "user tag"), rapid.Uint32().Draw(t, "API tag")
	}
	if s.Form != arctic.SendWhole || rapid.Bool().Draw(t, "block") {
		s.Key = rapid.Uint64().Draw(t, "key")
		s.Total = rapid.Uint32Range(arctic.MaxFastSend+1, arctic.MaxSendBytes).Draw(t, "total")
	}
	switch {
	case s.Form == arctic.SendOpen:
		s.ID = rapid.Uint32().Draw(t, "id")
	case s.Form == arctic.SendWhole && s.Total == 0:
		data = size(arctic.MaxFastSend)
		s.Total = uint32(data)
	case s.Form == arctic.SendWhole:
		s.Block, data = true, int(s.Total%arctic.TransferAlign)
		s.Offset = rapid.Uint32Range(0, s.Total/arctic.TransferAlign-1).Draw(t, "offset") * arctic.TransferAlign
	case s.Form == arctic.SendLast:
		data = size(min(arctic.MaxSendPiece, int(s.Total)))
		s.Offset = s.Total - uint32(data)
	case rapid.Bool().Draw(t, "block"):
		s.Block, s.Offset = true, rapid.Uint32Range(0, s.Total-arctic.TransferAlign).Draw(t, "offset")
	default:
		data = 1 + size(arctic.MaxFastSend-1)
		s.Offset = rapid.Uint32Range(0, s.Total-uint32(data)).Draw(t, "offset")
	}
	s.Data = rapid.SliceOfN(rapid.Byte(), data, data).Draw(t, "data")
	return s
}

// Rule: what is encoded is decoded to the same (virtual-ni.md, section 3), also when a frame had
// room for a part of its block (Advance).
func TestSendRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawSend(t)
		p := sendPacket(want)
		if want.Block && want.Offset+2*arctic.TransferAlign+uint32(len(want.Data)) <= want.Total {
			p.Advance(arctic.TransferAlign)
			want.Offset += arctic.TransferAlign
		}
		got, ok := sendOf(p)
		if diff := cmp.Diff(*want, got, cmpopts.EquateEmpty()); !ok || diff != "" ||
			p.Header().Kind != arctic.KindSend || !p.IsSend() || p.IsRemote() || p.IsResponse() {
			t.Fatalf("accepted %v: %s", ok, diff)
		}
	})
}

// Rule: what no card sends is refused: a message of more than five words of 64 bits without a
// block, data beside its end, fields of other forms (arctic/send.go).
func TestSendRefusesOtherForms(t *testing.T) {
	fast := func() *arctic.Send { return &arctic.Send{Total: 5, Data: []byte{1, 2, 3, 4, 5}} }
	whole := func() *arctic.Send { return &arctic.Send{Block: true, Total: 50, Key: 1, Data: []byte{1, 2}} }
	open := func() *arctic.Send { return &arctic.Send{Form: arctic.SendOpen, Total: 50, Key: 1, ID: 1} }
	piece := func() *arctic.Send {
		return &arctic.Send{Form: arctic.SendPiece, Total: 50, Key: 1, Data: make([]byte, 48)}
	}
	last := func() *arctic.Send {
		return &arctic.Send{Form: arctic.SendLast, Total: 50, Key: 1, Offset: 48, Data: []byte{1, 2}}
	}
	for name, c := range map[string]struct {
		good func() *arctic.Send
		bend func(s *arctic.Send)
	}{
		"fast, overlong":           {fast, func(s *arctic.Send) { s.Total, s.Data = 41, make([]byte, 41) }},
		"fast, fewer than it says": {fast, func(s *arctic.Send) { s.Total = 6 }},
		"fast, with a key":         {fast, func(s *arctic.Send) { s.Key = 1 }},
		"fast, with a request":     {fast, func(s *arctic.Send) { s.ID = 1 }},
		"fast, at an offset":       {fast, func(s *arctic.Send) { s.Offset = 1 }},
		"whole, too short":         {whole, func(s *arctic.Send) { s.Total, s.Data = 34, []byte{1, 2} }},
		"whole, another rest":      {whole, func(s *arctic.Send) { s.Data = []byte{1} }},
		"whole, too long":          {whole, func(s *arctic.Send) { s.Total, s.Data = 1<<27+16, nil }},
		"whole, at an odd offset":  {whole, func(s *arctic.Send) { s.Offset = 8 }},
		"whole, at its end":        {whole, func(s *arctic.Send) { s.Offset = 48 }},
		"open, short":              {open, func(s *arctic.Send) { s.Total = 40 }},
		"open, with data":          {open, func(s *arctic.Send) { s.Data = []byte{1} }},
		"open, with a block":       {open, func(s *arctic.Send) { s.Block = true }},
		"piece, empty":             {piece, func(s *arctic.Send) { s.Data = nil }},
		"piece, long":              {piece, func(s *arctic.Send) { s.Data = make([]byte, 49) }},
		"piece, beyond":            {piece, func(s *arctic.Send) { s.Offset = 3 }},
		"piece, with a tag":        {piece, func(s *arctic.Send) { s.UserTag = 1 }},
		"piece, with an API tag":   {piece, func(s *arctic.Send) { s.APITag = 1 }},
		"piece, block and data":    {piece, func(s *arctic.Send) { s.Block = true }},
		"last, before the end":     {last, func(s *arctic.Send) { s.Offset = 47 }},
		"last, beyond":             {last, func(s *arctic.Send) { s.Offset = 51 }},
		"last, with a block":       {last, func(s *arctic.Send) { s.Block = true }},
	} {
		s := c.good()
		if _, ok := sendOf(sendPacket(s)); !ok {
			t.Errorf("%s: refused %+v", name, s)
		}
		c.bend(s)
		if got, ok := sendOf(sendPacket(s)); ok {
			t.Errorf("%s: decoded to %+v", name, got)
		}
	}
	for name, bend := range map[string]func(p arctic.Packet){
		"reply level":          func(p arctic.Packet) { p[3] |= 0x80 },
		"an unknown flag":      func(p arctic.Packet) { p[11] |= 2 },
		"pad that is not zero": func(p arctic.Packet) { p[len(p)-1] = 1 },
	} {
		p := sendPacket(fast())
		bend(p)
		if got, ok := sendOf(p); ok {
			t.Errorf("%s: decoded to %+v", name, got)
		}
	}
	for _, n := range []int{0, 28, 31, 39} {
		if got, ok := sendOf(sendPacket(fast())[:arctic.PacketHeaderSize+n]); ok {
			t.Errorf("%d bytes: decoded to %+v", n, got)
		}
	}
}

// Rule: a frame has a block of a message behind a packet that announces one, at most as many bytes
// as MaxSendBlock says, whatever the packet has beside it.
func TestSendBlocks(t *testing.T) {
	for _, size := range []int{1514, 9014} {
		block := make([]byte, arctic.MaxSendBlock(size))
		p := sendPacket(&arctic.Send{Block: true, Total: uint32(len(block) + 15), Key: 1, Data: make([]byte, 15)})
		b := make([]byte, 2*size)
		h := arctic.Header{Level: arctic.Request}
		h.Encode(b)
		n := arctic.PutBlock(b, arctic.PutPacket(b, arctic.HeaderSize, p), block)
		arctic.Seal(b, n)
		f, err := arctic.Parse(b[:n])
		if err != nil || len(f.Block()) != len(block) || n > size {
			t.Errorf("%d bytes of block in a frame of %d of %d: %v", len(block), n, size, err)
		}
		if next := n + arctic.TransferAlign; next+arctic.TransferAlign <= size {
			t.Errorf("%d bytes of a frame of %d are left free", size-n, size)
		}
	}
}

// FuzzSend: any payload is taken apart without a panic, and what is accepted encodes to the same
// bytes.
func FuzzSend(f *testing.F) {
	for _, s := range []*arctic.Send{
		{}, {Total: 40, UserTag: 1 << 63, APITag: 7, Data: make([]byte, 40)},
		{Block: true, Ack: true, Total: 50, Key: 9, Offset: 16, Data: []byte{1, 2}},
		{Form: arctic.SendOpen, Total: 1 << 27, Key: 9, ID: 1 << 16},
		{Form: arctic.SendPiece, Total: 50, Key: 9, Offset: 2, Data: make([]byte, 48)},
		{Form: arctic.SendLast, Total: 50, Key: 9, Offset: 50},
	} {
		f.Add(sendPacket(s).Payload(), s.Type())
	}
	f.Fuzz(func(t *testing.T, b []byte, typ uint16) {
		b = b[:min(len(b), arctic.MaxPayloadWords*arctic.WordSize)/arctic.WordSize*arctic.WordSize]
		h := arctic.PacketHeader{Kind: arctic.KindSend, Length: uint8(len(b) / arctic.WordSize),
			Type: typ & arctic.MaxType}
		p := arctic.Packet(append(make([]byte, arctic.PacketHeaderSize), b...))
		h.Encode(p)
		var s arctic.Send
		if p.Send(&h, &s) && (!bytes.Equal(sendPacket(&s).Payload(), b) || s.Type() != h.Type) {
			t.Fatalf("%#x of type %#x decoded to %+v", b, typ, s)
		}
	})
}
