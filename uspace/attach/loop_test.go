package attach_test

// This file tests a client that sleeps outside Drive, in an event loop, and sleeps that others end.

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

// sleepUntil sleeps in epoll_wait(2) until a descriptor is readable, or for much longer than
// anything takes.
func sleepUntil(t *testing.T, fd int) bool {
	t.Helper()
	outer, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(outer)
	if err := unix.EpollCtl(outer, unix.EPOLL_CTL_ADD, fd,
		&unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(timeout); ; {
		n, err := unix.EpollWait(outer, make([]unix.EpollEvent, 1), int(time.Until(end).Milliseconds()))
		if err != unix.EINTR {
			return n > 0
		}
	}
}

// attachNode attaches a node that is closed when the test ends.
func attachNode(t *testing.T, d *daemon, node uint16) *attach.Client {
	t.Helper()
	c, err := attach.Open(d.config(node))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(0) })
	return c
}

// descriptor is that of Fd.
func descriptor(t *testing.T, c *attach.Client) int {
	t.Helper()
	fd, err := c.Fd()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := c.Fd(); again != fd || err != nil {
		t.Fatalf("a second call gave %d, %v", again, err)
	}
	return fd
}

// armed arms a client, which may take one more look each time.
func armed(t *testing.T, c *attach.Client) {
	t.Helper()
	for range 1000 {
		if c.Arm() {
			return
		}
		c.Drive()
	}
	t.Fatal("it is never armed, although nothing happens")
}

// Rule: whatever happens between the last look and the sleep, a client that waits as Arm says wakes
// for each message.
func TestEventLoop(t *testing.T) {
	const messages = 2000
	d := start(t, "")
	sender, receiver := attachNode(t, d, 0), attachNode(t, d, 1)
	fd := descriptor(t, receiver)
	got := make(chan struct{})
	go func() {
		defer close(got)
		for n := 0; n < messages; {
			receiver.Drive()
			if receiver.Interface().Receive(funi.Request) != nil {
				receiver.Interface().Release(funi.Request)
				n++
				continue
			}
			if receiver.Arm() {
				if !sleepUntil(t, fd) {
					t.Errorf("it sleeps on after %d messages", n)
					return
				}
				receiver.Disarm()
			}
		}
	}()
	for i := range messages {
		s := sender.Interface().Reserve(funi.Request)
		for ; s == nil; s = sender.Interface().Reserve(funi.Request) {
			sender.Drive()
		}
		s.SetHeader(funi.NewHeader(1, 0, 1))
		sender.Interface().Commit(funi.Request)
		if i%10 == 0 { // the next comes when the receiver sleeps, or is about to
			time.Sleep(time.Duration(i%700) * time.Microsecond)
		}
	}
	await(t, "all messages came", got)
}

// Rule: the end of the daemon, and a call of Interrupt, make an armed descriptor readable;
// afterwards nothing does.
func TestEventLoopEnds(t *testing.T) {
	d := start(t, "")
	c := attachNode(t, d, 0)
	fd := descriptor(t, c)
	armed(t, c)
	interrupted := make(chan struct{})
	go func() {
		c.Interrupt()
		close(interrupted)
	}()
	if !sleepUntil(t, fd) {
		t.Fatal("Interrupt does not wake it")
	}
	// or the card woke us, and what follows is woken by the call
	await(t, "Interrupt returns", interrupted)
	c.Disarm()
	armed(t, c)
	go d.crash()
	for c.Err() == nil {
		if !sleepUntil(t, fd) {
			t.Fatal("the end of the daemon does not wake it")
		}
		c.Disarm()
		if c.Err() == nil {
			c.Arm() // the card woke us
		}
	}
	if !errors.Is(c.Err(), attach.ErrLost) && !errors.Is(c.Err(), funi.ErrDetached) {
		t.Errorf("the error is %v", c.Err())
	}
	if c.Arm() {
		t.Error("it is armed without a daemon")
	}
}

// Rule: of a daemon that ends the kernel closes one descriptor after the other: whichever is first
// says that it is gone.
func TestEndOfTheEvent(t *testing.T) {
	d := start(t, "")
	c := attachNode(t, d, 0)
	fd := descriptor(t, c)
	d.do(func() {
		attach.CloseDescriptors([]int{d.served[0].process})
		d.served[0].process = -1
	})
	for i := 0; i < 1000 && c.Err() == nil; i++ { // the card may wake us, too
		if c.Arm() && !sleepUntil(t, fd) {
			t.Fatal("it sleeps on")
		}
		c.Disarm()
	}
	if !errors.Is(c.Err(), attach.ErrLost) {
		t.Errorf("the error is %v", c.Err())
	}
}

// Rule: a cancelled call ends while the client sleeps, whose sleep alone would last an hour.
func TestCancelEndsASleep(t *testing.T) {
	d := start(t, "")
	c := attachNode(t, d, 0)
	e, err := am.New(c.Interface(), 0, 2, c.Drive, 1)
	if err != nil {
		t.Fatal(err)
	}
	e.Wakes(c.Interrupt)
	c.SleepLong()
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		e.Bind(ctx)
		time.AfterFunc(5*time.Millisecond, cancel)
		if err := e.Wait(func() bool { return false }); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
}

// Rule: a daemon's card takes no memory of the process, and the error says what to do instead.
func TestOwnMemoryIsRefused(t *testing.T) {
	c := attachNode(t, start(t, ""), 0)
	if err := c.Register(funi.Segment{Base: 0x1000, Memory: make([]byte, 4096), Rights: funi.Source}); !errors.Is(err,
		attach.ErrOwnMemory) {
		t.Errorf("it was answered by %v", err)
	}
}
