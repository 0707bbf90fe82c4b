package funet_test

// This file tests windows of an endpoint beside its messages.

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
	"github.com/funet/funet/uspace/ultra"
)

// withWindows makes a bed whose endpoints may have windows.
func withWindows(b *bed) {
	sizes := funi.RemoteSizes{KeySlots: 16, Notifications: 256, Areas: 16}
	for i := range b.options {
		b.options[i].Remote = sizes
	}
}

// Rule: paths lead from endpoint to endpoint, on any card: each line is received once and in order,
// and the end of the lines is seen (Windows.Paths).
func TestPaths(t *testing.T) {
	const lines, slices = 300, 32
	onBoth(t, func(t *testing.T, b *bed) {
		withWindows(b)
		b.both(func(ctx context.Context, e *funet.Endpoint) error {
			w, err := e.Windows()
			if err != nil {
				return err
			}
			memory, err := w.Alloc(8192)
			if err != nil {
				return err
			}
			if err := e.Barrier(ctx); err != nil {
				return err
			}
			err = w.Do(ctx, func(*rma.Endpoint) error {
				other := uint16(1 - e.Node())
				if e.Node() == 0 {
					s, err := w.Paths().OpenSender(other, memory)
					if err == nil {
						err = s.Ready()
					}
					for i := uint64(0); i < lines && err == nil; {
						var sent bool
						if sent, err = s.Send(i, ^i); sent {
							i++
						}
					}
					return errors.Join(err, s.Close())
				}
				r, err := w.Paths().OpenReceiver(other, memory, slices)
				if err != nil {
					return err
				}
				var line [ultra.MaxWords]uint64
				for i := range uint64(lines) {
					if n, err := r.Receive(&line); err != nil || n != 2 || line[0] != i || line[1] != ^i {
						return fmt.Errorf("line %d: %d words, %x, %w", i, n, line, err)
					}
				}
				if _, err := r.Receive(&line); err != io.EOF {
					return fmt.Errorf("behind the last line: %w", err)
				}
				return r.Close()
			})
			return errors.Join(err, e.Barrier(ctx))
		})
	})
}

// Rule: a poll between Enter and Exit shows what is complete in the same turn. There other calls of
// the endpoint are refused, also of the goroutine that entered (Endpoint.Enter).
func TestPollWithin(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		withWindows(b)
		b.both(func(ctx context.Context, e *funet.Endpoint) error {
			const key = 0x1234_5678_0001
			w, err := e.Windows()
			if err != nil {
				return err
			}
			memory, err := w.Alloc(4096)
			if err != nil {
				return err
			}
			var id rma.ID
			var one *rma.Endpoint
			err = w.Do(ctx, func(r *rma.Endpoint) error {
				one = r
				_, err := r.Expose(memory, rma.Options{Key: key})
				return err
			})
			if err = errors.Join(err, e.Barrier(ctx)); err == nil {
				err = w.Do(ctx, func(r *rma.Endpoint) (err error) {
					id, err = r.Put(rma.Target{Node: uint16(1 - e.Node()), Key: key}, []byte{1}, rma.With{Ack: true})
					return err
				})
			}
			var result rma.Result
			for err == nil && result.ID == 0 && ctx.Err() == nil {
				if _, err = e.Enter(); err != nil {
					break
				}
				_, err = e.PollWithin()
				if _, inside := e.Poll(); !errors.Is(inside, funet.ErrHandler) {
					t.Errorf("a poll between Enter and Exit: %v", inside)
				}
				one.Next(&result)
				e.Exit()
			}
			if err == nil && (result.ID != id || result.Err != nil) {
				err = fmt.Errorf("operation %d instead of %d: %w", result.ID, id, result.Err)
			}
			return errors.Join(err, e.Barrier(ctx))
		})
	})
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

// Rule: memory of the program is a window where it lies, on a card in the process. After Unshare it
// is none, its addresses are free, and what was not shared is refused.
func TestWindowsUnshare(t *testing.T) {
	b := newBed(t, "embedded")
	withWindows(b)
	b.both(func(ctx context.Context, e *funet.Endpoint) error {
		w, err := e.Windows()
		if err != nil {
			return err
		}
		memory := make([]byte, 1<<20)
		expose := func(r *rma.Endpoint) error {
			window, err := r.Expose(memory[16:48], rma.Options{})
			if err != nil {
				return err
			}
			return r.Revoke(window)
		}
		for range 100 { // more than the card has segments
			_, err := w.Share(memory)
			if err := errors.Join(err, w.Do(ctx, expose), w.Unshare(memory)); err != nil {
				return err
			}
		}
		// parts that begin at one place: each is given back by itself, and a window is of the part
		// with the lowest address that has it
		low, err := w.Share(memory[:64])
		high, err2 := w.Share(memory)
		if err = errors.Join(err, err2); err != nil || low >= high {
			return fmt.Errorf("shared at %#x and then at %#x: %w", low, high, err)
		}
		if err := errors.Join(w.Do(ctx, expose), w.Unshare(memory[:64]), w.Do(ctx, expose), w.Unshare(memory)); err != nil {
			return fmt.Errorf("parts that begin at one place: %w", err)
		}
		if err := w.Do(ctx, expose); !errors.Is(err, rma.ErrMemory) {
			return fmt.Errorf("a window of memory that is not shared: %w", err)
		}
		if err := w.Unshare(memory); !errors.Is(err, funet.ErrAddress) {
			return fmt.Errorf("unsharing twice: %w", err)
		}
		return e.Barrier(ctx)
	})
}

// Rule: memory of the program is memory for windows with a card in the process: others add to it,
// and it is put from. A daemon's card refuses it, and nothing is taken (Windows.Share).
func TestShareForWindows(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		withWindows(b)
		b.both(func(ctx context.Context, e *funet.Endpoint) error {
			const key = 0x1234_5678_0001
			w, err := e.Windows()
			if err != nil {
				return err
			}
			words := make([]uint64, 512)
			memory := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 4096)
			_, err = w.Share(memory)
			if _, embedded := e.Carrier().(*card.Card); !embedded {
				if !errors.Is(err, attach.ErrOwnMemory) {
					return fmt.Errorf("a daemon's card gave %w", err)
				}
				memory, err = w.Alloc(4096) // the address is still free
			}
			if err != nil {
				return err
			}
			if _, err := w.Share(memory[:24]); err == nil {
				return errors.New("24 bytes were shared")
			}
			target := rma.Target{Node: uint16(1 - e.Node()), Key: key}
			if err := w.Do(ctx, func(r *rma.Endpoint) error {
				_, err := r.Expose(memory[:2048], rma.Options{Key: key})
				return err
			}); err != nil {
				return err
			}
			if err := w.Ready(ctx, target); err != nil {
				return err
			}
			for i := range memory[2048:] {
				memory[2048+i] = byte(i*7 + e.Node())
			}
			if err := w.Do(ctx, func(r *rma.Endpoint) error {
				_, err := r.Put(target, memory[2048:], rma.With{})
				return err
			}); err != nil {
				return err
			}
			if err := errors.Join(w.Quiet(ctx), e.Barrier(ctx)); err != nil {
				return err
			}
			for i, got := range memory[:2048] {
				if got != byte(i*7+1-e.Node()) {
					return fmt.Errorf("byte %d is %d", i, got)
				}
			}
			return nil
		})
	})
}
