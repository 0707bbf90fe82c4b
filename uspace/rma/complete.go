package rma

// This file completes operations, and tells the process what other nodes do: by notifications, or
// in its memory.

import (
	"fmt"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// Notification reports that all data of a put has arrived in a window, if the node that put it
// asked for that (With.Notify). With Absent it reports that a node wants a suspended window.
type Notification struct {
	Node    uint16 // the node that put the data, or wants the window
	Window  uint16 // the number of the key slot: bits 15:0 of the key
	Tag     uint64
	Address uint64 // of the first byte of the put's last packet, or of the wanted byte
	// Absent says that this is no put: the node wants the window, which is suspended, and waits for
	// Resume. Other nodes may wait, too.
	Absent bool
}

// queue holds as many notifications as the ring. While it is full, Poll reads no more, and a wait
// for an operation fails with ErrUnread.
type queue struct {
	list  []Notification
	first int
}

// full reports whether there is no room for another notification.
func (e *Endpoint) full() bool {
	n := len(e.inbox.list) - e.inbox.first
	if e.Held != nil {
		n += e.Held()
	}
	return n >= e.iface.Remote().Notifications
}

// order lists operations that are complete and not yet reported, in the order of completion.
type order struct{ oldest, newest *record }

func (o *order) push(m *record) {
	if m.before = o.newest; m.before == nil {
		o.oldest = m
	} else {
		m.before.after = m
	}
	o.newest = m
}

// drop takes an operation off the list.
func (o *order) drop(m *record) {
	if m.before == nil {
		o.oldest = m.after
	} else {
		m.before.after = m.after
	}
	if m.after == nil {
		o.newest = m.before
	} else {
		m.after.before = m.before
	}
}

// Poll reads what the card reports: completions, notifications, and returned requests, if any.
func (e *Endpoint) Poll() {
	settled := e.retired() >= e.ops.upTo
	for r, ok := e.nextReturn(); ok; r, ok = e.nextReturn() {
		e.back(r)
	}
	e.hearLost()
	// With Shared, returns may wait for the other library: they are of operations that were not
	// lost. A program that commits operations past this package makes the open ones too few; it is
	// not to wait for ever.
	settled = settled && e.ops.unsettled > 0 && e.open() <= 0 && !e.iface.Returns()
	for n := &e.entry; !e.full() && e.iface.NextNotification(n); {
		switch n.Kind {
		case funi.NoteCompletion:
			e.completed(n)
		case funi.NoteWindow, funi.NoteFault:
			if q := &e.inbox; q.first > 0 && len(q.list) == cap(q.list) {
				q.list, q.first = q.list[:copy(q.list, q.list[q.first:])], 0
			}
			e.inbox.list = append(e.inbox.list, Notification{Node: n.Source, Window: n.KeySlot, Tag: n.Tag,
				Address: n.Address, Absent: n.Kind == funi.NoteFault})
		default:
			if e.Entry != nil {
				e.Entry(n)
			}
		}
	}
	if settled && !e.full() {
		e.settle()
	}
}

// hearLost reads the count of operations that were returned when the return ring had no room for
// them. They are identified when the card has no other operations; record lets none leave before.
func (e *Endpoint) hearLost() {
	n := &e.ops
	lost := e.iface.OperationsLost()
	n.returned += uint64(lost - n.lost)
	n.unsettled += lost - n.lost
	n.lost = lost
}

// settle fails all operations without an outcome. The card has completed every operation that it
// took, so these were returned. The card does not identify silent operations; their error names the
// node of the last one.
func (e *Endpoint) settle() {
	n := &e.ops
	for i := range n.told {
		if m := &n.told[i]; m.id != 0 && !m.done {
			n.unsettled = max(n.unsettled, 1) - 1
			e.finish(uint32(m.id), Result{Err: &Error{m.operation, m.node, arctic.ReasonNone}})
		}
	}
	if n.unsettled > 0 {
		last := 0
		for i, issued := range n.silent {
			if issued > n.silent[last] {
				last = i
			}
		}
		n.unsettled = 0
		e.finish(silentCookie, Result{Err: &Error{arctic.RemotePut, n.to[last], arctic.ReasonNone}})
	}
}

// nextReturn takes the next returned request, unless another library reads them.
func (e *Endpoint) nextReturn() (r funi.Returned, ok bool) {
	if e.Shared {
		return r, false
	}
	return e.iface.NextReturn()
}

// Back takes a returned request of this package from the library that reads the returns (Shared).
func (e *Endpoint) Back(r funi.Returned) { e.back(r) }

// back handles a returned request, of which the card has carried out nothing.
func (e *Endpoint) back(r funi.Returned) {
	if op, ok := r.Header.WindowOperation(); r.Header.Remote() && ok {
		e.ops.returned++
		e.finish(r.Word, Result{Err: &Error{op, r.Header.Node(), r.Reason}})
		return
	}
	switch {
	case r.Header.Remote() && r.Header.Operation() == funi.Send:
		e.ops.returned++
		e.finish(r.Word, Result{Err: &Error{arctic.RemoteSend, r.Header.Node(), r.Reason}})
	case r.Header.Remote() && r.Header.Operation() == funi.Multicast:
		e.ops.returned++
		e.finish(r.Word, Result{Err: &Error{arctic.RemoteMulticast, r.Header.Node(), r.Reason}})
	case r.Header.Remote() && r.Word == commandCookie:
		e.ops.refused = r.Reason
	case e.Others != nil:
		e.Others(r)
	}
}

func (e *Endpoint) completed(n *funi.Notification) {
	r := Result{Bytes: int(n.Bytes), Answer: n.Answer}
	if n.Reason != arctic.ReasonNone {
		r.Err = &Error{n.Operation, n.Source, n.Reason}
	}
	e.finish(n.Cookie, r)
}

// finish stores the outcome of the operation with a cookie.
func (e *Endpoint) finish(cookie uint32, r Result) {
	if cookie&silentCookie != 0 {
		if e.ops.failed == nil {
			e.ops.failed = r.Err
		}
		return
	}
	r.ID = ID(cookie)
	if m := e.ops.record(r.ID); m.id == r.ID && !m.done {
		m.done, m.result = true, r
		e.ops.asked[m.node%fenceNodes]--
		e.ops.done.push(m)
	}
}

// Next returns the outcome of the operation that has been complete longest, or false. It omits
// outcomes that Wait has returned. The endpoint keeps twice as many operations with an ID as the
// notification ring has entries, complete ones included, but at most 1,024. The next operation
// replaces the one that has been complete longest.
func (e *Endpoint) Next(r *Result) bool {
	e.Poll()
	m := e.ops.done.oldest
	if m == nil {
		return false
	}
	*r = m.result
	e.ops.done.drop(m)
	e.ops.give(m)
	return true
}

// Wait lets the card run until an operation is complete, and returns its Result, whose error it
// also returns. Others are ErrID, and those of drive, after which the operation is in flight.
func (e *Endpoint) Wait(id ID) (Result, error) {
	m := e.ops.record(id)
	if id == 0 || m.id != id {
		return Result{}, fmt.Errorf("waiting for operation %d: %w", id, ErrID)
	}
	for e.Poll(); !m.done; {
		if err := e.step(); err != nil {
			return Result{}, fmt.Errorf("waiting for an operation on node %d: %w", m.node, err)
		}
	}
	r := m.result
	e.ops.done.drop(m)
	e.ops.give(m)
	return r, r.Err
}

// Done reports whether the operation is complete, so that Wait will not wait. It also returns true
// for an operation that Wait has returned. It does not wait.
func (e *Endpoint) Done(id ID) bool {
	e.Poll()
	m := e.ops.record(id)
	return m.id != id || m.done
}

// Pending returns how many operations are not complete.
func (e *Endpoint) Pending() int {
	e.Poll()
	return e.open()
}

// Quiet lets the card run until all operations are complete. It returns the first failure of a
// silent operation since the last Quiet. Operations with an ID are reported as usual. Other errors
// are those of drive.
func (e *Endpoint) Quiet() error {
	for e.Poll(); e.open() > 0 || e.ops.unsettled > 0; {
		if err := e.step(); err != nil {
			return fmt.Errorf("waiting for all operations: %w", err)
		}
	}
	e.Poll() // the card counts a completion when it has told it
	err := e.ops.failed
	e.ops.failed = nil
	return err
}

// Fence lets the card run until all operations issued to a node are complete, so that later ones
// are carried out after them. It reports no failures. It waits for operations on other nodes in two
// cases only. First, the card counts silent operations of all nodes together. So Fence waits for
// all operations if a silent one was issued to this node since all were complete. Second, nodes
// whose numbers are equal modulo 64 are one node for Fence. Errors are ErrUnread, and those of
// drive.
func (e *Endpoint) Fence(node uint16) error {
	for e.Poll(); e.owed(node); {
		if err := e.step(); err != nil {
			return fmt.Errorf("waiting for operations on node %d: %w", node, err)
		}
	}
	return nil
}

// owed reports whether an operation on a node may be in flight.
func (e *Endpoint) owed(node uint16) bool {
	n := &e.ops
	if e.open() == 0 {
		n.quiet = n.issued
	}
	return n.asked[node%fenceNodes] > 0 || n.silent[node%fenceNodes] > n.quiet
}

// Until lets the card run until done returns true. done looks at memory of this process that other
// nodes write; where they put words it uses atomic loads. With a daemon's card the process sleeps
// meanwhile, if drive does. Each write of another node wakes it: a put, an operation on elements or
// a signal, unless the card refuses it. done is called once at first, then after each call of
// drive, so it should be short; it may use the endpoint. Errors are those of drive.
func (e *Endpoint) Until(done func() bool) error {
	defer e.iface.Watch(e.iface.Watch(true))
	for e.Poll(); !done(); e.Poll() {
		if err := e.drive(); err != nil {
			return fmt.Errorf("waiting for what others write: %w", err)
		}
	}
	return nil
}

// Notification takes the oldest notification, or returns false.
func (e *Endpoint) Notification(n *Notification) bool {
	e.Poll()
	q := &e.inbox
	if q.first == len(q.list) {
		return false
	}
	*n = q.list[q.first]
	if q.first++; q.first == len(q.list) {
		q.list, q.first = q.list[:0], 0
	}
	return true
}
