package paper

// This file adds up steps.

import (
	"errors"
	"fmt"

	"github.com/funet/funet/hwprofiles"
)

// errSteps reports a profile without such steps.
var errSteps = errors.New("the profile has not the steps of Hamlyn's tables; use hamlyn, or for --claims hamlyn-statemachine")

// hamlyn is the machine of a profile.
type hamlyn struct {
	p           *hwprofiles.Profile
	instruction float64 // nanoseconds
	cycle       float64
}

// newHamlyn returns errSteps for a profile without steps.
func newHamlyn(p *hwprofiles.Profile) (*hamlyn, error) {
	if len(p.Steps) == 0 || p.CPU.Clock == 0 || p.Bus.Clock == 0 {
		return nil, fmt.Errorf("profile %s: %w", p.Name, errSteps)
	}
	m := &hamlyn{p: p, cycle: 1e6 / float64(p.Bus.Clock)}
	cpi, err := m.sum("host", "host", "on", 0, 0)
	m.instruction = cpi * 1e6 / float64(p.CPU.Clock)
	return m, err
}

// sum adds up the steps of one side, on the critical path or off it, for d bytes of data and m of
// metadata. If names are given, it adds only the step of the first name.
func (m *hamlyn) sum(of, side, path string, d, metadata float64, names ...string) (total float64, err error) {
	found := 0
	for _, s := range m.p.Steps {
		if s.Of == of && s.Side == side && s.Path == path && (len(names) == 0 || s.Name == names[0]) {
			total += share(s.Base) + share(s.DataByte)*d + share(s.MetadataByte)*metadata
			found++
		}
	}
	if found == 0 {
		return 0, fmt.Errorf("profile %s has no step of %s, %s, %s %v: %w", m.p.Name, of, side, path, names, errSteps)
	}
	return total, nil
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

// steps adds up steps and remembers the first error.
type steps struct {
	m     *hamlyn
	of    string
	d     float64
	wrong error
}

func (s *steps) one(side, path, name string) float64 {
	v, err := s.m.sum(s.of, side, path, s.d, 0, name)
	s.wrong = errors.Join(s.wrong, err)
	return v
}

// arrive returns the cycles in which the card takes a packet off the link. Its processor shares the
// memory with the link's DMA, which takes at least every fourth cycle and at most every other one
// (Table 4, note c).
func (s *steps) arrive() float64 {
	whole := s.one("receiver", "on", "link to interface")
	at0 := *s
	at0.d = 0
	base := at0.one("receiver", "on", "link to interface")
	return base + min(base, whole-base)
}

// card is the time of one message on the cards and between them, in cycles.
type card struct{ sender, link, receiver, notify float64 }

func (c card) all() float64 { return c.sender + c.link + c.receiver + c.notify }

// direct returns the time of a message of one packet that the host writes to the card (Table 3).
func (m *hamlyn) direct(d float64) (card, error) {
	s := steps{m: m, of: "direct", d: d}
	c := card{s.one("sender", "on", "send packet"), s.one("switch", "on", "switch"), s.arrive() + m.bus(d),
		s.one("receiver", "off", "notify host")}
	return c, s.wrong
}

// dma returns the time of a message of n packets that the card fetches (Tables 4 and 5). The bus is
// the bottleneck: while a packet is sent the next is loaded, and while one is written the next
// arrives.
func (m *hamlyn) dma(d, n float64) (sender float64, c card, err error) {
	s := steps{m: m, of: "dma", d: d}
	last := s.one("sender", "on", "send packet")
	sender = s.one("sender", "on", "start data to card") + n*m.bus(d) + last
	c = card{sender, s.one("switch", "on", "switch"), s.arrive() + s.one("receiver", "on", "interface to host") +
		m.bus(d), s.one("receiver", "on", "notify host")}
	return sender, c, s.wrong
}

// receiver returns the time at the receiver alone for n packets: that of the first, and then the
// bus time of each further one.
func (m *hamlyn) receiver(d, n float64) (float64, error) {
	_, c, err := m.dma(d, n)
	return c.receiver + c.notify + (n-1)*m.bus(d), err
}

// software returns the instructions of a library call on one side.
func (m *hamlyn) software(of, mode, side, path string, d, metadata float64) (float64, error) {
	if side == "sender" {
		of += "-" + mode
	}
	return m.sum(of, side, path, d, metadata)
}

// best returns the state machines' cycles for one packet of d bytes, with the switch or without, if
// packets follow each other (4.2).
func (m *hamlyn) best(d float64, withSwitch bool) (float64, error) {
	s := steps{m: m, of: "statemachine", d: d}
	total := s.one("both", "on", "request, header out and in") + m.bus(max(d, 32))/max(d, 32)*d
	if withSwitch {
		total += s.one("switch", "on", "switch")
	}
	return total, s.wrong
}
