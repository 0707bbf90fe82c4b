package afxdp

// This file has a port watch over its interface, and mends what it can: it attaches the NIC program anew,
// or goes down the ladder of modes (modes.go) by a rung.
//
//	zero-copy ──────────> native, copy ────────────> generic, copy
//	           opened anew               attached anew
//
// Generic mode is the end of it: there the driver does nothing for FUNet, so what is wrong then is
// not its doing.

import (
	"fmt"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/xdp"
)

// Finding is what Watch found and did.
type Finding struct {
	// Said is a sentence for the log: what was wrong and what was done. "": nothing was wrong.
	Said string
	// Reopen asks the owner to close the port and to open it with these modes in its Config: what is
	// wrong can be mended only with other sockets. Nothing was changed.
	Reopen bool
	Attach xdp.AttachMode
	Bind   xdp.BindMode
}

// Watch compares what the interface counted with what the NIC program saw since the last call, finds out when the
// program is not run any more or the interface receives nothing because of it, and mends that or asks
// the owner to. It is called about once a second with the time, from the first second on. It takes two
// system calls of netlink and eight of bpf(2), and, when it attaches anew, as long as the driver takes
// to reset its link: so not on the card's thread. Any one goroutine may call it at a time, in the
// network namespace of the interface, not at the same time as Close. It needs no capability (Linux 5.19).
// While the interface is gone it finds nothing.
func (p *Port) Watch(now time.Time) Finding {
	s, err := p.sample(now)
	if err != nil {
		return Finding{}
	}
	return p.judge(s)
}

// judge is Watch when the counters have been read.
func (p *Port) judge(s sample) Finding {
	w := &p.watcher
	before := w.still
	v := w.look(s)
	if v == sound {
		return Finding{}
	}
	i := p.Info()
	proven := w.proven
	var what string
	switch v {
	case notRun:
		what = fmt.Sprintf("interface %s received %d frames in %v that the NIC program did not see: it is not run any more", i.Interface, s.rx-before.rx, s.at.Sub(before.at).Round(time.Second))
	case deaf:
		what = fmt.Sprintf("interface %s lost %d frames in %v for want of buffers and received none", i.Interface, s.missed-w.heard.missed, s.at.Sub(w.heard.at).Round(time.Second))
	case silent:
		what = fmt.Sprintf("interface %s heard nothing for %v, although the kernel sent %d frames and a neighbour was there before the NIC program was attached",
			i.Interface, s.at.Sub(w.heard.at).Round(time.Second), w.unanswered())
	}
	w.again()
	switch {
	case i.XDPMode == xdp.AttachGeneric:
		if p.told {
			return Finding{}
		}
		p.told = true
		return Finding{Said: what + "; in generic mode FUNet has no part in that: see `funet doctor`, and the log of the kernel"}
	case i.BindMode == xdp.BindZeroCopy && v == notRun && proven:
		return Finding{Said: what + "; opening it anew", Reopen: true, Attach: xdp.AttachAuto, Bind: xdp.BindAuto}
	case i.BindMode == xdp.BindZeroCopy && v == silent: // at once to where the driver does as without FUNet
		return Finding{Said: what + "; opening it anew in generic mode", Reopen: true, Attach: xdp.AttachGeneric, Bind: xdp.BindCopy}
	case i.BindMode == xdp.BindZeroCopy:
		return Finding{Said: what + "; opening it anew without zero-copy", Reopen: true, Attach: xdp.AttachAuto, Bind: xdp.BindCopy}
	case v == notRun && proven:
		if err := p.attachAnew(xdp.AttachNative, ""); err == nil {
			return Finding{Said: what + "; attached it anew"}
		}
	}
	if err := p.attachAnew(xdp.AttachGeneric, "native mode was left ("+v.String()+")"); err != nil {
		return Finding{Said: fmt.Sprintf("%s; attaching it anew in generic mode failed: %v", what, err), Reopen: true, Attach: xdp.AttachGeneric, Bind: xdp.BindCopy}
	}
	return Finding{Said: what + "; attached it anew in generic mode"}
}

// attachAnew detaches the NIC program and attaches it, and notes why the mode is no better. The sockets stay. What
// takes long, where the driver resets the link, nobody who asks for Info waits for.
func (p *Port) attachAnew(mode xdp.AttachMode, why string) error {
	if p.attach != nil {
		if err := p.attach.Close(); err != nil {
			return err
		}
		p.attach = nil
	}
	a, err := xdp.Attach(p.nic.Program(), p.ifindex, mode)
	if err != nil {
		return err
	}
	p.attach = a
	p.mu.Lock()
	defer p.mu.Unlock()
	p.info.XDPMode = mode
	for _, q := range p.queues {
		q.proof.base = q.proof.received.look(q.rx.Filled())
	}
	if why != "" && p.info.Why != "" {
		why = p.info.Why + "; " + why
	}
	if why != "" {
		p.info.Why = why
	}
	return nil
}

// sample reads the counters.
func (p *Port) sample(now time.Time) (sample, error) {
	// The program's first: what arrives in between the interface alone has counted, and the next
	// sample has it in both.
	c, err := p.nic.Counters()
	if err != nil {
		return sample{}, err
	}
	l, err := netlink.LinkByIndex(p.ifindex)
	if err != nil {
		return sample{}, err
	}
	a := l.Attrs()
	s := sample{at: now, sent: p.submitted(), carrier: a.RawFlags&unix.IFF_LOWER_UP != 0,
		seen: c.Pass + c.Short + c.BadVersion + c.BadLength + c.BadGID + c.ForeignGroup + c.NoSocket + c.Redirected}
	if n := a.Statistics; n != nil {
		s.rx, s.tx = n.RxPackets, n.TxPackets
		s.missed = n.RxDropped + n.RxMissedErrors + n.RxFifoErrors + n.RxOverErrors
	}
	return s, nil
}

// neighbourHeard reports whether the kernel has heard from a neighbour behind the interface in the last
// half minute (NUD_REACHABLE, of which arp(7) tells).
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
