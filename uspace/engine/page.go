package engine

// This file is about the pages of remote memory (Tokyo, section 3.2). A packet of an operation on a
// window touches one page, so that a card looks up one entry of its table for it (windowentry.go).
// Config.RemotePage is the length of a page; a native card has no pages.
//
// A put or get that crosses the end of a page travels in pieces. An operation on elements is atomic
// and has one answer, and a multicast is one packet for each member. Neither can travel in pieces,
// so one that crosses the end of a page is refused with arctic.ReasonOperand. A get's answer is
// written to memory of the process that asked, so its pieces do not cross pages there either.

import (
	"math"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// inPage returns the number of bytes from an address to the end of its page.
func (u *remoteUnit) inPage(address uint64) int {
	if u.cfg.RemotePage == 0 {
		return math.MaxInt
	}
	page := uint64(u.cfg.RemotePage)
	return int(page - address%page)
}

// crossesPage reports whether an operation needs more than one page of the window, or of the memory
// for its answer.
func (u *remoteUnit) crossesPage(o *funi.Operation) bool {
	size := o.Bytes
	if o.Operation == arctic.RemotePut || o.Operation == arctic.RemoteGet {
		size = o.Length
	}
	return size > u.inPage(o.Address) || o.Operation == arctic.RemoteGet && o.Source != 0 && size >
		u.inPage(uint64(o.Source))
}

// lastOf returns the size in bytes of the last packet of a put of many packets: at most 16, all in
// one page.
func (u *remoteUnit) lastOf(address uint64, bytes int) int {
	last := bytes % arctic.TransferAlign
	if last == 0 {
		last = min(bytes, arctic.TransferAlign)
	}
	if u.cfg.RemotePage > 0 && last > 0 {
		last = min(last, int((address+uint64(bytes)-1)%uint64(u.cfg.RemotePage))+1)
	}
	return last
}
