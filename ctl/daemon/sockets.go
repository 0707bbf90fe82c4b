package daemon

// This file makes AF_XDP sockets in a process of its own, because a daemon that has dropped CAP_NET_RAW can
// make none when an interface comes back (follow.go), and a socket is of no use for another interface than
// the one that it was bound to. That process keeps this one capability, reads nothing but a byte for
// each socket, and passes the sockets on (SCM_RIGHTS, unix(7)). It ends with its end of the connection.

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// SocketMaker is the parent's handle of that process. Any goroutine may call its methods.
type SocketMaker struct {
	mu   sync.Mutex
	conn *net.UnixConn
}

// makeWithin bounds the time for making a socket.
const makeWithin = 10 * time.Second

// socketFD is the descriptor of its end.
const socketFD = 3

// StartSocketMaker starts this program anew with these arguments, where it calls MakeSockets, in the network
// namespace of the calling thread.
func StartSocketMaker(args ...string) (*SocketMaker, error) {
	fail := func(err error) (*SocketMaker, error) {
		return nil, fmt.Errorf("starting the process that makes sockets: %w", err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fail(err)
	}
	its, ours := os.NewFile(uintptr(pair[1]), "sockets"), os.NewFile(uintptr(pair[0]), "sockets")
	defer its.Close()
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return fail(err)
	}
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0], cmd.Stderr, cmd.ExtraFiles = os.Args[0], os.Stderr, []*os.File{its}
	if err := cmd.Start(); err != nil {
		conn.Close()
		return fail(err)
	}
	go func() { _ = cmd.Wait() }() // whoever asks it for a socket notices
	return &SocketMaker{conn: conn.(*net.UnixConn)}, nil
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
	if _, err := m.conn.Write([]byte{1}); err != nil {
		return -1, io.ErrUnexpectedEOF // it has ended
	}
	answer, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	n, length, _, _, err := m.conn.ReadMsgUnix(answer, rights)
	if err != nil {
		return -1, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:length])
	if err == nil && len(messages) == 1 {
		fds, err := unix.ParseUnixRights(&messages[0])
		if err == nil && len(fds) == 1 {
			unix.CloseOnExec(fds[0])
			return fds[0], nil
		}
	}
	if n == 1 && answer[0] != 0 {
		return -1, unix.Errno(answer[0])
	}
	return -1, io.ErrUnexpectedEOF
}

// MakeSockets is the whole life of the process, until its parent ends. It keeps CAP_NET_RAW and nothing else.
func MakeSockets() error {
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP) // which go to the daemon too, whose end is this one's
	if err := drop(unix.CAP_NET_RAW); err != nil {
		return err
	}
	f := os.NewFile(socketFD, "sockets")
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
		answer, rights := []byte{0}, []byte(nil)
		if errno := unix.Errno(0); errors.As(err, &errno) {
			answer[0] = byte(errno)
		} else {
			rights = unix.UnixRights(fd)
		}
		_, _, err = unixConn.WriteMsgUnix(answer, rights, nil)
		closeFD(fd)
		if err != nil {
			return nil
		}
	}
}
