package sim

// This file has the process: a program as a coroutine, which runs until it lets time pass. The
// event queue alone decides which program runs.

import (
	"errors"
	"fmt"
	"iter"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/timing"
)

// ErrKilled is the error of a process that was killed.
var ErrKilled = errors.New("sim: process was killed")

// Program is the program of a process. It takes virtual time only by the methods of Process.
type Program func(p *Process) error

// Process is one process with one context.
type Process struct {
	world   *World
	card    *Card
	memory  *funi.Memory
	iface   *funi.Interface
	context *engine.Context
	cpu     *timing.CPU // nil: the work of the program takes no time by itself
	prices  *am.Prices  // of calls, if they were measured; nil: calls are modelled

	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool // to the event queue; false: killed
	ended bool
	err   error

	due     int64 // time of the pending turn, or Never
	token   uint64
	paused  int64 // time before which there is no turn
	slow    int64
	stopped bool          // switched out, or about to be
	saved   *engine.Saved // switched out
	move    *move         // to another card, under way
	idle    bool          // a publication of the card brings the turn forward
	vain    bool          // the last look was in vain
	wrote   [5]uint32     // what the card reads, as last told to the card
	lines   uint32        // as Interface.Lines was when the card was last told
	seen    [10]uint32    // what the card writes, as last seen by the program
	// triggers says that the process issues its requests by triggers. It does so when it tells the
	// card what it has written.
	triggers bool
}

// Registers that the process writes and the card reads, and the other way round.
var (
	ofProcess = [...]funi.Register{funi.RPSQHead, funi.RQSQHead, funi.RPRQTail, funi.RQRQTail, funi.Control}
	ofCard    = [...]funi.Register{funi.RPSQTail, funi.RQSQTail, funi.RPRQHead, funi.RQRQHead}
)

func (p *Process) start(program Program) {
	p.next, p.stop = iter.Pull(func(yield func(struct{}) bool) {
		p.yield = yield
		defer func() {
			if r := recover(); r != nil && r != ErrKilled {
				panic(r)
			}
		}()
		p.err = program(p)
	})
	p.turnAt(p.world.now)
}

// turnAt gives the process its next turn at the given time. With Never it waits, perhaps for good,
// until its card publishes something.
func (p *Process) turnAt(at int64) {
	if at == Never {
		p.due = Never
		return
	}
	p.due = max(at, p.paused, p.world.now)
	p.token = p.world.queue.push(p.due, p, 0)
}

func (p *Process) happen(token, _ uint64) bool {
	if p.due == Never || token != p.token {
		return false
	}
	if p.stopped {
		p.due = Never // SwitchIn gives it a turn
		return false
	}
	p.due, p.idle = Never, false
	w := p.world
	if w.now < p.paused {
		p.turnAt(p.paused)
		return false
	}
	if w.trace != nil {
		w.trace.turn(p)
	}
	card := p.card
	if _, more := p.next(); !more {
		p.ended = true
		p.tell()
	}
	w.mix(uint64(card.number) | uint64(p.context.Node())<<32)
	if w.o.Watch != nil {
		w.o.Watch(card)
	}
	return true
}

// tell wakes the card if the process has written anything that it reads, and reports whether.
func (p *Process) tell() bool {
	var wrote [len(ofProcess)]uint32
	for i, r := range ofProcess {
		wrote[i] = p.memory.Page.Load(r)
	}
	lines := p.iface.Lines()
	if issued := p.triggers && p.iface.Issue(); wrote == p.wrote && lines == p.lines && !issued &&
		!p.memory.Page.Triggered() {
		return false
	}
	p.wrote, p.lines = wrote, lines
	p.card.wake(p.world.now)
	return true
}

// news reports whether the card has written anything since the program looked.
func (p *Process) news() bool {
	var seen [10]uint32
	for i, r := range ofCard {
		seen[i] = p.memory.Page.Load(r)
	}
	now := p.memory.Page.Published()
	seen[4], seen[5], seen[6], seen[7], seen[8] = now.Returned, now.Notified, now.Completed, now.Written, now.Lost
	seen[9] = now.Answers
	if seen == p.seen {
		return false
	}
	p.seen = seen
	return true
}

// published brings the turn of an idle process forward if its card has news for it.
func (p *Process) published() {
	if p.idle && p.news() {
		p.idle, p.vain = false, false
		p.turnAt(p.world.now + p.pollTime())
	}
}

func (p *Process) pollTime() int64 { return int64(p.world.o.PollTime) * p.slow * p.card.slow }

// Drive shows the card what the process has done, and takes the time of one look at the queues.
// From the second look in vain on it takes until there is news, at most IdleTime. With a modelled
// processor it takes no time, because the program's work is charged by itself. Drive is the drive
// function of package am.
func (p *Process) Drive() {
	if p.cpu != nil {
		p.tell() // what the program does is charged by itself
		return
	}
	told, news := p.tell(), p.news()
	if told || news || !p.vain {
		p.vain = !told && !news
		p.turnAt(p.world.now + p.pollTime())
	} else {
		p.idle = true
		p.turnAt(p.world.now + max(int64(p.world.o.IdleTime), p.pollTime()))
	}
	p.giveWay()
}

// Wait is Drive that ends when there is news, or at the given time, which may be Never.
func (p *Process) Wait(until int64) {
	p.tell()
	at := max(until, p.world.now+p.pollTime())
	if p.news() {
		at = p.world.now + p.pollTime()
	} else {
		p.idle = true
	}
	p.turnAt(at)
	p.giveWay()
}

// Wake gives a waiting process its next turn now. It does nothing to one that sleeps or has ended.
func (p *Process) Wake() {
	if p.idle && !p.ended {
		p.idle, p.vain = false, false
		p.turnAt(p.world.now)
	}
}

// Sleep lets ns nanoseconds pass in which the process does nothing.
func (p *Process) Sleep(ns int64) {
	p.tell()
	p.turnAt(p.world.now + ns)
	p.giveWay()
}

func (p *Process) giveWay() {
	if !p.yield(struct{}{}) {
		panic(ErrKilled)
	}
}

// Now returns the time in nanoseconds; it is the programs' clock.
func (p *Process) Now() int64 {
	if p.cpu != nil {
		p.cpu.Settle()
	}
	return p.world.now
}

// Pace makes the work of the program take the time that a processor needs. Call it before Endpoint.
func (p *Process) Pace(c timing.CPUConfig, bus *timing.Bus) {
	p.cpu = timing.NewCPU(c, bus, timing.Clock{
		Now: func() int64 { return p.world.now },
		Until: func(at int64) {
			p.tell()
			p.turnAt(at)
			p.giveWay()
		},
	})
}

// CPU returns the processor of a modelled machine, which the program's library charges, or nil.
func (p *Process) CPU() *timing.CPU { return p.cpu }

// Interface returns the process's end of its context.
func (p *Process) Interface() *funi.Interface { return p.iface }

// Memory returns the memory that the process shares with the card.
func (p *Process) Memory() *funi.Memory { return p.memory }

// Segment returns new memory, all 0, that is registered as a segment of the context, as Segment
// of package card does.
func (p *Process) Segment(base uint32, bytes int, rights funi.Rights) ([]byte, error) {
	memory := make([]byte, max(bytes, 0))
	return memory, p.context.Register(funi.Segment{Base: base, Memory: memory, Rights: rights})
}

// Context returns the card's end of the process's context.
func (p *Process) Context() *engine.Context { return p.context }

// Card returns the card that the process is attached to.
func (p *Process) Card() *Card { return p.card }

// Endpoint makes an endpoint for active messages, in a group of the given number of nodes.
func (p *Process) Endpoint(nodes int) (*am.Endpoint, error) {
	p.world.lives++
	e, err := am.New(p.iface, int(p.context.Node()), nodes, p.Drive, p.world.lives)
	switch {
	case err != nil || p.cpu == nil:
	case !p.cpu.PricesMessages():
		return nil, fmt.Errorf("making an endpoint: %w", timing.ErrMessages)
	case p.prices != nil:
		e.PaceMeasured(p.cpu, *p.prices)
	default:
		e.Pace(p.cpu)
	}
	return e, err
}

// Ended reports whether the program has returned or was killed, and returns its error.
func (p *Process) Ended() (bool, error) { return p.ended, p.err }

// Pause keeps the process from running until the given time, as SIGSTOP does.
func (p *Process) Pause(until int64) { p.paused = max(p.paused, until) }

// Slow makes all that the process does take the given number of times as long; 1 is full speed.
func (p *Process) Slow(times int) { p.slow = int64(max(times, 1)) }

// Kill ends the program wherever it is, as SIGKILL does. Its context stays attached. A program must
// not kill its own process.
func (p *Process) Kill() {
	if p.ended {
		return
	}
	p.ended, p.err, p.due = true, ErrKilled, Never
	p.stop()
}
