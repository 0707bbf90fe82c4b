package engine

// This file is the card as a whole: New puts it together. Step, in step.go, runs it.

import (
	"fmt"

	"github.com/funet/funet/uspace/engine/link"
	"github.com/funet/funet/uspace/funi"
)

// Card is one network interface card. It belongs to the goroutine that steps it.
type Card struct {
	cfg      Config
	clock    clock
	link     *link.End
	counters Counters

	table  contexts
	bells  doorbells
	sched  scheduler
	routes routes
	out    retrieval
	in     delivery
	remote remoteUnit
	move   moves
	ultra  ultra
	model  *model // nil: what the card does takes no time
}

// core is what every unit of a card works with.
type core struct {
	cfg      *Config
	clock    *clock
	link     *link.End
	counters *Counters
}

// New makes a card. It has no contexts yet; see Attach.
func New(cfg Config) (*Card, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("making card %d: %w", cfg.Card, err)
	}
	c := &Card{cfg: cfg, clock: newClock(), link: link.New(cfg.link())}
	c.connect()
	c.link.SetGroup(SystemGroup, cfg.SystemEvent != nil, false)
	c.cfg.Peers = nil // the link has them
	return c, nil
}

// connect gives each unit of the card the units that it works with.
func (c *Card) connect() {
	all := core{cfg: &c.cfg, clock: &c.clock, link: c.link, counters: &c.counters}
	if c.cfg.Timing != nil {
		c.model = newModel(all, &c.routes, &c.sched, &c.in, &c.out, &c.remote)
	}
	c.table = contexts{core: all, sched: &c.sched}
	c.bells = doorbells{sched: &c.sched, far: new(funi.FarDoorbells)}
	c.sched = scheduler{core: all, bells: &c.bells, table: &c.table, out: &c.out, ultra: &c.ultra, charged: -link.LongestRest - 1}
	c.routes = routes{core: all, sched: &c.sched, table: &c.table, common: c.cfg.Routes}
	c.out = retrieval{core: all, routes: &c.routes, table: &c.table, sched: &c.sched, in: &c.in, model: c.model,
		remote: &c.remote, late: agenda[transfer]{clock: &c.clock, deadline: lateDue}}
	c.out.block, c.out.writeBlock = c.cfg.blocks()
	c.in = delivery{core: all, routes: &c.routes, table: &c.table, out: &c.out, remote: &c.remote, move: &c.move,
		ultra: &c.ultra}
	c.remote = remoteUnit{core: all, routes: &c.routes, table: &c.table, out: &c.out, in: &c.in, model: c.model,
		unanswered: [2]agenda[request]{{clock: &c.clock, deadline: answerDue}, {clock: &c.clock, deadline: reportDue}},
		reserved:   agenda[reservation]{clock: &c.clock, deadline: roomDue},
		generation: uint16(c.cfg.Incarnation) * generations}
	c.remote.seedProofs()
	c.ultra = ultra{core: all, table: &c.table, sched: &c.sched, routes: &c.routes, out: &c.out,
		due: agenda[pathEnd]{clock: &c.clock, deadline: pathDue}}
	c.move = moves{core: all, routes: &c.routes, table: &c.table, bells: &c.bells, out: &c.out}
}

// Leave tells all peers that the card leaves the network, with last
// acknowledgments, so that they need not find out by its silence. Nothing may be
// sent after it; call Step once more to flush it.
func (c *Card) Leave() { c.link.Leave() }

// Established reports whether the card's peer of that number has been greeted and
// not been lost since. It is false for the card's own number.
func (c *Card) Established(card uint16) bool { return c.link.Established(card) }

// Quiet reports whether nothing of detached contexts is in flight any more.
func (c *Card) Quiet() bool { return len(c.table.dead) == 0 }

// Progress returns a number that changes whenever a frame is received or a packet retrieved. If it
// has not changed, the card was stepped in vain.
func (c *Card) Progress() uint64 {
	return c.link.Counters.FramesReceived + c.counters.PacketsRetrieved
}
