// This file is the state directory of named labs: one JSON file for each lab, and one lock for all.
// It also finds out whether the process that a file names still lives.

package lab

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// stateDir is the folder of the state files of named labs. Its parent also has the daemons' files.
// /run is cleared at boot, as namespaces are. The folder is not in /run/funet, which belongs to a
// host's own funid. When systemd starts that funid it does not run as root, and its folder is
// removed when it stops.
var stateDir = "/run/funet-labs/state" // tests have their own

const netnsDir = "/run/netns"

// Stages of a named lab.
const (
	stageBuilding = "building" // written before the first namespace is made; has an owner
	stageUp       = "up"       // complete
	stageRemoving = "removing" // written before the first namespace is removed
)

type state struct {
	Name     string `json:"name"`
	Stage    string `json:"state"`
	OwnerPID int    `json:"owner_pid,omitempty"`
	// OwnerStart is in clock ticks since boot (proc_pid_stat(5), field 22).
	OwnerStart uint64    `json:"owner_start,omitempty"`
	Hosts      int       `json:"hosts"`
	Topology   Topology  `json:"topology"`
	IPv6       bool      `json:"ipv6,omitempty"`
	Hashed     bool      `json:"hashed,omitempty"`
	MTU        int       `json:"mtu"`
	Queues     int       `json:"queues"`
	Created    time.Time `json:"created"`
}

func (s *state) options() Options {
	return Options{Hosts: s.Hosts, Topology: s.Topology, IPv6: s.IPv6, Hashed: s.Hashed, MTU: s.MTU, Queues: s.Queues,
		Name: s.Name}
}

func (s *state) own() (err error) {
	s.OwnerPID = os.Getpid()
	s.OwnerStart, err = startTime(s.OwnerPID)
	return err
}

// stale reports whether the lab was left half-made or half-removed; the caller holds the lock.
func (s *state) stale() bool {
	switch s.Stage {
	case stageUp:
		return false
	case stageBuilding:
		start, err := startTime(s.OwnerPID)
		// Another start time is another process with the same pid.
		return err != nil || start != s.OwnerStart
	}
	// The remover of a lab holds the lock until the lab is gone: this one died or failed.
	return true
}

// startTime returns when a process started, in clock ticks since boot. For a process that has ended
// it returns fs.ErrNotExist, even if the parent has not waited for it.
func startTime(pid int) (uint64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, unix.ESRCH) { // ended between open and read
		err = fs.ErrNotExist
	}
	if err != nil {
		return 0, fmt.Errorf("process %d: %w", pid, err)
	}
	// Field 2 is the command's name in parentheses and may contain anything, also ')'.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 20 {
		return 0, fmt.Errorf("process %d: cannot understand /proc/%d/stat", pid, pid)
	}
	if fields[0] == "Z" || fields[0] == "X" { // field 3: zombie or dead
		return 0, fmt.Errorf("process %d: %w", pid, fs.ErrNotExist)
	}
	return strconv.ParseUint(fields[22-3], 10, 64)
}

// lockDeadline bounds the wait for the lock. Others hold it while they remove a lab.
const lockDeadline = 30 * time.Second

// locked runs f with the state directory locked against other processes and goroutines.
func locked(f func() error) error {
	if err := os.MkdirAll(filepath.Dir(stateDir), 0o755); err != nil {
		return permission(err)
	}
	if err := os.Mkdir(stateDir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return permission(err)
	}
	// The lock is closed to others, who could otherwise hold it for ever.
	path := filepath.Join(stateDir, "lock")
	lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return permission(err)
	}
	defer lock.Close()                                // gives the lock back
	if err := os.Chmod(stateDir, 0o755); err != nil { // whatever the umask
		return permission(err)
	}
	deadline := time.Now().Add(lockDeadline)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return f()
		case err != unix.EWOULDBLOCK && err != unix.EINTR:
			return fmt.Errorf("lock %s: %w", path, err)
		case time.Now().After(deadline):
			return fmt.Errorf("%w: another process has %s locked for %v; see who with 'fuser %s'", ErrBusy, path,
				lockDeadline, path)
		}
	}
}

func statePath(name string) string { return filepath.Join(stateDir, name+".json") }

// read returns the state of a lab. The caller holds the lock, or only reads. Errors: ErrNotFound,
// ErrDamaged.
func read(name string) (*state, error) {
	data, err := os.ReadFile(statePath(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w; see 'funet lab list'", ErrNotFound)
	}
	if err != nil {
		return nil, permission(err)
	}
	s := &state{}
	err = json.Unmarshal(data, s)
	if err == nil {
		_, err = s.options().complete()
	}
	switch {
	case err != nil:
	case s.Name != name:
		err = fmt.Errorf("it names lab %q", s.Name)
	case s.Stage != stageBuilding && s.Stage != stageUp && s.Stage != stageRemoving:
		err = fmt.Errorf("it has state %q", s.Stage)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: cannot understand %s (%w); delete it and its namespaces in %s", ErrDamaged,
			statePath(name), err, netnsDir)
	}
	return s, nil
}

// write replaces the state of a lab in one step; the caller holds the lock.
func (s *state) write() error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	// Only the holder of the lock uses this name; one left by a dead holder is overwritten.
	path := statePath(s.Name)
	if err := os.WriteFile(path+".new", append(data, '\n'), 0o644); err != nil {
		return permission(join(err, os.Remove(path+".new"))) // of a full disk, say
	}
	if err := os.Chmod(path+".new", 0o644); err != nil { // whatever the umask
		return permission(err)
	}
	return permission(os.Rename(path+".new", path))
}

// readAll returns the states of all labs by name, with an error for each file that cannot be
// understood. The caller holds the lock, or only reads.
func readAll() (states []*state, err error) {
	entries, err := os.ReadDir(stateDir)
	if errors.Is(err, fs.ErrNotExist) { // no lab was made yet
		return nil, nil
	}
	if err != nil {
		return nil, permission(err)
	}
	var errs []error
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || checkName(name) != nil {
			continue
		}
		s, err := read(name)
		if errors.Is(err, ErrNotFound) { // it was removed meanwhile, where the lock is not held
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		states = append(states, s)
	}
	return states, join(errs...)
}
