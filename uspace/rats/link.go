package rats

// This file is what the servers of several clients have: each seed they make is for one client, and
// has a link of its own, with its own key. So what a client does wrong ends its link, and a client
// that is revoked cannot write any more, while the others go on.
//
// The first message of a client is hello (stream.go), from which the link knows where credit goes.
// A link closes itself when its client has closed or cannot be reached.

import (
	"errors"
	"math/bits"

	"github.com/funet/funet/uspace/funi"
)

// Protocols of the other seeds.
const (
	protocolWrite    = 1
	protocolTagged   = 2
	protocolDatagram = 3
	protocolSimple   = 4
	protocolRead     = 5
)

const (
	// controlArea is the credit of an area of a link for what is no data: hello, abort, and one of
	// each to spare.
	controlArea = 4
	// clientCredit is how many credits a client may have unread. More wait at the server's card.
	clientCredit = 8
)

// finish tells the other end of an abort, and then closes what was opened if it is to be closed;
// memory, nil: none, is freed after that. It returns false if there is no room for all of it now.
func (e *end) finish(memory []byte) bool {
	if !e.tellAbort() {
		return false
	}
	if !e.closing || e.lingers {
		return true
	}
	if !e.shutAll() || e.key != 0 && !e.revoke(e.key, memory) {
		return false
	}
	e.key = 0
	e.leave()
	return true
}

// shutdown begins to close the end, and tells the other one unless that has closed. If it is not
// there any more, that is no harm.
func (e *end) shutdown() {
	if !e.closing {
		e.closing, e.abort = true, !errors.Is(e.err, ErrAborted)
		e.m.await(&e.instance)
	}
}

// abandon closes the end of a link because the other one has told that it is closed.
func (e *end) abandon() {
	if e.err == nil {
		e.err = ErrAborted
	}
	e.shutdown()
}

// Closed reports whether everything that the instance had is given back, after Close.
func (e *end) Closed() bool { return e.dropped }

// linger begins to close the end of a client. What it has sent may be under way for long, and if it
// were closed now, credit for that would come back to the server, which could not know whether the
// client is dead. So the server answers when all is there (done).
func (e *end) linger() {
	if !e.closing {
		e.shutdown()
		if e.lingers = e.err == nil; e.lingers {
			e.abort = false
		}
	}
}

// answered goes on with closing.
func (e *end) answered() {
	if e.lingers {
		e.lingers = false
		e.m.await(&e.instance)
	}
}

// helloFrom takes the first record of a client. It returns false if it is no hello; that is
// nobody's.
func (e *end) helloFrom(n *funi.Notification) bool {
	w := n.Metadata
	if n.Words != 4 || w[0] != kindHello<<kindShift || w[3] > 0xffff || w[1]|w[2] == 0 {
		return false
	}
	e.peer = Ticket{Node: n.Source, Area: uint16(w[3]), Key: uint64(w[1]) | uint64(w[2])<<32}
	return true
}

// sayHello tells the server who its client is; false: the send queue is full.
func (e *end) sayHello() bool {
	return e.send(e.peer, 0, nil, []uint32{kindHello << kindShift, uint32(e.key), uint32(e.key >> 32),
		uint32(e.areas[0])}, true)
}

// client opens the end of a client for a seed: an area for what the server says, of a key to the
// memory, nil: to none. what is the instance. Errors are ErrFull and ErrSeed.
func (m *Manager) client(e *end, what protocol, s Seed, want uint8, memory []byte, credit int) error {
	if s.Protocol != want || s.Key == 0 {
		return ErrSeed
	}
	if !m.room(1, credit) {
		return ErrFull
	}
	if err := m.add(&e.instance, what); err != nil {
		return err
	}
	if memory == nil {
		memory = m.nothing
	}
	var err error
	if e.key, err = e.expose(memory); err != nil {
		e.leave()
		return err
	}
	e.peer = s.Ticket
	if err := e.openAreas(e.key, credit, 0); err != nil {
		e.closing = true
		m.await(&e.instance)
		return err
	}
	return nil
}

// due reports whether a client is to be told of credit: for a fourth of the window, or if it has
// none left but what it is to be told of.
func due(window, held, untold int) bool {
	return untold > 0 && (untold >= window/4 || held+untold >= window)
}

// bitsIn is how many bits of a set of buffers are set.
func bitsIn(set uint32) int { return bits.OnesCount32(set) }

// lowest is the first buffer of a set that is not empty.
func lowest(set uint32) int { return bits.TrailingZeros32(set) }
