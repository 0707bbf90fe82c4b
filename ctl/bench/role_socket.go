package bench

// This file is udp_spin and tcp_spin: the kernel's sockets at their best. No poll, scheduler or
// runtime is between the loop and the system call.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/rawxdp"
)

// socketLink is one end. A message is payload long and begins with its number.
type socketLink struct {
	fd            int // -1 until there is a connection
	listener      int // the TCP server's; -1 elsewhere
	tcp           bool
	local, remote unix.SockaddrInet4
	buf           [payload]byte
}

func openUDP(c roleConfig) (link, error) { return openSocket(c, false) }
func openTCP(c roleConfig) (link, error) { return openSocket(c, true) }

func openSocket(c roleConfig, tcp bool) (link, error) {
	l := &socketLink{fd: -1, listener: -1, tcp: tcp}
	var err error
	if l.local, err = sockaddr(c.Local); err != nil {
		return nil, err
	}
	if l.remote, err = sockaddr(c.Remote); err != nil {
		return nil, err
	}
	if err := l.open(c.Server); err != nil {
		return nil, errors.Join(fmt.Errorf("open a socket on %s: %w", c.Local, err), l.Close())
	}
	return l, nil
}

func sockaddr(s string) (sa unix.SockaddrInet4, err error) {
	ap, err := netip.ParseAddrPort(s)
	if err != nil || !ap.Addr().Is4() {
		return sa, fmt.Errorf("%w: address %q", errRole, s)
	}
	return unix.SockaddrInet4{Port: int(ap.Port()), Addr: ap.Addr().As4()}, nil
}

func (l *socketLink) open(server bool) (err error) {
	if !l.tcp {
		if l.fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		if err := unix.Bind(l.fd, &l.local); err != nil {
			return err
		}
		// Connected, so that the kernel looks up no route for every datagram.
		return unix.Connect(l.fd, &l.remote)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if !server {
		l.fd = fd
		// Bounds connect(2), too (socket(7)).
		return unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO,
			&unix.Timeval{Sec: int64(rawxdp.Patience.Seconds())})
	}
	l.listener = fd
	// Bounds accept(2) (socket(7)).
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO,
		&unix.Timeval{Sec: int64(rawxdp.Patience.Seconds())}); err != nil {
		return err
	}
	if err := unix.Bind(fd, &l.local); err != nil {
		return err
	}
	return unix.Listen(fd, 1)
}

func (l *socketLink) connect() (err error) {
	if !l.tcp {
		return nil
	}
	switch {
	case l.listener < 0:
		// The runtime's signals interrupt what has a timeout (signal(7)); called again it goes on
		// waiting.
		if err := uninterrupted(func() error { return unix.Connect(l.fd, &l.remote) }); err != nil {
			return fmt.Errorf("connect to port %d of the server: %w", l.remote.Port, err)
		}
	default:
		err := uninterrupted(func() (err error) {
			l.fd, _, err = unix.Accept4(l.listener, unix.SOCK_CLOEXEC)
			return err
		})
		if err != nil {
			return fmt.Errorf("accept the client: %w", err)
		}
	}
	if err := unix.SetsockoptInt(l.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return fmt.Errorf("set TCP_NODELAY: %w", err)
	}
	return nil
}

// uninterrupted repeats a call that a signal interrupted.
func uninterrupted(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

func (l *socketLink) Close() (err error) {
	for _, fd := range []int{l.fd, l.listener} {
		if fd >= 0 {
			err = errors.Join(err, unix.Close(fd))
		}
	}
	return err
}

func (l *socketLink) Got() rawxdp.Modes { return rawxdp.Modes{} }

func (l *socketLink) Ask(number uint64) error {
	binary.LittleEndian.PutUint64(l.buf[:], number)
	if err := l.send(); err != nil {
		return err
	}
	if err := l.receive(); err != nil {
		return err
	}
	if got := binary.LittleEndian.Uint64(l.buf[:]); got != number {
		return fmt.Errorf("message %d came back instead", got)
	}
	return nil
}

func (l *socketLink) Answer() error {
	if err := l.receive(); err != nil {
		return err
	}
	return l.send()
}

// send sends buf. Only one message is under way, so there is always room for it.
func (l *socketLink) send() error {
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(l.fd), uintptr(unsafe.Pointer(&l.buf[0])), payload,
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	if errno != 0 {
		return fmt.Errorf("send a message: %w", errno)
	}
	if n != payload {
		return fmt.Errorf("sent %d bytes of a message of %d", n, payload)
	}
	return nil
}

// receive spins until buf is full; TCP may bring a message in pieces.
func (l *socketLink) receive() error {
	have := uintptr(0)
	for spin := (rawxdp.Spin{}); ; {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(l.fd), uintptr(unsafe.Pointer(&l.buf[have])),
			payload-have,
			unix.MSG_DONTWAIT, 0, 0)
		switch {
		case errno == unix.EAGAIN || errno == unix.EINTR:
			if !spin.More() {
				return rawxdp.ErrNoMessage
			}
		case errno != 0:
			return fmt.Errorf("receive a message: %w", errno)
		case !l.tcp && n != payload:
			return fmt.Errorf("received %d bytes, want %d", n, payload)
		case n == 0:
			return errors.New("the other end has closed the connection")
		default:
			if have += n; have == payload {
				return nil
			}
		}
	}
}
