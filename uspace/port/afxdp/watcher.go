package afxdp

// This file decides, from counters and time alone, whether the interface of a port still works: for
// FUNet and for the kernel, whose frames come through the same queues. While no host sends to an
// interface, its host alone cannot prove that it works. But the host can tell five ways in which
// the interface does not work, two of them for each queue.

import "time"

// sample holds the counters at one moment. Those of the interface are the driver's (IFLA_STATS64).
type sample struct {
	at      time.Time
	rx, tx  uint64 // frames that the interface received and sent
	missed  uint64 // frames that it could not receive: no buffer, or dropped
	seen    uint64 // frames that the NIC program saw
	merged  uint64 // of these, datagrams that the kernel had merged
	sent    uint32 // frames, or parts of them, that the port handed to the kernel, modulo 2^32
	carrier bool
	lanes   []lane
}

// lane holds the counters of one queue, or of all queues that the NIC program counts as one
// (bpf.CountedQueues). Their start values are arbitrary.
type lane struct {
	redirected uint64 // frames that the program handed to the socket
	arrived    uint64 // frames, or parts, that came to the socket, and those it dropped and counted
	completed  uint32 // frames, or parts, that have left
	held       uint32 // frames that have not, although the kernel has them or is told to take them
}

type verdict int

const (
	sound verdict = iota // nothing is known to be wrong
	// notRun: the interface counts frames, but the program sees none. A driver may forget the
	// program when the link, the MTU or the rings change (vmxnet3).
	notRun
	// deaf: the interface cannot receive frames, because the queue has no buffers (igb, when its
	// zero-copy queue found the fill ring empty).
	deaf
	// silent: a neighbour was heard a moment before the program was attached; since then the kernel
	// sends and no frames come back.
	silent
	// lost: the program handed frames to the socket of a queue and none came there. The kernel
	// refused the redirect, because the frame's device or queue is not the socket's (it is that of
	// a device below).
	lost
	stuck // the kernel has frames to send on a queue and sends none
)

func (v verdict) String() string {
	return [...]string{"nothing is wrong", "the program was not run", "the queue had no buffers", "nothing came back",
		"frames did not come to the sockets", "frames did not leave"}[v]
}

const (
	// settle is the time by which frames may be counted late: drivers read a NIC's counters every
	// two seconds.
	settle = 3 * time.Second
	// unseen is the time, after that, for which frames must come without the program seeing one.
	// enough is the number of frames that must come: some NICs count a few frames that they keep to
	// themselves.
	unseen = 2 * time.Second
	enough = 8
	// quiet is the shortest silence that proves a fault, and quietAfterReset that after a reset of
	// the link. Some drivers reset the link when a program is attached. It is up again after two
	// seconds, but a switch may learn for thirty more before it passes a frame.
	quiet           = 6 * time.Second
	quietAfterReset = 40 * time.Second
	// unanswered is the number of frames that the kernel must have sent in that time. A TCP
	// connection that waits sends five in six seconds (RFC 6298).
	unanswered = 4
	// gap is a time between two samples that is too long to conclude anything: Watch was not
	// called, or the interface was down.
	gap = 5 * time.Second
	// stalled is the time for which no frame to be sent must have left. Flow control may stop a
	// link for less, and the kernel resets a queue of a driver that has stopped after five seconds
	// (dev_watchdog).
	stalled = 6 * time.Second
	// firstTime is the time after the watcher's beginning within which a silence can be the port's
	// fault.
	firstTime = 2 * time.Minute
)

// watcher compares samples, which are about a second apart. Each sample has its time.
type watcher struct {
	heardBefore bool   // a neighbour was there just before the program was attached
	began       sample // the first
	last        sample
	saw         sample // the last in which the program had seen new frames, or the first
	heard       sample // the last in which frames were received or the link was down, or the first
	still       sample // the first that was settle later than saw; zero: there was none
	proven      bool   // the program has seen a frame
	reset       bool   // the link was down
	lanes       []watchedLane
	lane        int // that a verdict is about
}

type watchedLane struct {
	came   lane      // when frames had last come, or the first
	astray time.Time // the first time after that when more was handed over; zero: there was none
	left   lane      // when frames had last left, or few were held
	leftAt time.Time
}

func (l *watchedLane) begin(at time.Time, now lane) {
	*l = watchedLane{came: now, left: now, leftAt: at}
}

// look compares a queue's counters with earlier ones and returns a verdict.
func (l *watchedLane) look(at time.Time, now lane, carrier bool) verdict {
	switch {
	case now.arrived != l.came.arrived || now.redirected < l.came.redirected:
		l.came, l.astray = now, time.Time{}
	case l.astray.IsZero() && now.redirected > l.came.redirected:
		l.astray = at // those that are on their way will have come at the next look
	}
	if !carrier || now.completed != l.left.completed || now.held < enough {
		l.left, l.leftAt = now, at
	}
	switch {
	case !l.astray.IsZero() && at.Sub(l.astray) >= unseen && now.redirected-l.came.redirected >= enough:
		return lost
	case at.Sub(l.leftAt) >= stalled:
		return stuck
	}
	return sound
}

// lookAtLanes judges the queues, and remembers the one that its verdict is about.
func (w *watcher) lookAtLanes(s sample) verdict {
	for i, now := range s.lanes {
		if v := w.lanes[i].look(s.at, now, s.carrier); v != sound {
			w.lane = i
			return v
		}
	}
	return sound
}

func (w *watcher) look(s sample) verdict {
	if s.at.Sub(w.last.at) > gap {
		w.reset = !w.began.at.IsZero() // perhaps
		w.began.at = time.Time{}
	}
	// the driver began to count anew
	if w.began.at.IsZero() || s.rx < w.last.rx || s.missed < w.last.missed || s.tx < w.last.tx {
		w.began, w.last, w.saw, w.heard, w.still = s, s, s, s, sample{}
		w.lanes = make([]watchedLane, len(s.lanes))
		for i, now := range s.lanes {
			w.lanes[i].begin(s.at, now)
		}
		return sound
	}
	if s.seen != w.last.seen {
		w.saw, w.still, w.proven = s, sample{}, true
	}
	if s.seen != w.last.seen || s.rx != w.last.rx {
		w.heard = s
	}
	if !s.carrier {
		w.heard, w.reset = s, true
	}
	w.last = s
	if since := s.at.Sub(w.saw.at); w.still.at.IsZero() && since >= settle {
		w.still = s
	}
	limit := quiet
	if w.reset {
		limit = quietAfterReset
	}
	switch silence := s.at.Sub(w.heard.at); {
	case !w.still.at.IsZero() && s.at.Sub(w.still.at) >= unseen && s.rx-w.still.rx >= enough:
		return notRun
	case silence >= settle && s.missed-w.heard.missed >= enough:
		return deaf
	case w.heardBefore && silence >= limit && s.at.Sub(w.began.at) <= firstTime && w.unanswered() >= unanswered:
		return silent
	}
	return w.lookAtLanes(s)
}

// unanswered returns the number of frames that the kernel sent since frames were last heard. It is
// the interface's count minus the port's. Some drivers leave the port's frames out of their count,
// so the true number may be higher.
func (w *watcher) unanswered() int64 {
	return int64(w.last.tx-w.heard.tx) - int64(w.last.sent-w.heard.sent)
}

// again forgets the history, because the program was attached anew. It keeps heardBefore.
func (w *watcher) again() { *w = watcher{heardBefore: w.heardBefore} }
