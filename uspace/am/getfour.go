package am

// This file implements the get of four words on a modelled machine, in the form of Table 6.1 of the
// thesis. The caller opens a segment over the memory. The node answers with one message of
// cmam_xfer_4 into the segment, and the segment closes when it is full.

import (
	"fmt"

	"github.com/funet/funet/uspace/funi"
)

// askFour is Get of four words.
func (t *calls) askFour(node int, address, local uint32, counter *Counter) error {
	if err := checkRemote(node, address, 4); err != nil {
		return err
	}
	ticket, err := t.begin(node, 1, nil, counter)
	if err != nil {
		return err
	}
	place, err := t.e.segments.open(local, 16, t.gotFour, ticket, true)
	if err != nil {
		t.giveUp(ticket)
		return fmt.Errorf("getting from node %d: %w", node, err)
	}
	t.charge(t.pace.cpu.Library().SegmentCycles)
	t.find(ticket).segment = t.e.segments.find(place)
	if err = t.post4(node, typeGetFour, ticket, address, uint32(place), 0, 0); err != nil {
		t.giveUp(ticket)
	}
	return err
}

// getFour answers with four words of this process's memory.
func (t *calls) getFour(m *Message, ticket uint32) {
	t.charge(memoryCost)
	from := t.e.regions.words(m.Words[0], 4, funi.Source)
	if from == nil {
		t.finish(m, ticket, answerRefused)
		return
	}
	var w [4]uint32
	load(w[:], from)
	if m.reply4(typeXfer, m.Words[1], w[0], w[1], w[2], w[3]) != nil {
		t.unknown++
	}
}

// gotFour ends a call whose segment is full.
func (t *calls) gotFour(m *Message, info any) {
	t.charge(t.pace.cpu.Library().SegmentCycles)
	ticket := info.(uint32)
	if c := t.find(ticket); c != nil {
		c.segment = nil // it is closed already
	}
	t.answered(m.Source, ticket)
}
