package engine

// This file is CNTL and the privileged registers (thesis 3.1.2). The process may ask for some
// things in the register page; others only the owner of the card may do, through Load and Store. A
// Context is the owner's handle, the privileged page of thesis 4.1.2.
//
// The hardware saw every write to a register. This card sees memory. It looks at CNTL in every
// step, takes nothing but CSQM and CRQM from it, and halts or latches the queues accordingly. It
// puts the status bits in with a compare-and-swap, so that it never overwrites bits that the
// process has just written.
//
// MERR comes with a reason word. Registers that describe no queue in the context's memory suspend
// the context's queues until the owner clears MERR; then the card tries again. A transfer that asks
// for something that its process may not have is returned, not tried again (packetise.go). There
// MERR is for information only.

import (
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

var (
	// ErrNotReady reports a register that must not be written before the status bit that allows it
	// is set (thesis 3.1.2, 4.2).
	ErrNotReady = errors.New("engine: the context is not ready for that; set the mode, step the card, and wait for its ready bit")
	// ErrRegister reports a register that does not exist, or that does not take that value.
	ErrRegister = errors.New("engine: the register does not take that value")
	// ErrCached reports that the undelivered packet cache or the receive FIFOs hold packets of the
	// context's group, or that a long transfer in it is under way.
	ErrCached = errors.New("engine: packets in the card belong to the old group; switch the context out, or reset TICKET and drain its receive FIFOs")
	// ErrAway reports a context that is switched out or detached.
	ErrAway = errors.New("engine: the context is switched out or detached")
)

// Load reads a register through the privileged page.
func (x *Context) Load(r funi.Register) uint32 {
	switch {
	case r == funi.GID:
		return uint32(x.gid)
	case r == funi.Ticket:
		return uint32(x.ticket.words[0])
	case x.away:
		return 0
	case r == funi.Control:
		return x.status()
	}
	return x.iface.Load(r)
}

// Store writes a register through the privileged page.
//
// CNTL: RESET, CTXM, DRAIN, CSQM and CRQM become what v says. If v has no MERR, MERR is cleared.
// The other bits are status and are ignored. Ending RESET leaves the context as it is at power-up.
// CTXM of a context without a group stays.
//
// GID needs CTXR1, and takes the tag of SetTag with it. A group that has the node already is
// refused with ErrAttached. A change while packets are in the cache or in the receive FIFOs, or
// while long transfers are under way, is refused with ErrCached.
//
// TICKET needs CTXR1 and takes only the value of an empty cache. Packets in the cache come back to
// the process with ReasonGivenUp, and so do the long transfers that are open, each once.
//
// The queue registers may be written only while their queues are halted. Those of the send queues
// need CSQR, CTXR1' or MERR, those of the receive queues CRQR, CTXR2 or MERR, and Q_MASK one of
// each. CTXR1' is not enough while a slot is a long transfer's: CSQM, or TICKET, ends that. A BASE
// zeroes HD and TL.
//
// Errors are ErrNotReady, ErrRegister, ErrAttached, ErrCached, ErrAway.
func (x *Context) Store(r funi.Register, v uint32) error {
	err := ErrAway
	if !x.away {
		err = x.store(r, v)
	}
	if err != nil {
		return fmt.Errorf("writing %#x to register %d of node %d of group %d: %w", v, r, x.node, x.gid, err)
	}
	x.calm = false
	if !x.awake {
		x.card.sched.wake(x)
	}
	return nil
}

// SetTag sets the job to which the context belongs from the next store of GID on, also if that
// store leaves GID as it is. Packets that the context sends then carry the tag (arctic.JobTag), and
// no packet with another tag is delivered to it. Packets that it sent before keep the earlier tag.
// At power-up and after RESET the tag is 0.
func (x *Context) SetTag(tag uint64) { x.nextTag = tag }

// Tag returns the tag of the context's job.
func (x *Context) Tag() uint64 { return x.tag }

func (x *Context) store(r funi.Register, v uint32) error {
	switch r {
	case funi.Control:
		x.storeControl(v)
		return nil
	case funi.GID:
		switch {
		case v > arctic.MaxGID:
			return ErrRegister
		case x.status()&funi.CTXR1 == 0:
			return ErrNotReady
		case x.group != nil && x.gid == uint16(v) && x.tag == x.nextTag:
			return nil
		case !x.allFree() || x.transferring() || !x.drained():
			return ErrCached
		}
		if err := x.card.routes.enter(x, uint16(v)); err != nil {
			return err
		}
		x.iface.Store(funi.GID, v)
		return nil
	case funi.Ticket:
		switch empty := x.card.table.emptyTicket(); {
		case v != uint32(empty.words[0]):
			return ErrRegister
		case x.status()&funi.CTXR1 == 0:
			return ErrNotReady
		}
		x.card.out.giveUp(x, func(ln *line) { x.returned(ln, arctic.ReasonGivenUp) })
		x.giveUpTransfers(arctic.ReasonGivenUp)
		x.iface.Store(funi.Ticket, v)
		return nil
	}
	return x.storeQueue(r, v)
}

// storeQueue writes a queue register on behalf of the process.
func (x *Context) storeQueue(r funi.Register, v uint32) error {
	send, receive, ofSend := x.sending, x.receiving, true
	switch r {
	case funi.QMask:
	case funi.RPSQBase, funi.RQSQBase, funi.RPSQHead, funi.RPSQTail, funi.RQSQHead, funi.RQSQTail:
		receive = false
	case funi.RPRQBase, funi.RQRQBase, funi.RPRQHead, funi.RPRQTail, funi.RQRQHead, funi.RQRQTail:
		send, ofSend = false, false
	default:
		return ErrRegister
	}
	if send || receive || ofSend && !x.giveSlotsBack() {
		return ErrNotReady
	}
	x.iface.Store(r, v)
	if r >= funi.RPSQBase && r <= funi.RQRQBase {
		head := funi.RPSQHead + 2*(r-funi.RPSQBase)
		x.iface.Store(head, 0)
		x.iface.Store(head+1, 0)
	}
	return nil
}

// giveSlotsBack retires the finished slots of halted send queues, and reports whether the card has
// no slot of them left.
func (x *Context) giveSlotsBack() bool {
	if x.taken != x.finished {
		return false
	}
	if x.taken != [arctic.Levels]int{} && x.iface.LatchSend() == nil {
		for l := range x.taken {
			x.card.out.retireFinished(x, arctic.Level(l))
		}
		x.iface.HaltSend()
	}
	// of registers that are no queue's, too
	x.taken, x.finished = [arctic.Levels]int{}, [arctic.Levels]int{}
	return true
}

// storeControl is a privileged write to CNTL.
func (x *Context) storeControl(v uint32) {
	x.iface.Store(funi.Control, x.setModes(v)&funi.UserModes)
	x.control()
}

// setModes sets the privileged modes that CNTL asks for, and returns what CNTL becomes.
func (x *Context) setModes(v uint32) uint32 {
	c := x.card
	was := x.modes
	x.modes = was&v&funi.MERR | v&(funi.RESET|funi.CTXM|funi.DRAIN)
	switch {
	case was&funi.RESET == 0 && v&funi.RESET != 0:
		c.reset(x)
	case was&funi.RESET != 0 && v&funi.RESET == 0:
		x.modes, v = funi.CTXM, funi.UserModes
	case x.group == nil:
		x.modes |= funi.CTXM
	}
	if x.modes&funi.MERR == 0 && was&funi.MERR != 0 {
		x.suspended = false
		x.iface.PutFault(arctic.ReasonNone)
	}
	x.drain = x.modes&funi.DRAIN != 0
	return v
}

// control looks at CNTL, does what the modes ask for, and publishes the status.
func (x *Context) control() {
	x.calm = false
	x.works(controlBytes)
	v := x.iface.Load(funi.Control)
	x.user = v & funi.UserModes
	x.obey()
	status := x.status()
	if v != status && !x.iface.PutControl(v, status) {
		x.card.clock.more = true // the process has just written: look again
		return
	}
	x.seen = status
}

// obey halts and starts the transactions as the modes say.
func (x *Context) obey() {
	halted := x.modes&(funi.CTXM|funi.RESET) != 0
	if halted != x.halted {
		x.halted, x.owner.Halted = halted, halted
		x.rejection = arctic.ReasonNone
		if halted {
			x.rejection = arctic.ReasonSwitching
		}
		x.card.link.Resume(x.owner)
	}
	// A unit of a modelled machine ends the packet that it works on before it halts.
	if x.suspended || halted && !x.retrieving || x.modes&funi.RESET != 0 {
		x.stopSending()
	} else if halted {
		x.closing = true
	} else if x.user&funi.CSQM != 0 || x.leaving {
		// A transfer that has begun is retrieved to its end, and its slot is retired:
		// the process would change the queue that it is in.
		x.closing = x.retrieving || x.taken != [arctic.Levels]int{} || x.leaving && x.begun()
		switch {
		case !x.closing:
			x.stopSending()
		case !x.sending: // a context switch came between
			x.sending = x.latched(x.iface.LatchSend())
		}
	} else if x.closing = false; !x.sending {
		x.sending = x.latched(x.iface.LatchSend())
	}
	// In context-switch mode delivery goes on until the receive FIFOs are empty
	// (thesis 4.2; 5.2.3 says otherwise, but then CTXR2 would never come).
	if x.suspended || x.user&funi.CRQM != 0 && !x.delivering || x.modes&funi.RESET != 0 || halted && x.drained() {
		x.stopReceiving()
	} else if !x.receiving && !halted && x.user&funi.CRQM == 0 {
		x.receiving = x.latched(x.iface.LatchReceive())
	}
	if x.suspended { // latched may have found an error just now
		x.stopSending()
		x.stopReceiving()
	}
}

func (x *Context) stopSending() {
	if x.sending {
		if x.entry.in {
			x.card.sched.unstore(x)
		}
		x.iface.HaltSend()
		x.sending = false
	}
	x.closing = false
}

func (x *Context) stopReceiving() {
	if x.receiving {
		x.iface.HaltReceive()
		x.receiving = false
	}
}

// latched reports whether the queues could be taken over. If not, it suspends the context.
func (x *Context) latched(err error) bool {
	if err == nil {
		return true
	}
	reason := arctic.ReasonQueueLayout
	if errors.Is(err, funi.ErrSlots) {
		reason = arctic.ReasonQueueSize
	}
	x.suspended = true
	x.memoryError(reason)
	return false
}

// memoryError sets MERR with the reason. It concerns this process alone.
func (x *Context) memoryError(reason arctic.Reason) {
	x.modes |= funi.MERR
	x.iface.PutFault(reason)
	x.card.counters.MemoryErrors++
}

// status composes CNTL.
func (x *Context) status() uint32 {
	v := x.user | x.modes
	if x.user&funi.CSQM != 0 && !x.sending && x.taken == [arctic.Levels]int{} {
		v |= funi.CSQR
	}
	if x.user&funi.CRQM != 0 && !x.receiving {
		v |= funi.CRQR
	}
	if x.modes&funi.CTXM != 0 && x.modes&funi.RESET == 0 && x.halted {
		if !x.sends() {
			v |= funi.CTXR1Prime
			if !x.outstanding() {
				v |= funi.CTXR1
			}
		}
		if !x.receiving && x.drained() {
			v |= funi.CTXR2
		}
	}
	return v
}

// outstanding reports whether packets of the context have been sent and not answered.
func (x *Context) outstanding() bool { return x.owner.Outstanding() }

// drained reports whether the receive FIFOs are empty.
func (x *Context) drained() bool { return x.fifo[arctic.Request].n == 0 && x.fifo[arctic.Reply].n == 0 }
