package lead

// This file tests a group with a keeper, on a card that is an eventfd.

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// eventCard is a card to which a number of things have come.
type eventCard struct {
	fd    int
	came  atomic.Int64
	start time.Time
}

func (c *eventCard) Now() int64       { return int64(time.Since(c.start)) }
func (c *eventCard) Interrupt()       {}
func (c *eventCard) Fd() (int, error) { return c.fd, nil }
func (c *eventCard) Arm() bool        { return c.came.Load() == 0 }

// Disarm makes the descriptor unreadable.
func (c *eventCard) Disarm() { _, _ = unix.Read(c.fd, make([]byte, 8)) }

// send has something come.
func (c *eventCard) send() {
	c.came.Add(1)
	_, _ = unix.Write(c.fd, []byte{1, 0, 0, 0, 0, 0, 0, 0})
}

// newKept returns a group with a keeper, on a card to which nothing comes.
func newKept(t *testing.T, poll func(*eventCard) bool) (*Group, *eventCard) {
	t.Helper()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	c := &eventCard{fd: fd, start: time.Now()}
	g := New(c)
	w := Work{Poll: func() bool { return poll(c) }, Pass: func(int64) {}, Idle: func() bool { return true }}
	if err := g.Keep(w); err != nil {
		t.Fatal(err)
	}
	return g, c
}

// Rule: a goroutine that waits looks again after RouseAll, and after the end of a leader while it
// claims to lead, also if it was about to park and somebody else had the lock (Await).
func TestCallsBeforeParking(t *testing.T) {
	g, _ := newKept(t, func(*eventCard) bool { return false })
	defer func() {
		g.Lock()
		g.End()
		g.Dismiss()
	}()
	for round := range 2000 {
		waits, over := make(chan bool), make(chan bool)
		done := false
		go func() {
			w := g.NewWaiter()
			g.Lock()
			close(waits)
			if round%2 == 0 {
				for !done {
					g.Await(&w, nil)
				}
			} else {
				g.Claim(func() bool { return false }, func() { g.Await(&w, nil) })
			}
			g.Unlock()
			close(over)
		}()
		if round%2 == 1 { // this one leads, until the other claims to
			g.Lock()
			g.Lead()
			g.Unlock()
		}
		<-waits
		g.Lock()
		if done = true; round%2 == 0 {
			g.RouseAll()
		} else {
			g.Leave()
		}
		g.Unlock()
		select {
		case <-over:
		case <-time.After(time.Minute):
			t.Fatalf("round %d: it waits on", round)
		}
	}
}

// Rule: what comes is handled while no goroutine waits. A goroutine that waits sees it, whether it
// leads or has been parked for long. While nothing comes nobody polls.
func TestKeeper(t *testing.T) {
	var w Waiter
	var handled atomic.Int64
	handles := make(chan struct{}, 64) // one for each thing that was handled
	g, c := newKept(t, func(c *eventCard) bool {
		if c.came.Load() == 0 {
			return false
		}
		c.came.Add(-1)
		handled.Add(1)
		handles <- struct{}{}
		w.Rouse()
		return true
	})
	g.Lock()
	w = g.NewWaiter()
	g.Unlock()
	asleep := func() bool {
		g.Lock()
		defer g.mu.Unlock() // Unlock would have the keeper take over
		return g.keeper.resting
	}
	for round := int64(1); round <= 40; round++ {
		for round%10 == 0 && !asleep() {
			runtime.Gosched()
		}
		c.send()
		if round%2 == 0 {
			<-handles // by the keeper
			continue
		}
		g.Lock()
		for handled.Load() < round {
			g.Await(&w, nil)
		}
		g.Unlock()
		<-handles
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		other := g.NewWaiter()
		g.Lock()
		defer g.Unlock()
		for !g.ended {
			g.Await(&other, nil)
		}
	}()
	g.Lock()
	g.End()
	g.Dismiss()
	<-ended
}
