package funi_test

import (
	"fmt"

	"github.com/funet/funet/tests/bed"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
)

// A process and a card share memory: registers and four queues of slots. A message is a slot that
// is filled in and committed; it arrives in a slot of a receive queue on another card. Here both
// cards are in this process, and joined by a cable in memory.
func Example() {
	var cards [2]*engine.Card
	var process [2]*funi.Interface
	address := func(card int) [6]byte { return [6]byte{2, 0, 0, 0, 0, byte(card)} }
	for i, p := range bed.Cables(64, 1514) {
		cfg := engine.Native()
		cfg.Card, cfg.Incarnation, cfg.Routes, cfg.Ports = uint16(i), 1, []uint32{0, 1}, []port.Port{p}
		cfg.Peers = []engine.Peer{{Card: uint16(1 - i), Address: address(1 - i), Local: address(i)}}
		memory, err := funi.NewMemory(64) // slots of each queue
		if err != nil {
			fmt.Println(err)
			return
		}
		if process[i], err = funi.Initialize(memory); err != nil {
			fmt.Println(err)
			return
		}
		if cards[i], err = engine.New(cfg); err != nil {
			fmt.Println(err)
			return
		}
		if _, err := cards[i].Attach(memory, 1, uint16(i), 0); err != nil { // node i of group 1
			fmt.Println(err)
			return
		}
	}

	slot := process[0].Reserve(funi.Request) // nil: the queue is full
	slot.SetHeader(funi.NewHeader(1, 5, 2))  // to node 1, of type 5, with two words
	slot[funi.PayloadWord], slot[funi.PayloadWord+1] = 6, 7
	process[0].Commit(funi.Request)

	for now := int64(1); !process[1].Waiting(); now += 1000 { // a card's thread does this
		cards[0].Step(now)
		cards[1].Step(now)
	}
	got := process[1].Receive(funi.Request) // nil: nothing is there
	fmt.Println("from node", got[funi.SourceWord], "type", got.Header().Type(), "words", got.Payload())
	process[1].Release(funi.Request) // the slot is the card's again
	// Output: from node 0 type 5 words [6 7]
}
