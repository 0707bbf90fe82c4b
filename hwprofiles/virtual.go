package hwprofiles

// This file is the part of a Profile that describes the virtualised interface and ULTRA. They are
// those of H. Froening's thesis (University of Mannheim, 2007). Its figures are optional: a file
// may leave them out. A profile is written and shown with those of a section if it has one of them.

import (
	"slices"
	"strings"
	"time"
)

// IO has the times of whole accesses between processor, device and memory, for a machine whose
// source does not give the cycles of its bus. A machine has these or a Bus, not both. Each time is
// a whole number of nanoseconds, at most a second.
type IO struct {
	RegisterRead  time.Duration // the processor's load from a device register
	TriggerDevice time.Duration // of a trigger, in the device, besides the load (section 3.4.4)
	BurstWrite    time.Duration // one burst of the processor into the device
	MemoryWrite   time.Duration // one burst of the device into memory
	Access        time.Duration // any other access of the device
}

// Ultra has the times and sizes of ULTRA, a path from a requester port to a completer port
// (Froening's thesis, section 3.5). Cycles are of its own clock.
type Ultra struct {
	Clock Clock

	RequesterCycles Cycles        // from the end of the burst to the packet's head on the network
	CompleterCycles Cycles        // from the packet's arrival to the write of its slice
	Path            time.Duration // crossbar and cabling

	UPIDBits  int      // of the number of a port, 1 to 11
	LineBytes int      // the longest packet, tag included: 16 to 64, whole words of 64 bits
	ModeBits  []string // what a packet may ask for, of ModeBits
}

// ModeBits returns the names of the modes of an ULTRA packet, in their order (3.5.4).
func ModeBits() []string { return []string{"IRQ", "NOTIFY", "ACK", "RP"} }

const (
	maxAccess = int64(time.Second) // of an access or a wire
	maxUnits  = 16                 // units of a type, stages, requests issued in a slot
)

// virtual has the optional figures of sections that were there before the virtualised interface.
// All figures of io and ultra are optional, too.
var virtual = []string{
	"card.vpids", "card.entry_bytes", "card.trigger_count_max", "card.csb_entries", "card.rdr_bytes_max",
	"card.fast_send_words64", "card.fast_put_words64", "card.routing_shared",
	"units.clock_mhz", "units.requesters", "units.responders", "units.completers", "units.stages", "units.wait_queue",
	"units.issue_width", "network.crossbar_cycles", "network.ports", "network.wire_ns",
}

// optional reports whether the figure is one of the virtualised interface.
func (f *figure) optional() bool {
	section, _ := f.parts()
	return section == "io" || section == "ultra" || slices.Contains(virtual, f.key)
}

// given returns the figures that the profile has, in the order of the file: all that are not
// optional, and the optional ones of a section of which one is not zero or has a source.
func (p *Profile) given() (all []*figure) {
	has := map[string]bool{}
	for i := range figures {
		if f := &figures[i]; f.optional() && (p.Sources[f.key] != "" || !f.zero(p)) {
			section, _ := f.parts()
			has[section] = true
		}
	}
	for i := range figures {
		f := &figures[i]
		if section, _ := f.parts(); !f.optional() || has[section] {
			all = append(all, f)
		}
	}
	return all
}

// zero reports whether the figure has the value that costs nothing and limits nothing.
func (f *figure) zero(p *Profile) bool {
	text := f.text(p)
	return text == "0" || text == "false" || text == "[]" || text == "any"
}

// goodModes reports whether names are some of ModeBits, in their order.
func goodModes(names []string) bool {
	last := -1
	for _, name := range names {
		i := slices.Index(ModeBits(), name)
		if i <= last {
			return false
		}
		last = i
	}
	return true
}

// wantModes describes the lists that goodModes accepts.
func wantModes() string {
	return "a list of some of " + strings.Join(ModeBits(), ", ") + ", in this order, such as [NOTIFY, ACK], or []"
}

// virtualContradiction returns the first figure of the virtualised interface that contradicts
// another one, and why.
func (p *Profile) virtualContradiction() (key, why string) {
	c, u, n, x := &p.Card, &p.Units, &p.Network, &p.Ultra
	counts := []struct {
		key string
		n   int
	}{{"units.requesters", u.Requesters}, {"units.responders", u.Responders}, {"units.completers", u.Completers},
		{"units.stages", u.Stages}, {"units.issue_width", u.IssueWidth}}
	for _, f := range counts {
		if (f.n != 0) != (u.Clock != 0) {
			return f.key, f.key + " and units.clock_mhz need each other; give the clock and 1 or more, or write 0 twice"
		}
	}
	switch {
	case p.IO != IO{} && p.Bus.Clock != 0:
		return "bus.clock_mhz", "the profile has both io and a bus; write bus.clock_mhz: 0, or leave io out"
	case c.EntryBytes&(c.EntryBytes-1) != 0:
		return "card.entry_bytes", "card.entry_bytes is no power of two; write one, such as 64"
	case c.RDRBytesMax%8 != 0:
		return "card.rdr_bytes_max", "card.rdr_bytes_max is no multiple of 8, and the ring is of words of 64 bits"
	case u.WaitQueue != 0 && u.Clock == 0:
		return "units.wait_queue", "units.wait_queue needs units.clock_mhz; give it, or write 0"
	case n.CrossbarCycles > n.RouterCycles:
		return "network.crossbar_cycles",
			"network.crossbar_cycles is a part of network.router_cycles; write at most these"
	case n.Wire != 0 && n.WireCycles != 0:
		return "network.wire_ns", "network.wire_ns and network.wire_cycles are both given; write 0 for one"
	case x.Clock == 0 && (x.Path != 0 || x.UPIDBits != 0 || x.LineBytes != 0 || len(x.ModeBits) != 0):
		return "ultra.clock_mhz", "ultra has figures but no clock; give ultra.clock_mhz, or leave ultra out"
	case x.Clock != 0 && (x.LineBytes == 0 || x.UPIDBits == 0):
		return "ultra.line_bytes", "ultra.line_bytes or ultra.upid_bits is 0, but ultra has a clock; give both"
	case x.Clock != 0 && p.IO == IO{} && p.Bus.Clock == 0:
		return "ultra.clock_mhz", "ultra needs io or a bus, which carries its bursts; give one, or leave ultra out"
	case x.LineBytes%8 != 0:
		return "ultra.line_bytes", "ultra.line_bytes is no multiple of 8, and the line is of words of 64 bits"
	}
	return "", ""
}
