package am_test

// This file tests what an endpoint takes from other nodes of its group, which may run
// anything: nothing that arrives panics, writes where it may not, or completes a call that
// its sender was not asked for. The test is the card.

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/funi"
)

// arrive lets a message arrive and be handled.
func arrive(t interface{ Fatal(...any) }, e *am.Endpoint, card *funi.Card, l funi.Level, from uint16, h funi.Header,
	words []uint32) {
	s := card.Vacant(l)
	if s == nil {
		t.Fatal("no room")
	}
	clear(s[:])
	s.SetHeader(h)
	copy(s[funi.PayloadWord:funi.SourceWord], words)
	s[funi.SourceWord] = uint32(from)
	card.Deliver(l)
	card.Publish()
	if _, err := e.Poll(); err != nil && !errors.Is(err, am.ErrNoHandler) { // anybody may say that
		t.Fatal(err)
	}
	for l := range funi.Level(2) { // what it answers goes nowhere
		card.Retire(l, card.Pending(l))
	}
	card.Publish()
}

// TestAnythingArrives: messages and transfers of any type, with any words, at any level,
// while calls and a segment are open, do no harm. Only what is shared to be written changes.
func TestAnythingArrives(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		e, card := bare(t)
		register := func(funi.Segment) error { return nil }
		read, written := bytes.Repeat([]byte{7}, 64), make([]byte, 256)
		var c am.Counter
		err := first(
			e.Share(register, funi.Segment{Base: 0x100, Memory: written[64:128:128], Rights: funi.Destination}),
			e.Share(register, funi.Segment{Base: 0x200, Memory: read, Rights: funi.Source}),
			e.Get(1, 0x100, 0x100, 3, &c), e.PutInt32(2, 0x100, 4, &c))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.OpenSegment(0x110, 32, nil, nil); err != nil {
			t.Fatal(err)
		}
		inside := make([]byte, 300)
		_, err1 := e.StartSendTag(1, 2, make([]byte, 200), func(error) {})
		_, err2 := e.StartRecv(am.AnySource, 2, inside[100:200:200], func(am.Received, error) {})
		_, err3 := e.StartSendWide(1, am.Wide{Flags: am.WideConfirm}, make([]byte, 200), func(error) {})
		_, err4 := e.StartRecvWide(wide(am.AnySource, 0, 0, ^uint64(0)), inside[100:200:200], func(am.Received, error) {})
		if err := first(err1, err2, err3, err4); err != nil {
			t.Fatal(err)
		}
		ended := 0
		_, err = e.StartCall(1, 3, []byte{1}, func([]byte, error) { ended++ })
		if err := first(err, e.HandleCall(0, func(_ *am.Message, b []byte) ([]byte, error) { return b, nil })); err !=
			nil {
			t.Fatal(err)
		}
		ticket := rapid.SampledFrom([]uint32{card.Slot(funi.Request, 0)[funi.PayloadWord],
			card.Slot(funi.Request, 1)[funi.PayloadWord], card.Slot(funi.Request, 2)[funi.PayloadWord],
			card.Slot(funi.Request, 3)[funi.PayloadWord+4]})
		word := rapid.OneOf(rapid.Uint32Range(0, 40), rapid.Uint32Range(0x100, 0x240), rapid.Uint32(), ticket)
		for range rapid.IntRange(1, 40).Draw(r, "messages") {
			words := rapid.SliceOfN(word, 0, funi.MaxPayloadWords).Draw(r, "words")
			typ := rapid.OneOf(rapid.Uint16Range(0, 31), rapid.Uint16Range(0, funi.MaxType)).Draw(r, "type")
			h := funi.NewHeader(0, typ, len(words))
			if rapid.Bool().Draw(r, "transfer") {
				h |= funi.NewTransferHeader(0, typ,
					len(words)) | funi.Header(rapid.Uint32Range(0, 1).Draw(r, "many")<<30)
			}
			arrive(r, e, card, funi.Level(rapid.IntRange(0, 1).Draw(r, "level")),
				uint16(rapid.IntRange(0, 2).Draw(r, "from")), h, words)
		}
		if !bytes.Equal(written[:64], make([]byte, 64)) || !bytes.Equal(written[128:], make([]byte, 128)) ||
			!bytes.Equal(read, bytes.Repeat([]byte{7}, 64)) {
			r.Fatal("memory changed that is not to be written")
		}
		if c.Complete()+c.UnderWay() > 2 || c.UnderWay() < 0 {
			r.Fatalf("%d complete and %d under way of 2", c.Complete(), c.UnderWay())
		}
		if !bytes.Equal(inside[:100], make([]byte, 100)) || !bytes.Equal(inside[200:], make([]byte, 100)) {
			r.Fatal("memory beside that of a receive changed")
		}
		if ended+e.CallsUnderWay() != 1 {
			r.Fatalf("a call ended %d times, and %d are under way", ended, e.CallsUnderWay())
		}
	})
}

// TestAnswersOfOthers: a call is complete when the node that was asked answers, once; not
// by another's answer, nor by one to another ticket, nor by data that does not fit.
func TestAnswersOfOthers(t *testing.T) {
	const typeGetBlock, typeData, typeDone = 7, 10, 11
	e, card := bare(t)
	memory := make([]byte, 64)
	var c am.Counter
	if err := first(e.Share(func(funi.Segment) error { return nil },
		funi.Segment{Base: 0x100, Memory: memory, Rights: funi.Destination}),
		e.Get(1, 0x1000, 0x110, 2, &c)); err != nil {
		t.Fatal(err)
	}
	ticket := card.Slot(funi.Request, 0)[funi.PayloadWord]
	answer := func(from, typ uint16, words ...uint32) {
		arrive(t, e, card, funi.Reply, from, funi.NewHeader(0, typ, len(words)), words)
	}
	answer(2, typeData, ticket, 0, 1, 2)
	answer(1, typeData, ticket+1, 0, 1, 2)
	answer(1, typeData, ticket^1<<8, 0, 1, 2)
	answer(1, typeData, ticket, 1, 1, 2)
	answer(1, typeData, ticket, 1<<30, 1)
	answer(1, typeData, ticket)
	answer(2, typeDone, ticket, 0)
	arrive(t, e, card, funi.Reply, 2, funi.NewTransferHeader(0, typeGetBlock, 4), []uint32{0, 0x110, ticket})
	answer(2, typeDone, ticket, 1)
	if c.UnderWay() != 1 || !bytes.Equal(memory, make([]byte, 64)) {
		t.Fatalf("%d under way; memory %x", c.UnderWay(), memory)
	}
	answer(1, typeData, ticket, 0, 0x04030201, 5)
	answer(1, typeData, ticket, 0, 9, 9)
	want := make([]byte, 64)
	copy(want[16:], []byte{1, 2, 3, 4, 5})
	if err := e.WaitCounter(&c, 1); err != nil || c.UnderWay() != 0 || c.Complete() != 0 || !bytes.Equal(memory, want) {
		t.Fatalf("%v; %d under way; memory %x", err, c.UnderWay(), memory)
	}
}

// TestAnswersToAPredecessor: a process that is the node now takes no answer to what its predecessor
// asked, although both made the same calls (the numbers of calls start from a seed that is another
// in each life).
func TestAnswersToAPredecessor(t *testing.T) {
	const typeData = 10
	var tickets [2]uint32
	for life := range tickets {
		e, card := born(t, uint64(life))
		memory := make([]byte, 64)
		var c am.Counter
		if err := first(e.Share(func(funi.Segment) error {
			return nil
		}, funi.Segment{Base: 0x100, Memory: memory, Rights: funi.Destination}),
			e.Get(1, 0x1000, 0x110, 2, &c)); err != nil {
			t.Fatal(err)
		}
		tickets[life] = card.Slot(funi.Request, 0)[funi.PayloadWord]
		if life == 0 {
			continue
		}
		answer := func(ticket, data uint32) {
			arrive(t, e, card, funi.Reply, 1, funi.NewHeader(0, typeData, 4), []uint32{ticket, 0, data, data})
		}
		answer(tickets[0], 6)
		if c.UnderWay() != 1 || !bytes.Equal(memory, make([]byte, 64)) {
			t.Errorf("the answer to a predecessor was taken: %d under way, memory %x", c.UnderWay(), memory)
		}
		answer(tickets[1], 7)
		if c.Complete() != 1 || memory[16] != 7 {
			t.Errorf("its own answer was not: %d complete, memory %x", c.Complete(), memory)
		}
	}
}
