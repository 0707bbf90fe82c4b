package sim

// This file runs a network whose parts are in as many worlds, on several processors.
//
// No event of a part makes anything happen in another part sooner than the lookahead: a packet
// needs a wire and the way through a router, and a credit the packet's words and a wire. So all
// parts run the events of one window of time, from the first event on for as long as the lookahead,
// without regard to each other. What crosses to another part in the window is mailed. The next
// window begins with the mail of the last one (conservative synchronisation in windows: D. M.
// Nicol, The cost of conservative synchronization in parallel discrete event simulations, Journal
// of the ACM 40(2), 1993).
//
// A part takes its mail by sender, and of each sender in the order of its events. Parts are given
// by the network, and windows by the events. So neither the number of processors nor their speed
// changes the run.

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/funet/funet/uspace/arctic"
)

// part is a world with a part of a network.
type part struct {
	world   *World
	net     *Arctic
	number  int
	phase   int       // of the window: 0 or 1
	mail    [2][]mail // by phase and receiving part
	soonest int64     // the first event in the mail of the window, or Never
}

// mail is what crosses from a part to another in a window.
type mail struct {
	crossings []crossing
	bytes     []byte // of the frames, one behind the other
}

// crossing is an event of a channel that happens in another part.
type crossing struct {
	at    int64
	c     *channel
	flit  flit
	bytes int // of the frame; 0: a credit
}

func (p *part) box(to *Arctic, at int64) *mail {
	p.soonest = min(p.soonest, at)
	return &p.mail[p.phase][to.part.number]
}

// tell mails a credit to the output section that feeds a buffer.
func (p *part) tell(at int64, c *channel) {
	m := p.box(c.net, at)
	m.crossings = append(m.crossings, crossing{at: at, c: c})
}

// carry mails frame i, which leaves this part by a channel.
func (p *part) carry(at int64, c *channel, i uint32) {
	m, b := p.box(c.far, at), p.net.pool.frames[i].bytes()
	m.crossings = append(m.crossings, crossing{at: at, c: c, flit: p.net.flits[i], bytes: len(b)})
	m.bytes = append(m.bytes, b...)
	p.net.pool.give(i)
}

// take queues what another part has mailed.
func (p *part) take(m *mail) {
	a, b := p.net, m.bytes
	for k := range m.crossings {
		x := &m.crossings[k]
		if x.bytes == 0 {
			p.world.queue.push(x.at, x.c, frees)
			continue
		}
		i := a.pool.take(x.bytes)
		f := &a.pool.frames[i]
		f.n = copy(f.data, b[:x.bytes])
		b = b[x.bytes:]
		*a.flit(i) = x.flit
		p.world.queue.push(x.at, x.c, uint64(i)<<2|arrives)
	}
	m.crossings, m.bytes = m.crossings[:0], m.bytes[:0]
}

// window takes the mail of the window before, and makes all events before the given time happen.
func (p *part) window(all []*part, phase int, until int64) {
	p.phase = phase
	for _, from := range all {
		p.take(&from.mail[1-phase][p.number])
	}
	w := p.world
	for w.queue.next() < until {
		w.one()
	}
}

// wanted reports whether the part has something to do in a window.
func (p *part) wanted(all []*part, phase int, until int64) bool {
	if p.world.queue.next() < until {
		return true
	}
	for _, from := range all {
		if len(from.mail[1-phase][p.number].crossings) > 0 {
			return true
		}
	}
	return false
}

// lookahead returns the least time from an event in one part to one that it causes in another.
func (a *Arctic) lookahead() int64 {
	words := arctic.HeaderSize / arctic.WordSize
	switch {
	case a.cfg.Weightless:
		words = 0
	case a.cfg.Bare:
		words = arctic.PacketHeaderSize / arctic.WordSize
	}
	return a.cycles(int64(a.cfg.Wire + min(a.cfg.FlowThrough, words)))
}

// split makes a part of each world, and joins them.
func split(worlds []*World, nets []*Arctic) []*part {
	parts := make([]*part, len(worlds))
	for i, w := range worlds {
		parts[i] = &part{world: w, net: nets[i], number: i, soonest: Never}
		for phase := range parts[i].mail {
			parts[i].mail[phase] = make([]mail, len(worlds))
		}
		nets[i].part = parts[i]
		w.queue.large = true
	}
	return parts
}

// crew is the goroutines that run the parts of a window, each part on one of them.
type crew struct {
	ctx    context.Context
	all    []*part
	wanted []*part // those of the window
	next   atomic.Int32
	phase  int
	until  int64
	start  chan struct{}
	done   sync.WaitGroup
}

// work runs parts until all have been run, or the context has ended: a window of a large network
// takes a good part of a second.
func (c *crew) work() {
	for c.ctx.Err() == nil {
		i := int(c.next.Add(1)) - 1
		if i >= len(c.wanted) {
			return
		}
		c.wanted[i].window(c.all, c.phase, c.until)
	}
}

func (c *crew) help() {
	for range c.start {
		c.work()
		c.done.Done()
	}
}

// run runs a window that begins at the given time.
func (c *crew) run(helpers int, from int64) {
	c.phase, c.until, c.wanted = 1-c.phase, from+c.all[0].net.lookahead(), c.wanted[:0]
	for _, p := range c.all {
		p.soonest = Never
		if p.wanted(c.all, c.phase, c.until) {
			c.wanted = append(c.wanted, p)
		}
	}
	c.next.Store(0)
	helpers = min(helpers, len(c.wanted)-1)
	c.done.Add(helpers)
	for range helpers {
		c.start <- struct{}{}
	}
	c.work()
	c.done.Wait()
}

// FinishOn is Finish of a cluster in parts, on the given number of processors. It runs until every
// program has returned, and then until the end of the window. The outcome is the same
// on any number. It calls tell, if that is not nil, after each window, and returns the error of
// the context when that ends.
func (k *Cluster) FinishOn(ctx context.Context, cores int, limit time.Duration, tell func()) error {
	c := crew{ctx: ctx, all: k.parts, start: make(chan struct{})}
	helpers := max(cores, 1) - 1
	for range helpers {
		go c.help()
	}
	defer close(c.start)
	begin := k.Now()
	for !k.allEnded() {
		next := int64(Never)
		for _, p := range k.parts {
			next = min(next, p.world.queue.next(), p.soonest)
		}
		if next == Never || next-begin > int64(limit) {
			break
		}
		c.run(helpers, next)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("simulating %d nodes: %w", len(k.Processes), err)
		}
		if tell != nil {
			tell()
		}
	}
	return k.result(limit)
}
