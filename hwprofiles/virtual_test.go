package hwprofiles

// This file tests the figures of the virtualised interface and of ULTRA.

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// agreeVirtual changes the figures of the virtualised interface that others bind until they do not
// contradict them.
func agreeVirtual(t *rapid.T, p *Profile) {
	c, u, n, x := &p.Card, &p.Units, &p.Network, &p.Ultra
	for _, count := range []*int{&u.Requesters, &u.Responders, &u.Completers, &u.Stages, &u.IssueWidth} {
		if *count = max(*count, 1); u.Clock == 0 {
			*count = 0
		}
	}
	if u.Clock == 0 {
		u.WaitQueue = 0
	}
	c.EntryBytes = rapid.SampledFrom([]int{0, 16, 64, 4096}).Draw(t, "entry")
	c.RDRBytesMax -= c.RDRBytesMax % 8
	n.CrossbarCycles = min(n.CrossbarCycles, n.RouterCycles)
	if n.WireCycles != 0 {
		n.Wire = 0
	}
	if p.Bus.Clock != 0 {
		p.IO = IO{} // accesses are made of cycles
	}
	if x.Clock == 0 {
		*x = Ultra{}
		return
	}
	if p.Bus.Clock == 0 {
		p.IO.Access = max(p.IO.Access, 1)
	}
	x.LineBytes, x.UPIDBits = max(x.LineBytes-x.LineBytes%8, 16), max(x.UPIDBits, 1)
}

// virtualHead is a profile of the virtualised interface that only has its own figures.
const virtualHead = `name: mine
about: nothing
io: {register_read_ns: 630, trigger_device_ns: 0, burst_write_ns: 471, memory_write_ns: 260, access_ns: 500}
`

// ultraLine is a line of a file with ULTRA.
const ultraLine = "ultra: {clock_mhz: 100, requester_cycles: 13, completer_cycles: 21, path_ns: 127, " +
	"upid_bits: 11, line_bytes: 64, mode_bits: [IRQ, NOTIFY, ACK, RP]}\n"

// Rule: a file of the virtualised interface is read, its figures have their units, and it is
// written as it was.
func TestVirtualRead(t *testing.T) {
	p, err := Parse("p.yaml", []byte(virtualHead+ultraLine))
	if err != nil {
		t.Fatal(err)
	}
	if want := (IO{630, 0, 471, 260, 500}); p.IO != want {
		t.Errorf("%+v, want %+v", p.IO, want)
	}
	want := Ultra{100_000, 13 * Cycle, 21 * Cycle, 127, 11, 64, ModeBits()}
	if diff := cmp.Diff(want, p.Ultra); diff != "" {
		t.Error(diff)
	}
	for _, f := range p.Figures() {
		if want := map[string]time.Duration{"ultra.completer_cycles": 210, "io.burst_write_ns": 471}[f.Key]; want != 0 &&
			(f.Time != want || !f.Exact) {
			t.Errorf("%+v", f)
		}
	}
}

// Rule: a profile without these figures is shown and written without them, and one of a section
// brings the others of the section.
func TestVirtualIsOptional(t *testing.T) {
	keys := func(p *Profile) (all []string) {
		for _, f := range p.Figures() {
			all = append(all, f.Key)
		}
		return all
	}
	p := load(t, "native")
	for _, key := range keys(p) {
		if strings.HasPrefix(key, "io.") || strings.HasPrefix(key, "ultra.") || slices.Contains(virtual, key) {
			t.Errorf("native has %s", key)
		}
	}
	p.Card.VPIDs = 1
	if got := keys(p); !slices.Contains(got, "card.routing_shared") || slices.Contains(got, "network.ports") {
		t.Errorf("%v", got)
	}
	data, err := p.Marshal()
	if err != nil || strings.Contains(string(data), "io:") || !strings.Contains(string(data), "  csb_entries: 0\n") {
		t.Errorf("%v in\n%s", err, data)
	}
}

// Rule: what is wrong in these figures is refused where it stands, with what to write instead.
func TestVirtualRefused(t *testing.T) {
	const card = "card: {lines: 0, reply_lines: 0, contexts: 0, fifo_packets: 0, train_packets: 0, blocks: false, " +
		"acknowledge_every_frames: 0, transfer_words: 0, types: 0, "
	const units = "units: {retrieval_cycles: 0, dispatch_cycles: 0, delivery_cycles: 0, transmit_cycles: 0, " +
		"preprocess_cycles: 0, "
	const network = "network: {clock_mhz: 330, halfwords_per_cycle: 0, router_cycles: 30, wire_cycles: 0, " +
		"router_ports: 0, input_buffers: 0, reserved_buffers: 0, topology: any, "
	const smt = "clock_mhz: 100, requesters: 2, responders: 2, completers: 2, stages: 4, wait_queue: 4, " +
		"issue_width: 2"
	const ports, modes = "clock_mhz: 100, requester_cycles: 13, completer_cycles: 21", "[IRQ, NOTIFY, ACK, RP]"
	const bus = "bus: {clock_mhz: 25, transaction_cycles: 0, word_cycles: 0, bursts: [1], cpu_first: true}\n"
	const count = "want a whole number, 0 (no limit) or"
	for _, c := range []struct{ line, old, new, want string }{
		// Types and ranges.
		{ultraLine, "path_ns: 127", "path_ns: .nan", `ultra.path_ns is a nan, want whole nanoseconds from 0 to 1000000000`},
		{ultraLine, "path_ns: 127", "path_ns: .inf", `ultra.path_ns is a infinity, want whole nanoseconds`},
		{ultraLine, "path_ns: 127", "path_ns: NaN", `ultra.path_ns is the text "NaN", want whole nanoseconds`},
		{ultraLine, "path_ns: 127", "path_ns: 127.5", `ultra.path_ns is 127.5, want whole nanoseconds`},
		{ultraLine, "path_ns: 127", "path_ns: 1000000001", `ultra.path_ns is 1000000001, want whole`},
		{ultraLine, "path_ns: 127", "path_ns: -1", `ultra.path_ns is -1, want whole`},
		{ultraLine, "path_ns: 127", "path_ns: 999999999999", `ultra.path_ns is 999999999999, want whole`},
		{ultraLine, "path_ns: 127", "path_ns: 9999999999999", `ultra.path_ns is 9999999999999, want whole`},
		{ultraLine, "path_ns: 127", "path_ns: 1e3", `ultra.path_ns is the text "1e3", want whole`},
		{ultraLine, "path_ns: 127", "path_ns: 127ns", `ultra.path_ns is the text "127ns", want whole`},
		{ultraLine, "clock_mhz: 100", "clock_mhz: .nan", `ultra.clock_mhz is a nan, want megahertz`},
		{ultraLine, "requester_cycles: 13", "requester_cycles: 1000000.1",
			`ultra.requester_cycles is 1000000.1, want cycles from 0 to 1000000`},
		{ultraLine, "upid_bits: 11", "upid_bits: 12", "ultra.upid_bits is 12, " + count + " 1 to 11"},
		{ultraLine, "line_bytes: 64", "line_bytes: 72", "ultra.line_bytes is 72, " + count + " 16 to 64"},
		{ultraLine, modes, "[IRQ, ACK, NOTIFY]",
			`ultra.mode_bits is [IRQ, ACK, NOTIFY], want a list of some of IRQ, NOTIFY, ACK, RP, in this order`},
		{ultraLine, modes, "[IRQ, IRQ]", `ultra.mode_bits is [IRQ, IRQ], want a list`},
		{ultraLine, modes, "[POLL]", `ultra.mode_bits is [POLL], want a list`},
		{ultraLine, modes, "[IRQ, IRQ, IRQ, IRQ, IRQ]", `ultra.mode_bits is a list, want a list`},
		{ultraLine, modes, "RP", `ultra.mode_bits is the text "RP", want a list`},
		{ultraLine, modes, "[[RP]]", `ultra.mode_bits is a list, want a list`},
		{card + "vpids: 65536}\n", "65536", "65537", "card.vpids is 65537, " + count + " 1 to 65536"},
		{card + "vpids: 65536}\n", "65536", "999999999999", `card.vpids is 999999999999, want`},
		{card + "trigger_count_max: 31}\n", "31", "32", `card.trigger_count_max is 32, want`},
		{card + "csb_entries: 1}\n", "1}", "65537}", `card.csb_entries is 65537, want`},
		{card + "rdr_bytes_max: 134217728}\n", "134217728", "134217729", `card.rdr_bytes_max is 134217729, want`},
		{card + "fast_send_words64: 5}\n", "5}", "6}", `card.fast_send_words64 is 6, want`},
		{card + "fast_put_words64: 3}\n", "3}", "4}", `card.fast_put_words64 is 4, want`},
		{card + "routing_shared: true}\n", "true", "1", `card.routing_shared is 1, want true or false`},
		{units + smt + "}\n", "requesters: 2", "requesters: 17",
			`units.requesters is 17, want a whole number, 0 (no limit) or 1 to 16`},
		{units + smt + "}\n", "stages: 4", "stages: 4000000000", `units.stages is 4000000000, want`},
		{units + smt + "}\n", "wait_queue: 4", "wait_queue: 65", `units.wait_queue is 65, want`},
		{network + "ports: 6}\n", "ports: 6", "ports: 65", `network.ports is 65, want`},
		// Contradictions, and what is missing.
		{ultraLine, ports, "clock_mhz: 0, requester_cycles: 0, completer_cycles: 0",
			`ultra has figures but no clock`},
		{ultraLine, "clock_mhz: 100", "clock_mhz: 0", `ultra.requester_cycles is 13, but the clock`},
		{ultraLine, "line_bytes: 64", "line_bytes: 0", `ultra.line_bytes or ultra.upid_bits is 0`},
		{ultraLine, "line_bytes: 64", "line_bytes: 60", `ultra.line_bytes is no multiple of 8`},
		{ultraLine, "path_ns: 127, ", "", `ultra has no path_ns; add it (whole nanoseconds from 0 to 1000000000)`},
		{ultraLine, "ultra: {", "ultra: {ports: 5, ", `unknown key "ports", want clock_mhz`},
		{card + "entry_bytes: 64}\n", "64", "65", `card.entry_bytes is no power of two`},
		{card + "rdr_bytes_max: 64}\n", "64", "65", `card.rdr_bytes_max is no multiple of 8`},
		{units + smt + "}\n", "requesters: 2", "requesters: 0", `units.requesters and units.clock_mhz need each other`},
		{units + smt + "}\n", "clock_mhz: 100", "clock_mhz: 0", `units.requesters and units.clock_mhz need each other`},
		{units + "wait_queue: 4}\n", "4}", "5}", `units.wait_queue needs units.clock_mhz`},
		{network + "crossbar_cycles: 3}\n", "3}", "31}", `network.crossbar_cycles is a part of network.router_cycles`},
		{network + "wire_ns: 3}\n", "wire_cycles: 0", "wire_cycles: 1",
			`network.wire_ns and network.wire_cycles are both given`},
		{ultraLine, "ultra:", bus + "ultra:", `the profile has both io and a bus`},
	} {
		good := virtualHead + c.line
		text := virtualHead + strings.Replace(c.line, c.old, c.new, 1)
		if _, err := Parse("p.yaml", []byte(good)); err != nil && !strings.Contains(err.Error(), "wait_queue needs") {
			t.Errorf("%s: %v", c.line, err)
		}
		p, err := Parse("p.yaml", []byte(text))
		if p != nil || !errors.Is(err, ErrInvalid) || !strings.Contains(fmt.Sprint(err), ": "+c.want) ||
			!strings.HasPrefix(err.Error(), "p.yaml:") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v\n\twant %s", c.new, err, c.want)
		}
	}
	lone := "name: a\nabout: b\n" + ultraLine
	if _, err := Parse("p.yaml", []byte(lone)); err == nil || !strings.Contains(err.Error(), "ultra needs io or a bus") {
		t.Error(err)
	}
}
