package funi

// This file is the card's end. Everything it loads may have been written by a
// hostile process; everything it needs to trust it keeps in private copies.

import (
	"errors"
	"sync/atomic"

	"github.com/funet/funet/uspace/arctic"
)

// Card is the card's end of a context. It belongs to the card's goroutine.
//
// Each direction is latched or halted. The rings of a halted direction are empty: no slot is
// pending, and none is vacant.
type Card struct {
	memory  *Memory
	page    *Page
	send    [arctic.Levels]cardSend
	receive [arctic.Levels]cardReceive
	trigger trigger // trigger.go

	returns        uint32 // next return to write
	lost           uint32
	operationsLost uint32
	// lostAt has, for each word of the page, the number of the last return that was lost there
	// (lost.go)
	lostAt  [LostNodes]uint32
	changed bool   // the process has something to see that Awaited has not told
	writes  uint32 // writes of others into the process's memory (written.go)
	wrote   bool   // some of them since Awaited
	fence   uint32 // target of a store that orders the loads behind it; never read
}

// cardSend is a send queue as the card sees it.
type cardSend struct {
	ring
	tail   uint32 // next slot to retrieve
	stored uint32 // tail as last stored
}

// cardReceive is a receive queue as the card sees it.
type cardReceive struct {
	ring
	head   uint32 // next slot to deliver into
	tail   uint32 // as last loaded
	stored uint32 // head as last stored
}

// NewCard returns the card's end of a context that has just been powered up. Both directions are
// halted and the return ring is empty. The page has the version of the ABI and the sizes of remote
// memory. NewCard does not initialise the registers (thesis 3.1.2, RESET).
func NewCard(m *Memory) *Card {
	atomic.StoreUint32(&m.Page[returnHead], 0)
	atomic.StoreUint32(&m.Page[returnsLost], 0)
	atomic.StoreUint32(&m.Page[operationsLost], 0)
	atomic.StoreUint32(&m.Page[lostSeen], 0)
	atomic.StoreUint32(&m.Page[versionWord], ABI)
	c := new(Card)
	c.Move(m)
	c.PutRemoteSizes()
	return c
}

// Attach is NewCard for a context that the process has initialised. It reads the queue geometry,
// checks it against the memory, and starts indices from zero.
func Attach(m *Memory) (*Card, error) {
	for l := range arctic.Levels {
		m.Page.Store(sendTail[l], 0)
		m.Page.Store(receiveHead[l], 0)
	}
	c := NewCard(m)
	if err := errors.Join(c.LatchSend(), c.LatchReceive()); err != nil {
		return nil, err
	}
	return c, nil
}

// LatchSend takes over the send queues as the registers describe them. It checks the geometry and
// masks the tails. On an error, ErrSlots or ErrLayout, the queues stay halted.
func (c *Card) LatchSend() error {
	send, err := c.memory.rings(sendBase)
	if err != nil {
		return err
	}
	for l, r := range send {
		stored := atomic.LoadUint32(r.tl)
		c.send[l] = cardSend{ring: r, tail: stored & r.mask, stored: stored}
	}
	c.latchTrigger()
	return nil
}

// LatchReceive takes over the receive queues in the same way.
func (c *Card) LatchReceive() error {
	receive, err := c.memory.rings(receiveBase)
	if err != nil {
		return err
	}
	for l, r := range receive {
		stored := atomic.LoadUint32(r.hd)
		c.receive[l] = cardReceive{ring: r, head: stored & r.mask, tail: atomic.LoadUint32(r.tl) & r.mask,
			stored: stored}
	}
	return nil
}

// HaltSend publishes the tails and lets go of the send queues.
func (c *Card) HaltSend() {
	c.Publish()
	c.haltTrigger()
	for l, r := range c.page.halted(sendBase) {
		c.send[l] = cardSend{ring: r}
	}
}

// HaltReceive publishes the heads and lets go of the receive queues.
func (c *Card) HaltReceive() {
	c.Publish()
	for l, r := range c.page.halted(receiveBase) {
		c.receive[l] = cardReceive{ring: r}
	}
}

// Divert makes the card deliver into slots of its own instead of into the halted receive queues:
// the drain queues of thesis 4.2. There are n for each level, a power of two, of which n-1 may be
// filled. Until Diverted ends it, nothing is written to the process's memory and nothing is
// published.
func (c *Card) Divert(n int) {
	for l := range c.receive {
		c.receive[l].slots, c.receive[l].mask = make([]Slot, n), uint32(n-1)
	}
}

// Diverted returns the slots that were filled since Divert and halts the receive queues again.
func (c *Card) Diverted() (slots [arctic.Levels][]Slot) {
	for l := range slots {
		q := &c.receive[l]
		slots[l] = q.between(0, q.head)
		q.stored = q.head // nothing to publish
	}
	c.HaltReceive()
	return slots
}

// Memory returns what the context shares.
func (c *Card) Memory() *Memory { return c.memory }

// Move makes the card use other memory with the same content from now on. Both
// directions must be halted.
func (c *Card) Move(m *Memory) {
	c.memory, c.page, c.trigger = m, m.Page, trigger{}
	send, receive := m.Page.halted(sendBase), m.Page.halted(receiveBase)
	for l := range arctic.Levels {
		c.send[l], c.receive[l] = cardSend{ring: send[l]}, cardReceive{ring: receive[l]}
	}
}

// Load returns a register.
func (c *Card) Load(r Register) uint32 { return c.page.Load(r) }

// Store sets a register that the card owns.
func (c *Card) Store(r Register, v uint32) {
	c.page.Store(r, v)
	if r != Ticket { // which no program waits for
		c.changed = true
	}
}

// Resume makes the card go on with memory that another card has used before. Returns that are in
// the return ring stay there. Both directions must be halted.
func (c *Card) Resume() {
	c.returns, c.lost = atomic.LoadUint32(&c.page[returnHead]), atomic.LoadUint32(&c.page[returnsLost])
	c.operationsLost = atomic.LoadUint32(&c.page[operationsLost])
	c.writes = c.page.Written()
	for n := range c.lostAt {
		c.lostAt[n] = c.lost // or earlier: the other card knew
	}
}

// PutControl publishes status bits of CNTL: it replaces the value seen by another. If the process
// has written CNTL in the meantime, PutControl stores nothing and returns false. The card then
// looks again at its next step.
func (c *Card) PutControl(seen, v uint32) bool {
	if !atomic.CompareAndSwapUint32(&c.page[int(Control)*registerWords], seen, v) {
		return false
	}
	c.changed = true
	return true
}

// PutFault says why MERR is set.
func (c *Card) PutFault(r arctic.Reason) { atomic.StoreUint32(&c.page[faultWord], uint32(r)) }

// Sleep tells the process that from now on it has to ring bell n when it has stored something, and
// to wake the card's thread if the doorbells say that it sleeps (Doorbells.Sleeps). A process that
// does not look there is told to wake the thread in any case, once. The card must look at the
// context once more after it.
func (c *Card) Sleep(n uint32) {
	if atomic.LoadUint32(&c.page[looksWord]) == 0 {
		c.Doze(n)
		return
	}
	atomic.StoreUint32(&c.page[asleepWord], n+1)
}

// Doze is Sleep for a card whose thread is about to sleep: the process also has to wake the thread
// (Memory.Wake), once. Contexts that are awake doze, too.
func (c *Card) Doze(n uint32) {
	atomic.StoreUint32(&c.page[asleepWord], threadSleeps|(n+1))
}

// Wake tells the process that it need not ring.
func (c *Card) Wake() { atomic.StoreUint32(&c.page[asleepWord], 0) }

// Unseen reports whether Awaited has something to tell. It changes nothing.
func (c *Card) Unseen() bool { return c.changed || c.wrote }

// Awaited reports whether the process sleeps, and has something to see that was not there at the
// last call. That is a delivery, a return, retired slots, a new CNTL, another register that Store
// has set, or writes that the process asks for, whose count Awaited stores. Awaited forgets that
// the process sleeps, and the caller wakes it once. Call it after Publish, Return and PutControl.
// That includes a PutControl that stored the value from before the process's write.
func (c *Card) Awaited() bool {
	if c.wrote {
		c.wrote = false
		atomic.StoreUint32(&c.fence, 0) // what was written is visible before the load
		if atomic.LoadUint32(&c.page[wakeWord])&wakeWrites != 0 {
			atomic.StoreUint32(&c.page[writtenWord], c.writes)
			c.changed = true
		}
	}
	if !c.changed {
		return false
	}
	c.changed = false
	v := atomic.LoadUint32(&c.page[wakeWord])
	if v&wakeOnce == 0 {
		return false
	}
	// A process that has stored something else meanwhile is awake, and has looked.
	atomic.CompareAndSwapUint32(&c.page[wakeWord], v, v&^wakeOnce)
	return true
}

// PutGone tells the process that the card has detached the context. Wake it, too.
func (c *Card) PutGone() { c.page.PutGone() }

// Pending returns how many packets wait in the send queue: at most its size
// minus one, whatever the process wrote.
func (c *Card) Pending(l Level) int {
	q := &c.send[l&1]
	return int((atomic.LoadUint32(q.hd) - q.tail) & q.mask)
}

// Still reports whether the process has done nothing that the card has not seen: CNTL is as last
// seen, and no packet waits in the send queues.
func (c *Card) Still(control uint32) bool {
	reply, request := &c.send[Reply], &c.send[Request]
	return atomic.LoadUint32(&c.page[int(Control)*registerWords]) == control &&
		(atomic.LoadUint32(reply.hd)-reply.tail)&reply.mask == 0 &&
		(atomic.LoadUint32(request.hd)-request.tail)&request.mask == 0
}

// Asks returns what Pending and Still say, in one look: how many packets wait in each send queue,
// and whether CNTL is another than the card has seen.
func (c *Card) Asks(control uint32) (replies, requests uint32, written bool) {
	reply, request := &c.send[Reply], &c.send[Request]
	return (atomic.LoadUint32(reply.hd) - reply.tail) & reply.mask,
		(atomic.LoadUint32(request.hd) - request.tail) & request.mask,
		atomic.LoadUint32(&c.page[int(Control)*registerWords]) != control
}

// Slot returns the i-th pending slot of the send queue. Its content may change
// under the card: load the header once, copy, check the copy.
func (c *Card) Slot(l Level, i int) *Slot {
	q := &c.send[l&1]
	return &q.slots[(q.tail+uint32(i))&q.mask]
}

// Retire takes the first n pending slots off the send queue. The process gets them back at Publish.
func (c *Card) Retire(l Level, n int) {
	q := &c.send[l&1]
	q.tail = (q.tail + uint32(n)) & q.mask
}

// Vacant returns the head slot of the receive queue to deliver into, or nil when the queue is full.
// Deliver completes the slot.
func (c *Card) Vacant(l Level) *Slot {
	q := &c.receive[l&1]
	next := (q.head + 1) & q.mask
	if next == q.tail {
		q.tail = atomic.LoadUint32(q.tl) & q.mask
		if next == q.tail {
			return nil
		}
	}
	return &q.slots[q.head&q.mask]
}

// Room returns how many slots of the receive queue are vacant.
func (c *Card) Room(l Level) int {
	q := &c.receive[l&1]
	q.tail = atomic.LoadUint32(q.tl) & q.mask
	return int((q.tail - q.head - 1) & q.mask)
}

// Deliver completes the slot that Vacant returned. The process sees it after Publish.
func (c *Card) Deliver(l Level) {
	q := &c.receive[l&1]
	q.head = (q.head + 1) & q.mask
}

// Publish stores the indices that changed since the last call, once a step instead
// of once a packet.
func (c *Card) Publish() {
	for l := range c.send {
		if q := &c.receive[l]; q.stored != q.head {
			q.stored, c.changed = q.head, true
			atomic.StoreUint32(q.hd, q.head)
		}
		if q := &c.send[l]; q.stored != q.tail {
			q.stored, c.changed = q.tail, true
			atomic.StoreUint32(q.tl, q.tail)
		}
	}
}

// Return puts a packet that could not be delivered into the return ring, or
// counts it when the ring is full.
func (c *Card) Return(r Returned) {
	c.changed = true
	if c.returns-atomic.LoadUint32(&c.page[returnTail]) >= ReturnSlots {
		c.lose(r.Header)
		return
	}
	e := c.page[returnRing+int(c.returns%ReturnSlots)*returnWords:]
	e[0], e[1], e[2], e[3] = uint32(r.Reason), uint32(r.Level), uint32(r.Header), r.Word
	c.returns++
	atomic.StoreUint32(&c.page[returnHead], c.returns)
}
