package paper

// This file has the steps of programs that send requests between modelled machines in virtual time,
// by the engine's units like any traffic. The programs themselves take no time.

import (
	"time"

	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/sim"
)

const (
	// slots is the number of slots in a queue, more than a program uses at a time.
	slots = 64
	// mostTraffic is longer than any traffic takes, in virtual time.
	mostTraffic = time.Second
)

// post puts a request into the send queue of a process.
func post(p *sim.Process, compose func(*funi.Slot)) {
	compose(p.Interface().Reserve(funi.Request))
	p.Interface().Commit(funi.Request)
}

// await has a process look each step until something is so.
func await(p *sim.Process, step time.Duration, so func() bool) {
	for !so() {
		p.Sleep(int64(step))
	}
}
