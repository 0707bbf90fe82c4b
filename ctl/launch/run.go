package launch

// This file is a job from its beginning to its end.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/attach"
)

// Options say what to run and where.
type Options struct {
	Nodes   int      // 1 to attach.MaxNodes
	Sockets []string // of the daemons of this machine, one a host
	Hosts   []string // instead of Sockets: hosts to reach by ssh, or as Reach says
	// Reach is the words of a command that reaches a host instead of ssh, such as kubectl exec -i {} --, with {} for
	// the host's name, which otherwise comes last; the agent's command follows.
	Reach []string
	// Socket is the socket of the daemon on each of Hosts; "" is its default.
	Socket string
	GID    uint16 // 0: any that is free
	// User is the user that root runs the program as; nil: the user of this process. Round trips of such programs
	// are shorter if this process has no terminal (OnTerminal): each then needs no session of its own.
	User    *User
	Profile string // that the cards must have; "": any
	Label   bool   // print nodes' numbers before their lines
	Program string // a path, or a name to be found in PATH; "funet" is this command itself
	Args    []string
	// Env are variables, as NAME=VALUE, that the processes have besides those that User changes
	// (environment.go) or this process has.
	Env []string
	// Once starts the program once, on this machine, as the starter of the nodes (mpirun, srun), or
	// is all of them: with FUNET_SOCKET, FUNET_GID and FUNET_TOKEN alone.
	Once bool

	Stdin          io.Reader // for node 0; nil: nothing
	Stdout, Stderr io.Writer
	// Signals are sent to the processes as they come, but for a second SIGINT, which kills.
	Signals <-chan os.Signal
	Grace   time.Duration // between a signal that is to end them and SIGKILL; 0: DefaultGrace
	// HostTimeout is how long one of Hosts may be silent before it is given up, with the job:
	// ShortestHostTimeout or longer, or 0 for ever.
	HostTimeout time.Duration

	note func(string) // tells the user something, once
}

// DefaultGrace is how long processes have to end after a signal that is to end them.
const DefaultGrace = 5 * time.Second

// Run runs the job and returns the exit code: 0, or that of the first node that failed, which
// Stderr says in one line. A job that is interrupted before any node has failed ends with 128 and
// the signal's number, however its processes end then. With an error no process was started, or none is left. The end of the context
// ends a job only before its processes are started. Errors: ErrHosts, ErrNoDaemon, ErrProgram,
// ErrUser, those of package attach.
func Run(ctx context.Context, o Options) (code int, err error) {
	said := map[string]bool{} // of several hosts on this machine each has the same to say
	o.note = func(text string) {
		if !said[text] {
			fmt.Fprintln(o.Stderr, "funet:", text)
		}
		said[text] = true
	}
	if o.Nodes < 1 || o.Nodes > attach.MaxNodes {
		return 0, fmt.Errorf("-n %d: use 1 to %d", o.Nodes, attach.MaxNodes)
	}
	if o.Grace == 0 {
		o.Grace = DefaultGrace
	}
	hosts, err := o.reach()
	// A host that does not answer is not waited for any longer.
	stop := context.AfterFunc(ctx, func() {
		for _, h := range hosts {
			h.abandon()
		}
	})
	defer stop()
	defer func() {
		for _, h := range hosts {
			h.close()
		}
	}()
	if err != nil {
		return 0, err
	}
	for _, h := range hosts {
		if o.Once {
			break // it is looked for when it is started
		}
		err := h.find(o.Program)
		if errors.Is(err, ErrProgram) {
			err = fmt.Errorf("%v: %w", h, err)
		}
		if err != nil {
			return 0, err
		}
	}
	token := attach.NewToken()
	gid, err := makeJob(hosts, o.Nodes, o.GID, token, o.Profile)
	if err != nil {
		return 0, err
	}
	j := &running{o: &o, hosts: hosts, ends: make(chan end, o.Nodes), broken: make(chan error, 1), lost: map[host]bool{}}
	if o.Once {
		h, err := newLocal(o.here(), o.User, o.note)
		if err != nil {
			return 0, err
		}
		defer h.close()
		j.hosts = []host{h}
	}
	if err := j.start(gid, token); err != nil {
		return 0, err
	}
	if !stop() {
		return 0, ctx.Err()
	}
	code = j.wait()
	return code, j.unwritten()
}

// reach returns the hosts; also, with an error, those that were reached. There are no more of
// them than nodes.
func (o *Options) reach() (hosts []host, err error) {
	for _, name := range o.Hosts[:min(len(o.Hosts), o.Nodes)] {
		h, err := newRemote(name, o)
		if err != nil {
			return hosts, err
		}
		hosts = append(hosts, h)
	}
	if len(o.Hosts) > 0 {
		return hosts, nil
	}
	for _, socket := range o.Sockets[:min(len(o.Sockets), o.Nodes)] {
		h, err := newLocal(socket, o.User, o.note)
		if err != nil {
			return hosts, err
		}
		hosts = append(hosts, h)
	}
	if len(hosts) == 0 {
		return nil, fmt.Errorf("%w: there is none", ErrHosts)
	}
	return hosts, nil
}

// here is the socket of this machine's daemon, for a program that is started once.
func (o *Options) here() string {
	if len(o.Sockets) > 0 {
		return o.Sockets[0]
	}
	return cmp.Or(o.Socket, attach.DefaultSocket)
}

// running is a job whose processes run.
type running struct {
	o     *Options
	hosts []host
	ends  chan end // has room for all
	// broken passes on the first error of writing what the nodes print, failure is it.
	broken  chan error
	failure error
	alive   int
	code    int
	lost    map[host]bool
	ended   bool // by a signal from outside
	// interrupts counts SIGINT. over is when those that are left are killed; nil: not yet.
	interrupts int
	over       <-chan time.Time
}

// end is the end of a node.
type end struct {
	node int
	status
}

// start starts all processes. On failure none is left when the hosts are closed.
func (j *running) start(gid uint16, token attach.Token) error {
	stdout, stderr := &output{to: j.o.Stdout, broken: j.broken}, &output{to: j.o.Stderr, broken: j.broken}
	processes := j.o.Nodes
	if j.o.Once {
		processes = 1
	}
	for i := range processes {
		n := &node{
			Number: i, Once: j.o.Once, Nodes: j.o.Nodes, GID: gid, Token: token, Program: j.o.Program, Args: j.o.Args, Env: j.o.Env,
			stdout: stdout.node(i, j.o.Label && !j.o.Once), stderr: stderr.node(i, j.o.Label && !j.o.Once),
			ended: func(s status) { j.ends <- end{i, s} },
		}
		if i == 0 {
			n.stdin = j.o.Stdin
		}
		h := j.hosts[i%len(j.hosts)]
		if err := h.start(n); err != nil {
			return fmt.Errorf("starting node %d with %v: %w", i, h, err)
		}
		j.alive++
	}
	return nil
}

// wait passes signals on until all processes have ended, and returns the exit code.
func (j *running) wait() int {
	for j.alive > 0 {
		select {
		case e := <-j.ends:
			j.alive--
			if e.Lost != "" {
				j.lose(e)
			} else if e.failed() && j.code == 0 {
				j.code = e.exitCode()
				if j.unwritten() != nil {
					j.end(syscall.SIGTERM)
					continue
				}
				j.say("node %d with %v: %v%s", e.node, j.hosts[e.node%len(j.hosts)], e.status, j.others())
				j.end(syscall.SIGTERM)
			}
		case j.failure = <-j.broken:
			j.end(syscall.SIGTERM)
		case s := <-j.o.Signals:
			j.pass(s)
		case <-j.over:
			j.over = nil
			j.all(syscall.SIGKILL)
		}
	}
	return j.code
}

// lose says which host was lost, once. That is why other nodes fail, also those that noticed first, and so
// it gives the exit code, unless the job is being ended from outside or because nobody takes its output.
func (j *running) lose(e end) {
	h := j.hosts[e.node%len(j.hosts)]
	if j.lost[h] {
		return
	}
	j.lost[h] = true
	if j.unwritten() == nil {
		j.say("node %d with %v: %v%s", e.node, h, e.status, j.others())
		if !j.ended {
			j.code = e.exitCode()
		}
	}
	j.end(syscall.SIGTERM)
}

// unwritten says why what the nodes print could not be written, if so. Their own ends then say nothing:
// they only notice that nobody reads it any more.
func (j *running) unwritten() error {
	select {
	case j.failure = <-j.broken:
	default:
	}
	if j.failure == nil {
		return nil
	}
	return fmt.Errorf("writing what the nodes print: %w", j.failure)
}

// others says what happens to those that are left.
func (j *running) others() string {
	if j.alive == 0 {
		return ""
	}
	return fmt.Sprintf("; ending the other %d", j.alive)
}

// say writes a line of the launcher's own.
func (j *running) say(format string, args ...any) {
	fmt.Fprintf(j.o.Stderr, "funet: "+format+"\n", args...)
}

// pass passes on a signal from outside.
func (j *running) pass(s os.Signal) {
	n, ok := s.(syscall.Signal)
	switch {
	case !ok:
		return
	case n != syscall.SIGINT && n != syscall.SIGTERM && n != syscall.SIGHUP:
		j.all(n)
		return
	}
	if n == syscall.SIGINT {
		j.interrupts++
	}
	if j.interrupts > 1 {
		j.all(syscall.SIGKILL)
		return
	}
	if j.ended = true; j.code == 0 { // how processes end from now on follows from that
		j.code = 128 + int(n)
		j.say("interrupted (%s); ending the job", unix.SignalName(n))
	}
	j.end(n)
}

// end asks all processes to end, and sets the time after which they are killed.
func (j *running) end(s syscall.Signal) {
	j.all(s)
	if j.over == nil {
		j.over = time.After(j.o.Grace)
	}
}

func (j *running) all(s syscall.Signal) {
	for _, h := range j.hosts {
		h.signal(s)
	}
}
