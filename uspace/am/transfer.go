package am

// This file implements transfers, which the card moves from memory to memory (thesis 3.2.4;
// cmam_mfer_n of appendix A), and the handlers of their notices.
//
// The thesis selects the transfer's handler by packet type 5, which here is also the type of
// segments (xfer.go). Types from 256 on carry the number of a handler of the program.

import (
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/funi"
)

// ErrTransfer reports a transfer that the card would refuse.
var ErrTransfer = errors.New("am: a transfer has a multiple of 4 words, at most 2^24 from memory to memory or 16 from memory to a handler")

// NoticeHandler runs at the receiver when a whole transfer is in its memory. The message has no
// words; it names the source node. The handler may reply to it if the transfer was a request.
type NoticeHandler func(m *Message, n funi.Notice)

// HandleNotice registers a handler of transfers. Its numbers are separate from those of Handle and
// have the same rules: 0 to Handlers-1, the same on every node, registered before the first
// transfer can arrive. ErrNumber reports a number above Handlers-1 or taken, or a nil handler. Any
// context; it sends nothing.
func (e *Endpoint) HandleNotice(number uint32, h NoticeHandler) error {
	if number >= Handlers || e.notices[number] != nil || h == nil {
		return fmt.Errorf("registering notice handler %d: %w", number, ErrNumber)
	}
	e.notices[number] = h
	return nil
}

// Transfer moves words from a segment of this process to one of a node, at request priority. When
// all have arrived, it runs notice handler number there. With destination 0 it runs message handler
// number (of Handle) on up to 16 words.
//
// Transfer returns when the request is in the send queue. The source must not change before
// Retrieved reports that the card no longer needs it. The card may send a transfer of more than 16
// words straight from the source, several times, until the other card has it. A failed transfer
// comes back as one Undelivered error, from Poll or another call that polls; parts of it may have
// been written.
//
// Main program only. Errors are ErrTransfer, ErrNumber and those of Request.
func (e *Endpoint) Transfer(node int, number uint32, t funi.Transfer) error {
	if err := checkTransfer(node, number, &t); err != nil {
		return err
	}
	return e.transfer(node, transferType(number, &t), &t)
}

// TransferCounted is Transfer that adds one to the counter when its source may change. That is when
// the card has given back this transfer's slot, which Retrieved reports for all slots, and a later
// Poll has seen that. The counter says nothing of the delivery: a failed transfer is counted, too,
// and comes back. WaitCounter waits for the counter.
func (e *Endpoint) TransferCounted(node int, number uint32, t funi.Transfer, c *Counter) error {
	if err := e.Transfer(node, number, t); err != nil {
		return err
	}
	c.under++
	x := &e.bytes
	x.retiring = append(x.retiring, retiring{place: e.iface.SendHead(funi.Request), counter: c})
	x.busy = true
	return nil
}

// Transfer is Endpoint.Transfer to the node that sent the request, at reply priority, for request
// handlers (ErrHandler).
func (m *Message) Transfer(number uint32, t funi.Transfer) error {
	if err := checkTransfer(m.Source, number, &t); err != nil {
		return err
	}
	return m.transfer(transferType(number, &t), &t)
}

// transfer sends a request block at request priority.
func (c *core) transfer(node int, typ uint16, t *funi.Transfer) error {
	s, err := c.reserve(node, 0)
	if err != nil {
		return err
	}
	s.SetTransfer(uint16(node), typ, *t)
	c.commit(funi.Request, s)
	return nil
}

// transfer sends a request block at reply priority.
func (m *Message) transfer(typ uint16, t *funi.Transfer) error {
	s, err := m.reserve(0)
	if err != nil {
		return err
	}
	s.SetTransfer(uint16(m.Source), typ, *t)
	m.endpoint.commit(funi.Reply, s)
	return nil
}

// checkTransfer refuses a transfer that the card would refuse. For a transfer to a queue it stores
// the handler in the argument, where a message has it.
func checkTransfer(node int, number uint32, t *funi.Transfer) error {
	switch {
	case number >= Handlers:
		return fmt.Errorf("transferring to notice handler %d: %w", number, ErrNumber)
	case t.Source == 0 || !t.Valid():
		return fmt.Errorf("transferring %d words from %#x to %#x on node %d: %w", t.Words, t.Source, t.Destination,
			node, ErrTransfer)
	case t.Destination == 0:
		t.Argument = number
	}
	return nil
}

func transferType(number uint32, t *funi.Transfer) uint16 {
	if t.Destination == 0 {
		return typeN
	}
	return uint16(typeTransfer + number)
}

// Retrieved reports whether the card has given back the slots of everything that was sent at the
// level so far. Then the sources of transfers may change. The card keeps the slot of a transfer of
// more than 16 words until the receiver has all but its end, or until the transfer comes back.
// Later slots are given back after that one, although their messages need not wait for it. Any
// context.
func (e *Endpoint) Retrieved(l funi.Level) bool {
	if e.pace == nil {
		return e.iface.Unsent(l) == 0
	}
	e.pace.cpu.Work(pointerCost + testCost)
	e.pace.cpu.Load(1) // the tail register
	done := e.iface.Unsent(l) == 0
	e.pace.known[l] = e.iface.KnownTail(l)
	return done
}
