package daemon

// This file makes AF_XDP sockets in a process of its own. A daemon that has dropped CAP_NET_RAW can
// make none when an interface comes back (follow.go), and a bound socket is of no use for another
// interface. The process keeps CAP_NET_RAW alone. It reads one byte for each socket, and passes the
// sockets on (SCM_RIGHTS, unix(7)). It ends when its parent closes the connection.

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/attach"
)

// SocketMaker is the parent's handle of the process that makes sockets. Any goroutine may use it.
type SocketMaker struct {
	mu   sync.Mutex
	conn *net.UnixConn
}

// makeWithin bounds the time for making a socket.
const makeWithin = 10 * time.Second

// helperFD is the descriptor of the connection in a process that startSelf has started.
const helperFD = 3

// StartSocketMaker starts this program anew with these arguments, in the network namespace of the
// calling thread. There the program calls MakeSockets.
func StartSocketMaker(args ...string) (*SocketMaker, error) {
	conn, err := startSelf(args)
	if err != nil {
		return nil, fmt.Errorf("starting the process that makes sockets: %w", err)
	}
	return &SocketMaker{conn: conn}, nil
}

// Close ends the process.
func (m *SocketMaker) Close() error { return m.conn.Close() }

// Socket makes an AF_XDP socket in the namespace of the process.
func (m *SocketMaker) Socket() (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fd, err := m.ask()
	if errno := unix.Errno(0); err != nil && !errors.As(err, &errno) {
		err = fmt.Errorf("asking the process that makes sockets: %w; restart funid", err)
	}
	return fd, err
}

func (m *SocketMaker) ask() (int, error) {
	if err := m.conn.SetDeadline(time.Now().Add(makeWithin)); err != nil {
		return -1, err
	}
	if attach.Send(m.conn, []byte{1}) != nil {
		return -1, io.ErrUnexpectedEOF // it has ended
	}
	answer, got, err := attach.Receive(m.conn, make([]byte, attach.MaxMessage), 1)
	switch {
	case err != nil:
		return -1, err
	case len(got) == 1:
		return got[0], nil
	case len(answer) == 1 && answer[0] != 0:
		return -1, unix.Errno(answer[0])
	}
	return -1, io.ErrUnexpectedEOF
}

// MakeSockets makes sockets until the parent ends. It keeps CAP_NET_RAW and no other capability.
func MakeSockets() error {
	// which go to the daemon too, whose end is this one's
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	if err := drop(unix.CAP_NET_RAW); err != nil {
		return err
	}
	f := os.NewFile(helperFD, "sockets")
	conn, err := net.FileConn(f)
	if err != nil {
		return fmt.Errorf("making sockets: %w; funid starts this by itself", err)
	}
	f.Close()
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return errors.New("making sockets: not a socket of funid; it starts this by itself")
	}
	for asked := make([]byte, 1); ; {
		if _, err := unixConn.Read(asked); err != nil {
			return nil // the daemon has ended
		}
		fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		answer, made := []byte{0}, []int{fd}
		if errno := unix.Errno(0); errors.As(err, &errno) {
			answer[0], made = byte(errno), nil
		}
		err = attach.Send(unixConn, answer, made...)
		closeFD(fd)
		if err != nil {
			return nil
		}
	}
}
