package am

// This file receives messages: it polls, and waits for messages yet to arrive.

import (
	"fmt"
	"iter"

	"github.com/funet/funet/uspace/funi"
)

const (
	// burst is how many requests are handled between two looks for replies.
	burst = 256
	// most is about how many messages one Poll handles each time that the card has run. It is as
	// many as a queue of the default size holds. So a receiver that is fast enough handles all
	// messages before the card brings more, and rejects nothing. It is no more than that, so that a
	// polling program gets back to its work under any load.
	most = 1024

	// A caller that waits for a node sends the node a probe after firstProbe polls, some tens of
	// milliseconds on a card in the same process. Each further probe follows after twice as many
	// polls as the last, up to mostProbePolls. Waits for a node that is gone are rare.
	firstProbe     = 1 << 16
	mostProbePolls = 1 << 20
)

// Poll lets the card run and handles messages that have arrived: replies first, and again after at
// most 256 requests. It returns how many messages it handled, at most some 2,000. It returns an
// Undelivered error if messages came back, or funi.ErrDetached if the card is gone. Main program
// only (ErrHandler).
func (e *Endpoint) Poll() (int, error) {
	if e.inHandler() {
		return 0, fmt.Errorf("polling: %w", ErrHandler)
	}
	if e.pace != nil {
		return e.pace.poll()
	}
	n := 0
	if e.iface.News(e.lost) {
		n = e.handleAll() // what the last drive brought; else two would fill the queue
	}
	e.drive()
	replies, news := e.iface.Heads(), e.iface.News(e.lost)
	if news {
		n += e.handleAll()
		news = e.iface.News(e.lost)
	}
	replied := e.iface.Heads() != replies
	if news || e.member != nil || len(e.tags.busy) > 0 || e.tags.granted.first != nil || e.bytes.busy ||
		e.bytes.waits || len(e.remote.back) > 0 || e.failed != nil || e.bound.ended.Load() {
		return e.tidy(n, replied)
	}
	if replied {
		e.drive() // what the handlers replied leaves now
	}
	return n, nil
}

// Still reports whether a poll of an endpoint would do nothing but look for what has come. Any
// context.
func Still(e *Endpoint) bool {
	return e.pace == nil && !e.iface.News(e.lost) && (e.member == nil || e.member.still()) &&
		len(e.tags.busy) == 0 && e.tags.granted.first == nil && !e.bytes.busy && !e.bytes.waits &&
		len(e.remote.back) == 0 && e.failed == nil && !e.bound.ended.Load() && e.bytes.homeless == nil
}

// tidy does the rest of a poll that has handled n messages, and may have something to send or to
// report.
func (e *Endpoint) tidy(n int, replied bool) (int, error) {
	if e.member != nil {
		if err := e.member.tend(); err != nil {
			return n, err
		}
	}
	said := e.tags.say()
	if e.bytes.pumps(n) && e.bytes.pump() || said || replied {
		e.drive()
	}
	return n, e.returned()
}

// Waiting returns how many messages of a level have arrived and were not handled: 0 to the size of
// a queue less one. It lets the card run and handles none. Any context.
func (e *Endpoint) Waiting(l funi.Level) int {
	e.drive()
	if e.pace != nil {
		e.pace.seek(l)
	}
	return e.iface.Arrived(l)
}

// InHandler reports whether a handler is running. Any context.
func (e *Endpoint) InHandler() bool { return e.inHandler() }

func (c *core) inHandler() bool { return c.depth[funi.Request] || c.depth[funi.Reply] }

// quietly calls the program's function of an operation that ended, or of an event. The function may
// not send, because the endpoint may be in the middle of receiving.
func (c *core) quietly(f func()) {
	in := c.depth[funi.Reply]
	c.depth[funi.Reply] = true
	f()
	c.depth[funi.Reply] = in
}

// handleAll handles messages that have arrived, replies first, and returns how many.
func (e *Endpoint) handleAll() (n int) {
	if e.bytes.handlers != nil {
		defer e.bytes.recovered()
	}
	for n < most {
		n += e.service(funi.Reply, most)
		some := e.service(funi.Request, burst)
		if n += some; some < burst {
			break
		}
	}
	return n
}

// service handles the messages of one level, at most the given number.
func (e *Endpoint) service(l funi.Level, most int) int {
	n := 0
	for n < most {
		s := e.iface.Receive(l)
		if s == nil {
			break
		}
		if e.pace != nil {
			e.pace.receive(l, s)
		}
		e.handle(l, s)
		e.iface.Release(l)
		n++
	}
	return n
}

// Wait polls until done returns true. It returns the first Undelivered error of any message. While
// nothing is under way to a node, it cannot detect that the node is gone; see WaitFor. Main program
// only (ErrHandler, unless done at once).
func (e *Endpoint) Wait(done func() bool) error {
	for !done() {
		if _, err := e.Poll(); err != nil {
			return err
		}
	}
	return nil
}

// WaitFor is Wait for something that a node has yet to send. Now and then it sends that node a
// probe, which comes back if the node is gone. Once everything sent before has been acknowledged,
// nothing else would show that. With Rejoin it returns ErrLeft when the node has left.
func (e *Endpoint) WaitFor(node int, done func() bool) error {
	if e.member != nil {
		return e.member.waitFor(node, done)
	}
	return e.wait(done, func() error { return e.probe(node) })
}

// WaitFlag is WaitFor until a flag, which handlers increment, has reached n; then it subtracts n
// (cmam_wait). n is at least 0.
func (e *Endpoint) WaitFlag(node int, flag *int, n int) error {
	if err := e.WaitFor(node, func() bool { return *flag >= n }); err != nil {
		return err
	}
	*flag -= n
	return nil
}

// wait polls until done returns true, and calls probe now and then.
func (c *core) wait(done func() bool, probe func() error) error {
	gap := firstProbe
	for left := gap; !done(); left-- {
		if _, err := c.e.Poll(); err != nil {
			if inVain(err) && done() {
				return nil
			}
			return err
		}
		if left == 0 && !done() {
			gap = min(2*gap, mostProbePolls)
			left = gap
			if err := probe(); err != nil {
				return err
			}
		}
	}
	return nil
}

// probeEach probes each node of a list; of equal nodes in a row it probes one. A negative number
// stands for no node.
func (c *core) probeEach(nodes iter.Seq[int]) error {
	last := -1
	for node := range nodes {
		if node == last || node < 0 {
			continue
		}
		last = node
		if err := c.probe(node); err != nil {
			return err
		}
	}
	return nil
}

// probe sends a request that the receiver drops.
func (c *core) probe(node int) error {
	s, err := c.reserve(node, 0)
	if err != nil {
		return err
	}
	s.SetHeader(funi.NewHeader(uint16(node), typeProbe, 1))
	s[funi.PayloadWord] = 0
	c.commit(funi.Request, s)
	return nil
}
