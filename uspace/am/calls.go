package am

// This file implements split-phase calls, which another node answers while the program goes on. It
// matches answers with calls, and ends calls to a node that is gone.
//
// A call has a ticket (pool.go). It travels in every message of the call. It comes back in the
// answer, or in the message itself if that is not delivered. So an answer that arrives after its
// call has failed matches no call.

import (
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/funi"
)

// MaxCalls is how many split-phase calls of an endpoint may be in flight; the next one waits until
// one is complete.
const MaxCalls = 256

// ErrCounter reports a wait for more calls than are complete or under way.
var ErrCounter = errors.New("am: fewer calls of the counter are under way than are waited for")

// Counter counts completed split-phase calls. The zero value is ready. A Counter must not be copied
// or moved while its calls are under way. It belongs to one endpoint.
type Counter struct {
	complete, under int
	err             error // of the first failed call whose error was not yet returned
}

// Complete returns the number of completed calls that WaitCounter has not subtracted yet. Any
// context.
func (c *Counter) Complete() int { return c.complete }

// UnderWay returns how many calls have neither completed nor failed. Any context.
func (c *Counter) UnderWay() int { return c.under }

// calls is the table of calls.
type calls struct {
	*core
	pool[call]
	single single
}

// call is a call that is under way.
type call struct {
	ticket  uint32
	node    uint16
	left    int    // answers still to come
	into    []byte // where the data of answers goes; nil: they carry none
	counter *Counter
	segment *segment // where the answer goes; nil: no segment
}

// WaitCounter waits until n calls of a counter are complete, and subtracts n. n is at least 0; for
// 0 it does not wait. It polls, and now and then probes the nodes whose answers are missing.
//
// A failed call is not counted. WaitCounter returns its error once: Undelivered or ErrAddress. An
// Undelivered error of another message ends WaitCounter, too; it can be called again. ErrCounter
// reports a wait for more calls than are complete or under way. Main program only (ErrHandler).
func (e *Endpoint) WaitCounter(c *Counter, n int) error {
	var failed error
	e.charge(waitCost)
	err := e.wait(func() bool {
		if c.err != nil {
			failed, c.err = c.err, nil
			return true
		}
		return c.complete >= n || c.complete+c.under < n
	}, func() error { return e.calls.probeAll(c) })
	switch {
	case err != nil:
		if c.err == err {
			c.err = nil // reported now
		}
		return err
	case failed != nil:
		return failed
	case c.complete < n:
		return fmt.Errorf("waiting for %d with %d complete and %d under way: %w", n, c.complete, c.under, ErrCounter)
	}
	c.complete -= n
	return nil
}

// probeAll probes the nodes whose answers are missing, for one counter or for all.
func (t *calls) probeAll(of *Counter) error {
	return t.probeEach(func(yield func(int) bool) {
		for c := range t.used {
			if (of == nil || c.counter == of) && !yield(int(c.node)) {
				return
			}
		}
	})
}

// begin opens a call and returns its ticket. It waits while there are too many.
func (t *calls) begin(node, answers int, into []byte, counter *Counter) (uint32, error) {
	if err := t.refusal(node, 0); err != nil {
		return 0, err
	}
	t.charge(callsCost)
	if err := t.wait(t.room, func() error { return t.probeAll(nil) }); err != nil {
		return 0, err
	}
	c, ticket := t.pool.take()
	*c = call{ticket: ticket, node: uint16(node), left: answers, into: into, counter: counter}
	counter.under++
	return ticket, nil
}

// end closes a call.
func (t *calls) end(c *call) {
	c.counter.under--
	if c.segment != nil {
		*c.segment, c.segment = segment{}, nil
	}
	c.into, c.counter = nil, nil
	t.give(c.ticket)
}

// giveUp closes a call whose outcome will not be reported to the program. Late answers match no
// call.
func (t *calls) giveUp(ticket uint32) {
	if c := t.find(ticket); c != nil {
		t.end(c)
	}
}

// answered notes one answer.
func (t *calls) answered(node int, ticket uint32) {
	c := t.find(ticket)
	if c == nil || int(c.node) != node {
		return // too late, or not asked
	}
	if c.left--; c.left == 0 {
		c.counter.complete++
		t.end(c)
	}
}

// fail ends a call with an error.
func (t *calls) fail(c *call, err error) {
	if c.counter.err == nil {
		c.counter.err = err
	}
	t.end(c)
}

// cameBack fails the calls that a returned packet belonged to. If the node is the reason for the
// return, it fails all calls to that node.
func (t *calls) cameBack(r *funi.Returned, err error) {
	switch r.Header.Type() {
	case typeGet, typeGetFour, typeGetBlock, typePut, typePutOne, typePutBlock:
		if c := t.find(r.Word); c != nil && r.Level == funi.Request {
			t.fail(c, err)
		}
	}
	if t.member == nil && gone(r.Reason) { // a member's calls end when it has left (depart)
		t.failAll(err, func(c *call) bool { return c.node == r.Header.Node() })
	}
}

// failAll fails all calls that which selects.
func (t *calls) failAll(err error, which func(*call) bool) {
	for c := range t.used {
		if which(c) {
			t.fail(c, err)
		}
	}
}
