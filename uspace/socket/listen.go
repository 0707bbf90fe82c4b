package socket

// This file implements listeners.

import (
	"net"
	"os"
	"sync"
	"time"
)

const (
	// backlog is how many connections of a listener may be made and not accepted; further dialers
	// wait.
	backlog = 128
	// nodeBacklog is how many of these may come from one node.
	nodeBacklog = 32
)

// Listener accepts connections, a net.Listener.
type Listener struct {
	s         *Stack
	address   Addr
	queue     []*Conn
	from      map[uint16]int // connections in the queue, by node
	closed    bool
	accepting sync.Mutex // one goroutine waits
	acceptor  waiter
	deadline
}

var _ net.Listener = (*Listener)(nil)

// Listen listens on a port of this node, ":PORT" of network "funet"; 0 picks one. Errors are a
// *net.OpError with EADDRINUSE or EADDRNOTAVAIL.
func (s *Stack) Listen(network, address string) (net.Listener, error) {
	s.group.Lock()
	defer s.group.Unlock()
	a, err := s.bind(network, address, s.listens)
	if err != nil {
		return nil, err
	}
	l := &Listener{s: s, address: a, from: map[uint16]int{}, acceptor: s.group.NewWaiter()}
	s.ports[a.Port] = l
	return l, nil
}

// room reports whether a connection from a node may be made.
func (l *Listener) room(node uint16) bool {
	return len(l.queue) < backlog && l.from[node] < nodeBacklog
}

// take puts a connection into the queue.
func (l *Listener) take(c *Conn) {
	l.queue = append(l.queue, c)
	l.from[c.remote.Node]++
	l.acceptor.Rouse()
}

// Accept returns the oldest connection that was not accepted, and waits until there is one.
func (l *Listener) Accept() (net.Conn, error) {
	l.accepting.Lock()
	defer l.accepting.Unlock()
	l.s.group.Lock()
	defer l.s.group.Unlock()
	for {
		passed := l.done()
		switch {
		case l.closed:
			return nil, wrong("accept", nil, l.address, net.ErrClosed)
		case l.s.err != nil:
			return nil, wrong("accept", nil, l.address, l.s.err)
		case over(passed):
			return nil, wrong("accept", nil, l.address, os.ErrDeadlineExceeded)
		case len(l.queue) > 0:
			c := l.queue[0]
			l.queue = l.queue[1:]
			if l.from[c.remote.Node]--; l.from[c.remote.Node] == 0 {
				delete(l.from, c.remote.Node)
			}
			return c, nil
		}
		l.s.group.Await(&l.acceptor, passed)
	}
}

// Close ends listening, and calls of Accept. Connections that were not accepted are reset.
func (l *Listener) Close() error {
	l.s.group.Lock()
	defer l.s.group.Unlock()
	if l.closed {
		return wrong("close", nil, l.address, net.ErrClosed)
	}
	l.close()
	return nil
}

func (l *Listener) close() {
	if l.closed {
		return
	}
	l.closed = true
	delete(l.s.ports, l.address.Port)
	for _, c := range l.queue {
		c.abort()
	}
	l.queue = nil
	l.acceptor.Rouse()
}

// Addr returns the listener's address, an Addr.
func (l *Listener) Addr() net.Addr { return l.address }

// SetDeadline sets the time at which calls of Accept end; the zero time removes it.
func (l *Listener) SetDeadline(t time.Time) error {
	l.set(t)
	return nil
}
