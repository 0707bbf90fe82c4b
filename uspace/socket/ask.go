package socket

// This file sends requests to another node's process by Initial Request Response (package rats).

import (
	"time"

	"github.com/funet/funet/uspace/rats"
)

// inquire asks a node's server and waits for its answer. The lock is held. It calls over each time
// that w has news or cancel is closed, and gives up with the error of over.
func (s *Stack) inquire(node uint16, w *waiter, cancel <-chan struct{}, over func() error,
	words ...uint32) ([]uint32, error) {
	q, err := s.m.Ask(node, s.key(node), words...)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	q.Context = w
	for {
		answer, ok, at, err := q.RecvReply(s.carrier.Now())
		if err == nil {
			err = s.err
		}
		if err == nil && !ok {
			err = over()
		}
		switch {
		case err != nil:
			return nil, err
		case ok && len(answer) == 0:
			return []uint32{refused}, nil
		case ok:
			return answer, nil
		case at == 0:
			s.group.Await(w, cancel)
		default:
			s.doze(w, cancel, time.Duration(max(at-s.carrier.Now(), 1)))
		}
	}
}

// doze waits as await does, but at most for the given time.
func (s *Stack) doze(w *waiter, cancel <-chan struct{}, most time.Duration) {
	timer := time.AfterFunc(most, func() {
		s.group.Lock()
		defer s.group.Unlock()
		w.Rouse()
	})
	defer timer.Stop()
	s.group.Await(w, cancel)
}

// late is an answer that found no room in the send queue.
type late struct {
	request rats.Request
	words   []uint32
}

// serve answers requests, one after the other. Answers that find no room wait for the next poll.
func (s *Stack) serve() {
	for {
		if s.late == nil {
			q, ok := s.server.Recv()
			if !ok {
				return
			}
			switch len(q.Words) {
			case dialWords:
				s.late = &late{q, []uint32{s.answer(&q)}}
			case packetWords:
				s.late = &late{q, s.answerPacket(&q)}
			case readyWords:
				s.late = &late{q, s.answerReady(&q)}
			default:
				continue // of a version to come
			}
		}
		if !s.server.SendReply(&s.late.request, s.late.words...) {
			return
		}
		s.late = nil
	}
}
