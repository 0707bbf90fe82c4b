package socket

// This file waits for ports that are not open yet. The words of the request are port, 0, 0; the
// answer is accepted or refused.

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/funet/funet/uspace/rats"
)

const readyWords = 3

// Ready waits until a process listens or takes packets at NODE:PORT of network "funet". Then a Dial
// to it is not refused because the node is not ready. Ready asks after 1 ms,
// and again after twice as long up to 100 ms, each time with one small request. Errors are a
// *net.OpError with EHOSTUNREACH, ETIMEDOUT for a host that does not answer, or the context's cause
// together with the reason why the port was not open.
func (s *Stack) Ready(ctx context.Context, address string) error {
	remote, err := s.parse(Network, address)
	if err != nil {
		return wrong("wait", nil, nil, err)
	}
	s.group.Lock()
	defer s.group.Unlock()
	w := s.group.NewWaiter()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		words, err := s.inquire(remote.Node, &w, ctx.Done(), func() error {
			return timeoutOf(ctx)
		}, uint32(remote.Port)<<16, 0, 0)
		if err == nil && words[0] != accepted {
			err = fmt.Errorf("%w: nobody listens there yet", syscall.ECONNREFUSED)
		}
		err = dialFailure(err)
		if err == nil || !errors.Is(err, syscall.ECONNREFUSED) {
			return wrong("wait", nil, remote, err)
		}
		if e := s.pause(ctx, pause); e != nil {
			return wrong("wait", nil, remote, fmt.Errorf("%w (%w)", e, err))
		}
	}
}

// answerReady answers whether the port is open.
func (s *Stack) answerReady(q *rats.Request) []uint32 {
	port := uint16(q.Words[0] >> 16)
	if s.ports[port] == nil && s.packets[port] == nil {
		return []uint32{refused}
	}
	return []uint32{accepted}
}
