package funet

// This file offers one-sided operations on windows (package rma) by the same endpoint, beside
// messages, calls and collective operations.
//
// The leader (wait.go) also takes completions and notifications, each time the card has run
// (drive). A goroutine that waits for an operation is parked like one that waits for a call.
// Package am reads the returned packets, and passes those of package rma on.

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
	"github.com/funet/funet/uspace/ultra"
)

// Windows holds the endpoint's windows, and operates on windows of other nodes. Any goroutine may
// call its methods; handlers may not (ErrHandler).
//
//	w, err := e.Windows()                // Options.Remote says how many there may be
//	memory, err := w.Alloc(4096)
//	err = w.Do(ctx, func(r *rma.Endpoint) (err error) {
//		window, err = r.Expose(memory, rma.Options{})
//		return err
//	})
//	...
//	err = w.Do(ctx, func(r *rma.Endpoint) (err error) { id, err = r.Add(target, 1); return err })
//	result, err := w.Wait(ctx, id)       // meanwhile other goroutines send, call and operate
type Windows struct {
	endpoint *Endpoint
	rma      *rma.Endpoint
	ctx      context.Context // of Do
	watching int             // goroutines in Until
}

// Windows returns the endpoint's windows, the same value each time. Errors are rma.ErrNone if
// Options.Remote is zero, and the reason why the endpoint is unusable.
func (e *Endpoint) Windows() (*Windows, error) {
	if err := e.lock(); err != nil {
		return nil, fmt.Errorf("opening windows: %w", err)
	}
	defer e.unlock()
	if e.sweep != nil {
		return nil, fmt.Errorf("opening windows: %w", ErrBeside)
	}
	if e.windows == nil {
		w := &Windows{endpoint: e}
		r, err := rma.New(e.iface, rand.Reader, w.drive)
		if err != nil {
			return nil, fmt.Errorf("opening windows: %w; see Options.Remote", err)
		}
		r.Shared = true
		e.am.PassOn(r.Back)
		w.rma, e.windows = r, w
	}
	return e.windows, nil
}

// Do calls f with the one-sided operations, holding the endpoint's lock, as AM does. While f waits,
// all other goroutines wait, too, but messages are handled. So f should issue operations, open
// windows and take notifications, and leave waiting to Wait, Quiet and Until. f must not call the
// endpoint (ErrHandler). Do returns the error of f. When the context ends, the waits of f end with
// its cause.
func (w *Windows) Do(ctx context.Context, f func(r *rma.Endpoint) error) error {
	e := w.endpoint
	if err := e.lock(); err != nil {
		return fmt.Errorf("operating on windows: %w", err)
	}
	w.ctx = ctx
	var stop func() bool // nil: the context does not end
	if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, e.carrier.Interrupt)
	}
	defer func() {
		if stop != nil {
			stop()
		}
		e.runner.Store(0)
		e.group.PassOn()
		e.unlock()
	}()
	e.runner.Store(goroutine())
	return f(w.rma)
}

// Paths returns what opens ULTRA paths, for use within Do: the memory of their ends is Alloc's. A
// path belongs to the goroutine in Do, so use it for pairs that do nothing else meanwhile.
func (w *Windows) Paths() *ultra.Paths { return ultra.New(w.rma, w.endpoint.iface, w.drive) }

// drive lets the card run within Do, and handles messages.
func (w *Windows) drive() error {
	if w.endpoint.poll(); w.ctx.Err() != nil {
		return cancelled(w.ctx, "operating on windows")
	}
	return w.endpoint.Err()
}

// Alloc returns memory as Endpoint.Alloc does, but for one-sided operations: as a window, as the
// source of a put, or as the target of a get (funi.Keyed and Source). Transfers do not reach it. It
// belongs to the program until Close.
func (w *Windows) Alloc(bytes int) ([]byte, error) {
	e := w.endpoint
	if err := e.lock(); err != nil {
		return nil, fmt.Errorf("allocating %d bytes for windows: %w", bytes, err)
	}
	defer e.unlock()
	s, err := e.alloc(bytes, funi.Source|funi.Keyed)
	if err == nil {
		err = w.rma.Use(s)
	}
	if err != nil {
		return nil, fmt.Errorf("allocating %d bytes for windows: %w", bytes, err)
	}
	return s.Memory[:bytes], nil
}

// Share lets one-sided operations use memory of the program, at the places for which Alloc's is: a
// positive multiple of 16 bytes, which stays where it is until Unshare or Close. It returns the
// address that b has for the card. Where memory is shared several times, windows and operations use
// the part with the lowest address in which all of theirs lies. Share works with a card in this
// process. A daemon's card refuses it (attach.ErrOwnMemory): use memory of Alloc instead.
func (w *Windows) Share(b []byte) (base uint32, err error) {
	e := w.endpoint
	if err := e.lock(); err != nil {
		return 0, fmt.Errorf("sharing %d bytes for windows: %w", len(b), err)
	}
	defer e.unlock()
	base, at := e.memory.place(len(b))
	err = ErrAddress
	if base != 0 {
		s := funi.Segment{Base: base, Memory: b, Rights: funi.Source | funi.Keyed}
		if err = e.am.Share(e.carrier.Register, s); err == nil {
			e.memory.blocks = slices.Insert(e.memory.blocks, at, block{base, b, true})
			err = w.rma.Use(s)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("sharing %d bytes for windows: %w", len(b), err)
	}
	return base, nil
}

// Unshare ends Share, for memory that no window and no operation uses; the card refuses otherwise
// (engine.ErrSegmentBusy). ErrAddress reports memory that Share was not called with.
func (w *Windows) Unshare(b []byte) error {
	e := w.endpoint
	if err := e.lock(); err != nil {
		return fmt.Errorf("unsharing %d bytes: %w", len(b), err)
	}
	defer e.unlock()
	// another may begin where b does
	at := slices.IndexFunc(e.memory.blocks, func(x block) bool {
		return x.keyed && len(x.bytes) == len(b) && &x.bytes[0] == &b[0]
	})
	if len(b) == 0 || at < 0 {
		return fmt.Errorf("unsharing %d bytes: %w", len(b), ErrAddress)
	}
	base := e.memory.blocks[at].base
	if err := e.am.Unshare(e.carrier.Unregister, base); err != nil {
		return fmt.Errorf("unsharing %d bytes: %w", len(b), err)
	}
	e.memory.blocks = slices.Delete(e.memory.blocks, at, at+1)
	return w.rma.Forget(base)
}

// Wait waits until an operation is complete, and returns its Result, whose error it also returns.
// Other errors are rma.ErrID, those of Endpoint.Wait, and the end of the context. After the end of
// the context the operation is still in flight.
func (w *Windows) Wait(ctx context.Context, id rma.ID) (r rma.Result, err error) {
	err = w.until(ctx, fmt.Sprintf("waiting for operation %d", id), func() bool {
		return w.rma.Done(id)
	}, func() (err error) {
		r, err = w.rma.Wait(id)
		return err
	})
	return r, err
}

// Quiet waits until all operations of all goroutines are complete. It returns the first failure of
// a silent operation since the last Quiet. Other errors are those of Wait.
func (w *Windows) Quiet(ctx context.Context) error {
	return w.until(ctx, "waiting for all operations", func() bool { return w.rma.Pending() == 0 }, func() error {
		return w.rma.Quiet()
	})
}

// Until waits until done returns true. done looks at memory of this process that other nodes write.
// It is called under the rules of a condition of Endpoint.Wait, also after each write of another
// node.
func (w *Windows) Until(ctx context.Context, done func() bool) error {
	watch := func(more int) {
		if w.watching += more; w.watching == more || w.watching == 0 {
			w.endpoint.iface.Watch(w.watching > 0)
		}
	}
	begun := false
	err := w.until(ctx, "waiting for what others write", func() bool {
		if !begun {
			begun = true
			watch(1)
		}
		return done()
	}, func() error { return nil })
	if begun && w.endpoint.lock() == nil { // else the card is of no more use
		watch(-1)
		w.endpoint.unlock()
	}
	return err
}

// Ready waits until the window of a target is open, as rma.Endpoint.Ready does. Errors are those of
// Wait, and that the node is gone.
func (w *Windows) Ready(ctx context.Context, t rma.Target) error {
	for n := 0; ; n++ {
		var id rma.ID
		err := w.Do(ctx, func(r *rma.Endpoint) (err error) { id, err = r.Get(t, nil, rma.With{}); return err })
		if err == nil {
			_, err = w.Wait(ctx, id)
		}
		again, err := rma.Absence(err, n)
		if err != nil {
			return fmt.Errorf("waiting for a window of node %d: %w", t.Node, err)
		}
		if again == 0 {
			return nil
		}
		timer := time.NewTimer(again)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return cancelled(ctx, fmt.Sprintf("waiting for a window of node %d, which is not there", t.Node))
		}
	}
}

// until waits for a condition, and then calls take.
func (w *Windows) until(ctx context.Context, doing string, done func() bool, take func() error) error {
	e := w.endpoint
	if err := e.lock(); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	defer e.unlock()
	x := e.waiter()
	defer e.recycle(x)
	x.holds = done
	if err := e.await(ctx, x, doing); err != nil {
		return err
	}
	if err := take(); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}
