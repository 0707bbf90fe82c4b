package am

// This file is the barrier: a dissemination barrier of ceil(log2 N) rounds. In
// round k a node tells the node 2^k further on that it has come so far, and waits
// for the one 2^k before it.

import "math/bits"

// barrierHandler is the handler number of barrier messages.
const barrierHandler = handlerTable - 1

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
		if err := e.WaitFor((e.node-1<<k+e.nodes)%e.nodes, func() bool { return int32(b.arrivals[k]-want) >= 0 }); err != nil {
			return err
		}
	}
	b.passed = want
	return nil
}

// barrierArrived counts an arrival, and drops a probe.
func (e *Endpoint) barrierArrived(m *Message) {
	if len(m.Words) == 4 && m.Words[0] < uint32(len(e.barrier.arrivals)) {
		e.barrier.arrivals[m.Words[0]]++
	}
}
