package launch

// This file is the agent's work on its host, with the daemon's socket and with its own processes.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/attach"
)

// answerWithin bounds the wait for a daemon's answer. A daemon answers within milliseconds unless
// the machine is very busy.
const answerWithin = 10 * time.Second

// local is this machine, or a host of a lab on it.
type local struct {
	socket string
	user   string   // user of this agent; "": the launcher's user
	handed *os.File // program that was handed over; nil: none was
	path   string   // its path
	script bool     // it is a script
	// shared is the folder of the provider of libfabric that was handed over; nil: none was.
	// provider is where the provider was found.
	shared   *os.File
	provider string
	notes    []raw // for the user of funet, with the next answer

	talk   sync.Mutex    // guards the fields below: one request at a time
	conn   *net.UnixConn // the job lives as long as this connection
	gid    uint16        // of the job
	buffer []byte
	asks   context.Context // ends a request of keep.go when the job is freed; nil: none

	// letGo ends the keeping of a job of direct ports (keep.go); nil: none is kept. It belongs to
	// the agent's goroutine.
	letGo context.CancelFunc

	// mu guards processes and ending, because signals and burials come from other goroutines. It is
	// held while a process starts.
	mu        sync.Mutex
	processes []*process // not waited for yet
	ending    bool       // a signal that ends the job was sent
	running   sync.WaitGroup
	orphans   *orphans
}

// newLocal prepares the use of a daemon, and adopts orphans.
func newLocal(which Agent) (*local, error) {
	l := &local{socket: which.Socket, user: which.User, buffer: make([]byte, attach.MaxMessage)}
	if which.Handed {
		unix.CloseOnExec(handedOver)
		l.handed = os.NewFile(handedOver, "program")
	}
	if fd := which.Provider; fd > 0 {
		unix.CloseOnExec(fd)
		l.shared = os.NewFile(uintptr(fd), "provider")
	}
	var err error
	l.orphans, err = adopt(l)
	return l, err
}

func (l *local) note(text string) { l.notes = append(l.notes, raw(text)) }
func (l *local) String() string   { return "the daemon at " + l.socket }

// here returns the name of this host, because a job has several hosts.
func here() string {
	if name, err := os.Hostname(); err == nil {
		return name
	}
	return "this host"
}

func (l *local) connect() error {
	if l.conn != nil {
		return nil
	}
	var err error
	l.conn, err = attach.Dial(l.until(), l.socket, answerWithin)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ECONNREFUSED):
		return fmt.Errorf("%w at %s on %s; start funid, give the socket of one with --socket, or use a lab with --lab",
			ErrNoDaemon, l.socket, here())
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("connecting to %s: %w; all users need access to its folder", l.socket, unix.EACCES)
	}
	return fmt.Errorf("connecting to the daemon: %w", err)
}

// ask sends a request and returns a copy of the answer.
func (l *local) ask(request []byte) ([]byte, error) {
	l.talk.Lock()
	defer l.talk.Unlock()
	return l.askLocked(request, answerWithin)
}

// askLocked is ask, with a bound on the wait for the answer. The caller holds talk.
func (l *local) askLocked(request []byte, within time.Duration) ([]byte, error) {
	if err := l.connect(); err != nil {
		return nil, err
	}
	conn := l.conn
	err := conn.SetDeadline(time.Now().Add(within))
	// the past: whatever waits ends
	defer context.AfterFunc(l.until(), func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if err == nil {
		err = attach.Send(l.conn, request)
	}
	var answer []byte
	if err == nil {
		answer, _, err = attach.Receive(l.conn, l.buffer, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", l, err)
	}
	return slices.Clone(answer), nil
}

// askJSON asks for a document.
func (l *local) askJSON(k attach.Kind, document any) error {
	request, err := attach.EncodeBody(k, nil)
	if err != nil {
		return err
	}
	answer, err := l.ask(request)
	if err != nil {
		return err
	}
	body, err := attach.DecodeBody(answer, k|attach.AnswerBit)
	if err == nil {
		err = json.Unmarshal(body, document)
	}
	if err != nil {
		return fmt.Errorf("asking %s: %w", l, err)
	}
	return nil
}

func (l *local) info() (i attach.Info, err error) {
	err = l.askJSON(attach.KindInfo, &i)
	// it ended while its socket still took connections
	if errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE) {
		err = fmt.Errorf("%w at %s on %s any more: it ended, or refused at once, without an answer; start funid, or try again",
			ErrNoDaemon, l.socket, here())
	}
	return i, err
}

func (l *local) job(r attach.JobRequest) (uint16, error) {
	request, err := r.Encode()
	if err != nil {
		return 0, err
	}
	answer, err := l.ask(request)
	if err != nil {
		return 0, err
	}
	a, err := attach.DecodeJobAnswer(answer)
	l.talk.Lock()
	defer l.talk.Unlock()
	l.gid = a.GID
	if err == nil && r.Direct {
		r.GID = a.GID
		l.keep(r)
	}
	return a.GID, err
}

// absent asks the daemon for the nodes of the job that have not attached, and for the number of
// nodes that are attached.
func (l *local) absent() (nodes []int, attached int, err error) {
	var status struct {
		Jobs []struct {
			GID      uint16 `json:"gid"`
			Attached int    `json:"attached"`
			Absent   []int  `json:"absent"`
		} `json:"jobs"`
	}
	err = l.askJSON(attach.KindStatus, &status)
	for _, j := range status.Jobs {
		if j.GID == l.gid {
			return j.Absent, j.Attached, err
		}
	}
	return nil, 0, err
}

func (l *local) free() {
	if l.letGo != nil {
		l.letGo() // first: a request may be under way
		l.letGo = nil
	}
	l.talk.Lock()
	defer l.talk.Unlock()
	l.asks = nil
	l.hangUp()
}

func (l *local) hangUp() {
	if l.conn != nil {
		l.conn.Close()
		l.conn = nil
	}
}

func (l *local) find(o *findOrder) error {
	l.path, l.script = string(o.Handed), o.Script
	_, err := l.program(string(o.Program))
	if err == nil && o.OFI {
		err = l.findProvider()
	}
	return err
}

func (l *local) start(n *node) error {
	what, err := l.program(string(n.Program))
	if err != nil {
		return err
	}
	dir, err := l.folder()
	if err != nil {
		return err
	}
	p := &process{node: n}
	l.mu.Lock()
	if err = p.start(&what, dir, n.environment(l.socket, l.user != "", l.provider)); err == nil {
		l.processes = append(l.processes, p)
		if l.ending {
			p.signal(syscall.SIGKILL)
		}
	}
	l.mu.Unlock()
	if err != nil {
		return l.notStarted(string(n.Program), err)
	}
	l.running.Go(func() {
		p.awaitEnd()
		l.mu.Lock()               // so that no signal meets another process with its number
		p.signal(syscall.SIGKILL) // the rest of its group
		p.over = true
		l.mu.Unlock()
		s := p.wait()
		l.mu.Lock()
		l.processes = slices.DeleteFunc(l.processes, func(q *process) bool { return q == p })
		l.mu.Unlock()
		n.ended(s)
	})
	return nil
}

func (l *local) signal(s syscall.Signal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ending = l.ending || s == syscall.SIGINT || s == syscall.SIGTERM || s == syscall.SIGHUP || s == syscall.SIGKILL
	for _, p := range l.processes {
		if !p.over {
			p.signal(s)
		}
	}
}

// close kills the processes that still run, with all descendants, waits and frees the group.
func (l *local) close() {
	l.signal(syscall.SIGKILL)
	l.running.Wait()
	l.orphans.end()
	l.free()
}
