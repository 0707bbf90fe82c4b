package attach

// This file sends and receives messages on the socket, with the descriptors that ride on
// them (unix(7), SCM_RIGHTS).

import (
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/unix"
)

// Network is the socket's type for package net: SOCK_SEQPACKET.
const Network = "unixpacket"

// Send sends one message with descriptors, which stay the caller's. Only a daemon sends
// descriptors. It accepts none, and from Linux 6.16 on has the kernel refuse them (EPERM). Send
// waits for room in the socket until the connection's write deadline. One goroutine at a time may
// call it.
func Send(c *net.UnixConn, message []byte, descriptors ...int) error {
	var rights []byte
	if len(descriptors) > 0 {
		rights = unix.UnixRights(descriptors...)
	}
	if _, _, err := c.WriteMsgUnix(message, rights, nil); err != nil {
		return fmt.Errorf("sending a message of %d bytes: %w", len(message), err)
	}
	return nil
}

// Receive waits for one message, until the connection's read deadline. It returns the message,
// which aliases buffer, of MaxMessage bytes. The descriptors that came with it are the caller's to
// close, and close on exec. At most the given number is accepted. With 0, as in a daemon, the
// kernel closes all descriptors before they are the process's. Otherwise more descriptors are
// ErrMalformed, as is a message longer than MaxMessage. Descriptors that the process has no room
// for wrap EMFILE. The end of the connection is io.EOF. One goroutine at a time may call Receive.
func Receive(c *net.UnixConn, buffer []byte, descriptors int) (message []byte, got []int, err error) {
	var oob []byte
	if descriptors > 0 {
		oob = make([]byte, unix.CmsgSpace(4*descriptors))
	}
	n, oobn, flags, _, err := c.ReadMsgUnix(buffer[:MaxMessage], oob)
	if errors.Is(err, io.EOF) {
		return nil, nil, io.EOF
	}
	if err != nil {
		return nil, nil, fmt.Errorf("receiving a message: %w", err)
	}
	if got, err = rights(oob[:oobn]); err == nil {
		switch {
		case flags&unix.MSG_TRUNC != 0:
			err = fmt.Errorf("receiving a message longer than %d bytes: %w", MaxMessage, ErrMalformed)
		case flags&unix.MSG_CTRUNC != 0 && len(got) < descriptors:
			err =
				fmt.Errorf("receiving descriptors: the kernel left some out: %w; raise the limit (`ulimit -n`), unless a security module denies them", unix.EMFILE)
		case flags&unix.MSG_CTRUNC != 0 && descriptors > 0, len(got) > descriptors:
			err = fmt.Errorf("receiving a message with more than %d descriptors: %w", descriptors, ErrMalformed)
		}
	}
	if err != nil {
		CloseDescriptors(got)
		return nil, nil, err
	}
	return buffer[:n], got, nil
}

// rights returns the descriptors in control messages, even with an error.
func rights(oob []byte) (got []int, err error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("receiving descriptors: %w", err)
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return got, fmt.Errorf("receiving descriptors: %w", err)
		}
		got = append(got, fds...)
	}
	return got, nil
}

// HungUp reports whether the other end of a connection is gone. Any goroutine may call it, also
// while another receives.
func HungUp(c *net.UnixConn) (gone bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Control(func(fd uintptr) { gone = DescriptorHungUp(int(fd)) })
	return gone || err != nil
}

// DescriptorHungUp is HungUp for a connection's descriptor.
func DescriptorHungUp(fd int) bool {
	p := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, _ := unix.Poll(p[:], 0)
	return n > 0 && p[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
}

// CloseDescriptors closes descriptors that Receive returned.
func CloseDescriptors(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}
