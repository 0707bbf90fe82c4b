package funet_test

// This file tests windows of an endpoint beside its messages.

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
)

// withWindows makes a bed whose endpoints may have windows.
func withWindows(b *bed) {
	sizes := funi.RemoteSizes{KeySlots: 16, Notifications: 256, Areas: 16}
	for i := range b.options {
		b.options[i].Remote = sizes
	}
}

// Rule: messages, calls, barriers and operations on windows go on at the same time from several
// goroutines by one endpoint: each operation is carried out once and answers its own goroutine, and
// what each goroutine puts it gets back (Endpoint.Windows).
func TestWindows(t *testing.T) {
	const goroutines, each, block = 4, 50, 5000
	onBoth(t, func(t *testing.T, b *bed) {
		withWindows(b)
		b.both(func(ctx context.Context, e *funet.Endpoint) error {
			other := 1 - e.Node()
			var counted atomic.Int64
			err := errors.Join(e.Handle(count, func(*funet.Message) error { counted.Add(1); return nil }),
				e.Serve(double, func(m *funet.Message) ([]byte, error) { return append(m.Bytes, m.Bytes...), nil }))
			w, err2 := e.Windows()
			if err := errors.Join(err, err2); err != nil {
				return err
			}
			memory, err := w.Alloc(goroutines*block + 4096)
			if err != nil {
				return err
			}
			own, err := w.Alloc(2 * goroutines * block)
			if err != nil {
				return err
			}
			const key = 0x1234_5678_0001
			if err := w.Do(ctx, func(r *rma.Endpoint) error {
				_, err := r.Expose(memory, rma.Options{Key: key})
				return err
			}); err != nil {
				return err
			}
			target := rma.Target{Node: uint16(other), Key: key}
			if err := w.Ready(ctx, target); err != nil {
				return err
			}
			operate := func(f func(r *rma.Endpoint) (rma.ID, error)) (rma.Result, error) {
				var id rma.ID
				if err := w.Do(ctx, func(r *rma.Endpoint) (err error) { id, err = f(r); return err }); err != nil {
					return rma.Result{}, err
				}
				return w.Wait(ctx, id)
			}
			var all sync.WaitGroup
			errs := make(chan error, 2*goroutines+1)
			seen := make(map[uint64]bool)
			var mu sync.Mutex
			for g := range goroutines {
				all.Go(func() {
					errs <- func() error {
						out, in := own[2*g*block:][:block], own[(2*g+1)*block:][:block]
						at := target.At(uint64(4096 + g*block))
						for i := range each {
							for k := range out {
								out[k] = byte(g + i + k)
							}
							if _, err := operate(func(r *rma.Endpoint) (rma.ID, error) {
								return r.Put(at, out, rma.With{Ack: true})
							}); err != nil {
								return err
							}
							if _, err := operate(func(r *rma.Endpoint) (rma.ID, error) {
								return r.Get(at, in, rma.With{})
							}); err != nil {
								return err
							}
							if !bytes.Equal(in, out) {
								return fmt.Errorf("goroutine %d got other bytes than it put", g)
							}
							was, err := operate(func(r *rma.Endpoint) (rma.ID, error) { return r.Add(target, 1) })
							if err != nil {
								return err
							}
							mu.Lock()
							if seen[was.Uint64()] {
								err = fmt.Errorf("two additions answered %d", was.Uint64())
							}
							seen[was.Uint64()] = true
							mu.Unlock()
							if err != nil {
								return err
							}
						}
						return nil
					}()
				})
				all.Go(func() {
					errs <- func() error {
						for i := range each {
							if err := e.Send(ctx, other, count, []byte("one")); err != nil {
								return err
							}
							request := binary.LittleEndian.AppendUint64(nil, uint64(g*each+i))
							if answer, err := e.Call(ctx, other, double, request); err != nil ||
								!bytes.Equal(answer, append(request, request...)) {
								return fmt.Errorf("a call was answered %x, %w", answer, err)
							}
						}
						return nil
					}()
				})
			}
			all.Go(func() {
				errs <- func() error {
					for range each {
						if err := e.Barrier(ctx); err != nil {
							return err
						}
					}
					return nil
				}()
			})
			all.Wait()
			close(errs)
			for one := range errs {
				err = errors.Join(err, one)
			}
			word := (*atomic.Uint64)(unsafe.Pointer(&memory[0]))
			err = errors.Join(err, w.Quiet(ctx), w.Until(ctx, func() bool { return word.Load() == goroutines*each }),
				e.Wait(ctx, func() bool { return counted.Load() == goroutines*each }), e.Barrier(ctx))
			if len(seen) != goroutines*each {
				err = errors.Join(err, fmt.Errorf("%d additions were answered", len(seen)))
			}
			return err
		})
	})
}

// Rule: Ready ends when the window is there, which its owner exposes later, and with its context
// when it is not; an operation on a window that is not there fails at once. What waits in Do ends
// with its context. Without remote memory there are no windows.
func TestWindowReady(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		withWindows(b)
		b.both(func(ctx context.Context, e *funet.Endpoint) error {
			const key = 0x4321_0002
			w, err := e.Windows()
			if err != nil {
				return err
			}
			asked := make(chan error, 1)
			target := rma.Target{Node: 1, Key: key}
			if e.Node() == 0 {
				short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
				defer cancel()
				if err := w.Ready(short, target); !errors.Is(err, context.DeadlineExceeded) {
					return fmt.Errorf("a window that is not there: %w", err)
				}
				err := w.Do(short, func(r *rma.Endpoint) error { return r.Until(func() bool { return false }) })
				if !errors.Is(err, context.DeadlineExceeded) {
					return fmt.Errorf("waiting in Do: %w", err)
				}
				go func() { asked <- w.Ready(ctx, target) }()
				if err := e.Barrier(ctx); err != nil {
					return err
				}
				return errors.Join(<-asked, e.Barrier(ctx))
			}
			memory, err := w.Alloc(64)
			if err := errors.Join(err, e.Barrier(ctx)); err != nil {
				return err
			}
			err = w.Do(ctx, func(r *rma.Endpoint) error {
				_, err := r.Expose(memory, rma.Options{Key: key, Rights: funi.RightWrite})
				return err
			})
			return errors.Join(err, e.Barrier(ctx))
		})
	})
	b := newBed(t, "embedded")
	if _, err := b.open(0).Windows(); !errors.Is(err, rma.ErrNone) {
		t.Errorf("windows without remote memory: %v", err)
	}
}
