// This file claims, publishes, lists and removes labs that have a name.

package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/scratch"
)

// Info describes a named lab.
type Info struct {
	Name string `json:"name"`
	// State is "building", "up", "degraded" (up, but a daemon has died) or "stale".
	State    string    `json:"state"`
	Hosts    int       `json:"hosts"`
	Topology Topology  `json:"topology"`
	MTU      int       `json:"mtu"`
	Queues   int       `json:"queues"`
	Daemons  int       `json:"daemons"`                // those that live
	Dead     []int     `json:"dead_daemons,omitempty"` // hosts whose daemons have died
	Owner    int       `json:"owner,omitempty"`        // process id of the builder
	Created  time.Time `json:"created"`
}

// claim enters a lab in the state directory, as being built by this process.
func claim(o Options) error {
	return locked(func() error {
		// What cannot be removed of other labs is no hindrance; List and RemoveStale report it.
		_, _ = removeStale()
		s, err := read(o.Name)
		if err == nil && s.stale() {
			// It could not be removed, which is reported now, or its owner has died since.
			if err := s.remove(); err != nil {
				return err
			}
			s, err = read(o.Name)
		}
		switch {
		case err == nil && s.Stage == stageUp:
			return fmt.Errorf("%w: use it, or remove it first with 'funet lab down %s'", ErrExists, o.Name)
		case err == nil:
			return fmt.Errorf("%w: process %d is building it; wait for that to end or choose another name",
				ErrExists, s.OwnerPID)
		case !errors.Is(err, ErrNotFound):
			return err
		}
		// What is there now is not ours, and must not become ours to remove.
		for _, name := range namespaces(o) {
			if _, err := os.Lstat(filepath.Join(netnsDir, name)); err == nil {
				return fmt.Errorf("%w: namespace %s, without a lab; remove it with 'ip netns delete %s' or choose another name", ErrExists, name, name)
			}
		}
		s = &state{
			Name: o.Name, Stage: stageBuilding, Hosts: o.Hosts, Topology: o.Topology, IPv6: o.IPv6, Hashed: o.Hashed,
			MTU:     o.MTU,
			Queues:  o.Queues,
			Created: time.Now().Round(time.Second),
		}
		if err := s.own(); err != nil {
			return err
		}
		return s.write()
	})
}

// publish marks a lab that this process built as up, so that others can use it.
func publish(o Options) error {
	return change(o.Name, func(s *state) error {
		s.Stage, s.OwnerPID, s.OwnerStart = stageUp, 0, 0
		return s.write()
	})
}

// withdraw removes a lab that this process could not complete.
func withdraw(o Options) error { return change(o.Name, (*state).remove) }

// change runs f on the state of a lab, with the state directory locked.
func change(name string, f func(*state) error) error {
	return locked(func() error {
		s, err := read(name)
		if err != nil {
			return err
		}
		return f(s)
	})
}

// lookUp returns the options of a lab that is up. Any user may call it.
func lookUp(name string) (o Options, err error) {
	err = looking(func() error {
		s, err := read(name)
		if err != nil {
			return err
		}
		if s.Stage != stageUp {
			if s.stale() {
				return fmt.Errorf("%w: whoever was %s it died; remove what is left with 'funet lab down %s'",
					ErrDamaged, s.Stage, name)
			}
			return fmt.Errorf("%w: process %d is building it; try again when it is up", ErrBusy, s.OwnerPID)
		}
		o = s.options()
		return nil
	})
	return o, err
}

// looking runs f, which only reads, with the state directory locked. Without permission to lock it
// runs f unlocked, which is safe because files are replaced in one step. f may run twice.
func looking(f func() error) error {
	if err := locked(f); !errors.Is(err, ErrPermission) {
		return err
	}
	return f()
}

// List describes all named labs, sorted by name. Its error names the state files that cannot be
// understood; the other labs are described nevertheless. Any user may call it.
func List() (infos []Info, err error) {
	list := func() error {
		states, err := readAll()
		for _, s := range states {
			i := Info{Name: s.Name, State: s.Stage, Hosts: s.Hosts, Topology: s.Topology, MTU: s.MTU, Queues: s.Queues,
				Owner: s.OwnerPID, Created: s.Created}
			sockets := socketsIn(DaemonDir(s.Name))
			switch {
			case s.stale():
				i.State = "stale"
			case s.Stage == stageUp:
				if i.Dead = deadDaemons(sockets); len(i.Dead) > 0 {
					i.State = "degraded"
				}
			}
			i.Daemons = len(sockets) - len(i.Dead)
			infos = append(infos, i)
		}
		return err
	}
	if err = looking(func() error { infos = nil; return list() }); err != nil {
		err = fmt.Errorf("list labs: %w", err)
	}
	return infos, err
}

// RemoveStale removes the labs whose maker or remover died at work, and returns their names.
func RemoveStale() (removed []string, err error) {
	err = locked(func() error {
		removed, err = removeStale()
		return err
	})
	if err != nil {
		err = fmt.Errorf("remove stale labs: %w", err)
	}
	return removed, err
}

// removeStale is RemoveStale for the holder of the lock.
func removeStale() (removed []string, err error) {
	states, err := readAll()
	scratch.Sweep(filepath.Dir(stateDir), runPrefix)
	errs := []error{err}
	for _, s := range states {
		if !s.stale() {
			continue
		}
		if err := s.remove(); err != nil {
			errs = append(errs, fmt.Errorf("stale lab %s: %w", s.Name, err))
			continue
		}
		removed = append(removed, s.Name)
	}
	return removed, join(errs...)
}

// Down removes a named lab: its links, its namespaces and its state. It also removes a lab that is
// stale or partly gone. Programs that run in its namespaces are ended first: SIGTERM, some seconds,
// SIGKILL. Errors: ErrName, ErrNotFound, ErrBusy (another process builds it, or this one runs in
// it), ErrKill, ErrPermission.
func Down(name string) error {
	if err := checkName(name); err != nil {
		return fmt.Errorf("remove lab: %w", err)
	}
	err := change(name, func(s *state) error {
		if s.Stage != stageUp && !s.stale() {
			return fmt.Errorf("%w: process %d is building it; wait or end that process", ErrBusy, s.OwnerPID)
		}
		return s.remove()
	})
	if err != nil {
		return fmt.Errorf("remove lab %s: %w", name, err)
	}
	return nil
}

// remove removes a lab; the caller holds the lock. If this process dies on the way, or a removal
// fails, the lab is stale and can be removed later.
func (s *state) remove() error {
	var paths []string
	for _, name := range namespaces(s.options()) {
		paths = append(paths, filepath.Join(netnsDir, name))
	}
	inside, err := namespacesAt(paths)
	if err != nil {
		return err
	}
	if isNode(os.Getpid(), DaemonDir(s.Name)) {
		return fmt.Errorf("%w: this program itself is a node of a job in the lab; leave it first", ErrBusy)
	}
	s.Stage, s.OwnerPID, s.OwnerStart = stageRemoving, 0, 0
	// what fills the disk may be the lab's own
	if err := s.write(); err != nil && !errors.Is(err, unix.ENOSPC) {
		return err
	}
	errs := []error{stopDaemons(s.Name), endResidents(inside, DaemonDir(s.Name))}
	for _, path := range paths {
		errs = append(errs, removeNamespace(path))
	}
	if err := join(errs...); err != nil {
		return err
	}
	return permission(os.Remove(statePath(s.Name)))
}

// mountNamespace mounts the calling thread's network namespace at path, so that it lasts, as
// ip-netns(8) add does. The path must not exist yet.
func mountNamespace(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return permission(err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return fmt.Errorf("name a namespace: %w", permission(err))
	}
	f.Close()
	if err := unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount namespace %s: %w", path, permission(err))
	}
	return nil
}

// openNamespace opens the namespace mounted at path. If it is not there, it returns ErrDamaged.
func openNamespace(path string) (fd int, err error) {
	fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return -1, fmt.Errorf("%w: namespace %s is gone; remove the rest with 'funet lab down'", ErrDamaged, path)
		}
		return -1, fmt.Errorf("open namespace %s: %w", path, permission(err))
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil || st.Type != unix.NSFS_MAGIC {
		unix.Close(fd)
		return -1, fmt.Errorf("%w: %s is not a namespace; remove the rest with 'funet lab down'", ErrDamaged, path)
	}
	return fd, nil
}

// removeNamespace deletes the links of a named namespace and its name. A namespace that is absent,
// or was not mounted yet, is no error.
func removeNamespace(path string) error {
	s, err := enterNamespace(path)
	if err == nil {
		err = release([]*space{s}, true)
	}
	if err != nil && !errors.Is(err, ErrDamaged) {
		return err
	}
	// Deleting the file ends copies of the mount in other mount namespaces too (Linux 3.18);
	// here it must be unmounted first. EINVAL: it is not mounted.
	err = unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("unmount namespace %s: %w", path, permission(err))
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove namespace %s: %w", path, permission(err))
	}
	return nil
}
