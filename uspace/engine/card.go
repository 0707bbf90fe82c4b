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
	cfg      Config
	now      int64
	link     *link.End
	units    *units     // nil: what the card does takes no time
	contexts []*Context // resident and switched out
	owners   []*Context // index link.Owner.Number; nil: free. Also those that are dead
	awake    []*Context // of contexts, those that steps look at
	called   []*Context // to be woken by the owner: see TakeCalled
	touched  []*Context // in this step
	dead     []*Context // detached, with packets in flight
	grave    int        // index of the one that bury looked at last
	byBell   [funi.MaxContexts]*Context
	accounts map[uint32]*account // not for the data path
	nobody   account             // of contexts on none of those
	busy     []*account          // with contexts that are awake
	solo     *Context            // the only context that is awake; nil: there are none, or several
	loopNext int64               // when packets for this card are tried next
	sets     int                 // of the cache, in use
	opened   transfersTo         // long transfers
	single   bool                // the packet that is being judged is the only one of its frame
	due      *line               // its answer, composed,
	dueTo    uint16              // for that card
	flushes  bool                // such an answer has been sent in this step
	// Operations that wait for answers only, and multicasts, which have longer for each
	// (request.patience).
	unanswered [2]unanswered
	late       lates                      // remote writes that may become late
	lives      int64                      // of contexts, begun; see life.go
	proofs     rand.ChaCha8               // of multicasts; see ledger.go
	generation uint16                     // the latest of records of operations; see request.go
	bells      map[*funi.Doorbells]*bells // not for the data path
	ringing    []*bells                   // those with sleepers
	heard      int                        // place in ringing of the next that is looked at
	groups     [arctic.MaxGID + 1]*group
	absent     *Context // rejects packets for the system group
	stranger   *Context // rejects packets of nodes that are not where they come from
	foreign    *Context // rejects packets of another job with the GID
	// takes what is for the card where the node is not here, and rejects the rest
	clerk      *Context
	routes     []uint32
	ownRoutes  bool // routes is not the configuration's
	block      int  // most bytes of a block, or 0: none
	writeBlock int  // the same, of a write that an area may count (remote.go)
	counters   Counters
	// See tally.go.
	rejectedHere link.Rejections

	lent    *Tables  // for contexts that are made; nil: none
	serving *Context // for which the card works; nil: for all, or not at all (serving.go)
	steps   uint64
	arrived bool // a frame has, in this step
	dozing  bool // see Doze
	napping bool // see Nap
	tickets bool // of contexts that are awake have changed
	more    bool // a budget ran out; step again at once
	// patience is when it ends with a node that is expected and asked for; Never: with none.
	patience int64
	// unrouted is how many packets wait for a route, and missesDue when the first has waited for
	// long enough; Never: none waits (routemiss.go).
	unrouted  int
	missesDue int64
	signs     []*Context // of processes that have moved to other cards; see forward.go
	tellers   []*Context // of signs, those that have something to tell
	signsDue  int64      // when another has; Never: no time
	moves     bool       // a node of some group has moved since the card was made

	received [receiveBatch][]byte
	resumes  int64 // when the first account that rests goes on
	charged  int64 // the time of the last Charge
	atOnce   bool  // a packet of the frame being looked at asks for an acknowledgment
}

// New makes a card. It has no contexts yet; see Attach.
func New(cfg Config) (*Card, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("making card %d: %w", cfg.Card, err)
	}
	c := &Card{cfg: cfg, link: link.New(cfg.link()), patience: Never, missesDue: Never, signsDue: Never,
		charged: -link.LongestRest - 1}
	c.routes = cfg.Routes
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
	c.absent = &Context{card: c, rejection: arctic.ReasonSwitching, away: true, detached: true}
	c.stranger = &Context{card: c, rejection: arctic.ReasonSourceNode, away: true, detached: true}
	c.foreign = &Context{card: c, rejection: arctic.ReasonJob, away: true, detached: true}
	c.clerk = &Context{card: c, rejection: arctic.ReasonNoContext, away: true, detached: true}
	if cfg.Timing != nil {
		c.units = newUnits(&c.cfg)
	}
	c.link.SetGroup(SystemGroup, cfg.SystemEvent != nil, false)
	c.cfg.Peers = nil // the link has them
	return c, nil
}

// seedProofs seeds the generator of proofs. A process sees proofs, and cannot find those of others
// from them.
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
func (c *Card) serve(x *Context) {
	c.serving = x
	if x.calm && (x.iface.Still(x.seen) || c.serveCalm(x)) {
		return // as in most steps
	}
	x.calm = false
	if c.attend(x); x.touched == c.steps {
		x.works(visitBytes) // beyond those of the look
	}
	if !x.halted {
		c.retrieve(x)
	}
	if x.touched != c.steps {
		x.calmDown()
	}
}

// serveCalm sends what a calm context wants to send if that is one message of a level, as in a
// dialogue. Otherwise it returns false, and has not done all.
func (c *Card) serveCalm(x *Context) bool {
	if x.iface.Load(funi.Control) != x.seen {
		return false
	}
	for _, l := range arctic.ByPriority {
		if n := x.iface.Pending(l); n > 1 || n == 1 && !c.lone(x, l) {
			return false
		}
	}
	return true
}

// attend looks at a context: at CNTL, and whether it has made room.
func (c *Card) attend(x *Context) {
	if x.modes|x.user != 0 || x.fifo[arctic.Reply].n|x.fifo[arctic.Request].n != 0 || x.iface.Unseen() {
		c.touch(x)
	}
	if x.noRoom != [arctic.Levels]bool{} {
		c.roomMade(x)
	}
	if x.iface.Load(funi.Control) != x.seen {
		c.touch(x)
		c.control(x)
	}
}

// calmDown lets steps pass over a context that has nothing to do before its process, a packet or
// its owner does something. What changes one of these ends the calm: touch, hold, free, wake,
// control, Store, and what serve does beyond serveCalm.
func (x *Context) calmDown() {
	x.calm = x.modes|x.user == 0 && !x.looping && !x.halted && !x.starved && x.noRoom == [arctic.Levels]bool{} &&
		x.fifo[arctic.Reply].n|x.fifo[arctic.Request].n == 0 &&
		x.finished == [arctic.Levels]int{} && !x.transferring() && !x.asking(arctic.Request) && !x.asking(arctic.Reply)
}

// touch notes that the step has done something for a context, to be published at its end,
// unless that is away and its memory not the card's.
func (c *Card) touch(x *Context) {
	x.calm = false
	c.show(x)
}

// show is touch where nothing was done but for the process to see: a calm context stays calm.
func (c *Card) show(x *Context) {
	if x.touched != c.steps && !x.away {
		x.touched = c.steps
		c.touched = append(c.touched, x)
	}
}

// Established reports whether the card's peer of that number has been greeted and
// not been lost since. It is false for the card's own number.
func (c *Card) Established(card uint16) bool { return c.link.Established(card) }

// Quiet reports whether nothing of detached contexts is in flight any more.
func (c *Card) Quiet() bool { return len(c.dead) == 0 }

// Progress returns a number that changes whenever a frame was received or a packet
// retrieved: a card that shows none was stepped in vain.
func (c *Card) Progress() uint64 {
	return c.link.Counters().FramesReceived + c.counters.PacketsRetrieved
}
