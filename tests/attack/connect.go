package attack

// This file opens and closes connections as fast as the kernel can, as a user without a group. The
// second attack holds as many connections as a user may have, so the daemon refuses all further
// ones. With those it passes descriptors that are slow to close: TCP sockets with SO_LINGER whose
// bytes are never read. The last close of such a socket blocks for a minute. From Linux 6.16 on,
// the daemon has the kernel refuse descriptors.

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/attach"
)

func connections() Attack {
	return Attack{
		Name: "connections", Does: "connecting and closing, without a group",
		round: (*player).connectAndClose,
	}
}

// connectAndClose connects once, and closes the connection.
func (p *player) connectAndClose() (made int) {
	fd, err := p.connect()
	if err != nil {
		return 0
	}
	_ = unix.Close(fd)
	return 1
}

// connect opens a connection to the daemon.
func (p *player) connect() (fd int, err error) {
	if fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0); err != nil {
		return -1, err
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: p.c.Socket}); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

const (
	// heldConnections is more than the number of connections that the default rule allows a user on
	// a host.
	heldConnections = 300
	// lingering is the number of lingering sockets at a time. lingerTime is how long a close of one
	// blocks, in seconds.
	lingering  = 400
	lingerTime = 60
)

func lingeringConnections() Attack {
	var l *lingerer
	return Attack{
		Name: "connections_linger",
		Does: "the same with all connections taken, and sockets passed that are slow to close",
		begin: func(p *player) (err error) {
			for range heldConnections {
				if _, err := p.connect(); err != nil { // kept until the process ends
					return fmt.Errorf("connecting: %w", err)
				}
			}
			l, err = newLingerer()
			return err
		},
		round: func(p *player) int { return l.connectAndPass(p) },
	}
}

// lingerer makes sockets whose close blocks.
type lingerer struct {
	listener int
	address  unix.Sockaddr
	socket   int // the next to pass; -1: none yet
	// ends are the other ends of the sockets made: a socket lingers while its other end is open.
	ends    []int
	message []byte
}

// newLingerer opens the listener for the other ends, on loopback.
func newLingerer() (l *lingerer, err error) {
	l = &lingerer{socket: -1}
	if l.message, err = attach.EncodeBody(attach.KindInfo, nil); err != nil {
		return nil, err
	}
	if l.listener, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, err
	}
	err = errors.Join(unix.SetsockoptInt(l.listener, unix.SOL_SOCKET, unix.SO_RCVBUF, 4096),
		unix.Bind(l.listener, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(l.listener, 16))
	if err == nil {
		l.address, err = unix.Getsockname(l.listener)
	}
	return l, err
}

// make makes a socket with bytes that are never read.
func (l *lingerer) make() (err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	end := -1
	err = unix.Connect(fd, l.address)
	if err == nil {
		end, _, err = unix.Accept(l.listener)
	}
	if err != nil {
		_ = unix.Close(fd)
		return err
	}
	err = unix.SetNonblock(fd, true)
	for more := [64 << 10]byte{}; err == nil; {
		if _, e := unix.Write(fd, more[:]); e != nil {
			break // full
		}
	}
	// a socket that does not block does not linger
	err = errors.Join(err, unix.SetNonblock(fd, false),
		unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: lingerTime}))
	l.socket, l.ends = fd, append(l.ends, end)
	if len(l.ends) > lingering {
		_ = unix.Close(l.ends[0])
		l.ends = l.ends[1:]
	}
	return err
}

// connectAndPass connects, sends a message, and closes. It passes a socket if the kernel allows it.
func (l *lingerer) connectAndPass(p *player) (made int) {
	if l.socket < 0 && l.make() != nil {
		return 0
	}
	fd, err := p.connect()
	if err != nil {
		return 0
	}
	if unix.Sendmsg(fd, l.message, unix.UnixRights(l.socket), nil, unix.MSG_DONTWAIT) == nil {
		// The daemon has the last one now.
		_ = unix.SetsockoptLinger(l.socket, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: lingerTime})
		_ = unix.Close(l.socket)
		l.socket = -1
	} else {
		_ = unix.Sendto(fd, l.message, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
	}
	_ = unix.Close(fd)
	return 1
}
