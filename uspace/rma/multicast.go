package rma

// This file is chained multicast (Tokyo, sections 2.2.1 and 3.3.1.3; funi/multicast.go): messages,
// and puts to windows that have the same key, which the cards of a chain's members send on from one
// to the next.

import (
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// ErrChain: the chain is none.
var ErrChain = errors.New("rma: no such chain: numbers are below funi.MaxChains, a member sends on to at most funi.MaxNext nodes, each another, with members behind it")

// Join makes the process a member of a chain, in place of what it was of that chain before. When it
// returns the card takes multicasts along it. Errors are ErrChain, ErrUntold and those of drive.
func (e *Endpoint) Join(c funi.Chain) error {
	return e.chain("joining", c.Number, func(s *funi.Slot, cookie uint32) { s.SetChain(&c, cookie) })
}

// Leave ends that. What the card has accepted before, it sends on. Errors are those of Join.
func (e *Endpoint) Leave(number uint16) error {
	return e.chain("leaving", number, func(s *funi.Slot, cookie uint32) { s.SetLeaveChain(number, cookie) })
}

func (e *Endpoint) chain(what string, number uint16, compose func(*funi.Slot, uint32)) error {
	reason, err := e.command(compose)
	if err == nil && reason != arctic.ReasonNone {
		err = ErrChain
	}
	if err != nil {
		return fmt.Errorf("%s chain %d: %w", what, number, err)
	}
	return nil
}

// Multicast sends along a chain that begins at a node, and waits until the card knows of every
// member. Without an error each has it, once. With an *Error the delivery says how many have it,
// how many do not and of how many nobody knows, and names the nodes at which the chain is broken
// (funi/multicast.go). Other errors are ErrTooLong and those of drive. The Cookie of m is the
// endpoint's to choose.
func (e *Endpoint) Multicast(first uint16, m funi.MulticastRequest) (funi.Delivery, error) {
	id, err := e.StartMulticast(first, m)
	if err != nil {
		return funi.Delivery{}, err
	}
	r, err := e.Wait(id)
	return r.Delivery(), err
}

// StartMulticast is Multicast without the wait: Wait or Next tell what became of it, and
// Result.Delivery what it has come to. Data is copied at once. Errors are ErrTooLong and those of
// drive.
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

// Delivery returns what a multicast has come to.
func (r *Result) Delivery() funi.Delivery {
	return (&funi.Notification{Answer: r.Answer}).Delivery()
}
