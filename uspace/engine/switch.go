package engine

// This file is the context switch (thesis 4.2, appendix B).
//
// Out: the owner sets CTXM, and retrieval and dispatch halt (CTXR1'). Packets in flight are
// answered; those that were rejected stay in the cache (CTXR1). Delivery into the receive queues
// goes on. Packets for which these have no room are drained by the owner, in DRAIN mode, into a
// pair of queues as large as the receive FIFOs (CTXR2). These drain queues belong to the saved
// state. From then on the card does not touch the process's memory.
//
// In: the registers are restored, each from its own saved value. (The appendix restores those of
// the request queues from those of the reply queues, a slip.) The drained packets are returned and
// delivered before any other, and CNTL is restored. The appendix returns the packets over the
// network under a reserved GID, with TICKET set to 0. With that TICKET no packet could be retrieved
// (another slip: it waits for TICKET to be 0xff). Here they go from the drain queues to the
// Delivery Unit, which has room: its FIFOs are as empty as they were when the packets left them.
//
// While a context is away its peers' packets are rejected with ReasonSwitching, which is transient:
// they come again and are delivered once it is back. Its undelivered packets stay in its set of the
// cache (5.3). An empty set is free for another context meanwhile.
//
// The thesis gives up a process whose acknowledgments were lost: it switches the process out after
// CTXR1' alone, and "successful continuation cannot be guaranteed". Here the cards repeat frames
// beneath the contexts, also for a context that is away. So every packet is delivered once or comes
// back, even after a switch with CTXR1' alone. A packet that comes back is kept until the context
// returns.

import (
	"fmt"
	"math/bits"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// Saved is the state of a context that is switched out: its registers and its drained packets. Its
// undelivered packets are in the card.
type Saved struct {
	// Registers are the sixteen registers, CNTL as before the switch.
	Registers [funi.Registers]uint32
	// Drained are the drain queues. Packets in them have the layout of a receive queue.
	Drained [arctic.Levels][]funi.Slot
	// Memory is the process's. Before the switch in, its owner may put other memory with the same
	// content here.
	Memory *funi.Memory
	// Live says that the process goes on while its context is out. Then its writes to its page in
	// that time count, and SwitchIn takes the registers from the page instead of restoring them.
	// The context's owner sets Live. Without it, as in the thesis, the process does not run.
	Live bool

	context *Context
}

// Waits reports whether the context would have something to do on the card. It has if packets are
// undelivered, were drained, wait in the send queues or came back, or if a packet for it was
// rejected. A Live context also has if its process has written CNTL meanwhile.
func (s *Saved) Waits() bool {
	x := s.context
	return x.wanted || !x.Idle() || len(x.owed) > 0 || s.Live && s.Memory.Page.Load(funi.Control) != x.seen
}

// pending reports whether packets wait in the drain queues, or in send queues that are not halted.
// For a Live context it looks at the present send queues, otherwise at the saved ones.
func (s *Saved) pending() bool {
	if len(s.Drained[arctic.Request])+len(s.Drained[arctic.Reply]) > 0 {
		return true
	}
	load := func(r funi.Register) uint32 { return s.Registers[r] }
	if s.Live {
		load = s.Memory.Page.Load
	}
	if s.Live && s.Memory.Page.Triggered() {
		return true
	}
	if s.context.suspended || load(funi.Control)&funi.CSQM != 0 {
		return false
	}
	mask := load(funi.QMask)
	return (load(funi.RPSQHead)-s.Registers[funi.RPSQTail])&mask != 0 ||
		(load(funi.RQSQHead)-s.Registers[funi.RQSQTail])&mask != 0
}

// Context returns the context, for SwitchIn and Detach.
func (s *Saved) Context() *Context { return s.context }

// Reasons for which a context is not switched out yet. They are made once: a card that waits for
// one of them asks in each step.
var (
	errInFlight = fmt.Errorf("switching a context out: packets are in flight: %w", ErrNotReady)
	errUnderWay = fmt.Errorf("switching a context out: a unit has a packet of it under way: %w", ErrNotReady)
	errCopied   = fmt.Errorf("switching a context out: blocks are being copied: %w", ErrNotReady)
)

// SwitchOut takes a context off the card. The first call sets CTXM. SwitchOut returns ErrNotReady
// as long as packets are in flight, or a unit of a modelled machine has one under way (CTXR1 is
// clear). It also does so while there are more blocks in the cache than one call copies. The owner
// then steps the card and calls again. With unacknowledged, SwitchOut goes on after CTXR1' alone.
// Then a peer that is out of reach, which keeps CTXR1 clear until PeerTimeout, does not delay the
// switch. SwitchOut returns ErrAway for a context that is out already. An abandoned switch ends
// when CTXM is cleared.
func (c *Card) SwitchOut(x *Context, unacknowledged bool) (*Saved, error) {
	if x.away || x.modes&funi.RESET != 0 {
		return nil, fmt.Errorf("switching out node %d of group %d: %w", x.node, x.gid, ErrAway)
	}
	if x.modes&funi.CTXM == 0 {
		x.storeControl(x.modes | x.iface.Load(funi.Control)&funi.UserModes | funi.CTXM)
	}
	switch {
	case x.outstanding() && !unacknowledged:
		return nil, errInFlight
	case x.underWay():
		return nil, errUnderWay
	case !x.keepBlocks():
		return nil, errCopied
	}
	c.table.serving = x
	x.control()
	s := &Saved{context: x, Memory: x.iface.Memory(), Drained: c.in.drainOut(x)}
	for r := range s.Registers {
		s.Registers[r] = x.iface.Load(funi.Register(r))
	}
	s.Registers[funi.Control] = (x.user | x.modes) &^ funi.CTXM
	s.Registers[funi.GID], s.Registers[funi.Ticket] = uint32(x.gid), uint32(x.ticket.words[0])
	c.table.call(x) // nobody else tells the process what it has got just now
	c.sched.unlist(x)
	c.bells.rise(x)
	x.away, x.wanted = true, false
	if x.remote != nil {
		x.remote.forgetEntries()
	}
	c.table.offerSet(x)
	x.saved, c.table.serving = s, nil
	return s, nil
}

// takeSet takes a set of the cache for a context, and reports whether there was one.
func (t *contexts) takeSet() bool {
	if t.sets == t.cfg.Sets {
		for _, x := range t.all {
			if x.away && x.holdsSet && !x.arriving {
				t.offerSet(x) // the last of its packets may be delivered by now
			}
		}
	}
	if t.sets == t.cfg.Sets {
		return false
	}
	t.sets++
	return true
}

// offerSet makes the set of a context that is away free for others, unless it holds packets.
func (t *contexts) offerSet(x *Context) {
	if x.allFree() {
		t.giveShelves(x)
		x.shelves, x.holdsSet = nil, false
		t.sets--
	}
}

// drainOut empties the receive FIFOs into a pair of drain queues, halts the receive
// queues, and returns the contents of the drain queues.
func (d *delivery) drainOut(x *Context) [arctic.Levels][]funi.Slot {
	d.drain(x) // what there is room for
	x.stopReceiving()
	if x.drained() {
		return [arctic.Levels][]funi.Slot{}
	}
	drain := x.drain
	x.drain = true
	x.iface.Divert(1 << bits.Len(uint(x.fifo[0].size)))
	d.drain(x)
	x.drain = drain
	return x.iface.Diverted()
}

// SwitchIn puts a context back on the card, and its process goes on where it was. SwitchIn returns
// ErrNoSet if the context had given its set of the cache back and none is free now. It returns
// ErrAway if the state is not the present one of a context of this card.
func (c *Card) SwitchIn(s *Saved) error {
	x := s.context
	switch {
	case x == nil || x.card != c || !x.away || x.detached || x.saved != s:
		return fmt.Errorf("switching in: the state was used already, or its context is detached: %w", ErrAway)
	case !x.holdsSet && !c.table.takeSet():
		return fmt.Errorf("switching in node %d of group %d: %w", x.node, x.gid, ErrNoSet)
	}
	x.holdsSet = true
	x.away, x.saved, c.table.serving = false, nil, x
	x.iface.Move(s.Memory)
	s.Memory.Doorbells, s.Memory.Far = x.bells.page, x.bells.far
	for r := funi.QMask; r <= funi.RQRQTail && !s.Live; r++ {
		x.iface.Store(r, s.Registers[r])
	}
	x.iface.Store(funi.GID, s.Registers[funi.GID])
	x.iface.Store(funi.Ticket, uint32(x.ticket.words[0])) // more may be delivered by now
	c.sched.wake(x)
	if s.Live {
		x.setModes(s.Registers[funi.Control])
		x.control()
	} else {
		x.storeControl(s.Registers[funi.Control])
	}
	x.restoring = true
	for _, l := range arctic.ByPriority {
		for i := range s.Drained[l] {
			c.in.restore(x, l, &s.Drained[l][i])
		}
	}
	x.restoring = false
	x.tellOwed()
	c.link.TryAnew(x.owner)
	x.publish()
	c.clock.more, c.table.serving = true, nil
	return nil
}

// restore returns a drained packet to the Delivery Unit.
func (d *delivery) restore(x *Context, l arctic.Level, s *funi.Slot) {
	var packet [arctic.MaxPacketSize]byte
	wire, ok := x.repack(l, s, &packet)
	if !ok { // it is none that was drained: the owner of the state has changed it
		d.counters.Discarded++
		return
	}
	rejection := x.rejection // CTXM may still be set
	x.rejection = arctic.ReasonNone
	reason := d.accept(x, nil, l, arctic.Packet(packet[:arctic.PacketHeaderSize+int(wire.Length)*arctic.WordSize]),
		&wire, nil)
	x.rejection = rejection
	if reason != arctic.ReasonNone {
		// The process has unregistered the segment meanwhile.
		d.counters.Discarded++
		x.memoryError(reason)
	}
}

// repack rebuilds the packet of a drained slot. It returns false for a slot that draining a packet
// cannot have made: the drain queues of a moved context come from its process.
func (x *Context) repack(l arctic.Level, s *funi.Slot,
	packet *[arctic.MaxPacketSize]byte) (wire arctic.PacketHeader, ok bool) {
	h := s.Header()
	wire = arctic.PacketHeader{Level: l, GID: x.gid, Type: h.Type(), Destination: x.node, Source: s.Source()}
	payload := packet[arctic.PacketHeaderSize:]
	if h.Plain() {
		wire.Length = uint8(h.Length())
		arctic.PutWords(payload, s.Payload())
		wire.Encode(packet[:])
		return wire, true
	}
	t := arctic.Transfer{Address: s[funi.DestinationAddressWord], Argument: s[funi.ArgumentWord]}
	most := arctic.MaxPartWords
	if h.Many() {
		t.Form, t.Total = arctic.Last, s[funi.TotalWord]
		if t.Total == 0 {
			t.Form = arctic.Part
		}
	}
	if t.Form == arctic.Last || t.Form == arctic.Single && t.Argument != 0 {
		most = arctic.MaxSingleWords
	}
	if !h.Transfer() || h.Words() > most {
		return wire, false
	}
	var data [arctic.MaxPartWords * arctic.WordSize]byte
	t.Data = data[:h.Words()*arctic.WordSize]
	arctic.PutWords(t.Data, s[funi.DataWord:funi.DataWord+h.Words()])
	wire.Kind, wire.Length = arctic.KindTransfer, uint8(arctic.PutTransfer(payload, &t))
	wire.Encode(packet[:])
	return wire, arctic.Packet(packet[:arctic.PacketHeaderSize+int(wire.Length)*arctic.WordSize]).Transfer(&t)
}
