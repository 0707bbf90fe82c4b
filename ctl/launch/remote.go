package launch

// This file is a host with its agent, which carries out the launcher's requests. The agent is at
// the other end of ssh, or of another program that reaches the host, or on this machine (here.go).

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/funet/funet/uspace/attach"
)

// AgentCommand is the command of funet that calls Serve.
const AgentCommand = "run-node"

const (
	// farewell bounds the agent's time to end what it started. Then the command is killed.
	farewell = 10 * time.Second
	// slowLogin is the time after which the user hears that the agent has not spoken yet. The
	// launcher waits on, because ssh may be asking for a password.
	slowLogin = 10 * time.Second
)

// mostNamed bounds the number of nodes of a lost host that a message names.
const mostNamed = 16

// remote is a host that is reached by an agent.
type remote struct {
	name    string // in messages
	note    func(string)
	handed  *handing // nil: no program is handed over
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	out     *os.File // the agent's words
	speaker speaker
	mark    string
	printed tail // on standard output before the agent spoke
	said    tail // on standard error, by ssh or by the agent
	spoke   chan struct{}
	answers chan answer
	fed     chan struct{}
	exit    error                  // of the command that reaches the agent
	gone    chan struct{}          // closed when that command has ended
	ended   chan struct{}          // closed when the connection has ended
	why     string                 // reason for that end, set before ended is closed
	silent  atomic.Pointer[string] // reason for giving the host up; nil: it was not

	asking sync.Mutex // held from a question to its answer

	mu    sync.Mutex
	nodes map[int]*node // those that have not ended

	giveUp func() // starts the watch for silence; nil: it was started, or there is no timeout
}

// newHost makes a host whose agent does not run yet.
func newHost(name string, o *Options) *remote {
	mark := rand.Text()
	return &remote{name: name, note: o.note, mark: mark, said: tail{mark: begins(mark)}, spoke: make(chan struct{}),
		answers: make(chan answer, 1),
		fed:     make(chan struct{}, 1), gone: make(chan struct{}), ended: make(chan struct{}), nodes: map[int]*node{}}
}

// newRemote starts the command that reaches a host. The first order shows whether it got there.
// Errors: ErrHosts.
func newRemote(name string, o *Options) (*remote, error) {
	if name == "" || strings.HasPrefix(name, "-") {
		return nil, fmt.Errorf("--hosts: %w: %q is no host", ErrHosts, name)
	}
	words := o.reachWith(name)
	r := newHost("host "+name, o)
	r.cmd = exec.Command(words[0], words[1:]...)
	// The terminal's Ctrl-C is for the launcher, and is passed on.
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := r.open(o.HostTimeout, (*exec.Cmd).Start); err != nil {
		return nil, fmt.Errorf("%w: starting %s to reach %s: %w; %s", ErrHosts, words[0], name, err,
			cureOf(err, "install it, or leave out --hosts"))
	}
	return r, nil
}

// open starts the command that reaches the agent, and talks to it. With a timeout a silent agent is
// given up.
func (r *remote) open(timeout time.Duration, start func(*exec.Cmd) error) (err error) {
	r.cmd.Stderr = &r.said
	r.cmd.WaitDelay = lastOutput // for what still has it open
	out, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer theirs.Close()
	r.out, r.cmd.Stdout = out, theirs
	if timeout > 0 {
		var passed *os.File
		if r.stdin, passed, err = r.relay(timeout); err == nil {
			defer passed.Close()
			r.cmd.Stdin = passed
		}
	} else {
		r.stdin, err = r.cmd.StdinPipe()
	}
	if err == nil {
		err = start(r.cmd)
	}
	if err != nil {
		out.Close()
		if r.stdin != nil {
			r.stdin.Close()
		}
		return err
	}
	r.speaker.to = r.stdin
	p := &pulse{from: out}
	if timeout > 0 {
		r.giveUp = func() {
			p.watch(timeout, r.ended, func() {
				why :=
					fmt.Sprintf("nothing was heard from it for %v, and it was given up; it may have died, or the network to it (--host-timeout)", timeout)
				r.silent.Store(&why)
				r.abandon()
			})
		}
	}
	go r.outlast(p)
	go r.listen(p)
	// a connection that has ended says so at the first question
	_ = r.speaker.say(order{Mark: r.mark})
	return nil
}

// outlast waits for the end of the command that reaches the agent. Another process may hold its
// output open for longer; that one is not waited for when it is silent.
func (r *remote) outlast(p *pulse) {
	r.exit = r.cmd.Wait()
	close(r.gone)
	p.watch(lastOutput, r.ended, func() { r.out.Close() })
}

// hostWord stands for the host's name in Options.Reach.
const hostWord = "{}"

// reachWith returns the words of a command that starts the agent on a host. ssh passes the words
// after the host's name to a shell there; another program gets the agent's words unchanged.
func (o *Options) reachWith(name string) []string {
	agent := []string{"funet", AgentCommand}
	if len(o.Reach) == 0 {
		if o.Socket != "" {
			agent = append(agent, "--socket", quote(o.Socket))
		}
		return append(append([]string{"ssh"}, keepAlive(o.HostTimeout)...), "-T", "--", name, strings.Join(agent, " "))
	}
	if o.Socket != "" {
		agent = append(agent, "--socket", o.Socket)
	}
	words, named := slices.Clone(o.Reach), false
	for i, w := range words {
		if strings.Contains(w, hostWord) {
			words[i], named = strings.ReplaceAll(w, hostWord, name), true
		}
	}
	if !named {
		words = append(words, name)
	}
	return append(words, agent...)
}

// keepAlive returns options that make ssh(1) end when the other end is silent for about the
// timeout: three questions then stay unanswered.
func keepAlive(timeout time.Duration) []string {
	if timeout <= 0 {
		return nil
	}
	every := max(1, int(timeout.Seconds()/3))
	return []string{"-o", fmt.Sprintf("ServerAliveInterval=%d", every), "-o", "ServerAliveCountMax=3"}
}

// quote turns a text into one word for the shell at the other end (POSIX.1-2017, Shell Command
// Language 2.2.2).
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func (r *remote) String() string { return r.name }

// errBye ends the reading of the agent's words.
var errBye = errors.New("the agent has said its last word")

// listen reads the agent's words until the connection ends.
func (r *remote) listen(from *pulse) {
	go r.tellSlow()
	lines := linesOf(from)
	spoke, err := skipTo(lines, r.mark, &r.printed)
	if spoke {
		close(r.spoke)
		err = hear(lines, r.take)
	}
	if errors.Is(err, os.ErrClosed) { // by abandon or outlast
		err = nil
	}
	patience := farewell
	switch {
	case errors.Is(err, errBye):
		err, patience = nil, lastOutput
	case err != nil:
		_ = r.cmd.Process.Kill() // what it says makes no sense
	}
	r.out.Close()
	r.stdin.Close() // the agent ends with that
	select {
	case <-r.gone:
	case <-time.After(patience):
		_ = r.cmd.Process.Kill()
		<-r.gone
	}
	why := r.over(spoke, err)
	if gaveUp := r.silent.Load(); gaveUp != nil {
		why = *gaveUp
	}
	r.mu.Lock()
	left := slices.Sorted(maps.Keys(r.nodes))
	r.mu.Unlock()
	r.why = why
	close(r.ended)
	if len(left) > 1 {
		why += fmt.Sprintf("; with it its %d nodes %v", len(left), left[:min(len(left), mostNamed)])
	}
	for _, i := range left {
		r.end(i, status{Lost: why})
	}
}

func (r *remote) take(w *word) error {
	switch {
	case w.Answer != nil:
		select {
		case r.answers <- *w.Answer:
		default:
			return errors.New("an answer that nobody has asked for")
		}
	case w.Output != nil:
		if n := r.node(w.Output.Node, false); n != nil {
			to := n.stdout
			if w.Output.Error {
				to = n.stderr
			}
			_, err := to.Write(w.Output.Data)
			return err
		}
	case w.Ended != nil:
		r.end(w.Ended.Node, w.Ended.status)
	case w.Alive:
		// not before: what comes before its first sign of life is not bounded in time
		if r.giveUp != nil {
			go r.giveUp()
			r.giveUp = nil
		}
	case w.Fed:
		select {
		case r.fed <- struct{}{}:
		default:
		}
	case w.Bye:
		return errBye
	}
	return nil
}

// tellSlow tells the user that the agent has not spoken for slowLogin.
func (r *remote) tellSlow() {
	select {
	case <-r.spoke:
	case <-r.ended:
	case <-time.After(slowLogin):
		r.note(fmt.Sprintf("%s: its agent has not spoken for %v; its login may wait for something", r.name, slowLogin))
	}
}

// over returns the reason for the end of the connection. Text printed before the agent spoke is a
// reason only if the agent never spoke.
func (r *remote) over(spoke bool, heard error) string {
	why := r.said.last(spoke)
	var e *exec.ExitError
	switch {
	case heard != nil && spoke:
		return fmt.Sprintf("understanding its agent: %v; run the same version of FUNet on all hosts", heard)
	case heard != nil:
		return heard.Error()
	case !spoke && errors.As(r.exit, &e) && e.ExitCode() == 127: // of the shell at the other end
		return fmt.Sprintf("funet is not installed there, or not in PATH (%s)", why)
	case why != "":
		return why
	case !spoke && r.printed.last(false) != "":
		return fmt.Sprintf("its login printed %q and ended without an agent", r.printed.last(false))
	case r.exit != nil && !errors.Is(r.exit, exec.ErrWaitDelay):
		return filepath.Base(r.cmd.Path) + ": " + r.exit.Error()
	}
	return "its agent has ended"
}

// node returns a node that has not ended, and with take forgets the node.
func (r *remote) node(number int, take bool) *node {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.nodes[number]
	if take {
		delete(r.nodes, number)
	}
	return n
}

func (r *remote) end(number int, s status) {
	if n := r.node(number, true); n != nil {
		_ = errors.Join(n.stdout.Close(), n.stderr.Close()) // nobody reads, then
		n.ended(s)
	}
}

func (r *remote) ask(o order) (answer, error) {
	r.asking.Lock()
	defer r.asking.Unlock()
	if err := r.speaker.say(o); err == nil {
		select {
		case a := <-r.answers:
			for _, n := range a.Notes {
				r.note(string(n))
			}
			return a, a.err()
		case <-r.ended:
		}
	} else {
		<-r.ended
	}
	return answer{}, fmt.Errorf("%w: %s: %s", ErrHosts, r.name, r.why)
}

func (r *remote) info() (attach.Info, error) {
	a, err := r.ask(order{Info: true})
	if err == nil && a.Info == nil {
		err = fmt.Errorf("%w: %s does not say which card it has", ErrHosts, r.name)
	}
	if err != nil {
		return attach.Info{}, err
	}
	return *a.Info, nil
}

func (r *remote) job(j attach.JobRequest) (uint16, error) {
	a, err := r.ask(order{Job: &jobOrder{j.GID, j.Token.Text(), j.Cards, j.Direct}})
	return a.GID, err
}

func (r *remote) free() {
	_ = r.speaker.say(order{Free: true}) // a connection that has ended has freed it
}

func (r *remote) find(program string, ofi bool) error {
	o := &findOrder{Program: raw(program), OFI: ofi}
	if h := r.handed; h != nil {
		o.Handed, o.Script = raw(h.path), h.script
	}
	_, err := r.ask(order{Find: o})
	if r.handed != nil && r.handed.absent != nil && errors.Is(err, ErrProgram) {
		err = r.handed.absent // a user who may not look cannot say that it is not there
	}
	return err
}

func (r *remote) absent() ([]int, int, error) {
	a, err := r.ask(order{Absent: true})
	return a.Absent, a.Attached, err
}

func (r *remote) start(n *node) error {
	r.mu.Lock()
	r.nodes[n.Number] = n
	r.mu.Unlock()
	n.Input = n.stdin != nil
	_, err := r.ask(order{Start: &n.startOrder})
	if err != nil && r.node(n.Number, true) == nil {
		return nil // the connection has ended, and n.ended was told so
	}
	if err != nil {
		return err
	}
	if n.stdin != nil {
		go r.feed(n.stdin)
	}
	return nil
}

// feed sends standard input piece by piece, until the input or the connection ends.
func (r *remote) feed(from io.Reader) {
	piece := make([]byte, inputPiece)
	for {
		n, err := from.Read(piece)
		if n > 0 {
			if r.speaker.say(order{Input: &inputOrder{Data: piece[:n]}}) != nil {
				return
			}
			select {
			case <-r.fed:
			case <-r.ended:
				return
			}
		}
		if err != nil {
			_ = r.speaker.say(order{Input: &inputOrder{End: true}})
			return
		}
	}
}

func (r *remote) signal(s syscall.Signal) { _ = r.speaker.say(order{Signal: &s}) } // as free

// abandon closes ssh's output, which another process may hold open too, and kills ssh. In this
// order nothing is heard from an agent that the kill sets going again. The agent of this machine
// ends by itself.
func (r *remote) abandon() {
	_ = r.out.Close()
	if r.cmd.Path != itself {
		_ = r.cmd.Process.Kill() // it may have ended
	}
}

func (r *remote) close() {
	r.stdin.Close() // the agent kills what still runs, and ends
	select {
	case <-r.ended:
	case <-time.After(farewell):
		r.abandon()
		<-r.ended
	}
}
