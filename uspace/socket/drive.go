package socket

// This file decides which goroutine drives the card. Of the goroutines that wait, the first one
// polls for a while, with the lock: it leads. The others are parked, and so is the leader after
// that while. A poll wakes a parked goroutine when it finds something for it. When no goroutine has
// led for a moment, a goroutine of the stack, the sleeper, takes over. It polls until there is
// nothing to do, and sleeps on the card's descriptor.
//
// A goroutine that stops leading arms nothing, since it will mostly lead again in microseconds. A
// timer checks after a moment whether it did.

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rats"
	"github.com/funet/funet/uspace/wait"
)

const (
	// spin is how long, in nanoseconds, a wait polls. A sleep costs some 10 us at both its ends,
	// and a round trip a few.
	spin = 50_000
	// longSpin replaces spin after a sleep that ended within nap. A sleep and its end take longer
	// than spin. So two processes that answer each other would otherwise both sleep each time, each
	// because of the other's sleep. After settled short waits, spin applies again.
	longSpin = 300_000
	nap      = 1_000_000
	settled  = 1000
	// share is how long, in nanoseconds, a poller keeps other goroutines from its processor;
	// threads is the same for other threads.
	share   = 1_000
	threads = 5_000
	// beforeRest is how long, in nanoseconds, the sleeper polls before it sleeps, since another
	// goroutine mostly leads again at once. Arming and disarming the card's descriptor takes
	// several system calls.
	beforeRest = 10_000
	// moment is the time without a leader after which the sleeper takes over.
	moment = 100 * time.Microsecond
	// glance is how many polls pass between two looks at the clock and at other waiting goroutines.
	glance = 16
	// tick is the interval, in nanoseconds, for probing peers and looking at lingering connections,
	// with a daemon's card. A daemon reports at once that one of its processes has gone. An
	// embedded card ends with its process, and only its silence shows that, which takes seconds;
	// ownTick is the interval there.
	tick    = 500_000_000
	ownTick = 800_000_000
)

// driving is the part of a Stack that drives.
type driving struct {
	leading bool
	armed   bool // the card's descriptor is armed for the sleeper
	resting bool // the sleeper sleeps, and was not called since
	due     bool // the timer is set
	parked  int  // goroutines that wait and do not lead
	roused  int  // parked goroutines with news that have not run since
	moves   uint32
	seen    uint32 // value of moves when the timer was set
	timer   *time.Timer
	spin    int64         // how long a wait polls at present, in nanoseconds
	quick   int           // waits in a row that were shorter than spin
	kick    chan struct{} // one slot: the sleeper is to take over
	rest    *rest         // where it sleeps
	gone    chan struct{} // the sleeper has ended
	tick    int64         // tick or ownTick
	ticks   int64         // time of the next tick
	closing bool
}

// waiter is a goroutine that waits for something of a connection or listener.
type waiter struct {
	of     *driving
	wake   chan struct{} // one slot
	news   bool          // something has happened
	parked bool          // it is parked and was not roused yet
}

func (d *driving) newWaiter() waiter { return waiter{of: d, wake: make(chan struct{}, 1)} }

// rouse makes the goroutine look again.
func (w *waiter) rouse() {
	w.news = true
	if w.parked {
		w.parked = false
		w.of.roused++
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (s *Stack) startDriving() (err error) {
	fd, err := s.carrier.Fd()
	if err == nil {
		s.rest, err = newRest(fd)
	}
	if err != nil {
		return err
	}
	s.spin, s.tick = spin, tick
	if _, own := s.carrier.(*card.Card); own {
		s.tick = ownTick
	}
	s.kick, s.gone = make(chan struct{}, 1), make(chan struct{})
	s.timer = time.AfterFunc(time.Hour, s.relieve)
	go s.sleep()
	s.rouseSleeper()
	return nil
}

// stopDriving ends the sleeper. s.closing is set.
func (s *Stack) stopDriving() {
	s.timer.Stop()
	s.carrier.Interrupt()
	s.mu.Lock()
	s.rouseSleeper()
	s.mu.Unlock()
	<-s.gone
	_ = s.rest.close()
}

// rouseSleeper makes the sleeper take over. The lock is held. A sleeper that is awake needs no
// call, which would only prevent its next sleep.
func (s *Stack) rouseSleeper() {
	if s.resting {
		s.resting = false
		s.rest.call()
		return
	}
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// lock takes the lock; a leader gives way.
func (s *Stack) lock() {
	if !s.mu.TryLock() {
		s.want.Add(1)
		s.carrier.Interrupt()
		s.mu.Lock()
		s.want.Add(-1)
	}
	s.moves++
}

// unlock releases the lock, and ensures that some goroutine drives the card.
func (s *Stack) unlock() {
	switch {
	case s.leading || s.closing:
	case s.armed:
		// What was done may be more than what the sleeper is armed for. It sleeps on if the card is
		// content, as after most writes.
		if !s.carrier.Arm() {
			s.armed = false
			s.rouseSleeper()
		}
	case s.parked > 0:
		s.rouseSleeper() // it finds out soon enough if somebody leads again
	case !s.due:
		s.due, s.seen = true, s.moves
		s.timer.Reset(moment)
	}
	s.mu.Unlock()
}

// relieve is the timer's function: the sleeper takes over if no goroutine has led since.
func (s *Stack) relieve() {
	if !s.mu.TryLock() {
		s.timer.Reset(moment)
		return
	}
	defer s.mu.Unlock()
	switch {
	case s.closing:
		s.due = false
	case s.leading || s.moves != s.seen:
		s.seen = s.moves
		s.timer.Reset(moment)
	default:
		s.due = false
		s.rouseSleeper()
	}
}

// breathe lets goroutines run that want the lock or have news.
func (s *Stack) breathe() {
	if s.roused > 0 || s.want.Load() > 0 {
		s.giveWay(runtime.Gosched)
	}
}

// giveWay lets other goroutines run, with the lock if they want it. It counts the caller among
// those that want the lock. Otherwise a goroutine that holds it then, and need not wait, would keep
// it.
func (s *Stack) giveWay(run func()) {
	s.want.Add(1)
	s.mu.Unlock()
	run()
	s.mu.Lock()
	s.want.Add(-1)
}

// yield lets other goroutines and threads run.
func yield() {
	runtime.Gosched()
	wait.YieldProcessor()
}

// await waits until a waiter has news or cancel is closed. The lock is held. It may return earlier,
// so the caller looks again.
func (s *Stack) await(w *waiter, cancel <-chan struct{}) {
	w.news = false
	select {
	case <-w.wake: // from before
	default:
	}
	// Goroutines that the last message made runnable run before anybody polls. Without that a
	// leader whose news always comes soon would keep the lock and the processor.
	s.giveWay(runtime.Gosched)
	if !s.leading && s.err == nil && !w.news {
		s.lead(w, cancel)
	}
	if w.news {
		return
	}
	s.parked++
	w.parked = true
	s.unlock()
	select {
	case <-w.wake:
	case <-cancel:
	}
	s.lock()
	if s.parked--; !w.parked {
		s.roused--
	}
	w.parked = false
}

// lead polls for a while.
func (s *Stack) lead(w *waiter, cancel <-chan struct{}) {
	s.leading = true
	if s.armed {
		s.armed = false
		s.carrier.Disarm()
	}
	start := s.carrier.Now()
	gave, ceded := start, start
	for n := 1; !w.news && s.err == nil; n++ {
		if s.poll(); !w.news {
			s.breathe()
		}
		if n%glance != 0 {
			continue
		}
		if now := s.carrier.Now(); now-gave > share {
			if now-ceded > threads {
				s.giveWay(yield)
				ceded = now
			} else {
				s.giveWay(runtime.Gosched)
			}
			gave = s.carrier.Now()
			if gave-now > wait.SomeoneComputes {
				break
			}
		}
		select {
		case <-cancel:
			n = -1
		default:
		}
		now := s.carrier.Now()
		s.pass(now)
		if n < 0 || now-start > s.spin {
			break
		}
	}
	if s.quick++; w.news && s.quick > settled {
		s.spin = spin
	} else if s.spin > spin && s.carrier.Now()-start > spin {
		s.quick = 0
	}
	s.leading = false
	s.moves++
}

// sleep is the sleeper's loop.
func (s *Stack) sleep() {
	defer close(s.gone)
	for range s.kick {
		s.mu.Lock()
		idle := s.carrier.Now() // since when nothing has come
		// way to goroutines that have not run since they called, and will lead again
		gave := false
		for !s.leading && !s.closing && s.err == nil {
			some, now := s.poll(), s.carrier.Now()
			s.pass(now)
			if some {
				idle = now
			}
			if gave {
				s.breathe()
			} else {
				gave = true
				s.giveWay(runtime.Gosched)
			}
			if now-idle < beforeRest || s.leading || s.closing || s.err != nil {
				continue
			}
			if !s.carrier.Arm() {
				idle = now
				continue
			}
			if !s.rest.ready() {
				s.carrier.Disarm()
				continue
			}
			s.armed, s.resting = true, true
			most := time.Duration(max(s.ticks-s.carrier.Now(), 1))
			if len(s.conns)+len(s.packets)+len(s.calls)+len(s.services) == 0 {
				most = 0
			}
			start := s.carrier.Now()
			s.mu.Unlock()
			s.rest.sleep(most)
			s.mu.Lock()
			s.resting = false
			now = s.carrier.Now()
			if s.ticks-now < s.tick/2 {
				// mostly a peer's probe has ended the sleep: two idle processes wake each other up
				// only once
				s.ticks = now
			}
			if s.quick = 0; now-start < nap {
				s.spin = longSpin
			} else {
				s.spin = spin
			}
			if s.armed {
				s.armed = false
				s.carrier.Disarm()
			}
		}
		end := s.closing
		s.mu.Unlock()
		if end {
			return
		}
	}
}

// poll lets the card run, and wakes the goroutines for which something has arrived. It reports
// whether anything has.
func (s *Stack) poll() bool {
	s.carrier.Look()
	some := s.m.Poll()
	for c, ok := s.m.NextReady(); ok; c, ok = s.m.NextReady() {
		switch c := c.(type) {
		case *Conn:
			c.ready()
		case *Stack:
			s.serve()
		case *PacketConn:
			c.in.rouse()
		case *packetClient:
			c.ready()
		case *served:
			c.ready()
		case *callLink:
			c.rouse()
		case *waiter:
			c.rouse()
		}
	}
	if s.late != nil {
		s.serve()
	}
	i := s.carrier.Interface()
	// active messages are for nobody here
	for _, l := range [...]funi.Level{funi.Reply, funi.Request} {
		for ; i.Receive(l) != nil; i.Release(l) {
			some = true
		}
	}
	if err := s.carrier.Err(); err != nil {
		s.fail(fmt.Errorf("the card: %w", err))
	} else if i.Gone() {
		s.fail(fmt.Errorf("the card: %w", i.Err()))
	}
	return some
}

// peer is a node with connections.
type peer struct {
	conns map[*Conn]struct{}
}

// pass does the periodic work.
func (s *Stack) pass(now int64) {
	if now < s.ticks {
		return
	}
	s.ticks = now + s.tick
	for _, p := range s.peers {
		for c := range p.conns { // any one
			c.w.Probe()
			break
		}
	}
	s.probePackets()
	s.probeCalls()
	for c := range s.ending {
		c.linger(now)
	}
}

// lost fails all connections to a node that has gone.
func (s *Stack) lost(node uint16, err error) {
	if p := s.peers[node]; p != nil {
		for c := range p.conns {
			c.fail(err)
		}
	}
	s.losePackets(node)
}

// add and remove maintain the set of connections.
func (s *Stack) add(c *Conn) {
	s.conns[c] = struct{}{}
	p := s.peers[c.remote.Node]
	if p == nil {
		p = &peer{conns: map[*Conn]struct{}{}}
		s.peers[c.remote.Node] = p
	}
	p.conns[c] = struct{}{}
}

func (s *Stack) remove(c *Conn) {
	delete(s.conns, c)
	delete(s.ending, c)
	if p := s.peers[c.remote.Node]; p != nil {
		if delete(p.conns, c); len(p.conns) == 0 {
			delete(s.peers, c.remote.Node)
		}
	}
}

// full reports whether an error means that something must be closed first, or the card must run.
func full(err error) bool { return errors.Is(err, rats.ErrFull) }
