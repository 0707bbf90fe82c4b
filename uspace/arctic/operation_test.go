package arctic_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
)

// operationPacket is the packet of an operation.
func operationPacket(r *arctic.WindowRequest) arctic.Packet {
	p := make(arctic.Packet, arctic.MaxPacketSize)
	n := arctic.PutWindowRequest(p.Payload(), r)
	h := arctic.PacketHeader{Kind: arctic.KindRemote, Length: uint8(n), Type: r.Type()}
	h.Encode(p)
	return p[:arctic.PacketHeaderSize+n*arctic.WordSize]
}

func operationOf(p arctic.Packet) (r arctic.WindowRequest, ok bool) {
	h := p.Header()
	return r, p.WindowRequest(&h, &r)
}

// responsePacket is the packet of a response.
func responsePacket(r *arctic.Response) arctic.Packet {
	p := make(arctic.Packet, arctic.MaxPacketSize)
	n := arctic.PutResponse(p.Payload(), r)
	h := arctic.PacketHeader{Kind: arctic.KindResponse, Level: arctic.Reply, Length: uint8(n), Type: r.Type()}
	h.Encode(p)
	return p[:arctic.PacketHeaderSize+n*arctic.WordSize]
}

func drawTrailer(t *rapid.T) (r arctic.Trailer) {
	if r.Notify = rapid.Bool().Draw(t, "notify"); r.Notify {
		r.Tag = rapid.Uint64().Draw(t, "tag")
	}
	if signal := rapid.IntRange(0, 2).Draw(t, "signal"); signal > 0 {
		r.Set, r.Add = signal == 1, signal == 2
		r.Key, r.Value = rapid.Uint64().Draw(t, "signal key"), rapid.Uint64().Draw(t, "value")
		r.Address = rapid.Uint64Range(0, arctic.MaxAddress).Draw(t, "signal address")
	}
	return r
}

func drawOperation(t *rapid.T) *arctic.WindowRequest {
	r := &arctic.WindowRequest{
		Operation: arctic.Operation(rapid.IntRange(0, 15).Draw(t, "operation")),
		Element:   arctic.Element(rapid.IntRange(0, 15).Draw(t, "element")),
		Ack:       rapid.Bool().Draw(t, "ack"), Fetch: rapid.Bool().Draw(t, "fetch"),
		Key:     rapid.Uint64().Draw(t, "key"),
		Address: rapid.Uint64Range(0, arctic.MaxAddress).Draw(t, "address"), ID: rapid.Uint32().Draw(t, "id"),
	}
	switch r.Operation {
	case arctic.RemotePut:
		if r.Block = rapid.Bool().Draw(t, "block"); !r.Block {
			r.Trailer = drawTrailer(t)
			r.Bytes = rapid.IntRange(0, 64-4*r.Trailer.Words()).Draw(t, "bytes")
		}
	case arctic.RemoteGet, arctic.RemoteRead:
		r.Bytes = rapid.IntRange(0, arctic.MaxGetBytes).Draw(t, "bytes")
	default:
		r.Bytes = rapid.IntRange(0, 32).Draw(t, "bytes")
	}
	n := r.OperandBytes()
	r.Operands = rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "operands")
	return r
}

// Rule: what is encoded is decoded to the same (remote-memory.md, section 2): 64 bytes of trailer
// and operands make exactly 24 words.
func TestOperationRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawOperation(t)
		got, ok := operationOf(operationPacket(want))
		if diff := cmp.Diff(*want, got, cmpopts.EquateEmpty()); !ok || diff != "" {
			t.Fatalf("accepted %v: %s", ok, diff)
		}
	})
	if p := operationPacket(&arctic.WindowRequest{Bytes: 64, Operands: make([]byte, 64)}); len(p) !=
		arctic.MaxPacketSize {
		t.Errorf("64 bytes make %d bytes of packet, not %d", len(p), arctic.MaxPacketSize)
	}
}

// Rule: a response is decoded to what was encoded, with any number of bytes up to 64.
func TestResponseRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := &arctic.Response{ID: rapid.Uint32().Draw(t, "id"), Offset: rapid.Uint32().Draw(t, "offset"),
			Block: rapid.Bool().Draw(t, "block")}
		if !want.Block {
			want.Data = rapid.SliceOfN(rapid.Byte(), 0, arctic.MaxResponseBytes).Draw(t, "data")
		}
		p := responsePacket(want)
		h := p.Header()
		var got arctic.Response
		ok := p.Response(&h, &got)
		if diff := cmp.Diff(*want, got, cmpopts.EquateEmpty()); !ok || diff != "" {
			t.Fatalf("accepted %v: %s", ok, diff)
		}
	})
}

// Rule: what no card sends is refused: lengths that do not fit, what fills up and is not zero,
// trailers that are none, and flags where they do not belong.
func TestOperationRefusesOtherForms(t *testing.T) {
	put := &arctic.WindowRequest{Bytes: 5, Operands: []byte{1, 2, 3, 4, 5}}
	notify := &arctic.WindowRequest{Trailer: arctic.Trailer{Notify: true, Tag: 1}}
	get := &arctic.WindowRequest{Operation: arctic.RemoteGet, Bytes: 8, Operands: make([]byte, 4)}
	lock := &arctic.WindowRequest{Operation: arctic.RemoteLock, Operands: make([]byte, 4)}
	block := &arctic.WindowRequest{Block: true}
	for name, c := range map[string]struct {
		good *arctic.WindowRequest
		bend func(p arctic.Packet) arctic.Packet
	}{
		"four words":                 {put, func(p arctic.Packet) arctic.Packet { return p[:28] }},
		"fewer bytes than it says":   {put, func(p arctic.Packet) arctic.Packet { return p[:len(p)-4] }},
		"more words than it says":    {put, func(p arctic.Packet) arctic.Packet { return append(p, 0, 0, 0, 0) }},
		"pad that is not zero":       {put, func(p arctic.Packet) arctic.Packet { p[len(p)-1] = 1; return p }},
		"area":                       {put, func(p arctic.Packet) arctic.Packet { p[11] |= 1 << 5; return p }},
		"a lock that counts":         {lock, func(p arctic.Packet) arctic.Packet { p[11] |= 1 << 4; return p }},
		"a block that counts":        {block, func(p arctic.Packet) arctic.Packet { p[11] |= 1 << 4; return p }},
		"block with data":            {put, func(p arctic.Packet) arctic.Packet { p[11] |= 1 << 3; return p }},
		"a trailer of no kind":       {notify, func(p arctic.Packet) arctic.Packet { p[32] = 0; return p }},
		"set and add":                {notify, func(p arctic.Packet) arctic.Packet { p[32] = 7; return p }},
		"an address without signal":  {notify, func(p arctic.Packet) arctic.Packet { p[34] = 1; return p }},
		"a trailer cut off":          {notify, func(p arctic.Packet) arctic.Packet { return p[:len(p)-4] }},
		"no trailer":                 {notify, func(p arctic.Packet) arctic.Packet { return p[:32] }},
		"a trailer without its flag": {notify, func(p arctic.Packet) arctic.Packet { p[11] &^= 1 << 2; return p }},
		"a get with a trailer":       {notify, func(p arctic.Packet) arctic.Packet { p[10] |= 1; return p }},
		"a get with a block":         {get, func(p arctic.Packet) arctic.Packet { p[11] |= 1 << 3; return p }},
		"a get without offset":       {get, func(p arctic.Packet) arctic.Packet { return p[:len(p)-4] }},
	} {
		if got, ok := operationOf(c.bend(operationPacket(c.good))); ok {
			t.Errorf("%s: decoded to %+v", name, got)
		}
		if _, ok := operationOf(operationPacket(c.good)); !ok {
			t.Errorf("%s: refused %+v", name, c.good)
		}
	}
}

// Rule: the address of a block that goes in pieces moves on in all of its 48 bits, and that of a
// response's in its offset.
func TestOperationBlockInPieces(t *testing.T) {
	p := operationPacket(&arctic.WindowRequest{Block: true, Ack: true, Key: 7, Address: 1<<32 - 16, ID: 9})
	p.CountPiece(false)
	p.Advance(1392)
	p.CountPiece(true)
	want := arctic.WindowRequest{Block: true, Ack: true, Key: 7, Address: 1<<32 + 1376, ID: 9}
	if got, ok := operationOf(p); !ok || !cmp.Equal(got, want, cmpopts.EquateEmpty()) {
		t.Errorf("%+v, want %+v", got, want)
	}
	r := responsePacket(&arctic.Response{Block: true, ID: 9, Offset: 32})
	r.Advance(1392)
	h := r.Header()
	var got arctic.Response
	if !r.Response(&h, &got) || got.Offset != 1424 || got.ID != 9 || !got.Block {
		t.Errorf("the rest of a response is %+v", got)
	}
}

// FuzzOperation: any payload is taken apart without a panic, and what is accepted encodes to the
// same bytes.
func FuzzOperation(f *testing.F) {
	for _, x := range []*arctic.WindowRequest{
		{}, {Block: true, Ack: true}, {Bytes: 17, Operands: make([]byte, 17),
			Trailer: arctic.Trailer{Notify: true, Add: true}},
		{Operation: arctic.RemoteGet, Bytes: 1 << 15, Operands: make([]byte, 4)},
		{Operation: arctic.RemoteRead, Bytes: 8},
		{Operation: arctic.RemoteCompareSwap, Element: arctic.Uint64, Bytes: 32, Operands: make([]byte, 64),
			Fetch: true, Address: arctic.MaxAddress},
	} {
		f.Add(operationPacket(x).Payload(), x.Type())
	}
	f.Fuzz(func(t *testing.T, b []byte, typ uint16) {
		b = b[:min(len(b), arctic.MaxPayloadWords*arctic.WordSize)/arctic.WordSize*arctic.WordSize]
		h := arctic.PacketHeader{Kind: arctic.KindRemote, Length: uint8(len(b) / arctic.WordSize),
			Type: typ & arctic.MaxType}
		p := arctic.Packet(append(make([]byte, arctic.PacketHeaderSize), b...))
		h.Encode(p)
		var x arctic.WindowRequest
		if p.WindowRequest(&h, &x) && (!bytes.Equal(operationPacket(&x).Payload(), b) || x.Type() != h.Type) {
			t.Fatalf("%#x of type %#x decoded to %+v", b, typ, x)
		}
	})
}

// FuzzResponse is the same of responses.
func FuzzResponse(f *testing.F) {
	for _, x := range []*arctic.Response{{}, {Block: true, ID: 1}, {Offset: 1 << 31, Data: make([]byte, 63)}} {
		f.Add(responsePacket(x).Payload(), x.Type())
	}
	f.Fuzz(func(t *testing.T, b []byte, typ uint16) {
		b = b[:min(len(b), arctic.MaxPayloadWords*arctic.WordSize)/arctic.WordSize*arctic.WordSize]
		h := arctic.PacketHeader{Kind: arctic.KindResponse, Level: arctic.Reply,
			Length: uint8(len(b) / arctic.WordSize), Type: typ & arctic.MaxType}
		p := arctic.Packet(append(make([]byte, arctic.PacketHeaderSize), b...))
		h.Encode(p)
		var x arctic.Response
		if p.Response(&h, &x) && (!bytes.Equal(responsePacket(&x).Payload(), b) || x.Type() != h.Type) {
			t.Fatalf("%#x of type %#x decoded to %+v", b, typ, x)
		}
	})
}
