package apps

// This file implements flood: node 0 sends requests to node 1 as fast as it can, and node 1 replies
// to each. Both stop looking at their queues now and then. Each message carries its number, so both
// nodes know at the end which messages were lost or arrived twice, at both priorities.
// twice, at both priorities.

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/funet/funet/uspace/am"
)

// Handler numbers of flood.
const (
	floodHandler = 0
	echoHandler  = 1
)

const (
	// floodBurst is how many requests node 0 posts between two polls.
	floodBurst = 64
	// giveUp is how long, in nanoseconds, a node waits for messages before it counts
	// the missing ones as lost.
	giveUp = 10e9
)

// FloodOptions are the same on all nodes.
type FloodOptions struct {
	Messages int
	Stalls   int   // of each node, at random moments
	Stall    int64 // length of a stall in nanoseconds
	Seed     uint64
	Progress Progress
}

// FloodResult counts the messages that arrived at a node: requests at node 1, replies at node 0,
// none elsewhere.
type FloodResult struct {
	Delivered   int
	Lost        int
	Duplicated  int
	Damaged     int
	Nanoseconds int64
}

// receiver notes the messages that arrive at a node.
type receiver struct {
	FloodResult
	seen   []uint64 // bitmap
	stalls map[int]bool
	owed   bool // a stall is due after the present poll
	failed error
}

// mark notes message i, and whether it is time for a stall.
func (r *receiver) mark(m *am.Message) {
	if len(m.Words) != 4 || m.Words[1] != ^m.Words[0] || int(m.Words[0])/64 >= len(r.seen) {
		r.Damaged++
		return
	}
	i := int(m.Words[0])
	if r.seen[i/64]>>(i%64)&1 != 0 {
		r.Duplicated++
		return
	}
	r.seen[i/64] |= 1 << (i % 64)
	r.Delivered++
	r.owed = r.owed || r.stalls[r.Delivered]
}

// Flood runs flood. clock returns nanoseconds; pause lets the given number of them pass without
// letting the card run.
func Flood(e *am.Endpoint, clock func() int64, pause func(ns int64), o FloodOptions) (FloodResult, error) {
	if o.Messages < 1 || o.Messages > 1<<31 || o.Stalls < 0 || o.Stall < 0 {
		return FloodResult{},
			fmt.Errorf("flooding with %d messages and %d stalls of %d ns: use 1 to 2^31 messages and no negative numbers", o.Messages, o.Stalls, o.Stall)
	}
	r := &receiver{seen: make([]uint64, (o.Messages+63)/64), stalls: map[int]bool{}}
	random := rand.New(rand.NewPCG(o.Seed, uint64(e.Node())))
	for range o.Stalls {
		r.stalls[1+random.IntN(o.Messages)] = true
	}
	err := errors.Join(
		e.Handle(floodHandler, func(m *am.Message) {
			r.mark(m)
			if err := m.Reply4(echoHandler, m.Words[0], m.Words[1], 0, 0); err != nil {
				r.failed = err
			}
		}),
		e.Handle(echoHandler, r.mark))
	if err != nil {
		return FloodResult{}, err
	}
	if err := e.Barrier(); err != nil {
		return FloodResult{}, err
	}
	begin := clock()
	if e.Node() < 2 {
		if err := r.run(e, clock, pause, o); err != nil {
			return FloodResult{}, err
		}
		r.Lost = o.Messages - r.Delivered
	}
	r.Nanoseconds = clock() - begin
	err = e.Barrier() // what comes twice may come late
	return r.FloodResult, errors.Join(err, r.failed)
}

// run sends, on node 0, and receives until all messages have arrived or none has for giveUp.
func (r *receiver) run(e *am.Endpoint, clock func() int64, pause func(int64), o FloodOptions) error {
	sent, last, since := 0, 0, clock()
	if e.Node() == 1 {
		sent = o.Messages // it only replies
	}
	for r.Delivered < o.Messages || sent < o.Messages {
		for i := 0; i < floodBurst && sent < o.Messages; i++ {
			if err := e.Post4(1, floodHandler, uint32(sent), ^uint32(sent), 0, 0); err != nil {
				return err
			}
			sent++
		}
		if _, err := e.Poll(); err != nil {
			return err
		}
		o.Progress.tell(r.Delivered, o.Messages)
		if r.owed {
			r.owed = false
			pause(o.Stall)
		}
		if now := clock(); r.Delivered != last || sent < o.Messages {
			last, since = r.Delivered, now
		} else if now-since > giveUp {
			return nil
		}
	}
	return nil
}
