package timing

// This file has the bus: how long it is taken.

import "time"

// Bus is the bus between a processor, its memory and its card. It carries one transaction at a
// time; the processor's go first. Make it with NewBus.
type Bus struct {
	overhead int64
	word     int64
	free     int64 // end of the last transaction granted so far

	deliveries [2]uint32 // bursts into the receive queues
}

// NewBus makes a bus on which a transaction takes overhead, and word for each word of 32 bits
// besides (thesis 6.1.5: fifteen bus cycles, and two for each word).
func NewBus(overhead, word time.Duration) *Bus {
	return &Bus{overhead: int64(overhead), word: int64(word)}
}

// Transaction returns how long a transaction of the given number of words takes, in nanoseconds.
func (b *Bus) Transaction(words int) int64 { return b.overhead + int64(words)*b.word }

// processor lets the processor's next transaction follow those before it and returns when it ends.
func (b *Bus) processor(now int64, words int) (done int64) {
	b.free = max(b.free, now) + b.Transaction(words)
	return b.free
}

// Card gives the card the bus at the given time and returns the end of its transaction. If the
// processor has the bus or waits for it, or a transaction of the card is under way, Card returns
// false and the time to ask again. By then the processor may be first again.
func (b *Bus) Card(now int64, words int) (at int64, granted bool) {
	if b.free > now {
		return b.free, false
	}
	b.free = now + b.Transaction(words)
	return b.free, true
}

// Deliver notes a transaction of the card into the receive queue of a level, 0 or 1.
func (b *Bus) Deliver(level int) { b.deliveries[level&1]++ }

// Deliveries returns how many transactions Deliver has noted for a level.
func (b *Bus) Deliveries(level int) uint32 { return b.deliveries[level&1] }
