package engine

// This file is the memory of a context's tables: key slots, areas and the ring's entries. They are
// megabytes where a process asks for many windows. So the card's owner can make them beforehand and
// give them back at once, outside of the time of the card and outside of the Go heap.

import (
	"fmt"
	"unsafe"

	"github.com/funet/funet/uspace/funi"
)

// Tables holds the tables of a context, in which nothing is open.
type Tables struct {
	keySlots []keySlot
	areas    []area
	ring     []uint32
}

// TableBytes returns how many bytes of memory NewTables needs. They are part of RemoteBytes.
func TableBytes(s funi.RemoteSizes) int {
	return s.KeySlots*int(unsafe.Sizeof(keySlot{})) + s.Areas*int(unsafe.Sizeof(area{})) + s.Notifications*4
}

// NewTables lays tables out in memory that is aligned to 8 bytes and all 0. The memory may be
// outside of the Go heap. Then the context's segments must be outside, too, because the tables
// refer to them. NewTables panics if the memory is shorter than TableBytes.
func NewTables(s funi.RemoteSizes, memory []byte) *Tables {
	if n := TableBytes(s); len(memory) < n {
		panic(fmt.Sprintf("engine: tables of %d bytes in memory of %d", n, len(memory)))
	}
	t := &Tables{}
	at := unsafe.Pointer(unsafe.SliceData(memory))
	t.keySlots = unsafe.Slice((*keySlot)(at), s.KeySlots)
	at = unsafe.Add(at, s.KeySlots*int(unsafe.Sizeof(keySlot{})))
	t.areas = unsafe.Slice((*area)(at), s.Areas)
	at = unsafe.Add(at, s.Areas*int(unsafe.Sizeof(area{})))
	t.ring = unsafe.Slice((*uint32)(at), s.Notifications)
	return t
}

// Lend has contexts that are made from now on use the tables, if these have the sizes that the
// context wants. nil ends that. Each context needs tables of its own, so lend them for one call of
// Attach or Arrive. The owner has them back, with any content, when the context has been detached,
// abandoned or exported. Without lent tables the card makes its own.
func (c *Card) Lend(t *Tables) { c.remote.lent = t }

// newRemote returns a context's remote memory with the tables that were lent, or with new ones. It
// returns nil for zero sizes.
func (u *remoteUnit) newRemote(s funi.RemoteSizes) *remote {
	t := u.lent
	switch {
	case s.KeySlots == 0:
		return nil
	case t == nil || len(t.keySlots) != s.KeySlots || len(t.areas) != s.Areas || len(t.ring) != s.Notifications:
		t = &Tables{make([]keySlot, s.KeySlots), make([]area, s.Areas), make([]uint32, s.Notifications)}
	}
	return &remote{keySlots: t.keySlots, areas: t.areas, ring: t.ring}
}

// anew returns remote memory in which nothing is open, with the same tables; nil if there is none.
func (r *remote) anew() *remote {
	if r == nil {
		return nil
	}
	r.wipe()
	return &remote{keySlots: r.keySlots, areas: r.areas, ring: r.ring}
}

// wipe closes everything in the tables.
func (r *remote) wipe() {
	if r != nil {
		clear(r.keySlots)
		clear(r.areas)
		clear(r.ring)
	}
}

// giveTables gives the tables of a context that ends back to its owner. From then on no packets
// reach its windows, and no answers to its own operations.
func (x *Context) giveTables() {
	if r := x.remote; r != nil {
		r.keySlots, r.areas, r.ring, r.tail = nil, nil, nil, r.head
	}
}
