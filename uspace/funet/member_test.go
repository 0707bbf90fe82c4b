package funet_test

// This file tests jobs whose nodes die and join again (Options.Rejoin).

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/funet"
)

// run serves on an endpoint until the test ends, as main programs do. Messages that come back are
// the business of the other goroutines.
func run(t *testing.T, e *funet.Endpoint) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		for {
			err := e.Run(ctx)
			var u *am.Undelivered
			if !errors.As(err, &u) {
				ended <- err
				return
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		if err := await(t, "Run ends", ended); err != nil && !errors.Is(err, funet.ErrClosed) {
			t.Error(err)
		}
	})
}

// Rule: who dies has left and who is started again has joined, for the others, each once and in
// this order; calls to it fail meanwhile, and barriers until Agree; who closes its endpoint has
// left at once.
func TestRejoin(t *testing.T) {
	long.Test(t)
	onBoth(t, func(t *testing.T, b *bed) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		b.options[0].Rejoin, b.options[1].Rejoin = true, true
		nobody := func(error) {} // that a message came back is expected
		b.options[0].OnError, b.options[1].OnError = nobody, nobody
		answer := func(e *funet.Endpoint, life byte) {
			t.Helper()
			if err := e.Serve(1, func(*funet.Message) ([]byte, error) { return []byte{life}, nil }); err != nil {
				t.Fatal(err)
			}
		}
		first := b.open(0)
		answer(first, 0)
		second := b.open(1)
		answer(second, 0)
		if err := second.Handle(2, func(*funet.Message) error { panic("to die") }); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- second.Barrier(ctx) }()
		if err := errors.Join(first.Barrier(ctx), await(t, "the other's barrier", done)); err != nil {
			t.Fatal(err)
		}
		run(t, first)
		event := func(kind am.EventKind, life int) {
			t.Helper()
			if v := await(t, "an event", first.Events()); v != (funet.Event{Kind: kind, Node: 1, Life: life}) {
				t.Fatalf("the event is %v", v)
			}
		}

		waiting := make(chan error, 1)
		go func() { _, err := first.Recv(ctx, 1, 7, nil); waiting <- err }()
		go func() { done <- second.Run(ctx) }()
		if err := first.Send(ctx, 1, 2, nil); err != nil { // which kills it
			t.Fatal(err)
		}
		var died *funet.PanicError
		if err := await(t, "node 1 dies", done); !errors.As(err, &died) {
			t.Fatal(err)
		}
		event(funet.Left, 0)
		if _, err := first.Call(ctx, 1, 1, nil); !errors.Is(err, funet.ErrLeft) {
			t.Errorf("calling who has left: %v", err)
		}
		if _, err := first.Recv(ctx, 1, 7, nil); !errors.Is(err, funet.ErrLeft) {
			t.Errorf("receiving from who has left: %v", err)
		}
		if err := await(t, "a receive ends", waiting); !errors.Is(err, funet.ErrLeft) {
			t.Errorf("a receive from who was there: %v", err)
		}
		if err := first.SendTag(ctx, 1, 7, nil); !errors.Is(err, funet.ErrLeft) {
			t.Errorf("sending to who has left: %v", err)
		}
		if err := first.Barrier(ctx); !errors.Is(err, funet.ErrLeft) || first.Present(1) {
			t.Errorf("a barrier without node 1, which is present %v: %v", first.Present(1), err)
		}

		if b.options[1].Life = 1; b.options[1].Attach != nil {
			b.options[1].Attach.Life = 1
		}
		third := b.open(1)
		answer(third, 1)
		run(t, third)
		if got, err := third.Call(ctx, 0, 1, nil); err != nil || got[0] != 0 {
			t.Errorf("a call of the new life: %v, %v", got, err)
		}
		event(funet.Joined, 1)
		if got, err := first.Call(ctx, 1, 1, nil); err != nil || got[0] != 1 || first.Life(1) != 1 {
			t.Errorf("a call to the new life %d: %v, %v", first.Life(1), got, err)
		}
		if err := third.Barrier(ctx); !errors.Is(err, funet.ErrLeft) {
			t.Errorf("a barrier of the new life: %v", err)
		}
		if err := first.Broadcast(ctx, 0, make([]byte, 9)); !errors.Is(err, funet.ErrLeft) {
			t.Errorf("a broadcast before Agree: %v", err)
		}
		together := func(e *funet.Endpoint) error {
			v := []int64{int64(e.Node()) + 1}
			text := []byte{byte(e.Node())}
			err := errors.Join(e.Agree(ctx), funet.AllReduce(ctx, e, am.Sum, v), e.Broadcast(ctx, 1, text),
				e.Barrier(ctx))
			if err == nil && (v[0] != 3 || text[0] != 1) {
				err = fmt.Errorf("node %d got %v and %v", e.Node(), v, text)
			}
			return err
		}
		go func() {
			_, err := third.Recv(ctx, 0, 7, make([]byte, 5000))
			done <- errors.Join(err, together(third))
		}()
		if err := errors.Join(first.SendTag(ctx, 1, 7, make([]byte, 5000)), together(first),
			await(t, "the other agrees", done)); err != nil {
			t.Error(err)
		}

		closing, stop := context.WithTimeout(ctx, 10*time.Second)
		defer stop()
		if err := third.Close(closing); err != nil {
			t.Error(err)
		}
		event(funet.Left, 1)
		if err := first.Close(closing); err != nil {
			t.Error(err)
		}
		if v, open := <-first.Events(); open {
			t.Errorf("after Close there is %v", v)
		}
	})
}
