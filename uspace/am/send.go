package am

// This file sends messages: requests by the program, replies by request handlers.

import (
	"fmt"

	"github.com/funet/funet/uspace/funi"
)

// Request4 runs a handler on a node with four words, at request priority. It returns once the
// message is in the send queue and the card has run. While the queue is full it polls, so handlers
// may run. Main program only. Errors are ErrNode, ErrHandler in a handler, and Undelivered for
// earlier messages. After any error the message was not sent.
func (e *Endpoint) Request4(node int, handler, w0, w1, w2, w3 uint32) error {
	if err := e.post4(node, typeFour, handler, w0, w1, w2, w3); err != nil {
		return err
	}
	e.drive()
	return nil
}

// Request runs a handler on a node with up to MaxWords words, which are copied. It is otherwise
// like Request4; more words return ErrWords.
func (e *Endpoint) Request(node int, handler uint32, words ...uint32) error {
	if err := e.post(node, typeN, handler, words); err != nil {
		return err
	}
	e.drive()
	return nil
}

// Post4 is Request4 for programs that send many messages in a row. The message may wait in the send
// queue until the next Request, Poll, Wait or Barrier, so that several leave in one frame. Three
// nodes on two processors each sent the two others 10,000 messages. On cards of their own that took
// 275 to 407 ms with Request4 and 15 to 17 ms with Post4. Through daemons it took 37 to 69 ms with
// Request4 and 13 to 25 ms with Post4.
func (e *Endpoint) Post4(node int, handler, w0, w1, w2, w3 uint32) error {
	return e.post4(node, typeFour, handler, w0, w1, w2, w3)
}

// Post is Request for programs that send many messages in a row; see Post4.
func (e *Endpoint) Post(node int, handler uint32, words ...uint32) error {
	return e.post(node, typeN, handler, words)
}

// Reply4 runs a handler on the node that sent the request, with four words, at reply priority. Only
// a request handler may call it, any number of times (ErrHandler). While the queue is full reply
// handlers may run.
func (m *Message) Reply4(handler, w0, w1, w2, w3 uint32) error {
	return m.reply4(typeFour, handler, w0, w1, w2, w3)
}

// Reply is Reply4 with up to MaxWords words (ErrWords), which are copied.
func (m *Message) Reply(handler uint32, words ...uint32) error {
	return m.reply(typeN, handler, words)
}

// post4 sends a request with a first word and four more.
func (c *core) post4(node int, typ uint16, first, w0, w1, w2, w3 uint32) error {
	s, err := c.reserve(node, 4)
	if err != nil {
		return err
	}
	s[2], s[3], s[4], s[5] = w0, w1, w2, w3
	c.launch(funi.Request, s, node, typ, first, 4)
	return nil
}

// post sends a request with a first word and any number of others.
func (c *core) post(node int, typ uint16, first uint32, words []uint32) error {
	s, err := c.reserve(node, len(words))
	if err != nil {
		return err
	}
	c.launch(funi.Request, s, node, typ, first, copy(s[funi.PayloadWord+1:], words))
	return nil
}

// reply4 sends a reply with a first word and four more.
func (m *Message) reply4(typ uint16, first, w0, w1, w2, w3 uint32) error {
	s, err := m.reserve(4)
	if err != nil {
		return err
	}
	s[2], s[3], s[4], s[5] = w0, w1, w2, w3
	m.endpoint.launch(funi.Reply, s, m.Source, typ, first, 4)
	return nil
}

// reply sends a reply with a first word and any number of others.
func (m *Message) reply(typ uint16, first uint32, words []uint32) error {
	s, err := m.reserve(len(words))
	if err != nil {
		return err
	}
	m.endpoint.launch(funi.Reply, s, m.Source, typ, first, copy(s[funi.PayloadWord+1:], words))
	return nil
}

// launch sends a slot with the number of words that are in it behind the first word.
func (c *core) launch(l funi.Level, s *funi.Slot, node int, typ uint16, first uint32, words int) {
	if c.member != nil && tellsLives(typ) {
		first |= c.member.stamp(node)
	}
	s.SetHeader(funi.NewHeader(uint16(node), typ, 1+words))
	s[funi.PayloadWord] = first
	c.commit(l, s)
}

// refusal returns why a request to a node must not be sent here, or nil.
func (c *core) refusal(node, words int) error {
	switch {
	case words > MaxWords:
		return fmt.Errorf("sending %d words to node %d: %w", words, node, ErrWords)
	case uint(node) >= uint(c.nodes):
		return fmt.Errorf("sending to node %d of %d: %w", node, c.nodes, ErrNode)
	case c.inHandler():
		return fmt.Errorf("sending a request to node %d: %w", node, ErrHandler)
	}
	return nil
}

// reserve waits for a slot of the request send queue and returns it.
func (c *core) reserve(node, words int) (*funi.Slot, error) {
	if words > MaxWords || uint(node) >= uint(c.nodes) || c.inHandler() {
		return nil, c.refusal(node, words)
	}
	if c.member != nil {
		if err := c.member.admit(node); err != nil {
			return nil, err
		}
	}
	for {
		if s := c.iface.Reserve(funi.Request); s != nil {
			return s, nil
		}
		if c.pace != nil {
			c.pace.full(funi.Request)
		}
		if _, err := c.e.Poll(); err != nil {
			return nil, err
		}
	}
}

// reserve waits for a slot of the reply send queue and returns it. The next Poll reports messages
// that came back meanwhile.
func (m *Message) reserve(words int) (*funi.Slot, error) {
	e := m.endpoint
	if words > MaxWords {
		return nil, fmt.Errorf("replying with %d words to node %d: %w", words, m.Source, ErrWords)
	}
	if m.level != funi.Request || !e.depth[funi.Request] || e.depth[funi.Reply] {
		return nil, fmt.Errorf("replying to node %d: %w", m.Source, ErrHandler)
	}
	for {
		if s := e.iface.Reserve(funi.Reply); s != nil {
			return s, nil
		}
		e.drive()
		if err := e.ended("replying"); err != nil {
			return nil, err
		}
		if e.pace != nil {
			e.pace.full(funi.Reply)
			e.pace.cpu.Work(pollCost)
			e.pace.look(funi.Reply)
			continue
		}
		e.service(funi.Reply, burst)
	}
}
