package card

// This file watches the card's interfaces in a thread of its own, beside the card. Once a second
// the thread asks each port whether it works (afxdp.Port.Watch, which attaches the NIC program anew
// if needed). It opens a port anew if Watch asks for it. The card's goroutine does not wait for
// that, which takes seconds when a driver resets its link. Meanwhile its frames to that interface
// are lost, and sent again.
//
//	the minder: Watch says: open anew ──> closes it, opens another, tries again ──┐
//	the card:                           └─> takes the port out, steps again       │
//	                                        puts the other in <───────────────────┘
//
// Fault reports a problem that is not mended. The error of a call that waits for a peer behind the
// interface reports it, too.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/port/afxdp"
	"github.com/funet/funet/uspace/port/hello"
)

// ErrInterface reports an interface that does not work; faults wrap it.
var ErrInterface = errors.New("the interface does not work")

// mindEvery is the time between two looks at a port, and between two attempts to open one.
const mindEvery = time.Second

// socket is the place of an interface in the card. That of a direct port is empty.
type socket struct {
	plug   *hello.Port
	config afxdp.Config
	out    bool // the port has been taken out
}

// minder is the thread.
type minder struct {
	card  *Card
	tell  func(line string)
	until context.Context
	end   context.CancelFunc
	ended chan struct{}
	wish  atomic.Pointer[wish] // of the card's goroutine; nil: none

	opening atomic.Bool   // a port is being opened
	ports   []*afxdp.Port // that the minder looks at; nil: it has closed the port

	mu     sync.Mutex
	faults []error // of each interface; nil: none is known
}

// wish asks to take a port out of a socket, or to put another in.
type wish struct {
	at   int
	port *afxdp.Port // nil: take out
	done chan struct{}
}

// mind begins to mind the ports, in the network namespace of the calling thread.
func (k *Card) mind(tell func(string)) error {
	if tell == nil {
		tell = func(string) {}
	}
	space, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return fmt.Errorf("finding the network namespace of the interfaces: %w", err)
	}
	m := &minder{card: k, tell: tell, ended: make(chan struct{}), ports: slices.Clone(k.ports),
		faults: make([]error, len(k.ports))}
	m.until, m.end = context.WithCancel(context.Background())
	ready := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // until the goroutine ends, and the thread with it
		defer close(m.ended)
		defer space.Close()
		err := enter(space)
		ready <- err
		if err == nil {
			m.life()
		}
	}()
	if err := <-ready; err != nil {
		return fmt.Errorf("entering the network namespace of the interfaces: %w", err)
	}
	k.minder = m
	return nil
}

// enter has the thread enter a network namespace, if it is in another.
func enter(space *os.File) error {
	here, err := os.Stat("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	there, err := space.Stat()
	if err != nil || os.SameFile(here, there) {
		return err
	}
	return unix.Setns(int(space.Fd()), unix.CLONE_NEWNET)
}

// stop ends the thread and waits for its end, which takes as long as a system call. It does not
// wait long for a port that is being opened. The thread closes that port when it is open, and
// touches nothing else.
func (m *minder) stop() {
	if m == nil {
		return
	}
	m.end()
	for {
		select {
		case <-m.ended:
			return
		case <-time.After(mindEvery / 2):
			if m.opening.Load() {
				return
			}
		}
	}
}

func (m *minder) life() {
	t := time.NewTicker(mindEvery)
	defer t.Stop()
	for now := time.Now(); ; {
		for at := 0; at < len(m.ports) && m.until.Err() == nil; at++ {
			m.look(at, now)
		}
		select {
		case now = <-t.C:
		case <-m.until.Done():
			return
		}
	}
}

func (m *minder) look(at int, now time.Time) {
	p := m.ports[at]
	if p == nil {
		m.open(at)
		return
	}
	found := p.Watch(now)
	if found.Said != "" {
		m.tell(found.Said)
	}
	switch {
	case found.Reopen:
		c := &m.card.sockets[at].config
		c.Attach, c.Bind = found.Attach, found.Bind
		m.fault(at, fmt.Errorf("%w: %s", ErrInterface, found.Said))
		if !m.ask(&wish{at: at}) {
			return
		}
		m.ports[at] = nil
		if err := p.Close(); err != nil {
			m.tell(fmt.Sprintf("closing interface %s: %v", c.Interface, err))
		}
		m.open(at)
	case found.Said != "" && !found.Mended:
		m.fault(at, fmt.Errorf("%w: %s", ErrInterface, found.Said))
	case found.Said != "" || m.faultOf(at) != nil && p.Works():
		m.fault(at, nil)
	}
}

// open opens a port and has the card plugged into it.
func (m *minder) open(at int) {
	s := &m.card.sockets[at]
	m.opening.Store(true)
	defer m.opening.Store(false)
	p, err := afxdp.Open(s.config)
	if err == nil && p.FrameSize() < s.plug.FrameSize() {
		err = errors.Join(fmt.Errorf("its frames have become too short: %d bytes, the card's have %d", p.FrameSize(),
			s.plug.FrameSize()), p.Close())
	}
	if err != nil {
		err = fmt.Errorf("%w: interface %s could not be opened again: %w", ErrInterface, s.config.Interface, err)
		if m.fault(at, err) {
			m.tell(err.Error())
		}
		return
	}
	if !m.ask(&wish{at: at, port: p}) {
		_ = p.Close() // the card is being closed, too
		return
	}
	m.ports[at] = p
	m.fault(at, nil)
	m.tell(fmt.Sprintf("interface %s is opened again: %v", s.config.Interface, p.Info()))
}

// fault notes the problem of an interface, or nil for none, and reports whether that is news.
func (m *minder) fault(at int, err error) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.faults[at]
	m.faults[at] = err
	return err != nil && (was == nil || was.Error() != err.Error())
}

// ask has the card's goroutine fulfil a wish, and reports whether it did. A port that was taken out
// is no longer the card's. ask may wait for a program that rarely lets the card run; such a card
// sends nothing meanwhile either.
func (m *minder) ask(w *wish) bool {
	w.done = make(chan struct{})
	m.wish.Store(w)
	m.card.ask()
	select {
	case <-w.done:
		return true
	case <-m.until.Done():
	}
	select { // both may be
	case <-w.done:
		return true
	default:
		return false
	}
}

// fulfil fulfils the minder's wish. The card may hold frames of a port that was taken out until its
// next step. That step has passed when fulfil is called the second time.
func (k *Card) fulfil(w *wish) {
	s := &k.sockets[w.at]
	switch {
	case w.port != nil:
		s.plug.Plug(w.port)
		s.out = false
		k.ports[w.at] = w.port
		if k.hello != nil {
			k.hello.Prove(w.at)
		}
	case !s.out:
		s.out = true
		s.plug.Plug(nil)
		k.watchPorts()
		k.asked.Store(true)
		return
	}
	k.watchPorts()
	k.minder.wish.Store(nil)
	close(w.done)
}

func (k *Card) watchPorts() {
	k.live = k.live[:0]
	k.sockfds = append(k.sockfds[:0], unix.PollFd{Fd: int32(k.alarm.FD()), Events: unix.POLLIN})
	for at, p := range k.ports {
		if !k.sockets[at].out {
			k.live = append(k.live, p)
			for _, fd := range p.FDs() {
				k.sockfds = append(k.sockfds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
			}
		}
	}
	k.loop.watch(k.sockfds)
}

// faultOf returns the known problem of an interface.
func (m *minder) faultOf(at int) error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.faults[at]
}
