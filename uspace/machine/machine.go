// Package machine turns a hardware profile into parts: for the engine of a card, for the processor
// beside it, and for the links between cards. Both worlds take the parts from here: package sim in
// virtual time, package card in real time. Neither the engine nor package timing knows profiles.
//
// A profile is of one of three kinds. With bus, processor and network it is a model, and New makes
// the objects of package timing. In place of figures it may have steps (steps.go), each with a time
// of its own, as hamlyn and tokyo have. Without any of these parts, as native, it leaves a host as
// fast as it is, and only its limits count. A profile with only some of them makes no machine: cm5
// has the measured costs of whole calls, not of their parts. So have virt-ni and ultra those of
// whole accesses; of these Ultra takes the times of a packet.
package machine

import (
	"errors"
	"fmt"
	"time"

	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/timing"
)

// ErrParts reports a profile that lacks parts of the machine.
var ErrParts = errors.New("it has no bus, no processor or no network")

// Modelled reports whether a profile describes a machine that New can make. It is false,
// without an error, for a profile that costs nothing, and false with ErrParts for one
// that has costs but not bus, processor and network.
func Modelled(p *hwprofiles.Profile) (bool, error) {
	switch {
	case len(p.Steps) > 0: // whatever else it has, its times are there
		if _, err := ofSteps(p); err != nil {
			return false, err
		}
		return true, nil
	case p.Bus.Clock != 0 && p.CPU.Clock != 0 && p.Network.Clock != 0:
		return true, nil
	case len(p.Costs) > 0:
		return false,
			fmt.Errorf("profile %s: %w, only measured costs of whole calls; use one that has, such as sbus-arctic",
				p.Name, ErrParts)
	case p.Bus.Clock == 0 && p.CPU.Clock == 0 && p.Network.Clock == 0 && p.IO == hwprofiles.IO{}:
		return false, nil
	}
	return false, fmt.Errorf("profile %s: %w; use one that has, such as sbus-arctic", p.Name, ErrParts)
}

// Limit gives an engine the limits of the profile's card; a zero leaves the engine's own. A profile
// that costs nothing means nothing else.
func Limit(c *engine.Config, p *hwprofiles.Profile) {
	set := func(to *int, v int) {
		if v > 0 {
			*to = v
		}
	}
	set(&c.Lines, p.Card.Lines)
	set(&c.ReplyLines, p.Card.ReplyLines)
	set(&c.Sets, p.Card.Contexts)
	set(&c.FIFO, p.Card.FIFOPackets)
	set(&c.Train, p.Card.TrainPackets)
	set(&c.AckEvery, p.Card.AcknowledgeEveryFrames)
	set(&c.TransferWords, p.Card.TransferWords)
	set(&c.RemotePage, p.Card.RemotePageBytes)
	set(&c.BlockBytes, p.Card.BlockBytes)
	c.Blocks = c.Blocks && p.Card.Blocks
}

// Machine is one modelled host: a bus, and the card and processor on it. All of them belong to the
// goroutine that runs card and program.
type Machine struct {
	profile *hwprofiles.Profile
	bus     *timing.Bus
	steps   *stepped // nil: its times are the profile's figures
}

// New makes a machine of a profile for which Modelled is true; it returns ErrParts for others.
func New(p *hwprofiles.Profile) (*Machine, error) {
	if ok, err := Modelled(p); err != nil {
		return nil, err
	} else if !ok {
		return nil, fmt.Errorf("profile %s: %w; use one that has, such as sbus-arctic", p.Name, ErrParts)
	}
	bus := timing.NewBus(p.Bus.Clock.Duration(p.Bus.TransactionCycles), p.Bus.Clock.Duration(p.Bus.WordCycles))
	m := &Machine{profile: p, bus: bus}
	if len(p.Steps) > 0 {
		m.steps, _ = ofSteps(p) // which Modelled has looked at
	}
	return m, nil
}

// Bus returns the bus that the machine's card and processor share.
func (m *Machine) Bus() *timing.Bus { return m.bus }

// Tune gives an engine the limits and the times of the machine's card.
func (m *Machine) Tune(c *engine.Config) {
	p := m.profile
	Limit(c, p)
	c.Blocks = c.Blocks && m.steps != nil // else a unit moves packets
	// a rejected packet is dispatched again at once (5.2.4)
	c.MinHold = p.Network.Clock.Duration(hwprofiles.Cycle)
	c.MaxHold = c.MinHold
	bus, network := p.Bus.Clock, p.Network.Clock
	c.Timing = &engine.Timing{
		Bus: m.bus, Bursts: p.Bus.Bursts, QueueBurst: p.Bus.QueueBurst, HeadUnwritten: p.Options.HeadUnwritten,
		GroupWords: p.Options.GroupWords,
		Retrieval:  bus.Duration(p.Units.RetrievalCycles),
		Dispatch:   bus.Duration(p.Units.DispatchCycles),
		Delivery:   bus.Duration(p.Units.DeliveryCycles),
		Transmit:   network.Duration(p.Units.TransmitCycles), Preprocess: network.Duration(p.Units.PreprocessCycles),
		WindowEntries: p.Card.WindowEntriesCached, EntryWords: p.Card.WindowEntryWords,
	}
	if m.steps != nil {
		c.Timing.Card = &m.steps.card
	}
}

// CPU returns the times of the machine's processor.
func (m *Machine) CPU() timing.CPUConfig {
	p := m.profile
	c := timing.CPUConfig{
		Cycle: p.CPU.Clock.Duration(p.CPU.InstructionCycles),
		Store: p.CPU.Clock.Duration(p.CPU.UncachedWriteCycles),
		Stall: max(0, p.CPU.Clock.Duration(p.CPU.UncachedReadCycles)-p.Bus.Transaction(1)),
		Library: timing.Library{
			LoopCycles: whole(p.Library.LoopCycles), BlockCycles: whole(p.Library.BlockCycles),
			CounterCycles: whole(p.Library.CounterCycles),
			SegmentCycles: whole(p.Library.SegmentCycles), TransferWords: p.Card.TransferWords,
			LookMisses: p.Options.LookMisses,
		},
	}
	if m.steps != nil {
		c.Rats = m.steps.rats
	}
	return c
}

// whole returns cycles without their tenths, which a count of instructions does not have.
func whole(c hwprofiles.Cycles) int { return int(c / hwprofiles.Cycle) }

// Link is the network as a card sees it that has only links to its neighbours.
type Link struct {
	Word time.Duration // how long a link takes for 32 bits; 0: the cards' times include it
	// Latency is how long the head of a packet takes from a card to that of a neighbour,
	// through two routers (thesis 6.1.4: a hypercube, with a card at each router).
	Latency time.Duration
}

// Link returns the links of the machine's network.
func (m *Machine) Link() Link {
	if m.steps != nil {
		return Link{Latency: m.steps.latency}
	}
	n := &m.profile.Network
	return Link{
		Word:    n.Clock.Duration(hwprofiles.Cycle * 2 / hwprofiles.Cycles(n.HalfwordsPerCycle)),
		Latency: n.Clock.Duration(2*n.RouterCycles + 3*n.WireCycles),
	}
}

// Works returns the least time that a card of the machine works on a frame that has arrived, before
// its program sees anything of the frame.
func (m *Machine) Works() time.Duration {
	if m.steps == nil {
		// one for the packet and one for the head register
		return time.Duration(2 * m.bus.Transaction(1))
	}
	c := &m.steps.card
	return time.Duration(c.Arrives(0, 0)+m.bus.Transaction(1)) + c.Notify.Duration(0, 0)
}
