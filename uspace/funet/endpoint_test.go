package funet_test

// This file tests messages and calls between two nodes, from one goroutine and from many.

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/funet"
)

// Handler numbers.
const (
	echo = iota
	echoed
	count
	double
	refuse
)

// Rule: a message of any bytes arrives whole, once, with its sender, and so does its reply; empty
// and nil ones too.
func TestMessages(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		b.both(func(ctx context.Context, e *funet.Endpoint) error {
			var got [][]byte
			other := 1 - e.Node()
			err := errors.Join(
				e.Handle(echo, func(m *funet.Message) error {
					if m.Source != other {
						return fmt.Errorf("it is from node %d", m.Source)
					}
					return m.Reply(echoed, m.Bytes)
				}),
				e.Handle(echoed, func(m *funet.Message) error {
					got = append(got, bytes.Clone(m.Bytes))
					return nil
				}))
			if err != nil {
				return err
			}
			var sizes []int
			for n := range am.ShortBytes + 1 {
				sizes = append(sizes, n)
			}
			for n, size := range append(sizes, 81, 100, 2047, 2048, 2049, 5000, 100_001, 1<<20) {
				sent := make([]byte, size)
				for i := range sent {
					sent[i] = byte(i*7 + n)
				}
				if n == 0 {
					sent = nil
				}
				send := func() error { return e.Send(ctx, other, echo, sent) }
				if n%2 == 1 { // in pieces
					send = func() error { return e.SendList(ctx, other, echo, sent[:size/3], nil, sent[size/3:]) }
				}
				if err := send(); err != nil {
					return fmt.Errorf("%d bytes: %w", size, err)
				}
				if err := e.Wait(ctx, func() bool { return len(got) > n }); err != nil {
					return err
				}
				if !bytes.Equal(got[n], sent) {
					return fmt.Errorf("%d bytes came back as others", size)
				}
			}
			return e.Barrier(ctx)
		})
	})
}

// Rule: calls of many goroutines at the same time each get their own answer, or their own error,
// while others send, wait and stand at a barrier.
func TestGoroutines(t *testing.T) {
	const calls = 300
	for _, n := range []int{1, 2, 8} {
		onBoth(t, func(t *testing.T, b *bed) {
			b.both(func(ctx context.Context, e *funet.Endpoint) error {
				other := 1 - e.Node()
				var counted atomic.Int64
				ended := errors.New("odd")
				err := errors.Join(
					e.Handle(count, func(*funet.Message) error { counted.Add(1); return nil }),
					e.Serve(double, func(m *funet.Message) ([]byte, error) {
						v := binary.LittleEndian.Uint64(m.Bytes)
						if v%7 == 3 {
							return nil, ended
						}
						return binary.LittleEndian.AppendUint64(nil, 2*v), nil
					}))
				if err != nil {
					return err
				}
				if err := e.Barrier(ctx); err != nil {
					return err
				}
				errs := make(chan error, 2*n)
				var all sync.WaitGroup
				for g := range n {
					all.Go(func() {
						errs <- func() error {
							for i := range calls {
								v := uint64(g)<<32 + uint64(i)
								b, err := e.Call(ctx, other, double, binary.LittleEndian.AppendUint64(nil, v))
								var r *am.RemoteError
								switch {
								case v%7 == 3:
									if !errors.As(err, &r) || r.Text != ended.Error() {
										return fmt.Errorf("the error of %d is %v", v, err)
									}
								case err != nil:
									return err
								case binary.LittleEndian.Uint64(b) != 2*v:
									return fmt.Errorf("twice %d is %x", v, b)
								}
							}
							return nil
						}()
					})
					all.Go(func() {
						errs <- func() error {
							for range calls {
								if err := e.Send(ctx, other, count, []byte("one")); err != nil {
									return err
								}
							}
							return e.Wait(ctx, func() bool { return counted.Load() >= calls })
						}()
					})
				}
				err = e.Barrier(ctx) // beside all of them
				all.Wait()
				for range 2 * n {
					err = errors.Join(err, <-errs)
				}
				err = errors.Join(err, e.Wait(ctx, func() bool { return counted.Load() == int64(n*calls) }))
				return errors.Join(err, e.Barrier(ctx))
			})
		})
	}
}

// Rule: calls that were begun go on side by side, and each Pending has its own answer; more than
// there is room for, too.
func TestPending(t *testing.T) {
	const calls = 2000 // more than a send queue has slots
	onBoth(t, func(t *testing.T, b *bed) {
		b.both(func(ctx context.Context, e *funet.Endpoint) error {
			if err := e.Serve(double, func(m *funet.Message) ([]byte, error) {
				return append(m.Bytes, m.Bytes...), nil
			}); err != nil {
				return err
			}
			if err := e.Barrier(ctx); err != nil {
				return err
			}
			var begun []*funet.Pending
			for i := range calls {
				begun = append(begun, e.Go(1-e.Node(), double, fmt.Append(nil, i)))
			}
			for i, p := range begun {
				if got, err := p.Wait(ctx); err != nil || string(got) != fmt.Sprintf("%d%d", i, i) {
					return fmt.Errorf("call %d: %q, %v", i, got, err)
				}
			}
			p := e.Go(1-e.Node(), double, nil)
			p.Cancel()
			if _, err := p.Wait(ctx); err != nil && !errors.Is(err, am.ErrCancelled) {
				return fmt.Errorf("a cancelled call: %w", err)
			}
			return e.Barrier(ctx)
		})
	})
}

// Rule: what is used after Close says so with a sentinel error, which is net.ErrClosed as well, and
// does not hang.
func TestClosed(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		ctx := t.Context()
		e := b.open(0)
		waiting := make(chan error, 3)
		go func() { waiting <- e.Run(ctx) }()
		go func() { waiting <- e.Wait(ctx, func() bool { return false }) }()
		go func() { waiting <- e.Barrier(ctx) }()
		// most likely all of them wait; the rule holds for those that do not, too
		time.Sleep(20 * time.Millisecond)
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		_ = e.Close(short) // the barrier's message is for a node that is not there
		for range cap(waiting) {
			if err := await(t, "a wait ends", waiting); !errors.Is(err, funet.ErrClosed) {
				t.Errorf("a wait ended with %v", err)
			}
		}
		for name, call := range map[string]func() error{
			"Send":    func() error { return e.Send(ctx, 1, echo, nil) },
			"Post":    func() error { return e.Post(ctx, 1, echo, nil) },
			"Call":    func() error { _, err := e.Call(ctx, 1, double, nil); return err },
			"Go":      func() error { _, err := e.Go(1, double, nil).Wait(ctx); return err },
			"Handle":  func() error { return e.Handle(echo, func(*funet.Message) error { return nil }) },
			"Serve":   func() error { return e.Serve(echo, func(*funet.Message) ([]byte, error) { return nil, nil }) },
			"Barrier": func() error { return e.Barrier(ctx) },
			"Poll":    func() error { _, err := e.Poll(); return err },
			"Wait":    func() error { return e.Wait(ctx, func() bool { return true }) },
			"Run":     func() error { return e.Run(ctx) },
			"Flush":   func() error { return e.Flush(ctx) },
			"AM":      func() error { return e.AM(func(*am.Endpoint) error { return nil }) },
			"Alloc":   func() error { _, err := e.Alloc(4096); return err },
			"Fd":      func() error { _, err := e.Fd(); return err },
			"Close":   func() error { return e.Close(ctx) },
			"Err":     e.Err,
		} {
			if err := call(); !errors.Is(err, funet.ErrClosed) || !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s after Close: %v", name, err)
			}
		}
		if e.Arm() {
			t.Error("Arm after Close")
		}
		e.Disarm()
	})
}

// Rule: whatever a handler, or a condition, calls that could wait says ErrHandler; replies are for
// the handler's own goroutine.
func TestFromAHandler(t *testing.T) {
	b := newBed(t, "embedded")
	b.both(func(ctx context.Context, e *funet.Endpoint) error {
		got := map[string]error{}
		calls := func() {
			_, poll := e.Poll()
			_, call := e.Call(ctx, 0, double, nil)
			_, alloc := e.Alloc(1)
			got["Poll"], got["Call"], got["Alloc"] = poll, call, alloc
			got["Send"] = e.Send(ctx, 0, count, nil)
			got["Wait"] = e.Wait(ctx, func() bool { return true })
			got["Barrier"], got["Run"], got["Flush"] = e.Barrier(ctx), e.Run(ctx), e.Flush(ctx)
			got["Close"] = e.Close(ctx)
			got["AM"] = e.AM(func(*am.Endpoint) error { return nil })
			if e.Arm() {
				got["Arm"] = nil
			}
		}
		var late *funet.Message
		ran := false
		err := e.Handle(count, func(m *funet.Message) error {
			calls()
			other := make(chan error)
			go func() { other <- m.Reply(echo, nil) }()
			got["Reply of another goroutine"] = <-other
			late, ran = m, true
			return nil
		})
		if err == nil && e.Node() == 1 {
			err = e.Send(ctx, 0, count, nil)
		}
		if err == nil && e.Node() == 0 {
			err = e.Wait(ctx, func() bool { return ran })
			got["Reply after the handler"] = late.Reply(echo, nil)
		}
		for name, err := range got {
			if !errors.Is(err, funet.ErrHandler) {
				t.Errorf("%s in a handler: %v", name, err)
			}
		}
		clear(got)
		err = errors.Join(err, e.Wait(ctx, func() bool { calls(); return true }))
		for name, err := range got {
			if !errors.Is(err, funet.ErrHandler) {
				t.Errorf("%s in a condition: %v", name, err)
			}
		}
		return errors.Join(err, e.Barrier(ctx))
	})
}

// Rule: a handler that panics ends its endpoint with the value and the stack, wherever it was
// waited for, and the other node sees it leave.
func TestPanic(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		ctx := t.Context()
		bad, good := b.open(0), b.open(1)
		boom := errors.New("boom")
		if err := bad.Handle(count, func(*funet.Message) error { panic(boom) }); err != nil {
			t.Fatal(err)
		}
		parked := make(chan error, 3)
		go func() { parked <- bad.Run(ctx) }()
		go func() { parked <- bad.Barrier(ctx) }()
		go func() { parked <- bad.Wait(ctx, func() bool { return false }) }()
		if err := good.Send(ctx, 0, count, nil); err != nil {
			t.Fatal(err)
		}
		go func() { _ = good.Run(ctx) }()
		for range cap(parked) {
			err := await(t, "a wait ends", parked)
			var p *funet.PanicError
			if !errors.As(err, &p) || p.Value != any(boom) || !errors.Is(err, boom) ||
				!bytes.Contains(p.Stack, []byte("TestPanic")) {
				t.Errorf("a wait on the endpoint that panicked: %v", err)
			}
		}
		if err := bad.Send(ctx, 1, count, nil); !errors.Is(err, boom) {
			t.Errorf("sending afterwards: %v", err)
		}
		_, err := good.Call(ctx, 0, double, nil)
		var u *am.Undelivered
		if !errors.As(err, &u) {
			t.Errorf("calling the node that has left: %v", err)
		}
		if err := bad.Close(ctx); err != nil && !strings.Contains(err.Error(), "left undelivered") {
			t.Errorf("closing it: %v", err)
		}
	})
}

// Rule: the error of a handler ends the use of its endpoint, unless OnError takes it; that of a
// call's handler does not.
func TestHandlerErrors(t *testing.T) {
	for _, taken := range []bool{false, true} {
		t.Run(fmt.Sprint("taken ", taken), func(t *testing.T) {
			b := newBed(t, "embedded")
			ctx := t.Context()
			wrong := errors.New("it does not suit me")
			var took []error
			if taken {
				b.options[0].OnError = func(err error) { took = append(took, err) }
			}
			a, other := b.open(0), b.open(1)
			handled := 0
			err := errors.Join(
				a.Handle(count, func(*funet.Message) error { handled++; return wrong }),
				a.Serve(refuse, func(*funet.Message) ([]byte, error) { return nil, wrong }),
				other.Send(ctx, 0, count, nil))
			if err != nil {
				t.Fatal(err)
			}
			go func() { _ = other.Run(ctx) }()
			err = a.Wait(ctx, func() bool { return handled > 0 })
			var h *funet.HandlerError
			if taken {
				if err != nil || len(took) != 1 || !errors.Is(took[0], wrong) || a.Err() != nil {
					t.Errorf("%v, taken %v, the endpoint has %v", err, took, a.Err())
				}
				return
			}
			if !errors.As(err, &h) || h.Source != 1 || h.Handler != count || !errors.Is(err, wrong) ||
				!errors.Is(a.Err(), wrong) {
				t.Errorf("waiting: %v; the endpoint has %v", err, a.Err())
			}
			if err := a.Send(ctx, 1, count, nil); !errors.Is(err, wrong) {
				t.Errorf("sending afterwards: %v", err)
			}
		})
	}
}

// Rule: who has sent a message to a handler that is not there is told which, and on which node, by
// the next call that waits, or by OnError (*am.Undelivered, ErrNoHandler); the endpoint goes on.
func TestNoHandlerThere(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		took := make(chan error, 1)
		b.options[1].OnError = func(err error) { took <- err }
		b.both(func(ctx context.Context, e *funet.Endpoint) error {
			const missing = 77
			if err := errors.Join(e.Barrier(ctx), e.Send(ctx, 1-e.Node(), missing, []byte("who is there"))); err !=
				nil {
				return err
			}
			var err error
			if e.Node() == 0 {
				err = e.Wait(ctx, func() bool { return false })
			} else {
				err = errors.Join(e.Wait(ctx, func() bool { return len(took) > 0 }))
				err = errors.Join(err, <-took)
			}
			var u *am.Undelivered
			if !errors.As(err, &u) || !errors.Is(err, funet.ErrNoHandler) || int(u.Node) != 1-e.Node() ||
				u.Handler != missing {
				return fmt.Errorf("it was told %w", err)
			}
			if err := e.Send(ctx, 1-e.Node(), missing, make([]byte, 10_000)); !errors.Is(err, funet.ErrNoHandler) {
				return fmt.Errorf("a long message: %w", err)
			}
			return errors.Join(e.Err(), e.Barrier(ctx))
		})
	})
}

// Rule: a barrier, and another operation of all nodes, that ends before all have come names the
// node that has not (Missing).
func TestWhoIsMissing(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		e := b.open(0)
		for name, call := range map[string]func(context.Context) error{
			"Barrier": e.Barrier,
			"Gather":  func(ctx context.Context) error { return e.Gather(ctx, 0, make([]byte, 8), make([]byte, 16)) },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			err := call(ctx)
			cancel()
			var m *funet.Missing
			if !errors.As(err, &m) || !slices.Equal(m.Nodes, []int{1}) || !errors.Is(err, context.DeadlineExceeded) ||
				!strings.Contains(err.Error(), "node 1 has not come") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// Rule: without a place anywhere Open says what to do.
func TestNoPlace(t *testing.T) {
	t.Setenv("FUNET_GID", "")
	if _, err := funet.Open(t.Context(), funet.Options{}); !errors.Is(err, funet.ErrPlace) {
		t.Errorf("it was answered by %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	asked := errors.New("the user asked for it")
	cancel(asked)
	b := newBed(t, "daemon")
	if _, err := b.tryOpen(ctx, 0); !errors.Is(err, asked) {
		t.Errorf("opening with a context that has ended: %v", err)
	}
}

// Rule: a message that is longer than any is refused before a byte of it is read.
func TestTooLong(t *testing.T) {
	long, err := unix.Mmap(-1, 0, 1<<31, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(long) })
	onBoth(t, func(t *testing.T, b *bed) {
		e, ctx := b.open(0), t.Context()
		for name, err := range map[string]error{
			"Send": e.Send(ctx, 1, count, long), "Post": e.Post(ctx, 1, count, long),
			"SendList": e.SendList(ctx, 1, count, nil, long, long),
			"Call":     value(e.Call(ctx, 1, count, long)), "Go": value(e.Go(1, count, long).Wait(ctx)),
			"SendTag": e.SendTag(ctx, 1, 1, long),
		} {
			if !errors.Is(err, funet.ErrLong) {
				t.Errorf("%s of 2^31 bytes: %v", name, err)
			}
		}
		for name, err := range map[string]error{
			"Send": e.Send(ctx, 2, count, nil), "SendList": e.SendList(ctx, -1, count),
			"Call": value(e.Call(ctx, 2, count, nil)), "SendTag": e.SendTag(ctx, -1, 1, nil),
			"a long Send": e.Send(ctx, 2, count, make([]byte, 10_000)),
		} {
			if !errors.Is(err, funet.ErrNode) {
				t.Errorf("%s to a node that there is not: %v", name, err)
			}
		}
		for name, err := range map[string]error{
			"Send": e.Send(ctx, 1, am.Handlers, nil), "Call": value(e.Call(ctx, 1, am.Handlers, nil)),
			"a long Send":       e.Send(ctx, 1, am.Handlers, make([]byte, 10_000)),
			"Handle":            e.Handle(am.Handlers, func(*funet.Message) error { return nil }),
			"Handle of nothing": e.Handle(0, nil), "Serve of nothing": e.Serve(0, nil),
		} {
			if !errors.Is(err, funet.ErrNumber) {
				t.Errorf("%s of a handler that cannot be: %v", name, err)
			}
		}
	})
}

// Rule: calls and answers of any length arrive whole, of several goroutines at once, by Call and by
// Go, which copies a short request.
func TestLongCalls(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		b.both(func(ctx context.Context, e *funet.Endpoint) error {
			err := errors.Join(e.Serve(double, func(m *funet.Message) ([]byte, error) {
				return append(m.Bytes[:len(m.Bytes):len(m.Bytes)], m.Bytes...), nil
			}), e.Barrier(ctx))
			if err != nil {
				return err
			}
			sizes := []int{60, 100, 1500, 3000, 100_000, 1 << 20}
			errs := make([]error, len(sizes))
			var all sync.WaitGroup
			for i, size := range sizes {
				all.Go(func() {
					request := bytes.Repeat([]byte{byte(i + 1)}, size)
					want := bytes.Repeat(request, 2)
					answer, err := e.Call(ctx, 1-e.Node(), double, request)
					p := e.Go(1-e.Node(), double, request)
					if size <= am.ShortCall {
						clear(request)
					}
					again, err2 := p.Wait(ctx)
					if errs[i] = errors.Join(err, err2); errs[i] == nil &&
						(!bytes.Equal(answer, want) || !bytes.Equal(again, want)) {
						errs[i] = fmt.Errorf("a call of %d bytes was answered by %d and %d, or others", size,
							len(answer), len(again))
					}
				})
			}
			all.Wait()
			return errors.Join(append(errs, e.Barrier(ctx))...)
		})
	})
}
