package am

// This file charges the primitives to a modelled processor, in the order in which the code of
// thesis appendix A carries them out. On a real machine there is no such processor, and each
// primitive tests that once.
//
// With a processor the library behaves as that of appendix A does. After each message that it sends
// it handles the messages that have arrived, and Poll handles one message.

import (
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/timing"
)

// Pace charges the endpoint's work from now on to a processor. A message that is sent then lets
// handlers run, as any Poll does.
func (e *Endpoint) Pace(cpu *timing.CPU) { e.cpu = cpu }

// Work charges instructions of one cycle each, which the program executes for itself. On a real
// machine it does nothing, since they take the time that they take. Any context.
func (e *Endpoint) Work(cycles int) { e.charge(cycles) }

// commit sends the slot that was reserved and filled in.
func (e *Endpoint) commit(l funi.Level, s *funi.Slot) {
	if !e.paced(l, s) {
		e.iface.Commit(l)
	}
}

// paced is commit if there is a processor to charge it to; otherwise it returns false. Sends that
// must be fast call it themselves, because commit is too long to be inlined.
func (e *Endpoint) paced(l funi.Level, s *funi.Slot) bool {
	if e.cpu == nil {
		return false
	}
	e.pacedCommit(l, s)
	return true
}

// chargeFull charges a look at a full send queue, without the poll that follows.
func (e *Endpoint) chargeFull(l funi.Level) {
	e.cpu.Work(fullCost)
	e.loadTail(l)
}

// loadTail charges a load of a tail register, which the interface has read.
func (e *Endpoint) loadTail(l funi.Level) {
	e.cpu.Load(1)
	e.known[l] = e.iface.KnownTail(l)
}

// pacedCommit charges the composition of a slot, sends it, and handles messages that have arrived.
func (e *Endpoint) pacedCommit(l funi.Level, s *funi.Slot) {
	c := e.cpu
	h := s.Header()
	if e.prices != nil {
		c.Work(e.prices.of(l, s).Send)
		c.Settle()
		e.iface.Commit(l)
		e.handleSent(l)
		return
	}
	c.Work(enterCost)
	if e.iface.KnownTail(l) != e.known[l] {
		e.loadTail(l) // the search for the slot has read it
	}
	c.Work(placeCost + headerCost)
	switch {
	case h.Transfer():
		c.Work(requestCost)
		e.stores(2)
	case isMany(h):
		c.Work(manyCost + storeCost)
		c.Store(2)
		for n := h.Length() - 1; n > 0; n -= 4 {
			c.Work(chunkCost / 2)
			c.Store(2)
			c.Work(chunkCost - chunkCost/2 + c.Library().LoopCycles)
			c.Store(2)
		}
		c.Work(testCost + c.Library().LoopCycles)
	default:
		if h.Type() == typeXfer {
			c.Work(xferSourceCost)
		}
		e.stores(3) // the last may be of no use, as with a call of two words
	}
	c.Work(publishCost)
	c.Store(1) // the head register
	e.iface.Commit(l)
	e.drive()
	c.Work(drainCost)
	e.drain(funi.Reply)
	if l == funi.Request {
		c.Work(drainSecondCost)
		e.drain(funi.Request)
	}
}

// handleSent handles messages that have arrived, after a send whose price includes the looks for
// them.
func (e *Endpoint) handleSent(l funi.Level) {
	e.drive()
	e.service(funi.Reply, most)
	if l == funi.Request {
		e.service(funi.Request, most)
	}
}

// charge charges work of the library that is not part of sending or receiving.
func (e *Endpoint) charge(cycles int) {
	if e.cpu != nil {
		e.cpu.Work(cycles)
	}
}

// stores charges the stores of double words from the frame.
func (e *Endpoint) stores(n int) {
	for range n - 1 {
		e.cpu.Work(storeCost)
		e.cpu.Store(2)
	}
	e.cpu.Work(lastStoreCost)
	e.cpu.Store(2)
}

// isMany reports whether a message has the form of cmam_n: one of the program, or one of the
// library that is too long for the form of cmam_4.
func isMany(h funi.Header) bool {
	return h.Type() == typeN || h.Type() == typeIndirectN || h.Length() > 5
}

// loadHead charges a load of a head register. It costs nothing while the register is in the cache;
// the card's store removes it (thesis 2.7). With Library.LookMisses each burst into the queue
// removes it.
func (e *Endpoint) loadHead(l funi.Level) {
	e.cpu.Settle()
	if e.iface.ReceiveHead(l) != e.cached[l] || e.cpu.Library().LookMisses && e.cpu.Deliveries(int(l)) != e.bursts[l] {
		e.cpu.Load(1)
		e.cached[l], e.bursts[l] = e.iface.ReceiveHead(l), e.cpu.Deliveries(int(l))
	}
}

// drain handles all messages of a level that the head register shows.
func (e *Endpoint) drain(l funi.Level) {
	e.loadHead(l)
	e.service(l, most)
}

// pacedPoll handles one message, a reply if there is one (cmam_service).
func (e *Endpoint) pacedPoll() (int, error) {
	if e.tags != nil {
		e.say()
	}
	if e.bytes.busy || e.bytes.waits {
		e.pump()
	}
	e.cpu.Work(pollCost)
	if n := e.look(funi.Reply); n > 0 {
		return n, e.returned()
	}
	e.cpu.Work(pollSecondCost)
	return e.look(funi.Request), e.returned()
}

// chargeLook charges a look at a head register, in a loop.
func (e *Endpoint) chargeLook(l funi.Level) {
	e.cpu.Work(pointerCost + lookCost + testCost)
	e.loadHead(l)
}

// look handles one message of a level if there is any.
func (e *Endpoint) look(l funi.Level) int {
	if e.iface.SeemsEmpty(l) {
		e.cpu.Work(pollRegister)
		e.loadHead(l)
	}
	n := e.service(l, 1)
	e.drive()
	return n
}

// chargeReceive charges the receipt of a message up to the program's handler, and the handler as
// one that counts.
func (e *Endpoint) chargeReceive(l funi.Level, s *funi.Slot) {
	c := e.cpu
	if e.prices != nil {
		c.Work(e.prices.of(l, s).Receive)
		return
	}
	h := s.Header()
	c.Work(placeCost)
	for range 3 {
		c.Load(2)
		c.Work(incCost + 2*setCost)
	}
	c.Store(1) // the tail register
	c.Work(takeCost - placeCost - (2*(incCost+2*setCost) + 3*setCost))
	switch {
	case h.Transfer():
		c.Work(mferCost)
	case h.Type() == typeXfer:
		c.Work(xferCost)
	case isMany(h):
		c.Work(nCost)
		for n := h.Length() - 1 - 4; n > 0; n -= 4 {
			c.Load(2)
			c.Work(nChunkCost / 2)
			c.Load(2)
			c.Work(nChunkCost - nChunkCost/2 + c.Library().LoopCycles)
		}
		c.Work(c.Library().LoopCycles)
	default:
		c.Work(fourCost)
	}
	if !h.Transfer() {
		switch h.Type() {
		case typeFour, typeN:
			c.Work(c.Library().CounterCycles) // the program's handler
		case typeGet, typeGetFour, typePut, typePutOne:
			c.Work(-userCost) // one that answers and does not count
		}
	}
}
