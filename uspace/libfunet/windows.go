package main

// This file opens windows, and takes notifications.

// #include "gate.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
	"github.com/funet/funet/uspace/ultra"
)

// windows is the one-sided part of an endpoint.
type windows struct {
	*funet.Windows                        // nil: not asked for
	rma            *rma.Endpoint          // for conditions, which have the lock
	exposed        map[uint64]*rma.Window // by key; used within Do
	mu             sync.Mutex             // of what follows
	own            [][]byte               // memory that funet_allocate has mapped
	paths          *ultra.Paths
	spare          map[int][][]byte // memory of paths that were closed, by length
}

// entries is the least size of the notification ring, which completions go into, too.
const entries = 256

// sizes returns how much remote memory an endpoint takes for a number of windows.
func sizes(windows, notifications uint32) (s funi.RemoteSizes, err error) {
	if windows == 0 {
		return s, nil
	}
	up := func(n uint32) int { return 1 << bits.Len32(max(n, 1)-1) }
	s = funi.RemoteSizes{KeySlots: up(windows), Areas: 1, Notifications: max(up(notifications), entries)}
	if err := s.Check(); err != nil {
		return s, fmt.Errorf("%d windows and %d notifications: %w: %w", windows, notifications, errArgument, err)
	}
	return s, nil
}

func (w *windows) open(e *funet.Endpoint) (err error) {
	if w.Windows, err = e.Windows(); err != nil {
		return err
	}
	w.exposed, w.spare, w.paths = map[uint64]*rma.Window{}, map[int][][]byte{}, w.Paths()
	return w.Do(context.Background(), func(r *rma.Endpoint) error { w.rma = r; return nil })
}

// release unmaps what was allocated, after the endpoint's end.
func (w *windows) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.own {
		_ = unix.Munmap(b)
	}
	w.own = nil
}

// onWindows is on for an endpoint that has windows.
func onWindows(handle uintptr, f func(*endpoint) error) C.int {
	return on(handle, func(e *endpoint) error {
		if e.windows.Windows == nil {
			return fmt.Errorf("%w (funet_options.windows)", rma.ErrNone)
		}
		return f(e)
	})
}

// withWindows is with for an endpoint that has windows.
func withWindows(handle uintptr, milliseconds int64, cancel uintptr,
	f func(context.Context, *endpoint) error) C.int {
	return onWindows(handle, func(e *endpoint) error { return e.waiting(milliseconds, cancel, f) })
}

//export libfunet_allocate
func libfunet_allocate(handle, bytes, to uintptr) C.int {
	return onWindows(handle, func(e *endpoint) error {
		if err := check(to, 8, 8); err != nil {
			return err
		}
		b, err := e.windows.allocate(bytes)
		if err != nil {
			return err
		}
		return store(to, uintptr(unsafe.Pointer(unsafe.SliceData(b))))
	})
}

// allocate takes memory that is not of Go's heap: the daemon's, or pages of the process.
func (w *windows) allocate(bytes uintptr) ([]byte, error) {
	const most, page = 1 << 31, 4096
	if bytes == 0 || bytes > most {
		return nil, fmt.Errorf("allocating %d bytes: %w", bytes, errArgument)
	}
	b, err := unix.Mmap(-1, 0, int(bytes+page-1)&^(page-1), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("allocating %d bytes: %w", bytes, err)
	}
	if _, err = w.Share(b); err == nil {
		w.mu.Lock()
		w.own = append(w.own, b)
		w.mu.Unlock()
		return b, nil
	}
	_ = unix.Munmap(b)
	if errors.Is(err, attach.ErrOwnMemory) {
		return w.Alloc(int(bytes))
	}
	return nil, err
}

//export libfunet_share
func libfunet_share(handle, address, bytes uintptr) C.int {
	return onWindows(handle, func(e *endpoint) error {
		err := check(address, bytes, 8)
		if err == nil {
			_, err = e.windows.Share(unsafe.Slice((*byte)(at(address)), bytes))
		}
		return err
	})
}

// window is a struct funet_window.
type window struct {
	address, key                        uint64
	rights, notifications, absent, zero uint32
	counts                              uintptr
}

// target is a struct funet_target.
type target struct {
	key, address uint64
	node, zero   uint32
}

var _ [C.sizeof_struct_funet_window]byte = [unsafe.Sizeof(window{})]byte{}
var _ [C.sizeof_struct_funet_counts]byte = [funi.CountsBytes]byte{}
var _ [C.sizeof_struct_funet_target]byte = [unsafe.Sizeof(target{})]byte{}

// rma returns the target for package rma.
func (t *target) rma() (rma.Target, error) {
	if t.node > 1<<16-1 {
		return rma.Target{}, fmt.Errorf("node %d: %w", t.node, funet.ErrNode)
	}
	return rma.Target{Node: uint16(t.node), Key: rma.Key(t.key), Address: t.address}, nil
}

// targetAt returns the target at an address.
func targetAt(address uintptr) (rma.Target, error) {
	t, err := array[target](address, 1)
	if err != nil {
		return rma.Target{}, fmt.Errorf("a target: %w", err)
	}
	return t[0].rma()
}

//export libfunet_expose
func libfunet_expose(handle, address, bytes, how, to uintptr) C.int {
	return onWindows(handle, func(e *endpoint) error {
		b, err := memory(address, bytes)
		if err == nil {
			err = check(to, unsafe.Sizeof(target{}), 8)
		}
		o := []window{{}}
		if err == nil && how != 0 {
			o, err = array[window](how, 1)
		}
		if err != nil {
			return err
		}
		return e.windows.expose(e, b, o[0], to)
	})
}

// expose opens a window over b, and stores its target.
func (x *windows) expose(e *endpoint, b []byte, o window, to uintptr) error {
	if o.rights > 0xff {
		return fmt.Errorf("rights %#x: %w", o.rights, errArgument)
	}
	var counts []byte
	var err error
	if o.counts != 0 {
		if counts, err = memory(o.counts, funi.CountsBytes); err != nil {
			return err
		}
	}
	return x.Do(context.Background(), func(r *rma.Endpoint) error {
		w, err := r.Expose(b, rma.Options{Address: o.address, Rights: funi.WindowRights(o.rights),
			Notifications: int(o.notifications), Key: rma.Key(o.key), Absent: o.absent != 0, Counts: counts})
		if err != nil {
			return err
		}
		x.exposed[uint64(w.Key)] = w
		return store(to, target{key: uint64(w.Key), address: w.Address, node: uint32(e.Node())})
	})
}

// change calls f with the window of a key.
func change(handle uintptr, key uint64, forget bool, f func(*rma.Endpoint, *rma.Window) error) C.int {
	return onWindows(handle, func(e *endpoint) error {
		return e.windows.Do(context.Background(), func(r *rma.Endpoint) error {
			w := e.windows.exposed[key]
			if w == nil {
				return fmt.Errorf("key %#x: %w", key, rma.ErrWindow)
			}
			err := f(r, w)
			if err == nil && forget {
				delete(e.windows.exposed, key)
			}
			return err
		})
	})
}

//export libfunet_revoke
func libfunet_revoke(handle uintptr, key uint64) C.int {
	return change(handle, key, true, (*rma.Endpoint).Revoke)
}

//export libfunet_suspend
func libfunet_suspend(handle uintptr, key uint64) C.int {
	return change(handle, key, false, (*rma.Endpoint).Suspend)
}

//export libfunet_resume
func libfunet_resume(handle uintptr, key uint64) C.int {
	return change(handle, key, false, (*rma.Endpoint).Resume)
}

//export libfunet_ready
func libfunet_ready(handle, of uintptr, milliseconds int64, cancel uintptr) C.int {
	return withWindows(handle, milliseconds, cancel, func(ctx context.Context, e *endpoint) error {
		t, err := targetAt(of)
		if err != nil {
			return err
		}
		return e.windows.Ready(ctx, t)
	})
}

//export libfunet_await
func libfunet_await(handle, word uintptr, relation uint32, value uint64, milliseconds int64, cancel uintptr) C.int {
	return withWindows(handle, milliseconds, cancel, func(ctx context.Context, e *endpoint) error {
		if err := check(word, 8, 8); err != nil {
			return err
		}
		is, ok := map[uint32]func(v uint64) bool{
			C.FUNET_EQUAL:     func(v uint64) bool { return v == value },
			C.FUNET_DIFFERENT: func(v uint64) bool { return v != value },
			C.FUNET_AT_LEAST:  func(v uint64) bool { return v >= value },
			C.FUNET_AT_MOST:   func(v uint64) bool { return v <= value },
		}[relation]
		if !ok {
			return fmt.Errorf("relation %d: %w", relation, errArgument)
		}
		p := (*atomic.Uint64)(at(word))
		return e.windows.Until(ctx, func() bool { return is(p.Load()) })
	})
}

// notification is a struct funet_notification.
type notification struct {
	tag, address               uint64
	node, window, absent, zero uint32
}

var _ [C.sizeof_struct_funet_notification]byte = [unsafe.Sizeof(notification{})]byte{}

//export libfunet_notified
func libfunet_notified(handle, notifications uintptr, n C.int, milliseconds int64, cancel uintptr) C.int {
	taken := 0
	code := withWindows(handle, milliseconds, cancel, func(ctx context.Context, e *endpoint) error {
		to, err := array[notification](notifications, int(n))
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("no room for notifications: %w", errArgument)
		}
		_, err = e.Poll()
		if err != nil {
			return err
		}
		err = e.Wait(ctx, func() bool {
			var x rma.Notification
			for taken < len(to) && e.windows.rma.Notification(&x) {
				to[taken] = notification{tag: x.Tag, address: x.Address, node: uint32(x.Node), window: uint32(x.Window)}
				if x.Absent {
					to[taken].absent = 1
				}
				taken++
			}
			return taken > 0
		})
		if errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		return err
	})
	if code == 0 || taken > 0 {
		return C.int(taken)
	}
	return code
}
