package funet_test

// This file is the test bed: two nodes of a job in this process, on cards of their own in the
// namespaces of a lab, or on the cards of daemons there.

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/daemons"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/xdp"
)

// patience bounds every wait: far more than anything takes.
const patience = time.Minute

const gid = 9

// bed is two hosts.
type bed struct {
	t       testing.TB
	lab     *lab.Lab
	options [2]funet.Options
}

// onBoth runs a test on both kinds of card.
func onBoth(t *testing.T, test func(t *testing.T, b *bed)) {
	for _, kind := range []string{"embedded", "daemon"} {
		t.Run(kind, func(t *testing.T) { test(t, newBed(t, kind)) })
	}
}

func newBed(t testing.TB, kind string) *bed {
	t.Helper()
	l, err := lab.Up(lab.Options{Hosts: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &bed{t: t, lab: l}
	if kind == "embedded" {
		for i := range b.options {
			c, err := funet.Members(l.Peers(i), i, []string{"fu0"}, "")
			if err != nil {
				t.Fatal(err)
			}
			c.GID, c.Attach = gid, xdp.AttachGeneric
			b.options[i].Card = &c
		}
		return b
	}
	for i, c := range daemons.Run(t, l, gid) {
		b.options[i].Attach = &c
	}
	return b
}

// open opens the endpoint of a node, which is closed with the test at the latest.
func (b *bed) open(node int) *funet.Endpoint {
	b.t.Helper()
	e, err := b.tryOpen(b.t.Context(), node)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 0)
		defer cancel()
		_ = e.Close(ctx)
	})
	return e
}

func (b *bed) tryOpen(ctx context.Context, node int) (e *funet.Endpoint, err error) {
	if b.options[node].Attach != nil {
		return funet.Open(ctx, b.options[node])
	}
	err = b.lab.Do(node, func() (err error) { e, err = funet.Open(ctx, b.options[node]); return err })
	return e, err
}

// both runs a program on both nodes, and closes them.
func (b *bed) both(program func(ctx context.Context, e *funet.Endpoint) error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeoutCause(b.t.Context(), 2*patience, errors.New("the test takes too long"))
	defer cancel()
	nodes := [2]*funet.Endpoint{b.open(0), b.open(1)}
	var programs sync.WaitGroup
	for i, e := range nodes {
		programs.Go(func() {
			err := program(ctx, e)
			if err != nil {
				b.t.Errorf("node %d: %v", i, err)
				cancel()
			}
			if err := e.Close(ctx); err != nil && ctx.Err() == nil {
				b.t.Errorf("closing node %d: %v", i, err)
			}
		})
	}
	programs.Wait()
}

// await waits for a value, or the end of a channel.
func await[T any](t testing.TB, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("in vain: %s", what)
	}
	return v
}

// twoNodes runs the program of an example on two nodes, each on a card in this process in a
// namespace of its own, and returns their errors.
func twoNodes(program func(*funet.Endpoint) error) (err error) {
	l, err := lab.Up(lab.Options{Hosts: 2})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	errs := make(chan error, 2)
	for i := range 2 {
		go func() {
			var e *funet.Endpoint
			c, err := funet.Members(l.Peers(i), i, []string{"fu0"}, "")
			if err == nil {
				c.Attach = xdp.AttachGeneric
				err = l.Do(i, func() (err error) {
					e, err = funet.Open(context.Background(), funet.Options{Card: &c})
					return err
				})
			}
			if err == nil {
				err = program(e)
			}
			errs <- err
		}()
	}
	return errors.Join(<-errs, <-errs)
}
