package rats

// This file is the common part of servers with several clients. Each seed that they make is for one
// client, and has a link of its own, with its own key. So an error of a client ends only its link,
// and a client that is revoked cannot write any more, while the others continue.
//
// The first message of a client is hello (stream.go), which tells the link where to send credit. A
// link closes itself when its client has closed or cannot be reached.

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

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

// links is the common part of a server: the links that its seeds are for.
type links struct {
	instance
	all     []*serverEnd
	closing bool
}

// Revoke takes a seed back, and its client fails. What has arrived from the client can still be
// received. Revoke returns false if the seed is not the server's.
func (s *links) Revoke(seed Seed) bool {
	return slices.ContainsFunc(s.all, func(l *serverEnd) bool {
		if uint64(l.key) != seed.Key {
			return false
		}
		l.shutdown()
		return true
	})
}

// seed returns a seed, and makes its link a link of the server. err says that the link could not be
// opened.
func (s *links) seed(l *serverEnd, size int, protocol uint8, err error) (Seed, error) {
	if err != nil {
		return Seed{}, fmt.Errorf("making a seed: %w", err)
	}
	s.all = append(s.all, l)
	seed := s.m.Seed(l.key, 0, uint32(size), protocol)
	if len(l.areas) > 0 {
		seed.Area = l.areas[0]
	}
	return seed, nil
}

// close closes all links. It returns false if that was done before.
func (s *links) close() bool {
	if s.closing {
		return false
	}
	s.closing = true
	s.m.drop(&s.instance)
	for _, l := range s.all {
		l.shutdown()
		l.m.await(&l.instance)
	}
	return true
}

// serverEnd is the end of a link at its server. It closes when its client has gone.
type serverEnd struct {
	end
	bound bool // the client's node is known
}

// strange reports whether a record is to be ignored: it came after the end, or from another node
// than the first. That node has the key, and no business here.
func (l *serverEnd) strange(n *funi.Notification) bool {
	return l.closing || l.bound && n.Source != l.peer.Node
}

// liar ends the link because of an impossible message.
func (l *serverEnd) liar(kind uint32) {
	l.lies("kind", kind)
	l.closing = true
}

// finishOf is finish, after which the server forgets the link.
func (l *serverEnd) finishOf(s *links, memory []byte) bool {
	if !l.finish(memory) {
		return false
	}
	if l.dropped {
		s.all = slices.DeleteFunc(s.all, func(o *serverEnd) bool { return o == l })
	}
	return true
}

func (l *serverEnd) returned(r funi.Returned) {
	l.end.returned(r)
	l.shutdown()
}

func (l *serverEnd) suspect(lost *funi.Lost) {
	if l.end.suspect(lost); l.err != nil {
		l.shutdown()
	}
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

// sayHello tells the other end who this one is, if it does not know; false: the send queue is full.
func (e *end) sayHello() bool {
	if e.hello && !e.send(e.peer, 0, nil, []uint32{kindHello << kindShift, uint32(e.key), uint32(e.key >> 32),
		uint32(e.areas[0])}, true) {
		return false
	}
	e.hello = false
	return true
}

// finishClient is finish of a client, which first tells the server how much it has sent.
func (e *end) finishClient(sent uint32) bool {
	if e.lingers && !e.saidDone {
		if !e.send(e.peer, 0, nil, []uint32{kindDone << kindShift, sent}, true) {
			return false
		}
		e.saidDone = true
	}
	return e.finish(nil)
}

// client opens the end of a client for a seed, with an area for the server's messages. The area's
// key gives access to memory. what is the instance. Errors are ErrFull and ErrSeed.
func (m *Manager) client(e *end, what protocol, s Seed, want uint8, memory []byte) error {
	if s.Protocol != want || s.Key == 0 {
		return ErrSeed
	}
	e.peer = s.Ticket
	return e.begin(m, what, memory, clientCredit, 0)
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
