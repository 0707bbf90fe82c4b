package engine_test

// This file holds the rules of images that somebody forged (image.go, switch.go): the card takes an
// image whole or not at all, and an image changes nothing that is not its context's.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// newForgery is a bed whose node 1, which has a window, an area, a chain and records of operations,
// has left card 1 for card 2, and awaits its image there.
func newForgery(t testing.TB, tune func(*engine.Config)) (*remoteBed, *move) {
	r := newMoveBed(t, setup{cards: 3, remote: moreRemote, net: near, tune: tune})
	for node := range 3 {
		r.exposes(node, funi.Window{Key: theKey, Base: 128, Bytes: 64, Address: windowAt, Rights: allRights, Credit: 4,
			Counts: keyedAt + countsAt})
	}
	r.completes(1, 0, operation(arctic.RemoteAdd, windowAt+8, 1))
	r.block(1, funi.Request, func(s *funi.Slot) { s.SetOpenArea(2, theKey, 3, false, 0) })
	r.put(0, 1, funi.Request, funi.Put{Key: theKey, Area: 2, Counted: true, Data: []byte("early")})
	r.sets(0, funi.Chain{Number: 3, First: true, Next: []funi.Next{{Node: 1, Members: 2}}})
	r.sets(1, funi.Chain{Number: 3, Parent: 0, Next: []funi.Next{{Node: 2, Members: 1}}})
	r.sets(2, funi.Chain{Number: 3, Parent: 1})
	r.pass(time.Millisecond)
	m := &move{r: r, node: 1, from: 1, to: 2}
	r.until(time.Second, "it leaves", m.leaves)
	m.arrives()
	r.until(time.Second, "the new card has been told", func() bool { _, home := m.sign.Told(); return home })
	*r.mem[1].Page = m.page
	return r, m
}

// drains returns the image with slots more that were drained.
func drains(image []byte, slots [arctic.Levels][]funi.Slot) []byte {
	le := binary.LittleEndian
	b := bytes.Clone(image[:len(image)-4*int(arctic.Levels)]) // none were
	for _, level := range slots {
		b = le.AppendUint32(b, uint32(len(level)))
		for i := range level {
			for _, w := range level[i] {
				b = le.AppendUint32(b, w)
			}
		}
	}
	return b
}

const (
	singleSlot = 2 << 30 // bits 31 and 30 of slots that were drained
	pieceSlot  = 3 << 30
	otherSlot  = 1 << 30
)

// drained is a slot of these bits with so many words.
func drained(bits uint32, words int, destination, argument, total uint32) (s funi.Slot) {
	s[0] = bits | uint32(funi.NewHeader(1, 5, words))
	s[funi.DestinationAddressWord], s[funi.ArgumentWord], s[funi.TotalWord], s[funi.SourceWord] = destination,
		argument, total, 0
	return s
}

// Rule: a slot that was drained is checked as the packet that it becomes. An image with a slot that
// no drained packet leaves behind is refused (Import). After that nothing has changed: neither what
// the context has, nor its page, nor what the card knows.
func TestForgedSlots(t *testing.T) {
	r, m := newForgery(t, nil)
	card := r.cards[2]
	before := card.Shown(m.next)
	refused := func(what string, image []byte) {
		t.Helper()
		if err := card.Import(m.next, image); !errors.Is(err, engine.ErrImage) {
			t.Fatalf("%s: %v", what, err)
		}
		if after := card.Shown(m.next); after != before {
			t.Fatalf("%s: the state was\n%s\nand is\n%s", what, before, after)
		}
		if *r.mem[1].Page != m.page {
			t.Fatalf("%s: the page has changed", what)
		}
	}
	for _, c := range []struct {
		what string
		slot funi.Slot
	}{
		{"a last piece of 17 words", drained(pieceSlot, 17, landing, 0, 20)},
		{"a last piece of 20 words", drained(pieceSlot, 20, landing, 7, 20)},
		{"a last piece of 31 words", drained(pieceSlot, 31, landing, 7, 64)},
		{"a last piece of a transfer shorter than it", drained(pieceSlot, 16, landing, 0, 12)},
		{"a last piece of a transfer too long", drained(pieceSlot, 16, landing, 0, arctic.MaxTransferWords+4)},
		{"a last piece of a transfer that begins before all memory", drained(pieceSlot, 16, 64, 0, 64)},
		{"a last piece of 3 words", drained(pieceSlot, 3, landing, 0, 16)},
		{"a part without data", drained(pieceSlot, 0, landing, 0, 0)},
		{"a part of 24 words", drained(pieceSlot, 24, landing, 0, 0)},
		{"a part of 18 words", drained(pieceSlot, 18, landing, 0, 0)},
		{"a part for address 0", drained(pieceSlot, 4, 0, 0, 0)},
		{"a single of 20 words with an argument", drained(singleSlot, 20, landing, 7, 0)},
		{"a single of 21 words", drained(singleSlot, 21, landing, 0, 0)},
		{"a single for address 0", drained(singleSlot, 4, 0, 0, 0)},
		{"a request block", drained(otherSlot, 4, landing, 0, 0)},
	} {
		for l := range arctic.Levels {
			var slots [arctic.Levels][]funi.Slot
			slots[l] = []funi.Slot{drained(0, 3, 0, 0, 0), c.slot}
			refused(c.what, drains(m.image, slots))
		}
	}
	for i := range m.image {
		refused("part of an image", m.image[:i])
	}
	r.until(time.Second, "its own image", m.goesOn)
	r.ends()
}

// Rule: every slot that is drained comes out of an image as it went in (repack).
func TestDrainedSlotsGoAlong(t *testing.T) {
	r, m := newForgery(t, nil)
	var slots [arctic.Levels][]funi.Slot
	slots[funi.Request] = []funi.Slot{drained(0, 3, 0, 0, 0), drained(pieceSlot, 20, landing+512, 0, 0),
		drained(pieceSlot, 16, landing, 7, 16),
		drained(singleSlot, 20, landing, 0, 0), drained(singleSlot, 16, landing, 9, 0)}
	m.image = drains(m.image, slots)
	r.until(time.Second, "it goes on", m.goesOn)
	for i, want := range []struct{ argument, words uint32 }{{}, {7, 16}, {0, 20}, {9, 16}} {
		s, ok := take(r.proc[1], funi.Request)
		if n := s.Notice(); !ok || i == 0 && s.Header().Length() != 3 ||
			i > 0 && (n.Argument != want.argument || n.Words != int(want.words)) {
			t.Errorf("slot %d is %+v", i, s)
		}
	}
	if n := r.cards[2].Counters(); n.Discarded != 0 || n.MemoryErrors != 0 {
		t.Errorf("%d discarded, %d memory errors", n.Discarded, n.MemoryErrors)
	}
	r.ends()
}

// Rule: an image sets no number of the card's: generations that it brings are its job's, and what
// the context has moved begins anew (image.go, request.go).
func TestImageSetsNothingOfTheCards(t *testing.T) {
	r, m := newForgery(t, nil)
	card := r.cards[2]
	first, traffic := card.Generation(), card.Counters().PacketsDelivered
	at := bytes.LastIndex(m.image, generationsOf(m.sign, m.image))
	for i := range 4 {
		binary.LittleEndian.PutUint16(m.image[at+2*i:], first+0x7000)
	}
	if err := card.Import(m.next, m.image); err != nil {
		t.Fatal(err)
	}
	r.ctx[1], r.wake[2] = m.next, 0
	if is := card.Generation(); is != first {
		t.Errorf("the card's generation was %d and is %d", first, is)
	}
	if n := m.next.Traffic(); n != (engine.Traffic{}) || card.Counters().PacketsDelivered != traffic {
		t.Errorf("the context has moved %+v before it has moved anything", n)
	}
	r.notified(1)
	for range 5 { // the records that are used go on where they were, and the card's number does not
		r.completes(1, 0, operation(arctic.RemoteAdd, windowAt+8, 1))
	}
	if is := card.Generation(); is != first {
		t.Errorf("after operations the card's generation is %d", is)
	}
	r.ends()
}

// generationsOf returns the generations that an image has.
func generationsOf(x *engine.Context, image []byte) []byte {
	n := min(moreRemote.Notifications, funi.MaxRequests)
	end := len(image) - 4*int(arctic.Levels) - 4 - 16 // the chain, and how many there are
	return image[end-2*n : end]
}

// FuzzImage: whatever an image says, the card takes it whole or not at all, and works on with
// either (image.go). The script changes the image of a context with everything in it, in pieces of
// 8 bytes: a byte of the image becomes another one, or a slot was drained.
func FuzzImage(f *testing.F) {
	f.Add([]byte{})
	for _, bits := range []byte{0, 2, 3, 3} {
		for _, words := range []byte{0, 4, 16, 17, 20, 31} {
			f.Add([]byte{1, bits, words, 1, 0, 5, 0, 0, 3, bits, words, 2, 7, 4, 0, 0, 1, 0, 3, 0, 0, 0, 0, 0})
		}
	}
	f.Add([]byte{0, 20, 0, 1, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		r, m := newForgery(t, followedIf(len(script)/8%2 == 1))
		card := r.cards[2]
		before := card.Shown(m.next)
		image := forged(m.image, script)
		if _, err := engine.ReadImage(image); err != nil && !errors.Is(err, engine.ErrImage) {
			t.Fatal(err)
		}
		switch err := card.Import(m.next, image); {
		case err == nil:
			r.ctx[1] = m.next
		case !errors.Is(err, engine.ErrImage):
			t.Fatal(err)
		default:
			if after := card.Shown(m.next); after != before {
				t.Fatalf("the state was\n%s\nand is\n%s", before, after)
			}
			r.until(time.Second, "its own image", m.goesOn)
		}
		r.wake[2] = 0
		// What a context does later with what the image said: it gets all kinds of packets, goes
		// off the card and back, and leaves again.
		for range 2 {
			for l := range funi.Level(2) {
				r.put(0, 1, l, funi.Put{Key: theKey, Area: 2, Counted: true, Data: []byte("later")})
				r.send(0, l, 1, 1, 2)
				request(r.proc[0], l, 1, funi.Transfer{Source: sources, Destination: landing, Words: 500})
				r.send(1, l, 0, 1, 2)
			}
			r.asks(0, 1, operation(arctic.RemoteAdd, windowAt+8, 1))
			r.asks(1, 0, operation(arctic.RemoteAdd, windowAt+8, 1))
			r.block(0, funi.Request, func(s *funi.Slot) {
				s.SetMulticast(0, &funi.MulticastRequest{Chain: 3, Members: 3, Message: 5, Data: []byte("1234")})
			})
			for range 20 {
				r.step(r.next())
				busyDrain(r.bed)
			}
			r.pass(time.Millisecond)
			if s, err := card.SwitchOut(m.next, true); err == nil {
				s.Live = true
				if err := card.SwitchIn(s); err != nil {
					t.Fatal(err)
				}
				r.wake[2] = 0
			}
		}
		for range 20 { // it may have something under way that nobody takes
			if _, err := card.Export(m.next, 1); err == nil {
				break
			}
			r.wake[2] = 0
			busyDrain(r.bed)
			r.pass(time.Millisecond)
		}
		r.pass(5 * time.Millisecond)
		for i, c := range r.cards {
			if err := c.Check(); err != nil {
				t.Fatalf("card %d: %v", i, err)
			}
		}
	})
}

// forged changes an image as a script says.
func forged(image, script []byte) []byte {
	image = bytes.Clone(image)
	var slots [arctic.Levels][]funi.Slot
	for ; len(script) >= 8; script = script[8:] {
		p := script[:8]
		if p[0]&1 == 0 {
			image[int(binary.LittleEndian.Uint16(p[1:]))%len(image)] ^= p[3]
			continue
		}
		l := arctic.Level(p[0] >> 1 & 1)
		s := drained(uint32(p[1])<<30, int(p[2]), landing+16*uint32(p[3]), uint32(p[4]),
			4*uint32(p[5])+uint32(p[6])<<24)
		if p[7]&1 != 0 {
			s[funi.DestinationAddressWord] = uint32(p[7])
		}
		slots[l] = append(slots[l], s)
	}
	return drains(image, slots)
}
