package funet_test

// This file is the clock by which tests tell how soon something ends. It counts the time that the
// machine gave to one thread of this process which wants all of it. On an idle machine that is as
// much as the wall clock's. It is less where others run, which hold up everything here as well.

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// turn is how long the clock keeps its processor from other goroutines.
const turn = int64(time.Millisecond)

type clock struct {
	ns   atomic.Int64
	over atomic.Bool
}

// newClock returns a clock that runs until the test ends.
func newClock(t testing.TB) *clock {
	c := new(clock)
	ended := make(chan error, 1)
	go func() { ended <- c.run() }()
	t.Cleanup(func() {
		c.over.Store(true)
		if err := await(t, "the clock ends", ended); err != nil {
			t.Error(err)
		}
	})
	return c
}

func (c *clock) run() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var from, now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &from); err != nil {
		return err
	}
	for since := from.Nano(); !c.over.Load(); {
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
			return err
		}
		c.ns.Store(now.Nano() - from.Nano())
		if now.Nano()-since >= turn {
			since = now.Nano()
			runtime.Gosched()
		}
	}
	return nil
}

// now returns the time since the clock was made.
func (c *clock) now() time.Duration { return time.Duration(c.ns.Load()) }

// Rule: the clock goes on as long as somebody waits for it, and is never fast.
func TestClock(t *testing.T) {
	began := time.Now()
	c := newClock(t)
	for c.now() < 20*time.Millisecond {
		runtime.Gosched()
	}
	if said, wall := c.now(), time.Since(began); said > wall {
		t.Errorf("it says %v after %v", said, wall)
	}
}
