package funet_test

// This file tests nodes that leave a job and join it again.

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/funet"
)

// Rule: who stays gets Left and Joined with the lives, in order, sends to a node that has left fail at once, and after an
// Agree everything works with its next life; the channel is closed with the endpoint.
func TestLeaveAndJoin(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
		defer cancel()
		serve := func(e *funet.Endpoint) error {
			return e.Serve(double, func(m *funet.Message) ([]byte, error) { return append(m.Bytes, m.Bytes...), nil })
		}
		call := func(e *funet.Endpoint, life int) error {
			b, err := e.Call(ctx, 1-e.Node(), double, fmt.Append(nil, life))
			if err == nil && string(b) != fmt.Sprintf("%d%d", life, life) {
				err = fmt.Errorf("the answer is %q", b)
			}
			return err
		}
		b.options[0].Rejoin, b.options[1].Rejoin = true, true
		stays := b.open(0)
		if err := serve(stays); err != nil {
			t.Fatal(err)
		}
		running, end := context.WithCancel(ctx)
		ran := make(chan error, 1)
		go func() { ran <- stays.Run(running) }()
		for life := range 3 {
			if b.options[1].Attach != nil {
				b.options[1].Attach.Life = life
			} else {
				b.options[1].Life = life
			}
			comes := b.open(1)
			if err := serve(comes); err != nil {
				t.Fatal(err)
			}
			if life > 0 {
				agreed := make(chan error, 1)
				go func() { agreed <- stays.Agree(ctx) }()
				if err := comes.Agree(ctx); err != nil {
					t.Fatal(err)
				}
				if err := await(t, "both agree", agreed); err != nil {
					t.Fatal(err)
				}
				if v := await(t, "it has joined", stays.Events()); v != (funet.Event{Kind: am.Joined, Node: 1, Life: life}) {
					t.Fatalf("life %d: %v", life, v)
				}
			}
			met := make(chan error, 1)
			go func() { met <- stays.Barrier(ctx) }()
			if err := errors.Join(comes.Barrier(ctx), await(t, "the barrier ends", met)); err != nil {
				t.Fatal(err)
			}
			if err := call(comes, life); err != nil {
				t.Fatalf("life %d calls: %v", life, err)
			}
			if life < 2 {
				if err := comes.Close(ctx); err != nil {
					t.Fatal(err)
				}
				if v := await(t, "it has left", stays.Events()); v != (funet.Event{Kind: am.Left, Node: 1, Life: life}) {
					t.Fatalf("life %d: %v", life, v)
				}
				if err := call(stays, life); !errors.Is(err, funet.ErrLeft) {
					t.Fatalf("a call of a node that has left: %v", err)
				}
			}
		}
		end()
		if err := await(t, "Run ends", ran); err != nil {
			t.Error(err)
		}
		if err := stays.Close(ctx); err != nil {
			t.Error(err)
		}
		deadline := time.After(patience)
		for {
			select {
			case _, open := <-stays.Events():
				if !open {
					return
				}
				continue
			case <-deadline:
				t.Fatal("the channel stays open")
			}
		}
	})
}
