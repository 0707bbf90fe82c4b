package attach_test

// This file holds the rules of the socket: message boundaries, descriptors and ends.

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/attach"
)

// pair returns both ends of a connection.
func pair(t *testing.T) (client, server *net.UnixConn) {
	t.Helper()
	at := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: attach.Network}
	l, err := net.ListenUnix(attach.Network, at)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.DialUnix(attach.Network, nil, at); err != nil {
		t.Fatal(err)
	}
	if server, err = l.AcceptUnix(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	for _, c := range []*net.UnixConn{client, server} {
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	return client, server
}

// open counts the descriptors of this process.
func open(t *testing.T) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(d)
}

// Rule: a message arrives whole, with its descriptors, which close on exec.
func TestDescriptorsArrive(t *testing.T) {
	client, server := pair(t)
	buffer := make([]byte, attach.MaxMessage)
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for _, n := range []int{0, 1, 4} {
		fds := make([]int, n)
		for i := range fds {
			fds[i] = fd
		}
		want := bytes.Repeat([]byte{byte(n)}, 100+n)
		if err := attach.Send(server, want, fds...); err != nil {
			t.Fatal(err)
		}
		got, gotFDs, err := attach.Receive(client, buffer, 4)
		if err != nil || !bytes.Equal(got, want) || len(gotFDs) != n {
			t.Fatalf("%d descriptors: %d, %d bytes, %v", n, len(gotFDs), len(got), err)
		}
		for _, fd := range gotFDs {
			if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("descriptor %d stays open on exec: %v", fd, err)
			}
		}
		attach.CloseDescriptors(gotFDs)
	}
}

// Rule: a daemon takes no descriptors: those that come are closed; a client takes no more
// than it expects.
func TestDescriptorsAreRefused(t *testing.T) {
	client, server := pair(t)
	buffer := make([]byte, attach.MaxMessage)
	many := make([]int, 200)
	for i := range many {
		many[i] = 0
	}
	before := open(t)
	for range 20 {
		if err := attach.Send(client, samples()[0], many...); err != nil {
			t.Fatal(err)
		}
		b, fds, err := attach.Receive(server, buffer, 0)
		if err != nil || len(fds) != 0 || !bytes.Equal(b, samples()[0]) {
			t.Fatalf("%d bytes, %d descriptors, %v", len(b), len(fds), err)
		}
		if err := attach.Send(server, samples()[1], many...); err != nil {
			t.Fatal(err)
		}
		if _, _, err := attach.Receive(client, buffer, attach.AttachDescriptors); !errors.Is(err, attach.ErrMalformed) {
			t.Fatalf("200 descriptors where 4 belong: %v", err)
		}
	}
	if after := open(t); after != before {
		t.Errorf("%d descriptors are left over", after-before)
	}
}

// Rule: a process at its limit of open files hears that, and not that the message is malformed; no
// descriptor is left over.
func TestNoRoomForDescriptors(t *testing.T) {
	client, server := pair(t)
	if err := attach.Send(server, samples()[1], 0, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	before := open(t)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	least := limit
	least.Cur = 0 // those that are open stay
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &least, nil); err != nil {
		t.Fatal(err)
	}
	_, _, err := attach.Receive(client, make([]byte, attach.MaxMessage), attach.AttachDescriptors)
	if e := unix.Prlimit(0, unix.RLIMIT_NOFILE, &limit, nil); e != nil {
		t.Fatal(e)
	}
	if !errors.Is(err, unix.EMFILE) || errors.Is(err, attach.ErrMalformed) ||
		!strings.Contains(err.Error(), "ulimit -n") {
		t.Error(err)
	}
	if after := open(t); after != before {
		t.Errorf("%d descriptors are left over", after-before)
	}
}

// Rule: a message longer than MaxMessage is refused, and the next one is whole again; the
// end of the connection is io.EOF.
func TestMessageBoundaries(t *testing.T) {
	client, server := pair(t)
	buffer := make([]byte, attach.MaxMessage)
	for _, n := range []int{attach.MaxMessage, attach.MaxMessage + 1, 1} {
		if err := attach.Send(client, make([]byte, n)); err != nil {
			t.Fatal(err)
		}
		b, _, err := attach.Receive(server, buffer, 0)
		if n > attach.MaxMessage && !errors.Is(err, attach.ErrMalformed) ||
			n <= attach.MaxMessage && (err != nil || len(b) != n) {
			t.Errorf("a message of %d bytes: %d, %v", n, len(b), err)
		}
	}
	client.Close()
	if _, _, err := attach.Receive(server, buffer, 0); err != io.EOF {
		t.Errorf("the end of the connection: %v", err)
	}
	if err := attach.Send(server, samples()[0]); !errors.Is(err, unix.EPIPE) {
		t.Errorf("sending to nobody: %v", err)
	}
}
