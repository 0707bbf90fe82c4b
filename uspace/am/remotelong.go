package am

// This file implements calls of more than one packet. Request and answer are long messages of bytes
// (bytes.go) with kinds of their own. Besides the bytes they carry the ticket, and an answer
// carries its status. The handler runs when the whole request has arrived, on the memory where it
// lies.

import (
	"errors"
	"fmt"
)

// startLong begins a call whose request does not fit one packet.
func (r *remote) startLong(node int, handler uint32, b []byte, done func(answer []byte, err error)) (ID, error) {
	if err := r.refusal(node, 0); err != nil {
		return 0, err
	}
	if err := r.wait(r.room, r.e.ProbeCalled); err != nil {
		return 0, err
	}
	// Before it is sent, because drive may let others poll.
	ticket := r.add(node, handler, done)
	send, err := r.e.bytes.start(node, kindCall, handler, [2]uint32{ticket, 0}, gather{first: b}, func(err error) {
		if err != nil {
			r.unsent(ticket, err)
		}
	})
	switch c := r.find(ticket); {
	case c == nil: // it has ended meanwhile
		r.sent(send, true)
	case err != nil:
		c.done = nil
		r.give(ticket)
		return 0, err
	default:
		c.send = send
	}
	return callID | ID(ticket), nil
}

// unsent ends a call whose request was not delivered.
func (r *remote) unsent(ticket uint32, err error) {
	if c := r.find(ticket); c != nil {
		c.send = 0
		r.end(c, nil, fmt.Errorf("calling handler %d on node %d: %w", c.handler, c.node, err), false)
	}
}

// sent ends the request of a call that has ended, so that its bytes are the program's again. If
// the call was answered and all bytes have left, the request has been read. Otherwise the receiver
// is told that it will not come.
func (r *remote) sent(send ID, answered bool) {
	switch s := r.e.bytes.sends.find(uint32(send)); {
	case s == nil || s.state == sendGivenUp: // it is over
	case answered && s.state == sendGone:
		r.e.bytes.endSend(s, nil, false)
	default:
		r.e.bytes.endSend(s, ErrCancelled, true)
	}
}

// answerLong sends an answer that does not fit one packet. It copies it if it cannot leave at once.
func (m *Message) answerLong(ticket, status uint32, b []byte) error {
	e, node := m.endpoint, uint16(m.Source)
	return e.bytes.startReply(m, kindAnswer, 0, [2]uint32{ticket, status}, b, func(err error) {
		lost := uint32(statusLost)
		switch {
		case err == nil:
			return
		case errors.Is(err, ErrMemory):
			lost = statusMemory
		}
		e.remote.notTold(lostAnswer{node, ticket, lost})
	})
}

// notTold records that a caller has yet to be told that no answer will come.
func (r *remote) notTold(l lostAnswer) {
	if len(r.back) < untold {
		r.back = append(r.back, l)
	}
}
