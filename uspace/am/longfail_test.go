package am_test

// This file tests the ends of long messages that are not delivered: refused, cancelled, for a node
// that is gone, or for a handler that fails.

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/funet/funet/tests/bed"
	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// TestLongBytesRefused: what cannot be sent gives a sentinel error, at the sender or from the
// receiver; 2^31 bytes are not read.
func TestLongBytesRefused(t *testing.T) {
	huge, err := unix.Mmap(-1, 0, 1<<31, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(huge)
	many := make([][]byte, 1<<20)
	for i := range many {
		many[i] = huge[:1<<30]
	}
	for _, direct := range []bool{false, true} {
		b := bed.New(t, bed.Options{Nodes: 3})
		b.MustRun(func(n *bed.Node) error {
			long := make([]byte, 1000)
			early := n.SendBytes(1, 1, long)
			if n.Node() != 2 { // 2 has none
				if err := messageMemory(n, am.LeastMemory, direct); err != nil {
					return err
				}
			}
			ran := 0
			err := errors.Join(n.HandleBytes(1, func(m *am.Message, b []byte) error {
				ran++
				return m.ReplyBytes(1, huge)
			}), n.HandleBytes(2, func(m *am.Message, b []byte) error {
				panic("a handler that panics")
			}), n.Barrier())
			if err != nil {
				return err
			}
			if n.Node() != 0 {
				if err := n.Wait(func() bool { return n.Failed() != nil || n.Node() == 2 }); n.Node() == 1 &&
					!errors.Is(err, am.ErrLong) {
					return fmt.Errorf("a reply of 2^31 bytes: %w", err)
				}
				err := n.Wait(func() bool { return n.Node() == 2 })
				for n.Node() == 1 && n.Now() < int64(10*time.Millisecond) {
					_, err = n.Poll() // it fails, and serves
				}
				if n.Node() == 2 {
					return n.WaitFor(0, func() bool { return n.Now() > int64(11*time.Millisecond) })
				}
				if used := am.MemoryInUse(n.Endpoint); used != 0 {
					return fmt.Errorf("%d bytes in use", used)
				}
				if !errors.Is(err, am.ErrLong) {
					return err
				}
				return nil
			}
			_, tooLong := n.StartBytes(1, 1, huge, nil)
			for what, c := range map[string]struct{ got, want error }{
				"no memory yet":                 {early, am.ErrNoMemory},
				"memory twice":                  {messageMemory(n, am.LeastMemory, direct), am.ErrLimit},
				"2^31 bytes":                    {n.SendBytes(1, 1, huge), am.ErrLong},
				"2^31 bytes to be posted":       {n.PostBytes(1, 1, huge), am.ErrLong},
				"2^31 bytes started":            {tooLong, am.ErrLong},
				"2^50 bytes in pieces":          {n.SendList(1, 1, many...), am.ErrLong},
				"a byte too many":               {n.SendBytes(1, 1, huge[:am.MaxBytes+1]), am.ErrLong},
				"no such handler number":        {n.SendBytes(1, am.Handlers, long), am.ErrNumber},
				"no such handler there":         {n.SendBytes(1, 7, long), am.ErrNoHandler},
				"no such node":                  {n.SendBytes(3, 1, long), am.ErrNode},
				"a node without memory":         {n.SendBytes(2, 1, long), am.ErrMemory},
				"more than the receiver's":      {n.SendBytes(1, 1, make([]byte, am.LeastMemory)), am.ErrMemory},
				"a handler whose reply is long": {n.SendBytes(1, 1, long), nil},
				"a handler that panics":         {n.SendBytes(1, 2, make([]byte, 3000)), am.ErrPanicked},
			} {
				if !errors.Is(c.got, c.want) {
					return fmt.Errorf("%s: %w, want %w", what, c.got, c.want)
				}
			}
			for n.Now() < int64(12*time.Millisecond) {
				if _, err := n.Poll(); err != nil {
					break // node 1 leaves
				}
			}
			return nil
		})
	}
}

// TestUseMemoryRefused: limits that are none, and a card that has no memory.
func TestUseMemoryRefused(t *testing.T) {
	e, _ := bare(t)
	none := errors.New("none")
	for limit, want := range map[int]error{0: am.ErrLimit, am.LeastMemory - 1: am.ErrLimit,
		am.MostMemory + 1: am.ErrLimit, am.LeastMemory: none} {
		err := e.UseMemory(am.Memory{Limit: limit, Segment: func(uint32, int, funi.Rights) ([]byte, error) {
			return nil, none
		}})
		if !errors.Is(err, want) {
			t.Errorf("a limit of %d: %v, want %v", limit, err, want)
		}
	}
}

// peerTimeout is how long the cards of TestCancelBytes send a packet again, and therefore how long
// memory is left alone.
const peerTimeout = 500 * time.Millisecond

// windowCount counts the messages that cards read where they are.
type windowCount struct {
	open    int
	closing int // refused to be given back
}

func (w *windowCount) memory(n *bed.Node, direct bool) am.Memory {
	m := am.Memory{Segment: n.Segment, Now: n.Now, Limit: am.LeastMemory, Hold: peerTimeout}
	if !direct {
		return m
	}
	closed := func(err error) error {
		if err == nil {
			w.open--
		} else {
			w.closing++
		}
		return err
	}
	m.Register = func(s funi.Segment) error {
		err := n.Register(s)
		if err == nil {
			w.open++
		}
		return err
	}
	m.Unregister = func(base uint32) error { return closed(n.Unregister(base)) }
	m.Withdraw = func(base uint32) error { return closed(n.Withdraw(base)) }
	return m
}

// TestCancelBytes cancels messages at any time. A cancelled message is done once, with
// ErrCancelled, and its memory is not read afterwards. Its handler runs with all of it or not at
// all. Messages before, after and beside it arrive whole. Then all memory is free.
func TestCancelBytes(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		o := bed.Options{Nodes: 2, Slots: rapid.SampledFrom([]int{2, 64}).Draw(r, "slots"),
			Net:  wire.Config{Seed: rapid.Uint64().Draw(r, "seed")},
			Tune: func(c *engine.Config) { c.PeerTimeout = peerTimeout }}
		if rapid.Bool().Draw(r, "faults") {
			o.Net.Faults = faults
		}
		direct := rapid.Bool().Draw(r, "direct")
		sizes := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(81, 2100), rapid.IntRange(3000, 40<<10)),
			1, 20).Draw(r, "sizes")
		after := rapid.SliceOfN(rapid.IntRange(0, 60), len(sizes), len(sizes)).Draw(r, "polls until cancelled")
		b := bed.New(t, o)
		arrived := make([]int, len(sizes))
		over := false
		windows := new(windowCount)
		for i, err := range b.Run(func(n *bed.Node) error {
			err := errors.Join(n.UseMemory(windows.memory(n, direct)),
				n.HandleBytes(0, func(m *am.Message, b []byte) error {
					for i, size := range sizes {
						if len(b) == size && bytes.Equal(b, numbered(0, i, size)) {
							arrived[i]++
							return nil
						}
					}
					return fmt.Errorf("%d bytes are damaged", len(b))
				}), n.Barrier())
			if err != nil {
				return err
			}
			if n.Node() == 1 {
				err := n.WaitFor(0, func() bool { return over && am.MemoryInUse(n.Endpoint) == 0 })
				return errors.Join(err, n.Barrier())
			}
			ids, ended, results := make([]am.ID, len(sizes)), make([]int, len(sizes)), make([]error, len(sizes))
			pending := len(sizes)
			for i, size := range sizes {
				b := numbered(0, i, size)
				if ids[i], err = n.StartBytes(1, 0, b, func(err error) {
					clear(b)
					ended[i]++
					results[i] = err
					pending--
				}); err != nil {
					return err
				}
			}
			for polls := 0; pending > 0; polls++ {
				for i := range ids {
					if after[i] == 0 || polls != after[i] {
						continue
					}
					before := windows.closing
					if n.Cancel(ids[i]) != (results[i] == am.ErrCancelled) || windows.closing > before {
						return fmt.Errorf("message %d was cancelled and has ended with %v", i, results[i])
					}
				}
				if _, err := n.Poll(); err != nil {
					return err
				}
			}
			if err := n.Wait(func() bool { return n.SendsUnderWay() == 0 }); err != nil {
				return err
			}
			if over = true; windows.open != 0 {
				return fmt.Errorf("the card may still read %d messages", windows.open)
			}
			for i := range sizes {
				if n.Cancel(ids[i]) || ended[i] != 1 || results[i] != nil &&
					(after[i] == 0 || results[i] != am.ErrCancelled) ||
					results[i] == nil && arrived[i] != 1 && ids[i] != 0 || arrived[i] > 1 {
					return fmt.Errorf("message %d of %d bytes ended %d times with %v and arrived %d times", i, sizes[i],
						ended[i], results[i], arrived[i])
				}
			}
			return n.Barrier()
		}) {
			if err != nil {
				r.Errorf("node %d: %v", i, err)
			}
		}
	})
}

// TestBytesToANodeThatDies: whenever a node is killed, each message to it ends, those from it leave
// nothing behind, and messages between the others arrive.
func TestBytesToANodeThatDies(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		o := bed.Options{Nodes: 3, Net: wire.Config{Seed: rapid.Uint64().Draw(r, "seed")},
			Tune: func(c *engine.Config) { c.PeerTimeout, c.ConnectTimeout = 20*time.Millisecond, 20*time.Millisecond }}
		direct := rapid.Bool().Draw(r, "direct")
		at := rapid.Int64Range(1, 400_000).Draw(r, "killed after ns")
		size := rapid.SampledFrom([]int{500, 3000, 30 << 10}).Draw(r, "size")
		b := bed.New(t, o)
		b.At(time.Duration(at)+100*time.Microsecond, func() { b.Nodes[2].Kill() })
		for i, err := range b.Run(func(n *bed.Node) error {
			got := 0
			err := errors.Join(messageMemory(n, am.LeastMemory, direct),
				n.HandleBytes(0, func(m *am.Message, b []byte) error {
					if !bytes.Equal(b, pattern(m.Source, size)) {
						return fmt.Errorf("%d bytes of node %d are damaged", len(b), m.Source)
					}
					if m.Source != 2 {
						got++
					}
					return nil
				}))
			if err != nil {
				return err
			}
			const rounds = 30
			lost := func(err error) error { // what is lost is node 2's
				var u *am.Undelivered
				if errors.As(err, &u) && u.Node == 2 {
					return nil
				}
				return err
			}
			for range rounds {
				for to := range 3 {
					if to == n.Node() {
						continue
					}
					started, ended := false, 0
					for !started {
						_, err := n.StartBytes(to, 0, pattern(n.Node(), size), func(err error) {
							if ended++; lost(err) != nil {
								panic(err)
							}
						})
						if started = err == nil; lost(err) != nil {
							return err
						}
					}
					polls := 0
					for ended == 0 {
						_, err := n.Poll()
						if polls++; polls%10000 == 0 {
							err = errors.Join(err, n.ProbeSends())
						}
						if lost(err) != nil {
							return err
						}
					}
				}
			}
			until := n.Now() + int64(200*time.Millisecond)
			polls := 0
			for got < rounds || n.Now() < until || am.MemoryInUse(n.Endpoint) > 0 {
				_, err := n.Poll()
				// a node that sends nothing to another does not learn that it is gone
				if polls++; polls%1000 == 0 {
					err = errors.Join(err, n.Request(2, 0))
				}
				if lost(err) != nil && got < rounds {
					return err
				}
				if n.Now() > until+int64(20*time.Second) {
					return fmt.Errorf("%d of %d messages arrived; %d bytes are in use", got, rounds,
						am.MemoryInUse(n.Endpoint))
				}
			}
			return nil
		}) {
			if err != nil && !errors.Is(err, bed.ErrKilled) {
				r.Fatalf("node %d: %v", i, err)
			}
		}
	})
}

// TestLongBytesComeBack: what comes back of a message ends it with that error, is said again where
// the other side waits for it, and does not become an error of a message that was cancelled. The
// test is the card.
func TestLongBytesComeBack(t *testing.T) {
	const reason = arctic.ReasonResynchronised
	e, card, _ := hostile(t)
	var ended []error
	start := func() am.ID {
		id, err := e.StartBytes(1, 0, make([]byte, 5000), func(err error) { ended = append(ended, err) })
		if err != nil || id == 0 {
			t.Fatal(id, err)
		}
		return id
	}
	back := func(l funi.Level, h funi.Header, word uint32) error {
		card.Return(funi.Returned{Reason: reason, Level: l, Header: h, Word: word})
		card.Publish()
		_, err := e.Poll()
		if _, again := e.Poll(); again != nil { // what is to be said leaves
			t.Fatal(again)
		}
		return err
	}
	one := func(what string, typ uint16) funi.Slot {
		found := sentOf(card, typ)
		if len(found) != 1 {
			t.Fatalf("%s: %d messages of type %d, want 1", what, len(found), typ)
		}
		return found[0]
	}
	granted := func(id, key uint32) {
		arrive(t, e, card, funi.Reply, 1, funi.NewHeader(0, typeGrant, 4), []uint32{id, key, 0xc0002000, 0})
	}
	var u *am.Undelivered

	start()
	ready := one("a start", typeReady)
	if err := back(funi.Request, ready.Header(), ready[1]); !errors.As(err, &u) || u.Reason != reason ||
		len(ended) != 1 || !errors.As(ended[0], &u) {
		t.Errorf("the announcement came back: %v; %v", err, ended)
	}
	s := card.Vacant(funi.Reply) // the grant comes after all
	s.SetHeader(funi.NewHeader(0, typeGrant, 4))
	s[1], s[2], s[3], s[4], s[funi.SourceWord] = ready[1], 88, 0xc0002000, 0, 1
	card.Deliver(funi.Reply)
	card.Publish()
	_, err := e.Poll()
	if abort := one("a grant for a message that has ended", typeAbort); err != nil || abort[1] != 88 {
		t.Errorf("key %d was given up, want 88: %v", abort[1], err)
	} else if err := back(funi.Request, abort.Header(), 88); err != nil ||
		one("an abort that came back", typeAbort)[1] != 88 {
		t.Errorf("it came back: %v", err)
	}

	start()
	ready = one("a start", typeReady)
	granted(ready[1], 99) // its parts have left
	if err := back(funi.Request, funi.NewTransferHeader(1, typePart, 0), 99); !errors.As(err, &u) || len(ended) != 2 ||
		!errors.As(ended[1], &u) {
		t.Errorf("a part came back: %v; %v", err, ended)
	}
	if abort := one("a part that came back", typeAbort); abort[1] != 99 {
		t.Errorf("key %d was given up, want 99", abort[1])
	}

	id := start()
	ready = one("a start", typeReady)
	granted(ready[1], 100)
	if !e.Cancel(id) || len(ended) != 3 || ended[2] != am.ErrCancelled {
		t.Errorf("cancelled: %v", ended)
	}
	if err := back(funi.Request, funi.NewTransferHeader(1, typePart, 0), 100); err != nil || e.SendsUnderWay() != 0 {
		t.Errorf("a part of a message that was cancelled came back: %v; %d under way", err, e.SendsUnderWay())
	}
	sentOf(card, 0)

	s = card.Vacant(funi.Request) // another node's
	s.SetHeader(funi.NewHeader(0, typeReady, 5))
	s[1], s[2], s[3], s[funi.SourceWord] = 7, 0, 5000, 2
	card.Deliver(funi.Request)
	card.Publish()
	if _, err := e.Poll(); err != nil {
		t.Fatal(err)
	}
	grant := one("an announcement", typeGrant)
	if err := back(funi.Reply, grant.Header(), grant[1]); err != nil {
		t.Errorf("a grant came back: %v", err)
	}
	if again := one("a grant that came back", typeGrant); [4]uint32(again[1:5]) != [4]uint32(grant[1:5]) {
		t.Errorf("the grant was %x and is %x", grant[1:5], again[1:5])
	}
	if err := back(funi.Reply, funi.NewHeader(2, typeTaken, 2), 7); err != nil {
		t.Errorf("an answer came back: %v", err)
	}
	if again := one("an answer that came back", typeTaken); again[1] != 7 || again[2] == 0 {
		t.Errorf("then it was %x", again[1:3])
	}
}

// TestAbortComesLast: of a message that is copied and cancelled the receiver is told when the card
// has given back its parts, which it might still write. The test is the card.
func TestAbortComesLast(t *testing.T) {
	e, card, _ := hostile(t)
	id, err := e.StartBytes(1, 0, make([]byte, 5000), nil)
	if err != nil {
		t.Fatal(err)
	}
	ready := sentOf(card, typeReady)
	s := card.Vacant(funi.Reply)
	s.SetHeader(funi.NewHeader(0, typeGrant, 4))
	s[1], s[2], s[3], s[4], s[funi.SourceWord] = ready[0][1], 6, 0xc0002000, 0, 1
	card.Deliver(funi.Reply)
	card.Publish()
	for range 3 {
		if _, err := e.Poll(); err != nil {
			t.Fatal(err)
		}
	}
	parts := card.Pending(funi.Request)
	if !e.Cancel(id) || parts != 3 {
		t.Fatalf("%d parts have left, want 3", parts)
	}
	for i := range parts {
		if _, err := e.Poll(); err != nil || card.Pending(funi.Request) != parts-i {
			t.Fatalf("with %d parts given back %d messages are there: %v", i, card.Pending(funi.Request), err)
		}
		card.Retire(funi.Request, 1)
		card.Publish()
	}
	if _, err := e.Poll(); err != nil {
		t.Fatal(err)
	}
	if abort := sentOf(card, typeAbort); len(abort) != 1 || abort[0][1] != 6 || e.SendsUnderWay() != 0 {
		t.Errorf("then %d were told; %d under way", len(abort), e.SendsUnderWay())
	}
}
