// This file ends the programs of a lab that is being removed. `funet lab exec` and `ip netns exec`
// start programs in its namespaces; `funet run --lab` starts the nodes of jobs on its daemons. All
// descendants of these programs and nodes are ended too. Left alone they would go on for ever, in
// namespaces without links and without a name to find them by.

package lab

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/attach"
)

// namespaceID identifies a namespace (namespaces(7)).
type namespaceID struct{ device, inode uint64 }

// namespaceAt returns the identity of the namespace at a path, such as /proc/PID/ns/net.
func namespaceAt(path string) (namespaceID, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return namespaceID{}, err
	}
	return namespaceID{st.Dev, st.Ino}, nil
}

// namespacesAt returns the namespaces mounted at the paths. Paths that are absent, or were not
// mounted yet, are skipped. It returns ErrBusy if this process is in one of the namespaces, because
// it would end itself with the others.
func namespacesAt(paths []string) (map[namespaceID]bool, error) {
	inside := map[namespaceID]bool{}
	for _, path := range paths {
		fd, err := openNamespace(path)
		if errors.Is(err, ErrDamaged) {
			continue
		}
		if err != nil {
			return nil, err
		}
		unix.Close(fd)
		id, err := namespaceAt(path)
		if err != nil {
			return nil, fmt.Errorf("look at namespace %s: %w", path, permission(err))
		}
		inside[id] = true
	}
	if own, err := namespaceAt("/proc/self/ns/net"); err == nil && inside[own] {
		return nil, fmt.Errorf("%w: this program itself runs in the lab; leave it first", ErrBusy)
	}
	return inside, nil
}

// residentGrace is the time that programs have between SIGTERM and SIGKILL.
const residentGrace = 2 * time.Second

// residentSweeps bounds the searches for programs after the kill. A killed program may have started
// another meanwhile, which inherits its namespace.
const residentSweeps = 100

// endResidents ends the programs in the given network namespaces, and the nodes of jobs with
// sockets in the folder: SIGTERM, residentGrace, SIGKILL, until none is left. A program's namespace
// is that of its main thread. So a process that uses the lab through this package does not count:
// only its other threads enter the namespaces.
func endResidents(inside map[namespaceID]bool, sockets string) error {
	belongs := func(pid int) bool { return residesIn(pid, inside) || isNode(pid, sockets) }
	all := residents(belongs)
	terminate(all, residentGrace)
	if err := killAll(all); err != nil {
		return err
	}
	for range residentSweeps {
		rest := residents(belongs)
		if len(rest) == 0 {
			return nil
		}
		if err := killAll(rest); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: programs in the lab start others faster than they are killed", ErrKill)
}

// terminate asks processes to end, and gives them some time for it.
func terminate(all []*child, grace time.Duration) {
	for _, c := range all {
		_ = unix.PidfdSendSignal(c.pidfd, unix.SIGTERM, nil, 0) // it may have ended
	}
	deadline := time.Now().Add(grace)
	for _, c := range all {
		_ = c.awaitEnd(deadline) // those that do not are killed
	}
}

// killAll kills processes, waits for their end and closes their pidfds.
func killAll(all []*child) error {
	for _, c := range all {
		_ = unix.PidfdSendSignal(c.pidfd, unix.SIGKILL, nil, 0) // it may have ended
	}
	var errs []error
	deadline := time.Now().Add(killDeadline)
	for _, c := range all {
		errs = append(errs, c.awaitEnd(deadline))
		unix.Close(c.pidfd)
	}
	return join(errs...)
}

// residents returns the processes that belong to the lab, with pidfds that the caller closes.
func residents(belongs func(pid int) bool) (found []*child) {
	for _, pid := range pids() {
		if !belongs(pid) {
			continue
		}
		pidfd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it has ended
		}
		// Between the look and the pidfd the number may have become another's: only what was seen
		// while the pidfd's process lived was seen of it.
		if !belongs(pid) || unix.PidfdSendSignal(pidfd, 0, nil, 0) != nil {
			unix.Close(pidfd)
			continue
		}
		found = append(found, &child{pid, pidfd})
	}
	return found
}

// residesIn reports whether a process is in one of the namespaces. A process that has ended is in
// none, even if it was not waited for.
func residesIn(pid int, inside map[namespaceID]bool) bool {
	id, err := namespaceAt(fmt.Sprintf("/proc/%d/ns/net", pid))
	return err == nil && inside[id]
}

// isNode reports whether a process is a node of a job whose daemon's socket is in the folder, or
// descends from one. Its environment tells. A user's shell that has only the socket does not count:
// only a job's launcher sets a token.
func isNode(pid int, folder string) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return false
	}
	env := bytes.Split(text, []byte{0})
	begins := func(with string) bool {
		return slices.ContainsFunc(env, func(v []byte) bool { return bytes.HasPrefix(v, []byte(with)) })
	}
	return begins(attach.SocketVariable+"="+folder+string(filepath.Separator)) && begins(attach.TokenVariable+"=")
}
