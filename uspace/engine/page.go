package engine

// This file is the pages of remote memory (Tokyo, section 3.2): a packet of an operation on a
// window touches one page, so that a card looks up one entry of its table for it (windowentry.go).
// Config.RemotePage says how long pages are; natively there are none.
//
// A put or get that crosses the end of a page travels in pieces. Operations on elements are atomic
// and have one answer, so one that crosses it is refused, and a multicast is one packet for each
// member and is refused, too: both with arctic.ReasonOperand, as the packet cannot be made. A get's
// piece crosses no page of the memory that its answer goes to either, since the answer is the write
// back.

import (
	"math"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// inPage returns how many bytes from an address on lie in its page.
func (c *Card) inPage(address uint64) int {
	if c.cfg.RemotePage == 0 {
		return math.MaxInt
	}
	page := uint64(c.cfg.RemotePage)
	return int(page - address%page)
}

// crossesPage reports whether an operation needs more than one page of the window, or of the memory
// for its answer.
func (c *Card) crossesPage(o *funi.Operation) bool {
	size := o.Bytes
	if o.Operation == arctic.RemotePut || o.Operation == arctic.RemoteGet {
		size = o.Length
	}
	return size > c.inPage(o.Address) || o.Operation == arctic.RemoteGet && o.Source != 0 && size >
		c.inPage(uint64(o.Source))
}

// lastOf returns how many bytes the last packet of a put of many packets has: at most 16, and all
// of one page.
func (c *Card) lastOf(address uint64, bytes int) int {
	last := bytes % arctic.TransferAlign
	if last == 0 {
		last = min(bytes, arctic.TransferAlign)
	}
	if c.cfg.RemotePage > 0 && last > 0 {
		last = min(last, int((address+uint64(bytes)-1)%uint64(c.cfg.RemotePage))+1)
	}
	return last
}
