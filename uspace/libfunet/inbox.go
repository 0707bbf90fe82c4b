package main

// This file keeps messages until funet_poll takes them.

// #include "gate.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/funet/funet/uspace/funet"
)

// errUnread ends an endpoint whose program does not read.
var errUnread = errors.New("funet: 2^20 messages or 1 GiB are unread; take them with funet_poll")

// errRoom reports memory that is too small for a message or an answer.
var errRoom = errors.New("funet: the memory is too small for it; its length was stored")

// Bounds of an inbox. A poll takes from the card only when the inbox is empty, so only messages
// that arrive while other functions wait can reach them.
const (
	mostUnread      = 1 << 20
	mostUnreadBytes = 1 << 30
)

// small is the length in bytes up to which messages lie one behind the other in an inbox.
const small = 4096

// keep is how many bytes an empty inbox keeps at most.
const keep = 4 << 20

// unread is a message in an inbox.
type unread struct {
	source, handler uint32
	at, length      int    // in small messages' bytes
	bytes           []byte // of a longer one
}

// inbox holds the messages of funet_collect that funet_poll has yet to take, in the order of
// arrival.
type inbox struct {
	n        atomic.Int64 // how many
	unread   *uint32      // memory of C: not 0 while there are messages
	mu       sync.Mutex
	messages []unread
	first    int // index of the oldest
	bytes    []byte
	total    int // bytes of all
}

// put adds a message, whose bytes it copies.
func (x *inbox) put(source, handler uint32, b []byte) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.messages)-x.first >= mostUnread || x.total+len(b) > mostUnreadBytes {
		return errUnread
	}
	m := unread{source: source, handler: handler, at: len(x.bytes), length: len(b)}
	if len(b) <= small {
		x.bytes = append(x.bytes, b...)
	} else {
		m.bytes = append(m.bytes, b...)
	}
	x.messages = append(x.messages, m)
	x.total += len(b)
	x.n.Add(1)
	atomic.StoreUint32(x.unread, 1)
	return nil
}

// message is a struct funet_message, with the pointer as a number.
type message struct {
	bytes, length   uintptr
	source, handler uint32
	token           uint64
}

var _ [C.sizeof_struct_funet_message]byte = [unsafe.Sizeof(message{})]byte{}

// alignment is that of a message's bytes in the memory of the program.
const alignment = 8

// take moves messages to the program, as many as to and the memory have room for. It returns
// errRoom if there is a message and no room for one.
func (x *inbox) take(to []message, room []byte, address uintptr) (n int, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	used := -int(address) & (alignment - 1)
	for n < len(to) && x.first < len(x.messages) {
		m := &x.messages[x.first]
		to[n] = message{bytes: address + uintptr(used), length: uintptr(m.length), source: m.source, handler: m.handler}
		if m.length > len(room)-used {
			if n == 0 {
				to[0].bytes = 0
				err = errRoom
			}
			break
		}
		b := m.bytes
		if b == nil {
			b = x.bytes[m.at : m.at+m.length]
		}
		copy(room[min(used, len(room)):], b)
		used += (m.length + alignment - 1) &^ (alignment - 1)
		m.bytes = nil
		x.total -= m.length
		x.first++
		n++
	}
	if x.n.Add(int64(-n)) == 0 {
		atomic.StoreUint32(x.unread, 0)
	}
	x.tidy()
	return n, err
}

// tidy makes room for the next messages.
func (x *inbox) tidy() {
	switch {
	case x.first == len(x.messages) && cap(x.bytes) > keep:
		x.messages, x.bytes, x.first = nil, nil, 0
	case x.first == len(x.messages):
		x.messages, x.bytes, x.first = x.messages[:0], x.bytes[:0], 0
	case x.first > len(x.messages)/2 && x.first > 1024:
		from := x.messages[x.first].at
		x.bytes = x.bytes[:copy(x.bytes, x.bytes[from:])]
		x.messages = x.messages[:copy(x.messages, x.messages[x.first:])]
		for i := range x.messages {
			x.messages[i].at -= from
		}
		x.first = 0
	}
}

// some reports whether there is a message.
func (x *inbox) some() bool { return x.n.Load() > 0 }

//export libfunet_collect
func libfunet_collect(handle uintptr, handler uint32) C.int {
	return on(handle, func(e *endpoint) error {
		return e.Handle(handler, func(m *funet.Message) error {
			return e.inbox.put(uint32(m.Source), handler, m.Bytes)
		})
	})
}

//export libfunet_poll
func libfunet_poll(handle, messages uintptr, n C.int, bytes, room uintptr, milliseconds int64,
	cancel uintptr) (code C.int) {
	defer caught(&code)
	e, err := endpoints.find(handle)
	if err != nil {
		return tell(err)
	}
	to, err := array[message](messages, int(n))
	if err == nil && n == 0 {
		err = fmt.Errorf("polling for no messages: %w", errArgument)
	}
	if err != nil {
		return tell(err)
	}
	b, err := memory(bytes, room)
	if err != nil {
		return tell(err)
	}
	for {
		if e.inbox.some() {
			if taken, err := e.inbox.take(to, b, bytes); taken > 0 || err != nil {
				if err != nil {
					return tell(fmt.Errorf("polling: a message of %d bytes: %w", to[0].length, err))
				}
				return C.int(taken)
			}
		}
		if done, code := e.awaitMessage(milliseconds, cancel); done {
			return code
		}
	}
}

// awaitMessage waits for a message. It returns true if there is none to be had.
func (e *endpoint) awaitMessage(milliseconds int64, cancel uintptr) (bool, C.int) {
	if milliseconds == 0 {
		if _, err := e.poll(); err != nil {
			return true, tell(err)
		}
		return !e.inbox.some(), 0
	}
	ctx, release := context.Background(), nothing
	var err error
	if milliseconds > 0 || cancel != 0 {
		if ctx, release, err = until(milliseconds, cancel); err != nil {
			return true, tell(err)
		}
	}
	err = e.Wait(ctx, e.inbox.some)
	release()
	switch {
	case err == nil:
		return false, 0
	case errors.Is(err, context.DeadlineExceeded):
		return true, 0
	}
	return true, tell(err)
}
