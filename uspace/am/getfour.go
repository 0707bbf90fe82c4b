package am

// This file implements the get of four words on a modelled machine, in the form of Table 6.1 of the
// thesis. The caller opens a segment over the memory. The node answers with one message of
// cmam_xfer_4 into the segment, and the segment closes when it is full.

import (
	"fmt"

	"github.com/funet/funet/uspace/funi"
)

// askFour is Get of four words.
func (e *Endpoint) askFour(node int, address, local uint32, counter *Counter) error {
	ticket, err := e.begin(node, 1, nil, counter)
	if err != nil {
		return err
	}
	place, err := e.openSegment(local, 16, e.gotFour, ticket, true)
	if err != nil {
		e.giveUp(ticket)
		return fmt.Errorf("getting from node %d: %w", node, err)
	}
	e.charge(e.cpu.Library().SegmentCycles)
	e.calls.find(ticket).segment = e.segment(place)
	if err := e.ask(node, typeGetFour, ticket, address, uint32(place), 0); err != nil {
		e.giveUp(ticket)
		return err
	}
	return nil
}

// getFour answers with four words of this process's memory.
func (e *Endpoint) getFour(m *Message, ticket uint32) {
	if len(m.Words) != 4 {
		e.unknown++
		return
	}
	e.charge(memoryCost)
	from := e.memory(m.Words[0], 4, funi.Source)
	if from == nil {
		e.finish(m, ticket, answerRefused)
		return
	}
	var w [4]uint32
	load(w[:], from)
	if m.reply4(typeXfer, m.Words[1], w[0], w[1], w[2], w[3]) != nil {
		e.unknown++
	}
}

// gotFour ends a call whose segment is full.
func (e *Endpoint) gotFour(m *Message, info any) {
	e.charge(e.cpu.Library().SegmentCycles)
	ticket := info.(uint32)
	if c := e.calls.find(ticket); c != nil {
		c.segment = nil // it is closed already
	}
	e.answered(m.Source, ticket)
}
