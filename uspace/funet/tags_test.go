package funet_test

// This file tests messages with tags and what all nodes do together, on real cards; package am and
// package collective test their rules.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/funet"
)

// Rule: goroutines that use different tags get their own messages, short and long, in the order of
// sending, while others do the same.
func TestTags(t *testing.T) {
	const goroutines, messages = 8, 40
	onBoth(t, func(t *testing.T, b *bed) {
		b.both(func(ctx context.Context, e *funet.Endpoint) error {
			other := 1 - e.Node()
			errs := make([]error, 2*goroutines)
			var all sync.WaitGroup
			size := func(g, i int) int { return (g*31 + i*i*17) % 9000 }
			for g := range goroutines {
				all.Go(func() {
					for i := range messages {
						if err := e.SendTag(ctx, other, uint32(g),
							bytes.Repeat([]byte{byte(g*i + 1)}, size(g, i))); err != nil {
							errs[g] = err
							return
						}
					}
				})
				all.Go(func() {
					for i := range messages {
						b := make([]byte, 9000)
						what, err := e.Recv(ctx, other, uint32(g), b)
						n := size(g, i)
						if err == nil && (what != funet.Received{Source: other, Tag: uint32(g), Bytes: n} ||
							!bytes.Equal(b[:n], bytes.Repeat([]byte{byte(g*i + 1)}, n))) {
							err = fmt.Errorf("message %d of tag %d arrived as %+v, or with other bytes", i, g, what)
						}
						if err != nil {
							errs[goroutines+g] = err
							return
						}
					}
				})
			}
			all.Wait()
			return errors.Join(append(errs, e.Barrier(ctx))...)
		})
	})
}

// Rule: a receive and a send that wait end with their context, and what comes later is received
// intact.
func TestTagsCancelled(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		b.both(func(ctx context.Context, e *funet.Endpoint) error {
			other := 1 - e.Node()
			soon, stop := context.WithTimeout(ctx, 5*time.Millisecond)
			defer stop()
			buffer := make([]byte, 5000)
			if _, err := e.Recv(soon, other, 1, buffer); !errors.Is(err, am.ErrCancelled) ||
				!errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("a receive without a message: %w", err)
			}
			soon, stop = context.WithTimeout(ctx, 5*time.Millisecond)
			defer stop()
			if err := e.SendTag(soon, other, 2, make([]byte, 5000)); !errors.Is(err, am.ErrCancelled) {
				return fmt.Errorf("a send without a receive: %w", err)
			}
			if err := e.Barrier(ctx); err != nil {
				return err
			}
			sent := make(chan error, 1)
			go func() { sent <- e.SendTag(ctx, other, 1, bytes.Repeat([]byte{7}, 5000)) }()
			what, err := e.Recv(ctx, other, 1, buffer)
			if err != nil || what.Bytes != 5000 || !bytes.Equal(buffer, bytes.Repeat([]byte{7}, 5000)) {
				return fmt.Errorf("the next message: %+v, %w", what, err)
			}
			return errors.Join(<-sent, e.Barrier(ctx))
		})
	})
}

// Rule: a receive and a send that wait, while the program does nothing else, end when the other
// node leaves: the one that waits asks now and then.
func TestTagsOfANodeThatLeaves(t *testing.T) {
	// a card that has left before it was ever heard of is waited for as long as one that has yet to
	// come
	b := newBed(t, "daemon")
	stays, leaves := b.open(0), b.open(1)
	for what, wait := range map[string]func() error{
		"a send":    func() error { return stays.SendTag(t.Context(), 1, 1, make([]byte, 5000)) },
		"a receive": func() error { _, err := stays.Recv(t.Context(), 1, 2, nil); return err },
	} {
		ended := make(chan error, 1)
		go func() { ended <- wait() }()
		if err := leaves.Close(t.Context()); err != nil && !errors.Is(err, funet.ErrClosed) {
			t.Error(err)
		}
		if err := await(t, what, ended); err == nil {
			t.Errorf("%s with a node that has left was successful", what)
		}
	}
}

// Rule: what all nodes do together has its results on each of them; a handler may not begin it.
func TestTogether(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		b.both(func(ctx context.Context, e *funet.Endpoint) error {
			var inside error
			err := e.Handle(count, func(m *funet.Message) error {
				inside = errors.Join(e.Broadcast(ctx, 0, nil), e.SendTag(ctx, 0, 0, nil))
				return nil
			})
			if err := errors.Join(err, e.Barrier(ctx)); err != nil {
				return err
			}
			me := int64(e.Node())
			for _, size := range []int{8, 10_000} {
				mine := bytes.Repeat([]byte{byte(me + 1)}, size)
				both := append(bytes.Repeat([]byte{1}, size), bytes.Repeat([]byte{2}, size)...)
				text, gathered, block, all, turned := bytes.Clone(mine), make([]byte, 2*size), make([]byte, size),
					make([]byte, 2*size), make([]byte, 2*size)
				sum, scan, least := []int64{me + 1, 10}, []float64{float64(me) + 0.5}, []int64{5 - me}
				if err := errors.Join(
					e.Broadcast(ctx, 1, text),
					e.Gather(ctx, 0, mine, gathered),
					e.Scatter(ctx, 0, both, block),
					e.AllGather(ctx, mine, all),
					e.AllToAll(ctx, both, turned),
					funet.AllReduce(ctx, e, am.Sum, sum),
					funet.Scan(ctx, e, am.Sum, scan),
					funet.Reduce(ctx, e, 1, am.Min, least)); err != nil {
					return err
				}
				if !bytes.Equal(text, both[size:]) || me == 0 && !bytes.Equal(gathered, both) ||
					!bytes.Equal(block, mine) || !bytes.Equal(all, both) ||
					!bytes.Equal(turned, bytes.Repeat(mine, 2)) || sum[0] != 3 || sum[1] != 20 ||
					scan[0] != []float64{0.5, 2}[me] || me == 1 && least[0] != 4 {
					return fmt.Errorf("with %d bytes: other results: %v %v %v", size, sum, scan, least)
				}
			}
			if err := e.Send(ctx, 1-e.Node(), count, nil); err != nil {
				return err
			}
			if err := e.Wait(ctx, func() bool { return inside != nil }); err != nil {
				return err
			}
			if !errors.Is(inside, funet.ErrHandler) {
				return fmt.Errorf("in a handler: %w", inside)
			}
			return e.Barrier(ctx)
		})
	})
}

// Rule: tags, nodes and roots that there are not are refused.
func TestTagsRefuse(t *testing.T) {
	b := newBed(t, "embedded")
	b.both(func(ctx context.Context, e *funet.Endpoint) error {
		receive := func(source int, tag uint32) error { _, err := e.Recv(ctx, source, tag, nil); return err }
		for name, c := range map[string]struct{ err, want error }{
			"a tag of the library":           {e.SendTag(ctx, 0, funet.MaxTag+1, nil), funet.ErrTag},
			"sending with any tag":           {e.SendTag(ctx, 0, funet.AnyTag, nil), funet.ErrTag},
			"receiving a tag of the library": {receive(0, funet.MaxTag+1), funet.ErrTag},
			"sending to node 2":              {e.SendTag(ctx, 2, 0, nil), funet.ErrNode},
			"sending to any node":            {e.SendTag(ctx, funet.AnySource, 0, nil), funet.ErrNode},
			"receiving from node 2":          {receive(2, 0), funet.ErrNode},
			"receiving from node -2":         {receive(-2, 0), funet.ErrNode},
			"broadcast from node 2":          {e.Broadcast(ctx, 2, nil), funet.ErrRoot},
			"gather":                         {e.Gather(ctx, e.Node(), make([]byte, 3), nil), funet.ErrLengths},
		} {
			if !errors.Is(c.err, c.want) {
				t.Errorf("%s: %v, want %v", name, c.err, c.want)
			}
		}
		return e.Barrier(ctx)
	})
}
