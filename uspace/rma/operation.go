package rma

// This file is operations on the windows of others.

import (
	"encoding/binary"
	"fmt"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// ID names an operation that is told when it is complete (Wait, Next).
type ID uint32

// With says how an operation is to be done. The zero value of a put is one that is silent.
type With struct {
	// Ack has the put told by its ID when it is complete. Without, it is counted (Quiet), and told
	// only by the error of Quiet.
	Ack bool
	// Silent has a get, or an operation of Apply, counted and told as a put without Ack is, and the
	// ID is 0. What is got is in memory after Quiet; an operation answers nothing, and one that is
	// for its answer alone, arctic.RemoteRead, is refused (ErrSilent). Nothing to a put.
	Silent bool
	// Ordered has the operation leave when all others to its node are complete: issuing it waits
	// for them, as Fence does.
	Ordered bool
	// Notify tells the owner of the window when all data of the put is there, with Tag
	// (Endpoint.Notification there). The window has to permit it.
	Notify bool
	Tag    uint64
	// Signal changes a word of 64 bits when all data of the put is there; nil: none does.
	Signal *Signal
}

// Signal is a word of 64 bits that a put changes when its data is there, as OpenSHMEM's put with
// signal does. Its window permits atomics.
type Signal struct {
	Target      // of the node to which the put goes
	Add    bool // add Value; else write it
	Value  uint64
}

const (
	// silentCookie is the bit of the cookie of an operation that has no ID.
	silentCookie = 1 << 31
	// fenceNodes is how many nodes Fence tells apart.
	fenceNodes = 64
	// idMask is what an ID has of a cookie.
	idMask = silentCookie - 1
)

// operations is what is under way.
type operations struct {
	limit    int    // how many may be
	issued   uint64 // that the card completes
	told     [funi.MaxRequests]record
	free     numbers       // of told
	done     order         // IDs that are complete and not yet told
	failed   error         // the first failure of a silent operation since Quiet
	refused  arctic.Reason // of the last command; arctic.ReasonNone: it was carried out
	returned uint64        // operations that the card gave back without a completion
	// Of those that came back and found no room in the return ring: how many there were, and how
	// many are not settled yet (settle).
	lost, unsettled uint32
	upTo            uint64 // how many slots were committed up to the last operation
	// For Fence, by nodes modulo fenceNodes: how many with an ID are under way, and the number,
	// from 1 on, of the last silent one. Those up to the number quiet are complete: the card tells
	// of silent ones how many are, not which.
	asked  [fenceNodes]int
	silent [fenceNodes]uint64
	quiet  uint64
	to     [fenceNodes]uint16 // the last node with a silent one
}

// record is an operation with an ID, whose rest by funi.MaxRequests is the record's number.
type record struct {
	id     ID // 0: free
	next   ID // of the operation that has it next
	done   bool
	node   uint16
	result Result
	// operation is what the error of an operation names that came back unheard.
	operation arctic.Operation
}

// numbers are those of free records. The one that has been free longest is taken first, so that an
// ID comes again late.
type numbers struct {
	list     [funi.MaxRequests]uint16
	first, n int
}

func (f *numbers) push(i uint16) {
	f.list[(f.first+f.n)%len(f.list)] = i
	f.n++
}

// pop takes a number; there is one.
func (f *numbers) pop() uint16 {
	i := f.list[f.first]
	f.first = (f.first + 1) % len(f.list)
	f.n--
	return i
}

// begin makes all records free.
func (n *operations) begin() {
	for i := range n.told {
		n.told[i].next = ID(i)
		n.free.push(uint16(i))
	}
	n.told[0].next = funi.MaxRequests // 0 is no ID
}

// record returns that of an ID, whether it is its or not.
func (n *operations) record(id ID) *record { return &n.told[id%funi.MaxRequests] }

// take gives a free record to an operation on a node; there is one.
func (n *operations) take(node uint16) ID {
	r := &n.told[n.free.pop()]
	r.id, r.node = r.next, node
	if r.next = (r.next + funi.MaxRequests) & idMask; r.next == 0 {
		r.next = funi.MaxRequests
	}
	return r.id
}

// give makes a record free again.
func (n *operations) give(r *record) {
	n.free.push(uint16(r.id % funi.MaxRequests))
	*r = record{next: r.next}
}

// Result is what became of an operation.
type Result struct {
	ID     ID
	Err    error // an *Error, or nil
	Bytes  int   // of Answer, or that a get has written to memory
	Answer [funi.MaxAnswer]byte
}

// Uint64 returns the first element of the answer, of 64 bits.
func (r *Result) Uint64() uint64 { return binary.LittleEndian.Uint64(r.Answer[:]) }

// Uint32 returns the first element of the answer, of 32 bits.
func (r *Result) Uint32() uint32 { return binary.LittleEndian.Uint32(r.Answer[:]) }

// Put writes data to a target. Data of up to 64 bytes, less the trailer's, is copied at once
// (PutNow); more lies in a segment with the right Source and stays as it is until the put is
// complete. Without With.Ack the ID is 0. Errors are ErrMemory, ErrTooLong for more than 64 MiB,
// and those of drive; what the card there finds comes with the completion.
func (e *Endpoint) Put(t Target, data []byte, with With) (ID, error) {
	o := funi.Operation{WindowRequest: arctic.WindowRequest{Key: uint64(t.Key), Address: t.Address,
		Trailer: with.trailer(), Ack: true}}
	if len(data)+o.Trailer.Words()*arctic.WordSize <= arctic.MaxRemoteBytes {
		o.Operands, o.Bytes = data, len(data)
	} else {
		address, ok := e.segments.Address(data, funi.Source)
		if !ok {
			return 0, fmt.Errorf("putting %d bytes to node %d: %w", len(data), t.Node, ErrMemory)
		}
		o.Source, o.Length = address, len(data)
	}
	return e.issue("putting", t, &o, with, !with.Ack)
}

// PutNow is Put of data that is copied at once, or ErrTooLong.
func (e *Endpoint) PutNow(t Target, data []byte, with With) (ID, error) {
	trailer := with.trailer()
	if len(data)+trailer.Words()*arctic.WordSize > arctic.MaxRemoteBytes {
		return 0, fmt.Errorf("putting %d bytes to node %d: %w", len(data), t.Node, ErrTooLong)
	}
	return e.Put(t, data, with)
}

// Get reads bytes of a target into memory, which lies in a segment with the right Keyed. When the
// operation is complete they are there. Errors are ErrMemory, ErrTooLong, and those of drive; with
// With.Silent the get's failure is Quiet's.
func (e *Endpoint) Get(t Target, into []byte, with With) (ID, error) {
	o := funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteGet, Key: uint64(t.Key),
		Address: t.Address}, Length: len(into)}
	if len(into) > 0 {
		address, ok := e.segments.Address(into, funi.Keyed)
		if !ok {
			return 0, fmt.Errorf("getting %d bytes of node %d: %w", len(into), t.Node, ErrMemory)
		}
		o.Source = address
	}
	return e.issue("getting", t, &o, with, with.Silent)
}

// Apply carries out an operation on elements at a target, atomically on each: arctic.RemoteWrite to
// RemoteMaskedSwap but for RemoteGet. Operands are those of all elements in little-endian order,
// for a compare-and-swap first all that are compared. What the elements were is the Result's
// Answer, but for RemoteWrite, which answers nothing: it needs the right to write only. RemoteRead
// has bytes, how many are read, instead of operands. Several elements, at most 4, can only be read,
// written, added to and swapped, and are integers of 32 or 64 bits. Errors are ErrTooLong,
// ErrSilent, and those of drive.
func (e *Endpoint) Apply(t Target, op arctic.Operation, element arctic.Element, operands []byte, bytes int,
	with With) (ID, error) {
	o := funi.Operation{WindowRequest: arctic.WindowRequest{Operation: op, Element: element, Key: uint64(t.Key),
		Address: t.Address, Operands: operands,
		Fetch: op != arctic.RemoteRead && op != arctic.RemoteWrite && !with.Silent,
		Ack:   op == arctic.RemoteWrite || with.Silent}}
	switch op {
	case arctic.RemoteRead:
		if o.Bytes = bytes; with.Silent {
			return 0, fmt.Errorf("reading %d bytes of node %d: %w", bytes, t.Node, ErrSilent)
		}
	case arctic.RemoteCompareSwap, arctic.RemoteMaskedSwap:
		o.Bytes = len(operands) / 2
	default:
		o.Bytes = len(operands)
	}
	if op < arctic.RemoteWrite || op > arctic.RemoteMaskedSwap || o.Bytes > funi.MaxAnswer || !o.Valid() {
		return 0, fmt.Errorf("operating on %d bytes of node %d: %w", o.Bytes, t.Node, ErrTooLong)
	}
	return e.issue("operating", t, &o, with, with.Silent)
}

// Add adds to a number of 64 bits at a target, and what it was is the answer.
func (e *Endpoint) Add(t Target, v uint64) (ID, error) { return e.apply64(t, arctic.RemoteAdd, v) }

// Swap writes a number of 64 bits to a target, and what it was is the answer.
func (e *Endpoint) Swap(t Target, v uint64) (ID, error) { return e.apply64(t, arctic.RemoteSwap, v) }

// Read reads a number of 64 bits at a target.
func (e *Endpoint) Read(t Target) (ID, error) {
	return e.Apply(t, arctic.RemoteRead, arctic.Uint64, nil, 8, With{})
}

// CompareSwap writes a number of 64 bits to a target if there is the one that it is compared with.
// What it was is the answer.
func (e *Endpoint) CompareSwap(t Target, compare, swap uint64) (ID, error) {
	return e.apply64(t, arctic.RemoteCompareSwap, compare, swap)
}

func (e *Endpoint) apply64(t Target, op arctic.Operation, operands ...uint64) (ID, error) {
	var b [16]byte
	for i, v := range operands {
		binary.LittleEndian.PutUint64(b[8*i:], v)
	}
	return e.Apply(t, op, arctic.Uint64, b[:8*len(operands)], 0, With{})
}

// trailer returns what a put asks for besides.
func (w *With) trailer() (t arctic.Trailer) {
	t.Notify, t.Tag = w.Notify, w.Tag
	if !t.Notify {
		t.Tag = 0
	}
	if s := w.Signal; s != nil {
		t.Add, t.Set = s.Add, !s.Add
		t.Key, t.Address, t.Value = uint64(s.Key), s.Address, s.Value
	}
	return t
}

// issue commits an operation when there is room for it.
func (e *Endpoint) issue(what string, t Target, o *funi.Operation, with With, silent bool) (ID, error) {
	if t.Address > arctic.MaxAddress || !o.Valid() {
		return 0, fmt.Errorf("%s at %#x of node %d: %w", what, t.Address, t.Node, ErrTooLong)
	}
	s, id, cookie, err := e.record(what, t.Node, with.Ordered, silent)
	if err != nil {
		return 0, err
	}
	o.Silent, o.Cookie = silent, cookie
	s.SetOperation(t.Node, o)
	e.commit(id, o.Operation)
	return id, nil
}

// commit commits the slot of an operation.
func (e *Endpoint) commit(id ID, op arctic.Operation) {
	n := &e.ops
	e.iface.Commit(funi.Request)
	n.issued++
	n.upTo = e.iface.Committed(funi.Request)
	if id != 0 {
		n.record(id).operation = op
	}
}

// record waits until there is room for an operation and all that was lost is settled, and returns a
// slot for it, its ID, 0 if it is silent, and its cookie.
func (e *Endpoint) record(what string, node uint16, ordered,
	silent bool) (s *funi.Slot, id ID, cookie uint32, err error) {
	n := &e.ops
	e.Poll()
	for ordered && e.owed(node) || e.open() >= n.limit || n.unsettled > 0 || !silent && n.free.n == 0 && !n.forget() {
		if err := e.step(); err != nil {
			return nil, 0, 0, fmt.Errorf("%s to node %d: %w", what, node, err)
		}
	}
	if s, err = e.slot(); err != nil {
		return nil, 0, 0, fmt.Errorf("%s to node %d: %w", what, node, err)
	}
	cookie = silentCookie | uint32(node)
	if !silent {
		id = n.take(node)
		cookie = uint32(id)
		n.asked[node%fenceNodes]++
	} else {
		n.silent[node%fenceNodes], n.to[node%fenceNodes] = n.issued+1, node
	}
	return s, id, cookie, nil
}

// forget frees the record of the operation that has been complete longest and whose outcome nobody
// has asked for, or returns false.
func (n *operations) forget() bool {
	id := n.done.pop()
	if id != 0 {
		n.give(n.record(id))
	}
	return id != 0
}

// open returns how many operations are not complete.
func (e *Endpoint) open() int { return int(e.ops.issued - e.iface.Completed() - e.ops.returned) }
