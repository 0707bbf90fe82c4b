package launch

// This file is a host behind ssh, or another program that reaches it: the host's agent carries out the launcher's
// requests.

import (
	"errors"
	"fmt"
	"io"
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

// farewell is how long the agent has to end what it started, before ssh is killed.
const farewell = 10 * time.Second

// mostNamed bounds how many nodes of a lost host are named.
const mostNamed = 16

// remote is another host.
type remote struct {
	name    string
	thread  *thread
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	out     io.Closer // what it says
	speaker speaker
	said    *tail // on standard error, by ssh or by the agent
	answers chan answer
	fed     chan struct{}
	ended   chan struct{}          // closed when the connection has ended
	why     string                 // it has, after that
	silent  atomic.Pointer[string] // why it was given up; nil: it was not

	mu    sync.Mutex
	nodes map[int]*node // that have not ended

	giveUp func() // watches whether the host is silent; nil: it does already, or nobody is to
}

// newRemote starts what reaches a host. Whether it gets there shows at the first order. Errors: ErrHosts.
func newRemote(name string, o *Options) (*remote, error) {
	if name == "" || strings.HasPrefix(name, "-") {
		return nil, fmt.Errorf("--hosts: %w: %q is no host", ErrHosts, name)
	}
	words, timeout := o.reachWith(name), o.HostTimeout
	t, err := newThread(nil)
	if err != nil {
		return nil, err
	}
	r := &remote{name: name, thread: t, said: &tail{}, answers: make(chan answer, 1), fed: make(chan struct{}, 1),
		ended: make(chan struct{}), nodes: map[int]*node{}}
	r.cmd = exec.Command(words[0], words[1:]...)
	r.cmd.Stderr = r.said
	r.cmd.WaitDelay = time.Second // for what still has it open
	// The terminal's Ctrl-C is for the launcher, and is passed on.
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	out, err := r.cmd.StdoutPipe()
	switch {
	case err != nil:
	case timeout > 0:
		var passed *os.File
		if r.stdin, passed, err = r.relay(timeout); err == nil {
			defer passed.Close()
			r.cmd.Stdin = passed
		}
	default:
		r.stdin, err = r.cmd.StdinPipe()
	}
	if err == nil {
		err = t.do(r.cmd.Start)
	}
	if err != nil {
		if r.stdin != nil {
			r.stdin.Close()
		}
		t.stop()
		return nil, fmt.Errorf("%w: starting %s to reach %s: %w; install it, or leave out --hosts", ErrHosts, words[0], name, err)
	}
	r.speaker.to = r.stdin
	p := &pulse{from: out}
	if r.out = out; timeout > 0 {
		r.giveUp = func() {
			p.watch(timeout, r.ended, func() {
				why := fmt.Sprintf("nothing was heard from it for %v, and it was given up; it may have died, or the network to it (--host-timeout)", timeout)
				r.silent.Store(&why)
				r.abandon()
			})
		}
	}
	go r.listen(p)
	return r, nil
}

// hostWord stands for the host in Options.Reach.
const hostWord = "{}"

// reachWith returns the words of a command that starts the agent on a host. ssh passes what comes after the
// host's name to a shell there; another program gets the agent's words unchanged.
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

// keepAlive has ssh(1) end when the other end is silent for about so long: three questions go unanswered.
func keepAlive(timeout time.Duration) []string {
	if timeout <= 0 {
		return nil
	}
	every := max(1, int(timeout.Seconds()/3))
	return []string{"-o", fmt.Sprintf("ServerAliveInterval=%d", every), "-o", "ServerAliveCountMax=3"}
}

// quote makes one word of a text for the shell at the other end (POSIX.1-2017, Shell Command
// Language 2.2.2).
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// String names the host.
func (r *remote) String() string { return "host " + r.name }

// listen takes what the agent says until the connection ends.
func (r *remote) listen(out io.Reader) {
	err := hear(out, func(w *word) error {
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
			if r.giveUp != nil { // not before: an agent that never says so is of another version
				go r.giveUp()
				r.giveUp = nil
			}
		case w.Fed:
			select {
			case r.fed <- struct{}{}:
			default:
			}
		}
		return nil
	})
	if err != nil {
		_ = r.cmd.Process.Kill() // what it says makes no sense
		_, _ = io.Copy(io.Discard, out)
	}
	why := r.over(r.cmd.Wait(), err)
	if gaveUp := r.silent.Load(); gaveUp != nil {
		why = *gaveUp
	}
	r.mu.Lock()
	var left []int
	for i := range r.nodes {
		left = append(left, i)
	}
	r.mu.Unlock()
	r.why = why
	close(r.ended)
	slices.Sort(left)
	if len(left) > 1 {
		why += fmt.Sprintf("; with it its %d nodes %v", len(left), left[:min(len(left), mostNamed)])
	}
	for _, i := range left {
		r.end(i, status{Lost: why})
	}
}

// over says why the connection has ended.
func (r *remote) over(exit, heard error) string {
	if heard != nil {
		return fmt.Sprintf("understanding its agent: %v; run the same version of FUNet on all hosts", heard)
	}
	why := r.said.last()
	var e *exec.ExitError
	switch {
	case errors.As(exit, &e) && e.ExitCode() == 127: // of the shell at the other end
		return fmt.Sprintf("funet is not installed there, or not in PATH (%s)", why)
	case why != "":
		return why
	case exit != nil:
		return filepath.Base(r.cmd.Path) + ": " + exit.Error()
	}
	return "its agent has ended"
}

// node returns a node that has not ended, and with take forgets it.
func (r *remote) node(number int, take bool) *node {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.nodes[number]
	if take {
		delete(r.nodes, number)
	}
	return n
}

// end reports the end of a node.
func (r *remote) end(number int, s status) {
	if n := r.node(number, true); n != nil {
		_ = errors.Join(n.stdout.Close(), n.stderr.Close()) // nobody reads, then
		n.ended(s)
	}
}

// ask gives an order and waits for the answer.
func (r *remote) ask(o order) (answer, error) {
	if err := r.speaker.say(o); err == nil {
		select {
		case a := <-r.answers:
			return a, a.err()
		case <-r.ended:
		}
	} else {
		<-r.ended
	}
	return answer{}, fmt.Errorf("%w: host %s: %s", ErrHosts, r.name, r.why)
}

func (r *remote) info() (attach.Info, error) {
	a, err := r.ask(order{Info: true})
	if err == nil && a.Info == nil {
		err = fmt.Errorf("%w: host %s does not say which card it has", ErrHosts, r.name)
	}
	if err != nil {
		return attach.Info{}, err
	}
	return *a.Info, nil
}

func (r *remote) job(j attach.JobRequest) (uint16, error) {
	a, err := r.ask(order{Job: &jobOrder{j.GID, j.Token.Text(), j.Cards}})
	return a.GID, err
}

func (r *remote) free() { _ = r.speaker.say(order{Free: true}) } // a connection that has ended has freed it

func (r *remote) find(program string) error {
	_, err := r.ask(order{Find: program})
	return err
}

func (r *remote) start(n *node) error {
	r.mu.Lock()
	r.nodes[n.Number] = n
	r.mu.Unlock()
	_, err := r.ask(order{Start: &startOrder{
		Number: n.Number, Nodes: n.Nodes, GID: n.GID, Token: n.Token.Text(), Program: n.Program, Args: n.Args, Env: n.Env,
		Input: n.stdin != nil, Life: n.Life, Restarts: n.Restarts,
	}})
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

// feed sends standard input, a piece after the other, until it or the connection ends.
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

// abandon ends ssh, and what it says: another process may have that open too.
func (r *remote) abandon() {
	_ = r.cmd.Process.Kill() // it may have ended
	_ = r.out.Close()
}

func (r *remote) close() {
	r.stdin.Close() // the agent kills what still runs, and ends
	select {
	case <-r.ended:
	case <-time.After(farewell):
		r.abandon()
		<-r.ended
	}
	r.thread.stop()
}

// tail keeps the end of what was written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// longestTail is how much it keeps, in bytes.
const longestTail = 4 << 10

// Write keeps the end.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	t.text = t.text[max(0, len(t.text)-longestTail):]
	return len(b), nil
}

// last is the last line.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.text)), "\n")
	return strings.TrimPrefix(strings.TrimSpace(lines[len(lines)-1]), "funet: ")
}
