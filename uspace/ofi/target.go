//go:build libfabric

package main

// This file counts what others do to memory regions (FI_RMA_EVENT). The cards count. Each region of
// a domain that was opened so is a window with counts (rma.Options.Counts). An operation asks to be
// counted (rma.With.Count) if its own domain was opened so, or if the key says that its target
// counts. From the counts of windows the provider adds to counters of libfabric: those of regions,
// and those of endpoints for all regions of their domain. It looks at them when the process's page
// says that others have written something. So a poll without such news costs a load.
//
// An operation that is one of package rma asks for the count itself. One of several parts has a
// last one that only counts, which is begun when the others are complete.

// #include "ofi.h"
import "C"

import (
	"slices"
	"sync/atomic"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
)

// countsKey is the bit of a provider's key that says that its region counts.
const countsKey = 1 << 62

// targets are the regions that count. The lock of the process's endpoint guards what is not atomic.
type targets struct {
	regions []*region
	some    atomic.Bool   // there are such regions
	seen    atomic.Uint32 // funi.Interface.Written at the last look
}

// countsOf returns the memory of the counts of a key's window. The first call allocates that of all
// windows. The lock of regions is held.
func (r *regions) countsOf(key rma.Key) ([]byte, error) {
	if r.counts == nil {
		b, err := the.windows.Alloc(remoteSizes.KeySlots * funi.CountsBytes)
		if err != nil {
			return nil, err
		}
		r.counts = b
	}
	n := int(uint16(key)) * funi.CountsBytes
	return r.counts[n : n+funi.CountsBytes : n+funi.CountsBytes], nil
}

// begin lets a region count, whose window was just opened. The lock is held.
func (t *targets) begin(m *region) {
	the.e.Carrier().Interface().Watch(true) // for ever: what is read counts, too
	m.counted = m.window.Counts()
	t.regions = append(t.regions, m)
	t.some.Store(true)
}

// end ends the counting of a region. The lock is held.
func (t *targets) end(m *region) {
	m.tally()
	t.regions = slices.DeleteFunc(t.regions, func(x *region) bool { return x == m })
	t.some.Store(len(t.regions) > 0)
}

// news reports whether others may have done something since the last look.
func (t *targets) news() bool {
	return t.some.Load() && the.e.Carrier().Interface().Written() != t.seen.Load()
}

// tally adds what others have done to the counters. The lock is held.
func (t *targets) tally() {
	if !t.news() {
		return
	}
	t.seen.Store(the.e.Carrier().Interface().Written())
	for _, m := range t.regions {
		m.tally()
	}
}

func (m *region) tally() {
	now := m.window.Counts()
	writes, fetches, reads := now.Writes-m.counted.Writes, now.Fetches-m.counted.Fetches, now.Reads-m.counted.Reads
	m.counted = now
	add(m.counter, writes+fetches)
	add(m.domain.targets[C.REMOTE_WRITES], writes)
	add(m.domain.targets[C.REMOTE_READS], fetches+reads)
}

// ofi_go_target lets a counter count what others do to the regions of an endpoint's domain. Regions
// do not belong to endpoints, so a domain has one counter of a kind.
//
//export ofi_go_target
func ofi_go_target(core, counter uintptr, flags uint64) (code C.int) {
	defer caught(&code)
	c := pointer[C.struct_ofi_cntr](counter)
	d := pointer[C.struct_ofi_core](core).domain
	the.with(func(*am.Endpoint) {
		kinds := make([]int, 0, 2)
		for kind, flag := range map[int]uint64{C.REMOTE_READS: C.FI_REMOTE_READ, C.REMOTE_WRITES: C.FI_REMOTE_WRITE} {
			if flags&flag == 0 {
				continue
			}
			if kinds = append(kinds, kind); d.targets[kind] != nil && d.targets[kind] != c {
				say(false, C.FI_LOG_EP_CTRL, "another endpoint of the domain has a counter for what others do: "+
					"open a domain for each, or bind the same counter")
				code = -C.FI_EBUSY
				return
			}
		}
		for _, m := range the.targets.regions {
			m.tally() // what came before is not for it
		}
		for _, kind := range kinds {
			d.targets[kind] = c
			d.targeted[kind]++
		}
	})
	return code
}

// untarget takes the counters of an endpoint that is closed from its domain. The lock is held.
func (e *endpoint) untarget() {
	d := e.core.domain
	for kind := C.REMOTE_READS; d.counts != 0 && kind <= C.REMOTE_WRITES; kind++ {
		if e.core.counters[kind] == nil {
			continue
		}
		if d.targeted[kind]--; d.targeted[kind] == 0 {
			for _, m := range the.targets.regions {
				m.tally()
			}
			d.targets[kind] = nil
		}
	}
}

// ofi_go_count_region lets a counter count what others write to a region.
//
//export ofi_go_count_region
func ofi_go_count_region(number uint64, counter uintptr) (code C.int) {
	defer caught(&code)
	r := &the.regions
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.all[number]
	the.with(func(*am.Endpoint) {
		if m.window != nil { // else it is for local use
			m.tally()
		}
		m.counter = pointer[C.struct_ofi_cntr](counter)
	})
	return 0
}

// counting is how an operation of several parts counts at its target.
type counting struct {
	kind    int // C.PUT, GET or FETCH; -1: its parts do, or it does not count
	target  rma.Target
	element arctic.Element // of the target, if kind is FETCH
}

// asks reports whether an operation is to count at its target.
func (e *endpoint) asks(x *C.struct_ofi_remote) bool {
	return e.core.domain.counts != 0 || x.key >= firstSecret && x.key&countsKey != 0
}

// countLater notes that an operation of several parts is to count when they are complete.
func (o *operation) countLater(x *C.struct_ofi_remote, element arctic.Element) {
	o.counting = counting{C.PUT, target(x, 0), bits[max(element.Size(), 1)]}
	switch {
	case x.kind == C.GET || x.op == C.FI_ATOMIC_READ && x.kind == C.FETCH:
		o.counting.kind = C.GET
	case x.kind >= C.FETCH:
		o.counting.kind = C.FETCH
	}
}

// countPart is the place of the part that only counts.
const countPart = -1

// countNow begins the part that only counts, if the others have none and did not fail. It reports
// whether it did.
func (o *operation) countNow() bool {
	c := o.counting
	if c.kind < 0 || o.err != nil {
		return false
	}
	o.counting.kind = -1
	var id rma.ID
	var err error
	switch c.kind {
	case C.PUT:
		id, err = the.one.PutNow(c.target, nil, rma.With{Ack: true, Count: true})
	case C.GET:
		id, err = the.one.Get(c.target, nil, rma.With{Count: true})
	default: // changes no bit
		var none [16]byte
		size := c.element.Size()
		id, err = the.one.Apply(c.target, arctic.RemoteMaskedSwap, c.element, none[:2*size], 0, rma.With{Count: true})
	}
	o.err = o.begun(id, countPart, err)
	return o.err == nil
}
