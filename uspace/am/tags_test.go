package am_test

// This file tests messages with tags: which receive gets which message, in MPI's order, whatever
// the network does, and the bound on what is kept (package am, tags.go).

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/tests/bed"
	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// content is n bytes that tell where they belong.
func content(n, seed int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte((i + seed) * 2654435761 >> 13)
	}
	return b
}

// TestTagged: messages of each kind of length arrive as they were, to this node too, whether the
// receive comes first or the message.
func TestTagged(t *testing.T) {
	lengths := []int{0, 1, 3, 4, 71, am.ShortTagged, am.ShortTagged + 1, 75, 76, 77, 151, 152, 153, 1000,
		76 * 33, 100_000}
	for _, slots := range []int{2, 64} {
		b := bed.New(t, bed.Options{Nodes: 3, Slots: slots, Limit: 5 * time.Minute})
		b.MustRun(func(n *bed.Node) error {
			for i, length := range lengths {
				for to := range n.Nodes() {
					from := (n.Node() - to + n.Nodes()) % n.Nodes()
					to := (n.Node() + to) % n.Nodes()
					sent, got := false, make([]byte, length+8)
					if i%2 == 0 { // the receive is there first
						if err := n.Barrier(); err != nil {
							return err
						}
					}
					var what am.Received
					if _, err := n.StartSendTag(to, uint32(i), content(length, n.Node()), func(err error) {
						sent = err == nil
					}); err != nil {
						return err
					}
					what, err := n.Recv(from, uint32(i), got)
					if err != nil {
						return err
					}
					if want := (am.Received{Source: from, Tag: uint32(i), Bytes: length}); what != want ||
						!bytes.Equal(got[:length], content(length, from)) ||
						!bytes.Equal(got[length:], make([]byte, 8)) {
						return fmt.Errorf("got %+v, want %+v, or other bytes", what, want)
					}
					if err := n.Wait(func() bool { return sent }); err != nil {
						return err
					}
				}
			}
			return n.Barrier()
		})
	}
}

// TestTagsSelect: a receive takes the first message that fits, by source and tag, and leaves the
// others.
func TestTagsSelect(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 3})
	long := content(5000, 1)
	b.MustRun(func(n *bed.Node) error {
		if n.Node() > 0 {
			for _, m := range []struct {
				tag uint32
				b   []byte
			}{{7, []byte("seven")}, {8, long}, {9, []byte("nine")}, {am.GroupTag, []byte("group")},
				{7, []byte("seven again")}} {
				if _, err := n.StartSendTag(0, m.tag, m.b, func(err error) {
					if err != nil {
						t.Error(err)
					}
				}); err != nil {
					return err
				}
			}
			return errors.Join(n.Barrier(), n.Barrier())
		}
		if err := n.Barrier(); err != nil { // everything short has come
			return err
		}
		got := make([]byte, 6000)
		for _, c := range []struct {
			source int
			tag    uint32
			want   am.Received
			text   string
		}{
			{2, 9, am.Received{Source: 2, Tag: 9, Bytes: 4}, "nine"},
			{1, am.GroupTag, am.Received{Source: 1, Tag: am.GroupTag, Bytes: 5}, "group"},
			{1, 8, am.Received{Source: 1, Tag: 8, Bytes: 5000}, string(long)},
			{1, am.AnyTag, am.Received{Source: 1, Tag: 7, Bytes: 5}, "seven"},
			{1, am.AnyTag, am.Received{Source: 1, Tag: 9, Bytes: 4}, "nine"},
			{2, 7, am.Received{Source: 2, Tag: 7, Bytes: 5}, "seven"},
			{am.AnySource, 8, am.Received{Source: 2, Tag: 8, Bytes: 5000}, string(long)},
			{2, 7, am.Received{Source: 2, Tag: 7, Bytes: 11}, "seven again"},
			{am.AnySource, am.AnyTag, am.Received{Source: 1, Tag: 7, Bytes: 11}, "seven again"},
			// no AnyTag takes it
			{am.AnySource, am.GroupTag, am.Received{Source: 2, Tag: am.GroupTag, Bytes: 5}, "group"},
		} {
			what, err := n.Recv(c.source, c.tag, got)
			if err != nil || what != c.want || string(got[:what.Bytes]) != c.text {
				return fmt.Errorf("receiving %d from %d: %+v, %w", c.tag, c.source, what, err)
			}
		}
		return n.Barrier()
	})
}

// TestTagsTruncate: of a message that is longer than its receive there is as much as there is room
// for, and the error.
func TestTagsTruncate(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 2})
	b.MustRun(func(n *bed.Node) error {
		for _, length := range []int{50, 5000} {
			for _, room := range []int{0, 7, 40} {
				if n.Node() == 1 {
					if err := n.SendTag(0, 1, content(length, 0)); err != nil {
						return err
					}
					continue
				}
				got := make([]byte, room+4)
				what, err := n.Recv(1, 1, got[:room])
				if !errors.Is(err, am.ErrTruncate) || what.Bytes != length ||
					!bytes.Equal(got[:room], content(room, 0)) || !bytes.Equal(got[room:], make([]byte, 4)) {
					t.Errorf("%d bytes into %d: %+v, %v, %x", length, room, what, err, got)
				}
			}
		}
		return n.Barrier()
	})
}

// TestTagsKeepMPIsOrder sends messages, short and long in any order, over a network that loses,
// duplicates and reorders. For each source and tag they are received in the order of sending, by
// receives with and without wildcards. That is MPI's rule that messages do not overtake each other.
// Nothing is lost, nothing comes twice.
func TestTagsKeepMPIsOrder(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		nodes := rapid.IntRange(2, 4).Draw(r, "nodes")
		slots := rapid.SampledFrom([]int{2, 8, 64}).Draw(r, "slots")
		seed := rapid.Uint64().Draw(r, "seed")
		messages := rapid.IntRange(1, 80).Draw(r, "messages")
		longest := rapid.SampledFrom([]int{16, 100, 3000}).Draw(r, "longest")
		any := rapid.Bool().Draw(r, "any source")
		b := bed.New(t, bed.Options{Nodes: nodes, Slots: slots, Net: wire.Config{Seed: seed, Faults: faults},
			Limit: 10 * time.Minute})
		const tags = 3
		b.MustRun(func(n *bed.Node) error {
			random := rand.New(rand.NewPCG(seed, uint64(n.Node())))
			done, started := 0, 0
			finished := func(err error) {
				if done++; err != nil {
					t.Error(err)
				}
			}
			count := make([][tags]uint32, nodes) // next number to each node by tag
			total := make([]int, nodes)
			send := func(to int) error {
				tag := uint32(random.IntN(tags))
				m := make([]byte, 8+random.IntN(longest))
				m[0], m[1], m[2], m[3] = byte(count[to][tag]), byte(count[to][tag]>>8), byte(tag), byte(n.Node())
				count[to][tag]++
				total[to]++
				for i := 4; i < len(m); i++ {
					m[i] = byte(i)
				}
				started++
				_, err := n.StartSendTag(to, tag, m, finished)
				return err
			}
			received, want := 0, messages*(nodes-1)
			buffers := 0
			var start func() error
			order := make([][3]int, want) // source, tag and number of what each receive got
			check := func(i int, got []byte) func(am.Received, error) {
				return func(what am.Received, err error) {
					buffers--
					received++
					m := got[:min(what.Bytes, len(got))]
					ok := err == nil && len(m) >= 8 && uint32(m[2]) == what.Tag && int(m[3]) == what.Source
					for i := 4; ok && i < len(m); i++ {
						ok = m[i] == byte(i)
					}
					if !ok {
						t.Errorf("received %+v, %v, %x", what, err, m)
						return
					}
					order[i] = [3]int{what.Source, int(what.Tag), int(m[0]) | int(m[1])<<8}
				}
			}
			asked := 0
			start = func() error {
				for buffers < 4 && asked < want {
					got := make([]byte, 8+longest)
					source := am.AnySource
					if !any {
						source = (n.Node() + 1 + asked%(nodes-1)) % nodes
					}
					buffers++
					asked++
					if _, err := n.StartRecv(source, am.AnyTag, got, check(asked-1, got)); err != nil {
						return err
					}
				}
				return nil
			}
			for i := range messages {
				for d := 1; d < nodes; d++ {
					if err := send((n.Node() + d) % nodes); err != nil {
						return err
					}
				}
				if i%3 == 0 {
					if err := start(); err != nil {
						return err
					}
				}
			}
			for received < want || done < started {
				if err := start(); err != nil {
					return err
				}
				if _, err := n.Poll(); err != nil {
					return err
				}
			}
			// Long messages end later than short ones that were matched after them.
			seen := make([][tags]int, nodes)
			for _, got := range order {
				next := &seen[got[0]][got[1]]
				if got[2] != *next {
					t.Errorf("message %d of node %d with tag %d was taken in the place of %d", got[2],
						got[0], got[1], *next)
				}
				*next++
			}
			if n.Unknown() != 0 {
				return fmt.Errorf("%d messages for nobody", n.Unknown())
			}
			return n.Barrier()
		})
	})
}

// TestTagWindow: a node keeps at most TagWindow messages of another that nobody receives; the
// others wait at their sender, which goes on when they are received.
func TestTagWindow(t *testing.T) {
	e, card := bare(t)
	complete := 0
	for range am.TagWindow + 8 {
		if _, err := e.StartSendTag(1, 5, nil, func(err error) { complete++ }); err != nil {
			t.Fatal(err)
		}
	}
	if n := card.Pending(funi.Request); n != am.TagWindow || complete != am.TagWindow {
		t.Fatalf("%d were sent and %d are complete, want %d", n, complete, am.TagWindow)
	}
	arrive(t, e, card, funi.Request, 1, funi.NewHeader(0, 28, 5), []uint32{0, 0, 0, 0, 3})
	if complete != am.TagWindow+3 {
		t.Errorf("after 3 were received %d are complete", complete)
	}
	// more than were sent
	arrive(t, e, card, funi.Request, 1, funi.NewHeader(0, 28, 5), []uint32{0, 0, 0, 0, 1000})
	// another node
	arrive(t, e, card, funi.Request, 2, funi.NewHeader(0, 28, 5), []uint32{0, 0, 0, 0, 5})
	if complete != am.TagWindow+3 {
		t.Errorf("after lies %d are complete", complete)
	}
}

// TestTagFlood: a node that sends more than it may is not listened to: what is kept of it stays
// within the window, and what others send is received.
func TestTagFlood(t *testing.T) {
	e, card := bare(t)
	for i := range uint32(10 * am.TagWindow) {
		arrive(t, e, card, funi.Request, 1, funi.NewHeader(0, 26, 3), []uint32{i << 2, 1, 0})
	}
	for i := range uint32(10 * am.TagWindow) { // out of order
		arrive(t, e, card, funi.Request, 1, funi.NewHeader(0, 26, 3), []uint32{(i + 5) << 2, 1, 0})
	}
	if got := e.Unknown(); got != 19*am.TagWindow {
		t.Errorf("%d were dropped, want %d", got, 19*am.TagWindow)
	}
	arrive(t, e, card, funi.Request, 2, funi.NewHeader(0, 26, 4), []uint32{0, 1, 0, 0x64636261})
	b := make([]byte, 8)
	var what am.Received
	if _, err := e.StartRecv(2, 1, b, func(r am.Received, err error) { what = r }); err != nil || what.Bytes != 4 ||
		string(b[:4]) != "abcd" {
		t.Errorf("received %+v, %q, %v", what, b, err)
	}
	for range am.TagWindow {
		if _, err := e.StartRecv(1, am.AnyTag, b, func(r am.Received, err error) { what = r }); err != nil ||
			what.Source != 1 {
			t.Fatalf("received %+v, %v", what, err)
		}
	}
}

// TestTagsCancelled: what is cancelled at any step ends at once with ErrCancelled, and the next
// messages pass intact.
func TestTagsCancelled(t *testing.T) {
	for _, wait := range []time.Duration{0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89} {
		for _, side := range []string{"send", "receive"} {
			b := bed.New(t, bed.Options{Nodes: 2, Slots: 8})
			message := content(20_000, 3)
			b.MustRun(func(n *bed.Node) error {
				if err := n.Barrier(); err != nil {
					return err
				}
				var end error
				ended := false
				finish := func(err error) { ended, end = true, err }
				b := bytes.Clone(message)
				var id am.ID
				var err error
				if n.Node() == 0 {
					id, err = n.StartSendTag(1, 1, b, finish)
				} else {
					clear(b)
					id, err = n.StartRecv(0, 1, b, func(_ am.Received, err error) { finish(err) })
				}
				if err != nil {
					return err
				}
				mine := side == "send" == (n.Node() == 0)
				if mine {
					until := n.Now() + int64(wait*time.Microsecond)
					if err := n.Wait(func() bool { return n.Now() >= until }); err != nil {
						return err
					}
					under := !ended
					if n.Cancel(id) != under || under && !errors.Is(end, am.ErrCancelled) {
						return fmt.Errorf("cancelling what was under way %v: %w", under, end)
					}
					clear(b) // the program's
				}
				next := make([]byte, 3000)
				if n.Node() == 0 {
					if err := n.SendTag(1, 2, message[:3000]); err != nil {
						return err
					}
				} else if what, err := n.Recv(0, 2, next); err != nil || what.Bytes != 3000 ||
					!bytes.Equal(next, message[:3000]) {
					return fmt.Errorf("the next message: %+v, %w", what, err)
				}
				if mine && n.Node() == 1 && !bytes.Equal(b, make([]byte, len(b))) {
					return errors.New("memory changed after Cancel")
				}
				if !mine && n.Node() == 0 && !ended { // the receive was cancelled before it matched
					n.Cancel(id)
				}
				if !mine && n.Node() == 1 {
					if err := n.Wait(func() bool { return ended }); err != nil {
						return err
					}
					if end != nil && !errors.Is(end, am.ErrAborted) || end == nil && !bytes.Equal(b, message) {
						return fmt.Errorf("the receive of a message that was given up: %w", end)
					}
				}
				return n.Barrier()
			})
		}
	}
}

// TestTagsToTheDead: sends to a node that dies, and receives from it, end with Undelivered; a
// receive from any node goes on.
func TestTagsToTheDead(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 3, Tune: impatient, Limit: 5 * time.Minute})
	errs := b.Run(func(n *bed.Node) error {
		if err := n.Barrier(); err != nil {
			return err
		}
		switch n.Node() {
		case 1:
			b.At(0, n.Kill)
			return n.Wait(func() bool { return false })
		case 2:
			for n.Now() < int64(5*time.Second) {
				_, _ = n.Poll() // of messages to node 1
			}
			return n.SendTag(0, 6, []byte("from 2"))
		}
		var ends []error
		finish := func(err error) { ends = append(ends, err) }
		anyone := false
		got := make([]byte, 100)
		_, err1 := n.StartSendTag(1, 5, make([]byte, 1000), finish)
		_, err2 := n.StartRecv(1, 5, make([]byte, 10), func(_ am.Received, err error) { finish(err) })
		_, err3 := n.StartRecv(am.AnySource, 6, got, func(what am.Received, err error) {
			anyone = err == nil && what.Source == 2
		})
		if err := errors.Join(err1, err2, err3); err != nil {
			return err
		}
		var u *am.Undelivered
		for !anyone || len(ends) < 2 {
			if _, err := n.Poll(); err != nil && !errors.As(err, &u) {
				return err
			}
		}
		if len(ends) != 2 || !errors.As(ends[0], &u) || !errors.As(ends[1], &u) {
			t.Errorf("they ended with %v", ends)
		}
		if err := n.SendTag(1, 5, make([]byte, 1000)); !errors.As(err, &u) {
			t.Errorf("a send to the dead ended with %v", err)
		}
		return nil
	})
	if errs[0] != nil || errs[2] != nil {
		t.Error(errs)
	}
}

// TestTagsThatComeBack: what comes back from a node that lives is made good: the receiver is told
// of the number that it is not to wait for, and of pieces that do not come; the sender that its
// message is wanted.
func TestTagsThatComeBack(t *testing.T) {
	e, card := bare(t)
	var end error
	if _, err := e.StartSendTag(1, 5, make([]byte, 1000), func(err error) { end = err }); err != nil {
		t.Fatal(err)
	}
	came := func(typ uint16, word uint32) []uint32 {
		card.Retire(funi.Request, card.Pending(funi.Request))
		card.Return(funi.Returned{Reason: arctic.ReasonUnknownKind, Level: funi.Request,
			Header: funi.NewHeader(1, typ, 2), Word: word})
		card.Publish()
		// what is said of messages is the library's own
		if _, err := e.Poll(); (err == nil) != (typ == 28) {
			t.Errorf("a message of type %d came back: %v", typ, err)
		}
		if _, err := e.Poll(); err != nil {
			t.Fatal(err)
		}
		if card.Pending(funi.Request) == 0 {
			return nil
		}
		s := sent(card, funi.Request)
		return append([]uint32{uint32(s.Header().Type())}, s.Payload()...)
	}
	if s := came(26, 0); len(s) != 4 || s[0] != 26 || s[1] != 0 || s[3] != 2<<16 || end == nil {
		t.Errorf("after an envelope: said %x, and the send ended with %v", s, end)
	}
	var u *am.Undelivered
	if !errors.As(end, &u) {
		t.Errorf("the send ended with %v", end)
	}
	if s := came(29, 1234); len(s) != 6 || s[0] != 28 || s[1] != 1234 || s[2] != 2<<16 {
		t.Errorf("after a piece: said %x", s)
	}
	// A message that is wanted.
	if _, err := e.StartRecv(1, 6, make([]byte, 1000), func(am.Received, error) {}); err != nil {
		t.Fatal(err)
	}
	arrive(t, e, card, funi.Request, 1, funi.NewHeader(0, 26, 5), []uint32{0, 6, 1 << 16, 77, 500})
	if s := came(28, 0); len(s) != 6 || s[0] != 28 {
		t.Errorf("after what was told: said %x", s)
	}
	// Who has got all that it wanted may be gone before it is told how many of its messages were
	// received.
	card.Return(funi.Returned{Reason: arctic.ReasonDeparted, Level: funi.Request,
		Header: funi.NewHeader(2, 28, 5), Word: 0})
	if _, err := e.Poll(); err != nil {
		t.Errorf("what was told to who is gone: %v", err)
	}
	// A receiver does not wait for the number of one that came back.
	peer, its := bare(t)
	arrive(t, peer, its, funi.Request, 1, funi.NewHeader(0, 26, 3), []uint32{1 << 2, 5, 0})
	arrive(t, peer, its, funi.Request, 1, funi.NewHeader(0, 26, 3), []uint32{0, 0, 2 << 16})
	got := false
	if _, err := peer.StartRecv(1, 5, nil, func(am.Received, error) { got = true }); err != nil || !got {
		t.Errorf("the next message was not received: %v", err)
	}
}

// TestTagsRefuse: tags, nodes and lengths that there are not.
func TestTagsRefuse(t *testing.T) {
	e, card := bare(t)
	ended := func(am.Received, error) { t.Error("a receive that was refused ended") }
	for name, c := range map[string]struct{ err, want error }{
		"node 3 of 3":         {e.SendTag(3, 0, nil), am.ErrNode},
		"node -1":             {e.SendTag(-1, 0, nil), am.ErrNode},
		"tag 3<<30":           {e.SendTag(1, 3<<30, nil), am.ErrTag},
		"any tag":             {e.SendTag(1, am.AnyTag, nil), am.ErrTag},
		"receiving node 3":    {second(e.Recv(3, 0, nil)), am.ErrNode},
		"receiving node -2":   {second(e.StartRecv(-2, 0, nil, ended)), am.ErrNode},
		"receiving tag 3<<30": {second(e.Recv(1, 3<<30, nil)), am.ErrTag},
		"a byte too many": {second(e.StartSendTag(1, 0, make([]byte, am.MaxTaggedBytes+1), func(error) {})),
			am.ErrLong},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", name, c.err, c.want)
		}
	}
	if card.Pending(funi.Request) != 0 {
		t.Error("something was sent")
	}
}
