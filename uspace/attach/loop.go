package attach

// This file lets a client run in an event loop: with a descriptor for epoll(7) or Go's runtime,
// instead of a sleep in Drive.

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Fd returns a descriptor for poll(2) or an epoll instance. While Arm is in force, it is readable
// when the card has done something for the process, the context or the daemon is gone, or Interrupt
// was called. It must not be read. It is the client's until Close.
func (c *Client) Fd() (int, error) {
	if c.loop >= 0 {
		return c.loop, nil
	}
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err == nil {
		for _, f := range c.fds {
			err = errors.Join(err, c.follow(fd, f))
		}
		if err != nil {
			_ = unix.Close(fd)
		}
	}
	if err != nil {
		return -1, fmt.Errorf("making a descriptor for event loops: %w", err)
	}
	c.loop = fd
	return fd, nil
}

// follow adds a descriptor to an epoll instance.
func (c *Client) follow(loop int, f unix.PollFd) error {
	e := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP, Fd: f.Fd}
	if f.Fd == int32(c.fd) {
		e.Events = unix.EPOLLRDHUP // an answer is for who asked
	}
	return unix.EpollCtl(loop, unix.EPOLL_CTL_ADD, int(f.Fd), &e)
}

// Arm readies the descriptor of Fd, and returns true if the program may wait for it. It returns
// false if something has happened since the last Arm, or the context is gone: then look into the
// queues, and try again. The next call of Drive, Wait or Disarm takes Arm back.
//
//	for {
//		drive, and handle what has come, until nothing comes
//		if c.Arm() {
//			wait until the descriptor is readable
//			c.Disarm()
//		}
//	}
//
// Arm belongs to the client's goroutine, as Drive does; the wait does not.
func (c *Client) Arm() bool {
	if c.err != nil || !c.alarm.Arm() {
		return false
	}
	c.page.Arm()
	c.wait.Found() // who waits here does not wait in Drive
	p := c.page.Published()
	c.look(p)
	if p != c.armed || c.err != nil || c.iface.Waiting() {
		c.armed = p
		c.Disarm()
		return false
	}
	return true
}

// Disarm takes Arm back. It belongs to the client's goroutine.
func (c *Client) Disarm() {
	if c.page == nil {
		return
	}
	c.page.Disarm()
	c.alarm.Disarm()
	c.sleep(0) // what has woken us is read, and the end of the daemon seen
	c.listen()
	c.look(c.page.Published())
}
