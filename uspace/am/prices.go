package am

// This file is machines that are compared with and not modelled: what whole calls were
// measured to take there takes the place of instructions, loads and stores.

import (
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/timing"
)

// Price is the cost of sending and receiving a message, in cycles of the processor. Sending
// has in it that what has arrived is looked for, and receiving the handler of one that
// counts.
type Price struct{ Send, Receive int }

// Prices holds the prices of messages by level: of up to 16 bytes of data into a segment
// (cmam_xfer_4), and of all others, as of those with four words.
type Prices struct{ Xfer, Other [arctic.Levels]Price }

// PaceMeasured is Pace for a machine with no other known prices; the bus of the
// processor should cost nothing. A look in vain is not among them and takes the
// instructions that it takes in the library.
func (e *Endpoint) PaceMeasured(cpu *timing.CPU, p Prices) { e.cpu, e.prices = cpu, &p }

// of returns the price of a message.
func (p *Prices) of(l funi.Level, s *funi.Slot) Price {
	if h := s.Header(); !h.Transfer() && h.Type() == typeXfer {
		return p.Xfer[l]
	}
	return p.Other[l]
}
