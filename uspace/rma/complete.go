package rma

// This file is how operations become complete, and how a process hears of what others do: by
// notifications, or in its memory.

import (
	"fmt"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// Notification says that all data of a put is in a window, which another node has asked to be told
// of (With.Notify), or that a window is wanted which is suspended.
type Notification struct {
	Node    uint16 // that has put it
	Window  uint16 // the number of the key slot: bits 15:0 of the key
	Tag     uint64
	Address uint64 // of the first byte of the put's last packet, or that is wanted
	// Absent says that this is no put: the node wants the window, which is not present, and waits
	// for Resume. Others may wait, too.
	Absent bool
}

// queue holds notifications, as many as the ring. When it is full Poll reads no more, and what
// waits for an operation fails with ErrUnread.
type queue struct {
	list  []Notification
	first int
}

// full reports whether there is no room for another notification.
func (e *Endpoint) full() bool {
	return len(e.inbox.list)-e.inbox.first >= e.iface.Remote().Notifications
}

// order holds the IDs of operations that are complete, each at most once.
type order struct {
	list  []ID
	first int
}

func (o *order) push(id ID) { o.list = append(o.list, id) }

// pop takes the first, or returns 0.
func (o *order) pop() ID {
	for o.first < len(o.list) {
		id := o.list[o.first]
		o.first++
		if o.first == len(o.list) {
			o.list, o.first = o.list[:0], 0
		}
		if id != 0 {
			return id
		}
	}
	return 0
}

// drop takes an ID out.
func (o *order) drop(id ID) {
	for i := o.first; i < len(o.list); i++ {
		if o.list[i] == id {
			o.list[i] = 0
			return
		}
	}
}

// Poll takes what the card tells: completions, notifications, and what came back. It waits for
// nothing.
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
	for n := (funi.Notification{}); !e.full() && e.iface.NextNotification(&n); {
		switch n.Kind {
		case funi.NoteCompletion:
			e.completed(&n)
		case funi.NoteWindow, funi.NoteFault:
			if q := &e.inbox; q.first > 0 && len(q.list) == cap(q.list) {
				q.list, q.first = q.list[:copy(q.list, q.list[q.first:])], 0
			}
			e.inbox.list = append(e.inbox.list, Notification{Node: n.Source, Window: n.KeySlot, Tag: n.Tag,
				Address: n.Address, Absent: n.Kind == funi.NoteFault})
		}
	}
	if settled && !e.full() {
		e.settle()
	}
}

// hearLost takes the count of operations that came back when the return ring had no room for them.
// Which they are shows when the card has no others: no operation leaves before that (record).
func (e *Endpoint) hearLost() {
	n := &e.ops
	lost := e.iface.OperationsLost()
	n.returned += uint64(lost - n.lost)
	n.unsettled += lost - n.lost
	n.lost = lost
}

// settle fails all operations of which nothing was heard. The card has completed all that it took,
// so these have come back. Of silent ones the card does not say which: the error names the node of
// the last.
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

// nextReturn takes the next that came back, where nobody else does.
func (e *Endpoint) nextReturn() (r funi.Returned, ok bool) {
	if e.Shared {
		return r, false
	}
	return e.iface.NextReturn()
}

// Back takes what came back of this package's requests where Shared says that somebody else reads
// that.
func (e *Endpoint) Back(r funi.Returned) { e.back(r) }

// back takes a request that the card gave back: it has done nothing.
func (e *Endpoint) back(r funi.Returned) {
	if op, ok := r.Header.WindowOperation(); r.Header.Remote() && ok {
		e.ops.returned++
		e.finish(r.Word, Result{Err: &Error{op, r.Header.Node(), r.Reason}})
		return
	}
	switch {
	case r.Header.Remote() && r.Header.Operation() == funi.Multicast:
		e.ops.returned++
		e.finish(r.Word, Result{Err: &Error{arctic.RemoteMulticast, r.Header.Node(), r.Reason}})
	case r.Header.Remote() && r.Word == commandCookie:
		e.ops.refused = r.Reason
	case e.Others != nil:
		e.Others(r)
	}
}

// completed takes the completion of an operation.
func (e *Endpoint) completed(n *funi.Notification) {
	r := Result{Bytes: int(n.Bytes), Answer: n.Answer}
	if n.Reason != arctic.ReasonNone {
		r.Err = &Error{n.Operation, n.Source, n.Reason}
	}
	e.finish(n.Cookie, r)
}

// finish notes what became of the operation of a cookie.
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
		e.ops.done.push(r.ID)
	}
}

// Next takes what became of the operation that was complete first, or returns false. What Wait has
// told it does not tell. When 1,024 operations with an ID are under way or not yet told, another
// takes the place of the one that has been complete longest.
func (e *Endpoint) Next(r *Result) bool {
	e.Poll()
	id := e.ops.done.pop()
	if id == 0 {
		return false
	}
	m := e.ops.record(id)
	*r = m.result
	e.ops.give(m)
	return true
}

// Wait lets the card run until an operation is complete, and returns what became of it; its error
// is the Result's, too. Errors besides are ErrID, and those of drive, after which the operation is
// still under way.
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
	e.ops.done.drop(id)
	e.ops.give(m)
	return r, r.Err
}

// Done reports whether the operation is complete, so that Wait will not wait; also of one that Wait
// has told. It waits for nothing.
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

// Quiet lets the card run until all operations are complete, and returns the first failure of a
// silent one since the last time. Those with an ID are told as ever. Errors besides are those of
// drive.
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

// Fence lets the card run until what was issued to a node is complete: what is issued afterwards
// comes later there. It tells nothing of failures. It waits for no others, but in two cases. The
// card counts silent operations for all nodes together. So Fence waits for all operations if a
// silent one to this node has been issued since all were complete. And nodes whose numbers are the
// same modulo 64 are one node for Fence. Errors are ErrUnread, and those of drive.
func (e *Endpoint) Fence(node uint16) error {
	for e.Poll(); e.owed(node); {
		if err := e.step(); err != nil {
			return fmt.Errorf("waiting for operations on node %d: %w", node, err)
		}
	}
	return nil
}

// owed reports whether an operation on a node may be under way.
func (e *Endpoint) owed(node uint16) bool {
	n := &e.ops
	if e.open() == 0 {
		n.quiet = n.issued
	}
	return n.asked[node%fenceNodes] > 0 || n.silent[node%fenceNodes] > n.quiet
}

// Until lets the card run until done returns true, which looks at memory of this process that
// others write, with atomic loads where they put words. A process whose card is a daemon's sleeps
// meanwhile, if drive does, and each write of others wakes it: a put, an operation on elements or a
// signal, but for one that the card refuses. done is called once at first, then after each call of
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
