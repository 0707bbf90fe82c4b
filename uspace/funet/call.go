package funet

// This file is calls: requests with an answer or an error.

import (
	"bytes"
	"cmp"
	"context"
	"fmt"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/funi"
)

// Call runs a handler of Serve on a node with b and returns its answer, or its error
// (*am.RemoteError). Any number of goroutines may call at the same time. At most am.MaxRemoteCalls
// calls are in flight; the next one waits.
//
// Call returns at once when the context ends. The handler may run nevertheless; its answer is
// dropped. A call to a node that is gone, or that dies during the call, returns an *am.Undelivered
// error. Other errors are ErrNode, ErrNumber, ErrLong, and ErrHandler within a handler. A call that
// returned no error was executed once.
func (e *Endpoint) Call(ctx context.Context, node int, handler uint32, b []byte) ([]byte, error) {
	return e.AppendCall(ctx, nil, node, handler, b)
}

// AppendCall is Call that appends the answer to dst and returns the extended slice. A caller whose
// dst has enough room allocates nothing.
func (e *Endpoint) AppendCall(ctx context.Context, dst []byte, node int, handler uint32, b []byte) ([]byte, error) {
	if err := e.lock(); err != nil {
		return dst, fmt.Errorf("calling node %d: %w", node, err)
	}
	defer e.unlock()
	w := e.waiter()
	w.answer = dst
	id, err := e.startCall(ctx, w, node, handler, b)
	if err == nil {
		if err = e.await(ctx, w, "calling"); err != nil && !w.done {
			e.cancel(id)
		}
	}
	if err != nil {
		e.recycle(w)
		return dst, err
	}
	dst = w.answer
	e.recycle(w)
	return dst, nil
}

// startCall begins a call as soon as there is room, unless it was cancelled before.
func (e *Endpoint) startCall(ctx context.Context, w *waiter, node int, handler uint32, b []byte) (am.ID, error) {
	if !e.roomToCall(node, len(b)) {
		r := e.waiter()
		r.holds = func() bool { return w.done || e.roomToCall(node, len(b)) }
		err := e.await(ctx, r, "calling")
		e.recycle(r)
		if err = cmp.Or(err, w.err); err != nil {
			return 0, err
		}
	}
	return e.am.StartCall(node, handler, b, w.finish)
}

// cancel ends an operation of package am, so that the program may reuse its memory. Once the
// carrier is being closed, all operations have ended already.
func (e *Endpoint) cancel(id am.ID) {
	if e.released == nil {
		e.am.Cancel(id)
	}
}

// roomToCall reports whether package am can begin a call to a node, with the given number of bytes,
// without waiting.
func (e *Endpoint) roomToCall(node, size int) bool {
	if e.am.CallsUnderWay() >= am.MaxRemoteCalls || e.iface.Reserve(funi.Request) == nil || !e.am.Heard(node) {
		return false
	}
	return size <= am.ShortCall || e.vacant(packets(size)) && e.am.SendsUnderWay() < am.MaxSends
}

// Pending is a call, a send or a receive that was begun. Any goroutine may wait for it, one at a
// time.
type Pending struct {
	endpoint *Endpoint
	waiter   *waiter
	doing    string
	id       am.ID
	node     int
	handler  uint32
	unsent   []byte // the request of a call that there was no room for
	waits    bool   // it has yet to be begun
}

// Go begins a call and does not wait; Wait returns its errors. A b of more than am.ShortCall bytes
// must not change until Wait has returned, or after Cancel. A shorter b may be changed at once. If
// there is no room for the call yet, Wait begins it.
func (e *Endpoint) Go(node int, handler uint32, b []byte) *Pending {
	p := &Pending{endpoint: e, waiter: e.newWaiter(), doing: "calling", node: node, handler: handler}
	if len(b) > am.MaxCall {
		p.waiter.complete(fmt.Errorf("calling node %d: %w", node, ErrLong))
		return p
	}
	if err := e.lock(); err != nil {
		p.waiter.complete(fmt.Errorf("calling node %d: %w", node, err))
		return p
	}
	defer e.unlock()
	if !e.roomToCall(node, len(b)) {
		if p.unsent, p.waits = b, true; len(b) <= am.ShortCall {
			p.unsent = bytes.Clone(b)
		}
		return p
	}
	var err error
	if p.id, err = e.am.StartCall(node, handler, b, p.waiter.finish); err != nil {
		p.waiter.complete(err)
	}
	e.carrier.Drive()
	return p
}

// Wait returns what Call, Send or SendTag does; Received has what Recv returns beside the error. If
// the context ends first the call goes on, and Wait can be called again.
func (p *Pending) Wait(ctx context.Context) ([]byte, error) {
	e, w := p.endpoint, p.waiter
	if p.id == 0 && !p.waits { // it never began
		return nil, w.err
	}
	if err := e.lock(); err != nil {
		return nil, fmt.Errorf("%s: %w", p.doing, err)
	}
	defer e.unlock()
	if p.waits {
		id, err := e.startCall(ctx, w, p.node, p.handler, p.unsent)
		if err != nil {
			return nil, err
		}
		p.id, p.waits = id, false
	}
	if err := e.await(ctx, w, p.doing); err != nil {
		return nil, err
	}
	return w.answer, nil
}

// Received describes the message of a receive, after Wait.
func (p *Pending) Received() Received { return p.waiter.what }

// Cancel ends it; Wait then returns am.ErrCancelled, unless it was complete. The handler of a call
// or of a message may run nevertheless.
func (p *Pending) Cancel() {
	if p.endpoint.lock() != nil {
		return
	}
	defer p.endpoint.unlock()
	switch {
	case p.waits:
		p.waits = false
		p.waiter.complete(fmt.Errorf("calling node %d: %w", p.node, am.ErrCancelled))
		p.endpoint.stir() // a Wait that waits for room
	case p.id != 0:
		p.endpoint.cancel(p.id)
	}
}
