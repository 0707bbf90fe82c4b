package am

// This file is for machines that serve for comparison and are not modelled. The measured costs of
// whole calls replace instructions, loads and stores.

import (
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/timing"
)

// Price is the cost of sending and of receiving a message, in cycles of the processor. Sending
// includes a look for messages that have arrived, and receiving includes a handler that counts.
type Price struct{ Send, Receive int }

// Prices holds the prices of messages by level. Xfer is for up to 16 bytes of data into a segment
// (cmam_xfer_4). Other is for all other messages, priced as those with four words.
type Prices struct{ Xfer, Other [arctic.Levels]Price }

// PaceMeasured is Pace for a machine of which only these prices are known; the bus of its processor
// should cost nothing. A look that finds no message has no price, and costs the instructions that
// the library executes.
func (e *Endpoint) PaceMeasured(cpu *timing.CPU, p Prices) { e.paceBy(cpu, &p) }

// of returns the price of a message.
func (p *Prices) of(l funi.Level, s *funi.Slot) Price {
	if h := s.Header(); !h.Transfer() && h.Type() == typeXfer {
		return p.Xfer[l]
	}
	return p.Other[l]
}
