package apps

// This file is the part of the CMAM benchmark that measures sending and receiving of
// messages and blocks, of both levels.

import (
	"fmt"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/funi"
)

// sendRequests measures sending at request priority, to all nodes in turn.
func (c *cmam) sendRequests(p primitive) func() error {
	return func() error {
		e, n := c.e, c.o.Messages
		if e.Node() != 0 {
			want := (n + e.Nodes() - 1 - e.Node()) / (e.Nodes() - 1)
			// It leaves the messages where they are until all are there, and does not look often:
			// both would hold up its card, and that node 0's if it sends to few.
			for c.got(p)+e.Waiting(funi.Request) < want {
				e.Work(cmamPause)
			}
			return e.Wait(func() bool { return c.got(p) == want })
		}
		for !e.Retrieved(funi.Request) {
			if _, err := e.Poll(); err != nil {
				return err
			}
		}
		begin := c.clock()
		for i := range n {
			if err := p.send(1+i%(e.Nodes()-1), i); err != nil {
				return err
			}
		}
		sent := c.clock()
		for !e.Retrieved(funi.Request) {
			if _, err := e.Poll(); err != nil {
				return err
			}
		}
		c.row("cmam_"+p.name, "send_tp", c.clock()-begin, n, p.bytes)
		c.row("cmam_"+p.name, "send_ovhd", sent-begin, n, p.bytes)
		return nil
	}
}

// sendReplies is the handler that sends replies: by which primitive, how many, and which
// is the first.
func (c *cmam) sendReplies(m *am.Message) {
	if len(m.Words) != 4 || m.Words[0] >= uint32(len(c.primitives)) {
		c.note(fmt.Errorf("%w: a question of %d words", ErrVerify, len(m.Words)))
		return
	}
	p, n, first := c.primitives[m.Words[0]], int(m.Words[1]), int(m.Words[2])
	c.e.Retrieved(funi.Reply) // the queue's state is known when the clock starts
	c.began = c.clock()
	for i := range n {
		c.note(p.reply(m, first+i))
	}
	c.sent = c.clock()
}

// sendsReplies measures sending at reply priority: node 1 asks node 0.
func (c *cmam) sendsReplies(which int, p primitive) func() error {
	return func() error {
		e, n := c.e, c.o.Messages
		switch e.Node() {
		case 1:
			if err := e.Request4(0, cmamSend, uint32(which), uint32(n), 0, 0); err != nil {
				return err
			}
			// It looks for node 0's word that it is done, and leaves the replies where they are:
			// handling them would hold up its card, and that node 0's.
			for e.Waiting(funi.Request) == 0 {
			}
			return e.Wait(func() bool { return c.got(p) == n })
		case 0:
			if err := e.Wait(func() bool { return c.sent != 0 }); err != nil {
				return err
			}
			for !e.Retrieved(funi.Reply) {
				if _, err := e.Poll(); err != nil {
					return err
				}
			}
			c.row("cmam_reply_"+p.name, "send_tp", c.clock()-c.began, n, p.bytes)
			c.row("cmam_reply_"+p.name, "send_ovhd", c.sent-c.began, n, p.bytes)
		}
		return nil
	}
}

// recvRequests measures receiving at request priority.
func (c *cmam) recvRequests(p primitive) func() error {
	return func() error {
		e, each := c.e, c.o.Messages/c.senders
		if e.Node() == 0 {
			return c.recv("cmam_"+p.name, funi.Request, p)
		}
		if e.Node() <= c.senders {
			for i := range each {
				if err := p.send(0, (e.Node()-1)*each+i); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// recvReplies measures receiving at reply priority: node 0 asks the others.
func (c *cmam) recvReplies(which int, p primitive) func() error {
	return func() error {
		e, each := c.e, c.o.Messages/c.senders
		if e.Node() != 0 {
			return nil
		}
		for node := 1; node <= c.senders; node++ {
			if err := e.Request4(node, cmamSend, uint32(which), uint32(each), uint32((node-1)*each), 0); err != nil {
				return err
			}
		}
		return c.recv("cmam_reply_"+p.name, funi.Reply, p)
	}
}

// recv waits for all messages and handles them. Messages that arrived and were handled during the
// barrier or the questions are not measured.
func (c *cmam) recv(name string, l funi.Level, p primitive) error {
	e, n := c.e, c.o.Messages
	for c.got(p) < n && e.Waiting(l) == 0 {
	}
	begin := c.clock()
	for c.got(p)+e.Waiting(l) < n {
	}
	there := c.clock()
	left := max(n-c.got(p), 1)
	if err := e.Wait(func() bool { return c.got(p) == n }); err != nil {
		return err
	}
	end := c.clock()
	// The first was there when the clock started, so one fewer came while it ran.
	c.row(name, "recv_tp", end-there+(there-begin)*int64(left)/int64(max(left-1, 1)), left, p.bytes)
	c.row(name, "recv_ovhd", end-there, left, p.bytes)
	return nil
}
