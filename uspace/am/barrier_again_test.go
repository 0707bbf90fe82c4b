package am_test

// This file tests a barrier that is called again, word by word: the test is the card of node 0.

import (
	"errors"
	"testing"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// Rule (Barrier): a round whose message comes back when the call is over here is told again by the
// next collective call, with the number of its own; the node that it is for could not end that
// barrier otherwise.
func TestRoundOfTheLastBarrierIsToldAgain(t *testing.T) {
	const typeRound = 15
	memory, err := funi.NewMemory(benchSlots)
	if err != nil {
		t.Fatal(err)
	}
	iface, err := funi.Initialize(memory)
	if err != nil {
		t.Fatal(err)
	}
	card, err := funi.Attach(memory)
	if err != nil {
		t.Fatal(err)
	}
	var told []uint32 // numbers, in order
	var first funi.Slot
	over, back := false, false // the first barrier is, and its message came back
	e, err := am.New(iface, 0, 2, func() {
		for _, s := range sentOf(card, typeRound) {
			told = append(told, s[1])
			in := card.Vacant(funi.Request)
			*in = s
			in[funi.SourceWord] = 1
			card.Deliver(funi.Request)
			card.Publish()
			first = s
		}
		if over && len(told) == 1 && !back {
			card.Return(funi.Returned{Reason: arctic.ReasonQueueFull, Level: funi.Request, Header: first.Header(),
				Word: first[1]})
			card.Publish()
			back = true
		}
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Barrier(); err != nil {
		t.Fatal(err)
	}
	over = true
	for range 1000 {
		if _, err = e.Poll(); err != nil {
			break
		}
	}
	if err == nil {
		t.Fatal("no error that a round came back")
	}
	if err := e.Barrier(); err != nil || len(told) != 3 || told[0] != told[1] || told[2] != told[0]+1 {
		t.Errorf("the next barrier: %v; rounds told: %d", err, told)
	}
}

// Rule (Barrier): called again after an error it goes on where it stopped. So a round whose message
// came back is told again; else the node for which it was would wait for ever.
func TestBarrierTellsAgain(t *testing.T) {
	const typeRound = 15
	memory, err := funi.NewMemory(benchSlots)
	if err != nil {
		t.Fatal(err)
	}
	iface, err := funi.Initialize(memory)
	if err != nil {
		t.Fatal(err)
	}
	card, err := funi.Attach(memory)
	if err != nil {
		t.Fatal(err)
	}
	told := map[uint16]int{}
	looks := 0
	e, err := am.New(iface, 0, 3, func() {
		for _, s := range sentOf(card, typeRound) {
			node := s.Header().Node()
			if told[node]++; node == 1 && told[node] == 1 {
				card.Return(funi.Returned{Reason: arctic.ReasonQueueFull, Level: funi.Request,
					Header: s.Header(), Word: s[1]})
				card.Publish()
				continue
			}
			// The node before this one in the round tells it, too.
			from := map[uint16]uint16{1: 2, 2: 1}[node]
			in := card.Vacant(funi.Request)
			*in = s
			in[funi.SourceWord] = uint32(from)
			card.Deliver(funi.Request)
			card.Publish()
		}
		if looks++; looks > 1000 {
			t.Fatal("the barrier waits for ever")
		}
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	var u *am.Undelivered
	if err := e.Barrier(); !errors.As(err, &u) || !u.Library {
		t.Fatalf("a round came back: %v", err)
	}
	if err := e.Barrier(); err != nil || told[1] != 2 || told[2] != 1 {
		t.Errorf("called again: %v; told %v", err, told)
	}
}
