package attack

// This file attacks by barriers (funi/trigger.go, command 4). Each context reaches barriers of
// every number with other members each time, two at a time, with members that never come or that
// are none. It forges arrivals, as additions and other operations on key 0 of node 0. Every fourth
// context reads no notification. Now and then a context ends, and its successor has passed nothing.

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

const (
	barrierContexts = 16
	// forgedBurst is how many arrivals a context forges in a round.
	forgedBurst = 4
)

func barriers() Attack {
	return Attack{
		Name: "barriers_16", Does: "barriers of 16 contexts that agree on nothing, and arrivals forged",
		Groups: 1, Contexts: barrierContexts, Dead: 1, slots: 64, remote: remoteSizes,
		seated: (*player).byTrigger,
		round:  (*player).meet,
	}
}

// meet has each context reach a barrier, and forge arrivals at others.
func (p *player) meet() (done int) {
	for _, s := range p.seats {
		if s.k == nil {
			continue
		}
		if !s.keeps() {
			s.forget()
		}
		for range forgedBurst {
			if !s.commitAt(funi.Request, p.forgeArrival) {
				break
			}
			done++
		}
		done += s.anyTrigger(funi.TriggerBarrier, p.anyBarrier())
		if s.next++; rand.IntN(sendTurns) == 0 {
			s.k.Close()
			s.k = nil // sitAgain attaches another
		}
	}
	return done
}

// anyBarrier returns the parameter of a barrier. A half of them can be passed, if all contexts
// happen to reach them.
func (p *player) anyBarrier() uint32 {
	all := 2 * p.Contexts
	switch rand.IntN(8) {
	case 0, 1, 2, 3:
		return funi.Barrier(uint8(rand.IntN(2)), all)
	case 4:
		return rand.Uint32() >> rand.IntN(32)
	case 5:
		return funi.Barrier(uint8(rand.IntN(funi.MaxBarriers)), 1+rand.IntN(funi.MaxMembers))
	case 6:
		return funi.Barrier(uint8(rand.IntN(funi.MaxBarriers)), all+2*p.Dead)
	}
	return funi.Barrier(uint8(rand.IntN(funi.MaxBarriers)), 1+rand.IntN(all))
}

// forgeArrival composes an addition to key 0 of node 0 as a card's arrival is, or another operation
// on some key 0.
func (p *player) forgeArrival(w *funi.Slot) {
	o := funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteAdd, Element: arctic.Uint64,
		Bytes: 8, Fetch: true, Address: rand.Uint64() >> (16 + rand.IntN(48)),
		Operands: binary.LittleEndian.AppendUint64(nil, rand.Uint64()>>rand.IntN(64))}}
	to := uint16(0)
	if rand.IntN(4) == 0 {
		o.Operation, to = arctic.Operation(rand.IntN(int(arctic.RemoteBarrier)+1)), uint16(rand.IntN(2*p.Contexts))
		o.Fetch = rand.IntN(2) == 0
	}
	w.SetOperation(to, &o)
}
