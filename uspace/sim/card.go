package sim

// This file has the card as an object of a world. It can crash, restart with another incarnation,
// and be paused or slowed down together with its host's processor.

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
	"github.com/funet/funet/uspace/port/bundle"
)

// Port is a port of a simulated network: *EthernetPort or *ArcticPort.
type Port interface {
	port.Port
	// attach sets the card to wake when frames arrive; nil: there is none, and the frames are lost.
	// Frames that the port held for the old card are lost, too.
	attach(c *Card)
}

// Card is one network interface card. While it is down, frames for it are lost.
type Card struct {
	world     *World
	number    int
	port      Port
	engine    *engine.Card // nil: down
	processes []*Process
	due       int64  // of the pending event, or Never
	token     uint64 // of the pending event
	free      int64  // the time from which the processor is free for a step
	slow      int64  // a step takes slow times StepTime
	bundles   bool
	told      []func(*engine.Card)
	before    engine.Counters
}

// NewCard makes a card that is down, on a port of its own.
func (w *World) NewCard(p Port) *Card { return w.newCard(len(w.cards), p) }

func (w *World) newCard(number int, p Port) *Card {
	c := &Card{world: w, number: number, port: p, due: Never, slow: 1}
	w.cards = append(w.cards, c)
	return c
}

// Bundle has the card send small frames in bundles from its next life on (package bundle). Its
// network takes them apart: the switch of an Ethernet, or the routers of an Arctic.
func (c *Card) Bundle() { c.bundles = true }

// Start starts a new life of the card, which must be down. The configuration needs an incarnation
// that no earlier life had; Start fills in Ports.
func (c *Card) Start(cfg engine.Config) error {
	cfg.Ports = []port.Port{c.port}
	if c.bundles {
		cfg.Ports[0] = c.bundling()
	}
	e, err := engine.New(cfg)
	if err != nil {
		return fmt.Errorf("starting simulated card %d: %w", c.number, err)
	}
	c.engine, c.before = e, engine.Counters{}
	c.port.attach(c)
	c.wake(c.world.now)
	return nil
}

// bundling returns the card's port with one around it that bundles. On an Arctic, whose cards have
// no addresses, every card is a host.
func (c *Card) bundling() port.Port {
	a, ok := c.port.(*ArcticPort)
	if !ok {
		return bundle.New(c.port)
	}
	hosts := make([]uint16, min(len(a.net.ports), math.MaxUint16))
	for i := range hosts {
		hosts[i] = uint16(i)
	}
	p := bundle.NewDirect(c.port)
	p.Stations(hosts, math.MaxUint16)
	return p
}

// Engine returns the card's engine, nil while the card is down.
func (c *Card) Engine() *engine.Card { return c.engine }

// Number returns the card's number in the world, from 0.
func (c *Card) Number() int { return c.number }

// Processes returns the processes of the card's present life.
func (c *Card) Processes() []*Process { return c.processes }

// Crash ends the card and its processes without a word, as a power failure does. It does nothing to
// a card that is down.
func (c *Card) Crash() {
	for _, p := range c.processes {
		p.Kill()
	}
	c.engine, c.processes, c.told, c.due = nil, nil, nil, Never
	c.port.attach(nil)
}

// Leave ends the card and its processes as a program's end does: it says goodbye to its peers.
func (c *Card) Leave() {
	if c.engine != nil {
		c.engine.Leave()
		c.engine.Step(c.world.now)
	}
	c.Crash()
}

// SetLimit tells the card how long frames to another card may be; see engine.Card. A card that is
// down ignores it.
func (c *Card) SetLimit(to, bytes int) {
	if c.engine != nil {
		c.engine.SetLimit(uint16(to), bytes)
		c.wake(c.world.now)
	}
}

// Tell calls do with the card's engine after its next step, and another step follows. So a card is
// told of events elsewhere (package card). A card that is down ignores it.
func (c *Card) Tell(do func(*engine.Card)) {
	if c.engine != nil {
		c.told = append(c.told, do)
		c.wake(c.world.now)
	}
}

// Pause keeps the card, not its processes, from running until the given time.
func (c *Card) Pause(until int64) { c.free = max(c.free, until) }

// Slow makes each step of the card, and everything that its processes do, take the given number of
// times as long. 1 is full speed.
func (c *Card) Slow(times int) { c.slow = int64(max(times, 1)) }

// wake makes the card run at the given time, or as soon after as it can.
func (c *Card) wake(at int64) {
	at = max(at, c.free, c.world.now)
	if c.engine == nil || c.due <= at {
		return
	}
	c.due = at
	c.token = c.world.queue.push(at, c, 0)
}

func (c *Card) happen(token, _ uint64) bool {
	if c.due == Never || token != c.token {
		return false
	}
	c.due = Never
	w := c.world
	if w.now < c.free { // paused in the meantime
		c.wake(c.free)
		return false
	}
	next := c.engine.Step(w.now)
	for _, do := range c.told {
		do(c.engine)
		next = w.now
	}
	c.told = c.told[:0]
	c.free = w.now + int64(w.o.StepTime)*c.slow
	if next != engine.Never {
		c.wake(next)
	}
	for _, p := range c.processes {
		p.published()
	}
	if w.trace != nil {
		w.trace.step(c)
	}
	w.mix(uint64(c.number))
	if w.o.Watch != nil {
		w.o.Watch(c)
	}
	return true
}

// Run attaches a process that runs the program to the card, which must be up. It has
// queues of the given number of slots and belongs to the job with tag 0.
func (c *Card) Run(gid, node uint16, slots int, program Program) (*Process, error) {
	return c.RunIn(gid, node, 0, slots, program)
}

// RunIn is Run for the job with the tag.
func (c *Card) RunIn(gid, node uint16, tag uint64, slots int, program Program) (*Process, error) {
	memory, err := funi.NewMemory(slots)
	if err != nil {
		return nil, err
	}
	if err := memory.AddRemote(c.world.o.Remote); err != nil {
		return nil, err
	}
	p := &Process{world: c.world, card: c, memory: memory, due: Never, slow: 1}
	if by := c.world.o.IssueByTrigger; by != nil && by(gid, node) {
		p.triggers = true
		memory.Page.IssueByTrigger(true)
	}
	if p.iface, err = funi.Initialize(memory); err != nil {
		return nil, err
	}
	if p.context, err = c.engine.Attach(memory, gid, node, tag); err != nil {
		return nil, err
	}
	c.processes = append(c.processes, p)
	p.start(program)
	return p, nil
}

// Detach kills a process of the card's and detaches its context.
func (c *Card) Detach(p *Process) {
	i := slices.Index(c.processes, p)
	if i < 0 {
		return // of an earlier life
	}
	p.Kill()
	if m := p.move; m != nil && m.next != nil && m.to.engine == m.new {
		m.new.Detach(m.next)
		m.next = nil
		m.to.wake(c.world.now)
	}
	c.engine.Detach(p.context)
	c.processes = slices.Delete(c.processes, i, i+1)
	c.wake(c.world.now)
}

// SwitchOut takes a process off the card, as a context switch of the operating system does (thesis
// 4.2). The process stops at once. Its context leaves when no packet of the process is in flight;
// then SwitchOut calls out, unless it is nil. SwitchIn may be called at any time and brings the
// process back.
func (c *Card) SwitchOut(p *Process, out func()) {
	if p.ended || p.stopped || p.card != c {
		return
	}
	p.stopped = true
	var try func()
	try = func() {
		if !p.stopped || p.saved != nil || p.move != nil || p.ended || c.engine == nil ||
			!slices.Contains(c.processes, p) {
			return // the switch was abandoned, and perhaps a move has begun since
		}
		saved, err := c.engine.SwitchOut(p.context, false)
		c.wake(c.world.now)
		if errors.Is(err, engine.ErrNotReady) {
			c.world.At(c.world.now+switchLook, try)
			return
		}
		if err != nil {
			panic(fmt.Errorf("sim: switching out: %w", err))
		}
		p.saved = saved
		if out != nil {
			out()
		}
	}
	try()
}

// switchLook is how often the operating system looks whether a switch is over, in ns.
const switchLook = 20_000

// SwitchIn brings back a process that SwitchOut has taken off the card, or is about to. For a
// process that has moved, call it on the process's new card.
func (c *Card) SwitchIn(p *Process) {
	if !p.stopped || p.ended || p.move != nil || p.card != c {
		return
	}
	if p.saved == nil {
		// The switch is abandoned. What the process asks for is in its page; the card
		// may not have seen it yet.
		if err := p.context.Store(funi.Control, p.memory.Page.Load(funi.Control)&funi.UserModes); err != nil {
			panic(fmt.Errorf("sim: abandoning a switch: %w", err))
		}
	} else if err := c.engine.SwitchIn(p.saved); err != nil {
		panic(fmt.Errorf("sim: switching in: %w", err))
	}
	p.stopped, p.saved = false, nil
	c.wake(c.world.now)
	if p.due == Never {
		p.turnAt(c.world.now)
	}
}
