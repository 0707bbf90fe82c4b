//go:build libfabric

package main

// This file is operations on regions of other processes: each is one or several of package rma.

// #include "ofi.h"
import "C"

import (
	"context"
	"errors"
	"unsafe"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/rma"
)

const (
	// longest is the most bytes of one put or get.
	longest = 1 << 25
	// atOnce is how many operations of package rma may be under way, of 1,024. The next one waits.
	atOnce = 512
)

// part is an operation of package rma. Its answer goes to the results, from a byte on.
type part struct {
	o  *operation
	at int
}

// errOperands reports operands that are not as many as elements.
var errOperands = errors.New("an atomic operation has 1 to 4 elements, and an operand for each")

// list returns an array of pieces that crossed.
func list(address, count C.uint64_t) []piece {
	if count == 0 {
		return nil
	}
	return unsafe.Slice(pointer[piece](uintptr(address)), int(count))
}

//export ofi_go_remote
func ofi_go_remote(core, operation uintptr) (code C.ssize_t) {
	defer caught(&code)
	guarded()
	x := pointer[C.struct_ofi_remote](operation)
	w := the.windows
	if w == nil {
		return -C.FI_EOPNOTSUPP
	}
	pieces := list(x.pieces, x.count)
	var err error
	var memory held
	if x.kind == C.GET || x.kind == C.PUT && x.flags&C.FI_INJECT == 0 {
		if err = the.regions.hold(w, pieces, &memory); err != nil && err != errInUse {
			say(false, C.FI_LOG_EP_DATA, err.Error())
			return -C.ssize_t(errno(err))
		}
	}
	if code = -C.FI_EAGAIN; err == nil {
		err = w.Do(context.Background(), func(*rma.Endpoint) error {
			if code = the.of(core).operate(x, pieces, &memory); code != 0 {
				memory.release()
			}
			return nil
		})
		if err != nil {
			memory.release()
			return -C.FI_ECONNABORTED
		}
	}
	if code == -C.FI_EAGAIN { // it may call nothing but this
		the.poll()
	}
	return code
}

// operate starts an operation. If it returns 0 the operation releases the memory.
func (e *endpoint) operate(x *C.struct_ofi_remote, pieces []piece, memory *held) C.ssize_t {
	bytes := uint64(0)
	for _, p := range pieces {
		bytes += p.length
	}
	if e.tx.full() || len(the.parts)+int(bytes/longest)+C.PIECES*C.ELEMENTS >= atOnce {
		return -C.FI_EAGAIN
	}
	inject := x.flags&C.FI_INJECT != 0
	if bytes > C.MOST_BYTES || inject && bytes > C.INJECT {
		return -C.FI_EMSGSIZE
	}
	o := the.take(e)
	o.send, o.starting, o.context, o.flags, o.length = true, true, uint64(x.context), uint64(x.flags), bytes
	o.address, o.pieces, o.node = 0, 0, int(x.node)
	if len(pieces) > 0 {
		o.address = pieces[0].address
	}
	o.what, o.counted = C.FI_RMA|C.FI_WRITE, C.WRITES
	if x.kind >= C.ATOMIC {
		o.what = C.FI_ATOMIC | C.FI_WRITE
	}
	if x.kind == C.GET || x.kind >= C.FETCH {
		o.what, o.counted = o.what&^C.FI_WRITE|C.FI_READ, C.READS
	}
	counts := e.asks(x)
	var err error
	switch {
	case x.kind >= C.ATOMIC:
		o.pieces = copy(o.result[:], list(x.result, x.results))
		if x.op == C.FI_ATOMIC_READ {
			pieces = nil // the program may pass anything
		}
		err = o.atomic(x, gather(pieces), gather(list(x.compare, x.compares)), counts)
	case x.kind == C.PUT && inject:
		err = o.inject(x, gather(pieces), counts)
	default:
		err = o.move(x, pieces, counts)
	}
	if err != nil && o.parts == 0 {
		o.starting = false
		the.give(o)
		return -C.ssize_t(errno(err))
	}
	if err != nil {
		o.err = err // the parts that were begun end it
	}
	if o.parts == 0 && !o.countNow() { // all were complete before the last was begun
		entry := o.entry()
		o.tell(&entry, o.err)
		o.ended = true
	}
	o.memoryOf = *memory
	o.launched(0)
	the.leave(uint64(x.flags))
	return 0
}

// gather returns the bytes of pieces, in one.
func gather(pieces []piece) (b []byte) {
	if len(pieces) == 1 {
		return pieces[0].bytes()
	}
	for _, p := range pieces {
		b = append(b, p.bytes()...)
	}
	return b
}

func target(x *C.struct_ofi_remote, at uint64) rma.Target {
	return rma.Target{Node: uint16(x.node), Key: keyOf(uint64(x.key)), Address: uint64(x.address) + at}
}

// begun notes a part.
func (o *operation) begun(id rma.ID, at int, err error) error {
	if err == nil {
		the.parts[id] = part{o, at}
		the.remote.Add(1)
		o.parts++
	}
	return err
}

// move puts or gets the bytes of pieces, which lie in segments.
func (o *operation) move(x *C.struct_ofi_remote, pieces []piece, counts bool) error {
	at, how := uint64(0), rma.With{Ack: true}
	if one := len(pieces) <= 1 && o.length <= longest; counts && one {
		how.Count = true
	} else if counts {
		o.countLater(x, arctic.Uint8)
	}
	for i, p := range pieces {
		b := p.bytes()
		for first := true; first || len(b) > 0; first = false {
			n := min(len(b), longest)
			last := i == len(pieces)-1 && n == len(b)
			if n == 0 && o.length > 0 && !last {
				break
			}
			var id rma.ID
			var err error
			if x.kind == C.GET {
				id, err = the.one.Get(target(x, at), b[:n], how)
			} else {
				if last && x.flags&C.FI_REMOTE_CQ_DATA != 0 {
					// after the bytes of the other parts
					how.Notify, how.Tag, how.Ordered = true, uint64(x.data), o.parts > 0
				}
				id, err = the.one.Put(target(x, at), b[:n], how)
			}
			if err = o.begun(id, 0, err); err != nil {
				return err
			}
			at += uint64(n)
			b = b[n:]
		}
	}
	return nil
}

// inject puts bytes that are copied at once, a packet's at a time.
func (o *operation) inject(x *C.struct_ofi_remote, b []byte, counts bool) error {
	const room = arctic.MaxRemoteBytes
	how := rma.With{Ack: true}
	if one := len(b) <= room-trailerBytes || len(b) <= room && x.flags&C.FI_REMOTE_CQ_DATA == 0; counts && one {
		how.Count = true
	} else if counts {
		o.countLater(x, arctic.Uint8)
	}
	for at := 0; at == 0 || len(b) > 0; {
		n := min(len(b), room)
		if x.flags&C.FI_REMOTE_CQ_DATA != 0 && len(b) <= room-trailerBytes {
			how.Notify, how.Tag, how.Ordered = true, uint64(x.data), o.parts > 0
		} else if x.flags&C.FI_REMOTE_CQ_DATA != 0 {
			n = min(n, room-trailerBytes)
		}
		id, err := the.one.PutNow(target(x, uint64(at)), b[:n], how)
		if err = o.begun(id, 0, err); err != nil || n == 0 {
			return err
		}
		at += n
		b = b[n:]
	}
	return nil
}

// trailerBytes is what a notification takes of a packet's bytes.
const trailerBytes = 3 * arctic.WordSize

// elements are the types of elements: of integers and numbers with a point.
var elements = map[uint64]arctic.Element{
	C.FI_INT8: arctic.Int8, C.FI_UINT8: arctic.Uint8, C.FI_INT16: arctic.Int16, C.FI_UINT16: arctic.Uint16,
	C.FI_INT32: arctic.Int32, C.FI_UINT32: arctic.Uint32, C.FI_INT64: arctic.Int64, C.FI_UINT64: arctic.Uint64,
	C.FI_FLOAT: arctic.Float32, C.FI_DOUBLE: arctic.Float64,
}

// bits are the unsigned integers of a size in bytes.
var bits = map[int]arctic.Element{1: arctic.Uint8, 2: arctic.Uint16, 4: arctic.Uint32, 8: arctic.Uint64}

// operations are the operations on elements.
var operations = map[uint64]struct {
	operation arctic.Operation
	logical   bool // not on numbers with a point
	plain     bool // the type does not matter
}{
	C.FI_MIN: {arctic.RemoteMin, false, false}, C.FI_MAX: {arctic.RemoteMax, false, false},
	C.FI_SUM: {arctic.RemoteAdd, false, false}, C.FI_PROD: {arctic.RemoteProd, false, false},
	C.FI_BOR: {arctic.RemoteOr, true, true}, C.FI_BAND: {arctic.RemoteAnd, true, true},
	C.FI_BXOR:        {arctic.RemoteXor, true, true},
	C.FI_ATOMIC_READ: {arctic.RemoteRead, false, true}, C.FI_ATOMIC_WRITE: {arctic.RemoteWrite, false, true},
	C.FI_CSWAP: {arctic.RemoteCompareSwap, false, true}, C.FI_MSWAP: {arctic.RemoteMaskedSwap, true, true},
}

//export ofi_go_atomic_valid
func ofi_go_atomic_valid(typ, op uint32, kind uint64) (valid C.int) {
	element, ok := elements[uint64(typ)]
	x, has := operations[uint64(op)]
	compares := op >= C.FI_CSWAP && op <= C.FI_MSWAP
	switch {
	case !ok || !has && !loops(uint64(op)) || x.logical && element >= arctic.Float32, compares != (kind == C.COMPARE),
		op == C.FI_ATOMIC_READ && kind != C.FETCH:
		return 0
	}
	return 1
}

// atomic carries out an operation on elements, one or four at a time.
func (o *operation) atomic(x *C.struct_ofi_remote, operands, compare []byte, counts bool) error {
	what := operations[uint64(x.op)]
	op, element := what.operation, elements[uint64(x._type)]
	size := element.Size()
	if x.op == C.FI_ATOMIC_WRITE && x.kind == C.FETCH {
		op = arctic.RemoteSwap
	}
	if what.plain {
		element = bits[size]
	}
	total := int(x.elements) * size
	if x.elements == 0 || x.elements > C.ELEMENTS || op != arctic.RemoteRead && len(operands) != total ||
		x.kind == C.COMPARE && len(compare) != total {
		return errOperands
	}
	o.length = uint64(total)
	if loops(uint64(x.op)) {
		if counts {
			o.countLater(x, element)
		}
		return o.startLoops(x, operands, compare)
	}
	step := size
	switch op {
	case arctic.RemoteRead, arctic.RemoteWrite, arctic.RemoteAdd, arctic.RemoteSwap:
		if size >= 4 && element < arctic.Float32 {
			step = total
		}
	}
	if counts && step < total {
		o.countLater(x, element)
	}
	with := rma.With{Ack: x.kind == C.ATOMIC, Count: counts && step == total}
	for at := 0; at < total; at += step {
		var buffer [2 * 8 * C.ELEMENTS]byte
		b := buffer[:0]
		switch {
		case op == arctic.RemoteRead:
		case op == arctic.RemoteCompareSwap:
			b = append(append(b, compare[at:at+step]...), operands[at:at+step]...)
		case op == arctic.RemoteMaskedSwap:
			b = append(append(b, operands[at:at+step]...), compare[at:at+step]...)
		default:
			b = append(b, operands[at:at+step]...)
		}
		id, err := the.one.Apply(target(x, uint64(at)), op, element, b, step, with)
		if err = o.begun(id, at, err); err != nil {
			return err
		}
	}
	return nil
}

// collect takes what is complete, and what others have written with data. The lock is held.
func (p *process) collect() {
	if p.one == nil {
		return
	}
	p.targets.tally()
	var r rma.Result
	for p.one.Next(&r) {
		x, ok := p.parts[r.ID]
		if !ok {
			continue
		}
		delete(p.parts, r.ID)
		p.remote.Add(-1)
		x.o.partDone(x.at, &r)
	}
	// Data that others write stays in the notification ring while the program does not read its
	// completions. The writers wait for the credit of their region then.
	var n rma.Notification
	for p.crowded == 0 && p.one.Notification(&n) {
		p.written(&n)
	}
}

// partDone takes the outcome of a part. The last one completes the operation.
func (o *operation) partDone(at int, r *rma.Result) {
	if r.Err != nil && o.err == nil {
		o.err = r.Err
	}
	if o.loops != nil && at != countPart && r.Err == nil && o.err == nil {
		o.err = o.loops.answered(o, at, r.Answer[:r.Bytes])
	}
	if r.Err == nil && o.pieces > 0 && at != countPart {
		from := r.Answer[:r.Bytes]
		for _, p := range o.result[:o.pieces] {
			b := p.bytes()
			if at < len(b) {
				from = from[copy(b[at:], from):]
				at = len(b)
			}
			at -= len(b)
		}
	}
	if o.parts--; o.parts > 0 || o.starting || o.countNow() {
		return
	}
	x := o.entry()
	o.tell(&x, o.err)
	o.finish()
}

// written tells the program of data that came with a write. The endpoint is the first of the
// domain of the region; a notification does not say more.
func (p *process) written(n *rma.Notification) {
	p.regions.known.Lock()
	domain := p.regions.domains[n.Window]
	p.regions.known.Unlock()
	for _, e := range p.endpoints {
		if e == nil || e.core.domain != domain || e.core.rx == nil {
			continue
		}
		p.of(uintptr(unsafe.Pointer(e.core)))
		x := C.struct_ofi_entry{flags: C.FI_RMA | C.FI_REMOTE_WRITE | C.FI_REMOTE_CQ_DATA, data: C.uint64_t(n.Tag),
			source: e.source(int(n.Node))}
		e.rx.add(&x)
		return
	}
}
