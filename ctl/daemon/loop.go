package daemon

// This file is the card's thread. It steps the engine, carries out the commands of connections
// between two steps, and wakes processes. Nothing else touches engine and ports.
//
// Connections put commands into a mailbox, in which accounts take turns (mailbox.go). The thread
// carries out at most turnCommands between two steps, and begins none once turnTime has passed.

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/pin"
	"github.com/funet/funet/ctl/ports"
	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port/afxdp"
	"github.com/funet/funet/uspace/port/hello"
	"github.com/funet/funet/uspace/turns"
	"github.com/funet/funet/uspace/wait"
)

const (
	// turnCommands bounds the commands between two steps. After turnTime no further command begins.
	turnCommands = 4
	turnTime     = int64(20 * time.Microsecond)
	glance       = 16 // how many idle steps may use the time of one look at the clock
)

// command is work for the card's thread. Its panic ends connection and attachment (fault.go).
type command struct {
	do         func()
	connection *connection // whose request it is part of; nil: the daemon's own
	attachment *attachment // that it works on; nil: none, or none yet
	done       chan struct{}
	err        error         // why it was not completed; valid after done
	took       time.Duration // processor time of the thread; valid after done
}

func (c *command) account() int64 {
	if c.connection == nil {
		return ownAccount
	}
	return int64(c.connection.peer.account)
}

// loop is the card's thread.
type loop struct {
	card  *engine.Card
	start time.Time
	// hello says hello for the card; heard signals that it has news.
	hello *hello.Station
	heard chan struct{}
	post  *post // nil: there are no direct ports, and no notices

	mailbox mailbox
	bell    int // eventfd: wakes the thread for the mailbox
	// closing is held to ring, and to close the bell: another descriptor may then get its number.
	closing sync.RWMutex
	asleep  atomic.Bool // the thread sleeps or is about to
	// ports counts direct ports, whose processes may want the thread's processor.
	ports atomic.Int32
	begin chan bool // takes one value: whether the thread is to run
	waits bool      // it waits for begin
	ended chan struct{}

	// byBell finds the attachment of a context by its bell. All bells that were ever given out are
	// below belled.
	byBell [funi.MaxContexts]*attachment
	belled int
	calls  uint64 // how often processes were called
	// byPlace finds an attachment by its group and node. faulted counts the card's reports about
	// all of them (accesses.go).
	byPlace map[place]*attachment
	faulted report.Faults

	memory  *memory
	spoil   func(*region)
	torn    *tear // cause of an aborted turn (fault.go)
	mending bool  // it mends an aborted turn
	// doing is the command that is being carried out. began is the thread's processor time at its
	// beginning, and beside the number of accounts that then waited or rested.
	doing  *command
	began  time.Duration
	beside int64
	faults atomic.Uint64
	report func(failure) // reports a panic; it does not wait
	tid    atomic.Int32

	polling    config.Polling
	links      []*link
	epoll      int
	events     [64]unix.EpollEvent
	polled     [1]unix.PollFd // epoll, for poll(2)
	wait       wait.Waiter
	worked     bool // in the last turn
	moderation moderation
	now        int64
	turns      uint64
	stop       bool
	share      *turns.Turns // the turns of groups; nil: all contexts are on the card at once
	traces     []*tracing   // the traces that go on
	// see takes the frames of a capture; nil: there is no capture.
	see func(port int, frame []byte, fate engine.Fate)
}

// newLoop makes the thread's descriptors. prepare makes the thread, and run starts it.
func newLoop(card *engine.Card, links []*link, polling config.Polling) (_ *loop, err error) {
	l := &loop{card: card, links: links, start: time.Now(), polling: polling, wait: wait.New(wait.Daemon), epoll: -1,
		bell: -1, byPlace: map[place]*attachment{},
		begin: make(chan bool, 1), ended: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("making the card's thread: %w", err), l.close())
		}
	}()
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	l.polled[0] = unix.PollFd{Fd: int32(l.epoll), Events: unix.POLLIN}
	if l.bell, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, err
	}
	if err = l.watch(l.bell, unix.EPOLLIN|unix.EPOLLET); err != nil {
		return nil, err
	}
	for _, k := range links {
		if err = l.plug(k, k.port); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *loop) plug(k *link, p *afxdp.Port) error {
	for _, fd := range p.FDs() {
		if err := l.watch(fd, unix.EPOLLIN); err != nil {
			return err
		}
	}
	k.plugged = p
	k.hello.Plug(p)
	if l.hello != nil { // nil: it is about to be made
		l.hello.Prove(k.at)
	}
	return nil
}

// unplug takes the port out, because its descriptors would keep the thread from sleeping. It has
// the card forget the frames that the port lent.
func (l *loop) unplug(k *link) {
	for _, fd := range k.plugged.FDs() {
		l.unwatch(fd)
	}
	k.plugged = nil
	k.hello.Plug(nil)
	l.now = l.clock()
	l.step()
}

// watch lets a descriptor end the thread's sleep. Eventfds are edge-triggered, so they need not be
// read, and one that its process filled or made blocking does no harm. The kernel forgets a
// descriptor when it is closed everywhere, so call unwatch for one that a process also has.
func (l *loop) watch(fd int, events uint32) error {
	return unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

func (l *loop) unwatch(fd int) { _ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, fd, nil) }

// do has the card's thread carry out a command and waits for it. When the thread has ended it
// returns ErrEnded, and the command was not carried out. The thread itself must not call it.
func (l *loop) do(f func()) error { return l.carryOut(&command{do: f}) }

// ask is do for a command that may fail.
func (l *loop) ask(f func() error) (err error) {
	ended := l.do(func() { err = f() })
	return errors.Join(ended, err)
}

// carryOut does the same for any command, which its account pays for. If the command was torn by a
// panic the error wraps errTorn.
func (l *loop) carryOut(c *command) error {
	c.done = make(chan struct{})
	l.mailbox.put(c)
	l.ring()
	select {
	case <-c.done:
		c.settle()
		return c.err
	case <-l.ended:
	}
	select {
	case <-c.done: // it was among the last
		return c.err
	default:
		return ErrEnded
	}
}

// settle charges the account of a command that has been carried out.
func (c *command) settle() {
	if k := c.connection; k != nil && k.purse != nil {
		k.d.pay(k.purse, costFactor*c.took)
	}
}

// onCard has the card's thread carry out a command of the connection, on an attachment or on none,
// and waits for it. Any goroutine may call it: a job's end ends the contexts of other connections.
func (c *connection) onCard(a *attachment, f func()) error {
	return c.d.loop.carryOut(&command{do: f, connection: c, attachment: a})
}

// askCard is onCard for a command that may fail.
func (c *connection) askCard(a *attachment, f func() error) (err error) {
	ended := c.onCard(a, func() { err = f() })
	return errors.Join(ended, err)
}

// ring wakes the thread if it sleeps. The thread sets asleep before it looks into the mailbox for
// the last time. So either it sees the command, or ring sees asleep.
func (l *loop) ring() {
	if !l.asleep.Load() {
		return
	}
	l.closing.RLock()
	defer l.closing.RUnlock()
	if l.bell >= 0 { // a caller may ask a thread that has ended
		wakeUp(l.bell)
	}
}

var one = [8]byte{1} // as a native u64 it is never 0

// wakeUp writes to an eventfd or pipe. The write does not wait for room.
func wakeUp(fd int) { _, _ = unix.Write(fd, one[:]) }

// prepare makes the thread, so that it is known before it runs. It pins the thread to the
// processor, if one is given; the caller has checked that this works.
func (l *loop) prepare(cpu int) {
	prepared := make(chan struct{})
	l.waits = true
	go func() {
		runtime.LockOSThread() // until the goroutine ends, and the thread with it
		defer close(l.ended)
		if cpu >= 0 {
			_ = pin.Thread(cpu) // tried by Open
		}
		l.tid.Store(int32(unix.Gettid()))
		l.moderation.begin()
		defer l.moderation.end()
		close(prepared)
		if <-l.begin {
			l.life()
		}
	}()
	<-prepared
}

// run lets the thread run, or ends it. Further calls do nothing.
func (l *loop) run(so bool) {
	if l.waits {
		l.waits = false
		l.begin <- so
	}
}

// life takes turns until a command sets stop.
func (l *loop) life() {
	debug.SetPanicOnFault(true) // for this goroutine
	for !l.guarded() {
		continue
	}
}

// turn is one step of the engine, with the work around it.
func (l *loop) turn() {
	if l.mailbox.ready(l.now) {
		l.obey()
	}
	l.turns++
	if l.turns%glance == 0 || l.worked {
		l.now = l.clock()
		l.limit()
	}
	before := l.card.Progress()
	next := l.step()
	l.worked = l.card.Progress() != before
	if l.worked || next <= l.now {
		l.wait.Found()
		if l.polling == config.Adaptive {
			l.moderate()
		}
		return
	}
	l.waiting()
}

// limit passes the kernel's path limits to the peers on to the card.
func (l *loop) limit() {
	for _, k := range l.links {
		if k.plugged == nil {
			continue
		}
		for _, way := range k.plugged.Limits() {
			l.card.SetLimit(way.Card, way.Frame)
		}
	}
}

// step steps the engine, has groups take turns, and wakes the processes that asked for it. It also
// wakes those for which commands have published something since the last step.
func (l *loop) step() (next int64) {
	next = l.card.Step(l.now)
	if l.hello.Due <= l.now {
		l.sayHello()
	}
	next = min(next, l.hello.Due)
	if l.post != nil && l.post.collect() {
		next = l.now
	}
	if l.share != nil {
		next = min(next, l.share.Step(l.now))
	}
	l.call()
	return next
}

// call wakes the processes for which the card has published something.
func (l *loop) call() {
	l.calls++
	for _, x := range l.card.TakeCalled() {
		a := l.byBell[x.Bell()]
		switch {
		case a == nil: // it has just been lost
		case a.row == nil:
			wakeUp(a.process)
		case a.row.called != l.calls: // once: what its pages say now, the process sees
			a.row.called = l.calls
			wakeUp(a.process)
		}
	}
}

func (l *loop) obey() {
	l.now = l.clock()
	end := l.now + turnTime
	for n := 0; n < turnCommands && (n == 0 || l.now < end); n++ {
		if l.doing, l.beside = l.mailbox.take(l.now); l.doing == nil {
			return
		}
		l.worked = true
		l.wait.Found()
		l.began = ports.ThreadTime()
		l.doing.do()
		l.finish(nil)
	}
}

// finish ends the command that is being carried out, if any.
func (l *loop) finish(err error) {
	c := l.doing
	if c == nil {
		return
	}
	c.err, c.took = err, ports.ThreadTime()-l.began
	l.now = l.clock()
	l.mailbox.rest(c, l.now, int64(c.took), l.beside)
	l.doing = nil
	close(c.done)
}

// clock returns the card's time in nanoseconds.
func (l *loop) clock() int64 { return int64(time.Since(l.start)) }

// close closes the thread's descriptors, after the end of the thread, if it ever ran.
func (l *loop) close() error {
	if l.waits {
		l.run(false)
		<-l.ended
	}
	l.closing.Lock()
	defer l.closing.Unlock()
	var errs []error
	for _, fd := range []*int{&l.epoll, &l.bell} {
		if *fd >= 0 {
			errs = append(errs, unix.Close(*fd))
		}
		*fd = -1
	}
	return errors.Join(errs...)
}
