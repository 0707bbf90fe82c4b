package daemon

// This file is the socket: how the path is taken, and how connections come in.
//
// The path is locked by a file beside it, so that of two daemons the second is refused,
// and what a dead one left is replaced. The socket is open to everybody: who may do what
// is decided by what the kernel says about who connected, not by the file's mode.

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/attach"
)

// listener is the socket and its lock.
type listener struct {
	socket *net.UnixListener
	lock   *os.File
	path   string
}

// listen takes the path. It makes the folder if it is not there. Errors wrap ErrSocket when
// somebody else has the path.
func listen(path string) (_ *listener, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("making the socket's folder: %w; run as root, or choose another socket", err)
	}
	l := &listener{path: path}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	l.lock, err = os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the socket %s: %w", path, err)
	}
	if err := unix.Flock(int(l.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		l.lock.Close()
		l.lock = nil // not ours to remove
		return nil, fmt.Errorf("taking the socket %s: %w: another funid serves it; stop that one, or choose another socket", path, ErrSocket)
	}
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("taking the socket %s: %w", path, err)
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("taking the socket %s: %w: it is no socket; remove it, or choose another", path, ErrSocket)
	default:
		if c, err := net.Dial(attach.Network, path); err == nil { // of somebody who does not lock
			c.Close()
			return nil, fmt.Errorf("taking the socket %s: %w: another program serves it; stop that one, or choose another socket", path, ErrSocket)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("removing the socket that a dead daemon left: %w", err)
		}
	}
	l.socket, err = net.ListenUnix(attach.Network, &net.UnixAddr{Name: path, Net: attach.Network})
	if err != nil {
		return nil, fmt.Errorf("taking the socket %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		return nil, fmt.Errorf("opening the socket to all users: %w", err)
	}
	return l, nil
}

// close gives the path back. Closing twice does nothing.
func (l *listener) close() error {
	var errs []error
	if l.socket != nil {
		errs = append(errs, l.socket.Close()) // and removes the path
		l.socket = nil
	}
	if l.lock != nil {
		// Removed while it is locked; who waits for it finds another file or none.
		errs = append(errs, os.Remove(l.lock.Name()), l.lock.Close())
		l.lock = nil
	}
	return errors.Join(errs...)
}

// retryAccept is how long accept waits when the process has no descriptor left.
const retryAccept = 100 * time.Millisecond

// accept takes connections until the listener is closed. Out of descriptors it waits:
// those that are connected go on.
func (d *Daemon) accept(socket *net.UnixListener) error {
	for {
		c, err := socket.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM), errors.Is(err, unix.ENOBUFS):
			select {
			case <-time.After(retryAccept):
			case <-d.quit:
				return nil
			}
		case errors.Is(err, unix.ECONNABORTED):
		case err != nil:
			return fmt.Errorf("accepting connections: %w", err)
		default:
			d.meet(c)
		}
	}
}
