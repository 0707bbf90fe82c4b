package engine

// This file is the part of a context's window table that a modelled machine's card holds (Tokyo,
// sections 2.1 and 3.3: the TLB of the network interface). An entry translates the addresses of a
// page of a window. One that the card does not have it fetches by DMA from the table in memory,
// before the data of the packet move, and keeps it in place of another: the page's number says
// which. Windows that are not present have no entry (fault.go).
//
// Each context has as many places as Timing.WindowEntries says, so what other processes' windows
// are used for takes it none. A node of its job may: what is fetched for one packet is not there
// for another.

// windowEntry names the window and the page that a place holds; key 0 and page 0: none, for a page
// is counted from 1.
type windowEntry struct{ key, page uint64 }

// fetchEntry notes that the entry of an address of a window is fetched, if the card does not have
// it.
func (c *Card) fetchEntry(x *Context, key, address uint64) {
	u := c.units
	if u.entries == 0 {
		return
	}
	r := x.remote
	if r.entries == nil {
		r.entries = make([]windowEntry, u.entries) // once
	}
	page := uint64(1)
	if size := uint64(c.cfg.RemotePage); size > 0 {
		page += address / size
	}
	e := &r.entries[(page+uint64(uint16(key)))%uint64(u.entries)]
	if *e == (windowEntry{key, page}) {
		return
	}
	*e = windowEntry{key, page}
	u.operate.move(u.entryWords)
	c.counters.EntriesFetched++
}

// forgetEntries has the card hold no entries of the context: its process goes, or has closed a
// window whose key may come again.
func (r *remote) forgetEntries() { clear(r.entries) }
