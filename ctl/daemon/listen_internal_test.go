package daemon

// This file tests the socket before anybody accepts.

import (
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Rule (backlog): the kernel keeps a bounded number of connections that are to be accepted, and
// refuses or has wait whoever comes next (unix(7)); there is room again as soon as one is taken.
func TestBacklog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	l, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	connect := func() error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		return unix.Connect(fd, &unix.SockaddrUnix{Name: path})
	}
	for range 2 {
		n := 0
		for ; n <= 2*backlog; n++ {
			if err := connect(); err != nil {
				if !errors.Is(err, unix.EAGAIN) {
					t.Fatal(err)
				}
				break
			}
		}
		if n < backlog || n > backlog+1 { // Linux takes one more
			t.Fatalf("%d connections wait, not %d", n, backlog)
		}
		for range n {
			c, err := l.socket.Accept()
			if err != nil {
				t.Fatal(err)
			}
			c.Close()
		}
	}
}

// Rule (listen): the socket of a program that serves it without a lock is not taken, also while
// that program's backlog is full.
func TestBusySocketIsNotTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	at := &unix.SockaddrUnix{Name: path}
	socket := func() int {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	server := socket()
	if err := errors.Join(unix.Bind(server, at), unix.Listen(server, 1)); err != nil {
		t.Fatal(err)
	}
	for i := 0; !errors.Is(unix.Connect(socket(), at), unix.EAGAIN); i++ {
		if i == 10 {
			t.Fatal("the backlog does not become full")
		}
	}
	if l, err := listen(path); !errors.Is(err, ErrSocket) {
		t.Errorf("%v, %v", l, err)
	}
	if err := unix.Access(path, unix.F_OK); err != nil {
		t.Errorf("the socket: %v", err)
	}
}
