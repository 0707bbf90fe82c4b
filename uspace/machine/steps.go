package machine

// This file makes a machine whose times are steps (hwprofiles.Step). HPL-95-86 has Hamlyn's steps:
// those of its card for each kind of packet, and those of its library for each call. The Tokyo
// thesis has only the steps of its link. There a write consists of what its card moves over the
// bus, and of its link (4.3).

import (
	"fmt"
	"time"

	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/timing"
)

type stepped struct {
	card    timing.Card
	rats    timing.Rats
	latency time.Duration // of the switch
}

// ofSteps returns the times that the steps of a profile give. It returns ErrParts if they are not
// the steps of a card and its library, or of a link.
func ofSteps(p *hwprofiles.Profile) (*stepped, error) {
	r := reader{p: p}
	if p.Bus.Clock == 0 || p.CPU.Clock == 0 {
		return nil, r.lacks("a bus and a processor")
	}
	if p.Steps[0].Of == ofItsLink {
		return ofLink(p)
	}
	for _, s := range p.Steps {
		if s.Of == "host" && s.Name == "instruction" && s.Unit == "cpu_cycles" {
			r.instruction = int64(s.Base)
		}
	}
	const host, sender, receiver, send, notify = "host", "sender", "receiver", "send packet", "notify host"
	var s stepped
	s.card = timing.Card{
		Direct: timing.Sends{Send: r.sum("direct", sender, "on", send), Notify: r.sum("direct", sender, "off", notify)},
		DMA: timing.Sends{Start: r.sum("dma", sender, "on", "start data to card"),
			Send: r.sum("dma", sender, "on", send), Notify: r.sum("dma", sender, "off", notify)},
		Arrive: r.sum("direct", receiver, "on", "link to interface"),
		Write:  r.sum("dma", receiver, "on", "interface to host"),
		Notify: r.sum("direct", receiver, "off", notify),
	}
	s.latency = r.sum("direct", "switch", "on", "switch").Duration(0, 0)
	call := func(of, side string, names ...string) timing.Call {
		return timing.Call{On: r.sum(of, side, "on", names...), Off: r.sum(of, side, "off", names...)}
	}
	s.rats = timing.Rats{
		Tagged: timing.Sending{
			Direct: call("tagged-direct", sender, "tagged_write::write", "sendmsg"),
			DMA:    call("tagged-dma", sender, "tagged_write::write", "sendmsg"),
		},
		Datagram: timing.Sending{
			Direct: timing.Call{On: r.sum("datagram-direct", sender, "on", "send", "sendmsg"),
				Off: r.sum("datagram-direct", sender, "off", "sendmsg")},
			DMA: timing.Call{On: r.sum("datagram-dma", sender, "on", "send", "sendmsg"),
				Off: r.sum("datagram-dma", sender, "off", "sendmsg")},
		},
		TaggedPoll: call("tagged", receiver, "poll"), TaggedArrival: r.sum("tagged", receiver, "on", "process_arrival"),
		GetTag:          call("tagged", receiver, "get_tag"),
		DatagramPoll:    call("datagram", receiver, "poll"),
		DatagramArrival: r.sum("datagram", receiver, "on", "process_arrival"), Recv: call("datagram", receiver, "recv"),
	}
	if r.missing != "" {
		return nil, r.lacks(r.missing)
	}
	return &s, nil
}

// ofItsLink is the Of of every step in a profile that has only the steps of its link.
const ofItsLink = "link"

// ofLink returns the times that the steps of a link give. The latency of the link is their time
// without bytes. The time of a byte counts for the sending card, as on the testbed, where the
// encoder is a part of the card and slower than the link (Tokyo, section 4.2). The thesis counts no
// processor, no record and no acknowledgment (4.3). So requests are in the card when they are
// issued, and frames without packets take no time.
func ofLink(p *hwprofiles.Profile) (*stepped, error) {
	r := reader{p: p}
	var sum timing.Span
	for _, s := range p.Steps {
		if s.Of != ofItsLink || s.Path != "on" {
			return nil, r.lacks("no step but those of its link, on the path")
		}
		sum.Base += r.picoseconds(s.Unit, s.Base)
		sum.DataByte += r.picoseconds(s.Unit, s.DataByte)
		sum.MetadataByte += r.picoseconds(s.Unit, s.MetadataByte)
	}
	if r.missing != "" || sum.Base == 0 {
		return nil, r.lacks("a link with a latency, in ns or cycles")
	}
	sends := timing.Sends{Send: timing.Span{DataByte: sum.DataByte, MetadataByte: sum.MetadataByte}}
	latency := timing.Span{Base: sum.Base}
	return &stepped{card: timing.Card{Direct: sends, DMA: sends}, latency: latency.Duration(0, 0)}, nil
}

// reader adds steps up, and remembers the first step that it does not find.
type reader struct {
	p           *hwprofiles.Profile
	instruction int64 // cycles of the processor, in the unit of hwprofiles.Share
	missing     string
}

func (r *reader) lacks(what string) error {
	return fmt.Errorf("profile %s: %w that its steps are of: %s; use one that has, such as sbus-arctic or hamlyn",
		r.p.Name, ErrParts, what)
}

func (r *reader) sum(of, side, path string, names ...string) (total timing.Span) {
	for _, name := range names {
		found := false
		for _, s := range r.p.Steps {
			if s.Of != of || s.Side != side || s.Path != path || s.Name != name {
				continue
			}
			found = true
			total.Base += r.picoseconds(s.Unit, s.Base)
			total.DataByte += r.picoseconds(s.Unit, s.DataByte)
			total.MetadataByte += r.picoseconds(s.Unit, s.MetadataByte)
		}
		if !found && r.missing == "" {
			r.missing = fmt.Sprintf("%q of %s, %s, %s the path", name, of, side, path)
		}
	}
	return total
}

// picoseconds returns how long v instructions, cycles or nanoseconds take, rounded to the nearest
// picosecond. Check of hwprofiles has bounded v.
func (r *reader) picoseconds(unit string, v hwprofiles.Share) int64 {
	const aCycle = 1_000_000_000 // ps at 1 kHz
	one := int64(hwprofiles.One)
	switch unit {
	case "instructions":
		return rounded(int64(v)*r.instruction/one*(aCycle/one), int64(r.p.CPU.Clock))
	case "cpu_cycles":
		return rounded(int64(v)*(aCycle/one), int64(r.p.CPU.Clock))
	case "cycles":
		return rounded(int64(v)*(aCycle/one), int64(r.p.Bus.Clock))
	case "network_cycles":
		return rounded(int64(v)*(aCycle/one), int64(r.p.Network.Clock))
	case "ns":
		return int64(v) * 1000 / one
	}
	if r.missing == "" {
		r.missing = "steps in " + unit
	}
	return 0
}

func rounded(a, b int64) int64 { return (a + b/2) / b }
