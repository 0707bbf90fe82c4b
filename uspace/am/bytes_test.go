package am_test

// This file tests short messages of bytes: that they arrive as they are, what is refused, and what
// happens when a handler fails.

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/tests/bed"
	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/funi"
)

// pattern is bytes that differ by message, length and place.
func pattern(seed, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(seed*31 + n*7 + i*13 + i>>8)
	}
	return b
}

// TestShortBytes: a message of any length up to ShortBytes, also of no bytes and of nil, arrives
// once, with those bytes, at both priorities, over any network; the sender may change its memory at
// once.
func TestShortBytes(t *testing.T) {
	for _, f := range []wire.Faults{{}, faults} {
		b := bed.New(t, bed.Options{Nodes: 2, Slots: 4, Net: wire.Config{Seed: 1, Faults: f}})
		b.MustRun(func(n *bed.Node) error {
			var there, back [am.ShortBytes + 1]int
			all := func(got *[am.ShortBytes + 1]int) func() bool {
				return func() bool {
					for _, g := range got {
						if g == 0 {
							return false
						}
					}
					return true
				}
			}
			take := func(got *[am.ShortBytes + 1]int) am.BytesHandler {
				return func(m *am.Message, b []byte) error {
					if m.Source != 1-n.Node() || m.Words != nil || !bytes.Equal(b, pattern(1, len(b))) {
						return fmt.Errorf("%d bytes of node %d: %x", len(b), m.Source, b)
					}
					if got[len(b)]++; got[len(b)] > 1 {
						return fmt.Errorf("%d bytes came twice", len(b))
					}
					return nil
				}
			}
			err := errors.Join(
				n.HandleBytes(0, func(m *am.Message, b []byte) error {
					return errors.Join(take(&there)(m, b), m.ReplyBytes(239, b))
				}),
				n.HandleBytes(239, take(&back)))
			if err != nil {
				return err
			}
			for length := range am.ShortBytes + 1 {
				send := n.SendBytes
				if length%2 == 0 {
					send = n.PostBytes
				}
				b := pattern(1, length)
				if length == 0 {
					b = nil
				}
				if err := send(1-n.Node(), 0, b); err != nil {
					return err
				}
				clear(b)
			}
			return errors.Join(n.WaitFor(1-n.Node(), all(&there)), n.WaitFor(1-n.Node(), all(&back)),
				n.Barrier(), n.Failed())
		})
	}
}

// TestBytesRefused: bad handlers, nodes, and contexts give sentinel errors, and nothing is sent.
func TestBytesRefused(t *testing.T) {
	e, card := bare(t)
	h := func(*am.Message, []byte) error { return nil }
	for what, c := range map[string]struct{ got, want error }{
		"a handler beyond the last":            {e.HandleBytes(am.Handlers, h), am.ErrNumber},
		"no handler":                           {e.HandleBytes(0, nil), am.ErrNumber},
		"a handler":                            {e.HandleBytes(1, h), nil},
		"a handler twice":                      {e.HandleBytes(1, h), am.ErrNumber},
		"sending to a handler beyond the last": {e.SendBytes(1, am.Handlers, nil), am.ErrNumber},
		"sending to a node beyond the last":    {e.SendBytes(3, 0, nil), am.ErrNode},
		"sending to a node before the first":   {e.PostBytes(-1, 0, nil), am.ErrNode},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: %v, want %v", what, c.got, c.want)
		}
	}
	if n := card.Pending(funi.Request); n != 0 {
		t.Errorf("%d messages were sent", n)
	}
}

// TestAnyFirstWord: a short message whose first word says more padding than there are bytes,
// another life, or a handler that there is not, runs no handler.
func TestAnyFirstWord(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		e, card := bare(t)
		ran := 0
		if err := e.HandleBytes(0, func(_ *am.Message, b []byte) error { ran += 1 + len(b); return nil }); err != nil {
			r.Fatal(err)
		}
		first := rapid.OneOf(rapid.Uint32Range(0, 1<<16), rapid.Uint32()).Draw(r, "first word")
		n := rapid.IntRange(1, funi.MaxPayloadWords).Draw(r, "words")
		words := make([]uint32, n)
		words[0] = first
		arrive(r, e, card, funi.Level(rapid.IntRange(0, 1).Draw(r, "level")), 1, funi.NewHeader(0, 18, n), words)
		want := 0
		if padding := int(first >> 8 & 3); first&0xff == 0 && first>>10&63 == 0 && padding <= 4*(n-1) {
			want = 1 + 4*(n-1) - padding
		}
		if ran != want || (want == 0) != (e.Unknown() == 1) {
			r.Fatalf("first word %#x of %d: %d, want %d; %d unknown", first, n, ran, want, e.Unknown())
		}
	})
}

// TestHandlerFails: the error of a handler ends every call that waits, and is there afterwards; the
// first counts. Other handlers go on.
func TestHandlerFails(t *testing.T) {
	broken, later := errors.New("broken"), errors.New("later")
	b := bed.New(t, bed.Options{Nodes: 2})
	b.MustRun(func(n *bed.Node) error {
		ran := 0
		err := errors.Join(
			n.HandleBytes(0, func(*am.Message, []byte) error { return broken }),
			n.HandleBytes(1, func(*am.Message, []byte) error { return later }),
			n.HandleBytes(2, func(*am.Message, []byte) error { ran++; return nil }))
		if err = errors.Join(err, n.Barrier()); err != nil {
			return err
		}
		if n.Node() == 1 {
			err := errors.Join(n.PostBytes(0, 0, nil), n.PostBytes(0, 1, nil), n.SendBytes(0, 2, nil))
			return errors.Join(err, n.WaitFor(0, func() bool { return ran > 0 }))
		}
		err = n.WaitFor(1, func() bool { return false })
		for ran == 0 {
			_, _ = n.Poll()
		}
		if _, again := n.Poll(); !errors.Is(err, broken) || !errors.Is(again, broken) ||
			!errors.Is(n.Failed(), broken) || errors.Is(n.Failed(), later) {
			return fmt.Errorf("the wait ended with %v, the poll with %v; failed: %v", err, again, n.Failed())
		}
		return n.SendBytes(1, 2, nil)
	})
}

// TestHandlerPanics checks that a panic in a handler fails the endpoint with a PanicError and goes
// no further. That also holds after a reply handler has run inside the handler, and for a panic in
// that reply handler. Messages are given back, and later ones are handled, once each.
func TestHandlerPanics(t *testing.T) {
	cause := errors.New("cause")
	for name, inside := range map[string]uint32{"alone": 0, "after another": 5, "inside another": 3} {
		t.Run(name, func(t *testing.T) {
			e, card := bare(t)
			ran := 0
			deliver := func(l funi.Level, handler uint32) {
				s := card.Vacant(l)
				s.SetHeader(funi.NewHeader(0, 18, 1))
				s[funi.PayloadWord], s[funi.SourceWord] = handler, 2
				card.Deliver(l)
				card.Publish()
			}
			err := errors.Join(
				e.HandleBytes(3, func(*am.Message, []byte) error { ran++; panic(cause) }),
				e.HandleBytes(4, func(m *am.Message, _ []byte) error {
					if inside == 0 {
						ran++
						panic(cause)
					}
					deliver(funi.Reply, inside)
					for ran < 100 { // it waits for room, and the reply is handled
						if err := m.ReplyBytes(0, nil); err != nil {
							t.Error(err)
						}
					}
					ran++
					panic(cause)
				}),
				e.HandleBytes(5, func(*am.Message, []byte) error {
					ran += 100
					card.Retire(funi.Reply, card.Pending(funi.Reply))
					card.Publish()
					return nil
				}))
			if err != nil {
				t.Fatal(err)
			}
			deliver(funi.Request, 4)
			_, err = e.Poll()
			var p *am.PanicError
			if !errors.As(err, &p) || !errors.Is(err, cause) || p.Handler != 4-inside%5/3 || p.Source != 2 ||
				!bytes.Contains(p.Stack, []byte("TestHandlerPanics")) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("the poll ended with %v", err)
			}
			was := ran % 100
			deliver(funi.Request, 5)
			deliver(funi.Reply, 5)
			ran = 0
			if _, err := e.Poll(); !errors.Is(err, cause) || was != 1 || ran != 200 {
				t.Fatalf("%d handlers panicked; the next poll ended with %v, and handlers ran as %d, want 200",
					was, err, ran)
			}
		})
	}
}
