package am_test

// This file tests long messages with tags that travel as transfers (package am, fetch.go): their
// order, their content, the memory that they take, and that every one of them has an end.

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/tests/bed"
	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// TestFetchedInOrder sends messages with tags, short and long, over any network, between nodes with
// much memory, little or none. Their sender or their receiver gives some up at any moment, and some
// are longer than their receive. The receives for a node's messages take them in the order of
// sending, each whole or with the error that fits. Then all memory is free.
func TestFetchedInOrder(t *testing.T) {
	type message struct{ to, size, cancel int } // cancel: after the given number of polls; 0: never
	rapid.Check(t, func(r *rapid.T) {
		nodes := rapid.IntRange(1, 3).Draw(r, "nodes")
		o := bed.Options{Nodes: nodes, Slots: rapid.SampledFrom([]int{2, 16, 64}).Draw(r, "slots"),
			Net: wire.Config{Seed: rapid.Uint64().Draw(r, "seed")}, Limit: 10 * time.Minute}
		if rapid.Bool().Draw(r, "faults") {
			o.Net.Faults = faults
		}
		plans, limits, directs, stops := make([][]message, nodes), make([]int, nodes), make([]bool, nodes),
			make([][]int, nodes)
		for i := range plans {
			for range rapid.IntRange(0, 12).Draw(r, "messages") {
				plans[i] = append(plans[i], message{rapid.IntRange(0, nodes-1).Draw(r, "to"),
					rapid.OneOf(rapid.IntRange(8, 200), rapid.IntRange(2000, 5000),
						rapid.IntRange(5000, 70<<10)).Draw(r, "size"),
					max(0, rapid.IntRange(-60, 60).Draw(r, "cancelled after"))})
			}
			limits[i] = rapid.SampledFrom([]int{0, am.LeastMemory, 1 << 20}).Draw(r, "memory")
			directs[i] = rapid.Bool().Draw(r, "direct")
			stops[i] = rapid.SliceOfN(rapid.IntRange(-60, 60), 8, 8).Draw(r, "receives cancelled after")
		}
		small := rapid.Bool().Draw(r, "receives of 3000 bytes too")
		const last = 9
		over := 0
		b := bed.New(t, o)
		errs := b.Run(func(n *bed.Node) error {
			if limits[n.Node()] > 0 {
				if err := messageMemory(n, limits[n.Node()], directs[n.Node()]); err != nil {
					return err
				}
			}
			if err := n.Barrier(); err != nil {
				return err
			}
			// Sending.
			plan := plans[n.Node()]
			ids, pending, failed := make([]am.ID, len(plan)), 0, error(nil)
			start := func(to int, tag uint32, b []byte) (am.ID, error) {
				pending++
				return n.StartSendTag(to, tag, b, func(err error) {
					pending--
					clear(b)
					if err != nil && !errors.Is(err, am.ErrCancelled) {
						failed = errors.Join(failed, err)
					}
				})
			}
			for i, m := range plan {
				var err error
				if ids[i], err = start(m.to, uint32(i%2), numbered(n.Node(), i, m.size)); err != nil {
					return err
				}
			}
			for to := range nodes {
				if _, err := start(to, last, numbered(n.Node(), len(plan), 8)); err != nil {
					return err
				}
			}
			// Receiving, from each node by receives of its own.
			type receive struct {
				id     am.ID
				room   []byte
				ended  bool
				number int // of what it took, -1: not known
			}
			received := make([][]*receive, nodes)
			finished := make([]bool, nodes)
			post := func(from int) error {
				c := &receive{number: -1, room: make([]byte, 70<<10)}
				if small && len(received[from])%2 == 0 {
					c.room = c.room[:3000]
				}
				received[from] = append(received[from], c)
				var err error
				c.id, err = n.StartRecv(from, am.AnyTag, c.room, func(what am.Received, err error) {
					c.ended = true
					got := c.room[:min(len(c.room), what.Bytes)]
					switch {
					case errors.Is(err, am.ErrCancelled), errors.Is(err, am.ErrAborted):
						return
					case err != nil && !errors.Is(err, am.ErrTruncate):
						failed = errors.Join(failed, err)
						return
					}
					c.number = int(got[4])
					if what.Tag == last {
						finished[from] = true
						return
					}
					if p := plans[from]; c.number >= len(p) || p[c.number].to != n.Node() ||
						p[c.number].size != what.Bytes ||
						what.Tag != uint32(c.number%2) || (err != nil) != (what.Bytes > len(c.room)) ||
						!bytes.Equal(got, numbered(from, c.number, what.Bytes)[:len(got)]) {
						failed = errors.Join(failed,
							fmt.Errorf("message %d of node %d, %+v, is damaged: %w", c.number, from, what, err))
					}
				})
				return err
			}
			for polls := 1; ; polls++ {
				done := pending == 0 && failed == nil
				for from := range nodes {
					done = done && finished[from]
					open := 0
					for _, c := range received[from] {
						if !c.ended {
							open++
						}
					}
					for ; open < 3 && !finished[from]; open++ {
						if err := post(from); err != nil {
							return err
						}
					}
				}
				if done || failed != nil {
					break
				}
				for i, m := range plan {
					if m.cancel == polls {
						n.Cancel(ids[i])
					}
				}
				for i, at := range stops[n.Node()] {
					if from := i % nodes; at == polls && len(received[from]) > i/nodes {
						n.Cancel(received[from][i/nodes].id)
					}
				}
				if _, err := n.Poll(); err != nil {
					return err
				}
			}
			for from, all := range received {
				before := -1
				for _, c := range all {
					n.Cancel(c.id) // those that are too many
					if c.number >= 0 && c.number <= before {
						failed = errors.Join(failed,
							fmt.Errorf("message %d of node %d was taken after %d", c.number, from, before))
					}
					before = max(before, c.number)
				}
			}
			if failed != nil {
				return failed
			}
			over++
			used := func() bool { return limits[n.Node()] > 0 && am.MemoryInUse(n.Endpoint) > 0 }
			if err := n.Wait(func() bool { return over == nodes && n.SendsUnderWay() == 0 && !used() }); err != nil {
				return err
			}
			if sends, receives, _ := n.TaggedUnderWay(); sends+receives > 0 ||
				n.Unknown() > 0 && !anyCancelled(stops, plans, func(m message) bool { return m.cancel > 0 }) {
				return fmt.Errorf("%d sends and %d receives are left, and %d messages were for nobody", sends,
					receives, n.Unknown())
			}
			if err := n.Barrier(); err != nil {
				return err
			}
			// pieces for receives that were given up may still be under way
			until := n.Now() + int64(100*time.Millisecond)
			return n.Wait(func() bool { return n.Now() > until })
		})
		if err := errors.Join(errs...); err != nil {
			r.Fatal(err)
		}
	})
}

// anyCancelled reports whether something was to be cancelled: what comes for that later is for
// nobody.
func anyCancelled[T any](stops [][]int, plans [][]T, cancelled func(T) bool) bool {
	for i := range stops {
		for _, at := range stops[i] {
			if at > 0 {
				return true
			}
		}
		for _, m := range plans[i] {
			if cancelled(m) {
				return true
			}
		}
	}
	return false
}

// TestUnreceivedTakesNoMemory: long messages that nobody receives wait at their sender, whatever
// the receiver's memory is, and hold up no message that runs a handler; later they are received in
// their order.
func TestUnreceivedTakesNoMemory(t *testing.T) {
	const messages, size = am.TagWindow + 8, 40 << 10
	b := bed.New(t, bed.Options{Nodes: 2, Limit: 10 * time.Minute})
	handled, received := 0, false
	b.MustRun(func(n *bed.Node) error {
		err := errors.Join(messageMemory(n, am.LeastMemory, false),
			n.HandleBytes(0, func(*am.Message, []byte) error { handled++; return nil }), n.Barrier())
		if err != nil {
			return err
		}
		if n.Node() == 0 {
			sent := 0
			for i := range messages {
				if _, err := n.StartSendTag(1, 5, numbered(0, i, size), func(err error) {
					if sent++; err != nil {
						panic(err)
					}
				}); err != nil {
					return err
				}
			}
			for range 20 {
				if err := n.SendBytes(1, 0, make([]byte, 20<<10)); err != nil {
					return err
				}
			}
			if sent > 0 {
				return fmt.Errorf("%d messages were sent that nobody received", sent)
			}
			err := n.Wait(func() bool { return received && sent == messages })
			return errors.Join(err, n.Barrier())
		}
		if err := n.WaitFor(0, func() bool { return handled == 20 }); err != nil {
			return err
		}
		if used := am.MemoryInUse(n.Endpoint); used > 0 {
			return fmt.Errorf("%d bytes are in use for messages that nobody receives", used)
		}
		got := make([]byte, size)
		for i := range messages {
			if what, err := n.Recv(0, 5, got); err != nil || !bytes.Equal(got, numbered(0, i, size)) {
				return fmt.Errorf("message %d, %+v: %w", i, what, err)
			}
		}
		received = true
		return n.Barrier()
	})
}

// TestFetchedFromTheDead: whenever a node is killed, receives of its long messages and sends to it
// end, and the memory that was for them comes free.
func TestFetchedFromTheDead(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		o := bed.Options{Nodes: 3, Net: wire.Config{Seed: rapid.Uint64().Draw(r, "seed")},
			Tune: func(c *engine.Config) { c.PeerTimeout, c.ConnectTimeout = 20*time.Millisecond, 20*time.Millisecond }}
		direct := rapid.Bool().Draw(r, "direct")
		at := rapid.Int64Range(1, 400_000).Draw(r, "killed after ns")
		size := rapid.SampledFrom([]int{5000, 30 << 10}).Draw(r, "size")
		b := bed.New(t, o)
		b.At(time.Duration(at)+100*time.Microsecond, func() { b.Nodes[2].Kill() })
		for i, err := range b.Run(func(n *bed.Node) error {
			if err := messageMemory(n, am.LeastMemory, direct); err != nil {
				return err
			}
			lost := func(err error) error { // what is lost is node 2's
				var u *am.Undelivered
				if errors.As(err, &u) && u.Node == 2 {
					return nil
				}
				return err
			}
			poll := func(done func() bool) error {
				for polls := 1; !done(); polls++ {
					_, err := n.Poll()
					// a node that sends nothing to another does not learn that it is gone
					if polls%1000 == 0 {
						err = errors.Join(err, n.Request(2, 0))
					}
					if lost(err) != nil {
						return err
					}
				}
				return nil
			}
			for round := range 30 {
				pending := 0
				var failed error
				end := func(err error) {
					pending--
					failed = errors.Join(failed, lost(err))
				}
				for d := 1; d < 3; d++ {
					other := (n.Node() + d) % 3
					got, whole := make([]byte, size), numbered(other, round, size)
					pending += 2
					for started := false; !started; {
						_, err := n.StartRecv(other, uint32(round), got, func(_ am.Received, err error) {
							if end(err); err == nil && !bytes.Equal(got, whole) {
								failed = errors.Join(failed, errors.New("a message is damaged"))
							}
						})
						if started = err == nil; lost(err) != nil {
							return err
						}
					}
					for started := false; !started; {
						_, err := n.StartSendTag(other, uint32(round), numbered(n.Node(), round, size), end)
						if started = err == nil; lost(err) != nil {
							return err
						}
					}
				}
				if err := poll(func() bool { return pending == 0 }); err != nil || failed != nil {
					return errors.Join(err, failed)
				}
			}
			until := n.Now() + int64(200*time.Millisecond)
			return poll(func() bool { return n.Now() > until && am.MemoryInUse(n.Endpoint)+n.SendsUnderWay() == 0 })
		}) {
			var u *am.Undelivered
			// the other has ended
			if err != nil && !errors.Is(err, bed.ErrKilled) && !(errors.As(err, &u) && u.Node != 2) {
				r.Fatalf("node %d: %v", i, err)
			}
		}
	})
}

// Rule (Cancel): a receive whose message was given up after memory had been granted to it ends with
// ErrAborted, and the memory comes free.
func TestFetchedMessageIsCancelled(t *testing.T) {
	const size = 30 << 10
	for _, direct := range []bool{false, true} {
		b := bed.New(t, bed.Options{Nodes: 2, Limit: 30 * time.Second})
		granted, over := false, false
		var ended error
		b.MustRun(func(n *bed.Node) error {
			if err := errors.Join(messageMemory(n, am.LeastMemory, direct), n.Barrier()); err != nil {
				return err
			}
			if n.Node() == 0 {
				id, err := n.StartSendTag(1, 5, numbered(0, 0, size), func(error) {})
				if err != nil {
					return err
				}
				if err := n.WaitFor(1, func() bool { return granted }); err != nil {
					return err
				}
				n.Cancel(id)
				return errors.Join(n.WaitFor(1, func() bool { return over }), n.Barrier())
			}
			got := make([]byte, size)
			if _, err := n.StartRecv(0, 5, got, func(_ am.Received, err error) {
				over, ended = true, err
			}); err != nil {
				return err
			}
			err := n.WaitFor(0, func() bool {
				granted = granted || am.MemoryInUse(n.Endpoint) > 0
				return over
			})
			return errors.Join(err, n.WaitFor(0, func() bool { return am.MemoryInUse(n.Endpoint) == 0 }), n.Barrier())
		})
		if !granted || !errors.Is(ended, am.ErrAborted) {
			t.Errorf("direct %t: memory was granted: %t; the receive ended with %v", direct, granted, ended)
		}
	}
}

// TestFetchIsGrantedByReceives: memory is granted when a receive takes the envelope, to its offer;
// what has no offer, or is longer than the memory, is asked for in pieces; nobody announces such a
// message otherwise. The test is the card.
func TestFetchIsGrantedByReceives(t *testing.T) {
	e, card, _ := hostile(t)
	envelope := func(number, length uint32, offer ...uint32) {
		s := card.Vacant(funi.Request)
		clear(s[:])
		s.SetHeader(funi.NewHeader(0, 26, 5+len(offer)))
		s[1], s[2], s[3], s[4], s[5], s[funi.SourceWord] = number<<2, 5, 1<<16, 77, length, 1
		copy(s[6:], offer)
		card.Deliver(funi.Request)
		card.Publish()
		if _, err := e.Poll(); err != nil {
			t.Fatal(err)
		}
	}
	receive := func() {
		if _, err := e.StartRecv(1, 5, make([]byte, 100<<10), func(am.Received, error) {}); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Poll(); err != nil {
			t.Fatal(err)
		}
	}
	envelope(0, 5000, 88)
	if am.MemoryInUse(e) != 0 || card.Pending(funi.Request)+card.Pending(funi.Reply) > 0 {
		t.Error("a message that nobody receives takes memory, or is answered")
	}
	receive()
	if grant := sentOf(card, typeGrant); len(grant) != 1 || grant[0][1] != 88 || am.MemoryInUse(e) == 0 {
		t.Errorf("a receive that comes later grants memory: %x, %d bytes", grant, am.MemoryInUse(e))
	}
	receive()
	envelope(1, 5000, 89)
	if grant := sentOf(card, typeGrant); len(grant) != 1 || grant[0][1] != 89 {
		t.Errorf("a receive that was there grants memory: %x", grant)
	}
	receive()
	envelope(2, 5000) // without an offer
	receive()
	envelope(3, am.LeastMemory, 90) // longer than the memory
	for range 3 {
		if _, err := e.Poll(); err != nil {
			t.Fatal(err)
		}
	}
	if told := sentOf(card, 28); len(told) != 2 {
		t.Errorf("%d of 2 messages are asked for in pieces", len(told))
	}
	before := am.MemoryInUse(e)
	arrive(t, e, card, funi.Request, 1, funi.NewHeader(0, typeReady, 5), []uint32{7, 4 << 16, 5000, 0, 0})
	if e.Unknown() != 1 || am.MemoryInUse(e) != before {
		t.Error("a message with a tag was announced as one of bytes")
	}
}
