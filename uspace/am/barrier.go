package am

// This file is the barrier: a dissemination barrier of ceil(log2 N) rounds. In
// round k a node tells the node 2^k further on that it has come so far, and waits
// for the one 2^k before it.

import (
	"math"
	"math/bits"
)

// barrierHandler is the handler number of barrier messages.
const barrierHandler = handlerTable - 1

// A node that waits sends a message without a round to the one that it waits for, every
// so many polls (some tens of milliseconds on a card in the same process), to learn
// whether that one is still there.
const (
	probe      = math.MaxUint32
	probePolls = 1 << 16
)

// barrier counts arrivals by round; counts never go back, so a fast node may be
// one barrier ahead.
type barrier struct {
	passed   uint32
	arrivals [16]uint32
}

// Barrier returns when every node of the group has called it. All nodes call it
// equally often. It returns an Undelivered error when a node cannot be reached.
func (e *Endpoint) Barrier() error {
	b := &e.barrier
	want := b.passed + 1
	for k := range bits.Len(uint(e.nodes - 1)) {
		if err := e.Request4((e.node+1<<k)%e.nodes, barrierHandler, uint32(k), 0, 0, 0); err != nil {
			return err
		}
		if err := e.await((e.node-1<<k+e.nodes)%e.nodes, func() bool { return int32(b.arrivals[k]-want) >= 0 }); err != nil {
			return err
		}
	}
	b.passed = want
	return nil
}

// await is Wait for something that a node has yet to send. Now and then it sends that
// node a message that means nothing: it comes back if the node is gone, which nothing
// else would tell when everything sent before has been acknowledged.
func (e *Endpoint) await(node int, done func() bool) error {
	for polls := 1; !done(); polls++ {
		if _, err := e.Poll(); err != nil {
			return err
		}
		if polls%probePolls == 0 && !done() {
			if err := e.Request4(node, barrierHandler, probe, 0, 0, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *Endpoint) barrierArrived(m *Message) {
	if len(m.Words) == 4 && m.Words[0] < uint32(len(e.barrier.arrivals)) {
		e.barrier.arrivals[m.Words[0]]++
	}
}
