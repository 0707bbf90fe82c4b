package socket

// This file is what the goroutines of a Stack do when they drive the card (package lead), and the
// set of its connections.

import (
	"errors"
	"fmt"
	"net"

	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/lead"
	"github.com/funet/funet/uspace/rats"
)

// Intervals, in nanoseconds, of probing peers and looking at lingering connections, with a daemon's
// card and with one of the process's own. A daemon reports at once that one of its processes has
// gone. An embedded card ends with its process, and only its silence shows that, which takes
// seconds.
const (
	tick    = 500_000_000
	ownTick = 800_000_000
)

// waiter is a goroutine that waits for something of a connection or listener.
type waiter = lead.Waiter

// startDriving starts the goroutine that drives the card while no other does.
func (s *Stack) startDriving() error {
	w := lead.Work{Poll: s.poll, Pass: s.pass, Idle: s.quiet, Tick: tick}
	if _, own := s.carrier.(*card.Card); own {
		w.Tick = ownTick
	}
	return s.group.Keep(w)
}

// quiet reports that nothing is open that needs periodic work.
func (s *Stack) quiet() bool {
	return len(s.conns)+len(s.packets) == 0 && s.beside.Endpoint == nil
}

// poll lets the card run, and wakes the goroutines for which something has arrived. It reports
// whether anything has.
func (s *Stack) poll() bool {
	s.some = false
	i := s.carrier.Interface()
	if e := s.beside.Endpoint; e != nil && e.Err() == nil {
		s.some = s.beside.Poll() || s.some
		if err := e.Err(); err != nil && !errors.Is(err, net.ErrClosed) {
			s.fail(err)
		}
	} else {
		s.carrier.Look()
		s.sweep()
		// active messages are for nobody here
		for _, l := range [...]funi.Level{funi.Reply, funi.Request} {
			for ; i.Receive(l) != nil; i.Release(l) {
				s.some = true
			}
		}
	}
	if err := s.carrier.Err(); err != nil {
		s.fail(fmt.Errorf("the card: %w", err))
	} else if i.Gone() {
		s.fail(fmt.Errorf("the card: %w", i.Err()))
	}
	return s.some
}

// hear lets the card run, so that others hear of what the calling goroutine has done. It handles no
// messages while another goroutine leads, which may be handling some.
func (s *Stack) hear() {
	if s.group.Leads() {
		s.carrier.Look()
		s.sweep()
		return
	}
	s.poll()
}

// sweep wakes the goroutines for which something has arrived, after the card has run.
func (s *Stack) sweep() {
	s.some = s.m.Poll() || s.some
	for c, ok := s.m.NextReady(); ok; c, ok = s.m.NextReady() {
		switch c := c.(type) {
		case *Conn:
			c.ready()
		case *Stack:
			s.serve()
		case *PacketConn:
			c.in.Rouse()
		case *packetClient:
			c.ready()
		case *waiter:
			c.Rouse()
		}
	}
	if s.late != nil {
		s.serve()
	}
}

// peer is a node with connections.
type peer struct {
	conns map[*Conn]struct{}
}

// pass does the periodic work.
func (s *Stack) pass(now int64) {
	for _, p := range s.peers {
		for c := range p.conns { // any one
			c.w.Probe()
			break
		}
	}
	s.probePackets()
	if s.beside.Endpoint != nil {
		s.beside.Pass()
	}
	for c := range s.ending {
		c.linger(now)
	}
}

// lost fails all connections to a node that has gone.
func (s *Stack) lost(node uint16, err error) {
	if p := s.peers[node]; p != nil {
		for c := range p.conns {
			c.fail(err)
		}
	}
	s.losePackets(node)
}

// add and remove maintain the set of connections.
func (s *Stack) add(c *Conn) {
	s.conns[c] = struct{}{}
	p := s.peers[c.remote.Node]
	if p == nil {
		p = &peer{conns: map[*Conn]struct{}{}}
		s.peers[c.remote.Node] = p
	}
	p.conns[c] = struct{}{}
}

func (s *Stack) remove(c *Conn) {
	delete(s.conns, c)
	delete(s.ending, c)
	if p := s.peers[c.remote.Node]; p != nil {
		if delete(p.conns, c); len(p.conns) == 0 {
			delete(s.peers, c.remote.Node)
		}
	}
}

// full reports whether an error means that something must be closed first, or the card must run.
func full(err error) bool { return errors.Is(err, rats.ErrFull) }
