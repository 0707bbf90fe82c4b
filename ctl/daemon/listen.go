package daemon

// This file makes the socket and takes its path. admit.go admits connections.
//
// A locked file beside the path makes sure that a second daemon is refused, and that the socket of
// a dead one is replaced. The socket is open to everybody: the kernel's word about a process
// decides what it may do, not the file's mode.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/attach"
)

// backlog is how many connections wait in the kernel to be accepted. All users share it, and a
// connection waits 10 to 30 us for each one before it. When it is full the kernel has clients wait
// in turn to connect, including a client that floods it (unix(7)).
const backlog = 64

type listener struct {
	socket *net.UnixListener
	file   *os.File // the same socket, to accept from
	lock   *os.File
	pure   bool // the kernel refuses descriptors
}

// listen takes the path. It makes the folder if there is none. Errors wrap ErrSocket when something
// else has the path.
func listen(path string) (_ *listener, err error) {
	l := new(listener)
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("taking the socket %s: %w", path, err), l.close())
		}
	}()
	if err := makeFolders(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("making its folder: %w; run as root, or choose another socket", err)
	}
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking it: %w", err)
	}
	switch {
	case unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil:
		err = fmt.Errorf("%w: another funid serves it; stop that one, or choose another socket", ErrSocket)
	case !still(lock):
		err = fmt.Errorf("%w: another funid that served it is just ending; try again", ErrSocket)
	}
	if err != nil { // it is not ours to remove
		lock.Close()
		return nil, err
	}
	l.lock = lock
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("%w: it is no socket; remove it, or choose another", ErrSocket)
	default:
		c, err := net.Dial(attach.Network, path)
		if err == nil {
			c.Close()
		}
		// of somebody who does not lock; EAGAIN: his backlog is full
		if err == nil || errors.Is(err, unix.EAGAIN) {
			return nil, fmt.Errorf("%w: another program serves it; stop that one, or choose another socket", ErrSocket)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("removing what a dead daemon left: %w", err)
		}
	}
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) { l.pure = refuseDescriptors(int(fd)) })
	}}
	socket, err := config.Listen(context.Background(), attach.Network, path)
	if err != nil {
		return nil, err
	}
	l.socket = socket.(*net.UnixListener)
	if l.file, err = l.socket.File(); err == nil {
		err = l.shorten()
	}
	if err == nil {
		err = os.Chmod(path, 0o666) // all users may connect
	}
	return l, err
}

// shorten sets the backlog, because package net asks for as many as the kernel allows
// (net.core.somaxconn).
func (l *listener) shorten() (err error) {
	raw, err := l.socket.SyscallConn()
	if err != nil {
		return err
	}
	return errors.Join(raw.Control(func(fd uintptr) { err = unix.Listen(int(fd), backlog) }), err)
}

// refuseDescriptors has the kernel refuse messages with descriptors (EPERM) on the socket and on
// its connections, and reports whether it does. That needs Linux 6.16. The daemon wants no
// descriptors, and closing the last reference of one can take long: see closing.go.
func refuseDescriptors(socket int) bool {
	return unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PASSRIGHTS, 0) == nil
}

// makeFolders makes the path's missing folders, which everybody may pass, whatever the umask.
func makeFolders(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil // its owner decides what it allows
	}
	if err := makeFolders(filepath.Dir(path)); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Chmod(path, 0o755)
}

// still reports whether a file is still the one at its path: an earlier daemon may have removed it
// after it was opened here.
func still(file *os.File) bool {
	ours, err := file.Stat()
	if err != nil {
		return false
	}
	now, err := os.Lstat(file.Name())
	return err == nil && os.SameFile(ours, now)
}

// close gives the path back. A second call does nothing.
func (l *listener) close() error {
	var errs []error
	if l.socket != nil {
		errs = append(errs, l.socket.Close()) // and removes the path
		l.socket = nil
	}
	if l.file != nil {
		errs = append(errs, l.file.Close())
		l.file = nil
	}
	if l.lock != nil {
		// Removed while it is locked; a process that waits for the lock finds another file or none.
		errs = append(errs, os.Remove(l.lock.Name()), l.lock.Close())
		l.lock = nil
	}
	return errors.Join(errs...)
}
