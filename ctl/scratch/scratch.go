// Package scratch makes folders for files that a process needs only while it lives. It also removes
// the folders of processes that were killed before they could.
//
// A folder is locked (flock(2)) by the process that made it, and the kernel drops the lock with the
// process, however it ends. So a leftover folder is found without process numbers, which are reused
// and differ from one PID namespace to another. Make sweeps before it makes: the next run cleans up
// after one that was killed.
//
// Only folders of the same user are swept, and symbolic links are never followed, because the
// parent may be /tmp. A folder that cannot be locked or removed is left for the next time.
//
// Every function may be called from any goroutine and process.
package scratch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Folder is a folder that this process has made.
type Folder struct {
	path string
	lock *os.File // the folder itself
}

// attempts is the number of tries of Make. A sweep of another process may take a new folder for a
// leftover one, just before it is locked.
const attempts = 100

// Make removes the folders that killed processes left in parent under the prefix. Then it makes a
// folder there, for its owner only (mode 700). Parent must exist.
func Make(parent, prefix string) (*Folder, error) {
	Sweep(parent, prefix)
	for range attempts {
		path, err := os.MkdirTemp(parent, prefix)
		if err != nil {
			return nil, fmt.Errorf("making a folder for temporary files: %w", err)
		}
		lock, err := take(path)
		if err != nil {
			return nil, fmt.Errorf("locking a folder for temporary files: %w", err)
		}
		if lock != nil {
			return &Folder{path, lock}, nil
		}
	}
	return nil, fmt.Errorf("making a folder for temporary files in %s: another process removed it %d times",
		parent, attempts)
}

// Path returns the folder's path.
func (f *Folder) Path() string { return f.path }

// Remove removes the folder and its content. A second call does nothing.
func (f *Folder) Remove() error {
	if f.lock == nil {
		return nil
	}
	err := os.RemoveAll(f.path)
	err = errors.Join(err, f.lock.Close())
	f.lock = nil
	return err
}

// Sweep removes folders in parent with the prefix that this user made, if their process has ended.
func Sweep(parent, prefix string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return // Make will say why
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		path := filepath.Join(parent, e.Name())
		if lock, err := take(path); err == nil && lock != nil {
			_ = os.RemoveAll(path) // what stays is the next sweep's
			lock.Close()
		}
	}
}

// take locks a folder of this user. It returns nil if another process holds it or it is gone.
func take(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	var ours, now unix.Stat_t
	if err := unix.Fstat(fd, &ours); err != nil || int(ours.Uid) != os.Geteuid() {
		f.Close()
		return nil, err
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if err == unix.EWOULDBLOCK {
			return nil, nil
		}
		return nil, err
	}
	// The process that had the lock before may have removed the folder, and another may be in its
	// place.
	if err := unix.Lstat(path, &now); err != nil || now.Ino != ours.Ino || now.Dev != ours.Dev {
		f.Close()
		return nil, nil
	}
	return f, nil
}
