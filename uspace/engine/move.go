package engine

// This file is how a context moves to another card (Tokyo, section 2.2.1) with its windows, keys,
// areas and counters, while others go on sending to it. The promise of exactly once holds: a packet
// is accepted by one of the two cards, or by neither and travels again.
//
//	the new card      Arrive    makes a context without content, which takes nothing: its
//	                            packets come again
//	the old one       Export    sends nothing new for the context until all that it has sent is
//	                            answered; then takes nothing new for it until it owes no answer;
//	                            then switches it out (switch.go) and makes its image (image.go)
//	                  forward   the sign that stays there rejects all packets with ReasonMoved,
//	                            and tells the cards of its group where the process is now, the
//	                            new one first (forward.go)
//	the owner         copies the process's memory, the page and queues and segments, to where the
//	                  new card finds it
//	the new card      Import    takes the image, and the context goes on
//
// The process's own packets are not in the image, because there are none. A process with a packet
// that its receiver does not take stays (Stay), and may try again later. So no packet has to be
// sent from another card than the one that has numbered it.
//
// Drained slots are in the image. Messages that the process has not read are in its memory.
//
// On a modelled machine there are no moves: no table says how long they would take.

import (
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// ErrModelled reports an operation that a modelled machine's card does not have.
var ErrModelled = errors.New("engine: the card of a modelled machine does not move contexts; choose a native profile")

// Arrive makes a context for a node whose process comes from another card, in the group, of the job
// with the tag. m is the memory where the process's content will be. The caller registers the same
// segments as on the other card (Register). Until Import the context rejects packets for a
// transient reason. It ends with Detach. Errors are those of PowerUp, ErrAttached, ErrRegister and
// ErrModelled.
func (c *Card) Arrive(m *funi.Memory, gid, node uint16, tag uint64) (*Context, error) {
	x, err := c.arrive(m, gid, node, tag)
	if err != nil {
		return nil, fmt.Errorf("making room for node %d of group %d: %w", node, gid, err)
	}
	return x, nil
}

func (c *Card) arrive(m *funi.Memory, gid, node uint16, tag uint64) (*Context, error) {
	switch {
	case c.model != nil:
		return nil, ErrModelled
	case gid > arctic.MaxGID:
		return nil, fmt.Errorf("GIDs are at most %d: %w", arctic.MaxGID, ErrRegister)
	}
	var before *Context
	if g := c.routes.groups[gid]; g != nil && g.nodes[node] != nil {
		if g.nodes[node].forward == nil {
			return nil, ErrAttached
		}
		before = g.nodes[node]
		c.Detach(before) // it comes back to a card that it has been on
	}
	x, err := c.newContext(funi.NewCard(m), node)
	if err != nil {
		return nil, err
	}
	x.modes, x.halted, x.owner.Halted, x.rejection = funi.CTXM, true, true, arctic.ReasonSwitching
	x.SetTag(tag)
	_ = c.routes.enter(x, gid) // refusals have been ruled out
	x.endBirth()
	c.sched.unlist(x)
	c.bells.rise(x)
	x.away, x.arriving, x.before, c.table.serving = true, true, before, nil
	return x, nil
}

// Home reports whether this card has been told that the process of an arriving context is here now.
// The card that the process comes from says so.
func (c *Card) Home(x *Context) bool {
	return x.group != nil && c.routes.of(x.group, x.node) == uint32(c.cfg.Card)
}

// Import takes the image of a context into one that Arrive has made. The memory of that context
// must have the content of the process's memory by now; the process may go on writing there. Import
// returns ErrNotReady until Home reports true. It returns ErrImage if the image does not fit, and
// then nothing has changed. It returns ErrAway if the context does not await an image.
func (c *Card) Import(x *Context, image []byte) error {
	err := c.takeImage(x, image)
	if err != nil {
		return fmt.Errorf("taking node %d of group %d: %w", x.node, x.gid, err)
	}
	return nil
}

func (c *Card) takeImage(x *Context, image []byte) error {
	switch {
	case !x.arriving || x.detached:
		return ErrAway
	case !c.Home(x):
		return fmt.Errorf("the card that it comes from has not said so: %w", ErrNotReady)
	}
	content, err := x.decodeImage(image)
	if err != nil {
		x.remote.wipe() // what the image had in the tables
		return err
	}
	x.iface.Resume()
	x.takeContent(content)
	if x.before != nil && x.before.lineage == x.lineage {
		x.goOn(x.before)
	}
	x.arriving, x.before = false, nil
	s := &Saved{Memory: x.iface.Memory(), Drained: content.drained, Live: true, context: x}
	x.saved = s
	return c.SwitchIn(s) // which has nothing to refuse: the set is there
}

// Export takes a context off the card for good, because its process goes on at another card, and
// returns its image. While the context has packets or answers under way, Export returns ErrNotReady
// and says what it waits for. The owner then steps the card and calls again, or gives up (Stay).
// Call Export at once when the process has stopped. From the first call on nothing new is taken
// from the send queues.
//
// Afterwards the card uses none of the process's memory, and the context is a sign that says where
// the process is; see Told. The sign ends with Detach, after which packets for the node come back.
//
// Other errors are ErrAway, ErrRoute if the other card is not a peer, and ErrModelled.
func (c *Card) Export(x *Context, to uint16) (image []byte, err error) {
	image, err = c.export(x, to)
	if err != nil {
		return nil, fmt.Errorf("moving node %d of group %d to card %d: %w", x.node, x.gid, to, err)
	}
	return image, nil
}

func (c *Card) export(x *Context, to uint16) ([]byte, error) {
	switch {
	case c.model != nil:
		return nil, ErrModelled
	case x.away || x.group == nil || x.modes&funi.RESET != 0:
		return nil, ErrAway
	case to == c.cfg.Card || !c.link.IsPeer(to):
		return nil, ErrRoute
	}
	if !x.leaving {
		x.leaving, c.clock.more = true, true
		x.control()
		if !x.awake {
			c.sched.wake(x)
		}
	}
	if why := x.unanswered(); why != "" {
		x.control()
		return nil, fmt.Errorf("%s: %w", why, ErrNotReady)
	}
	if x.modes&funi.CTXM == 0 {
		x.storeControl(x.modes | x.iface.Load(funi.Control)&funi.UserModes | funi.CTXM)
		x.haltedAt = c.clock.now
	}
	// answers to contexts of this card, which nobody else delivers for a context that is halted
	if x.looping {
		c.out.loopback(x)
	}
	if !x.allFree() {
		if c.clock.now-x.haltedAt > int64(min(c.cfg.MaxHold, c.cfg.PeerTimeout/8)) {
			c.Stay(x) // two that wait for each other to take something would wait for good
		}
		return nil, fmt.Errorf("answers to others are under way: %w", ErrNotReady)
	}
	x.breakReservations(func(*room) bool { return true }) // their senders' cards know this one only
	s, err := c.SwitchOut(x, false)
	if err != nil {
		return nil, err
	}
	image := x.encodeImage(&s.Drained)
	c.move.becomeForward(x, to)
	return image, nil
}

// Stay ends a move that Export has begun: the context goes on as before.
func (c *Card) Stay(x *Context) {
	if x.away || !x.leaving {
		return
	}
	x.leaving = false
	x.storeControl(x.modes&^funi.CTXM | x.iface.Load(funi.Control)&funi.UserModes)
	if !x.awake {
		c.sched.wake(x)
	}
}

// unanswered returns which requests or packets of the context are not done with; "": none.
func (x *Context) unanswered() string {
	switch {
	case x.sending || x.taken != [arctic.Levels]int{} || x.transferring():
		return "the card takes what is begun from its send queues"
	case x.ticket.used != 0 || x.looping:
		return "packets that it has sent are not delivered"
	case x.remote != nil && x.remote.use.RequestsOpen > 0:
		return "operations of its own are not complete"
	case x.paths.open():
		return "a path of it is open"
	case len(x.owed) > 0:
		return "packets come back to it"
	}
	return ""
}

// begun reports whether the context has something of its own that is to be retrieved to its end
// before it leaves.
func (x *Context) begun() bool {
	return x.taken != [arctic.Levels]int{} || x.transferring() || x.asking(arctic.Request) || x.asking(arctic.Reply)
}
