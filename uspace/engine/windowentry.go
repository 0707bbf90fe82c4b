package engine

// This file is the part of a context's window table that a modelled machine's card holds (Tokyo,
// sections 2.1 and 3.3: the TLB of the network interface). An entry translates the addresses of a
// page of a window. The card fetches a missing entry by DMA from the table in memory, before the
// data of the packet move. It keeps the entry in place of another; the page's number and the
// window's key determine the place. Windows that are not present have no entry (fault.go).
//
// Each context has as many places as Timing.WindowEntries says, so accesses to other processes'
// windows displace none of its entries. Accesses of the nodes of its job may displace each other's.

// windowEntry names the window and the page of an entry. Pages are counted from 1; key 0 and page 0
// mean an empty place.
type windowEntry struct{ key, page uint64 }

// fetchEntry notes that the entry of an address of a window is fetched, if the card does not hold
// it.
func (u *model) fetchEntry(x *Context, key, address uint64) {
	if u.entries == 0 {
		return
	}
	r := x.remote
	if r.entries == nil {
		r.entries = make([]windowEntry, u.entries) // once
	}
	page := uint64(1)
	if size := uint64(u.cfg.RemotePage); size > 0 {
		page += address / size
	}
	e := &r.entries[(page+uint64(uint16(key)))%uint64(u.entries)]
	if *e == (windowEntry{key, page}) {
		return
	}
	*e = windowEntry{key, page}
	u.operate.move(u.entryWords)
	u.counters.EntriesFetched++
}

// forgetEntries has the card hold no entries of the context: its process goes, or has closed a
// window whose key may be used again.
func (r *remote) forgetEntries() { clear(r.entries) }
