package arctic_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
)

// multicastPacket is the packet of a multicast.
func multicastPacket(m *arctic.Multicast) arctic.Packet {
	p := make(arctic.Packet, arctic.MaxPacketSize)
	n := arctic.PutMulticast(p.Payload(), m)
	h := arctic.PacketHeader{Kind: arctic.KindMulticast, Length: uint8(n), Type: m.Type()}
	h.Encode(p)
	return p[:arctic.PacketHeaderSize+n*arctic.WordSize]
}

func multicastOf(p arctic.Packet) (m arctic.Multicast, ok bool) {
	h := p.Header()
	return m, p.Multicast(&h, &m)
}

func drawMulticast(t *rapid.T) *arctic.Multicast {
	m := &arctic.Multicast{Chain: rapid.Uint16().Draw(t, "chain"),
		Left:   rapid.Uint16Range(1, arctic.MaxMembers).Draw(t, "left"),
		Origin: rapid.Uint16().Draw(t, "origin"), ID: rapid.Uint32().Draw(t, "id"), Put: rapid.Bool().Draw(t, "put")}
	m.Place, m.Proof = rapid.Uint16Range(0, arctic.MaxMembers-m.Left).Draw(t, "place"), rapid.Uint16().Draw(t, "proof")
	m.Done = rapid.Uint16Range(0, m.Place).Draw(t, "done")
	if m.Put {
		m.Key, m.Address = rapid.Uint64().Draw(t, "key"), rapid.Uint64Range(0, arctic.MaxAddress).Draw(t, "address")
		m.Data = rapid.SliceOfN(rapid.Byte(), 0, arctic.MaxMulticastBytes).Draw(t, "data")
		return m
	}
	m.Message = rapid.Uint16Range(0, arctic.MaxMessageType).Draw(t, "type")
	n := rapid.IntRange(0, arctic.MaxMulticastWords).Draw(t, "words") * arctic.WordSize
	m.Data = rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "data")
	return m
}

// Rule: what is encoded is decoded to the same (remote-memory.md, section 2), and the longest makes
// exactly a packet, at any length of the chain.
func TestMulticastRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawMulticast(t)
		p := multicastPacket(want)
		got, ok := multicastOf(p)
		if diff := cmp.Diff(*want, got, cmpopts.EquateEmpty()); !ok || diff != "" ||
			p.Header().Kind != arctic.KindMulticast {
			t.Fatalf("accepted %v: %s", ok, diff)
		}
	})
	for _, m := range []*arctic.Multicast{
		{Left: 1, Data: make([]byte, arctic.MaxMulticastWords*arctic.WordSize)},
		{Left: arctic.MaxMembers, Put: true, Data: make([]byte, arctic.MaxMulticastBytes)},
	} {
		if p := multicastPacket(m); len(p) != arctic.MaxPacketSize {
			t.Errorf("the longest, put %v, makes %d bytes of packet, not %d", m.Put, len(p), arctic.MaxPacketSize)
		}
	}
}

// Rule: what no card sends is refused.
func TestMulticastRefusesOtherForms(t *testing.T) {
	put := &arctic.Multicast{Left: 1, Put: true, Data: []byte{1, 2, 3, 4, 5}}
	message := &arctic.Multicast{Left: 1, Data: []byte{1, 2, 3, 4}}
	for name, c := range map[string]struct {
		good *arctic.Multicast
		bend func(p arctic.Packet) arctic.Packet
	}{
		"three words":    {message, func(p arctic.Packet) arctic.Packet { return p[:24] }},
		"part of a word": {message, func(p arctic.Packet) arctic.Packet { return p[:len(p)-1] }},
		"nobody left":    {message, func(p arctic.Packet) arctic.Packet { p[14] = 0; return p }},
		"more than there can be": {message, func(p arctic.Packet) arctic.Packet {
			p[24], p[25] = 0xff, 0xff
			return p
		}},
		"more before than places":  {message, func(p arctic.Packet) arctic.Packet { p[16] = 1; return p }},
		"a type that is none":      {message, func(p arctic.Packet) arctic.Packet { p[11] |= 2; return p }},
		"a put without address":    {put, func(p arctic.Packet) arctic.Packet { return p[:40] }},
		"fewer bytes than it says": {put, func(p arctic.Packet) arctic.Packet { return p[:len(p)-4] }},
		"more words than it says":  {put, func(p arctic.Packet) arctic.Packet { return append(p, 0, 0, 0, 0) }},
		"pad that is not zero":     {put, func(p arctic.Packet) arctic.Packet { p[len(p)-1] = 1; return p }},
		"a put with a type":        {put, func(p arctic.Packet) arctic.Packet { p[10] |= 1; return p }},
	} {
		if got, ok := multicastOf(c.bend(multicastPacket(c.good))); ok {
			t.Errorf("%s: decoded to %+v", name, got)
		}
		if _, ok := multicastOf(multicastPacket(c.good)); !ok {
			t.Errorf("%s: refused %+v", name, c.good)
		}
	}
}

// Rule: a report is decoded to what was encoded, and one of no copy, or of one that was taken and
// goes on, is none.
func TestReportRoundTrip(t *testing.T) {
	var b [arctic.ReportBytes]byte
	rapid.Check(t, func(t *rapid.T) {
		want := arctic.Report{Left: 1, Proof: rapid.Uint16().Draw(t, "proof"),
			Reason: arctic.Reason(rapid.Uint8().Draw(t, "reason"))}
		if want.Reason != arctic.ReasonNone {
			want.Node, want.Left = rapid.Uint16().Draw(t, "node"),
				rapid.Uint16Range(1, arctic.MaxMembers).Draw(t, "left")
		}
		want.Place = rapid.Uint16Range(0, arctic.MaxMembers-want.Left).Draw(t, "place")
		want.Done = rapid.Uint16Range(0, want.Place).Draw(t, "done")
		arctic.PutReport(b[:], &want)
		var got arctic.Report
		if !arctic.ReadReport(b[:], &got) || got != want {
			t.Fatalf("%+v became %+v", want, got)
		}
	})
	for name, r := range map[string]arctic.Report{
		"of nobody": {}, "taken, and not at its end": {Left: 2}, "taken, with a node": {Left: 1, Node: 1},
		"counts more than there are before": {Place: 1, Done: 2, Left: 1},
		"more than there can be":            {Place: 1, Left: arctic.MaxMembers, Reason: 1},
	} {
		arctic.PutReport(b[:], &r)
		if got := (arctic.Report{}); arctic.ReadReport(b[:], &got) {
			t.Errorf("%s: read %+v", name, got)
		}
	}
	if arctic.ReadReport(b[:4], new(arctic.Report)) {
		t.Error("half a report is one")
	}
}

// FuzzMulticast: any payload is taken apart without a panic, and what is accepted encodes to the
// same bytes.
func FuzzMulticast(f *testing.F) {
	for _, m := range []*arctic.Multicast{
		{Left: 1}, {Chain: 63, Left: 9, Done: 2, Place: 3, Proof: 5, Origin: 7, ID: 1 << 20, Message: 511,
			Data: make([]byte, 68)}, {Left: 1, Put: true, Key: 1, Address: arctic.MaxAddress, Data: make([]byte, 51)},
	} {
		f.Add(multicastPacket(m).Payload(), m.Type())
	}
	f.Fuzz(func(t *testing.T, b []byte, typ uint16) {
		b = b[:min(len(b), arctic.MaxPayloadWords*arctic.WordSize)/arctic.WordSize*arctic.WordSize]
		h := arctic.PacketHeader{Kind: arctic.KindMulticast, Length: uint8(len(b) / arctic.WordSize),
			Type: typ & arctic.MaxType}
		p := arctic.Packet(append(make([]byte, arctic.PacketHeaderSize), b...))
		h.Encode(p)
		var m arctic.Multicast
		if p.Multicast(&h, &m) && (!bytes.Equal(multicastPacket(&m).Payload(), b) || m.Type() != h.Type) {
			t.Fatalf("%#x of type %#x decoded to %+v", b, typ, m)
		}
		if len(b) == arctic.ReportBytes {
			var r arctic.Report
			var again [arctic.ReportBytes]byte
			if arctic.ReadReport(b, &r) {
				if arctic.PutReport(again[:], &r); !bytes.Equal(again[:], b) {
					t.Fatalf("%#x read as %+v", b, r)
				}
			}
		}
	})
}
