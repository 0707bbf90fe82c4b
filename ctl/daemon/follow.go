package daemon

// This file follows the interfaces. A thread of its own looks at their state whenever the kernel
// says that something has changed in their network namespace (rtnetlink(7), RTNLGRP_LINK). It also
// looks each second, because the kernel does not report everything. News is only a hint to look, so
// a full socket loses nothing.
//
//	down, no carrier       the port stays open; while the interface is down the card is not
//	                       plugged into it. Jobs live as long as their peers' time-outs allow.
//	                       Where the driver has reset the link because of the port, the log says
//	                       so (reset.go)
//	renamed                the port stays
//	MTU, queues or rings   the port is opened anew, as a driver may have begun anew; frames under
//	                       way are lost and sent again, in shorter ones if they are too long now.
//	                       An MTU below what FUNet needs fails the jobs
//	gone                   the port is closed, and the jobs that need it end with that reason
//	it does not work       the port says so (afxdp.Port.Watch): attached or opened anew
//	back                   under its name or elsewhere with its address: the port is opened again
//
// The card's thread does no more than take a port out or put one in. A process that changes
// interfaces (CAP_NET_ADMIN) as fast as it can makes this thread look at most once each restless,
// and open a port at most once each leastBackoff.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/port/afxdp"
	"github.com/funet/funet/xdp"
)

const (
	lookEvery = time.Second // the time between two looks when nothing is heard
	// restful and restless are the least time between two looks: restful when the last look found
	// no change, restless when it did.
	restful, restless = 20 * time.Millisecond, 100 * time.Millisecond
	// leastBackoff and mostBackoff bound the time until an interface is tried again that could not
	// be opened, or that went away soon after.
	leastBackoff, mostBackoff = 200 * time.Millisecond, time.Second
	// settled is how long an interface has to be there for its next opening to be immediate.
	settled = 5 * time.Second
	// tellEvery is the least time between two lines about the queues of an interface.
	tellEvery = 10 * time.Second
	// receiveBuffer is the size in bytes of the socket's buffer, which bounds the waiting news.
	receiveBuffer = 64 << 10
)

// follower is the thread that follows the interfaces.
type follower struct {
	d      *Daemon
	bell   int // eventfd: ends the thread
	news   int // netlink socket
	handle *netlink.Handle
	begin  chan bool // takes one value: whether the thread is to follow
	once   sync.Once // stop
	ended  chan struct{}
}

// newFollower makes the thread, in the network namespace of the calling thread, and does everything
// that needs a privilege. The thread waits until follow is called.
func newFollower(d *Daemon) (*follower, error) {
	space, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("finding the network namespace: %w", err)
	}
	defer space.Close()
	f := &follower{d: d, bell: -1, news: -1, begin: make(chan bool, 1), ended: make(chan struct{})}
	made := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // until the goroutine ends, and the thread with it
		defer close(f.ended)
		err := f.prepare(space)
		made <- err
		if err == nil && <-f.begin {
			f.life()
		}
		f.close()
	}()
	if err := <-made; err != nil {
		<-f.ended
		return nil, fmt.Errorf("following the interfaces: %w", err)
	}
	return f, nil
}

// prepare enters the namespace and makes the descriptors.
func (f *follower) prepare(space *os.File) (err error) {
	here, err := os.Stat("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	there, err := space.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(here, there) { // of a process that is more than a daemon
		if err := unix.Setns(int(space.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("entering their network namespace: %w", err)
		}
	}
	if f.bell, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return err
	}
	if f.news, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK,
		unix.NETLINK_ROUTE); err != nil {
		return err
	}
	// more does no harm
	_ = unix.SetsockoptInt(f.news, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
	if err := unix.Bind(f.news, &unix.SockaddrNetlink{Family: unix.AF_NETLINK,
		Groups: 1 << (unix.RTNLGRP_LINK - 1)}); err != nil {
		return err
	}
	if f.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return err
	}
	for _, l := range f.d.links { // as they were when they were opened, or soon after
		if l.seen, err = f.find(l); err != nil {
			return fmt.Errorf("interface %s: %w", l.configured, err)
		}
		l.opened = l.seen
	}
	return nil
}

func (f *follower) close() {
	if f.handle != nil {
		f.handle.Close()
	}
	closeFD(f.news)
	closeFD(f.bell)
}

// follow lets the thread begin to follow. It is called once.
func (f *follower) follow() { f.begin <- true }

// stop ends the thread and waits for its end. A second call does nothing.
func (f *follower) stop() {
	f.once.Do(func() {
		select {
		case f.begin <- false:
		default: // it is about to begin, and will see the bell
		}
		wakeUp(f.bell)
		<-f.ended
	})
}

// life looks at the interfaces until the bell rings.
func (f *follower) life() {
	for {
		rest, next := restful, lookEvery
		for _, l := range f.d.links {
			if f.look(l) {
				rest = restless
			}
			if l.port == nil && !l.retry.IsZero() {
				next = max(min(next, time.Until(l.retry)), restless)
			}
		}
		if f.wait(rest, false) || f.wait(next-rest, true) {
			return
		}
		f.forget()
	}
}

// wait waits for the time, the bell and, with news, for news. It reports whether the bell rang.
func (f *follower) wait(d time.Duration, news bool) (rung bool) {
	end := time.Now().Add(d)
	fds := []unix.PollFd{{Fd: int32(f.bell), Events: unix.POLLIN}, {Fd: int32(f.news), Events: unix.POLLIN}}
	if !news {
		fds = fds[:1]
	}
	for left := d; left > 0; left = time.Until(end) {
		t := unix.NsecToTimespec(int64(left))
		if n, err := unix.Ppoll(fds, &t, nil); n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	return fds[0].Revents != 0
}

// forget empties the socket: a look will find the changes. It reads no more than the socket holds.
func (f *follower) forget() {
	var some [1]byte
	for range receiveBuffer / 256 {
		if _, _, err := unix.Recvfrom(f.news, some[:], unix.MSG_DONTWAIT|unix.MSG_TRUNC); err != nil &&
			!errors.Is(err, unix.ENOBUFS) {
			return
		}
	}
}

// seen is the state of an interface at one look.
type seen struct {
	name, kind  string // such as device, veth
	index, mtu  int
	mac         [6]byte
	up, carrier bool
	losses      uint32 // losses of the carrier
	queues      int
	rings       xdp.Rings
}

// errNotThere reports that there is no such interface.
var errNotThere = errors.New("it is not there")

// find looks for the interface of a link: the same one, or one with its name or its address.
func (f *follower) find(l *link) (s seen, err error) {
	name := l.configured
	if l.seen.index != 0 {
		name = l.seen.name
		found, err := f.handle.LinkByIndex(l.seen.index)
		if err == nil || !absent(err) {
			return f.describe(found, err)
		}
	}
	for _, name := range []string{name, l.configured} {
		found, err := f.handle.LinkByName(name)
		if err == nil || !absent(err) {
			return f.describe(found, err)
		}
	}
	all, err := f.handle.LinkList()
	// others come and go; it looks again
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return s, err
	}
	// A VLAN or a bridge on an interface has its address, too, as have the members of a bond.
	same := func(found netlink.Link) bool {
		return string(found.Attrs().HardwareAddr) == string(l.mac[:]) && found.Type() == l.seen.kind
	}
	i := slices.IndexFunc(all, same)
	if i < 0 || slices.IndexFunc(all[i+1:], same) >= 0 {
		return s, errNotThere
	}
	return f.describe(all[i], nil)
}

func absent(err error) bool {
	var not netlink.LinkNotFoundError
	return errors.As(err, &not) || errors.Is(err, unix.ENODEV)
}

func (f *follower) describe(found netlink.Link, err error) (s seen, _ error) {
	if err != nil {
		return s, err
	}
	a := found.Attrs()
	s = seen{name: a.Name, kind: found.Type(), index: a.Index, mtu: a.MTU, up: a.RawFlags&unix.IFF_UP != 0,
		carrier: a.RawFlags&unix.IFF_LOWER_UP != 0}
	copy(s.mac[:], a.HardwareAddr)
	if _, s.losses, err = carrierOf(a.Name); err != nil {
		return s, err
	}
	if s.queues, err = xdp.Queues(a.Name); err != nil {
		return s, err
	}
	s.rings = xdp.RingsOf(a.Name)
	return s, nil
}

// look looks at an interface and acts on changes. It reports whether something had changed.
func (f *follower) look(l *link) (changed bool) {
	was := l.seen
	now, err := f.find(l)
	switch {
	case err == nil:
		l.seen = now
	case errors.Is(err, errNotThere):
		l.seen.index = 0 // which may be another's by the next look
		now.name, now.kind = was.name, was.kind
	default: // the next look may say
		if l.blind != err.Error() {
			l.blind = err.Error()
			f.d.cfg.Logger.Warn(fmt.Sprintf("interface %s: how it is cannot be found out: %v; tried again each second",
				was.name, err), "interface", was.name)
		}
		return false
	}
	if l.blind = ""; now.name != was.name {
		f.d.cfg.Logger.Info(fmt.Sprintf("interface %s is called %s now", was.name, now.name), "interface", now.name)
	}
	if err == nil {
		if said := l.reset.look(time.Now(), &now); said != "" {
			f.d.cfg.Logger.Warn(said, "interface", now.name)
		}
	}
	state, why := l.judge(&now, err)
	if l.port != nil {
		f.keep(l, &now, state, why)
	}
	if l.port == nil && (state == report.LinkUp || state == report.LinkNoCarrier) {
		if time.Now().Before(l.retry) {
			return true
		}
		if err := f.open(l, &now); err != nil {
			state, why = report.LinkUnusable, fmt.Sprintf("interface %s is there, but could not be opened again: %v",
				now.name, err)
		}
	}
	if l.port != nil {
		f.plugIn(l, state != report.LinkDown)
	} else if state == report.LinkDown {
		state, why = report.LinkGone, fmt.Sprintf("interface %s is there again, but down; `ip link set %s up` mends it",
			now.name, now.name)
	}
	return f.note(l, now.name, state, why) || now != was
}

// judge returns the state of an interface, and the reason if it is not up.
func (l *link) judge(s *seen, err error) (report.LinkState, string) {
	needed := arctic.MinMTU + l.headers()
	switch {
	case err != nil:
		return report.LinkGone, fmt.Sprintf("interface %s is gone; it is opened again when it is back", s.name)
	case s.mac != l.mac:
		return report.LinkGone,
			fmt.Sprintf("interface %s has another address, %v; the peers know %v: `ip link set %s address %[3]v` mends it",
				s.name, net.HardwareAddr(s.mac[:]), net.HardwareAddr(l.mac[:]), s.name)
	case s.mtu < needed:
		return report.LinkMTU,
			fmt.Sprintf("interface %s has MTU %d, and FUNet needs %d; `ip link set %s mtu 1500` mends it",
				s.name, s.mtu, needed, s.name)
	case !s.up:
		return report.LinkDown, fmt.Sprintf("interface %s is down; `ip link set %s up` mends it", s.name, s.name)
	case !s.carrier && l.reset.outage():
		return report.LinkNoCarrier,
			fmt.Sprintf("interface %s has no carrier: its driver resets the link when the NIC program comes or goes; it should be back in a few seconds", s.name)
	case !s.carrier:
		return report.LinkNoCarrier, fmt.Sprintf("interface %s has no carrier; look at its cable, and at the other end",
			s.name)
	}
	return report.LinkUp, ""
}

// keep closes an open port that cannot stay, and else has it checked (mind).
func (f *follower) keep(l *link, now *seen, state report.LinkState, why string) {
	if state.Carries() && now.index != l.opened.index {
		state, why = report.LinkGone, fmt.Sprintf("interface %s was taken away, and another has its place", now.name)
	}
	if !state.Carries() {
		f.shut(l)
		l.modes = nil // the interface that comes back may have another driver
		f.note(l, now.name, state, why)
		return
	}
	if changes := l.opened.changes(now); changes != "" {
		f.d.cfg.Logger.Info(fmt.Sprintf("interface %s: %s; it is opened anew", now.name, changes),
			"interface", now.name)
		f.shut(l)
		l.retry = time.Time{}
		return
	}
	if l.in && time.Since(l.watched) >= lookEvery {
		l.watched = time.Now()
		f.mind(l)
	}
}

// mind has the port check whether it works, and opens it anew if the port asks for that.
func (f *follower) mind(l *link) {
	found := l.port.Watch(l.watched)
	if found.Mended { // it has attached the program anew
		l.reset.begin(l.watched, l.seen.carrier, l.seen.losses)
		l.reset.after(l.seen.name)
	}
	if found.Said != "" {
		f.d.cfg.Logger.Warn(found.Said, "interface", l.opened.name)
	}
	l.got()
	f.tellQueues(l)
	if found.Reopen {
		l.modes = &modes{found.Attach, found.Bind}
		f.shut(l)
		l.retry = time.Time{}
	}
}

// tellQueues logs the state of several queues if it has changed, at most once each tellEvery.
func (f *follower) tellQueues(l *link) {
	queues := l.port.Queues()
	tried := func(s afxdp.QueueState) bool { return s.Receives != afxdp.Untried || s.Sends != afxdp.Untried }
	why := afxdp.Describe(queues)
	if len(queues) > 1 && slices.ContainsFunc(queues, tried) && why != l.told && time.Since(l.toldAt) >= tellEvery {
		f.d.cfg.Logger.Info(fmt.Sprintf("interface %s, %d queues: %s", l.opened.name, len(queues), why),
			"interface", l.opened.name)
		l.told, l.toldAt = why, time.Now()
	}
}

// changes names the change of an interface that requires opening its port anew, or returns "".
func (s *seen) changes(now *seen) string {
	var all []string
	add := func(what string, was, is any) {
		if was != is {
			all = append(all, fmt.Sprintf("its %s was %v and is %v", what, was, is))
		}
	}
	add("MTU", s.mtu, now.mtu)
	add("number of receive queues", s.queues, now.queues)
	add("ring sizes (receive, transmit)", s.rings, now.rings)
	return strings.Join(all, ", ")
}

// note publishes the state of an interface. It logs a new state, and ends jobs that cannot go on.
func (f *follower) note(l *link, name string, state report.LinkState, why string) (changed bool) {
	l.mu.Lock()
	s := &l.status
	changed = s.State != state || s.Why != why
	if was := s.State; was != state {
		s.Since = time.Now()
		s.Changes++
	}
	s.Interface, s.State, s.Why = name, state, why
	l.mu.Unlock()
	if !changed {
		return false
	}
	line := why
	if line == "" {
		line = fmt.Sprintf("interface %s is up", name)
	}
	if !state.Carries() {
		if n := f.d.failJobs(l.at, why); n > 0 {
			line += fmt.Sprintf("; ended the jobs that need it: %d", n)
		}
	}
	level := slog.LevelInfo
	if state != report.LinkUp {
		level = slog.LevelWarn
	}
	f.d.cfg.Logger.Log(context.Background(), level, line, "interface", name, "state", string(state))
	return true
}

func (f *follower) open(l *link, now *seen) error {
	c := l.config
	c.UDP = f.d.cfg.datagrams(f.d.peers.Load(), l.at)
	if c.Interface = now.name; l.modes != nil {
		c.Attach, c.Bind = l.modes.attach, l.modes.bind
	}
	l.reset.begin(time.Now(), now.carrier, now.losses)
	p, err := afxdp.Open(c)
	l.reset.after(now.name)
	if err != nil {
		l.putOff()
		return err
	}
	l.port, l.opened, l.since = p, *now, time.Now()
	f.plugIn(l, true)
	l.got()
	l.mu.Lock()
	l.status.Reopened++
	l.mu.Unlock()
	f.d.placeJobs() // it may have another index, or MTU
	f.d.cfg.Logger.Info(fmt.Sprintf("interface %s is opened again: %v", now.name, p.Info()), "interface", now.name)
	return nil
}

func (f *follower) shut(l *link) {
	f.plugIn(l, false)
	l.reset.begin(time.Now(), l.seen.carrier, l.seen.losses)
	if err := l.port.Close(); err != nil {
		f.d.cfg.Logger.Warn(fmt.Sprintf("closing interface %s: %v", l.opened.name, err), "interface", l.opened.name)
	}
	l.reset.after(l.seen.name)
	l.port = nil
	l.mu.Lock()
	l.status.QueuesWhy = ""
	l.mu.Unlock()
	if time.Since(l.since) > settled {
		l.backoff, l.retry = 0, time.Time{}
	} else {
		l.putOff()
	}
}

// putOff sets the time of the next opening.
func (l *link) putOff() {
	l.backoff = min(max(2*l.backoff, leastBackoff), mostBackoff)
	l.retry = time.Now().Add(l.backoff)
}

// plugIn has the card's thread put the port in or take it out. When the port is out the card holds
// none of its frames.
func (f *follower) plugIn(l *link, in bool) {
	if l.in == in {
		return
	}
	l.in = in
	loop, p := f.d.loop, l.port
	_ = loop.do(func() { // a thread that has ended has no use for it
		if in {
			loop.plug(l, p)
			f.d.setPaths(l) // peers may have changed while it was being opened
		} else {
			loop.unplug(l)
		}
	})
}
