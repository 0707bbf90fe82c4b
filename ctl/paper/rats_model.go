package paper

// This file adds up steps.

import (
	"errors"
	"fmt"
	"slices"

	"github.com/funet/funet/hwprofiles"
)

// errSteps reports a profile without such steps.
var errSteps = errors.New("the profile has not the steps of Hamlyn's tables; use hamlyn, or for --claims hamlyn-statemachine")

// hamlyn is the machine of a profile.
type hamlyn struct {
	p           *hwprofiles.Profile
	instruction float64 // nanoseconds
	cycle       float64
	wrong       error // of sums for which the profile has no step
}

// newHamlyn returns errSteps for a profile without steps.
func newHamlyn(p *hwprofiles.Profile) (*hamlyn, error) {
	if len(p.Steps) == 0 || p.CPU.Clock == 0 || p.Bus.Clock == 0 {
		return nil, fmt.Errorf("profile %s: %w", p.Name, errSteps)
	}
	m := &hamlyn{p: p, cycle: 1e6 / float64(p.Bus.Clock)}
	m.instruction = m.sum("host", "host", "on", 0, 0) * 1e6 / float64(p.CPU.Clock)
	return m, m.wrong
}

// has reports whether the profile has steps of something.
func (m *hamlyn) has(of string) bool {
	return slices.ContainsFunc(m.p.Steps, func(s hwprofiles.Step) bool { return s.Of == of })
}

// sum adds up the steps of one side, on the critical path or off it, for d bytes of data and m of
// metadata. If names are given, it adds only the step of the first name.
func (m *hamlyn) sum(of, side, path string, d, metadata float64, names ...string) (total float64) {
	found := 0
	for _, s := range m.p.Steps {
		if s.Of == of && s.Side == side && s.Path == path && (len(names) == 0 || s.Name == names[0]) {
			total += share(s.Base) + share(s.DataByte)*d + share(s.MetadataByte)*metadata
			found++
		}
	}
	if found == 0 {
		err := fmt.Errorf("profile %s has no step of %s, %s, %s %v: %w", m.p.Name, of, side, path, names, errSteps)
		m.wrong = errors.Join(m.wrong, err)
	}
	return total
}

// bus returns the cycles that d bytes take over the bus: in bursts of 8 words from 32 bytes on, and
// below that in bursts of 4 (Table 3, note a).
func (m *hamlyn) bus(d float64) float64 {
	words := 4
	if d >= 32 {
		words = 8
	}
	return float64(m.p.Bus.Transaction(words).Nanoseconds()) / m.cycle * d / float64(4*words)
}

// arrive returns the cycles in which the card takes a packet off the link. Its processor shares the
// memory with the link's DMA, which takes at least every fourth cycle and at most every other one
// (Table 4, note c).
func (m *hamlyn) arrive(of string, d float64) float64 {
	whole, wrong := m.sum(of, "receiver", "on", d, 0, "link to interface"), m.wrong
	base := m.sum(of, "receiver", "on", 0, 0, "link to interface")
	m.wrong = wrong // once is enough
	return base + min(base, whole-base)
}

// card is the time of one message on the cards and between them, in cycles.
type card struct{ sender, link, receiver, notify float64 }

func (c card) all() float64 { return c.sender + c.link + c.receiver + c.notify }

// direct returns the time of a message of one packet that the host writes to the card (Table 3).
func (m *hamlyn) direct(d float64) card {
	return card{m.sum("direct", "sender", "on", d, 0, "send packet"), m.sum("direct", "switch", "on", d, 0, "switch"),
		m.arrive("direct", d) + m.bus(d), m.sum("direct", "receiver", "off", d, 0, "notify host")}
}

// dma returns the time of a message of n packets that the card fetches (Tables 4 and 5). The bus is
// the bottleneck: while a packet is sent the next is loaded, and while one is written the next
// arrives.
func (m *hamlyn) dma(d, n float64) card {
	last := m.sum("dma", "sender", "on", d, 0, "send packet")
	return card{m.sum("dma", "sender", "on", d, 0, "start data to card") + n*m.bus(d) + last,
		m.sum("dma", "switch", "on", d, 0, "switch"),
		m.arrive("dma", d) + m.sum("dma", "receiver", "on", d, 0, "interface to host") + m.bus(d),
		m.sum("dma", "receiver", "on", d, 0, "notify host")}
}

// library returns the instructions of a call of the library on one side.
func (m *hamlyn) library(of, mode, side, path string, d, metadata float64) float64 {
	if side == "sender" {
		of += "-" + mode
	}
	return m.sum(of, side, path, d, metadata)
}

// instructions returns the library's instructions on the path of both sides, and us their time in
// microseconds.
func (m *hamlyn) instructions(of, mode string, d, metadata float64) float64 {
	return m.library(of, mode, "sender", "on", d, metadata) + m.library(of, mode, "receiver", "on", d, metadata)
}

func (m *hamlyn) us(of, mode string, d, metadata float64) float64 {
	return m.instructions(of, mode, d, metadata) * m.instruction / 1000
}

// evenBytes returns the size of a tagged write from which DMA takes fewer instructions than direct
// I/O.
func (m *hamlyn) evenBytes() float64 {
	direct := m.instructions("tagged", "direct", 0, 0)
	return (m.instructions("tagged", "dma", 0, 0) - direct) / (m.instructions("tagged", "direct", 1, 0) - direct)
}

// best returns the state machines' cycles for one packet of d bytes, without the switch as if
// packets follow each other (4.2).
func (m *hamlyn) best(d float64) float64 {
	return m.sum("statemachine", "both", "on", d, 0, "request, header out and in") + m.bus(max(d, 32))/max(d, 32)*d
}

// bestAlone returns the same with the switch.
func (m *hamlyn) bestAlone(d float64) float64 {
	return m.best(d) + m.sum("statemachine", "switch", "on", d, 0, "switch")
}
