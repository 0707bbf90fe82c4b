package rats

// This file is the common part of servers with several clients. Each seed that they make is for one
// client, and has a link of its own, with its own key. So an error of a client ends only its link,
// and a client that is revoked cannot write any more, while the others continue.
//
// The first message of a client is hello (stream.go), which tells the link where to send credit. A
// link closes itself when its client has closed or cannot be reached.

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
	// controlArea is the credit of a link's area for messages without data: hello, abort, and a
	// spare of each.
	controlArea = 4
	// clientCredit is how many unread credits a client may have. Others wait at the server's card.
	clientCredit = 8
)

// serverEnd is the end of a link at its server. It closes when its client has gone.
type serverEnd struct{ end }

func (l *serverEnd) returned(r funi.Returned) {
	l.end.returned(r)
	l.shutdown()
}

func (l *serverEnd) suspect(lost *funi.Lost) {
	if l.end.suspect(lost); l.err != nil {
		l.shutdown()
	}
}

// revokes closes the link if a seed is its, and reports that.
func (l *serverEnd) revokes(s Seed) bool {
	if uint64(l.key) != s.Key {
		return false
	}
	l.shutdown()
	return true
}

// finish tells the other end of an abort, and then closes what is to be closed. After that it frees
// memory, unless it is nil. It returns false if there is no room for all of it now.
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

// shutdown begins to close the end, and tells the other end unless that has closed. It does not
// matter if the other end no longer exists.
func (e *end) shutdown() {
	if !e.closing {
		e.closing, e.abort = true, !errors.Is(e.err, ErrAborted)
		e.m.await(&e.instance)
	}
}

// abandon closes the end of a link after the other end reported that it is closed.
func (e *end) abandon() {
	if e.err == nil {
		e.err = ErrAborted
	}
	e.shutdown()
}

// Closed reports whether all resources of the instance are given back, after Close.
func (e *end) Closed() bool { return e.dropped }

// linger begins to close the end of a client. Its messages may be in flight for long. If it were
// closed now, credit for them would come back to the server, which could not know whether the
// client is dead. So the server answers when all have arrived (done).
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

// helloFrom handles the first record of a client. It returns false, and ignores the record, if it
// is not a hello.
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

// client opens the end of a client for a seed, with an area for the server's messages. The area's
// key gives access to memory, or to no memory if that is nil. what is the instance. Errors are
// ErrFull and ErrSeed.
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

// due reports whether a client must be told of credit: if a fourth of the window is untold, or if
// the client has no other credit left.
func due(window, held, untold int) bool {
	return untold > 0 && (untold >= window/4 || held+untold >= window)
}

// bitsIn returns how many bits of a set of buffers are set.
func bitsIn(set uint32) int { return bits.OnesCount32(set) }

// lowest returns the first buffer of a set that is not empty.
func lowest(set uint32) int { return bits.TrailingZeros32(set) }
