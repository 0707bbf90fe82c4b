package funi

// This file has the doorbells, with which a process wakes its context on the card.
//
// A card with thousands of contexts does not look at each in every step. It puts
// those that have been quiet to sleep and says so in their pages. A process that has
// stored an index or CNTL looks there, which costs a load of a word that hardly ever
// changes, and rings if its context sleeps. Card and process each store before they
// load (the card: asleep, then the indices once more; the process: the index, then
// asleep), and both stores are sequentially consistent, so one of them sees the other.
//
// Where the card has a thread of its own, the thread sleeps when there is nothing to do. Bit 31 of
// the same word then says so, and the process also wakes the thread (Memory.Wake). It does the same
// when it gives slots of a receive queue back: a context that is asleep does not wait for such
// slots, but one whose receive FIFO holds packets does.
//
// A process whose context sleeps looks for that in the doorbells, after it has rung. So before a
// sleep the card need not tell each of thousands of sleepers.
//
// Processes that share a page can ring for each other or take each other's rings away. A false ring
// costs the card one look. Because rings can be lost, a card also looks at its sleeping contexts in
// turn, now and then, unasked. A daemon makes a page for each user (engine.Card.Doorbells), so a
// user can delay only its own processes.

import "sync/atomic"

const (
	// MaxContexts is how many contexts a card can have at a time: their numbers have 16 bits, as
	// the virtual process IDs of Froening's thesis (section 3.4.4).
	MaxContexts = 1 << 16
	// NearBells is how many of them have their bells in a page of Doorbells. Those of the others
	// are in FarDoorbells.
	NearBells = 2048

	nearWords  = NearBells / 64
	farWords   = MaxContexts/64 - nearWords
	summaryFar = 32 // the bit of Summary of the first word of FarDoorbells.Words
)

// Doorbells is a page of doorbells of a card. Context n, counted over all pages, rings by setting
// bit n%64 of Bells[n/64], and then bit n/64 of Summary. The card takes bits with a swap.
type Doorbells struct {
	Summary uint64
	// Sleeps is not 0 while the card's thread sleeps. A process that rings takes it away, and wakes
	// the thread (Memory.Wake). A process of an earlier release does not look at it.
	Sleeps uint32
	_      [13]uint32
	Bells  [nearWords]uint64
}

// FarDoorbells is the bells of contexts from NearBells on, in two pages behind Doorbells. There is
// a level between, so that the card looks at one word: with w = n/64 - 32, context n sets bit n%64
// of Bells[w], then bit w%64 of Words[w/64], then bit 32 + w/64 of Doorbells.Summary.
type FarDoorbells struct {
	Words [(farWords + 63) / 64]uint64
	_     [16]uint64
	Bells [farWords]uint64
}

// Ring rings for context n. far is nil if there is none, and then contexts from NearBells on have
// no bell. Any goroutine may call it.
func (d *Doorbells) Ring(n uint32, far *FarDoorbells) {
	if n < NearBells {
		atomic.OrUint64(&d.Bells[n/64], 1<<(n%64))
		atomic.OrUint64(&d.Summary, 1<<(n/64))
		return
	}
	w := n%MaxContexts/64 - nearWords
	if far != nil && w < farWords {
		atomic.OrUint64(&far.Bells[w], 1<<(n%64))
		atomic.OrUint64(&far.Words[w/64], 1<<(w%64))
		atomic.OrUint64(&d.Summary, 1<<(summaryFar+w/64))
	}
}

// threadSleeps is the bit of the word asleep that says that the card's thread sleeps, too, and has
// to be woken.
const threadSleeps = 1 << 31

// rouse does what the word asleep, with the value n, asks of a process that has just stored
// something: it rings the doorbell and wakes the card's thread. It clears the thread's bit first,
// so a process that stores much before the thread runs wakes it once. If the card has stored
// another word meanwhile, the card looks at the indices after that.
func (m *Memory) rouse(n uint32) {
	if bell := n &^ threadSleeps; bell != 0 {
		d := m.Doorbells
		if d.Ring(bell-1, m.Far); n == bell && m.Wake != nil && atomic.LoadUint32(&d.Sleeps) != 0 &&
			atomic.CompareAndSwapUint32(&d.Sleeps, 1, 0) {
			m.Wake()
		}
	}
	if n&threadSleeps != 0 && m.Wake != nil && atomic.CompareAndSwapUint32(&m.Page[asleepWord], n, n&^threadSleeps) {
		m.Wake()
	}
}
