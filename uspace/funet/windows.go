package funet

// This file is one-sided operations on windows (package rma) by the same endpoint, and so beside
// messages, calls and what all nodes do together.
//
// Whoever leads (wait.go) also takes completions and notifications, in each turn of the card
// (drive); a goroutine that waits for an operation is parked as one that waits for a call is. What
// comes back is read by package am, which passes on what is of package rma.

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
)

// Windows is the endpoint's windows, and its operations on those of others. All methods are for any
// goroutine, but not for handlers (ErrHandler).
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

// Windows returns the endpoint's windows, always the same. Errors are rma.ErrNone where
// Options.Remote is zero, and why the endpoint is of no more use.
func (e *Endpoint) Windows() (*Windows, error) {
	if err := e.lock(); err != nil {
		return nil, fmt.Errorf("opening windows: %w", err)
	}
	defer e.unlock()
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

// Do gives f the operations, with the endpoint's lock, as AM does: what f waits for all others wait
// for, too, while messages are handled. So f issues operations, opens windows and takes
// notifications, and Wait, Quiet and Until wait. It must not call the endpoint (ErrHandler), and
// returns what f does. When the context ends what f waits for ends with its cause.
func (w *Windows) Do(ctx context.Context, f func(r *rma.Endpoint) error) error {
	e := w.endpoint
	if err := e.lock(); err != nil {
		return fmt.Errorf("operating on windows: %w", err)
	}
	w.ctx = ctx
	stop := context.AfterFunc(ctx, e.carrier.Interrupt)
	defer func() {
		stop()
		e.runner.Store(0)
		e.passOn()
		e.unlock()
	}()
	e.runner.Store(goroutine())
	return f(w.rma)
}

// drive lets the card run within Do, and handles messages.
func (w *Windows) drive() error {
	if w.endpoint.poll(); w.ctx.Err() != nil {
		return cancelled(w.ctx, "operating on windows")
	}
	return w.endpoint.Err()
}

// Alloc returns memory as Endpoint.Alloc does, for windows, for what is put from it and for what is
// got into it (funi.Keyed and Source). Transfers do not reach it, and it is the program's until
// Close.
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

// Wait waits until an operation is complete, and returns what became of it; its error is the
// Result's, too. Errors besides are rma.ErrID, those of Endpoint.Wait, and that the context ended:
// then the operation is still under way.
func (w *Windows) Wait(ctx context.Context, id rma.ID) (r rma.Result, err error) {
	err = w.until(ctx, fmt.Sprintf("waiting for operation %d", id), func() bool {
		return w.rma.Done(id)
	}, func() (err error) {
		r, err = w.rma.Wait(id)
		return err
	})
	return r, err
}

// Quiet waits until all operations of all goroutines are complete, and returns the first failure of
// a silent one since the last time. Other errors are those of Wait.
func (w *Windows) Quiet(ctx context.Context) error {
	return w.until(ctx, "waiting for all operations", func() bool { return w.rma.Pending() == 0 }, func() error {
		return w.rma.Quiet()
	})
}

// Until waits until done returns true, which looks at memory of this process that others write. It
// is called as a condition of Endpoint.Wait is, and after each write of others.
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

// Ready waits until the window of a target is there, as rma.Endpoint.Ready does. Errors are that
// the node is gone, and those of Wait.
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

// until waits for a condition, and then takes what it is for.
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
