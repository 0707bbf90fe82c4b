package socket

// This file implements connections.

import (
	"net"
	"os"
	"syscall"

	"github.com/funet/funet/uspace/rats"
)

// lingering is how long data written before Close may take to arrive, in nanoseconds.
const lingering = 10_000_000_000

// Conn is a connection, a net.Conn.
type Conn struct {
	end
	remote Addr
	r      *rats.Receiver
	w      *rats.Sender
	err    error // of the node or the card, for both directions
	shut   bool  // CloseWrite
	until  int64 // after Close, when to give up
	left   bool  // it has been removed from the stack
}

var _ net.Conn = (*Conn)(nil)

// newConn makes a connection of two ends.
func (s *Stack) newConn(local, remote Addr, r *rats.Receiver, w *rats.Sender) *Conn {
	c := &Conn{end: s.newEnd(local), remote: remote, r: r, w: w}
	r.Context, w.Context = c, c
	s.add(c)
	return c
}

// ready is called when something has happened to one of the ends.
func (c *Conn) ready() {
	for _, err := range []error{c.r.Err(), c.w.Err()} {
		if ofNode(err) && c.err == nil {
			c.s.lost(c.remote.Node, err)
		}
	}
	c.in.Rouse()
	c.out.Rouse()
	if c.closed {
		c.linger(c.s.carrier.Now())
	}
}

// fail ends a connection.
func (c *Conn) fail(err error) {
	if c.err == nil {
		c.err = err
		c.in.Rouse()
		c.out.Rouse()
	}
}

// Read copies data that has arrived, and waits until there is some.
func (c *Conn) Read(b []byte) (n int, err error) {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	c.s.group.Lock()
	defer c.s.group.Unlock()
	for {
		passed := c.in.done()
		switch {
		case c.closed:
			return 0, wrong("read", c.local, c.remote, net.ErrClosed)
		case over(passed):
			return 0, wrong("read", c.local, c.remote, os.ErrDeadlineExceeded)
		case len(b) == 0:
			return 0, nil
		}
		if n, err = c.r.Read(b); n > 0 {
			return n, nil
		}
		if err == nil {
			err = c.err
		}
		if err != nil {
			return 0, wrong("read", c.local, c.remote, cause(err, syscall.ECONNRESET))
		}
		c.s.group.Await(&c.in.waiter, passed)
	}
}

// Write copies all of b into memory that the card sends from, and waits while there is no room.
func (c *Conn) Write(b []byte) (n int, err error) {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	c.s.group.Lock()
	defer c.s.group.Unlock()
	for {
		passed := c.out.done()
		switch {
		case c.closed:
			return n, wrong("write", c.local, c.remote, net.ErrClosed)
		case over(passed):
			return n, wrong("write", c.local, c.remote, os.ErrDeadlineExceeded)
		case c.shut:
			return n, wrong("write", c.local, c.remote, syscall.EPIPE)
		case c.err != nil:
			return n, wrong("write", c.local, c.remote, cause(c.err, syscall.EPIPE))
		}
		k, err := c.w.WriteBytes(b[n:])
		if err != nil {
			return n, wrong("write", c.local, c.remote, cause(err, syscall.EPIPE))
		}
		if n += k; n == len(b) {
			c.s.carrier.Look() // it leaves now
			return n, nil
		}
		c.s.group.Await(&c.out.waiter, passed)
	}
}

// CloseWrite ends the written data: the peer reads io.EOF behind it.
func (c *Conn) CloseWrite() error {
	c.s.group.Lock()
	defer c.s.group.Unlock()
	if c.closed {
		return wrong("close", c.local, c.remote, net.ErrClosed)
	}
	c.shut = true
	c.w.CloseWrite()
	c.out.Rouse()
	c.s.hear()
	return nil
}

// Close closes the connection, and ends calls that wait. Written data is delivered in the
// background, for at most 10 s.
func (c *Conn) Close() error {
	c.s.group.Lock()
	defer c.s.group.Unlock()
	if c.closed {
		return wrong("close", c.local, c.remote, net.ErrClosed)
	}
	c.closed, c.until = true, c.s.carrier.Now()+lingering
	c.in.Rouse()
	c.out.Rouse()
	c.w.CloseWrite()
	c.r.Close()
	c.s.ending[c] = struct{}{}
	c.linger(c.s.carrier.Now())
	c.s.hear()
	return nil
}

// abort closes the connection without delivering anything.
func (c *Conn) abort() {
	c.closed = true
	c.r.Close()
	c.part()
}

// linger checks whether a closed connection can be released.
func (c *Conn) linger(now int64) {
	if c.closed && !c.left && (c.w.Done() || c.w.Err() != nil || c.err != nil || now >= c.until) {
		c.part()
	}
}

// part releases all resources of the connection.
func (c *Conn) part() {
	if !c.left {
		c.left = true
		c.w.Close()
		c.s.remove(c)
	}
}

// RemoteAddr returns the peer's address, an Addr.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }
