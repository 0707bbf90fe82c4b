package rats

// This file charges the library's work to the processor of a modelled machine (HPL-95-86, tables 1
// and 2; timing.Rats). On a real machine it charges nothing.
//
// Time on the critical path passes at once: sending before the card can see the request, receiving
// before the call returns. Other time passes while the process looks in vain, and at the latest
// before the next call of that side. A look in vain takes the part of a look that is off the path.
// The paper prices tagged writes and datagrams; every other message costs as much as a tagged
// write.

import "github.com/funet/funet/uspace/timing"

// pace is a modelled processor, and what it has still to do.
type pace struct {
	cpu   *timing.CPU // nil: none
	later [2]int64    // picoseconds of sending and of receiving off the critical path
}

// Indices of pace.later.
const (
	sending = iota
	receiving
)

// Pace makes what the library does take the time that the processor needs (timing.CPUConfig.Rats).
// Call it before anything is sent.
func (e *Endpoint) Pace(cpu *timing.CPU) { e.pace.cpu = cpu }

func prices(r *timing.Rats, p protocol) *timing.Sending {
	if _, ok := p.(*Client); ok {
		return &r.Datagram
	}
	return &r.Tagged
}

// sends lets the time of launching a message pass; p is nil for one of no instance.
func (e *Endpoint) sends(p protocol, inSlot bool, data, metadata int) {
	if e.pace.cpu != nil {
		e.paySending(p, inSlot, data, metadata)
	}
}

func (e *Endpoint) paySending(p protocol, inSlot bool, data, metadata int) {
	cpu := e.pace.cpu
	s := prices(cpu.Rats(), p)
	c := &s.DMA
	if inSlot {
		c = &s.Direct
	}
	cpu.Spend(e.pace.later[sending] + c.On.Of(data, metadata))
	e.pace.later[sending] = c.Off.Of(data, metadata)
	cpu.Settle()
}

// takes charges a record that a look has found; first says that it is the first of the look.
func (e *Endpoint) takes(p protocol, first bool) {
	if e.pace.cpu != nil {
		e.payRecord(p, first)
	}
}

func (e *Endpoint) payRecord(p protocol, first bool) {
	cpu := e.pace.cpu
	r := cpu.Rats()
	poll, arrival := &r.TaggedPoll, &r.TaggedArrival
	if _, ok := p.(*datagramLink); ok {
		poll, arrival = &r.DatagramPoll, &r.DatagramArrival
	}
	if first {
		cpu.Spend(e.pace.later[receiving] + poll.On.Of(0, 0))
		e.pace.later[receiving] = poll.Off.Of(0, 0)
	}
	cpu.Spend(arrival.Of(0, 0))
}

// hands lets the time pass of handing a message to the program, and of the look that brought it.
func (e *Endpoint) hands(c func(*timing.Rats) *timing.Call) {
	if cpu := e.pace.cpu; cpu != nil {
		call := c(cpu.Rats())
		cpu.Spend(call.On.Of(0, 0))
		e.pace.later[receiving] += call.Off.Of(0, 0)
		cpu.Settle()
	}
}

// looksInVain lets the time of a look pass that has found nothing, or of what is still to be done.
func (e *Endpoint) looksInVain() {
	if e.pace.cpu != nil {
		e.payVainLook()
	}
}

func (e *Endpoint) payVainLook() {
	cpu := e.pace.cpu
	ps := e.pace.later[sending] + e.pace.later[receiving]
	if e.pace.later = [2]int64{}; ps == 0 {
		ps = cpu.Rats().TaggedPoll.Off.Of(0, 0)
	}
	cpu.Idle(ps)
}

func tagPrice(r *timing.Rats) *timing.Call      { return &r.GetTag }
func datagramPrice(r *timing.Rats) *timing.Call { return &r.Recv }
