package am_test

// This file tests that messages arrive: under mutual flooding with the smallest
// queues, under faults, at barriers, and when they are to leave.

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/funet/funet/tests/bed"
	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/engine"
)

// faults are those of an Ethernet.
var faults = wire.Faults{Loss: 0.05, Duplicate: 0.05, Reorder: 0.1, Corrupt: 0.02}

// TestMutualFlooding: nodes that flood each other and reply to everything never
// deadlock, with queues of two slots, which hold one message (thesis 2.10: replies always
// drain, therefore requests do), and every message is handled exactly once.
func TestMutualFlooding(t *testing.T) {
	for _, c := range []struct {
		nodes, slots, messages int
		faults                 wire.Faults
		tune                   func(*engine.Config)
	}{
		{2, 2, 3000, wire.Faults{}, nil},
		{2, 2, 1000, faults, nil},
		{2, 1024, 20000, wire.Faults{}, nil},
		{5, 2, 500, wire.Faults{}, nil},
		{4, 4, 300, faults, nil},
		// the card of thesis 5.2: 8 lines, FIFOs of 10, no trains
		{2, 2, 1000, wire.Faults{}, func(c *engine.Config) {
			c.Lines, c.ReplyLines, c.FIFO, c.Train = 8, 2, 10, 1
		}},
		{3, 2, 300, faults, func(c *engine.Config) { c.Lines, c.ReplyLines, c.FIFO, c.Train = 2, 1, 1, 1 }},
	} {
		t.Run(fmt.Sprintf("%d nodes %d slots faults %v small %v", c.nodes, c.slots, c.faults != wire.Faults{},
			c.tune != nil), func(t *testing.T) {
			b := bed.New(t, bed.Options{Nodes: c.nodes, Slots: c.slots, Net: wire.Config{Seed: 1, Faults: c.faults},
				Tune: c.tune, Limit: 5 * time.Minute})
			b.MustRun(func(n *bed.Node) error { return flood(n, c.messages) })
		})
	}
}

// flood sends the given number of requests to every node, itself included, and waits for as many
// of each node's and for the replies; it notes each message's number.
func flood(n *bed.Node, messages int) error {
	var errs []error
	total := messages * n.Nodes()
	requested, replied := make([]uint8, total), make([]uint8, total)
	requests, answers := 0, 0
	note := func(what string, seen []uint8, count *int, m *am.Message) {
		i := m.Source*messages + int(m.Words[0])
		if seen[i]++; seen[i] > 1 || m.Words[1] != ^m.Words[0] {
			errs = append(errs, fmt.Errorf("%s %d of node %d came %d times with %x", what, m.Words[0], m.Source,
				seen[i], m.Words))
		}
		*count++
	}
	err := errors.Join(
		n.Handle(0, func(m *am.Message) {
			note("request", requested, &requests, m)
			errs = append(errs, m.Reply4(1, m.Words[0], m.Words[1], 0, 0))
		}),
		n.Handle(1, func(m *am.Message) { note("reply", replied, &answers, m) }),
		n.Barrier())
	if err != nil {
		return err
	}
	for i := range messages {
		for to := range n.Nodes() {
			if err := n.Request4((n.Node()+to)%n.Nodes(), 0, uint32(i), ^uint32(i), 0, 0); err != nil {
				return err
			}
		}
	}
	if err := n.Wait(func() bool { return requests == total && answers == total }); err != nil {
		return err
	}
	return errors.Join(append(errs, n.Barrier())...)
}

// TestBarrier: no node leaves a barrier before every node has entered it, fifty times
// over, with groups of all sizes up to nine and nodes that come at different times.
func TestBarrier(t *testing.T) {
	for nodes := 1; nodes <= 9; nodes++ {
		for _, f := range []wire.Faults{{}, faults} {
			t.Run(fmt.Sprintf("%d nodes faults %v", nodes, f != wire.Faults{}), func(t *testing.T) {
				b := bed.New(t, bed.Options{Nodes: nodes, Slots: 4, Net: wire.Config{Seed: uint64(nodes), Faults: f}})
				entered := make([]int, nodes)
				b.MustRun(func(n *bed.Node) error {
					for round := 1; round <= 50; round++ {
						n.Pause(int64((n.Node()*7919 + round*104729) % 30000))
						entered[n.Node()] = round
						if err := n.Barrier(); err != nil {
							return err
						}
						for i, e := range entered {
							if e < round {
								return fmt.Errorf("node %d left barrier %d while node %d was at %d",
									n.Node(), round, i, e)
							}
						}
					}
					return nil
				})
			})
		}
	}
}

// TestPostWaitsForPoll: a posted message stays in the send queue until the next call
// that lets the card run, and messages posted in a row share a frame.
func TestPostWaitsForPoll(t *testing.T) {
	const posted = 20
	b := bed.New(t, bed.Options{Nodes: 2})
	b.MustRun(func(n *bed.Node) error {
		got := 0
		if err := n.Handle(0, func(*am.Message) { got++ }); err != nil {
			return err
		}
		if err := n.Barrier(); err != nil { // the cards have greeted each other
			return err
		}
		if n.Node() == 1 {
			if err := n.Wait(func() bool { return got == posted }); err != nil {
				return err
			}
			return n.Barrier()
		}
		// What the barrier left to be acknowledged is out of the way.
		for range 1000 {
			if _, err := n.Poll(); err != nil {
				return err
			}
		}
		before := n.Card.Counters()
		for i := range posted {
			if err := n.Post4(1, 0, uint32(i), 0, 0, 0); err != nil {
				return err
			}
		}
		if c := n.Card.Counters(); c != before {
			return fmt.Errorf("posting alone made the card run: %+v, before %+v", c, before)
		}
		if _, err := n.Poll(); err != nil {
			return err
		}
		c := n.Card.Counters()
		if r, f := c.PacketsRetrieved-before.PacketsRetrieved, c.FramesSent-before.FramesSent; r != posted || f != 1 {
			return fmt.Errorf("the next poll sent %d messages in %d frames, want %d in 1", r, f, posted)
		}
		return n.Barrier()
	})
}

// TestRepliesFirst: one poll handles replies before requests, looks for replies again
// after 256 requests, and ends after some thousand messages, so that a program gets back
// to its work under any load.
func TestRepliesFirst(t *testing.T) {
	const messages, replies, requests = 3000, 1024, 256
	b := bed.New(t, bed.Options{Nodes: 2, Slots: 4096})
	b.MustRun(func(n *bed.Node) error {
		order := ""
		err := errors.Join(
			n.Handle(0, func(m *am.Message) {
				order += "q"
				_ = m.Reply4(1, 0, 0, 0, 0) // a request handler may
			}),
			n.Handle(1, func(*am.Message) { order += "p" }),
			n.Barrier())
		if err != nil {
			return err
		}
		for range messages {
			if err := n.Post4(1-n.Node(), 0, 0, 0, 0, 0); err != nil {
				return err
			}
		}
		if n.Node() == 0 {
			// Only the card runs, until its queues hold all of both levels.
			for n.Card.Counters().PacketsDelivered < 2*messages {
				n.Card.Step(n.Now())
				n.Pause(int64(time.Microsecond))
			}
			if _, err := n.Poll(); err != nil {
				return err
			}
			// Before the card runs, and after.
			if want := strings.Repeat(strings.Repeat("p", replies)+strings.Repeat("q", requests), 2); order != want {
				return fmt.Errorf("one poll handled %s, want twice %d replies and then %d requests", order,
					replies, requests)
			}
		}
		if err := n.Wait(func() bool { return len(order) == 2*messages }); err != nil {
			return err
		}
		return n.Barrier()
	})
}

// TestDeterministic: the bed gives the same run for the same seed, so that a failure
// can be looked at again.
func TestDeterministic(t *testing.T) {
	run := func(seed uint64) string {
		b := bed.New(t, bed.Options{Nodes: 3, Slots: 4, Net: wire.Config{Seed: seed, Faults: faults}})
		b.MustRun(func(n *bed.Node) error { return flood(n, 200) })
		s := fmt.Sprint(b.Now(), b.Net.Carried, b.Net.Lost)
		for _, n := range b.Nodes {
			s += fmt.Sprintf("%+v", n.Card.Counters())
		}
		return s
	}
	if a, b := run(1), run(1); a != b {
		t.Errorf("two runs of seed 1 differ:\n%s\n%s", a, b)
	}
	if run(1) == run(2) {
		t.Error("seeds 1 and 2 give the same run")
	}
}
