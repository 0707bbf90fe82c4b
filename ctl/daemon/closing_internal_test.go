package daemon

import (
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Rule: sockets are buried without a wait for what is in them, be it descriptors whose last
// close takes a minute each (SO_LINGER, with something to send for which there is no room).
func TestBury(t *testing.T) {
	var pair [2]int
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	pair = fds
	for range 3 {
		slow := lingering(t)
		if err := unix.Sendmsg(pair[0], []byte{1}, unix.UnixRights(int(slow.Fd())), nil, 0); err != nil {
			t.Fatal(err)
		}
		slow.Close() // what is sent has it
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		graves := make(chan int, 2)
		graves <- pair[1]
		graves <- pair[0]
		close(graves)
		undertaker(graves)
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("it waits for what its sender wants it to")
	}
	for _, fd := range pair {
		if err := unix.Fstat(fd, &unix.Stat_t{}); err != unix.EBADF {
			t.Errorf("descriptor %d is still there: %v", fd, err)
		}
	}
}

// lingering returns a socket whose last close takes a minute.
func lingering(t *testing.T) *os.File {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	other, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	tcp := c.(*net.TCPConn)
	if err := tcp.SetLinger(60); err != nil {
		t.Fatal(err)
	}
	_ = tcp.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
	junk := make([]byte, 1<<20)
	for err == nil {
		_, err = tcp.Write(junk)
	}
	f, err := tcp.File()
	if err != nil {
		t.Fatal(err)
	}
	tcp.Close() // not the last
	return f
}
