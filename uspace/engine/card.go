package engine

// This file is the card as a whole: New puts it together. Step, in step.go, runs it.

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
	"github.com/funet/funet/uspace/funi"
)

// Card is one network interface card. It belongs to the goroutine that steps it.
type Card struct {
	cfg     Config
	clock   clock
	link    *link.End
	table   contexts
	bells   doorbells
	sched   scheduler
	routes  routes
	units   *units      // nil: what the card does takes no time
	opened  transfersTo // long transfers
	single  bool        // the packet that is being judged is the only one of its frame
	due     *line       // the answer to that packet, composed and not yet sent
	dueTo   uint16      // the card that due goes to
	flushes bool        // such an answer has been sent in this step
	// unanswered lists operations that wait for answers only, and apart from them multicasts, which
	// wait longer for each answer (request.patience).
	unanswered [2]unanswered
	late       lates        // remote writes that may become late
	proofs     rand.ChaCha8 // of multicasts; see ledger.go
	generation uint16       // the latest of records of operations; see request.go
	block      int          // most bytes of a block, or 0: none
	writeBlock int          // the same for writes that areas may count (remote.go)
	counters   Counters
	// See tally.go.
	rejectedHere link.Rejections

	lent    *Tables // tables for contexts that are made; nil: none
	arrived bool    // a frame has arrived in this step
	// unrouted is how many packets wait for a route. missesDue is when the first of them has waited
	// for long enough; Never: none waits (routemiss.go).
	unrouted  int
	missesDue int64
	signs     []*Context // of processes that have moved to other cards; see forward.go
	tellers   []*Context // signs that have something to tell
	signsDue  int64      // when another sign has something to tell; Never: at no time
	moves     bool       // a node of some group has moved since the card was made

	received [receiveBatch][]byte
	atOnce   bool // a packet of the frame being looked at asks for an acknowledgment
}

// New makes a card. It has no contexts yet; see Attach.
func New(cfg Config) (*Card, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("making card %d: %w", cfg.Card, err)
	}
	c := &Card{cfg: cfg, link: link.New(cfg.link()), missesDue: Never, signsDue: Never}
	c.connect()
	c.generation = uint16(cfg.Incarnation) * generations
	c.seedProofs()
	if cfg.Blocks {
		c.writeBlock = min(arctic.MaxBlock(cfg.frameSize()), arctic.MaxTransferWords*arctic.WordSize)
		if cfg.Timing == nil {
			c.block = c.writeBlock
		}
		if cfg.BlockBytes > 0 {
			c.writeBlock = min(c.writeBlock, cfg.BlockBytes)
		}
	}
	if cfg.Timing != nil {
		c.units = newUnits(&c.cfg)
	}
	c.link.SetGroup(SystemGroup, cfg.SystemEvent != nil, false)
	c.cfg.Peers = nil // the link has them
	return c, nil
}

// connect gives each unit of the card the units that it works with.
func (c *Card) connect() {
	c.table = contexts{cfg: &c.cfg, clock: &c.clock, link: c.link, counters: &c.counters, bells: &c.bells,
		sched: &c.sched}
	c.bells = doorbells{sched: &c.sched}
	c.sched = scheduler{card: c, clock: &c.clock, link: c.link, bells: &c.bells, table: &c.table,
		charged: -link.LongestRest - 1}
	c.routes = routes{cfg: &c.cfg, clock: &c.clock, link: c.link, counters: &c.counters, sched: &c.sched,
		table: &c.table, common: c.cfg.Routes, patience: Never}
}

// seedProofs seeds the generator of proofs. A process sees proofs, and cannot derive those of
// others from them.
func (c *Card) seedProofs() {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], c.cfg.Seed)
	binary.LittleEndian.PutUint32(seed[8:], c.cfg.Incarnation)
	for i := 0; c.cfg.Nonces != nil && i < len(seed); i += 8 {
		binary.LittleEndian.PutUint64(seed[i:], c.cfg.Nonces.Uint64())
	}
	c.proofs.Seed(seed)
}

// Leave tells all peers that the card leaves the network, with last
// acknowledgments, so that they need not find out by its silence. Nothing may be
// sent after it; call Step once more to flush it.
func (c *Card) Leave() { c.link.Leave() }

// serve looks at a context and its send queues.
func (s *scheduler) serve(x *Context) {
	s.table.serving = x
	if x.calm && (x.iface.Still(x.seen) || s.serveCalm(x)) {
		return // as in most steps
	}
	x.calm = false
	if s.attend(x); x.touched == s.clock.step {
		x.works(visitBytes) // beyond those of the look
	}
	if !x.halted {
		s.card.retrieve(x)
	}
	if x.touched != s.clock.step {
		x.calmDown()
	}
}

// serveCalm sends what a calm context wants to send if that is at most one message of each level,
// as in a dialogue. Otherwise it returns false, and serve does the rest.
func (s *scheduler) serveCalm(x *Context) bool {
	if x.iface.Load(funi.Control) != x.seen {
		return false
	}
	for _, l := range arctic.ByPriority {
		if n := x.iface.Pending(l); n > 1 || n == 1 && !s.card.lone(x, l) {
			return false
		}
	}
	return true
}

// attend looks at a context's CNTL, and whether the context has made room for packets.
func (s *scheduler) attend(x *Context) {
	if x.modes|x.user != 0 || x.fifo[arctic.Reply].n|x.fifo[arctic.Request].n != 0 || x.iface.Unseen() {
		s.table.touch(x)
	}
	if x.noRoom != [arctic.Levels]bool{} {
		s.card.roomMade(x)
	}
	if x.iface.Load(funi.Control) != x.seen {
		s.table.touch(x)
		x.control()
	}
}

// calmDown lets steps pass over a context that has nothing to do until its process, a packet or its
// owner does something. These end the calm: touch, hold, free, wake, control, Store, and what serve
// does beyond serveCalm.
func (x *Context) calmDown() {
	x.calm = x.modes|x.user == 0 && !x.looping && !x.halted && !x.starved && x.noRoom == [arctic.Levels]bool{} &&
		x.fifo[arctic.Reply].n|x.fifo[arctic.Request].n == 0 &&
		x.finished == [arctic.Levels]int{} && !x.transferring() && !x.asking(arctic.Request) && !x.asking(arctic.Reply)
}

// touch notes that the step has done something for a context, so that its end publishes the
// context. A context that is away is left out: its memory is not the card's.
func (t *contexts) touch(x *Context) {
	x.calm = false
	t.show(x)
}

// show is touch for work that only the process has to see: a calm context stays calm.
func (t *contexts) show(x *Context) {
	if x.touched != t.clock.step && !x.away {
		x.touched = t.clock.step
		t.touched = append(t.touched, x)
	}
}

// Established reports whether the card's peer of that number has been greeted and
// not been lost since. It is false for the card's own number.
func (c *Card) Established(card uint16) bool { return c.link.Established(card) }

// Quiet reports whether nothing of detached contexts is in flight any more.
func (c *Card) Quiet() bool { return len(c.table.dead) == 0 }

// Progress returns a number that changes whenever a frame is received or a packet retrieved. If it
// has not changed, the card was stepped in vain.
func (c *Card) Progress() uint64 {
	return c.link.Counters().FramesReceived + c.counters.PacketsRetrieved
}
