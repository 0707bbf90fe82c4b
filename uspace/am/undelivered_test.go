package am_test

// This file tests what a program learns of messages that did not arrive (package am:
// "a message that could not be delivered comes back").

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/funet/funet/tests/bed"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// lost polls until count messages have come back and returns the errors.
func lost(n *bed.Node, count int) (list []*am.Undelivered, err error) {
	for got := 0; got < count; {
		_, err := n.Poll()
		var u *am.Undelivered
		switch {
		case errors.As(err, &u):
			list = append(list, u)
			got += u.Count
		case err != nil:
			return list, err
		}
	}
	return list, nil
}

// TestPeerKilled: every message to a peer that died comes back once, as Undelivered
// with what was sent and why, also when more come back than the return ring holds;
// and messages to the others arrive as before.
func TestPeerKilled(t *testing.T) {
	const messages = 3 * funi.ReturnSlots
	b := bed.New(t, bed.Options{Nodes: 3, Slots: 1024})
	dead := false
	b.At(time.Millisecond, func() { b.Nodes[1].Kill(); dead = true })
	errs := b.Run(func(n *bed.Node) error {
		got, stop := 0, false
		err := errors.Join(
			n.Handle(4, func(*am.Message) { got++ }),
			n.Handle(5, func(*am.Message) { stop = true }),
			n.Barrier())
		if err != nil {
			return err
		}
		switch n.Node() {
		case 1:
			return n.Wait(func() bool { return false })
		case 2:
			return n.Wait(func() bool { return stop })
		}
		if err := n.Wait(func() bool { return dead }); err != nil {
			return err
		}
		for i := range messages {
			if err := n.Post4(1, 4, uint32(i), 0, 0, 0); err != nil {
				return err
			}
		}
		list, err := lost(n, messages)
		if err != nil {
			return err
		}
		sum := 0
		for _, u := range list {
			if u.Reason != arctic.ReasonSilent || u.Level != funi.Request || u.Node != 1 || u.Handler != 4 {
				t.Errorf("came back as %+v, want requests to node 1, handler 4, silent", *u)
			}
			for _, want := range []string{"node 1", "peer silent", "request", "handler 4"} {
				if !strings.Contains(u.Error(), want) {
					t.Errorf("%q does not say %q", u.Error(), want)
				}
			}
			sum += u.Count
		}
		if sum != messages {
			t.Errorf("%d messages came back, want %d", sum, messages)
		}
		if _, err := n.Poll(); err != nil {
			t.Errorf("one more came back: %v", err)
		}
		return n.Request4(2, 5, 0, 0, 0, 0)
	})
	for i, want := range []error{nil, bed.ErrKilled, nil} {
		if !errors.Is(errs[i], want) {
			t.Errorf("node %d ended with %v, want %v", i, errs[i], want)
		}
	}
}

// TestLostAfterTheLook: a return that the card loses while the ring is read is told, though nothing
// is left in the ring.
func TestLostAfterTheLook(t *testing.T) {
	const returnsLost = 0x480 / 4 // funi/doc.go
	b := bed.New(t, bed.Options{Nodes: 2})
	b.Nodes[1].Kill()
	errs := b.Run(func(n *bed.Node) error {
		if err := n.Post4(1, 4, 0, 0, 0, 0); err != nil {
			return err
		}
		if _, err := lost(n, 1); err != nil {
			return err
		}
		n.Memory.Page[returnsLost] += 2
		_, err := n.Poll()
		var u *am.Undelivered
		if !errors.As(err, &u) || u.Node != 1 || u.Count != 2 {
			t.Errorf("two returns that were lost: %v", err)
		}
		_, err = n.Poll()
		return err
	})
	if errs[0] != nil {
		t.Error(errs[0])
	}
}

// TestNeverThere: a peer that never starts is silent after the time to connect, which
// begins with the first probe of a node that only waits for it: here 65,536 polls of 20 us.
func TestNeverThere(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 2, Tune: func(c *engine.Config) { c.ConnectTimeout = time.Second }})
	b.Nodes[1].Kill()
	errs := b.Run(func(n *bed.Node) error { return n.Barrier() })
	var u *am.Undelivered
	if !errors.As(errs[0], &u) || u.Reason != arctic.ReasonSilent || u.Node != 1 {
		t.Errorf("ended with %v, want node 1 silent", errs[0])
	}
	if at := time.Duration(b.Now()); at < time.Second || at > 3*time.Second {
		t.Errorf("ended at %v of virtual time, want after the probe and the second that it waits for peers", at)
	}
}

// TestReplyComesBack: replies to a requester that died come back too, at reply level,
// to the program's next poll, not to the handler.
func TestReplyComesBack(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 2})
	errs := b.Run(func(n *bed.Node) error {
		err := errors.Join(
			n.Handle(0, func(m *am.Message) {
				b.At(0, b.Nodes[0].Kill)
				if err := m.Reply4(1, 1, 2, 3, 4); err != nil {
					t.Errorf("replying to a node that is about to die: %v", err)
				}
			}),
			n.Handle(1, func(*am.Message) {}),
			n.Barrier())
		if err != nil {
			return err
		}
		if n.Node() == 0 {
			err = n.Request4(1, 0, 0, 0, 0, 0)
		}
		return errors.Join(err, n.Wait(func() bool { return false }))
	})
	var u *am.Undelivered
	if !errors.As(errs[1], &u) || u.Reason != arctic.ReasonSilent || u.Level != funi.Reply || u.Node != 0 ||
		u.Handler != 1 || u.Count != 1 {
		t.Errorf("ended with %v, want one reply to node 0, silent", errs[1])
	}
}

// TestBarrierWithoutAPeer checks that a barrier that a node will never reach ends with an error on
// all others. It does so whether they still have something to send to that node or only wait, and
// whether the node died or ended. In the design a peer that is gone becomes an error that the
// program sees, and nothing hangs for ever.
func TestBarrierWithoutAPeer(t *testing.T) {
	for name, end := range map[string]func(b *bed.Bed, n *bed.Node) error{
		"killed": func(b *bed.Bed, n *bed.Node) error {
			b.At(0, n.Kill)
			return n.Wait(func() bool { return false })
		},
		"ended": func(*bed.Bed, *bed.Node) error { return errors.New("this program gives up") },
	} {
		for nodes := 2; nodes <= 5; nodes++ {
			b := bed.New(t, bed.Options{Nodes: nodes, Tune: impatient, Limit: 40 * time.Second})
			errs := b.Run(func(n *bed.Node) error {
				if err := n.Barrier(); err != nil {
					return err
				}
				if n.Node() == nodes-1 {
					// The others are in the barrier, and everything they sent is acknowledged.
					until := n.Now() + int64(10*time.Millisecond)
					if err := n.Wait(func() bool { return n.Now() > until }); err != nil {
						return err
					}
					return end(b, n)
				}
				return n.Barrier()
			})
			for i, err := range errs[:nodes-1] {
				var u *am.Undelivered
				if !errors.As(err, &u) {
					t.Errorf("%s: node %d of %d ended with %v, want Undelivered", name, i, nodes, err)
				}
			}
		}
	}
}

// TestLastWordOfANodeThatEnds: a node may send what another waits for, and end, before something
// else of the other's reaches it. What it sent counts, however late the other looks, and what came
// back does not end the wait: neither a probe nor the answer to a call that the node had cancelled.
func TestLastWordOfANodeThatEnds(t *testing.T) {
	const handler, replying = 3, 4
	for _, c := range []struct {
		name  string
		level funi.Level
		typ   uint16
	}{{"probe", funi.Request, 14}, {"answer", funi.Reply, typeAnswer}, {"put done", funi.Reply, 11},
		{"taken", funi.Request, 22}} {
		for _, drive := range []int{1, 2} { // in the middle of a poll, and at its end
			t.Run(fmt.Sprintf("%s comes back in drive %d", c.name, drive), func(t *testing.T) {
				memory, err := funi.NewMemory(4)
				if err != nil {
					t.Fatal(err)
				}
				iface, err := funi.Initialize(memory)
				if err != nil {
					t.Fatal(err)
				}
				card, err := funi.Attach(memory)
				if err != nil {
					t.Fatal(err)
				}
				deliver := func(handler uint32) {
					s := card.Vacant(funi.Request)
					s.SetHeader(funi.NewHeader(0, 0, 5))
					s[funi.PayloadWord], s[funi.SourceWord] = handler, 1
					card.Deliver(funi.Request)
				}
				drives := 0
				e, err := am.New(iface, 0, 2, func() {
					if drives++; drives == drive {
						deliver(handler)
						card.Return(funi.Returned{Reason: arctic.ReasonNoContext, Level: c.level,
							Header: funi.NewHeader(1, c.typ, 3), Word: 7})
						card.Publish()
					}
				}, 0)
				if err != nil {
					t.Fatal(err)
				}
				came := false
				if err := errors.Join(
					e.Handle(handler, func(*am.Message) { came = true }),
					e.Handle(replying, func(m *am.Message) { _ = m.Reply4(0, 0, 0, 0, 0) })); err != nil {
					t.Fatal(err)
				}
				deliver(replying) // whose reply has the poll drive twice
				card.Publish()
				if err := e.WaitFor(1, func() bool { return came }); err != nil {
					t.Error(err)
				}
				if _, err := e.Poll(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// Rule: a message for a handler that the node does not have is not lost in silence. The sender's
// Poll names the node and the handler, once for several messages (Undelivered, ErrNoHandler). That
// holds for messages of any length, requests and replies. Other messages arrive.
func TestNoHandlerThere(t *testing.T) {
	const missing, there, asks = 7, 8, 9
	for _, faulty := range []bool{false, true} {
		o := bed.Options{Nodes: 2}
		if faulty {
			o.Net.Faults = faults
		}
		b := bed.New(t, o)
		b.MustRun(func(n *bed.Node) error {
			ran, stop := 0, false
			err := errors.Join(messageMemory(n, am.LeastMemory, false),
				n.HandleBytes(there, func(*am.Message, []byte) error { ran++; return nil }),
				n.HandleBytes(asks, func(m *am.Message, b []byte) error { return m.ReplyBytes(missing, b) }),
				n.Handle(10, func(*am.Message) { stop = true }),
				// has a lease now
				n.Barrier(), n.SendBytes(1-n.Node(), there, make([]byte, 200)), n.Wait(func() bool { return ran == 1 }))
			if err != nil {
				return err
			}
			hear := func(level funi.Level, count int) error {
				list, err := lost(n, count)
				for _, u := range list {
					if u.Node != uint16(1-n.Node()) || u.Handler != missing || u.Level != level ||
						!errors.Is(u, am.ErrNoHandler) || u.Library {
						return fmt.Errorf("said %+v (%w)", *u, u)
					}
				}
				return err
			}
			if n.Node() == 0 {
				for _, size := range []int{0, 16, am.ShortBytes, am.ShortBytes + 1, am.EagerBytes} {
					err = errors.Join(err, n.SendBytes(1, missing, make([]byte, size)))
				}
				err = errors.Join(err, n.Request4(1, missing, 1, 2, 3, 4))
				if err = errors.Join(err, hear(funi.Request, 6)); err != nil {
					return err
				}
				if err := n.SendBytes(1, missing, make([]byte, am.EagerBytes+1)); !errors.Is(err, am.ErrNoHandler) {
					return fmt.Errorf("a long message: %w", err)
				}
				err = errors.Join(n.SendBytes(1, asks, nil), n.SendBytes(1, asks, make([]byte, 300)),
					n.Wait(func() bool { return stop }))
				return errors.Join(err, n.SendBytes(1, there, nil), n.Barrier())
			}
			if err := hear(funi.Reply, 2); err != nil {
				return err
			}
			return errors.Join(n.Request4(0, 10, 0, 0, 0, 0), n.Wait(func() bool { return ran == 2 }), n.Barrier())
		})
	}
}
