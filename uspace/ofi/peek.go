//go:build libfabric

package main

// This file looks for messages that have arrived, and claims them: FI_PEEK, FI_CLAIM, FI_DISCARD.

// #include "ofi.h"
import "C"

import (
	"errors"

	"github.com/funet/funet/uspace/am"
)

// look does what a receive with FI_PEEK or FI_CLAIM asks for. Only FI_CLAIM without FI_DISCARD
// starts a receive; the others write their completion at once.
func (e *endpoint) look(a *am.Endpoint, x *C.struct_ofi_operation) C.ssize_t {
	if e.rx == nil {
		return -C.FI_EINVAL
	}
	if e.rx.full() {
		return -C.FI_EAGAIN
	}
	o := the.take(e)
	o.send = false
	pieces := o.fill(x)
	if o.flags&C.FI_PEEK == 0 {
		return o.claimed(a, pieces)
	}
	defer the.give(o)
	r, claim, found := am.Received{}, am.Claim{}, false
	if o.flags&(C.FI_CLAIM|C.FI_DISCARD) != 0 {
		r, claim, found = a.ClaimWide(o.want())
	} else {
		r, found = a.PeekWide(o.want())
	}
	switch {
	case !found:
		entry := o.entry()
		entry.tag, entry.error, entry.reason = x.tag, C.FI_ENOMSG, C.FI_ENOMSG
		e.rx.add(&entry)
		return 0
	case o.flags&C.FI_DISCARD != 0:
		if err := claim.Discard(); err != nil {
			return -C.ssize_t(errno(err))
		}
	case o.flags&C.FI_CLAIM != 0:
		if e.claims == nil {
			e.claims = make(map[uint64]am.Claim)
		}
		e.claims[o.context] = claim
	}
	entry := o.received(am.Received{Source: r.Source, Wide: r.Wide}, nil)
	entry.length = C.uint64_t(r.Bytes)
	e.rx.add(&entry)
	return 0
}

// claimed receives or discards the message that was claimed with the same context.
func (o *operation) claimed(a *am.Endpoint, pieces []piece) C.ssize_t {
	claim, ok := o.e.claims[o.context]
	if !ok {
		the.give(o)
		return -C.FI_EINVAL
	}
	delete(o.e.claims, o.context)
	if o.flags&C.FI_DISCARD == 0 {
		o.memory(pieces)
		return o.post(a, &claim)
	}
	err := claim.Discard()
	if errors.Is(err, am.ErrClaim) {
		err = nil // its sender is gone
	}
	entry := o.entry()
	entry.length = 0
	o.tell(&entry, err)
	the.give(o)
	return 0
}
