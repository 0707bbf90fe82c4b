package apps

// This file is the CMAM primitives benchmark (thesis 6.2.1): the time of each primitive.
//
// Node 0 is measured; the others send to it, receive from it, or answer. Overhead is the
// processor's time for one primitive; throughput time is until the card has done its part
// as well (Figure 6.1):
//
//	sending    overhead until the program has sent all messages, which fit the send
//	           queue; throughput until the card has retrieved them
//	receiving  overhead from when all messages are in the receive queue until the program
//	           has handled them; throughput from when the first is there
//
// Times are the time of the whole divided by the number of messages. Nothing else is sent
// meanwhile: nodes that are not part of a measurement wait for a message of node 0.

import (
	"errors"
	"fmt"
	"slices"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/funi"
)

// Handler numbers of the benchmark.
const (
	cmamCount = iota // counts
	cmamSend         // sends replies
	cmamPing         // replies four words
	cmamPingN        // replies one word, variable length
	cmamStop         // ends a measurement
)

const (
	cmamSource = 0x1000000 // memory that blocks come from,
	cmamInto   = 0x2000000 // and that they go to
	cmamMemory = 1 << 16
	// cmamSenders is the most nodes that send to node 0 at a time: enough to keep its card busy.
	cmamSenders = 4
	// cmamCalls is how many calls are in flight: few enough that none is complete before the last
	// has begun.
	cmamCalls = 8
	// cmamRounds is how many times a primitive that takes a round trip is measured.
	cmamRounds = 16
	// cmamRow is how many barriers follow each other.
	cmamRow = 4
	// cmamStarts is how many times nodes begin a row of barriers.
	cmamStarts = 128

	// cmamPause is the work of a node that is not measured between two looks for messages, in
	// cycles. It is that of a few messages.
	cmamPause = 400

	xferBytes = 16
)

// CMAMOptions are the same on all nodes.
type CMAMOptions struct {
	// Messages is how many of each primitive are measured: a multiple of 4 up to 252, and
	// fewer than the queues have slots.
	Messages int
	// Rounds is how often everything is measured, up to 100; rows are medians over the
	// rounds. 0 stands for 1.
	Rounds int
	// InPhase starts each round trip where the one before ended. Without it round trips start at
	// many different moments of the answering node's loop, and rows are means over these.
	InPhase bool
	// Progress is told how many rounds are done.
	Progress Progress
}

// CMAMRow is one measurement, named as in Table 6.1 of the thesis.
type CMAMRow struct {
	Name, Measure string
	Nanoseconds   float64 // of one call
	Bytes         int     // that a call moves; 0: it is not one of block transfer
}

// primitive is a way to send message i, as a request and as a reply.
type primitive struct {
	name  string
	bytes int // that it moves into a segment; 0: it runs a handler
	send  func(node, i int) error
	reply func(m *am.Message, i int) error
}

// cmam is a node's state.
type cmam struct {
	e           *am.Endpoint
	clock       func() int64
	o           CMAMOptions
	senders     int
	primitives  []primitive
	rows        []CMAMRow
	into        []byte
	segment     am.Place
	opened      bool
	counted     int // handlers that ran, and
	remaining   int // what was missing of the segment, since the step began
	stops       int
	failed      error // of a handler
	began, sent int64 // the replies of sendReplies
}

// CMAM runs the benchmark; the group has at least two nodes. On nodes other than 0 there are no
// rows. Segment returns memory that the card of this process may use, as Segment of a card and of a
// daemon's client does; clock returns nanoseconds. Blocks are compared at the end of each round
// (ErrVerify).
func CMAM(e *am.Endpoint, segment func(uint32, int, funi.Rights) ([]byte, error), clock func() int64,
	o CMAMOptions) ([]CMAMRow, error) {
	if e.Nodes() < 2 || o.Messages < cmamSenders || o.Messages%cmamSenders != 0 || o.Messages > 252 || o.Rounds < 0 ||
		o.Rounds > 100 {
		return nil,
			fmt.Errorf("measuring %d messages in %d rounds on %d nodes: use a multiple of %d messages up to 252, up to 100 rounds, and at least 2 nodes", o.Messages, o.Rounds, e.Nodes(), cmamSenders)
	}
	c := &cmam{e: e, clock: clock, o: o, senders: min(cmamSenders, e.Nodes()-1)}
	for o.Messages%c.senders != 0 {
		c.senders-- // each sends as many
	}
	if err := c.prepare(segment); err != nil {
		return nil, err
	}
	steps := []func() error{c.roundTrip("cmam_4", func() error { return e.Request4(1, cmamPing, 1, 2, 3, 4) }),
		c.roundTrip("cmam_n=1", func() error { return e.Request(1, cmamPingN, 1) })}
	for i, p := range c.primitives {
		steps = append(steps, c.sendRequests(p), c.sendsReplies(i, p), c.recvRequests(p), c.recvReplies(i, p))
	}
	steps = append(steps, c.calls()...)
	for round := range max(o.Rounds, 1) {
		o.Progress.tell(round, max(o.Rounds, 1))
		if err := c.open(); err != nil {
			return nil, err
		}
		for _, step := range steps {
			if err := c.measure(step); err != nil {
				return nil, err
			}
		}
		if err := errors.Join(c.barrier(), c.verify()); err != nil {
			return nil, err
		}
	}
	return medians(c.rows), nil
}

// medians returns the rows of many rounds as those of one.
func medians(rows []CMAMRow) []CMAMRow {
	times := map[[2]string][]float64{}
	var one []CMAMRow
	for _, r := range rows {
		k := [2]string{r.Name, r.Measure}
		if times[k] == nil {
			one = append(one, r)
		}
		times[k] = append(times[k], r.Nanoseconds)
	}
	for i := range one {
		t := times[[2]string{one[i].Name, one[i].Measure}]
		slices.Sort(t)
		one[i].Nanoseconds = (t[len(t)/2] + t[(len(t)-1)/2]) / 2
	}
	return one
}

// prepare registers handlers and memory.
func (c *cmam) prepare(segment func(uint32, int, funi.Rights) ([]byte, error)) error {
	e := c.e
	from, err := e.ShareNew(segment, cmamSource, cmamMemory, funi.Source|funi.Destination)
	if err != nil {
		return err
	}
	for i := range from {
		from[i] = byte(i/4%255 + 1) // never 0
	}
	if c.into, err = e.ShareNew(segment, cmamInto, cmamMemory, funi.Source|funi.Destination); err != nil {
		return err
	}
	err = errors.Join(
		e.Handle(cmamCount, func(*am.Message) { c.counted++ }),
		e.Handle(cmamSend, c.sendReplies),
		e.Handle(cmamPing, func(m *am.Message) { c.note(m.Reply4(cmamCount, 1, 2, 3, 4)) }),
		e.Handle(cmamPingN, func(m *am.Message) { c.note(m.Reply(cmamCount, 1)) }),
		e.Handle(cmamStop, func(*am.Message) { c.stops++ }),
	)
	if err != nil {
		return err
	}
	words := make([]uint32, am.MaxWords)
	many := func(name string, n int) primitive {
		return primitive{name: name, send: func(node, _ int) error { return e.Post(node, cmamCount, words[:n]...) },
			reply: func(m *am.Message, _ int) error { return m.Reply(cmamCount, words[:n]...) }}
	}
	block := func(i, size int) []byte { return from[i*size : (i+1)*size] }
	mferBytes := 4 * e.BlockWords()
	address := func(base uint32, i int) uint32 { return base + uint32(i*mferBytes) }
	c.primitives = []primitive{
		{name: "4", send: func(node, _ int) error { return e.Post4(node, cmamCount, 1, 2, 3, 4) },
			reply: func(m *am.Message, _ int) error { return m.Reply4(cmamCount, 1, 2, 3, 4) }},
		many("n=1", 1), many("n=20", am.MaxWords),
		{name: "xfer_4", bytes: xferBytes,
			send: func(node, i int) error { return e.Xfer(node, c.segment.At(i*xferBytes), block(i, xferBytes)) },
			reply: func(m *am.Message, i int) error {
				return m.ReplyXfer(c.segment.At(i*xferBytes), block(i, xferBytes))
			}},
		{name: "mfer_n", bytes: mferBytes,
			send: func(node, i int) error {
				return e.Mfer(node, c.segment, address(cmamSource, i), address(cmamInto, i), mferBytes/4)
			},
			reply: func(m *am.Message, i int) error {
				return m.ReplyMfer(c.segment, address(cmamSource, i), address(cmamInto, i), mferBytes/4)
			}},
	}
	return nil
}

// open opens the segment that blocks of a round go to, which has room for them. Nothing of
// the last round is under way, and all nodes open as many, so they name it alike.
func (c *cmam) open() error {
	if c.opened {
		if _, err := c.e.CloseSegment(c.segment); err != nil {
			return err
		}
	}
	clear(c.into)
	var err error
	c.segment, err = c.e.OpenSegment(cmamInto, cmamMemory, nil, nil)
	c.opened = err == nil
	return err
}

// measure runs a step on all nodes. Those that have done their part wait for node 0.
func (c *cmam) measure(step func() error) error {
	e, before := c.e, c.stops
	// What was sent before has been handled, and what is sent from now on may be before
	// the barrier has let this node go on.
	c.counted, c.sent, c.remaining = 0, 0, e.Remaining(c.segment)
	if err := e.Barrier(); err != nil {
		return err
	}
	if err := errors.Join(step(), c.failed); err != nil {
		return err
	}
	if e.Node() != 0 {
		return e.WaitFor(0, func() bool { return c.stops > before })
	}
	for node := 1; node < e.Nodes(); node++ {
		if err := e.Request4(node, cmamStop, 0, 0, 0, 0); err != nil {
			return err
		}
	}
	return nil
}

// note keeps the first error of a handler.
func (c *cmam) note(err error) {
	if c.failed == nil {
		c.failed = err
	}
}

// row notes a measurement of the given number of calls.
func (c *cmam) row(name, measure string, ns int64, calls, bytes int) {
	c.rows = append(c.rows, CMAMRow{name, measure, float64(ns) / float64(calls), bytes})
}

// got returns how many messages of the step's primitive have been handled.
func (c *cmam) got(p primitive) int {
	if p.bytes == 0 {
		return c.counted
	}
	return (c.remaining - c.e.Remaining(c.segment)) / p.bytes
}

// verify compares the data in the segment with the expected data.
func (c *cmam) verify() error {
	for i, b := range c.into[64:] { // gets have been into the first 64 bytes
		if want := byte((i+64)/4%255 + 1); b != 0 && b != want {
			return fmt.Errorf("%w: byte %d of the segment is %#x, not %#x", ErrVerify, i+64, b, want)
		}
	}
	return nil
}
