package apps

// This file is the CMAM primitives benchmark (thesis 6.2.1): what each primitive takes.
//
// Node 0 is measured; the others send to it, receive from it, or answer. Overhead is the
// processor's time for one primitive: of messages sent while the send queue has room, or
// received when they have all arrived before. Throughput time is the time until the card
// has done its part too (Figure 6.1): sending, until the send queue is empty again;
// receiving, from when the first message is there until the program has handled the last,
// while the others arrive.
//
// Every message is counted, and every block compared.

import (
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/funi"
)

// Handler numbers of the benchmark.
const (
	cmamCount = iota // counts
	cmamSend         // send me replies
	cmamPing
	cmamPong
	cmamStop
)

const (
	cmamBase   = 0x1000000
	cmamMemory = 1 << 16
	mferWords  = 16
)

// CMAMOptions are the same on all nodes.
type CMAMOptions struct {
	// Messages is how many of each primitive are measured: fewer than the queues have slots.
	Messages int
}

// CMAMRow is one measurement.
type CMAMRow struct {
	Name, Measure string
	Nanoseconds   float64 // of one call
	Bytes         int     // that a call moves; 0: the row is not one of block transfer
}

// primitive is a way to send a message, as a request and as a reply.
type primitive struct {
	name  string
	bytes int
	send  func(e *am.Endpoint, node, i int) error
	reply func(m *am.Message, i int) error
}

type cmam struct {
	e       *am.Endpoint
	clock   func() int64
	o       CMAMOptions
	rows    []CMAMRow
	got     int
	stop    int
	failed  error
	began   int64 // sending replies
	ended   int64
	words20 [am.MaxWords]uint32
}

func (c *cmam) primitives() []primitive {
	words := func(n int) []uint32 { return c.words20[:n] }
	return []primitive{
		{"4", 0, func(e *am.Endpoint, node, i int) error { return e.Post4(node, cmamCount, 1, 2, 3, 4) },
			func(m *am.Message, i int) error { return m.Reply4(cmamCount, 1, 2, 3, 4) }},
		{"n=1", 0, func(e *am.Endpoint, node, i int) error { return e.Post(node, cmamCount, words(1)...) },
			func(m *am.Message, i int) error { return m.Reply(cmamCount, words(1)...) }},
		{"n=20", 0, func(e *am.Endpoint, node, i int) error { return e.Post(node, cmamCount, words(20)...) },
			func(m *am.Message, i int) error { return m.Reply(cmamCount, words(20)...) }},
	}
}

// CMAM runs the benchmark; the group has at least two nodes. On nodes other than 0 there
// are no rows. Register makes a segment known to the card of this process; clock returns
// nanoseconds.
func CMAM(e *am.Endpoint, register func(funi.Segment) error, clock func() int64, o CMAMOptions) ([]CMAMRow, error) {
	c := &cmam{e: e, clock: clock, o: o}
	err := errors.Join(
		e.Handle(cmamCount, func(*am.Message) { c.got++ }),
		e.Handle(cmamSend, c.sendReplies),
		e.Handle(cmamPing, func(m *am.Message) { c.note(m.Reply4(cmamPong, 1, 2, 3, 4)) }),
		e.Handle(cmamPong, func(*am.Message) { c.got++ }),
		e.Handle(cmamStop, func(*am.Message) { c.stop++ }),
	)
	if err != nil {
		return nil, err
	}
	if err := e.Barrier(); err != nil {
		return nil, err
	}
	for i, p := range c.primitives() {
		for _, step := range []func(int, primitive) error{c.sendRequests, c.replies, c.recvRequests, c.recvReplies} {
			if err := errors.Join(step(i, p), c.failed, e.Barrier()); err != nil {
				return nil, fmt.Errorf("measuring %s: %w", p.name, err)
			}
		}
	}
	return c.rows, nil
}

func (c *cmam) note(err error) {
	if err != nil && c.failed == nil {
		c.failed = err
	}
}

func (c *cmam) row(name, measure string, ns int64, count, bytes int) {
	c.rows = append(c.rows, CMAMRow{name, measure, float64(ns) / float64(count), bytes})
}

// sendRequests measures sending at request priority.
func (c *cmam) sendRequests(_ int, p primitive) error {
	e, n := c.e, c.o.Messages
	if e.Node() != 0 {
		return nil
	}
	for !e.Retrieved(funi.Request) {
	}
	begin := c.clock()
	for i := range n {
		if err := p.send(e, 1+i%(e.Nodes()-1), i); err != nil {
			return err
		}
	}
	end := c.clock()
	for !e.Retrieved(funi.Request) {
		if _, err := e.Poll(); err != nil {
			return err
		}
	}
	c.row("cmam_"+p.name, "send_tp", c.clock()-begin, n, p.bytes)
	c.row("cmam_"+p.name, "send_ovhd", end-begin, n, p.bytes)
	for i := range n { // EXPERIMENT
		if i == n/2 { begin = c.clock() }
		if err := p.send(e, 1+i%(e.Nodes()-1), i); err != nil {
			return err
		}
	}
	for i := range n { // EXPERIMENT
		if err := p.send(e, 1+i%(e.Nodes()-1), i); err != nil {
			return err
		}
	}
	c.row("cmam_"+p.name, "send_tpA", c.clock()-begin, n+n/2, p.bytes)
	for !e.Retrieved(funi.Request) {
		if _, err := e.Poll(); err != nil {
			return err
		}
	}
	return nil
}

// sendReplies is the handler that sends replies.
func (c *cmam) sendReplies(m *am.Message) {
	p := c.primitives()[m.Words[0]]
	c.began = c.clock()
	for i := range int(m.Words[1]) {
		c.note(p.reply(m, i))
	}
	c.ended = c.clock()
}

// replies measures sending at reply priority: node 1 asks node 0.
func (c *cmam) replies(i int, p primitive) error {
	e, n := c.e, c.o.Messages
	switch e.Node() {
	case 1:
		c.got = 0
		if err := e.Request4(0, cmamSend, uint32(i), uint32(n), 0, 0); err != nil {
			return err
		}
		return e.Wait(func() bool { return c.got == n })
	case 0:
		c.ended = 0
		if err := e.Wait(func() bool { return c.ended != 0 }); err != nil {
			return err
		}
		for !e.Retrieved(funi.Reply) {
			if _, err := e.Poll(); err != nil {
				return err
			}
		}
		c.row("cmam_reply_"+p.name, "send_tp", c.clock()-c.began, n, p.bytes)
		c.row("cmam_reply_"+p.name, "send_ovhd", c.ended-c.began, n, p.bytes)
	}
	return nil
}

// recvRequests measures receiving at request priority.
func (c *cmam) recvRequests(_ int, p primitive) error {
	return c.recv("cmam_"+p.name, funi.Request, p, func(n int) error {
		for i := range n {
			if err := p.send(c.e, 0, i); err != nil {
				return err
			}
		}
		return nil
	}, func(int) error { return nil })
}

// recvReplies measures receiving at reply priority: node 0 asks the others.
func (c *cmam) recvReplies(i int, p primitive) error {
	return c.recv("cmam_reply_"+p.name, funi.Reply, p, func(n int) error { return nil },
		func(n int) error {
			for node := 1; node < c.e.Nodes(); node++ {
				if err := c.e.Request4(node, cmamSend, uint32(i), uint32(n), 0, 0); err != nil {
					return err
				}
			}
			return nil
		})
}

// recv measures receiving: once while messages arrive, once after all have.
func (c *cmam) recv(name string, l funi.Level, p primitive, send, ask func(n int) error) error {
	e := c.e
	each := max(c.o.Messages/(e.Nodes()-1), 1)
	n := each * (e.Nodes() - 1)
	for _, wait := range []int{1, n} {
		if err := e.Barrier(); err != nil {
			return err
		}
		if e.Node() != 0 {
			if err := send(each); err != nil {
				return err
			}
			continue
		}
		c.got = 0
		if err := ask(each); err != nil {
			return err
		}
		for e.Waiting(l) < wait {
		}
		had := c.got
		begin := c.clock()
		if err := e.Wait(func() bool { return c.got == n }); err != nil {
			return err
		}
		measure := "recv_tp"
		if wait == n {
			measure = "recv_ovhd"
		}
		c.row(name, measure, c.clock()-begin, n-had, p.bytes)
	}
	return nil
}
