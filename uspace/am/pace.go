package am

// This file charges the primitives to a modelled processor, in the order in which the code of
// thesis appendix A carries them out. On a real machine there is no such processor, and each
// primitive tests that once.
//
// With a processor the library behaves as that of appendix A does. After each message that it sends
// it handles the messages that have arrived, and Poll handles one message.

import (
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/timing"
)

// pace is a modelled processor.
type pace struct {
	*core
	cpu    *timing.CPU
	prices *Prices               // nil: the processor executes instructions
	cached [arctic.Levels]uint32 // head registers, as they are in the processor's cache
	bursts [arctic.Levels]uint32 // the card's bursts into the queues when they were read
	known  [arctic.Levels]uint32 // tail registers, as they were read
}

// Pace charges the endpoint's work from now on to a processor. A message that is sent then lets
// handlers run, as any Poll does. With nil it takes the time that it takes again.
func (e *Endpoint) Pace(cpu *timing.CPU) { e.paceBy(cpu, nil) }

func (c *core) paceBy(cpu *timing.CPU, prices *Prices) {
	if c.pace = nil; cpu == nil {
		return
	}
	c.pace = &pace{core: c, cpu: cpu, prices: prices}
	for l := range c.pace.known {
		c.pace.known[l] = c.iface.KnownTail(funi.Level(l))
	}
}

// Work charges instructions of one cycle each, which the program executes for itself. On a real
// machine it does nothing, since they take the time that they take. Any context.
func (e *Endpoint) Work(cycles int) { e.charge(cycles) }

// commit sends the slot that was reserved and filled in.
func (c *core) commit(l funi.Level, s *funi.Slot) {
	if c.pace != nil {
		c.pace.commit(l, s)
		return
	}
	c.iface.Commit(l)
}

// full charges a look at a full send queue, without the poll that follows.
func (c *pace) full(l funi.Level) {
	c.cpu.Work(fullCost)
	c.loadTail(l)
}

// loadTail charges a load of a tail register, which the interface has read.
func (c *pace) loadTail(l funi.Level) {
	c.cpu.Load(1)
	c.known[l] = c.iface.KnownTail(l)
}

// commit charges the composition of a slot, sends it, and handles messages that have arrived.
func (c *pace) commit(l funi.Level, s *funi.Slot) {
	h := s.Header()
	if c.prices != nil {
		c.cpu.Work(c.prices.of(l, s).Send)
		c.cpu.Settle()
		c.iface.Commit(l)
		c.handleSent(l)
		return
	}
	c.cpu.Work(enterCost)
	if c.iface.KnownTail(l) != c.known[l] {
		c.loadTail(l) // the search for the slot has read it
	}
	c.cpu.Work(placeCost + headerCost)
	switch {
	case h.Transfer():
		c.cpu.Work(requestCost)
		c.stores(2)
	case isMany(h):
		c.cpu.Work(manyCost + storeCost)
		c.cpu.Store(2)
		for n := h.Length() - 1; n > 0; n -= 4 {
			c.cpu.Work(chunkCost / 2)
			c.cpu.Store(2)
			c.cpu.Work(chunkCost - chunkCost/2 + c.cpu.Library().LoopCycles)
			c.cpu.Store(2)
		}
		c.cpu.Work(testCost + c.cpu.Library().LoopCycles)
	default:
		if h.Type() == typeXfer {
			c.cpu.Work(xferSourceCost)
		}
		c.stores(3) // the last may be of no use, as with a call of two words
	}
	c.cpu.Work(publishCost)
	c.cpu.Store(1) // the head register
	c.iface.Commit(l)
	c.drive()
	c.cpu.Work(drainCost)
	c.drain(funi.Reply)
	if l == funi.Request {
		c.cpu.Work(drainSecondCost)
		c.drain(funi.Request)
	}
}

// handleSent handles messages that have arrived, after a send whose price includes the looks for
// them.
func (c *pace) handleSent(l funi.Level) {
	c.drive()
	c.e.service(funi.Reply, most)
	if l == funi.Request {
		c.e.service(funi.Request, most)
	}
}

// charge charges work of the library that is not part of sending or receiving.
func (c *core) charge(cycles int) {
	if c.pace != nil {
		c.pace.cpu.Work(cycles)
	}
}

// stores charges the stores of double words from the frame.
func (c *pace) stores(n int) {
	for range n - 1 {
		c.cpu.Work(storeCost)
		c.cpu.Store(2)
	}
	c.cpu.Work(lastStoreCost)
	c.cpu.Store(2)
}

// isMany reports whether a message has the form of cmam_n: one of the program, or one of the
// library that is too long for the form of cmam_4.
func isMany(h funi.Header) bool {
	return h.Type() == typeN || h.Type() == typeIndirectN || h.Length() > 5
}

// loadHead charges a load of a head register. It costs nothing while the register is in the cache;
// the card's store removes it (thesis 2.7). With Library.LookMisses each burst into the queue
// removes it.
func (c *pace) loadHead(l funi.Level) {
	c.cpu.Settle()
	if c.iface.ReceiveHead(l) != c.cached[l] || c.cpu.Library().LookMisses && c.cpu.Deliveries(int(l)) != c.bursts[l] {
		c.cpu.Load(1)
		c.cached[l], c.bursts[l] = c.iface.ReceiveHead(l), c.cpu.Deliveries(int(l))
	}
}

// drain handles all messages of a level that the head register shows.
func (c *pace) drain(l funi.Level) {
	c.loadHead(l)
	c.e.service(l, most)
}

// poll handles one message, a reply if there is one (cmam_service).
func (c *pace) poll() (int, error) {
	c.e.tags.say()
	if c.e.bytes.busy || c.e.bytes.waits {
		c.e.bytes.pump()
	}
	c.cpu.Work(pollCost)
	if n := c.look(funi.Reply); n > 0 {
		return n, c.e.returned()
	}
	c.cpu.Work(pollSecondCost)
	return c.look(funi.Request), c.e.returned()
}

// seek charges a look at a head register, in a loop.
func (c *pace) seek(l funi.Level) {
	c.cpu.Work(pointerCost + lookCost + testCost)
	c.loadHead(l)
}

// look handles one message of a level if there is any.
func (c *pace) look(l funi.Level) int {
	if c.iface.SeemsEmpty(l) {
		c.cpu.Work(pollRegister)
		c.loadHead(l)
	}
	n := c.e.service(l, 1)
	c.drive()
	return n
}

// receive charges the receipt of a message up to the program's handler, and the handler as
// one that counts.
func (c *pace) receive(l funi.Level, s *funi.Slot) {
	if c.prices != nil {
		c.cpu.Work(c.prices.of(l, s).Receive)
		return
	}
	h := s.Header()
	c.cpu.Work(placeCost)
	for range 3 {
		c.cpu.Load(2)
		c.cpu.Work(incCost + 2*setCost)
	}
	c.cpu.Store(1) // the tail register
	c.cpu.Work(takeCost - placeCost - (2*(incCost+2*setCost) + 3*setCost))
	switch {
	case h.Transfer():
		c.cpu.Work(mferCost)
	case h.Type() == typeXfer:
		c.cpu.Work(xferCost)
	case isMany(h):
		c.cpu.Work(nCost)
		for n := h.Length() - 1 - 4; n > 0; n -= 4 {
			c.cpu.Load(2)
			c.cpu.Work(nChunkCost / 2)
			c.cpu.Load(2)
			c.cpu.Work(nChunkCost - nChunkCost/2 + c.cpu.Library().LoopCycles)
		}
		c.cpu.Work(c.cpu.Library().LoopCycles)
	default:
		c.cpu.Work(fourCost)
	}
	if !h.Transfer() {
		switch h.Type() {
		case typeFour, typeN:
			c.cpu.Work(c.cpu.Library().CounterCycles) // the program's handler
		case typeGet, typeGetFour, typePut, typePutOne:
			c.cpu.Work(-userCost) // one that answers and does not count
		}
	}
}
