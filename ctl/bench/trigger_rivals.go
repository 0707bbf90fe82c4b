package bench

// This file has the rivals of triggers: rings in memory that all threads write, and system calls.

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/wait"
)

// triggerRivals are the ways to issue beside which triggers are measured.
var triggerRivals = []struct {
	name string
	run  func(ctx context.Context, threads, operations int) (issuing, error)
}{
	{"mutex ring", mutexRing}, {"compare-and-swap ring", swapRing}, {"eventfd write", eventfdWrite}, {"ioctl", ioctl},
}

// issueRing is how many entries the rings have: as many as the conditional store buffer.
const issueRing = 4096

// entryOf composes what a thread enqueues: a process's number, a command and a count.
func entryOf(thread int) uint64 { return uint64(thread)<<16 | 1 }

// mutexRing measures a ring whose producers and consumer share a mutex.
func mutexRing(ctx context.Context, threads, operations int) (issuing, error) {
	var (
		lock       sync.Mutex
		entries    [issueRing]uint64
		head, tail uint64
		stop       atomic.Bool
		taken, put atomic.Uint64
	)
	m, err := measureThreads(ctx, threads, operations, func() {
		for !stop.Load() || taken.Load() != put.Load() {
			lock.Lock()
			for ; tail != head; tail++ {
				taken.Add(entries[tail%issueRing] & 1)
			}
			lock.Unlock()
		}
	}, func() { stop.Store(true) }, func(thread int) func() error {
		return func() error {
			for {
				lock.Lock()
				if room := head-tail < issueRing; room {
					entries[head%issueRing] = entryOf(thread)
					head++
					lock.Unlock()
					put.Add(1)
					return nil
				}
				lock.Unlock()
				wait.YieldProcessor()
			}
		}
	})
	return m, enqueued(err, taken.Load(), put.Load())
}

// swapRing measures a bounded ring of Vyukov's, in which a producer takes its place by a
// compare-and-swap, and a place's turn says whose it is.
func swapRing(ctx context.Context, threads, operations int) (issuing, error) {
	type place struct {
		turn  atomic.Uint64
		entry uint64
		_     [6]uint64
	}
	var (
		places     [issueRing]place
		head       atomic.Uint64
		stop       atomic.Bool
		taken, put atomic.Uint64
	)
	for i := range places {
		places[i].turn.Store(uint64(i))
	}
	m, err := measureThreads(ctx, threads, operations, func() {
		for tail := uint64(0); !stop.Load() || taken.Load() != put.Load(); {
			p := &places[tail%issueRing]
			if p.turn.Load() == tail+1 {
				taken.Add(p.entry & 1)
				p.turn.Store(tail + issueRing)
				tail++
			}
		}
	}, func() { stop.Store(true) }, func(thread int) func() error {
		return func() error {
			for {
				h := head.Load()
				p := &places[h%issueRing]
				switch turn := p.turn.Load(); {
				case turn == h && head.CompareAndSwap(h, h+1):
					p.entry = entryOf(thread)
					p.turn.Store(h + 1)
					put.Add(1)
					return nil
				case turn < h: // full
					wait.YieldProcessor()
				}
			}
		}
	})
	return m, enqueued(err, taken.Load(), put.Load())
}

func enqueued(err error, taken, put uint64) error {
	if err == nil && taken != put {
		return fmt.Errorf("%d entries were put into the ring, and %d taken", put, taken)
	}
	return err
}

// eventfdWrite measures writes to an eventfd that all threads share.
func eventfdWrite(ctx context.Context, threads, operations int) (issuing, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return issuing{}, fmt.Errorf("making an eventfd: %w", err)
	}
	defer unix.Close(fd)
	return kernelCalls(ctx, threads, operations, func() error {
		one := [8]byte{1}
		_, err := unix.Write(fd, one[:])
		return err
	})
}

// ioctl measures a call that asks a driver something and gets an answer: how many bytes a pipe has
// (TIOCINQ).
func ioctl(ctx context.Context, threads, operations int) (issuing, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return issuing{}, fmt.Errorf("making a pipe: %w", err)
	}
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	return kernelCalls(ctx, threads, operations, func() error {
		_, err := unix.IoctlGetInt(p[0], unix.TIOCINQ)
		return err
	})
}

// kernelCalls measures system calls, beside an idle CPU 0.
func kernelCalls(ctx context.Context, threads, operations int, call func() error) (issuing, error) {
	stop := make(chan struct{})
	return measureThreads(ctx, threads, operations, func() { <-stop }, func() { close(stop) },
		func(int) func() error { return call })
}
