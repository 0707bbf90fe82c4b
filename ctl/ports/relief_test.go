package ports

// This file tests a card whose program computes and calls by turns, beside package card's relief.

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/xdp"
)

// Rule: messages to a program that does not call are in its queue when they have been acknowledged,
// once each; between such times it exchanges messages, and calls from one goroutine and then from
// another.
func TestProgramComputesByTurns(t *testing.T) {
	const turns, each = 30, 20
	b := newBed(t, 2, 2, xdp.AttachNative)
	until := time.Now().Add(2 * patience)
	var cards [2]*card.Card
	for node := range cards {
		memory := memory(t)
		m, err := b.make(node, uint16(node), memory)
		if err != nil {
			t.Fatal(err)
		}
		opened := make(chan error)
		go func() {
			runtime.LockOSThread() // which has lost its capabilities, and ends
			k, err := openCard(m, memory, uint16(node), len(cards))
			cards[node] = k
			opened <- err
		}()
		if err := <-opened; err != nil {
			t.Fatal(err)
		}
	}
	computed := func(turn uint32) error { // of node 1, in a goroutine of its own
		i := cards[1].Interface()
		for n := range uint32(each) {
			s := i.Receive(funi.Request)
			if s == nil {
				return fmt.Errorf("turn %d: %d of %d messages are in the queue", turn, n, each)
			}
			word := s[funi.PayloadWord]
			if i.Release(funi.Request); word/each != turn {
				return fmt.Errorf("turn %d: message %d", turn, word)
			}
		}
		for n := range uint32(each) {
			send1(cards[1], 0, n)
		}
		return nil
	}
	for turn := range uint32(turns) {
		for n := range uint32(each) {
			send1(cards[0], 1, turn*each+n)
		}
		for flies := true; flies; {
			cards[0].Drive()
			cards[0].Alone(func() {
				s, _ := cards[0].Engine().PeerState(1)
				flies = cards[0].Engine().Counters().PacketsSent < uint64(turn+1)*each || s.InFlight > 0
			})
			if time.Now().After(until) {
				t.Fatalf("turn %d: node 1 does not acknowledge", turn)
			}
		}
		done := make(chan error)
		go func() { done <- computed(turn) }()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		for range each {
			if _, err := receive1(cards[0], until); err != nil {
				t.Fatalf("turn %d: %v", turn, err)
			}
		}
	}
	for node, k := range cards {
		if err := k.Close(patience); err != nil {
			t.Errorf("node %d: %v", node, err)
		}
	}
}
