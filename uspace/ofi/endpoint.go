//go:build libfabric

package main

// This file is endpoints, and the operations that are under way on them.

// #include "ofi.h"
import "C"

import (
	"errors"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/funet/funet/uspace/am"
)

// endpoint is an endpoint of libfabric. Its number is in the channel of messages to it.
type endpoint struct {
	core   *C.struct_ofi_core
	number int
	tx, rx *queue // nil: none
	under  []*operation
	claims map[uint64]am.Claim // by context (peek.go)
}

// errClosed ends the operations of an endpoint that is closed.
var errClosed = errors.New("the endpoint is closed")

//export ofi_go_open_endpoint
func ofi_go_open_endpoint(core uintptr) (code C.int) {
	defer caught(&code)
	code = -C.FI_EMFILE
	the.with(func(*am.Endpoint) {
		for number, e := range the.endpoints {
			if e == nil {
				the.endpoints[number] = &endpoint{core: pointer[C.struct_ofi_core](core), number: number}
				code = C.int(number)
				return
			}
		}
	})
	return code
}

// of returns the endpoint of a core that is enabled. The lock is held.
func (p *process) of(core uintptr) *endpoint {
	e := p.endpoints[pointer[C.struct_ofi_core](core).number]
	if e.tx == nil && e.core.tx != nil {
		e.tx = p.queue(uint32(e.core.tx.number))
	}
	if e.rx == nil && e.core.rx != nil {
		if e.rx = p.queue(uint32(e.core.rx.number)); e.rx != nil {
			e.rx.receive()
		}
	}
	return e
}

// Closing an endpoint ends what is under way without completions. What was copied is still sent.
//
//export ofi_go_close_endpoint
func ofi_go_close_endpoint(core uintptr) {
	var code int32
	defer caught(&code)
	the.with(func(a *am.Endpoint) {
		e := the.of(core)
		e.untarget()
		e.forgetPosts()
		e.tx, e.rx = nil, nil
		for _, o := range slices.Clone(e.under) {
			o.e = nil // the program is not told of its end
			switch {
			case a == nil:
				o.stop(errClosed)
			case o.what == 0 && !(o.send && o.copied):
				a.Cancel(o.id)
			}
		}
		for _, c := range e.claims {
			if a != nil {
				_ = c.Discard()
			}
		}
		the.endpoints[e.number] = nil
	})
}

// endAll ends everything that is under way.
func (e *endpoint) endAll(err error) {
	for len(e.under) > 0 {
		e.under[len(e.under)-1].stop(err)
	}
}

//export ofi_go_left
func ofi_go_left(transmit int32) (left C.ssize_t) {
	defer caught(&left)
	the.with(func(a *am.Endpoint) {
		if a == nil {
			return
		}
		sends, receives, _ := a.TaggedUnderWay()
		if left = C.ssize_t(am.MaxTagged - receives); transmit != 0 {
			left = C.ssize_t(am.MaxTagged - sends)
		}
	})
	return left
}

// Whether operations to a node are under way, so that one with FI_FENCE must wait. It lets the card
// run, since the program may call nothing else meanwhile.
//
//export ofi_go_owed
func ofi_go_owed(core uintptr, node uint64) (owed C.int) {
	defer caught(&owed)
	the.polls.Add(1)
	the.poll()
	the.with(func(*am.Endpoint) {
		for _, o := range the.of(core).under {
			if o.send && o.node == int(node) {
				owed = 1
				return
			}
		}
	})
	return owed
}

//export ofi_go_cancel
func ofi_go_cancel(core, wanted uintptr) (code C.ssize_t) {
	defer caught(&code)
	code = -C.FI_ENOENT
	the.with(func(a *am.Endpoint) {
		for _, o := range slices.Backward(the.of(core).under) { // the latest are first
			if uintptr(o.context) == wanted && !o.send && a != nil && a.Cancel(o.id) {
				code = 0
				return
			}
		}
	})
	return code
}

// entry is what a completion says of an operation.
func (o *operation) entry() C.struct_ofi_entry {
	x := C.struct_ofi_entry{context: C.uint64_t(o.context), buffer: C.uint64_t(o.address),
		length: C.uint64_t(o.length), source: C.FI_ADDR_NOTAVAIL}
	if x.flags = o.what; x.flags != 0 {
		return x
	}
	if x.flags = C.FI_MSG; o.tagged {
		x.flags, x.tag = C.FI_TAGGED, C.uint64_t(o.tag)
	}
	if o.send {
		x.flags |= C.FI_SEND
	} else {
		x.flags |= C.FI_RECV
	}
	return x
}

// tell writes the completion of an operation, and counts it.
func (o *operation) tell(x *C.struct_ofi_entry, err error) {
	e := o.e
	if e == nil {
		return
	}
	q, selective, counter := e.rx, e.core.selective_rx != 0, int(C.RECEIVES)
	if o.send {
		q, selective, counter = e.tx, e.core.selective_tx != 0, C.SENDS
	}
	if o.what != 0 {
		counter = o.counted
	}
	count(e.core.counters[counter], err != nil)
	if err != nil {
		x.error = C.int32_t(errno(err))
		x.reason = x.error
		// The others say all by their number; and there are programs that ask for the text of any
		// error into memory that they have not set.
		if x.error != C.FI_ECANCELED && x.error != C.FI_ETRUNC {
			x.text = C.uint64_t(uintptr(unsafe.Pointer(C.CString(err.Error()))))
		}
	}
	if q != nil && (err != nil || o.flags&C.QUIET == 0 && (!selective || o.flags&C.FI_COMPLETION != 0)) {
		q.add(x)
	} else if x.text != 0 {
		C.free(unsafe.Pointer(pointer[C.char](uintptr(x.text))))
	}
}

// sender returns the address that the endpoint's address vector has for an endpoint of a node.
func (e *endpoint) sender(node int, number uint8) C.uint64_t {
	if e == nil || e.core.av == nil || node >= int(e.core.domain.place.nodes) || number >= C.NUMBERS {
		return C.FI_ADDR_NOTAVAIL
	}
	all := unsafe.Slice((*uint32)(e.core.av.sources), (node+1)*C.NUMBERS)
	at := atomic.LoadUint32(&all[node*C.NUMBERS+int(number)])
	if at == 0 {
		return C.FI_ADDR_NOTAVAIL
	}
	return C.uint64_t(at - 1)
}

// source returns the address of the first endpoint of a node that the address vector has.
func (e *endpoint) source(node int) C.uint64_t {
	for number := range uint8(C.ENDPOINTS) {
		if a := e.sender(node, number); a != C.FI_ADDR_NOTAVAIL {
			return a
		}
	}
	return C.FI_ADDR_NOTAVAIL
}
