package am_test

// This file tests what an endpoint takes from nodes that do not keep to the protocol of long
// messages. The test is the card.

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

// TestHostileSenders: whatever other nodes say of messages, in any order, with any ids, keys,
// lengths and places, while messages are under way in both directions, nothing panics and no more
// memory is used than there is.
func TestHostileSenders(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		e, card, _ := hostile(t)
		words := []uint32{0, 1, 90, 3000, 1 << 16, 1 << 31, 1<<31 | 1<<28, 0xc0000000, 0xc0002000,
			0xc000c000, 0xffffffff}
		note := func(slots []funi.Slot) {
			for _, s := range slots {
				words = append(words, s[1:5]...)
			}
		}
		for range rapid.IntRange(1, 60).Draw(r, "messages") {
			if rapid.IntRange(0, 5).Draw(r, "send") == 0 {
				if _, err := e.StartBytes(rapid.IntRange(0, 2).Draw(r, "to"), 0,
					make([]byte, rapid.SampledFrom([]int{100, 3000, 20000}).Draw(r, "size")), nil); err != nil {
					r.Fatal(err)
				}
			}
			word := rapid.OneOf(rapid.SampledFrom(words), rapid.Uint32())
			typ := rapid.SampledFrom([]uint16{typePart, typeReady, typeReady, typeGrant, typeTaken,
				typeAbort}).Draw(r, "type")
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

// TestFloodOfReadies: a node that says of more and more messages that they are ready gets memory
// for as many as there is, eight of them wait, and the others are refused; nothing grows.
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

// TestPartsOfOthers: parts that do not lie in what their sender was granted, or are more than that,
// count nothing; the handler runs when the granted words have come, with bytes that were said, and
// once.
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
	if p := part(funi.Request, 1, argument, slot+64, 12); len(p) != 1 || p[0][1] != argument ||
		p[0][2] != 0 || *ran != 2 {
		t.Errorf("the second of two parts: %v; %d handlers ran", p, *ran)
	}
}

// announce lets node 1 say that a message is ready, and returns what the endpoint grants: key,
// address, lease.
func announce(t testing.TB, e *am.Endpoint, card *funi.Card, id, size uint32) (key, address, lease uint32) {
	t.Helper()
	s := card.Vacant(funi.Request)
	s.SetHeader(funi.NewHeader(0, typeReady, 5))
	s[1], s[2], s[3], s[funi.SourceWord] = id, 1, size, 1
	card.Deliver(funi.Request)
	card.Publish()
	if _, err := e.Poll(); err != nil {
		t.Fatal(err)
	}
	g := sentOf(card, typeGrant)
	if len(g) != 1 || g[0][1] != id {
		t.Fatalf("%d grants", len(g))
	}
	return g[0][2], g[0][3], g[0][4]
}

// TestMemoryIsHeld: memory whose message was given up is free when Hold has passed, and not before:
// late packets may be written there. What arrives for it runs nothing.
func TestMemoryIsHeld(t *testing.T) {
	e, card := bare(t)
	now := int64(1000)
	if err := e.UseMemory(am.Memory{Segment: func(_ uint32, bytes int, _ funi.Rights) ([]byte, error) {
		return make([]byte, bytes), nil
	},
		Now: func() int64 { return now }, Limit: am.LeastMemory, Hold: 500}); err != nil {
		t.Fatal(err)
	}
	key, address, _ := announce(t, e, card, 5, 10000)
	// another node's
	arrive(t, e, card, funi.Request, 2, funi.NewHeader(0, typeAbort, 1), []uint32{key})
	arrive(t, e, card, funi.Request, 1, funi.NewHeader(0, typeAbort, 1), []uint32{key})
	arrive(t, e, card, funi.Request, 1, funi.NewHeader(0, typeAbort, 1), []uint32{key}) // again
	for _, c := range []struct {
		at   int64
		free bool
	}{{1000, false}, {1499, false}, {1500, true}} {
		now = c.at
		for range 64 { // polls in vain look at the clock now and then
			if _, err := e.Poll(); err != nil {
				t.Fatal(err)
			}
		}
		if used := am.MemoryInUse(e); (used == 0) != c.free {
			t.Errorf("at %d: %d bytes in use", now, used)
		}
	}
	unknown := e.Unknown()
	s := card.Vacant(funi.Request)
	s.SetNotice(0, typePart, true, funi.Notice{Address: address, Argument: key, Words: 2500})
	s[funi.SourceWord] = 1
	card.Deliver(funi.Request)
	card.Publish()
	if _, err := e.Poll(); err != nil || e.Unknown() != unknown+1 || len(sentOf(card, typeTaken)) != 0 {
		t.Errorf("a late part: %v; %d unknown", err, e.Unknown()-unknown)
	}
}

// TestSlotsOfALease: as many messages leave at once as there are slots that the receiver has given
// back; it gives back each once, and nothing by an answer to an earlier use of a slot.
func TestSlotsOfALease(t *testing.T) {
	e, card, _ := hostile(t)
	b := make([]byte, 90)
	send := func() (argument uint32, eager bool) {
		id, err := e.StartBytes(1, 0, b, nil)
		if err != nil {
			t.Fatal(err)
		}
		if parts := sentOf(card, typePart); len(parts) == 2 && id == 0 {
			if parts[0][funi.ArgumentWord] != parts[1][funi.ArgumentWord] ||
				parts[0][funi.DestinationAddressWord]+64 != parts[1][funi.DestinationAddressWord] {
				t.Fatalf("the parts are %x and %x", parts[0][:5], parts[1][:5])
			}
			return parts[0][funi.ArgumentWord], true
		}
		return 0, false
	}
	taken := func(from uint16, argument uint32) {
		arrive(t, e, card, funi.Reply, from, funi.NewHeader(0, typeTaken, 2), []uint32{argument, 0})
	}
	if _, err := e.StartBytes(1, 0, b, nil); err != nil {
		t.Fatal(err)
	}
	ready := sentOf(card, typeReady)
	if len(ready) != 1 {
		t.Fatalf("%d messages before there is a lease", len(ready))
	}
	arrive(t, e, card, funi.Reply, 1, funi.NewHeader(0, typeGrant, 4), []uint32{ready[0][1], 5, 0xc0002000, 0xc0004000})
	var used [8]uint32
	for i := range used {
		eager := false
		if used[i], eager = send(); !eager {
			t.Fatalf("message %d did not leave at once", i)
		}
	}
	free := func(when string, want int) {
		t.Helper()
		for n := 0; ; n++ {
			argument, eager := send()
			if !eager {
				if n != want {
					t.Errorf("%s: %d messages left at once, want %d", when, n, want)
				}
				return
			}
			used[argument>>25&7] = argument
		}
	}
	free("no slot was given back", 0)
	old := used[3]
	taken(2, old)
	free("another node gave one back", 0)
	taken(1, old)
	taken(1, old)
	free("one was given back, twice", 1)
	if used[3] == old {
		t.Error("both uses of a slot have the same number")
	}
	taken(1, old)
	free("a use was answered again that is over", 0)
	taken(1, used[3])
	taken(1, used[7])
	free("two were given back", 2)
}

// TestLivesHaveTheirOwnMemory: the memory of each of eight lives lies elsewhere, so that what was
// meant for a predecessor comes back.
func TestLivesHaveTheirOwnMemory(t *testing.T) {
	var end uint64
	for life := range 8 {
		e, _ := bare(t)
		if err := e.Rejoin(am.RejoinOptions{Life: life, Now: func() int64 { return 0 }}); err != nil {
			t.Fatal(err)
		}
		var begin uint64
		if err := e.UseMemory(am.Memory{Limit: am.MostMemory, Now: func() int64 {
			return 0
		}, Segment: func(base uint32, bytes int, _ funi.Rights) ([]byte, error) {
			begin = uint64(base)
			return make([]byte, bytes), nil
		}}); err != nil {
			t.Fatal(err)
		}
		if begin < end || begin+am.MostMemory > 1<<32 {
			t.Errorf("the memory of life %d begins at %#x; that of the one before ends at %#x", life, begin, end)
		}
		end = begin + am.MostMemory
	}
}
