package funet_test

// This file tests a library that answers empty polls itself (watch.go).

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/funi"
)

// watcher polls as libfunet does.
type watcher struct {
	*funet.Endpoint
	watch             funi.Watch
	skipped, answered int
	recalled          atomic.Int32
	before            int32 // recalled, before Close
}

// mostSkipped is how many polls pass without the card.
const mostSkipped = 127

func (w *watcher) poll() error {
	if w.skipped < mostSkipped && w.watch.Still() {
		w.skipped++
		w.answered++
		return nil
	}
	w.Skipped(w.skipped)
	w.skipped = 0
	n, err := w.Poll()
	if n == 0 && err == nil {
		w.Watch(&w.watch, func() { w.recalled.Add(1) })
	} else {
		w.watch.Begin()
	}
	return err
}

// A number goes back and forth, also in long messages, between nodes that look at words alone
// between polls: nothing is missed, most polls are answered so, and Close takes the words back.
func TestWatch(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		var watchers [2]watcher
		b.both(func(ctx context.Context, e *funet.Endpoint) error {
			const rounds, long = 400, 5000
			w := &watchers[e.Node()]
			w.Endpoint = e
			got := uint64(0)
			err := e.Handle(1, func(m *funet.Message) error { got = binary.LittleEndian.Uint64(m.Bytes); return nil })
			if err == nil {
				err = e.Barrier(ctx)
			}
			for i := uint64(1); i <= rounds && err == nil; i++ {
				if i%2 == uint64(e.Node()) {
					b := make([]byte, 8+long*int(i%7/6))
					binary.LittleEndian.PutUint64(b, i)
					err = e.Send(ctx, 1-e.Node(), 1, b)
					continue
				}
				for got != i && err == nil && ctx.Err() == nil {
					err = w.poll()
				}
			}
			if err == nil {
				err = e.Barrier(ctx)
			}
			if err == nil {
				err = w.notices(ctx, &got)
			}
			for n := 0; n < 100*mostSkipped && err == nil; n++ { // whatever Barrier ended with
				err = w.poll()
			}
			w.before = w.recalled.Load()
			return err
		})
		for i := range watchers {
			if w := &watchers[i]; w.answered == 0 || w.recalled.Load() == w.before {
				t.Errorf("node %d: %d polls were answered, and the words were taken back %d times, %d before Close", i,
					w.answered, w.recalled.Load(), w.before)
			}
		}
	})
}

// notices has node 0 look at the words alone until the answer of node 1 changes them.
func (w *watcher) notices(ctx context.Context, got *uint64) error {
	const asks, answers = 1 << 20, 1 << 21
	if w.Node() == 1 {
		if err := w.Wait(ctx, func() bool { return *got == asks }); err != nil {
			return err
		}
		return w.Send(ctx, 0, 1, binary.LittleEndian.AppendUint64(nil, answers))
	}
	for w.skipped = mostSkipped; !w.watch.Still() && ctx.Err() == nil; w.skipped = mostSkipped {
		if err := w.poll(); err != nil {
			return err
		}
	}
	if err := w.Send(ctx, 1, 1, binary.LittleEndian.AppendUint64(nil, asks)); err != nil {
		return err
	}
	for w.watch.Still() && ctx.Err() == nil {
		runtime.Gosched()
	}
	return w.Wait(ctx, func() bool { return *got == answers })
}

// Sends and receives that are begun end in any order; one that is given up ends with an error, and
// the others go on.
func TestBegun(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		b.both(func(ctx context.Context, e *funet.Endpoint) error {
			const several = 20
			other, size := 1-e.Node(), func(i int) int { return i * i * i * 9 }
			var sends, receives [several]*funet.Pending
			var in [several][]byte
			var err error
			for i := range receives {
				in[i] = make([]byte, size(i))
				if receives[i], err = e.StartRecv(ctx, other, uint32(i%3), in[i]); err != nil {
					return err
				}
			}
			none, err := e.StartRecv(ctx, funet.AnySource, 9, nil)
			if err != nil {
				return err
			}
			for i := range sends {
				out := make([]byte, size(i))
				for k := range out {
					out[k] = byte(i + k)
				}
				if sends[i], err = e.StartSendTag(ctx, other, uint32(i%3), out); err != nil {
					return err
				}
			}
			for i := several - 1; i >= 0; i-- {
				if _, err := receives[i].Wait(ctx); err != nil {
					return err
				}
				if r := receives[i].Received(); r.Bytes != size(i) || r.Source != other || r.Tag != uint32(i%3) {
					return fmt.Errorf("receive %d got %+v", i, r)
				}
				for k, v := range in[i] {
					if v != byte(i+k) {
						return fmt.Errorf("receive %d: byte %d is %d", i, k, v)
					}
				}
				if _, err := sends[i].Wait(ctx); err != nil {
					return err
				}
			}
			none.Cancel()
			if _, err := none.Wait(ctx); err == nil {
				return fmt.Errorf("a receive that was given up has ended without an error")
			}
			return e.Barrier(ctx)
		})
	})
}
