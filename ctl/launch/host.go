package launch

// This file is a host of a job: a daemon that makes the group there, and a place
// where processes run. The launcher reaches each by an agent (remote.go, here.go).

import (
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/funet/funet/uspace/attach"
)

// Errors for what callers decide on, besides those of package attach.
var (
	// ErrNoDaemon: nothing answers at the daemon's socket.
	ErrNoDaemon = errors.New("no daemon")
	// ErrProgram: the program cannot be started on a host.
	ErrProgram = errors.New("cannot start the program")
	// ErrHosts: the hosts do not fit together, or cannot be reached.
	ErrHosts = errors.New("the hosts cannot run a job together")
)

// host is a machine of a job: this one or another behind ssh, or in tests books alone. Its methods
// are called by one goroutine.
type host interface {
	// String names the host in messages.
	String() string
	// info asks the daemon which card it has.
	info() (attach.Info, error)
	// job makes the group, or returns the daemon's refusal; free ends it, so that another can be
	// made.
	job(attach.JobRequest) (gid uint16, err error)
	free()
	// find looks whether the host has the program: ErrProgram. It comes before start.
	find(program string) error
	// start starts a node's process. Meanwhile another goroutine may call signal.
	start(*node) error
	// absent returns nodes that the daemon has not seen attach, and how many are attached to it.
	// Any goroutine may call it.
	absent() (nodes []int, attached int, err error)
	// signal sends a signal to the processes and all that is in their groups. After one that is to
	// end them no other starts: a process whose start is under way is killed.
	signal(syscall.Signal)
	// abandon makes calls under way fail, and those that follow. Any goroutine may call it.
	abandon()
	// close kills what still runs, waits for its end and frees the group.
	close()
}

// node is one process of a job.
type node struct {
	Number, Nodes int
	Once          bool // it is no node, or all of them
	// Life counts the node's processes from 0. Restarts is the largest number that may follow the
	// first. In a job without restarts both are 0.
	Life, Restarts int
	GID            uint16
	Token          attach.Token
	Program        string
	Args           []string
	Env            []string // NAME=VALUE, besides what it has from its user

	stdin          io.Reader // nil: nothing
	stdout, stderr io.WriteCloser
	// ended is called once, from another goroutine, after the last output.
	ended func(status)
}

// status is how a process ended.
type status struct {
	Code   int            // exit code
	Signal syscall.Signal // that killed it; 0: none
	Lost   string         // why nobody knows; "": it is known
}

// HostLost is the exit code of a job that has lost a host, and does not know how its nodes ended:
// that of ssh(1) for an error of its own.
const HostLost = 255

// failed reports whether the process did not end well.
func (s status) failed() bool { return s != status{} }

// exitCode is the exit status that a shell would give it (POSIX.1-2017, Shell Command Language
// 2.8.2: more than 128 for a signal; all shells add its number).
func (s status) exitCode() int {
	switch {
	case s.Lost != "":
		return HostLost
	case s.Signal != 0:
		return 128 + int(s.Signal)
	}
	return s.Code
}

// String says how it ended.
func (s status) String() string {
	switch {
	case s.Lost != "":
		return s.Lost
	case s.Signal != 0:
		return fmt.Sprintf("killed by signal %d (%v)", int(s.Signal), s.Signal)
	}
	return fmt.Sprintf("exit code %d", s.Code)
}
