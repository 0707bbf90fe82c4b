package am_test

// This file tests what an endpoint takes from nodes that do not keep to the protocol of long messages. The test is the card.

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/funi"
)

// The packet types of long messages.
const (
	typePart  = 19
	typeReady = 20
	typeGrant = 21
	typeTaken = 22
	typeAbort = 23
)

// hostile is an endpoint with memory, whose handlers take anything, and its card.
func hostile(t testing.TB) (*am.Endpoint, *funi.Card, *int) {
	e, card := bare(t)
	ran := new(int)
	take := func(m *am.Message, b []byte) error {
		*ran++
		for i := range b { // all of it is memory
			b[i] = 0
		}
		return nil
	}
	if err := first(anyMemory(e), e.HandleBytes(0, take), e.HandleBytes(1, take)); err != nil {
		t.Fatal(err)
	}
	return e, card, ran
}

// sentOf lets what the endpoint has sent go nowhere, and returns the messages of a type.
func sentOf(card *funi.Card, typ uint16) (found []funi.Slot) {
	for l := range funi.Level(2) {
		n := card.Pending(l)
		for i := range n {
			if s := card.Slot(l, i); s.Header().Type() == typ {
				found = append(found, *s)
			}
		}
		card.Retire(l, n)
	}
	card.Publish()
	return found
}

// TestHostileSenders: whatever other nodes say of messages, in any order, with any ids, keys, lengths and places, while
// messages are under way in both directions, nothing panics and no more memory is used than there is.
func TestHostileSenders(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		e, card, _ := hostile(t)
		words := []uint32{0, 1, 90, 3000, 1 << 16, 1 << 31, 1<<31 | 1<<28, 0xc0000000, 0xc0002000, 0xc000c000, 0xffffffff}
		note := func(slots []funi.Slot) {
			for _, s := range slots {
				words = append(words, s[1:5]...)
			}
		}
		for range rapid.IntRange(1, 60).Draw(r, "messages") {
			if rapid.IntRange(0, 5).Draw(r, "send") == 0 {
				if _, err := e.StartBytes(rapid.IntRange(0, 2).Draw(r, "to"), 0, make([]byte, rapid.SampledFrom([]int{100, 3000, 20000}).Draw(r, "size")), nil); err != nil {
					r.Fatal(err)
				}
			}
			word := rapid.OneOf(rapid.SampledFrom(words), rapid.Uint32())
			typ := rapid.SampledFrom([]uint16{typePart, typeReady, typeReady, typeGrant, typeTaken, typeAbort}).Draw(r, "type")
			n := map[uint16]int{typeReady: 5, typeGrant: 4, typeTaken: 2, typeAbort: 1}[typ]
			if rapid.IntRange(0, 9).Draw(r, "odd length") == 0 || typ == typePart {
				n = rapid.IntRange(0, 16).Draw(r, "length")
			}
			h := funi.NewHeader(0, typ, n)
			if typ == typePart {
				h = funi.NewTransferHeader(0, typ, n)
				if rapid.Bool().Draw(r, "many") {
					h |= 1 << 30
				}
			}
			body := rapid.SliceOfN(word, 6, 6).Draw(r, "words")
			s := card.Vacant(funi.Request)
			if s == nil {
				r.Fatal("no room")
			}
			l := funi.Level(rapid.IntRange(0, 1).Draw(r, "level"))
			from := uint16(rapid.SampledFrom([]int{0, 1, 2, 2, 1, 7, 65535}).Draw(r, "from"))
			s = card.Vacant(l)
			clear(s[:])
			s.SetHeader(h)
			copy(s[1:], body)
			s[funi.SourceWord] = uint32(from)
			card.Deliver(l)
			card.Publish()
			if _, err := e.Poll(); err != nil {
				r.Fatal(err)
			}
			for _, typ := range []uint16{typeReady, typeGrant} {
				for l := range funi.Level(2) {
					for i := range card.Pending(l) {
						if s := card.Slot(l, i); s.Header().Type() == typ {
							note([]funi.Slot{*s})
						}
					}
				}
			}
			sentOf(card, 0)
			if used := am.MemoryInUse(e); used < 0 || used > am.LeastMemory {
				r.Fatalf("%d bytes in use", used)
			}
		}
	})
}

// TestFloodOfReadies: a node that says of more and more messages that they are ready gets memory for as many as there is,
// eight of them wait, and the others are refused; nothing grows.
func TestFloodOfReadies(t *testing.T) {
	e, card, _ := hostile(t)
	grants, refused := 0, 0
	flood := func(n int) {
		for i := range n {
			s := card.Vacant(funi.Request)
			s.SetHeader(funi.NewHeader(0, typeReady, 5))
			s[1], s[2], s[3], s[4], s[5], s[funi.SourceWord] = uint32(i), 0, 10000, 0, 0, 1
			card.Deliver(funi.Request)
			card.Publish()
			if _, err := e.Poll(); err != nil {
				t.Fatal(err)
			}
			for i := range card.Pending(funi.Reply) {
				switch card.Slot(funi.Reply, i).Header().Type() {
				case typeGrant:
					grants++
				case typeTaken:
					refused++
				}
			}
			sentOf(card, 0)
		}
	}
	flood(100)
	if grants != 4 || refused != 100-4-8 {
		t.Errorf("%d grants and %d refusals of 100", grants, refused)
	}
	if n := testing.AllocsPerRun(10, func() { flood(100) }); n > 0 {
		t.Errorf("a flood of 100 allocates %v times", n)
	}
}

// TestPartsOfOthers: parts that do not lie in what their sender was granted, or are more than that, count nothing; the
// handler runs when the granted words have come, with bytes that were said, and once.
func TestPartsOfOthers(t *testing.T) {
	e, card, ran := hostile(t)
	ask := func(size uint32) (key, address, lease uint32) {
		s := card.Vacant(funi.Request)
		s.SetHeader(funi.NewHeader(0, typeReady, 5))
		s[1], s[2], s[3], s[funi.SourceWord] = 77, 1, size, 1
		card.Deliver(funi.Request)
		card.Publish()
		if _, err := e.Poll(); err != nil {
			t.Fatal(err)
		}
		g := sentOf(card, typeGrant)
		if len(g) != 1 || g[0][1] != 77 {
			t.Fatalf("%d grants", len(g))
		}
		return g[0][2], g[0][3], g[0][4]
	}
	part := func(l funi.Level, from, argument, address uint32, words int) []funi.Slot {
		s := card.Vacant(l)
		s.SetNotice(0, typePart, words > 16, funi.Notice{Address: address, Argument: argument, Words: words})
		s[funi.SourceWord] = from
		card.Deliver(l)
		card.Publish()
		if _, err := e.Poll(); err != nil {
			t.Fatal(err)
		}
		return sentOf(card, typeTaken)
	}
	key, address, lease := ask(1000) // 63 times 16 bytes
	for what, p := range map[string][]funi.Slot{
		"of another node":           part(funi.Request, 2, key, address, 252),
		"of a node beyond the last": part(funi.Request, 9, key, address, 252),
		"with another key":          part(funi.Request, 1, key^1<<20, address, 252),
		"before the memory":         part(funi.Request, 1, key, address-16, 252),
		"beyond the memory":         part(funi.Request, 1, key, address+1024-16, 8),
		"at reply priority":         part(funi.Reply, 1, key, address, 252),
		"too long":                  part(funi.Request, 1, key, address, 256),
		"all but four words":        part(funi.Request, 1, key, address, 248),
		"more than is missing":      part(funi.Request, 1, key, address, 8),
	} {
		if len(p) != 0 || *ran != 0 {
			t.Errorf("a part %s: %d answers; %d handlers ran", what, len(p), *ran)
		}
	}
	if p := part(funi.Request, 1, key, address+992, 4); len(p) != 1 || p[0][1] != 77 || p[0][2] != 0 || *ran != 1 {
		t.Errorf("the last part: %v; %d handlers ran", p, *ran)
	}
	if p := part(funi.Request, 1, key, address, 252); len(p) != 0 || *ran != 1 {
		t.Errorf("a part after the last: %v; %d handlers ran", p, *ran)
	}
	argument := uint32(1<<31 | 2<<25 | 5<<19 | 99<<8 | 1) // slot 2, 100 bytes
	slot := lease + 2*am.EagerBytes
	if p := part(funi.Request, 2, argument, slot, 16); len(p) != 0 {
		t.Errorf("a part in another's lease: %v", p)
	}
	if p := part(funi.Request, 1, argument, lease, 16); len(p) != 0 {
		t.Errorf("a part in another slot: %v", p)
	}
	if p := part(funi.Request, 1, argument^1<<19, slot, 16); len(p) != 0 || *ran != 1 {
		t.Errorf("part of an earlier use of the slot: %v", p)
	}
	if p := part(funi.Request, 1, argument, slot, 16); len(p) != 0 || *ran != 1 {
		t.Errorf("the first of two parts: %v", p)
	}
	if p := part(funi.Request, 1, argument, slot+64, 12); len(p) != 1 || p[0][1] != argument || p[0][2] != 0 || *ran != 2 {
		t.Errorf("the second of two parts: %v; %d handlers ran", p, *ran)
	}
}
