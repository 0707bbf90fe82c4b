package socket

// This file makes connections. A dialer opens both of its ends and asks the node's server, with the
// seeds of both, to open the other ends. The server answers whether there is a listener. If so, the
// other ends have been made, and they report to the dialer's ends themselves.
//
// The words of the request are the ports, the dialed one first; the key of the receiver, 2 words;
// the areas of the receiver and the sender; and the key of the sender, 2 words. The answer is
// accepted, refused, or busy.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/funet/funet/uspace/rats"
)

const (
	accepted = iota
	refused
	busy

	dialWords = 6
	// firstRing and mostRing are the lengths of a connection's ring, in bytes.
	firstRing = 16 << 10
	mostRing  = rats.MostRing
	// dialTimeout bounds a dial whose context has no deadline.
	dialTimeout = 10 * time.Second
	// firstPause and lastPause bound the time between dials while the listener's queue, or the
	// tables here, are full.
	firstPause = time.Millisecond
	lastPause  = 100 * time.Millisecond
)

// Dial is DialContext for at most 10 s.
func (s *Stack) Dial(network, address string) (net.Conn, error) {
	return s.DialContext(context.Background(), network, address)
}

// DialContext connects to NODE:PORT of network "funet". Errors are a *net.OpError with
// ECONNREFUSED, EHOSTUNREACH, ETIMEDOUT or the context's. ECONNREFUSED means that the port has no
// listener, or that the node's process has no sockets; Ready waits for both.
func (s *Stack) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	remote, err := s.parse(network, address)
	if err != nil {
		return nil, wrong("dial", nil, nil, err)
	}
	if _, limited := ctx.Deadline(); !limited {
		var end context.CancelFunc
		ctx, end = context.WithTimeoutCause(ctx, dialTimeout, syscall.ETIMEDOUT)
		defer end()
	}
	s.group.Lock()
	defer s.group.Unlock()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		c, err := s.dial(ctx, remote)
		if err == nil {
			return c, nil
		}
		if !full(err) && !errors.Is(err, errBusy) {
			return nil, wrong("dial", nil, remote, dialFailure(err))
		}
		if e := s.pause(ctx, pause); e != nil {
			return nil, wrong("dial", nil, remote, fmt.Errorf("%w (%w)", e, err))
		}
	}
}

// errPorts reports that there is no port to pick.
var errPorts = fmt.Errorf("%w: all ports from %d on are taken; close listeners", syscall.EADDRNOTAVAIL, firstPort)

// errBusy reports that the listener's queue is full.
var errBusy = errors.New("the listener has as many connections that it did not accept as it may have")

// pause waits for a time.
func (s *Stack) pause(ctx context.Context, d time.Duration) error {
	ctx, end := context.WithTimeoutCause(ctx, d, errBusy)
	defer end()
	w := s.group.NewWaiter()
	for ctx.Err() == nil && s.err == nil {
		s.group.Await(&w, ctx.Done())
	}
	if s.err != nil {
		return s.err
	}
	if err := context.Cause(ctx); err != errBusy {
		return err
	}
	return nil
}

// dial dials once.
func (s *Stack) dial(ctx context.Context, remote Addr) (_ *Conn, err error) {
	if s.err != nil {
		return nil, s.err
	}
	r, err := s.m.NewReceiver(firstRing, mostRing)
	if err != nil {
		return nil, err
	}
	w, err := s.m.NewSender()
	if err != nil {
		r.Close()
		return nil, err
	}
	port, ok := s.pick(s.listens)
	if !ok {
		r.Close()
		w.Close()
		return nil, errPorts
	}
	local := Addr{s.node, port}
	rs, ws := r.Seed(), w.Seed()
	c := s.newConn(local, remote, r, w)
	waiter := s.group.NewWaiter()
	words, err := s.inquire(remote.Node, &waiter, ctx.Done(), func() error {
		if c.err != nil {
			return c.err
		}
		return timeoutOf(ctx)
	}, uint32(remote.Port)<<16|uint32(local.Port),
		uint32(rs.Key), uint32(rs.Key>>32), uint32(rs.Area)<<16|uint32(ws.Area), uint32(ws.Key), uint32(ws.Key>>32))
	switch {
	case err != nil:
	case words[0] == accepted:
		return c, nil
	case words[0] == busy:
		err = errBusy
	default:
		err = syscall.ECONNREFUSED
	}
	c.abort()
	return nil, err
}

// timeoutOf returns why a context has ended; for a deadline it returns net's error.
func timeoutOf(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	err := context.Cause(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", syscall.ETIMEDOUT, err)
	}
	return err
}

// listens reports whether a port is used for listening.
func (s *Stack) listens(port uint16) bool { return s.ports[port] != nil }

// pick returns a port for an address that names none: the free port that was picked longest ago. It
// returns false if all are taken.
func (s *Stack) pick(taken func(port uint16) bool) (p uint16, ok bool) {
	for range 1<<16 - firstPort {
		p = s.nextPort
		if s.nextPort++; s.nextPort < firstPort {
			s.nextPort = firstPort
		}
		if !taken(p) {
			return p, true
		}
	}
	return 0, false
}

// answer makes the other ends of a connection, and returns the answer to the dialer.
func (s *Stack) answer(q *rats.Request) uint32 {
	w := q.Words
	l := s.ports[uint16(w[0]>>16)]
	if l == nil {
		return refused
	}
	if !l.room(q.From) {
		return busy
	}
	out, err := s.m.SendTo(rats.ReceiverSeed(q.From, uint16(w[3]>>16), uint64(w[1])|uint64(w[2])<<32))
	if err != nil {
		return busy
	}
	in, err := s.m.ReceiveFrom(rats.SenderSeed(q.From, uint16(w[3]), uint64(w[4])|uint64(w[5])<<32),
		firstRing, mostRing)
	if err != nil {
		out.Close()
		return busy
	}
	l.take(s.newConn(Addr{s.node, l.address.Port}, Addr{q.From, uint16(w[0])}, in, out))
	return accepted
}
