package funi

// This file lets a process learn that others have written into its memory: by a put without a
// notification, an operation on elements, or a signal.
//
// The queues do not show such a write. A process that waits for one asks the card
// (Interface.Watch). The card then counts the writes in a word of the page, once a step, and wakes
// a process that sleeps (Arm). For a process that does not ask, the card stores nothing in the page
// and wakes nothing.
//
// No write is lost between the process's last look at its memory and its sleep. The process asks,
// looks, arms, looks at the count once more, and sleeps. The card writes the memory, then loads
// whether the process asks, then stores the count, then loads whether it is armed. Between the
// first two the card makes a store of its own: without it a processor may load before others see
// what it has written. So the process sees what was written before it asked. For what is written
// later it finds a new count or is woken.
//
// The count tells that something was written, not what. Each part of a long put may count. A
// process that overwrites these words can only spoil its own sleep.

import "sync/atomic"

const (
	writtenWord = 0x6a8 / 4

	// Bits of the word wake. The card clears only the first when it wakes the process.
	wakeOnce   = 1 << 0
	wakeWrites = 1 << 1
)

// Watch starts or stops the card's count of what others write into the process's memory
// (Published.Written), for which the card also wakes the process. It returns whether the count was
// on before. Look at the memory after asking. What a transfer or a get of the process's own writes
// need not be watched: a notice or a completion follows. Watch belongs to the goroutine of the
// interface.
func (i *Interface) Watch(on bool) (was bool) {
	v := atomic.LoadUint32(&i.page[wakeWord])
	if was = v&wakeWrites != 0; was != on {
		// a wake that the card clears meanwhile comes once more
		atomic.StoreUint32(&i.page[wakeWord], v^wakeWrites)
	}
	return was
}

// Written returns the count of writes, which starts at no particular time. It stands still while
// the process does not ask.
func (p *Page) Written() uint32 { return atomic.LoadUint32(&p[writtenWord]) }

// Written returns the page's Written.
func (i *Interface) Written() uint32 { return i.page.Written() }

// The card's end.

// Wrote notes that the card has changed the process's memory for another, to be told by
// Awaited.
func (c *Card) Wrote() {
	c.writes++
	c.wrote = true
}
