//go:build libfabric

package main

// This file is sends and receives: a record of each, which package am's completion ends.

// #include "ofi.h"
import "C"

import (
	"unsafe"

	"github.com/funet/funet/uspace/am"
)

// operation is a send, a receive, or a buffer that receives many messages. Memory of the program is
// in b or pieces only while the operation is under way.
type operation struct {
	e     *endpoint // whose completion it is; nil: the program is not told
	home  *endpoint // has it in under, at index; nil: it is not under way
	index int
	id    am.ID

	send, tagged    bool       // what is not received counts as sent
	what            C.uint64_t // flags of the completion: what kind of operation it was
	counted         int        // the counter for it
	parts           int        // of an operation on a region, that are under way
	counting        counting   // of one that its target counts
	err             error      // of the first part that failed
	result          [C.PIECES]piece
	memoryOf        held    // of an operation on a region
	loops           *looped // of an atomic operation that cards do not have
	copied          bool    // b is the operation's own
	starting, ended bool    // package am may complete it before it is under way
	context         uint64
	flags           uint64
	tag, ignore     uint64
	node            int
	origin, channel uint8
	address, length uint64 // for the completion
	b               []byte
	scattered       [C.PIECES]piece // where a receive copies b to; none: b is the program's memory
	pieces          int
	many            bool // FI_MULTI_RECV
	parting         am.Many
	inline          [C.INJECT]byte

	sent func(error) // the methods, as values
	got  func(am.Received, error)
}

// piece is a struct iovec.
type piece struct{ address, length uint64 }

var _ [C.sizeof_struct_iovec]byte = [unsafe.Sizeof(piece{})]byte{}

// bytes is the memory of a piece.
func (p piece) bytes() []byte {
	if p.length == 0 {
		return nil
	}
	return unsafe.Slice(pointer[byte](uintptr(p.address)), p.length)
}

// take returns an operation that is not in use.
func (p *process) take(e *endpoint) *operation {
	var o *operation
	if n := len(p.spare); n > 0 {
		o = p.spare[n-1]
		p.spare = p.spare[:n-1]
	} else {
		o = new(operation)
		o.sent, o.got, o.parting.More = o.wasSent, o.wasReceived, o.mayGoOn
	}
	o.e, o.ended, o.copied, o.pieces, o.many = e, false, false, 0, false
	o.tagged, o.what, o.parts, o.err, o.loops, o.counting.kind = false, 0, 0, nil, nil, -1
	return o
}

// give makes an operation available.
func (p *process) give(o *operation) {
	o.e, o.b = nil, nil
	o.memoryOf.release()
	p.spare = append(p.spare, o)
}

// fill takes what crossed, and returns the pieces of the program's memory.
func (o *operation) fill(x *C.struct_ofi_operation) []piece {
	o.context, o.flags, o.tag, o.ignore = uint64(x.context), uint64(x.flags), uint64(x.tag), uint64(x.ignore)
	o.channel, o.tagged, o.node, o.origin = uint8(x.channel), x.channel&C.TAGGED != 0, am.AnySource, uint8(x.origin)
	if uint64(x.node) != 1<<64-1 {
		o.node = int(x.node)
	}
	o.address, o.length = 0, 0
	if x.count == 0 {
		return nil
	}
	pieces := unsafe.Slice(pointer[piece](uintptr(x.pieces)), int(x.count))
	o.address = pieces[0].address
	for _, p := range pieces {
		o.length += p.length
	}
	return pieces
}

// launched ends the beginning of an operation: it is under way, or ended already.
func (o *operation) launched(id am.ID) {
	o.starting = false
	if o.ended {
		the.give(o)
		return
	}
	e := o.e
	o.id, o.home, o.index = id, e, len(e.under)
	e.under = append(e.under, o)
	the.under.Add(1)
}

// finish frees an operation whose completion was told.
func (o *operation) finish() {
	if o.starting {
		o.ended = true // launched frees it
		return
	}
	e := o.home
	last := e.under[len(e.under)-1]
	e.under[o.index], last.index = last, o.index
	e.under = e.under[:len(e.under)-1]
	o.home = nil
	the.under.Add(-1)
	the.give(o)
}

// stop ends an operation that package am does not complete.
func (o *operation) stop(err error) {
	x := o.entry()
	o.release(&x)
	o.tell(&x, err)
	o.finish()
}

//export ofi_go_send
func ofi_go_send(core, operation uintptr) (code C.ssize_t) {
	defer caught(&code)
	code = the.send(core, pointer[C.struct_ofi_operation](operation))
	if code == -C.FI_EAGAIN { // it may call nothing but this
		the.poll()
	}
	return code
}

func (p *process) send(core uintptr, x *C.struct_ofi_operation) C.ssize_t {
	guarded()
	a, err := p.e.Enter()
	if err != nil {
		return -C.FI_ECONNABORTED
	}
	defer p.e.Exit()
	return p.of(core).send(a, x)
}

func (e *endpoint) send(a *am.Endpoint, x *C.struct_ofi_operation) C.ssize_t {
	if sends, _, _ := a.TaggedUnderWay(); e.tx.full() || sends >= am.MaxTagged {
		return -C.FI_EAGAIN
	}
	o := the.take(e)
	pieces := o.fill(x)
	inject := o.flags&C.FI_INJECT != 0
	switch {
	case o.length > C.MOST_BYTES || inject && o.length > C.INJECT:
		the.give(o)
		return -C.FI_EMSGSIZE
	case inject || len(pieces) > 1:
		o.b, o.copied = o.inline[:0], true
		for _, p := range pieces {
			o.b = append(o.b, p.bytes()...)
		}
	case len(pieces) == 1:
		o.b = pieces[0].bytes()
	}
	w := am.Wide{Channel: o.channel, Origin: uint8(e.number), Tag: o.tag}
	if o.flags&C.FI_REMOTE_CQ_DATA != 0 {
		w.Flags, w.Data = am.WideData, uint64(x.data)
	}
	if o.flags&C.FI_DELIVERY_COMPLETE != 0 {
		w.Flags |= am.WideConfirm
	}
	o.send, o.starting = true, true
	id, err := a.StartSendWide(o.node, w, o.b, o.sent)
	if err != nil {
		o.starting = false
		the.give(o)
		return -C.ssize_t(errno(err))
	}
	o.launched(id)
	the.leave(uint64(x.flags))
	return 0
}

// wasSent completes a send.
func (o *operation) wasSent(err error) {
	x := o.entry()
	o.tell(&x, err)
	o.finish()
}

//export ofi_go_receive
func ofi_go_receive(core, operation uintptr) (code C.ssize_t) {
	defer caught(&code)
	code = -C.FI_ECONNABORTED
	x := pointer[C.struct_ofi_operation](operation)
	if x.flags&C.FI_PEEK != 0 { // the program may do nothing but look
		the.polls.Add(1)
		the.poll()
	}
	the.with(func(a *am.Endpoint) {
		if a != nil {
			code = the.of(core).receive(a, x)
		}
	})
	return code
}

func (e *endpoint) receive(a *am.Endpoint, x *C.struct_ofi_operation) C.ssize_t {
	if _, receives, _ := a.TaggedUnderWay(); x.flags&(C.FI_PEEK|C.FI_DISCARD) == 0 &&
		(e.rx.full() || receives >= am.MaxTagged) {
		return -C.FI_EAGAIN
	}
	if x.flags&(C.FI_PEEK|C.FI_CLAIM) != 0 {
		return e.look(a, x)
	}
	o := the.take(e)
	o.memory(o.fill(x))
	o.many = o.flags&C.FI_MULTI_RECV != 0
	return o.post(a, nil)
}

// memory says where a receive stores its message: in the program's memory, or first in memory of
// its own if that has several pieces.
func (o *operation) memory(pieces []piece) {
	switch len(pieces) {
	case 0:
	case 1:
		o.b = pieces[0].bytes()
	default:
		o.b, o.copied = make([]byte, o.length), true
		o.pieces = copy(o.scattered[:], pieces)
	}
}

// want describes the messages that a receive takes.
func (o *operation) want() am.Want {
	return am.Want{Source: o.node, Origin: o.origin, Channel: o.channel, Tag: o.tag, Ignore: o.ignore}
}

// post starts a receive, of a claimed message unless claim is nil.
func (o *operation) post(a *am.Endpoint, claim *am.Claim) C.ssize_t {
	var id am.ID
	var err error
	o.send, o.starting = false, true
	if claim != nil {
		id, err = claim.StartRecv(o.b, o.got)
	} else {
		w := o.want()
		if o.many {
			o.parting.Least, w.Many = int(min(o.e.core.least, C.MOST_BYTES)), &o.parting
		}
		id, err = a.StartRecvWide(w, o.b, o.got)
	}
	if err != nil {
		o.starting = false
		the.give(o)
		return -C.ssize_t(errno(err))
	}
	o.launched(id)
	return 0
}

// wasReceived completes a receive, or the part of a buffer that got a message.
func (o *operation) wasReceived(r am.Received, err error) {
	x := o.received(r, err)
	if r.More {
		o.tell(&x, err)
		return
	}
	o.release(&x)
	o.tell(&x, err)
	o.finish()
}

// mayGoOn reports whether a buffer may take another message: it is given back early if the program
// reads no completions.
func (o *operation) mayGoOn() bool {
	return o.e == nil || o.e.rx == nil || len(o.e.rx.backlog) < C.QUEUE
}

// release marks the completion with which a buffer of many messages is the program's again.
func (o *operation) release(x *C.struct_ofi_entry) {
	if o.many {
		x.flags |= C.FI_MULTI_RECV
	}
}

// received is the entry of a message that was received. It scatters the message.
func (o *operation) received(r am.Received, err error) C.struct_ofi_entry {
	x := o.entry()
	x.tag, x.source = C.uint64_t(r.Wide.Tag), o.e.sender(r.Source, r.Wide.Origin)
	x.buffer += C.uint64_t(r.At)
	n := min(r.Bytes, len(o.b)-r.At)
	if err != nil && errno(err) != C.FI_ETRUNC {
		n = 0
	}
	x.length, x.excess = C.uint64_t(n), C.uint64_t(max(r.Bytes-n, 0))
	if r.Wide.Flags&am.WideData != 0 {
		x.flags |= C.FI_REMOTE_CQ_DATA
		x.data = C.uint64_t(r.Wide.Data)
	}
	from := o.b[r.At : r.At+n]
	for _, p := range o.scattered[:o.pieces] {
		from = from[copy(p.bytes(), from):]
	}
	return x
}
