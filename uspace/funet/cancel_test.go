package funet_test

// This file tests cancellation: every call that waits ends within 10 ms of the end of its context,
// in the median, on both kinds of card, alone and beside a goroutine that leads.

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/funet"
)

// prompt is how long after the end of its context a call may wait, by the clock of clock_test.go,
// in the median of times trials.
const (
	prompt = 10 * time.Millisecond
	times  = 20
)

var errAsked = errors.New("the user asked for it")

// stuck is a handler number whose calls are never answered, because the node never handles
// anything.
const stuck = 100

// waits are all calls that wait, by name; each waits for a node that is open and does nothing.
func waits() map[string]func(ctx context.Context, e *funet.Endpoint) error {
	value := func(_ any, err error) error { return err }
	until := func(ctx context.Context, call func() error) error {
		for {
			if err := call(); err != nil {
				return err
			}
		}
	}
	return map[string]func(ctx context.Context, e *funet.Endpoint) error{
		"Wait": func(ctx context.Context, e *funet.Endpoint) error {
			return e.Wait(ctx, func() bool { return false })
		},
		"Barrier": func(ctx context.Context, e *funet.Endpoint) error { return e.Barrier(ctx) },
		"Agree":   func(ctx context.Context, e *funet.Endpoint) error { return e.Agree(ctx) },
		"Run": func(ctx context.Context, e *funet.Endpoint) error {
			if err := e.Run(ctx); err != nil {
				return err
			}
			return context.Cause(ctx) // it ended as it should
		},
		"Call": func(ctx context.Context, e *funet.Endpoint) error { return value(e.Call(ctx, 1, stuck, nil)) },
		"AppendCall": func(ctx context.Context, e *funet.Endpoint) error {
			return value(e.AppendCall(ctx, make([]byte, 0, 8), 1, stuck, nil))
		},
		"Pending.Wait": func(ctx context.Context, e *funet.Endpoint) error {
			p := e.Go(1, stuck, nil)
			defer p.Cancel()
			return value(p.Wait(ctx))
		},
		"Send": func(ctx context.Context, e *funet.Endpoint) error {
			return until(ctx, func() error { return e.Send(ctx, 1, stuck, make([]byte, 60)) })
		},
		"Post": func(ctx context.Context, e *funet.Endpoint) error {
			return until(ctx, func() error { return e.Post(ctx, 1, stuck, make([]byte, 60)) })
		},
		"StartSend": func(ctx context.Context, e *funet.Endpoint) error {
			return until(ctx, func() error { return value(e.StartSend(ctx, 1, stuck, make([]byte, 60))) })
		},
		"StartSendTag": func(ctx context.Context, e *funet.Endpoint) error {
			return until(ctx, func() error { return value(e.StartSendTag(ctx, 1, 1, make([]byte, 5000))) })
		},
		"StartRecv": func(ctx context.Context, e *funet.Endpoint) error {
			return until(ctx, func() error { return value(e.StartRecv(ctx, 1, 2, nil)) })
		},
		"SendTag": func(ctx context.Context, e *funet.Endpoint) error {
			return e.SendTag(ctx, 1, 1, make([]byte, 5000))
		},
		"Recv":      func(ctx context.Context, e *funet.Endpoint) error { return value(e.Recv(ctx, 1, 2, nil)) },
		"Broadcast": func(ctx context.Context, e *funet.Endpoint) error { return e.Broadcast(ctx, 1, make([]byte, 8)) },
		"Gather": func(ctx context.Context, e *funet.Endpoint) error {
			return e.Gather(ctx, 0, make([]byte, 8), make([]byte, 16))
		},
		"Scatter": func(ctx context.Context, e *funet.Endpoint) error {
			return e.Scatter(ctx, 1, nil, make([]byte, 8))
		},
		"AllGather": func(ctx context.Context, e *funet.Endpoint) error {
			return e.AllGather(ctx, make([]byte, 8), make([]byte, 16))
		},
		"AllToAll": func(ctx context.Context, e *funet.Endpoint) error {
			return e.AllToAll(ctx, make([]byte, 16), make([]byte, 16))
		},
		"func AllReduce": func(ctx context.Context, e *funet.Endpoint) error {
			return funet.AllReduce(ctx, e, am.Sum, []int64{1})
		},
		"func Reduce": func(ctx context.Context, e *funet.Endpoint) error {
			return funet.Reduce(ctx, e, 0, am.Sum, []float64{1})
		},
		"func Scan": func(ctx context.Context, e *funet.Endpoint) error {
			// the first node waits for nobody
			return until(ctx, func() error { return funet.Scan(ctx, e, am.Sum, []int64{1}) })
		},
		"a long Send": func(ctx context.Context, e *funet.Endpoint) error {
			return e.Send(ctx, 1, stuck, make([]byte, 100_000))
		},
		"a Send of some packets": func(ctx context.Context, e *funet.Endpoint) error {
			return until(ctx, func() error { return e.Send(ctx, 1, stuck, make([]byte, 1000)) })
		},
		"SendList": func(ctx context.Context, e *funet.Endpoint) error {
			return until(ctx, func() error {
				return e.SendList(ctx, 1, stuck, make([]byte, 1000), nil, make([]byte, 50_000))
			})
		},
		"Flush": func(ctx context.Context, e *funet.Endpoint) error {
			return until(ctx, func() error {
				for range 50 {
					if err := e.Post(ctx, 1, stuck, make([]byte, 60)); err != nil {
						return err
					}
				}
				return e.Flush(ctx)
			})
		},
	}
}

// apart are the calls with a context that have a test of their own (TestCloseIsCancelled).
var apart = []string{"Close"}

// Rule: no method that takes a context is missing from the table.
func TestNoWaitIsForgotten(t *testing.T) {
	known := waits()
	ctx := reflect.TypeFor[context.Context]()
	found := 0
	for prefix, of := range map[string]reflect.Type{"": reflect.TypeFor[*funet.Endpoint](),
		"Pending.": reflect.TypeFor[*funet.Pending](), "Message.": reflect.TypeFor[*funet.Message]()} {
		for i := range of.NumMethod() {
			m := of.Method(i)
			takes := false
			for in := range m.Type.Ins() {
				takes = takes || in == ctx
			}
			if !takes {
				continue
			}
			found++
			if name := prefix + m.Name; (known[name] == nil) == !slices.Contains(apart, name) {
				t.Errorf("%s is not in exactly one of the two lists", name)
			}
		}
	}
	for name := range known {
		if strings.Contains(name, " ") {
			found++ // a function of the package, or a second way to wait
		}
	}
	if found < len(known) {
		t.Errorf("%d calls with a context, and %d in the table", found, len(known))
	}
}

// Rule: each ends with am.ErrCancelled and the cause, soon.
func TestEveryWaitIsCancelled(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		all := waits()
		delete(all, agree)
		endSoon(t, b, all)
	})
}

// Rule: so does Agree, which jobs have whose nodes may die.
func TestAgreeIsCancelled(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		b.options[0].Rejoin, b.options[1].Rejoin = true, true
		// a later life, or Agree would have nothing to do
		if b.options[0].Life = 1; b.options[0].Attach != nil {
			b.options[0].Attach.Life = 1
		}
		endSoon(t, b, map[string]func(context.Context, *funet.Endpoint) error{agree: waits()[agree]})
	})
}

const agree = "Agree"

// endSoon measures calls on node 0 of two, alone and beside a goroutine that leads. Node 1 handles
// nothing.
func endSoon(t *testing.T, b *bed, calls map[string]func(context.Context, *funet.Endpoint) error) {
	t.Helper()
	e := b.open(0)
	deafen(t, b.open(1))
	c := newClock(t)
	for name, call := range calls {
		for _, led := range []bool{false, true} {
			what := name
			leader, end := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			if led {
				what += " beside a leader"
				go func() { ended <- e.Run(leader) }()
			}
			var took []time.Duration
			for range times {
				took = append(took, cancelOne(t, what, e, c, call))
			}
			if slices.Sort(took); took[times/2] > prompt {
				t.Errorf("%s ended so long after its context: %v", what, took)
			}
			end()
			if led {
				await(t, "the leader ends", ended)
			}
		}
	}
}

// deafen lets the card of a node run until the test ends: so the node is there, for however long,
// and handles nothing.
func deafen(t *testing.T, e *funet.Endpoint) {
	var over atomic.Bool
	ended := make(chan error, 1)
	go func() {
		ended <- e.AM(func(*am.Endpoint) error {
			for !over.Load() {
				e.Carrier().Drive()
				runtime.Gosched() // it keeps nobody from a processor
			}
			return nil
		})
	}()
	t.Cleanup(func() {
		over.Store(true)
		if err := await(t, "the deaf node ends", ended); err != nil {
			t.Error(err)
		}
	})
}

// cancelOne measures one call from the end of its context on.
func cancelOne(t *testing.T, name string, e *funet.Endpoint, c *clock,
	call func(context.Context, *funet.Endpoint) error) time.Duration {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	at := make(chan time.Duration, 1)
	time.AfterFunc(3*time.Millisecond, func() {
		at <- c.now()
		cancel(errAsked)
	})
	err := call(ctx, e)
	took := c.now() - <-at
	if !errors.Is(err, errAsked) || !strings.HasSuffix(name, "Run") && !strings.HasPrefix(name, "Run") &&
		!errors.Is(err, am.ErrCancelled) || strings.Contains(err.Error(), "\n") {
		t.Fatalf("%s ended with %v", name, err)
	}
	return took
}

// Rule: Close ends with its context, by hand as well as by a deadline, and says that something was
// left. Detaching from the interfaces takes steps of some milliseconds after that, which are no
// waits.
func TestCloseIsCancelled(t *testing.T) {
	for _, end := range []string{"by hand", "deadline"} {
		t.Run(end, func(t *testing.T) {
			onBoth(t, func(t *testing.T, b *bed) {
				for i := range b.options {
					if c := b.options[i].Card; c != nil {
						c.Slots = 2
					} else {
						b.options[i].Attach.Slots = 2
					}
				}
				e := b.open(0)
				b.open(1) // handles nothing
				// in a row: the other node has no room, and is not just slow
				for failed := 0; failed < 3; {
					full, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
					if failed++; e.Send(full, 1, stuck, nil) == nil {
						failed = 0
					}
					cancel()
				}
				begin := time.Now()
				ctx, ended := context.WithTimeout(t.Context(), 20*time.Millisecond)
				if end == "by hand" {
					ctx, ended = context.WithCancel(t.Context())
					time.AfterFunc(20*time.Millisecond, ended)
				}
				defer ended()
				err := e.Close(ctx)
				if took := time.Since(begin); took > patience/2 {
					t.Errorf("it took %v", took)
				}
				if err == nil || !strings.Contains(err.Error(), "left undelivered") {
					t.Errorf("closing: %v", err)
				}
			})
		})
	}
}
