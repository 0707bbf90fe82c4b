package am_test

// This file tests wide messages (package am, wide.go): which receive gets which message, in MPI's
// order, whatever the network does; peeks and claims; and the bounds of what is kept.

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/tests/bed"
	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// TestWide: messages of each kind of length arrive as they were, with all that goes with them, to
// this node too, whether the receive comes first or the message.
func TestWide(t *testing.T) {
	lengths := []int{0, 1, 4, 60, 61, am.ShortWide, am.ShortWide + 1, 128, 129, 200, am.PartedWide - 1, am.PartedWide,
		am.PartedWide + 1, 76 * 33, 20_000}
	for _, slots := range []int{2, 64} {
		for _, flags := range []am.WideFlags{0, am.WideData, am.WideConfirm, am.WideData | am.WideConfirm} {
			b := bed.New(t, bed.Options{Nodes: 3, Slots: slots, Limit: 5 * time.Minute})
			b.MustRun(func(n *bed.Node) error {
				if n.Node() != 1 {
					if err := messageMemory(n, am.LeastMemory, n.Node() == 0); err != nil {
						return err
					}
				}
				for i, length := range lengths {
					for to := range n.Nodes() {
						from := (n.Node() - to + n.Nodes()) % n.Nodes()
						to := (n.Node() + to) % n.Nodes()
						w := am.Wide{Channel: uint8(200 + i), Origin: uint8(255 - i), Tag: 1<<63 | uint64(i), Flags: flags}
						if flags&am.WideData != 0 {
							w.Data = 0xfedc_ba98_7654_3210
						}
						sent, received, got := false, false, make([]byte, length+8)
						if i%2 == 0 { // the receive is there first
							if err := n.Barrier(); err != nil {
								return err
							}
						}
						_, err := n.StartSendWide(to, w, content(length, n.Node()), func(err error) {
							sent = err == nil
						})
						if err != nil {
							return err
						}
						if _, err := n.StartRecvWide(am.Want{Source: from, Origin: w.Origin, Channel: w.Channel,
							Tag: w.Tag | 0xf0, Ignore: 0xf0}, got,
							func(what am.Received, err error) {
								want := am.Received{Source: from, Bytes: length, Wide: w}
								received = err == nil && what == want && bytes.Equal(got[:length],
									content(length, from)) &&
									bytes.Equal(got[length:], make([]byte, 8))
								if !received {
									t.Errorf("got %+v, want %+v, or other bytes: %v", what, want, err)
								}
							}); err != nil {
							return err
						}
						if err := n.Wait(func() bool { return sent && received }); err != nil {
							return err
						}
					}
				}
				return n.Barrier()
			})
		}
	}
}

// TestWideConfirm: a send with WideConfirm ends when a receive has got the message, and not before,
// whatever the length.
func TestWideConfirm(t *testing.T) {
	for _, length := range []int{0, 8, 500, 3000, 20_000} {
		for _, room := range []int{0, 8, 20_000} {
			b := bed.New(t, bed.Options{Nodes: 2})
			sent, received := false, false
			b.MustRun(func(n *bed.Node) error {
				if err := errors.Join(messageMemory(n, am.LeastMemory, false), n.Barrier()); err != nil {
					return err
				}
				if n.Node() == 0 {
					if _, err := n.StartSendWide(1, am.Wide{Flags: am.WideConfirm}, content(length, 0),
						func(err error) {
							if sent = true; err != nil || !received {
								t.Errorf("the send of %d bytes into %d ended before its receive, or with %v",
									length, room, err)
							}
						}); err != nil {
						return err
					}
					return errors.Join(n.Barrier(), n.Wait(func() bool { return sent }), n.Barrier())
				}
				if err := n.Barrier(); err != nil {
					return err
				}
				until := n.Now() + int64(time.Millisecond)
				if err := n.Wait(func() bool { return n.Now() > until }); err != nil || sent {
					return fmt.Errorf("it is sent without a receive: %v, %w", sent, err)
				}
				got := make([]byte, room)
				if _, err := n.StartRecvWide(wide(0, 0, 0, 0), got, func(what am.Received, err error) {
					received = true
					if errors.Is(err, am.ErrTruncate) != (length > room) || !bytes.HasPrefix(content(length,
						0), got[:min(room, length)]) {
						t.Errorf("%d bytes into %d: %+v, %v", length, room, what, err)
					}
				}); err != nil {
					return err
				}
				return errors.Join(n.Wait(func() bool { return received }), n.Barrier())
			})
		}
	}
}

// TestWideUnexpected: a program that receives the last of many messages first, as MPI allows, does
// not wait for ever.
func TestWideUnexpected(t *testing.T) {
	const messages = 5000
	b := bed.New(t, bed.Options{Nodes: 2, Limit: time.Minute})
	b.MustRun(func(n *bed.Node) error {
		if n.Node() == 0 {
			for i := range messages {
				if _, err := n.StartSendWide(1, am.Wide{Tag: uint64(i)}, content(i%200, i),
					func(error) {}); err != nil {
					return err
				}
			}
			return n.Barrier()
		}
		got, received := make([]byte, 200), false
		for i := messages - 1; i >= 0; i-- {
			received = false
			if _, err := n.StartRecvWide(wide(0, 0, uint64(i), 0), got, func(what am.Received, err error) {
				if received = true; err != nil || !bytes.Equal(got[:what.Bytes], content(i%200, i)) {
					t.Errorf("message %d: %+v, %v", i, what, err)
				}
			}); err != nil {
				return err
			}
			if err := n.Wait(func() bool { return received }); err != nil {
				return err
			}
		}
		return n.Barrier()
	})
}

// envelopes lets short wide messages of a node arrive, with the given tags and numbers from first.
func envelopes(t testing.TB, e *am.Endpoint, card *funi.Card, from uint16, first int, tags ...uint64) {
	t.Helper()
	for i, tag := range tags {
		s := card.Vacant(funi.Request)
		s.SetHeader(funi.NewHeader(0, 26, 4))
		s[1], s[2], s[3], s[4] = uint32(first+i)<<2|2, uint32(tag), 0, uint32(tag>>32)
		s[funi.SourceWord] = uint32(from)
		card.Deliver(funi.Request)
		if i%500 == 499 || i == len(tags)-1 {
			card.Publish()
			if _, err := e.Poll(); err != nil {
				t.Fatal(err)
			}
			card.Retire(funi.Request, card.Pending(funi.Request))
			card.Publish()
		}
	}
}

// TestHundredThousandUnexpected: 100,000 messages that nobody received are taken in any order
// without a look at each of the others. So are as many receives that wait.
func TestHundredThousandUnexpected(t *testing.T) {
	const each = 50_000
	tags := make([]uint64, each)
	for i := range tags {
		tags[i] = uint64(i) << 8
	}
	for name, c := range map[string]struct {
		source func(node int) int
		ignore uint64
		tag    func(i int) uint64
	}{
		"exact":               {func(node int) int { return node }, 0, func(i int) uint64 { return tags[i] }},
		"bits ignored":        {func(node int) int { return node }, 0xff, func(i int) uint64 { return tags[i] | 0x5a }},
		"any source":          {func(int) int { return am.AnySource }, 0, func(i int) uint64 { return tags[i] }},
		"any source and bits": {func(int) int { return am.AnySource }, 0xff, func(i int) uint64 { return tags[i] }},
		"any tag, one source": {func(node int) int { return node }, ^uint64(0), func(int) uint64 { return 0 }},
	} {
		for _, first := range []string{"messages", "receives"} {
			t.Run(name+", "+first+" first", func(t *testing.T) {
				e, card := bare(t)
				got := 0
				received := func(what am.Received, err error) {
					if err == nil {
						got++
					}
				}
				arrive := func() {
					for node := 1; node <= 2; node++ {
						envelopes(t, e, card, uint16(node), 0, tags...)
					}
				}
				receive := func(most int) {
					for i := each - 1; i >= 0 && most > 0; i-- {
						for node := 2; node >= 1; node-- {
							most--
							if _, err := e.StartRecvWide(wide(c.source(node), 0, c.tag(i), c.ignore), nil,
								received); err != nil {
								t.Fatal(err)
							}
						}
					}
				}
				want := 2 * each
				if first == "messages" {
					arrive()
					receive(want)
				} else {
					want = am.MaxTagged
					receive(want)
					arrive()
				}
				if got != want || e.Unknown() > 0 {
					t.Errorf("%d of %d were received; %d were for nobody", got, want, e.Unknown())
				}
			})
		}
	}
}

// TestHundredThousandOfOneNode: a node may send as many before the first is received.
func TestHundredThousandOfOneNode(t *testing.T) {
	e, card := bare(t)
	tags := make([]uint64, 100_000)
	for i := range tags {
		tags[i] = uint64(i)
	}
	envelopes(t, e, card, 1, 0, tags...)
	got := -1
	for i := len(tags) - 1; i >= 0; i-- {
		if _, err := e.StartRecvWide(wide(1, 0, tags[i], 0), nil, func(what am.Received, _ error) {
			got = int(what.Wide.Tag)
		}); err != nil || got != i {
			t.Fatalf("received message %d in the place of %d: %v", got, i, err)
		}
	}
}

// TestWideWindow: a node keeps at most WideWindow messages of another; the others wait at their
// sender, which goes on when they are received.
func TestWideWindow(t *testing.T) {
	e, card := bare(t)
	sent := 0
	for i := range am.WideWindow + 8 {
		if _, err := e.StartSendWide(1, am.Wide{}, nil, func(error) { sent++ }); err != nil {
			t.Fatal(err)
		}
		if i%500 == 0 {
			card.Retire(funi.Request, card.Pending(funi.Request))
			card.Publish()
			if _, err := e.Poll(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if sent != am.WideWindow {
		t.Fatalf("%d were sent, want %d", sent, am.WideWindow)
	}
	told := func(from uint16, words ...uint32) {
		arrive(t, e, card, funi.Request, from, funi.NewHeader(0, 28, len(words)), words)
	}
	told(1, 0, 2<<18, 0, 0, 3, 0)
	if sent != am.WideWindow+3 {
		t.Errorf("after 3 were received %d are complete", sent)
	}
	told(1, 0, 2<<18, 0, 0, am.WideWindow+100, 0) // more than were sent
	told(2, 0, 2<<18, 0, 0, 5, 0)                 // another node
	told(1, 0, 1<<18, 0, 0, 5)                    // another space
	told(1, 0, 2<<18, 0, 0, 5)                    // too short
	if sent != am.WideWindow+3 {
		t.Errorf("after lies %d are complete", sent)
	}
	// A receiver does not keep more.
	peer, its := bare(t)
	tags := make([]uint64, am.WideWindow+50)
	envelopes(t, peer, its, 1, 0, tags...)
	if kept, _ := am.WideKept(peer, 1); kept != am.WideWindow || peer.Unknown() != 50 {
		t.Errorf("%d are kept, %d were dropped", kept, peer.Unknown())
	}
}

// TestPartedWindow: beyond PartedWindow messages that came in parts and were not received, further
// ones wait for their receives, and the window opens when messages are received.
func TestPartedWindow(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 2})
	b.MustRun(func(n *bed.Node) error {
		if n.Node() == 0 {
			for range 3 { // the third time after some were received
				sent := 0
				for i := range am.PartedWindow + 8 {
					if _, err := n.StartSendWide(1, am.Wide{Tag: uint64(i)}, content(900, i),
						func(error) { sent++ }); err != nil {
						return err
					}
				}
				until := n.Now() + int64(10*time.Millisecond)
				if err := errors.Join(n.Wait(func() bool { return n.Now() > until }), n.Barrier()); err != nil {
					return err
				}
				if sent != am.PartedWindow {
					return fmt.Errorf("%d were sent without their receives, want %d", sent, am.PartedWindow)
				}
				if err := errors.Join(n.Wait(func() bool { return sent == am.PartedWindow+8 }),
					n.Barrier()); err != nil {
					return err
				}
			}
			return nil
		}
		for range 3 {
			if err := n.Barrier(); err != nil {
				return err
			}
			if kept, blocks := am.WideKept(n.Endpoint, 0); kept != am.PartedWindow+8 || blocks != am.PartedWindow {
				return fmt.Errorf("%d are kept, with %d blocks", kept, blocks)
			}
			got := make([]byte, 900)
			for i := am.PartedWindow + 7; i >= 0; i-- {
				received := false
				if _, err := n.StartRecvWide(wide(0, 0, uint64(i), 0), got, func(am.Received,
					error) {
					received = true
				}); err != nil {
					return err
				}
				if err := n.Wait(func() bool { return received }); err != nil || !bytes.Equal(got, content(900, i)) {
					return fmt.Errorf("message %d is damaged: %w", i, err)
				}
			}
			if err := n.Barrier(); err != nil {
				return err
			}
		}
		return nil
	})
}

// wanting is a receive or a message of the model below.
type wanting struct {
	number      int // of a receive in order of start; of a message in order of arrival
	source      int
	origin      uint8
	channel     uint8
	tag, ignore uint64
	claimed     bool
	claim       am.Claim
	id          am.ID
	bytes       int // of a message; room of a receive
	least       int // of a receive of many messages, or 0
}

// want returns the arguments of a receive.
func (w *wanting) want() am.Want {
	return am.Want{Source: w.source, Origin: w.origin, Channel: w.channel, Tag: w.tag, Ignore: w.ignore}
}

// accepts is the rule of matching.
func (w *wanting) accepts(m *wanting) bool {
	return w.channel == m.channel && (w.tag^m.tag)&^w.ignore == 0 && (w.source == am.AnySource ||
		w.source == m.source && w.origin == m.origin)
}

// TestWideMatchesAsAModel: with messages, receives, peeks, claims, discards and cancels in any
// order and packets that overtake each other, receives get what two lists in order would give them.
// That is MPI's order.
func TestWideMatchesAsAModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		e, card := bare(t)
		var messages, receives []*wanting // that wait
		var expected, got [][3]int        // receive, message, and 1 if the receive goes on
		next := 0                         // receive
		arrived := 0
		// meet gives a message to a receive, and reports whether the receive goes on.
		meet := func(receive, message *wanting) bool {
			receive.bytes -= min(receive.bytes, message.bytes)
			more := 0
			if receive.least > 0 && receive.bytes >= receive.least {
				more = 1
			}
			expected = append(expected, [3]int{receive.number, message.number, more})
			return more == 1
		}
		// packets of each source that have yet to arrive, in order, and their messages by number
		var packets [3][][]uint32
		var sent [3][]*wanting
		var parts [3][]int // packets missing by number
		var turn [3]int
		few := rapid.SampledFrom([]uint64{0, 1, 2, 1 << 40, 1<<40 | 1, 3 << 40})
		masks := rapid.OneOf(rapid.SampledFrom([]uint64{0, 0, 0, 1, ^uint64(0), 1 << 40}), few,
			rapid.Uint64Range(0, 15))
		source := func() int { return rapid.SampledFrom([]int{am.AnySource, 0, 1, 1, 2}).Draw(r, "source") }
		pattern := func() *wanting {
			w := &wanting{source: source(), origin: uint8(rapid.IntRange(0, 1).Draw(r, "origin")),
				channel: uint8(rapid.IntRange(0, 1).Draw(r, "channel")), tag: few.Draw(r, "tag"),
				ignore: masks.Draw(r, "ignore")}
			return w
		}
		first := func(w *wanting) int {
			return slices.IndexFunc(messages, func(m *wanting) bool { return w.accepts(m) })
		}
		start := func(begin func(done func(am.Received, error)) (am.ID, error)) am.ID {
			number := next
			next++
			id, err := begin(func(what am.Received, err error) {
				if errors.Is(err, am.ErrCancelled) {
					return
				}
				more := 0
				if what.More {
					more = 1
				}
				got = append(got, [3]int{number, int(what.Wide.Data), more})
				if err != nil && !errors.Is(err, am.ErrTruncate) {
					t.Error(err)
				}
			})
			if err != nil {
				r.Fatal(err)
			}
			return id
		}
		accept := func(m *wanting) {
			for i, w := range receives {
				if w.accepts(m) {
					if !meet(w, m) {
						receives = slices.Delete(receives, i, i+1)
					}
					return
				}
			}
			messages = append(messages, m)
		}
		var claims []*wanting
		for range rapid.IntRange(1, 120).Draw(r, "steps") {
			step := rapid.SampledFrom([]string{"send", "send", "arrive", "arrive", "arrive", "receive", "receive", "many",
				"peek", "claim", "take", "discard", "cancel"}).Draw(r, "step")
			switch step {
			case "send":
				from := rapid.IntRange(0, 2).Draw(r, "from")
				m := &wanting{number: arrived, source: from, origin: uint8(rapid.IntRange(0, 1).Draw(r, "origin")),
					channel: uint8(rapid.IntRange(0, 1).Draw(r, "channel")), tag: few.Draw(r, "tag")}
				arrived++
				number, third := uint32(len(sent[from])), uint32(m.channel)<<18|1<<26|uint32(m.origin)
				head := []uint32{number<<2 | 2, uint32(m.tag), third, uint32(m.tag >> 32), uint32(m.number), 0}
				count := 1
				if rapid.IntRange(0, 4).Draw(r, "parted") == 0 {
					head[0] |= 3
					head = append(append(head, 100), make([]uint32, 14)...)
					packets[from] = append(packets[from], append([]uint32{number<<2 | 3, 100 | 1<<16, 3 << 16},
						make([]uint32, 11)...))
					count, m.bytes = 2, 100
				}
				packets[from] = append(packets[from], head)
				sent[from] = append(sent[from], m)
				parts[from] = append(parts[from], count)
			case "arrive":
				from := rapid.IntRange(0, 2).Draw(r, "from")
				if len(packets[from]) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(packets[from])-1).Draw(r, "which")
				p := packets[from][i]
				packets[from] = slices.Delete(packets[from], i, i+1)
				arrive(r, e, card, funi.Request, uint16(from), funi.NewHeader(0, 26, len(p)), p)
				parts[from][p[0]>>2]--
				for turn[from] < len(sent[from]) && parts[from][turn[from]] == 0 {
					accept(sent[from][turn[from]])
					turn[from]++
				}
			case "receive", "many":
				w := pattern()
				w.number = next
				if step == "many" {
					w.bytes, w.least = 250, 1+100*rapid.IntRange(0, 1).Draw(r, "least")
				}
				room, more := w.bytes, true
				for i := first(w); more && i >= 0; i = first(w) {
					more = meet(w, messages[i])
					messages = slices.Delete(messages, i, i+1)
				}
				if more {
					receives = append(receives, w)
				}
				w.id = start(func(done func(am.Received, error)) (am.ID, error) {
					want := w.want()
					if w.least > 0 {
						want.Many = &am.Many{Least: w.least, More: always}
					}
					return e.StartRecvWide(want, make([]byte, room), done)
				})
			case "peek":
				w := pattern()
				what, ok := e.PeekWide(w.want())
				if i := first(w); ok != (i >= 0) || ok && int(what.Wide.Data) != messages[i].number {
					r.Fatalf("peek finds %v, %+v; the model %d", ok, what, i)
				}
			case "claim":
				w := pattern()
				what, claim, ok := e.ClaimWide(w.want())
				i := first(w)
				if ok != (i >= 0) || ok && int(what.Wide.Data) != messages[i].number {
					r.Fatalf("claim finds %v, %+v; the model %d", ok, what, i)
				}
				if ok {
					messages[i].claim = claim
					claims = append(claims, messages[i])
					messages = slices.Delete(messages, i, i+1)
				}
			case "take", "discard":
				if len(claims) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(claims)-1).Draw(r, "which")
				m := claims[i]
				claims = slices.Delete(claims, i, i+1)
				if rapid.Bool().Draw(r, "discard") {
					if err := m.claim.Discard(); err != nil {
						r.Fatal(err)
					}
				} else {
					meet(&wanting{number: next}, m)
					start(func(done func(am.Received, error)) (am.ID, error) { return m.claim.StartRecv(nil, done) })
				}
				if _, err := m.claim.StartRecv(nil, nil); !errors.Is(err, am.ErrClaim) ||
					!errors.Is(m.claim.Discard(), am.ErrClaim) {
					r.Fatalf("a claim is used twice: %v", err)
				}
			case "cancel":
				if len(receives) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(receives)-1).Draw(r, "which")
				if !e.Cancel(receives[i].id) {
					r.Fatal("a receive that waits is not there")
				}
				receives = slices.Delete(receives, i, i+1)
			}
			if !slices.Equal(got, expected) {
				r.Fatalf("receives got %v, want %v", got, expected)
			}
			for node := range 3 {
				am.WideKept(e, node)
			}
		}
		if e.Unknown() > 0 {
			r.Fatalf("%d messages were for nobody", e.Unknown())
		}
	})
}

// TestWideKeepsMPIsOrder sends messages of all lengths over a network that loses, duplicates and
// reorders, to receives of all patterns. Of two messages of a node that a receive accepts, and that
// both were received, the earlier one went to it or to a receive that was started before. Nothing
// is lost, nothing comes twice.
func TestWideKeepsMPIsOrder(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		nodes := rapid.IntRange(1, 4).Draw(r, "nodes")
		slots := rapid.SampledFrom([]int{2, 8, 64}).Draw(r, "slots")
		seed := rapid.Uint64().Draw(r, "seed")
		messages := rapid.IntRange(1, 60).Draw(r, "messages")
		longest := rapid.SampledFrom([]int{16, 100, 1100, 6000}).Draw(r, "longest")
		memory := rapid.Bool().Draw(r, "memory")
		cancels := rapid.Bool().Draw(r, "cancels")
		b := bed.New(t, bed.Options{Nodes: nodes, Slots: slots, Net: wire.Config{Seed: seed, Faults: faults},
			Limit: 10 * time.Minute})
		const last = 9 // channel of the last message
		over := 0
		b.MustRun(func(n *bed.Node) error {
			if memory {
				if err := messageMemory(n, am.LeastMemory, false); err != nil {
					return err
				}
			}
			random := rand.New(rand.NewPCG(seed, uint64(n.Node())))
			done, started := 0, 0
			send := func(to, number int, w am.Wide) error {
				m := make([]byte, 8+random.IntN(longest))
				for i := range m {
					m[i] = byte(i + number)
				}
				w.Data, w.Flags = uint64(number), am.WideData
				if random.IntN(8) == 0 {
					w.Flags |= am.WideConfirm
				}
				started++
				id, err := n.StartSendWide(to, w, m, func(err error) {
					if done++; err != nil && !errors.Is(err, am.ErrCancelled) {
						t.Error(err)
					}
				})
				if cancels && w.Channel != last && random.IntN(10) == 0 {
					n.Cancel(id)
				}
				return err
			}
			type took struct {
				wanting
				from, number int
				taken        wanting
			}
			var all []*took
			open, ends, bad := 0, 0, error(nil)
			receive := func(w wanting) error {
				c := &took{wanting: w, number: -1}
				got := make([]byte, 8+longest)
				all = append(all, c)
				open++
				ended := func(what am.Received, err error) {
					open--
					if errors.Is(err, am.ErrCancelled) || errors.Is(err, am.ErrAborted) {
						return
					}
					c.from, c.number = what.Source, int(what.Wide.Data)
					c.taken = wanting{source: what.Source, origin: what.Wide.Origin, channel: what.Wide.Channel,
						tag: what.Wide.Tag}
					ok := err == nil && c.accepts(&c.taken)
					for i, v := range got[:min(what.Bytes, len(got))] {
						ok = ok && v == byte(i+c.number)
					}
					if !ok {
						bad = errors.Join(bad, fmt.Errorf("received %+v, %w", what, err))
					}
				}
				var err error
				if random.IntN(6) == 0 {
					if _, claim, ok := n.ClaimWide(w.want()); ok {
						c.claimed = true
						_, err = claim.StartRecv(got, ended)
						return err
					}
				}
				c.id, err = n.StartRecvWide(w.want(), got, ended)
				return err
			}
			for from := range nodes {
				if _, err := n.StartRecvWide(wide(from, last, 0, 0), nil, func(_ am.Received, err error) {
					if ends++; !errors.Is(err, am.ErrTruncate) {
						bad = errors.Join(bad, fmt.Errorf("the last message: %w", err))
					}
				}); err != nil {
					return err
				}
			}
			some := func() wanting {
				return wanting{source: random.IntN(nodes+1) - 1, origin: uint8(random.IntN(2)),
					channel: uint8(random.IntN(2)), tag: uint64(random.IntN(3)),
					ignore: []uint64{0, 0, 1, 3, ^uint64(0)}[random.IntN(5)]}
			}
			for i := range messages {
				for to := range nodes {
					if err := send(to, i, am.Wide{Channel: uint8(random.IntN(2)), Origin: uint8(random.IntN(2)),
						Tag: uint64(random.IntN(3))}); err != nil {
						return err
					}
				}
				for open < 6 {
					if err := receive(some()); err != nil {
						return err
					}
				}
				if _, err := n.Poll(); err != nil {
					return err
				}
				if cancels && random.IntN(5) == 0 {
					n.Cancel(all[random.IntN(len(all))].id)
				}
			}
			for to := range nodes {
				if err := send(to, messages, am.Wide{Channel: last}); err != nil {
					return err
				}
			}
			if err := n.Wait(func() bool { return ends == nodes }); err != nil {
				return err
			}
			// All has arrived, and what nobody has received is received now.
			for channel := range uint8(2) {
				for {
					if _, ok := n.PeekWide(wide(am.AnySource, channel, 0, ^uint64(0))); !ok {
						break
					}
					if err := receive(wanting{source: am.AnySource, channel: channel, ignore: ^uint64(0)}); err != nil {
						return err
					}
				}
			}
			over++
			if err := n.Wait(func() bool { return done == started && over == nodes }); err != nil {
				return err
			}
			// then all bytes that were granted are on their way or here
			if err := n.Barrier(); err != nil {
				return err
			}
			until := n.Now() + int64(100*time.Millisecond)
			if err := n.Wait(func() bool { return n.Now() > until }); err != nil {
				return err
			}
			var count [4]map[int]bool
			for i := range count {
				count[i] = map[int]bool{}
			}
			for i, c := range all {
				if c.number < 0 {
					n.Cancel(c.id)
					continue
				}
				if count[c.from][c.number] {
					return fmt.Errorf("message %d of node %d came twice", c.number, c.from)
				}
				count[c.from][c.number] = true
				// earlier was started before, and took a later one than it could
				for _, earlier := range all[:i] {
					if earlier.number >= 0 && earlier.from == c.from && c.number < earlier.number &&
						earlier.accepts(&c.taken) {
						return fmt.Errorf("receive %+v took message %d of node %d before %d", earlier,
							earlier.number, c.from, c.number)
					}
				}
			}
			if !cancels {
				for from := range nodes {
					if len(count[from]) != messages {
						return fmt.Errorf("%d of %d messages of node %d came", len(count[from]), messages, from)
					}
				}
			}
			if kept, blocks := am.WideKept(n.Endpoint, 0); bad != nil || kept+blocks > 0 || n.Unknown() > 0 &&
				!cancels {
				return fmt.Errorf("%d messages are kept, %d were for nobody: %w", kept, n.Unknown(), bad)
			}
			return n.Barrier()
		})
	})
}

// TestWideToTheDead: sends to a node that dies, receives from it, and a claimed message that it has
// yet to send, end with an error; a receive from any node goes on.
func TestWideToTheDead(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 3, Tune: func(c *engine.Config) {
		c.PeerTimeout, c.ConnectTimeout = 20*time.Millisecond, 20*time.Millisecond
	}, Limit: time.Minute})
	claimed := false
	errs := b.Run(func(n *bed.Node) error {
		if n.Node() == 1 { // a long one, a short one, and the end
			_, err1 := n.StartSendWide(0, am.Wide{Tag: 1}, make([]byte, 3000), func(error) {})
			_, err2 := n.StartSendWide(0, am.Wide{Tag: 2}, make([]byte, 8), func(error) {})
			if err := errors.Join(err1, err2, n.Barrier(), n.Wait(func() bool { return claimed })); err != nil {
				return err
			}
			b.At(0, n.Kill)
			return n.Wait(func() bool { return false })
		}
		if err := n.Barrier(); err != nil {
			return err
		}
		if n.Node() == 2 {
			for n.Now() < int64(time.Second) {
				_, _ = n.Poll() // of messages to node 1
			}
			_, err := n.StartSendWide(0, am.Wide{Tag: 6}, nil, func(error) {})
			return errors.Join(err, n.Wait(func() bool { return n.Retrieved(funi.Request) }))
		}
		_, long, ok := n.ClaimWide(wide(1, 0, 1, 0))
		_, short, ok2 := n.ClaimWide(wide(1, 0, 2, 0))
		if claimed = true; !ok || !ok2 {
			return errors.New("nothing to claim")
		}
		var ends []error
		finish := func(err error) { ends = append(ends, err) }
		anyone := false
		_, err1 := n.StartSendWide(1, am.Wide{Flags: am.WideConfirm}, nil, finish)
		_, err2 := n.StartSendWide(1, am.Wide{}, make([]byte, 3000), finish)
		_, err3 := n.StartRecvWide(wide(1, 0, 5, 0), nil, func(_ am.Received, err error) { finish(err) })
		_, err4 := n.StartRecvWide(wide(am.AnySource, 0, 6, 0), nil, func(what am.Received, err error) {
			anyone = err == nil && what.Source == 2
		})
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			return err
		}
		var u *am.Undelivered
		for !anyone || len(ends) < 3 {
			if _, err := n.Poll(); err != nil && !errors.As(err, &u) {
				return err
			}
		}
		for _, err := range ends {
			if !errors.As(err, &u) || u.Node != 1 {
				t.Errorf("they ended with %v", ends)
			}
		}
		if _, err := long.StartRecv(nil, func(am.Received, error) {}); !errors.As(err, &u) {
			t.Errorf("a claimed message of the dead: %v", err)
		}
		got := false
		if _, err := short.StartRecv(make([]byte, 8), func(_ am.Received,
			err error) {
			got = err == nil
		}); err != nil || !got {
			t.Errorf("a claimed message that has come whole: %v", err)
		}
		return nil
	})
	if errs[0] != nil || errs[2] != nil {
		t.Error(errs)
	}
}

// TestWideOfANewLife: when a node has left, what waits for it ends with ErrLeft. What it had sent
// whole can still be received. The numbers of its next life begin anew.
func TestWideOfANewLife(t *testing.T) {
	e, card := bare(t)
	if err := e.Rejoin(am.RejoinOptions{Now: func() int64 { return 0 }}); err != nil {
		t.Fatal(err)
	}
	envelope := func(number, tag, life, form uint32, more ...uint32) {
		words := append([]uint32{number<<2 | 2, tag, form<<16 | life<<27, 0}, more...)
		arrive(t, e, card, funi.Request, 1, funi.NewHeader(0, 26, len(words)), words)
	}
	envelope(0, 1, 0, 0)           // short
	envelope(1, 2, 0, 1, 77, 5000) // long
	envelope(2, 3, 0, 1, 78, 5000) // long, and claimed
	envelope(4, 4, 0, 0)           // early
	arrive(t, e, card, funi.Request, 1, funi.NewHeader(0, 26, 14), append([]uint32{5<<2 | 3, 100 | 1<<16, 3 << 16},
		make([]uint32, 11)...))
	var ends []error
	end := func(err error) { ends = append(ends, err) }
	receive := func(tag uint64) (got bool) {
		if _, err := e.StartRecvWide(wide(1, 0, tag, 0), nil, func(_ am.Received, err error) {
			if got = err == nil; !got {
				end(err)
			}
		}); err != nil {
			t.Fatal(err)
		}
		return got
	}
	_, claim, ok := e.ClaimWide(wide(1, 0, 3, 0))
	_, err := e.StartSendWide(1, am.Wide{Flags: am.WideConfirm}, nil, end)
	if receive(4); !ok || err != nil || len(ends) > 0 {
		t.Fatalf("claimed %v, %v, %v", ok, err, ends)
	}
	// hello of life 1
	arrive(t, e, card, funi.Request, 1, funi.NewHeader(0, 27, 5), []uint32{0, 1, 0, 0, 0})
	if len(ends) != 2 || !errors.Is(ends[0], am.ErrLeft) || !errors.Is(ends[1], am.ErrLeft) {
		t.Errorf("what waited ended with %v", ends)
	}
	if _, err := claim.StartRecv(nil, nil); !errors.Is(err, am.ErrLeft) {
		t.Errorf("a claimed message of the earlier life: %v", err)
	}
	if _, ok := e.PeekWide(wide(1, 0, 2, 0)); ok || !receive(1) {
		t.Error("a message that will not come is there, or one that came whole is not")
	}
	envelope(0, 9, 1, 0)
	if !receive(9) || e.Unknown() > 0 {
		t.Errorf("the first message of the next life is not there; %d were dropped", e.Unknown())
	}
	if kept, blocks := am.WideKept(e, 1); kept+blocks > 0 {
		t.Errorf("%d messages and %d blocks are left", kept, blocks)
	}
}

// TestWideThatComesBack: what comes back from a node that lives is made good. The receiver does not
// wait for a number, nor keep parts of the message; the sender is told again that its message was
// received.
func TestWideThatComesBack(t *testing.T) {
	e, card := bare(t)
	came := func(typ uint16, word uint32) [][]uint32 {
		card.Retire(funi.Request, card.Pending(funi.Request))
		card.Return(funi.Returned{Reason: arctic.ReasonUnknownKind, Level: funi.Request,
			Header: funi.NewHeader(1, typ, 2), Word: word})
		card.Publish()
		_, err := e.Poll()
		if _, err2 := e.Poll(); err2 != nil || (err == nil) != (typ == 28) {
			t.Errorf("a message of type %d came back: %v, %v", typ, err, err2)
		}
		var said [][]uint32
		for i := range card.Pending(funi.Request) {
			s := card.Slot(funi.Request, i)
			said = append(said, append([]uint32{uint32(s.Header().Type())}, s.Payload()...))
		}
		return said
	}
	if _, err := e.StartSendWide(1, am.Wide{}, make([]byte, 200), func(error) {}); err != nil {
		t.Fatal(err)
	}
	if s := came(26, 3); len(s) != 1 || s[0][0] != 26 || s[0][1] != 3 || s[0][3] != 2<<16 {
		t.Errorf("after a part: said %x", s)
	}
	var end error
	if _, err := e.StartSendWide(1, am.Wide{Flags: am.WideConfirm}, nil, func(err error) { end = err }); err != nil {
		t.Fatal(err)
	}
	var u *am.Undelivered
	if s := came(26, 1<<2|2); len(s) != 1 || s[0][1] != 1<<2|2 || s[0][3] != 2<<16 || !errors.As(end, &u) {
		t.Errorf("after an envelope: said %x, and the send ended with %v", s, end)
	}
	if s := came(28, 1<<31|77); len(s) != 1 || s[0][0] != 28 || s[0][1] != 1<<31|77 ||
		s[0][2] != 3<<16|2<<18 || s[0][3] != 77 {
		t.Errorf("after a confirmation: said %x", s)
	}
	// Of one message every part may come back.
	if _, err := e.StartSendWide(1, am.Wide{}, make([]byte, 200), func(error) {}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		card.Return(funi.Returned{Reason: arctic.ReasonUnknownKind, Level: funi.Request,
			Header: funi.NewHeader(1, 26, 2), Word: 2<<2 | 3})
	}
	if s := came(26, 2<<2|3); len(s) != 1 || s[0][1] != 2<<2|3 {
		t.Errorf("after all parts: said %x", s)
	}
	// A receiver.
	peer, its := bare(t)
	arrive(t, peer, its, funi.Request, 1, funi.NewHeader(0, 26, 14), append([]uint32{1<<2 | 3, 100 | 1<<16, 3 << 16},
		make([]uint32, 11)...))
	envelopes(t, peer, its, 1, 2, 5)
	if kept, blocks := am.WideKept(peer, 1); kept != 2 || blocks != 1 {
		t.Errorf("%d messages and %d blocks", kept, blocks)
	}
	for _, first := range []uint32{0<<2 | 3, 1<<2 | 3} {
		arrive(t, peer, its, funi.Request, 1, funi.NewHeader(0, 26, 3), []uint32{first, 0, 2 << 16})
	}
	got := false
	if _, err := peer.StartRecvWide(wide(1, 0, 5, 0), nil, func(am.Received, error) { got = true }); err != nil || !got {
		t.Errorf("the next message was not received: %v", err)
	}
	if kept, blocks := am.WideKept(peer, 1); kept+blocks != 0 || peer.Unknown() > 0 {
		t.Errorf("%d messages and %d blocks are left; %d were for nobody", kept, blocks, peer.Unknown())
	}
}

// TestHostileWide: whatever other nodes say of wide messages, in any order, nothing panics, nothing
// is written beside the memory of receives, and no more is kept than the windows.
func TestHostileWide(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		e, card := bare(t)
		inside := make([]byte, 300)
		tickets := []uint32{0, 1}
		for range rapid.IntRange(1, 80).Draw(r, "steps") {
			var err error
			switch rapid.IntRange(0, 9).Draw(r, "step") {
			case 9:
				_, err = e.StartRecvWide(many(am.AnySource, 1, always), inside[100:200:200], func(am.Received, error) {})
			case 0:
				_, err = e.StartRecvWide(wide(rapid.SampledFrom([]int{-1, 1}).Draw(r, "source"), 0, 0,
					rapid.SampledFrom([]uint64{0, 7}).Draw(r, "ignore")), inside[100:200:200], func(am.Received,
					error) {
				})
			case 1:
				_, err = e.StartSendWide(1, am.Wide{Flags: am.WideConfirm}, inside[:150], func(error) {})
			case 2:
				if _, claim, ok := e.ClaimWide(wide(1, 0, 0, 7)); ok {
					err = claim.Discard()
				}
			default:
				first := rapid.Uint32Range(0, 5).Draw(r, "number")<<2 | rapid.Uint32Range(0, 3).Draw(r, "space")
				if rapid.IntRange(0, 5).Draw(r, "far") == 0 {
					first = rapid.Uint32().Draw(r, "first")
				}
				third := rapid.SampledFrom([]uint32{0, 0, 1, 2, 3}).Draw(r, "form")<<16 |
					rapid.SampledFrom([]uint32{0, 0, 1 << 26, 1 << 15, 3 << 8, 1 << 18, 7}).Draw(r, "bits")
				word := rapid.OneOf(rapid.Uint32Range(0, 8), rapid.SampledFrom([]uint32{100, 100 | 1<<16,
					100 | 2<<16, 60,
					1024, 1025, 1024 | 15<<16, 1024 | 40<<16, 1 << 31}), rapid.Uint32(), rapid.SampledFrom(tickets))
				words := append([]uint32{first, word.Draw(r, "second"), third}, rapid.SliceOfN(word, 0,
					18).Draw(r, "words")...)
				typ := rapid.SampledFrom([]uint16{26, 26, 26, 28, 29}).Draw(r, "type")
				if typ != 26 {
					words[0] = word.Draw(r, "word")
					words[1] = rapid.Uint32Range(0, 3).Draw(r, "form")<<16 | rapid.Uint32Range(0, 3).Draw(r,
						"space")<<18
					words = words[:min(len(words), 5+int(words[1]>>19&1))]
				}
				arrive(r, e, card, funi.Request, uint16(rapid.IntRange(1, 2).Draw(r, "from")),
					funi.NewHeader(0, typ, len(words)), words)
			}
			if err != nil {
				r.Fatal(err)
			}
			for i := range card.Pending(funi.Request) {
				tickets = append(tickets, card.Slot(funi.Request, i)[1:6]...)
			}
			for node := 1; node < 3; node++ {
				if kept, blocks := am.WideKept(e, node); kept > am.WideWindow || blocks > am.PartedWindow {
					r.Fatalf("%d messages are kept, with %d blocks", kept, blocks)
				}
			}
		}
		if !bytes.Equal(inside[:100], make([]byte, 100)) || !bytes.Equal(inside[200:], make([]byte, 100)) {
			r.Fatal("memory beside that of a receive changed")
		}
	})
}

// TestFloodOfParts: a node that sends parts of more and more messages, and never all of one, gets
// memory for as many as it may send.
func TestFloodOfParts(t *testing.T) {
	e, card := bare(t)
	for i := range uint32(1000) {
		arrive(t, e, card, funi.Request, 1, funi.NewHeader(0, 26, 14), append([]uint32{i<<2 | 3, 100 | 1<<16, 3 << 16},
			make([]uint32, 11)...))
	}
	if kept, blocks := am.WideKept(e, 1); kept != am.PartedWindow || blocks != am.PartedWindow ||
		e.Unknown() != 1000-am.PartedWindow {
		t.Errorf("%d messages, %d blocks, %d dropped", kept, blocks, e.Unknown())
	}
}

// TestPartsTwice: a part that comes twice, or that contradicts the others, is dropped.
func TestPartsTwice(t *testing.T) {
	e, card := bare(t)
	part := func(first, length, index uint32, bytes int) {
		words := append([]uint32{first<<2 | 3, length | index<<16, 3 << 16}, make([]uint32, bytes/4)...)
		arrive(t, e, card, funi.Request, 1, funi.NewHeader(0, 26, len(words)), words)
	}
	part(1, 200, 1, 72)
	for i, wrong := range []func(){
		func() { part(1, 200, 1, 72) },
		func() { part(1, 204, 2, 72) },
		func() { part(1, 200, 2, 68) },
		func() { part(1, 200, 3, 72) },
		func() { part(1, 56, 0, 56) },
		func() { part(2, am.PartedWide+1, 1, 72) },
		func() { part(2, 56, 1, 0) },
	} {
		wrong()
		if e.Unknown() != uint64(i+1) {
			t.Errorf("part %d was not dropped", i)
		}
	}
	part(1, 200, 2, 72)
	arrive(t, e, card, funi.Request, 1, funi.NewHeader(0, 26, 19), append([]uint32{1<<2 | 3, 5, 0, 0, 200},
		make([]uint32, 14)...))
	envelopes(t, e, card, 1, 0, 5)
	if what, ok := e.PeekWide(wide(1, 0, 5, 0)); !ok || what.Bytes != 0 || e.Unknown() != 7 {
		t.Errorf("%+v; %d dropped", what, e.Unknown())
	}
	if _, claim, ok := e.ClaimWide(wide(1, 0, 5, 0)); !ok || claim.Discard() != nil {
		t.Error("the first message is not there")
	}
	if what, ok := e.PeekWide(wide(1, 0, 5, 0)); !ok || what.Bytes != 200 {
		t.Errorf("the message in parts is not there: %+v", what)
	}
}

// TestWideDiscard: the send of a message that was discarded ends as if that had been received,
// whatever the length.
func TestWideDiscard(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 2})
	lengths := []int{0, 500, 3000, 20_000}
	b.MustRun(func(n *bed.Node) error {
		if err := messageMemory(n, am.LeastMemory, false); err != nil {
			return err
		}
		sent := 0
		for _, length := range lengths {
			for _, flags := range []am.WideFlags{0, am.WideConfirm} {
				if n.Node() == 0 {
					if _, err := n.StartSendWide(1, am.Wide{Flags: flags}, make([]byte, length), func(err error) {
						if sent++; err != nil {
							t.Error(err)
						}
					}); err != nil {
						return err
					}
					continue
				}
				var claim am.Claim
				if err := n.Wait(func() (ok bool) { _, claim, ok = n.ClaimWide(wide(0, 0, 0, 0)); return ok }); err != nil {
					return err
				}
				if err := claim.Discard(); err != nil {
					return err
				}
			}
		}
		if n.Node() == 0 {
			if err := n.Wait(func() bool { return sent == 2*len(lengths) && n.SendsUnderWay() == 0 }); err != nil {
				return err
			}
		}
		return n.Barrier()
	})
}

// TestWideRefuse: nodes and lengths that there are not, and claims of nothing.
func TestWideRefuse(t *testing.T) {
	e, card := bare(t)
	ended := func(am.Received, error) { t.Error("a receive that was refused ended") }
	var none am.Claim
	for name, c := range map[string]struct{ err, want error }{
		"node 3 of 3": {second(e.StartSendWide(3, am.Wide{}, nil, nil)), am.ErrNode},
		"a byte too many": {second(e.StartSendWide(1, am.Wide{}, make([]byte, am.MaxTaggedBytes+1), nil)),
			am.ErrLong},
		"receiving node 3":  {second(e.StartRecvWide(wide(3, 0, 0, 0), nil, ended)), am.ErrNode},
		"receiving node -2": {second(e.StartRecvWide(wide(-2, 0, 0, 0), nil, ended)), am.ErrNode},
		"no claim":          {second(none.StartRecv(nil, ended)), am.ErrClaim},
		"discarding none":   {none.Discard(), am.ErrClaim},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", name, c.err, c.want)
		}
	}
	if _, ok := e.PeekWide(wide(7, 0, 0, 0)); ok || card.Pending(funi.Request) != 0 {
		t.Error("something was found or sent")
	}
}

// wide describes messages of origin 0.
func wide(source int, channel uint8, tag, ignore uint64) am.Want {
	return am.Want{Source: source, Channel: channel, Tag: tag, Ignore: ignore}
}
