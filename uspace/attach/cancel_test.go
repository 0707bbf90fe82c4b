package attach_test

// This file holds the rule of cancellation: whatever a client waits for from a daemon that
// does not answer ends with Config.Context.

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

// errAsked is why the contexts of this test end.
var errAsked = errors.New("the user asked for it")

// Rule: every call that waits for a daemon ends with the context of the client, which was
// ended before or ends meanwhile, with the context's cause (Config.Context).
func TestEveryWaitIsCancelled(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	mute := fakeDaemon(t, func(*net.UnixConn, []byte) { <-release })
	// attached is a client of a daemon whose thread answers nothing any more.
	attached := func(t *testing.T, ctx context.Context) *attach.Client {
		d := start(t, "")
		cfg := d.config(0)
		cfg.Context, cfg.Timeout = ctx, timeout
		c, err := attach.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		held, let := make(chan struct{}), make(chan struct{})
		go d.do(func() { close(held); <-let })
		await(t, "the card's thread is held", held)
		t.Cleanup(func() {
			close(let)
			_ = c.Close(0)
		})
		return c
	}
	for name, call := range map[string]func(t *testing.T, ctx context.Context, cancel func()) error{
		"Open": func(_ *testing.T, ctx context.Context, cancel func()) error {
			cfg := mute
			cfg.Context, cfg.Timeout = ctx, timeout
			cancel()
			c, err := attach.Open(cfg)
			if err == nil {
				_ = c.Close(0)
			}
			return err
		},
		"Inquire": func(_ *testing.T, ctx context.Context, cancel func()) error {
			cancel()
			_, err := attach.InquireContext(ctx, mute.Socket, timeout)
			return err
		},
		"Segment": func(t *testing.T, ctx context.Context, cancel func()) error {
			c := attached(t, ctx)
			cancel()
			_, err := c.Segment(0x1000, 4096, funi.Source)
			return err
		},
		"Unregister": func(t *testing.T, ctx context.Context, cancel func()) error {
			c := attached(t, ctx)
			cancel()
			return c.Unregister(0x1000)
		},
		"Close": func(t *testing.T, ctx context.Context, cancel func()) error {
			c := attached(t, ctx)
			cancel()
			return c.Close(timeout)
		},
		"Wait": func(t *testing.T, ctx context.Context, cancel func()) error {
			c := attached(t, ctx)
			cancel()
			for {
				if err := c.Wait(ctx); err != nil {
					return err
				}
			}
		},
		"Barrier": func(t *testing.T, ctx context.Context, cancel func()) error {
			c := attached(t, ctx)
			e, err := am.New(c.Interface(), 0, 2, c.Drive, 0)
			if err != nil {
				return err
			}
			e.Bind(ctx)
			cancel()
			return e.Barrier()
		},
	} {
		for when, after := range map[string]time.Duration{"before": 0, "meanwhile": 20 * time.Millisecond} {
			t.Run(name+" "+when, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				err := call(t, ctx, func() {
					if after == 0 {
						cancel(errAsked)
						return
					}
					time.AfterFunc(after, func() { cancel(errAsked) })
				})
				if !errors.Is(err, errAsked) || strings.Contains(err.Error(), "\n") {
					t.Errorf("it ended with %v", err)
				}
			})
		}
	}
}
