package launch

// This file is a job from its beginning to its end.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/attach"
)

// Options say what program to run, and where.
type Options struct {
	Nodes   int      // 1 to attach.MaxNodes
	Sockets []string // of the daemons of this machine, one for each host
	Hosts   []string // instead of Sockets: hosts to reach by ssh, or as Reach says
	// Reach holds the words of a command that reaches a host instead of ssh, such as kubectl exec
	// -i {} --. The word {} stands for the host's name; without it the name comes last. The agent's
	// command follows.
	Reach  []string
	Socket string // the daemon's socket on each of Hosts; "": the default socket
	GID    uint16 // 0: any that is free
	Cards  Cards  // of the processes
	// TellCards has Stderr say which cards AutoCards chose, and why. Without it Stderr says so only
	// if the processes have no direct ports although a host has some, or was configured for them.
	TellCards bool
	// User is the user that root runs the program as; nil: the user of this process. Such programs
	// have shorter round trips if this process has no terminal (OnTerminal), because each agent
	// then needs no session of its own.
	User    *User
	Profile string // that the cards must have; "": any
	Label   bool   // print nodes' numbers before their lines
	Program string // a path, or a name to be found in PATH; "funet" is this command itself
	Args    []string
	// Env holds variables of the processes as NAME=VALUE. They come on top of this process's
	// variables, or of those composed for User (environment.go).
	Env []string
	// Restarts bounds the restarts of a node that fails, on the same host; 0: its failure ends the
	// job. A process finds the number of its life in FUNET_LIFE. Standard input goes to node 0's
	// first process. A node whose host is lost is not started again. Once allows no restarts.
	Restarts int
	// Once starts the program once, on this machine, with FUNET_SOCKET, FUNET_GID and FUNET_TOKEN
	// alone. The program either starts the nodes itself (mpirun, srun) or is all of them.
	// FUNET_SOCKET lists all of Sockets.
	Once bool
	// OFI gives the processes the variables by which programs over libfabric use the provider
	// funet, which each host must have (ofi.go).
	OFI bool

	Stdin          io.Reader // for node 0; nil: nothing
	Stdout, Stderr io.Writer
	// Signals are passed on to the processes. A second SIGINT kills them instead.
	Signals <-chan os.Signal
	// Suspend is called after a SIGTSTP went to the processes. It stops this process and returns
	// when it is continued; nil: this process goes on. The processes then continue with a SIGCONT.
	Suspend func()
	Grace   time.Duration // between a signal that ends the job and SIGKILL; 0: DefaultGrace
	// HostTimeout is the silence after which one of Hosts is given up, and the job with it. It is
	// ShortestHostTimeout or longer, or 0 for ever.
	HostTimeout time.Duration

	note     func(string) // tells the user something, once
	handed   *handing     // with User: the program
	provider *os.File     // with User and OFI: the provider's folder, if there is one
}

// DefaultGrace is the time that processes have to end after a signal that ends the job.
const DefaultGrace = 5 * time.Second

// Run runs the job and returns the exit code: 0, or that of the first node that failed. Stderr
// reports that failure in one line. A job that is interrupted before any node has failed returns
// 128 plus the signal's number, however its processes end then. With an error no process was
// started, or none is left. The end of the context ends a job only before its processes are
// started. Errors: ErrHosts, ErrNoDaemon, ErrProgram, ErrProvider, ErrUser, those of package
// attach.
func Run(ctx context.Context, o Options) (code int, err error) {
	var mu sync.Mutex
	said := map[string]bool{} // of several hosts on this machine each has the same to say
	o.note = func(text string) {
		mu.Lock()
		defer mu.Unlock()
		if !said[text] {
			fmt.Fprintln(o.Stderr, "funet:", text)
		}
		said[text] = true
	}
	if o.Nodes < 1 || o.Nodes > attach.MaxNodes {
		return 0, fmt.Errorf("-n %d: use 1 to %d", o.Nodes, attach.MaxNodes)
	}
	if o.Restarts < 0 || o.Restarts > MaxRestarts || o.Restarts > 0 && o.Once {
		return 0, fmt.Errorf("%d restarts: use 0 to %d, and none of a program that starts the nodes itself",
			o.Restarts, MaxRestarts)
	}
	o.Grace = cmp.Or(o.Grace, DefaultGrace)
	defer o.finish()
	if err := o.prepare(); err != nil {
		return 0, err
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
			break // it is looked for where it is started
		}
		err := h.find(o.Program, o.OFI)
		if errors.Is(err, ErrProgram) || errors.Is(err, ErrProvider) {
			err = fmt.Errorf("%v: %w", h, err)
		}
		if err != nil {
			return 0, err
		}
	}
	token := attach.NewToken()
	gid, cards, err := makeJob(hosts, o.Nodes, attach.JobRequest{GID: o.GID, Token: token}, o.Cards, o.Profile)
	if err != nil {
		return 0, err
	}
	if o.Cards == AutoCards && (o.TellCards || cards.wanted && !cards.direct) {
		o.note(cards.String())
	}
	j := newRunning(&o, hosts)
	if o.Once {
		h, err := newHere(o.here(), &o)
		if err != nil {
			return 0, err
		}
		defer h.close()
		if err := h.find(o.Program, o.OFI); err != nil {
			return 0, err
		}
		j.hosts = []host{h}
	}
	if err := j.start(startOrder{Once: o.Once, OFI: o.OFI, Direct: cards.direct,
		OneSocket: len(o.Hosts) == 0 || o.Socket != "", Nodes: o.Nodes, GID: gid, Token: token.Text(), Program: raw(o.Program),
		Args: texts[raw](o.Args), Env: texts[raw](o.Env), Restarts: o.Restarts}); err != nil {
		return 0, err
	}
	if !stop() {
		return 0, ctx.Err()
	}
	code = j.wait()
	return code, j.unwritten()
}

// reach returns the hosts, at most one for each node. With an error those reached so far.
func (o *Options) reach() (hosts []host, err error) {
	names, begin := o.Sockets, newHere
	if len(o.Hosts) > 0 {
		names, begin = o.Hosts, newRemote
	}
	for _, name := range names[:min(len(names), o.Nodes)] {
		h, err := begin(name, o)
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

// here returns FUNET_SOCKET of a program that is started once.
func (o *Options) here() string {
	if len(o.Sockets) > 0 {
		return strings.Join(o.Sockets[:min(len(o.Sockets), o.Nodes)], ":")
	}
	return cmp.Or(o.Socket, os.Getenv(attach.SocketVariable), attach.DefaultSocket)
}

// running is a job whose processes run.
type running struct {
	o     *Options
	hosts []host
	ends  chan end // has room for all
	// broken passes on the first error of writing the nodes' output. failure holds that error.
	broken  chan error
	failure error
	// of holds what all nodes have in common. stdout and stderr are the streams they print to.
	of             startOrder
	stdout, stderr *output
	alive          int // processes, and starts under way
	code           int
	lost           map[host]bool
	lives          lives
	absence        absence
	jobHosts       []host // hosts that made the group
	ended          bool   // by a signal from outside
	ending         bool   // for any reason: no node is started again
	// interrupts counts SIGINT. over fires when the remaining are killed; nil: not set.
	interrupts int
	over       <-chan time.Time
}

type end struct {
	node int
	status
}

func newRunning(o *Options, hosts []host) *running {
	j := &running{o: o, hosts: hosts, jobHosts: hosts, ends: make(chan end, o.Nodes), broken: make(chan error, 1),
		lost: map[host]bool{}, lives: newLives(o.Nodes)}
	j.stdout, j.stderr = &output{to: o.Stdout, broken: j.broken}, &output{to: o.Stderr, broken: j.broken}
	return j
}

// start starts all processes. After a failure, closing the hosts leaves no process.
func (j *running) start(of startOrder) error {
	j.of = of
	processes := j.o.Nodes
	if j.o.Once {
		processes = 1
	}
	for i := range processes {
		if err := j.startNode(i, 0); err != nil {
			return err
		}
		j.alive++
	}
	return nil
}

// startNode starts a node's first process, or a later one.
func (j *running) startNode(i, life int) error {
	n := node{startOrder: j.of}
	n.Number, n.Life = i, life
	n.stdout, n.stderr = j.stdout.node(i, j.o.Label && !j.o.Once), j.stderr.node(i, j.o.Label && !j.o.Once)
	n.ended = func(s status) { j.ends <- end{i, s} }
	if i == 0 && life == 0 {
		n.stdin = j.o.Stdin
	}
	if err := j.on(i).start(&n); err != nil {
		return fmt.Errorf("starting node %d with %v: %w", i, j.on(i), err)
	}
	return nil
}

func (j *running) on(node int) host { return j.hosts[node%len(j.hosts)] }

// wait passes signals on until all processes have ended and no node waits for a restart. It returns
// the exit code.
func (j *running) wait() int {
	defer j.lives.stop()
	for j.alive > 0 || !j.ending && j.lives.pausing > 0 {
		select {
		case i := <-j.lives.rested:
			j.again(i)
		case s := <-j.lives.started:
			j.startedAgain(s)
		case e := <-j.ends:
			j.alive--
			if e.Lost != "" {
				j.lose(e)
			} else if e.failed() && j.rest(e) {
				continue
			} else if e.failed() && j.code == 0 {
				j.code = e.exitCode()
				if j.unwritten() != nil {
					j.end(syscall.SIGTERM)
					continue
				}
				j.say("node %d with %v: %v%s%s", e.node, j.on(e.node), e.status, j.lives.usedUp(e.node), j.others())
				j.end(syscall.SIGTERM)
			}
			if !e.failed() {
				j.endedWell(e.node)
			}
		case <-j.absence.look:
			j.lookForAbsent()
		case nodes := <-j.absence.found:
			j.foundAbsent(nodes)
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

// lose reports a lost host, once. Other nodes fail because of it, even those that noticed first, so
// the loss gives the exit code. It does not if the job was ended by a signal from outside, or
// because its output is not read.
func (j *running) lose(e end) {
	h := j.on(e.node)
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

// unwritten returns the error of writing the nodes' output, or nil. With such an error the nodes'
// own ends tell nothing: they notice only that their output is not read any more.
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

// others returns a remark about the remaining nodes, which are ended, or "".
func (j *running) others() string {
	left := j.alive
	if !j.ending {
		left += j.lives.pausing
	}
	if left == 0 {
		return ""
	}
	return fmt.Sprintf("; ending the other %d", left)
}

// say prints a line of the launcher.
func (j *running) say(format string, args ...any) {
	fmt.Fprintf(j.o.Stderr, "funet: "+format+"\n", args...)
}

func (j *running) pass(s os.Signal) {
	n, ok := s.(syscall.Signal)
	switch {
	case !ok:
		return
	case n != syscall.SIGINT && n != syscall.SIGTERM && n != syscall.SIGHUP:
		j.all(n)
		if n == syscall.SIGTSTP && j.o.Suspend != nil {
			j.o.Suspend()
			j.all(syscall.SIGCONT)
		}
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
	j.ending = true
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
