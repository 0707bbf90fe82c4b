package attach

// This file has how a client waits, in the stages of package wait. The client looks at its
// registers. Then it yields the processor between looks, as the card may want it. Then it asks the
// card to wake it and sleeps in poll(2). It polls the descriptor that the card writes, the socket,
// and an eventfd of its own.

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/wait"
)

// glance is how many calls of Drive pass between two looks at the registers.
const glance = 16

// The causes that end a sleep.
const (
	onSocket = iota
	onEvent  // of the card
	onAlarm  // our own: Interrupt
)

func endings(sock, event, alarm int) [3]unix.PollFd {
	return [3]unix.PollFd{{Fd: int32(sock), Events: unix.POLLRDHUP}, {Fd: int32(event), Events: unix.POLLIN},
		{Fd: int32(alarm), Events: unix.POLLIN}}
}

// Drive lets the card run. It costs next to nothing while the program finds something in its queues
// between calls, or works between them. When nothing has happened for some time it yields the
// processor, and then sleeps for at most 8 ms at a time. The sleep ends when the card does
// something for the process, or when Interrupt is called. Writes of others count too, if the
// program asks for them (funi.Interface.Watch). When the context is gone Drive returns at once. Err
// then says why, and package am returns funi.ErrDetached.
func (c *Client) Drive() { c.drive(true) }

// Look is Drive without yielding and sleeping, for a program that does both by itself.
func (c *Client) Look() { c.drive(false) }

func (c *Client) drive(rests bool) {
	if c.polls++; c.polls%glance != 0 || c.err != nil {
		return
	}
	if p := c.page.Published(); p != c.seen {
		c.seen = p
		c.wait.Found()
		c.look(p)
		return
	}
	if !rests || !c.wait.Tired() {
		return
	}
	now := c.Now()
	if c.wait.Called(now, c.polls) || !c.over(now) {
		return
	}
	if c.spin {
		wait.YieldProcessor()
		c.sleep(0) // is the daemon still there?
		c.wait.Found()
		c.listen()
		return
	}
	// The program has looked into its queues since they were last seen as they are.
	c.page.Arm()
	if c.page.Published() == c.seen {
		c.sleep(c.wait.Nap())
		c.wait.Slept(c.Now())
		c.listen()
	}
	c.page.Disarm()
}

// over reports whether the time for looking and yielding is over, and yields if it is not.
func (c *Client) over(now int64) bool {
	if c.wait.Next(now) == wait.Sleep {
		return true
	}
	wait.YieldProcessor()
	c.wait.Yielded(now, c.Now())
	return false
}

// sleep waits until the card wakes the process, something comes on the socket, or the given number
// of nanoseconds has passed.
func (c *Client) sleep(nanoseconds int64) {
	if !c.alarm.Sleep(&c.wait, c.fds[:], nanoseconds) {
		c.fds[onSocket].Revents, c.fds[onEvent].Revents = 0, 0
		return
	}
	if c.fds[onEvent].Revents != 0 {
		var count [8]byte
		_, _ = unix.Read(c.process, count[:])
	}
}

// Interrupt ends the present sleep in Drive or Wait, or else the next one, and one that follows
// Arm. A Wait continues unless there is a reason to end. Any goroutine may call it, at any time.
func (c *Client) Interrupt() { c.alarm.Call() }

// Wait blocks until a message or a return waits in the queues, or the queues are halted for the
// program (funi.Interface.Halt). Since the last Wait, other events end it, too: the card has given
// slots of a send queue back or changed CNTL, or others have written memory that is watched
// (funi.Interface.Watch). When ctx ends it returns context.Cause. It may return nil although
// nothing has happened. ErrLost and funi.ErrDetached say that the context of the card is gone.
func (c *Client) Wait(ctx context.Context) error {
	for {
		p := c.page.Published()
		if c.look(p); c.err != nil {
			return fmt.Errorf("waiting: %w", c.err)
		}
		if p != c.told || c.page.Halted() || c.iface != nil && c.iface.Waiting() {
			c.told = p
			c.wait.Found()
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("waiting: %w", context.Cause(ctx))
		}
		if c.wait.Tired() && c.over(c.Now()) {
			c.block(ctx)
		}
	}
}

// longestBlock bounds a sleep in Wait. Every event that Wait waits for also ends the sleep.
const longestBlock = int64(time.Second)

// block sleeps until something has happened since the last Wait, or the context ends.
func (c *Client) block(ctx context.Context) {
	defer c.wakeAtEnd(ctx)()
	c.page.Arm()
	if c.page.Published() == c.told && !c.page.Halted() {
		c.sleep(longestBlock)
		c.listen()
	}
	c.page.Disarm()
}

// wakeAtEnd makes the end of a context end a sleep, until the returned function is called.
func (c *Client) wakeAtEnd(ctx context.Context) (leave func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	stop := context.AfterFunc(ctx, c.Interrupt)
	return func() { stop() }
}

// look notes the end of the context if the card has published it, and moves the context if the
// daemon asks for that.
func (c *Client) look(p funi.Published) {
	if p.Gone && c.err == nil {
		c.lost(fmt.Errorf("the daemon has ended the context: %w", cmp.Or(c.page.Err(), funi.ErrDetached)))
	}
	if p.Leave && c.err == nil && c.iface != nil {
		c.wander()
	}
}

// listen notes the daemon's end if a descriptor has seen it. The kernel may close either end first.
func (c *Client) listen() {
	ended := c.fds[onSocket].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) | c.fds[onEvent].Revents&unix.POLLHUP
	if ended != 0 && !c.page.Gone() {
		c.lost(fmt.Errorf("attached at %s: %w", c.socket, ErrLost))
	}
}

func wake(fd int) {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	if _, err := unix.Write(fd, one[:]); errors.Is(err, unix.EINTR) {
		_, _ = unix.Write(fd, one[:]) // it does not fail otherwise, nor twice in a row
	}
}
