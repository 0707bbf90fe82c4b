package rma

// This file offers chained multicast (Tokyo, sections 2.2.1 and 3.3.1.3; funi/multicast.go). It
// carries messages, and puts to windows that have the same key. The cards of a chain's members pass
// them on from one to the next.

import (
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// ErrChain reports a description of a chain that is not valid.
var ErrChain = errors.New("rma: no such chain: numbers are below funi.MaxChains, a member sends on to at most funi.MaxNext nodes, each another, with members behind it")

// Join makes the process a member of a chain, in place of its earlier membership of that chain.
// When it returns, the card accepts multicasts along the chain. Errors are ErrChain, ErrUntold and
// those of drive.
func (e *Endpoint) Join(c funi.Chain) error {
	return e.chain("joining", c.Number, func(s *funi.Slot, cookie uint32) { s.SetChain(&c, cookie) })
}

// Leave ends the membership. The card still passes on multicasts that it accepted before. Errors
// are those of Join.
func (e *Endpoint) Leave(number uint16) error {
	return e.chain("leaving", number, func(s *funi.Slot, cookie uint32) { s.SetLeaveChain(number, cookie) })
}

func (e *Endpoint) chain(what string, number uint16, compose func(*funi.Slot, uint32)) error {
	reason, err := e.Command(compose)
	if err == nil && reason != arctic.ReasonNone {
		err = ErrChain
	}
	if err != nil {
		return fmt.Errorf("%s chain %d: %w", what, number, err)
	}
	return nil
}

// Multicast sends along a chain that begins at a node, and waits until the card knows the outcome
// for every member. Without an error each member has it, once. With an *Error the Delivery says how
// many members have it, how many do not, and for how many that is unknown; it also names the nodes
// at which the chain is broken (funi/multicast.go). Other errors are ErrTooLong and those of drive.
// The endpoint chooses the Cookie of m.
func (e *Endpoint) Multicast(first uint16, m funi.MulticastRequest) (funi.Delivery, error) {
	id, err := e.StartMulticast(first, m)
	if err != nil {
		return funi.Delivery{}, err
	}
	r, err := e.Wait(id)
	return r.Delivery(), err
}

// StartMulticast is Multicast without the wait: Wait or Next returns its Result, and
// Result.Delivery the outcome. Data is copied at once. Errors are ErrTooLong and those of drive.
func (e *Endpoint) StartMulticast(first uint16, m funi.MulticastRequest) (ID, error) {
	if !m.Valid() {
		return 0, fmt.Errorf("sending along chain %d: %w", m.Chain, ErrTooLong)
	}
	s, id, cookie, err := e.record("sending along a chain", first, false, false)
	if err != nil {
		return 0, err
	}
	m.Cookie = cookie
	s.SetMulticast(first, &m)
	e.commit(id, arctic.RemoteMulticast)
	return id, nil
}

// Delivery returns the outcome of a multicast.
func (r *Result) Delivery() funi.Delivery {
	return (&funi.Notification{Answer: r.Answer}).Delivery()
}
