package daemon

// This file admits connections. Everybody on the host can connect and close as fast as they like;
// each connection costs the daemon a goroutine, a buffer, and locks of the Go runtime.
//
// So the accept loop does little for each. It takes the socket, asks the kernel for its user,
// counts it, and puts it at its account's door. A door has a goroutine while connections wait at
// it. It lets them in one after the other, and charges each for the time that it takes (pace.go). A
// door holds as many connections as its user may have, and mostRefusals more, which are told that
// they are too many. Further ones are closed silently. So users make only themselves wait.
//
// When the loop is flooded it takes at most half of a processor, as a user does (pace.go), at the
// lower priority of the daemon's other threads. In the kernel's backlog, which users share, a
// connection then waits for a batch and a pause. When the backlog is full, clients wait in turn
// (attach.Dial), so the loop has to be faster than one client that floods it. The loop never closes
// a socket with descriptors in it: see closing.go.

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/ports"
	"github.com/funet/funet/uspace/attach"
)

const (
	// retryAccept is how long accept waits when the process is out of descriptors.
	retryAccept = 100 * time.Millisecond
	// acceptBatch is how many connections are taken before the loop looks at its time. It is the
	// whole backlog, so a client that the kernel wakes because there is room finds room.
	acceptBatch = backlog
	// The loop pauses for acceptPause times the time that it worked, but for at most longestPause.
	// It skips a pause of less than acceptBurst.
	acceptPause  = 1
	acceptBurst  = 4 * time.Millisecond
	longestPause = 10 * time.Millisecond
	mostRefusals = 64 // bounds the connections of an account that wait to be refused
)

// arrival is a connection that waits at a door.
type arrival struct {
	fd   int
	peer peer
	rule *config.Rule
	why  error // reason of the refusal; nil: the connection is counted, and will be served
}

// door holds the arrivals of an account. It exists while its goroutine runs.
type door struct {
	waiting  []arrival
	refusals int // arrivals in waiting that are to be refused
}

// accept takes connections until the daemon ends. When it is out of descriptors it waits, and open
// connections go on.
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

// meet finds the user of a connection and puts it at that user's door. It does not block.
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

// crowded reports whether mostRefusals connections of an account already wait to be refused.
// Further ones are closed unseen.
func (d *Daemon) crowded(account uint32) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.doors[account]
	return w != nil && w.refusals >= mostRefusals
}

// letIn is the goroutine of a door: it lets connections in, one after the other.
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

// refuse tells a process why it is not served, and closes the connection. It first reads what the
// process has sent: the kernel resets a connection that is closed with something unread, and the
// process would not hear the answer (unix_release_sock, af_unix.c).
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

// buffers holds the buffers of ended connections, for reuse.
var buffers = sync.Pool{New: func() any { return new([attach.MaxMessage]byte) }}
