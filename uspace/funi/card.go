package funi

// This file is the card's end. Everything it loads may have been written by a
// hostile process; everything it needs to trust it keeps in private copies.

import (
	"sync/atomic"

	"github.com/funet/funet/uspace/arctic"
)

// Card is the card's end of a context. It belongs to the card's goroutine.
type Card struct {
	page    *Page
	send    [arctic.Levels]ring
	receive [arctic.Levels]ring

	sendTail    [arctic.Levels]uint32 // next slot to retrieve
	receiveHead [arctic.Levels]uint32 // next slot to deliver into
	receiveTail [arctic.Levels]uint32 // as last loaded
	headStored  [arctic.Levels]uint32 // receive head as last stored
	tailStored  [arctic.Levels]uint32 // send tail as last stored
	returns     uint32                // next return to write
	lost        uint32
}

// Attach reads the queue geometry of an initialised context, checks it against
// the memory and returns the card's end. Indices start from zero.
func Attach(m *Memory) (*Card, error) {
	send, receive, err := m.rings()
	if err != nil {
		return nil, err
	}
	c := &Card{page: m.Page, send: send, receive: receive}
	for l := range arctic.Levels {
		m.Page.Store(sendTail[l], 0)
		m.Page.Store(receiveHead[l], 0)
	}
	atomic.StoreUint32(&m.Page[returnHead], 0)
	atomic.StoreUint32(&m.Page[returnsLost], 0)
	return c, nil
}

// Store sets a register that the card owns.
func (c *Card) Store(r Register, v uint32) { c.page.Store(r, v) }

// Pending returns how many packets wait in the send queue: at most its size
// minus one, whatever the process wrote.
func (c *Card) Pending(l Level) int {
	mask := c.send[l&1].mask
	return int((c.page.Load(sendHead[l&1]) - c.sendTail[l&1]) & mask)
}

// Slot returns the i-th pending slot of the send queue. Its content may change
// under the card: load the header once, copy, check the copy.
func (c *Card) Slot(l Level, i int) *Slot {
	return c.send[l&1].slot(c.sendTail[l&1] + uint32(i))
}

// Retire takes the first n pending slots off the send queue. The process gets them
// back at Publish.
func (c *Card) Retire(l Level, n int) {
	c.sendTail[l&1] = (c.sendTail[l&1] + uint32(n)) & c.send[l&1].mask
}

// Vacant returns the head slot of the receive queue to deliver into, or nil when
// the queue is full. Deliver makes it count.
func (c *Card) Vacant(l Level) *Slot {
	l &= 1
	mask := c.receive[l].mask
	next := (c.receiveHead[l] + 1) & mask
	if next == c.receiveTail[l] {
		c.receiveTail[l] = c.page.Load(receiveTail[l]) & mask
		if next == c.receiveTail[l] {
			return nil
		}
	}
	return c.receive[l].slot(c.receiveHead[l])
}

// Deliver completes the slot that Vacant returned. The process sees it after
// Publish.
func (c *Card) Deliver(l Level) {
	c.receiveHead[l&1] = (c.receiveHead[l&1] + 1) & c.receive[l&1].mask
}

// Publish stores the indices that changed since the last call, once a step instead
// of once a packet.
func (c *Card) Publish() {
	for l := range arctic.Levels {
		if c.headStored[l] != c.receiveHead[l] {
			c.headStored[l] = c.receiveHead[l]
			c.page.Store(receiveHead[l], c.receiveHead[l])
		}
		if c.tailStored[l] != c.sendTail[l] {
			c.tailStored[l] = c.sendTail[l]
			c.page.Store(sendTail[l], c.sendTail[l])
		}
	}
}

// Return puts a packet that could not be delivered into the return ring, or
// counts it when the ring is full.
func (c *Card) Return(r Returned) {
	if c.returns-atomic.LoadUint32(&c.page[returnTail]) >= ReturnSlots {
		c.lost++
		atomic.StoreUint32(&c.page[returnsLost], c.lost)
		return
	}
	e := c.page[returnRing+int(c.returns%ReturnSlots)*returnWords:]
	e[0], e[1], e[2], e[3] = uint32(r.Reason), uint32(r.Level), uint32(r.Header), r.Word
	c.returns++
	atomic.StoreUint32(&c.page[returnHead], c.returns)
}
