package engine

// This file is the card as a whole: New puts it together, Step runs it.

import (
	"fmt"
	"math/rand/v2"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// Card is one network interface card. It belongs to the goroutine that steps it.
type Card struct {
	cfg       Config
	now       int64
	units     *units // nil: what the card does takes no time
	random    rand.PCG
	contexts  []*Context // resident and switched out
	awake     []*Context // of these, those that steps look at
	called    []*Context // to be woken by the owner: see TakeCalled
	touched   []*Context // in this step
	dead      []*Context // detached, with packets in flight
	grave     int        // index of the one that bury looked at last
	byBell    [funi.MaxContexts]*Context
	accounts  map[uint32]*account        // not for the data path
	nobody    account                    // of contexts on none of those
	busy      []*account                 // with contexts that are awake
	user      *account                   // that used the card last
	usedAt    int64                      // by that one
	anotherAt int64                      // by another, last
	round     uint64                     // of dispatch
	spent     *account                   // those for which the next round is
	loopNext  int64                      // when packets for this card are tried next
	holds     holds                      // streams that back off
	sets      int                        // of the cache, in use
	lives     int64                      // of contexts, begun; see life.go
	bells     map[*funi.Doorbells]*bells // not for the data path
	ringing   []*bells                   // those with sleepers
	heard     int                        // place in ringing of the next that is looked at
	groups    [arctic.MaxGID + 1]*group
	absent    *Context // rejects packets for the system group
	stranger  *Context // rejects packets of nodes that are not where they come from
	foreign   *Context // rejects packets of another job with the GID
	routes    []uint32
	ownRoutes bool    // routes is not the configuration's
	block     int     // most bytes of a block, or 0: none
	peers     []*peer // also those that are no longer
	byCard    []*peer // index card number; nil: not a peer
	timers    timers
	spare     spare
	counters  Counters
	// See tally.go.
	rejectedHere, rejectedThere Rejections

	ready   [arctic.Levels]readyList // flows with something to send now
	ackNow  *peer                    // peers to acknowledge in this step
	steps   uint64
	before  uint64 // Progress at the start of the step
	blocked bool   // a transmit ring was full
	stalled bool   // the same, and so the round of dispatch goes on
	dozing  bool   // see Doze
	more    bool   // a budget ran out; step again at once
	// patience is when it ends with a node that is expected and asked for; Never: with none.
	patience int64

	received [receiveBatch][]byte
	header   arctic.Header // of the frame being looked at
	out      arctic.Header // of the frame being composed
	atOnce   bool          // a packet of the frame being looked at asks for an acknowledgment
	fate     Fate          // of the frame being looked at
	see      func(port int, frame []byte, fate Fate)
}

// New makes a card. It has no contexts yet; see Attach.
func New(cfg Config) (*Card, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("making card %d: %w", cfg.Card, err)
	}
	c := &Card{cfg: cfg, peers: make([]*peer, len(cfg.Peers)), patience: Never}
	c.routes = cfg.Routes
	if cfg.Blocks {
		c.block = min(arctic.MaxBlock(cfg.frameSize()), arctic.MaxTransferWords*arctic.WordSize)
	}
	c.absent = &Context{card: c, refusal: arctic.ReasonSwitching, away: true, detached: true}
	c.stranger = &Context{card: c, refusal: arctic.ReasonSourceNode, away: true, detached: true}
	c.foreign = &Context{card: c, refusal: arctic.ReasonJob, away: true, detached: true}
	if cfg.Timing != nil {
		c.units = newUnits(&c.cfg)
	}
	c.usedAt, c.anotherAt = -recently, -recently
	c.random.Seed(cfg.Seed, uint64(cfg.Incarnation))
	last := cfg.Card
	for _, p := range cfg.Peers {
		last = max(last, p.Card)
	}
	c.byCard = make([]*peer, int(last)+1)
	c.timers.heap = make([]*peer, 0, len(cfg.Peers))
	room := make([]peer, len(cfg.Peers))
	for i, p := range cfg.Peers {
		c.peers[i] = c.newPeer(&room[i], p)
	}
	c.cfg.Peers = nil // the peers have them now
	return c, nil
}

// Step does what there is to do at the given time, in nanoseconds from 0 to 2^62 of any
// clock that does not run backwards, and returns when the card next wants to run: a
// time not after now if work was left over, Never if only a frame or a process
// can give it work.
//
// It sends before it receives, so that what the process did since the last step,
// such as replying, leaves at once, and leaves bookkeeping for after that. What a
// received frame or a timer calls for leaves in the next step.
func (c *Card) Step(now int64) int64 {
	c.now = now
	c.steps++
	c.before = c.Progress()
	c.more, c.blocked, c.loopNext = false, false, Never
	if now >= c.patience {
		c.patience = Never // who still waits for a node says so in this step
	}
	c.touched = c.touched[:0]
	if len(c.awake) < len(c.contexts) || c.steps%napEvery == 0 {
		c.look()
	}
	if c.units == nil {
		for i := 0; i < len(c.busy); i++ { // a packet to the own card may wake more
			c.visit(c.busy[i])
		}
	} else {
		for _, x := range c.awake {
			c.attend(x)
		}
		c.runUnits() // what ends now may leave in this step
	}
	if c.units != nil && c.units.send.timed() {
		c.runSend()
	} else {
		c.acknowledge(false)
		c.dispatch()
		c.acknowledge(true)
	}
	for _, p := range c.cfg.Ports {
		p.Flush()
	}
	if c.units != nil && c.units.receive.takes > 0 {
		c.runReceive()
	} else {
		for i := range c.cfg.Ports {
			c.receive(i)
		}
	}
	if c.holds.next() <= now {
		c.unhold()
	}
	c.expire() // after what arrived: a late step is not the peers' silence
	if c.units != nil {
		c.runUnits() // what arrived may be next
	}
	for _, x := range c.touched {
		if c.units == nil && x.fifo[arctic.Reply].n|x.fifo[arctic.Request].n != 0 {
			c.drain(x)
		}
		x.publish()
	}
	if len(c.dead) > 0 {
		c.bury()
	}
	if u := c.units; u != nil && u.send.timed() {
		if c.more || c.blocked || c.sendsNow() {
			return now
		}
		return min(u.next, u.send.next, u.receive.next, c.timers.next(), c.holds.next(), c.patience)
	}
	if c.more || c.blocked || c.ackNow != nil || c.ready[arctic.Reply].head != nil || c.ready[arctic.Request].head != nil {
		return now
	}
	if c.units != nil {
		return min(c.units.next, c.units.receive.next, c.timers.next(), c.holds.next(), c.patience)
	}
	return min(c.timers.next(), c.holds.next(), c.loopNext, c.patience)
}

// Leave tells all peers that the card leaves the network, with last
// acknowledgments, so that they need not find out by its silence. Nothing may be
// sent after it; call Step once more to flush it.
func (c *Card) Leave() {
	for _, p := range c.peers {
		c.leave(p)
		p.established = false
	}
}

// leave tells a peer that it will hear nothing more.
func (c *Card) leave(p *peer) {
	if !p.established {
		return
	}
	b := c.reserve(p)
	if b == nil {
		return // the peer will see the silence
	}
	n := c.head(p, b, arctic.Request, p.gid, noJob, p.sequence(arctic.Request), len(b))
	arctic.SetBye(b)
	c.send(p, b, n)
}

// attend looks at a context: at CNTL, and natively at its send queues.
func (c *Card) attend(x *Context) {
	c.touch(x)
	if x.refused != [arctic.Levels]bool{} {
		c.roomMade(x)
	}
	if x.iface.Load(funi.Control) != x.seen {
		c.control(x)
	}
	if !x.halted && c.units == nil {
		c.retrieve(x)
	}
}

// touch notes that the step has done something for a context, to be published at its end,
// unless that is away and its memory not the card's.
func (c *Card) touch(x *Context) {
	if x.touched != c.steps && !x.away {
		x.touched = c.steps
		c.touched = append(c.touched, x)
	}
}

// receive takes one batch of frames from port i. The port gets them back before
// the next batch: by then what they called for has been sent.
func (c *Card) receive(i int) {
	p := c.cfg.Ports[i]
	p.Release()
	most := receiveBatch
	if c.Shared() {
		most = sharedReceive
	}
	n := p.Receive(c.received[:most])
	for _, b := range c.received[:n] {
		c.preprocess(b)
		if c.see != nil {
			c.see(i, b, c.fate)
		}
	}
	if n == most {
		c.more = true
	}
}

// Established reports whether the card's peer of that number has been greeted and
// not been lost since. It is false for the card's own number.
func (c *Card) Established(card uint16) bool {
	p := c.peer(card)
	return p != nil && p.established
}

// Quiet reports whether nothing of detached contexts is in flight any more.
func (c *Card) Quiet() bool { return len(c.dead) == 0 }

// peer returns the peer with the card number, or nil.
func (c *Card) peer(card uint16) *peer {
	if int(card) >= len(c.byCard) {
		return nil
	}
	if p := c.byCard[card]; p != nil && !p.removed() {
		return p
	}
	return nil
}

// Progress returns a number that changes whenever a frame was received or a packet
// retrieved: a card that shows none was stepped in vain.
func (c *Card) Progress() uint64 { return c.counters.FramesReceived + c.counters.PacketsRetrieved }
