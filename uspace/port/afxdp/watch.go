package afxdp

// This file has a port watch over its interface, and mends problems if it can. It attaches the NIC
// program anew, or goes down the ladder of modes (modes.go) by a rung.
//
//	zero-copy ──────────> native, copy ────────────> generic, copy
//	           opened anew               attached anew
//
// Generic mode is the last: there the driver does nothing for FUNet, so it does not cause a problem
// that remains.

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/xdp"
)

// Finding is the result of Watch.
type Finding struct {
	// Said is a sentence for the log: the problem, and the action of Watch. "": there was no
	// problem.
	Said   string
	Mended bool // says that the problem should be solved
	// Reopen asks the owner to close the port and to open it with these modes in its Config: only
	// other sockets can mend the problem. Watch has changed nothing.
	Reopen bool
	Attach xdp.AttachMode
	Bind   xdp.BindMode
}

// Watch compares the interface's counters with those of the NIC program since the last call. It
// finds out when the driver no longer runs the program, or the interface receives nothing because
// of the program. It mends that or asks the owner to. It also finds out when frames that the
// program hands to the socket of a queue do not arrive there, and when a queue does not send.
//
// Call Watch about once a second with the time, from the first second on. It makes two system calls
// of netlink, one of bpf(2) and one for each queue. Attaching the program anew takes as long as the
// driver takes to reset its link, so do not call Watch on the card's thread. One goroutine at a
// time may call it, in the network namespace of the interface, but not at the same time as Close.
// It needs no capability (Linux 5.19). While the interface is gone it finds nothing.
func (p *Port) Watch(now time.Time) Finding {
	s, err := p.sample(now)
	if err != nil {
		return Finding{}
	}
	return p.judge(s)
}

// judge is Watch after the counters have been read.
func (p *Port) judge(s sample) Finding {
	w := &p.watcher
	before := w.still
	v := w.look(s)
	if v == sound {
		return Finding{Said: p.tellMerged(&s)}
	}
	i := p.Info()
	proven := w.proven
	var what string
	switch v {
	case notRun:
		what =
			fmt.Sprintf("interface %s received %d frames in %v that the NIC program did not see: it is not run any more", i.Interface, s.rx-before.rx, s.at.Sub(before.at).Round(time.Second))
	case deaf:
		what = fmt.Sprintf("interface %s lost %d frames in %v for want of buffers and received none", i.Interface,
			s.missed-w.heard.missed, s.at.Sub(w.heard.at).Round(time.Second))
	case silent:
		what =
			fmt.Sprintf("interface %s heard nothing for %v, although the kernel sent %d frames and a neighbour was there before the NIC program was attached",
				i.Interface, s.at.Sub(w.heard.at).Round(time.Second), w.unanswered())
	case lost:
		l := &w.lanes[w.lane]
		what =
			fmt.Sprintf("interface %s: the NIC program handed %d frames of queue %s to its socket, where none came: the kernel refused them",
				i.Interface, s.lanes[w.lane].redirected-l.came.redirected, p.lane(w.lane))
	case stuck:
		what = fmt.Sprintf("interface %s: %d frames for queue %s were not sent in %v", i.Interface,
			s.lanes[w.lane].held, p.lane(w.lane), s.at.Sub(w.lanes[w.lane].leftAt).Round(time.Second))
	}
	p.doubt(v, w.lane)
	w.again()
	switch {
	case i.XDPMode == xdp.AttachGeneric:
		if p.told {
			return Finding{}
		}
		p.told = true
		return Finding{Said: what +
			"; in generic mode FUNet has no part in that: see `funet doctor`, and the log of the kernel"}
	case i.BindMode == xdp.BindZeroCopy && v == notRun && proven:
		return Finding{Said: what + "; opening it anew", Reopen: true, Attach: xdp.AttachAuto, Bind: xdp.BindAuto}
	// at once to where the driver does as without FUNet
	case i.BindMode == xdp.BindZeroCopy && v == silent:
		return Finding{Said: what + "; opening it anew in generic mode", Reopen: true, Attach: xdp.AttachGeneric,
			Bind: xdp.BindCopy}
	case i.BindMode == xdp.BindZeroCopy:
		return Finding{Said: what + "; opening it anew without zero-copy", Reopen: true, Attach: xdp.AttachAuto,
			Bind: xdp.BindCopy}
	case v == notRun && proven:
		if err := p.attachAnew(xdp.AttachNative, ""); err == nil {
			return Finding{Said: what + "; attached it anew", Mended: true}
		}
	}
	if err := p.attachAnew(xdp.AttachGeneric, "native mode was left ("+v.String()+")"); err != nil {
		return Finding{Said: fmt.Sprintf("%s; attaching it anew in generic mode failed: %v", what, err), Reopen: true,
			Attach: xdp.AttachGeneric, Bind: xdp.BindCopy}
	}
	return Finding{Said: what + "; attached it anew in generic mode", Mended: true}
}

// Works reports whether the program saw frames at the last look and no queue is known to be wrong.
// It is for the caller of Watch.
func (p *Port) Works() bool {
	w := &p.watcher
	wrong := func(s QueueState) bool { return s.Receives == Lost || s.Sends == Stuck }
	return w.proven && w.saw.at.Equal(w.last.at) && !slices.ContainsFunc(p.Queues(), wrong)
}

// attachAnew detaches the NIC program and attaches it again, and notes why the mode is no better.
// The sockets stay. Calls of Info do not wait for a driver that resets the link.
func (p *Port) attachAnew(mode xdp.AttachMode, why string) error {
	if p.attach != nil {
		if err := p.attach.Close(); err != nil {
			return err
		}
		p.attach = nil
	}
	a, err := p.attachProgram(p.nic.Program(), p.ifindex, mode)
	if err != nil {
		return err
	}
	p.attach = a
	p.mu.Lock()
	defer p.mu.Unlock()
	p.info.XDPMode = mode
	for _, q := range p.queues {
		q.proof.base, q.proof.lost = q.proof.received.look(q.rx.Filled()), false
	}
	if why != "" && p.info.Why != "" {
		why = p.info.Why + "; " + why
	}
	if why != "" {
		p.info.Why = why
	}
	return nil
}

func (p *Port) sample(now time.Time) (sample, error) {
	// The program's counters come first: only the interface has counted frames that arrive in
	// between, and the next sample has them in both.
	c, redirected, err := p.nic.CountersByQueue()
	if err != nil {
		return sample{}, err
	}
	l, err := netlink.LinkByIndex(p.ifindex)
	if err != nil {
		return sample{}, err
	}
	a := l.Attrs()
	s := sample{at: now, sent: p.submitted(), carrier: a.RawFlags&unix.IFF_LOWER_UP != 0,
		seen: c.Pass + c.Short + c.BadVersion + c.BadLength + c.BadGID + c.Merged + c.ForeignGroup + c.NoSocket + c.Stranger + c.NoPort + c.Direct + c.Deferred + c.Undeferred + c.Hellos + c.Redirected, merged: c.Merged}
	if n := a.Statistics; n != nil {
		s.rx, s.tx = n.RxPackets, n.TxPackets
		s.missed = n.RxDropped + n.RxMissedErrors + n.RxFifoErrors + n.RxOverErrors
	}
	// The queues' counters come last: frames that were redirected before have arrived by then.
	s.lanes = make([]lane, min(len(p.queues), bpf.CountedQueues))
	for _, q := range p.queues {
		n, err := q.sock.Statistics()
		if err != nil {
			return sample{}, err
		}
		l := &s.lanes[q.number%bpf.CountedQueues]
		p.mu.Lock()
		received := q.proof.received.look(q.rx.Filled())
		p.mu.Unlock()
		l.redirected = redirected[q.number%bpf.CountedQueues]
		l.arrived += received + n.RxDropped + n.RxInvalid + n.RxRingFull + n.RxFillRingEmpty
		l.completed += q.done.Filled()
		l.held += q.held(p.info.BindMode == xdp.BindZeroCopy)
	}
	return s, nil
}

// held returns the number of descriptors that have not left. It counts descriptors that the kernel
// has taken, and those that it does not take although it has been told of them. In zero-copy mode
// the latter count at once, unless the kernel asks to be told again. In copy mode they count when a
// kick since the last look was in vain.
func (q *queue) held(zeroCopy bool) uint32 {
	vain := q.vain.Load()
	told := vain != q.vainBefore || zeroCopy && !q.tx.NeedWakeup()
	q.vainBefore = vain
	from := q.tx.Taken()
	if told {
		from = q.tx.Submitted()
	}
	// Frames that were completed in between, or by a kernel that reports late what it took, are not
	// held.
	return uint32(max(0, int32(from-q.done.Filled())))
}

// lane returns the names of the queues that the program counts as one.
func (p *Port) lane(first int) string {
	name := strconv.Itoa(first)
	for n := first + bpf.CountedQueues; n < len(p.queues); n += bpf.CountedQueues {
		name += fmt.Sprintf(" or %d", n)
	}
	return name
}

// neighbourHeard reports whether the kernel has heard from a neighbour behind the interface in the
// last half minute (NUD_REACHABLE, see arp(7)).
func neighbourHeard(ifindex int) bool {
	all, err := netlink.NeighList(ifindex, 0)
	if err != nil {
		return false // then silence proves nothing
	}
	for _, n := range all {
		if n.State&netlink.NUD_REACHABLE != 0 {
			return true
		}
	}
	return false
}
