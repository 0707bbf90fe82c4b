package funi

// This file is the doorbells: how a process wakes its context on the card.
//
// A card with thousands of contexts does not look at each in every step. It puts
// those that have been quiet to sleep and says so in their pages. A process that has
// stored an index or CNTL looks there, which costs a load of a word that hardly ever
// changes, and rings if its context sleeps. Card and process each store before they
// load (the card: asleep, then the indices once more; the process: the index, then
// asleep), and both stores are sequentially consistent, so one of them sees the other.
//
// Where the card has a thread of its own, the thread sleeps when there is nothing to do. Bit 31 of
// the same word then says so, and the process wakes the thread (Memory.Wake) besides. It also does
// so when it gives slots of a receive queue back. No context that sleeps waits for such slots, but
// one whose receive FIFO holds packets does.
//
// Processes that share a page can ring for each other or take each other's rings away. The
// first costs the card a look. Because of the second a card also looks at its sleeping
// contexts in turn, now and then, unasked. So a daemon makes a page for each user
// (engine.Card.Doorbells): what he does there delays himself and nobody else.

import "sync/atomic"

// MaxContexts is how many contexts a card can have at a time.
const MaxContexts = 2048

// Doorbells is a doorbell page of a card. Context n, counted over all pages, rings by setting bit
// n%64 of Bells[n/64] and then bit n/64 of Summary. The card takes bits with a swap.
type Doorbells struct {
	Summary uint64
	_       [7]uint64
	Bells   [MaxContexts / 64]uint64
}

// Ring rings for context n, modulo MaxContexts. Any goroutine may call it.
func (d *Doorbells) Ring(n uint32) {
	n %= MaxContexts
	atomic.OrUint64(&d.Bells[n/64], 1<<(n%64))
	atomic.OrUint64(&d.Summary, 1<<(n/64))
}

// threadSleeps is the bit of the word asleep that says that the thread of the card
// sleeps, too, and has to be woken.
const threadSleeps = 1 << 31

// rouse does what the word asleep, which is n, asks of a process that has just stored
// something: it rings, and wakes the card's thread. It takes the bit away first, so that
// a process that stores much before the thread runs wakes it once. Where the card has
// stored another word meanwhile, it looks at the indices after that.
func (m *Memory) rouse(n uint32) {
	if bell := n &^ threadSleeps; bell != 0 {
		m.Doorbells.Ring(bell - 1)
	}
	if n&threadSleeps != 0 && m.Wake != nil && atomic.CompareAndSwapUint32(&m.Page[asleepWord], n, n&^threadSleeps) {
		m.Wake()
	}
}
