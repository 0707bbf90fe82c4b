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

// Rule: what comes is handled while no goroutine waits. A goroutine that waits sees it, whether it
// leads or has been parked for long. While nothing comes nobody polls.
func TestKeeper(t *testing.T) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	c := &eventCard{fd: fd, start: time.Now()}
	g := New(c)
	w := g.NewWaiter()
	var handled atomic.Int64
	handles := make(chan struct{}, 64) // one for each thing that was handled
	poll := func() bool {
		if c.came.Load() == 0 {
			return false
		}
		c.came.Add(-1)
		handled.Add(1)
		handles <- struct{}{}
		w.Rouse()
		return true
	}
	if err := g.Keep(Work{Poll: poll, Pass: func(int64) {}, Idle: func() bool { return true }}); err != nil {
		t.Fatal(err)
	}
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
