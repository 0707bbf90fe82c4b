package attach

// This file connects to a daemon's socket.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lookDial is how often Dial checks whether it should still wait.
const lookDial = 100 * time.Millisecond

// Dial connects to the socket. It gives up when the timeout is over, or when the context ends, and
// then returns its cause. While the daemon has more connections to accept than the kernel keeps, it
// waits in the kernel's queue (unix(7)). Package net would give up at once, and other programs on
// the host could keep a program out. The thread that calls Dial makes the connection.
func Dial(ctx context.Context, socket string, timeout time.Duration) (*net.UnixConn, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("making a socket: %w", err)
	}
	file := os.NewFile(uintptr(fd), socket)
	defer file.Close()
	look := unix.NsecToTimeval(int64(lookDial))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &look); err != nil {
		return nil, fmt.Errorf("making a socket: %w", err)
	}
	name, folder, err := address(socket)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", socket, err)
	}
	if folder != nil {
		defer folder.Close()
	}
	for end := time.Now().Add(timeout); ; {
		err := unix.Connect(fd, &unix.SockaddrUnix{Name: name})
		switch {
		case err == nil:
			conn, err := net.FileConn(file)
			if err != nil {
				return nil, fmt.Errorf("connecting to %s: %w", socket, err)
			}
			return conn.(*net.UnixConn), nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR), time.Now().After(end):
			return nil, fmt.Errorf("connecting to %s: %w", socket, err)
		}
	}
}

// longestName is the longest path in an address, without the zero behind it (unix(7), sun_path).
const longestName = len(unix.RawSockaddrUnix{}.Path) - 1

// address returns the name to connect to for a path. A path that is too long for an address is
// reached through its folder, which the caller closes afterwards.
func address(path string) (name string, folder *os.File, err error) {
	if len(path) <= longestName {
		return path, nil, nil
	}
	dir, base := filepath.Split(path)
	fd, err := unix.Open(filepath.Clean(dir), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, err
	}
	folder = os.NewFile(uintptr(fd), dir)
	if name = fmt.Sprintf("/proc/self/fd/%d/%s", fd, base); len(name) > longestName {
		folder.Close()
		return "", nil, fmt.Errorf("%w; give the socket a shorter name", unix.ENAMETOOLONG)
	}
	return name, folder, nil
}
