package daemon

// This file ends a connection together with the process that made it. A forked child of the process
// has the same socket. It would hold the process's job, context or port while it lives.

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/attach"
)

// endWith makes the connection end with its process, from the first request on that gives the
// process something to hold. The connection's goroutine calls it.
func (c *connection) endWith(k attach.Kind) error {
	if c.process != nil || !slices.Contains([]attach.Kind{attach.KindAttach, attach.KindArrive, attach.KindJob,
		attach.KindPort, attach.KindResume, attach.KindRow}, k) {
		return nil
	}
	raw, err := c.conn.SyscallConn()
	if err != nil {
		return err
	}
	var fd int
	if e := raw.Control(func(socket uintptr) { fd, err = processOf(int(socket), int(c.peer.pid)) }); e != nil {
		return e
	}
	switch {
	case errors.Is(err, unix.ESRCH):
		c.end()
		return fmt.Errorf("%w: it has ended, and another has its socket", errGone)
	case err != nil:
		return fmt.Errorf("following the process that has connected: %w", err)
	}
	c.process = os.NewFile(uintptr(fd), "pidfd")
	ends, err := c.process.SyscallConn()
	if err != nil {
		return err
	}
	go func() {
		if ends.Read(hasEnded) == nil { // else the connection has ended first, and closed it
			c.end()
		}
	}()
	return nil
}

// processOf returns a pidfd of the process that connected. Before SO_PEERPIDFD (Linux 6.5) the
// process's number may by now belong to another process. The connection then ends with that one:
// too late, but never too early. The error unix.ESRCH says that the process has ended.
func processOf(socket, pid int) (fd int, err error) {
	fd, err = unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	switch {
	case errors.Is(err, unix.ENOPROTOOPT):
		fd, err = unix.PidfdOpen(pid, 0)
	case errors.Is(err, unix.EINVAL): // older kernels, of a process that was waited for
		err = unix.ESRCH
	}
	if err == nil {
		err = unix.SetNonblock(fd, true) // the runtime's poller waits, and no thread
	}
	return fd, err
}

func hasEnded(fd uintptr) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return err == nil && n > 0
}
