package daemon

// This file admits connections. Everybody on the host can connect, and close, as fast
// as he likes; each connection costs the daemon a goroutine, a buffer, and locks of the Go runtime.
//
// So the accept loop does little for each: it takes the socket, asks the kernel whose it is, counts
// it, and puts it at its account's door. A door has a goroutine while somebody waits at it, and
// lets one in after the other, each at the cost of the time that it takes (pace.go). At most as
// many connections wait at a door as its user may have, and mostRefusals more, which are told that
// they are too many; further ones are closed silently. So a user can make nobody wait but himself.
//
// The loop itself takes at most half of a processor, as a user does (pace.go), when it is flooded,
// at the lower priority of the daemon's other threads. In the kernel's backlog, which users share,
// a connection then waits for a batch and a pause; when the backlog is full, clients wait in turn
// (attach.Dial), so the loop has to be faster than one who floods it. The loop never closes a
// socket with descriptors in it: see closing.go.

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/ports"
	"github.com/funet/funet/uspace/attach"
)

const (
	// retryAccept is how long accept waits when the process has no descriptor left.
	retryAccept = 100 * time.Millisecond
	// acceptBatch is how many connections are taken before the loop looks at its time: all that the
	// backlog has, so that whoever the kernel then wakes, because there is room, finds room.
	acceptBatch = backlog
	// acceptPause is how many times as long as it took the loop then pauses, acceptBurst how much
	// of that it does not pause for, and longestPause the most.
	acceptPause  = 1
	acceptBurst  = 4 * time.Millisecond
	longestPause = 10 * time.Millisecond
	// mostRefusals is how many connections of an account wait to be refused.
	mostRefusals = 64
)

// arrival is a connection that waits at a door.
type arrival struct {
	fd   int
	peer peer
	rule *Rule
	why  error // it is to be refused; nil: it is counted, and is to be served
}

// door holds the arrivals of an account. It exists while its goroutine runs.
type door struct {
	waiting  []arrival
	refusals int // of them
}

// accept takes connections until the daemon ends. Out of descriptors it waits: those that are
// connected go on.
func (d *Daemon) accept(socket *os.File) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return fmt.Errorf("accepting connections: %w", err)
	}
	var until time.Time // of the pauses that are due
	for {
		var begin time.Time
		var refused error
		err := raw.Read(func(fd uintptr) bool {
			begin = time.Now()
			var n int
			n, refused = d.acceptSome(int(fd))
			return n > 0 || !errors.Is(refused, unix.EAGAIN)
		})
		select {
		case <-d.quit:
			return nil
		default:
		}
		if err != nil {
			return fmt.Errorf("accepting connections: %w", err)
		}
		now := time.Now()
		if until.Before(begin) {
			until = begin
		}
		until = until.Add((acceptPause + 1) * now.Sub(begin))
		pause := min(until.Sub(now), longestPause)
		switch {
		case errors.Is(refused, unix.EMFILE), errors.Is(refused, unix.ENFILE), errors.Is(refused, unix.ENOMEM),
			errors.Is(refused, unix.ENOBUFS):
			pause = retryAccept
		case refused != nil && !errors.Is(refused, unix.EAGAIN) && !errors.Is(refused, unix.EINTR) &&
			!errors.Is(refused, unix.ECONNABORTED):
			return fmt.Errorf("accepting connections: %w", refused)
		case pause < acceptBurst:
			continue
		}
		if !d.sleep(pause) {
			return nil
		}
	}
}

// acceptSome takes connections from the backlog, at most a batch.
func (d *Daemon) acceptSome(socket int) (n int, err error) {
	for ; n < acceptBatch; n++ {
		// the address is nobody's
		fd, _, e := unix.Syscall6(unix.SYS_ACCEPT4, uintptr(socket), 0, 0, unix.SOCK_CLOEXEC, 0, 0)
		if e != 0 {
			return n, e
		}
		d.meet(int(fd))
	}
	return n, nil
}

// sleep waits, and returns false if the daemon ends meanwhile.
func (d *Daemon) sleep(wait time.Duration) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-d.quit:
		return false
	}
}

// meet finds out the user of a connection and puts it at his door. It does not block.
func (d *Daemon) meet(fd int) {
	p, err := credentials(fd)
	if err != nil {
		d.shed(fd)
		return
	}
	p.account = d.subordinates.Load().account(p.uid)
	if d.crowded(p.account) || d.groupsMatter && p.askGroups(fd) != nil {
		d.shed(fd)
		return
	}
	a := arrival{fd: fd, peer: p, rule: d.rule(&p)}
	if a.rule == nil {
		// He may ask which card this is, and look at what he has, which is nothing.
		a.rule = d.strangers
	}
	a.why = d.take(p.account, a.rule, usage{connections: 1})
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.doors[p.account]
	if w == nil {
		w = &door{}
		d.doors[p.account] = w
		d.serving.Go(func() { d.letIn(p.account, w) })
	}
	if a.why != nil {
		w.refusals++
	}
	w.waiting = append(w.waiting, a)
}

// crowded reports whether too many connections of an account already wait to be refused, so that
// another is not even looked at.
func (d *Daemon) crowded(account uint32) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.doors[account]
	return w != nil && w.refusals >= mostRefusals
}

// letIn is the goroutine of a door.
func (d *Daemon) letIn(account uint32, w *door) {
	p := d.purseOf(account)
	defer d.leavePurse(p)
	for {
		d.mu.Lock()
		if len(w.waiting) == 0 {
			delete(d.doors, account)
			d.mu.Unlock()
			return
		}
		a := w.waiting[0]
		w.waiting = w.waiting[1:]
		d.mu.Unlock()
		if wait := d.owes(p); wait > 0 {
			d.sleep(wait)
		}
		runtime.LockOSThread() // to measure it
		since := ports.ThreadTime()
		if a.why == nil {
			d.begin(&a)
		} else {
			refuse(a.fd, a.why)
		}
		d.pay(p, connectionFactor*(ports.ThreadTime()-since))
		runtime.UnlockOSThread()
		if a.why != nil {
			d.mu.Lock()
			w.refusals--
			d.mu.Unlock()
		}
	}
}

// begin serves an arrival, unless the daemon ends.
func (d *Daemon) begin(a *arrival) {
	conn, err := connectionOf(a.fd)
	if err != nil { // no descriptor is left
		d.give(a.peer.account, a.rule, usage{connections: 1})
		return
	}
	c := &connection{d: d, conn: conn, peer: a.peer, rule: a.rule, purse: d.purseOf(a.peer.account)}
	d.mu.Lock()
	stopping := d.stopping.Load()
	if !stopping {
		d.connections[c] = struct{}{}
	}
	d.mu.Unlock()
	if stopping { // the connections have been told
		conn.Close()
		d.leavePurse(c.purse)
		d.give(a.peer.account, a.rule, usage{connections: 1})
		return
	}
	d.serving.Go(c.serve)
}

// connectionOf makes a connection of package net from a socket, and closes the socket if it cannot.
func connectionOf(fd int) (*net.UnixConn, error) {
	file := os.NewFile(uintptr(fd), "")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

// refuse tells a process why it is not served, and closes the connection. It takes what the process
// has sent first: a connection that is closed with something unread is reset, and the process would
// not hear the answer (unix_release_sock, af_unix.c).
func refuse(fd int, why error) {
	defer unix.Close(fd)
	if unix.Shutdown(fd, unix.SHUT_RD) != nil {
		return
	}
	var some [1]byte
	for { // the socket holds a bounded number of messages, and none comes in
		if n, _, err := unix.Recvfrom(fd, some[:], unix.MSG_DONTWAIT); n <= 0 || err != nil {
			break
		}
	}
	_ = unix.Sendto(fd, attach.EncodeRefusal(0, why), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
}

// buffers are the buffers of connections that have ended, for the next ones.
var buffers = sync.Pool{New: func() any { return new([attach.MaxMessage]byte) }}
