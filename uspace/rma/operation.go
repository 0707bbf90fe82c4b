package rma

// This file issues operations on windows of other nodes.

import (
	"encoding/binary"
	"fmt"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// ID names an operation whose completion is reported (Wait, Next).
type ID uint32

// With says how to carry out an operation. A put with the zero value is silent.
type With struct {
	// Ack reports the completion of a put by its ID. Without Ack, completions are only counted
	// (Quiet), and a failure is the error of Quiet. An operation of Apply with Ack has an ID, and
	// no answer.
	Ack bool
	// Silent makes a get or an operation of Apply silent, as a put without Ack is; its ID is 0.
	// Data of a get is in memory after Quiet. An operation returns no answer; one that exists only
	// for its answer, arctic.RemoteRead, is refused (ErrSilent). Silent has no effect on a put.
	Silent bool
	// Ordered delays the operation until all others to its node are complete: issuing it waits for
	// them, as Fence does.
	Ordered bool
	// Notify tells the owner of the window when all data of the put has arrived, with Tag
	// (Endpoint.Notification there). The window must permit it.
	Notify bool
	Tag    uint64
	// Count adds one to a count of the window when the operation has been carried out, if the
	// window has counts (Options.Counts). An operation of any length counts once, after all its
	// data is there or has been read; one that fails does not count. A long put or get takes one
	// round trip more.
	Count  bool
	Signal *Signal // changes a word of 64 bits when all data of the put has arrived; nil: no signal
}

// Signal is a word of 64 bits that a put changes when its data has arrived, as OpenSHMEM's put with
// signal does. The word's window must permit atomics.
type Signal struct {
	Target      // of the node to which the put goes
	Add    bool // add Value; otherwise write it
	Value  uint64
}

const (
	silentCookie = 1 << 31          // the bit that marks the cookie of an operation without an ID
	fenceNodes   = 64               // the number of nodes that Fence distinguishes
	idMask       = silentCookie - 1 // selects the ID in a cookie
)

type operations struct {
	limit    int           // most operations in flight
	issued   uint64        // operations that the card completes
	told     []record      // one for each operation that may have an ID, a power of two
	free     numbers       // of told
	done     order         // complete and not yet reported
	failed   error         // the first failure of a silent operation since Quiet
	refused  arctic.Reason // of the last command; arctic.ReasonNone: it was carried out
	returned uint64        // operations that the card gave back without a completion
	// Operations that were returned and found no room in the return ring: how many in all, and how
	// many are not settled yet (settle).
	lost, unsettled uint32
	upTo            uint64 // number of slots committed up to the last operation
	// For Fence, by node modulo fenceNodes. asked counts the operations with an ID in flight.
	// silent is the number, from 1 on, of the last silent operation. Operations up to the number
	// quiet are complete: the card counts completed silent operations, but does not name them.
	asked  [fenceNodes]int
	silent [fenceNodes]uint64
	quiet  uint64
	to     [fenceNodes]uint16 // the node of that last silent operation
}

// record is an operation with an ID. The ID modulo the number of records is the record's number.
type record struct {
	id        ID // 0: free
	next      ID // the ID of the next operation in this record
	done      bool
	node      uint16
	result    Result
	operation arctic.Operation // named in the error if the operation was returned without a report

	before, after *record // in operations.done
}

// numbers holds the numbers of free records. The record that has been free longest is taken first,
// so that an ID is reused late.
type numbers struct {
	list     []uint16
	first, n int
}

func (f *numbers) push(i uint16) {
	f.list[(f.first+f.n)%len(f.list)] = i
	f.n++
}

// pop takes a number; there must be one.
func (f *numbers) pop() uint16 {
	i := f.list[f.first]
	f.first = (f.first + 1) % len(f.list)
	f.n--
	return i
}

// begin makes as many records.
func (n *operations) begin(records int) {
	n.told, n.free.list = make([]record, records), make([]uint16, records)
	for i := range n.told {
		n.told[i].next = ID(i)
		n.free.push(uint16(i))
	}
	n.told[0].next = ID(records) // 0 is no ID
}

// record returns the record that belongs to an ID, even if another operation has it now.
func (n *operations) record(id ID) *record { return &n.told[n.number(id)] }

// number returns the number of the record that belongs to an ID.
func (n *operations) number(id ID) uint16 { return uint16(int(id) & (len(n.told) - 1)) }

// take assigns a free record to an operation on a node; there must be one.
func (n *operations) take(node uint16) ID {
	r := &n.told[n.free.pop()]
	r.id, r.node = r.next, node
	if r.next = (r.next + ID(len(n.told))) & idMask; r.next == 0 {
		r.next = ID(len(n.told))
	}
	return r.id
}

func (n *operations) give(r *record) {
	n.free.push(n.number(r.id))
	*r = record{next: r.next}
}

// Result is the outcome of an operation.
type Result struct {
	ID     ID
	Err    error // an *Error, or nil
	Bytes  int   // length of Answer, or of the data that a get has written to memory
	Answer [funi.MaxAnswer]byte
}

// Uint64 returns the first element of the answer, of 64 bits.
func (r *Result) Uint64() uint64 { return binary.LittleEndian.Uint64(r.Answer[:]) }

// Uint32 returns the first element of the answer, of 32 bits.
func (r *Result) Uint32() uint32 { return binary.LittleEndian.Uint32(r.Answer[:]) }

// Put writes data to a target. Data of up to 64 bytes, less the trailer's, is copied at once
// (PutNow). Longer data must lie in a segment with the right Source, and must not change until the
// put is complete. Without With.Ack the ID is 0. Errors are ErrMemory, ErrTooLong for more than 64
// MiB, and those of drive. Errors that the target's card finds come with the completion.
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

// PutNow is Put of data that is copied at once. It returns ErrTooLong for too much data.
func (e *Endpoint) PutNow(t Target, data []byte, with With) (ID, error) {
	trailer := with.trailer()
	if len(data)+trailer.Words()*arctic.WordSize > arctic.MaxRemoteBytes {
		return 0, fmt.Errorf("putting %d bytes to node %d: %w", len(data), t.Node, ErrTooLong)
	}
	return e.Put(t, data, with)
}

// PutMasked writes those bits of value that are set in mask to the word of 64 bits at a target, a
// multiple of 8, at once. The other bits stay as they are, whoever changes them meanwhile. The
// window needs to permit writing only. With is that of a put without a trailer. Errors are those of
// drive.
func (e *Endpoint) PutMasked(t Target, value, mask uint64, with With) (ID, error) {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], value)
	binary.LittleEndian.PutUint64(b[8:], mask)
	o := funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteMaskedSwap,
		Element: arctic.Uint64, Key: uint64(t.Key), Address: t.Address, Bytes: 8, Operands: b[:], Ack: true}}
	return e.issue("putting", t, &o, with, !with.Ack)
}

// Get reads bytes of a target into memory, which lies in a segment with the right Keyed. The bytes
// are there when the operation is complete. Errors are ErrMemory, ErrTooLong, and those of drive.
// With With.Silent, Quiet returns the get's failure.
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
// RemoteMaskedSwap except RemoteGet. The operands are those of all elements, in little-endian
// order; a compare-and-swap has all values to compare first. The Result's Answer holds the
// elements' old values. RemoteWrite has no answer, and needs only the right to write. RemoteRead
// takes a number of bytes to read instead of operands. Several elements, at most 4, can only be
// read, written, added to and swapped, and are integers of 32 or 64 bits. Errors are ErrTooLong,
// ErrSilent, and those of drive.
func (e *Endpoint) Apply(t Target, op arctic.Operation, element arctic.Element, operands []byte, bytes int,
	with With) (ID, error) {
	o := funi.Operation{WindowRequest: arctic.WindowRequest{Operation: op, Element: element, Key: uint64(t.Key),
		Address: t.Address, Operands: operands,
		Fetch: op != arctic.RemoteRead && op != arctic.RemoteWrite && !with.Silent && !with.Ack,
		Ack:   op == arctic.RemoteWrite || with.Silent || with.Ack && op != arctic.RemoteRead}}
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

// Add adds to a number of 64 bits at a target. The answer is the old value.
func (e *Endpoint) Add(t Target, v uint64) (ID, error) { return e.apply64(t, arctic.RemoteAdd, v) }

// Swap writes a number of 64 bits to a target. The answer is the old value.
func (e *Endpoint) Swap(t Target, v uint64) (ID, error) { return e.apply64(t, arctic.RemoteSwap, v) }

// Read reads a number of 64 bits at a target.
func (e *Endpoint) Read(t Target) (ID, error) {
	return e.Apply(t, arctic.RemoteRead, arctic.Uint64, nil, 8, With{})
}

// CompareSwap writes a number of 64 bits to a target if the number there equals compare. The answer
// is the old value.
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

// trailer returns what a put requests besides: a signal, a notification, or neither.
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

// issue waits for room and commits an operation.
func (e *Endpoint) issue(what string, t Target, o *funi.Operation, with With, silent bool) (ID, error) {
	if o.Counts = with.Count; t.Address > arctic.MaxAddress || !o.Valid() {
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

func (e *Endpoint) commit(id ID, op arctic.Operation) {
	n := &e.ops
	e.iface.Commit(funi.Request)
	n.issued++
	n.upTo = e.iface.Committed(funi.Request)
	if id != 0 {
		n.record(id).operation = op
	}
}

// record waits until there is room for an operation and all lost operations are settled. It returns
// a slot for the operation, its ID, which is 0 if it is silent, and its cookie.
func (e *Endpoint) record(what string, node uint16, ordered,
	silent bool) (s *funi.Slot, id ID, cookie uint32, err error) {
	n := &e.ops
	e.Poll()
	for ordered && e.owed(node) || e.open()+e.iface.Ungiven()+e.Beside >= n.limit || n.unsettled > 0 || !silent && n.free.n == 0 && !n.forget() {
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

// forget frees the record of the operation that has been complete longest and was not reported. It
// returns false if there is none.
func (n *operations) forget() bool {
	m := n.done.oldest
	if m != nil {
		n.done.drop(m)
		n.give(m)
	}
	return m != nil
}

func (e *Endpoint) open() int { return int(e.ops.issued - e.iface.Completed() - e.ops.returned) }
