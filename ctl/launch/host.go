package launch

// This file describes a host of a job: its daemon makes the group there, and processes run there.
// The launcher reaches each host by an agent (remote.go, here.go).

import (
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/funet/funet/uspace/attach"
)

// Errors that callers decide on, besides those of package attach.
var (
	ErrNoDaemon = errors.New("no daemon") // reports that no daemon answers at the socket
	// ErrProgram reports that the program cannot be started on a host.
	ErrProgram = errors.New("cannot start the program")
	// ErrHosts reports hosts that do not fit together or cannot be reached.
	ErrHosts = errors.New("the hosts cannot run a job together")
)

// host is a machine of a job: this one, another behind ssh, or in tests mere records. Its methods
// are called by one goroutine, except where they say otherwise.
type host interface {
	String() string             // names the host in messages
	info() (attach.Info, error) // asks the daemon which card it has
	// job makes the group, or returns the daemon's refusal. free ends it, before another.
	job(attach.JobRequest) (gid uint16, err error)
	free()
	// find checks that the host has the program, and with ofi the provider of libfabric:
	// ErrProgram, ErrProvider. It is called before start.
	find(program string, ofi bool) error
	start(*node) error // starts a node's process. Meanwhile another goroutine may call signal.
	// absent returns the nodes that the daemon has not seen attach, and the number of nodes that
	// are attached to it. Any goroutine may call it.
	absent() (nodes []int, attached int, err error)
	// signal sends a signal to the processes and their process groups. After a signal that ends the
	// job no other process starts: one whose start is under way is killed.
	signal(syscall.Signal)
	abandon() // makes calls under way and later ones fail. Any goroutine may call it.
	close()   // kills the processes that still run, waits for their ends and frees the group
}

// node is a process that a host is to start, with its streams.
type node struct {
	startOrder
	stdin          io.Reader // nil: nothing
	stdout, stderr io.WriteCloser
	ended          func(status) // called once, from another goroutine, after the last output
}

// status is how a process ended.
type status struct {
	Code   int            // signal that killed it; 0: none
	Signal syscall.Signal // that killed it; 0: none
	Lost   string         // why the end is unknown; "": it is known
}

// HostLost is the exit code of a job that lost a host and so does not know how its nodes ended.
// ssh(1) uses the same code for its own errors.
const HostLost = 255

// failed reports whether the process ended by a signal, with another code than 0, or unknown.
func (s status) failed() bool { return s != status{} }

// exitCode returns the exit status that a shell would report. For a signal that is above 128
// (POSIX.1-2017, Shell Command Language 2.8.2); all shells add the signal's number.
func (s status) exitCode() int {
	switch {
	case s.Lost != "":
		return HostLost
	case s.Signal != 0:
		return 128 + int(s.Signal)
	}
	return s.Code
}

// String says how the process ended.
func (s status) String() string {
	switch {
	case s.Lost != "":
		return s.Lost
	case s.Signal != 0:
		return fmt.Sprintf("killed by signal %d (%v)", int(s.Signal), s.Signal)
	}
	return fmt.Sprintf("exit code %d", s.Code)
}
