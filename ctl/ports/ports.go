// Package ports makes direct ports: a card of its own for a process without privileges.
//
// A port is a veth pair. Its inner end lies in a network namespace that nobody else is in, and a process has the AF_XDP socket that
// is bound to it; its outer end lies beside the NIC, and the guard there (package bpf) lets pass only what that process may send.
//
// The journey of a request: a process makes memory, seals it and gives it away (afxdp.Geometry.NewMemory); Make checks it, makes the pair,
// registers the memory with a socket, binds that to the inner end and attaches programs to both ends; the process gets the socket, and opens its port
// (afxdp.OpenDirect). Add and Place tell the switch where the nodes of a job are.
//
// Rules:
//   - What a process gives away is looked at before use: its size and its seals. The pages count for whoever filled them.
//   - A Host's methods may be called from any goroutine, one at a time.
//   - End takes the node out of the switch first, then the port, then the pair: an index that is used again is another port's.
package ports

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/uspace/port/afxdp"
	"github.com/funet/funet/xdp"
)

// ErrMemory is wrapped when the memory of a process is not what it says, or may change.
var ErrMemory = errors.New("unusable memory")

// Host is the ports of a host.
type Host struct {
	sw     *bpf.Switch
	within *os.File // the namespace of the inner ends
	free   []uint32 // places among the links of the switch
	made   uint64   // pairs, for their names
}

// New prepares a host for so many ports. The calling thread is in the network namespace of the NICs, as in all other calls.
func New(most int) (_ *Host, err error) {
	h := &Host{}
	if h.sw, err = bpf.LoadSwitch(most); err != nil {
		return nil, err
	}
	err = apart(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("making a network namespace for ports: %w", err)
		}
		// Else inner ends send what IPv6 says by itself. A kernel without IPv6 has no such file.
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("switching IPv6 off for ports: %w", err)
		}
		h.within, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		return nil, errors.Join(err, h.sw.Close())
	}
	for n := range most {
		h.free = append(h.free, uint32(most-1-n))
	}
	return h, nil
}

// apart runs f on a thread that ends with it.
func apart(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good
		done <- f()
	}()
	return <-done
}

// inside runs f on a thread in the namespace of the inner ends.
func (h *Host) inside(f func() error) error {
	return apart(func() error {
		if err := unix.Setns(int(h.within.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("entering the network namespace of ports: %w", err)
		}
		return f()
	})
}

// Switch is the host's, for the NIC program (bpf.Load.Switch), jobs and places.
func (h *Host) Switch() *bpf.Switch { return h.sw }

// Port is a port that was made.
type Port struct {
	FD    int      // the socket, which the port keeps: the process gets a copy
	Info  xdp.Info // what the process needs to know of it
	Outer uint32   // index of the outer end
	Link  uint32   // place among the links of the switch
	of    bpf.Port
	inner *xdp.Attachment
	to    *xdp.RedirectProgram
}

// Make makes a port for a node of a job, on memory of its process, with links of the given MTU. The job is there (bpf.Switch.AddJob).
func (h *Host) Make(of bpf.Port, memory *os.File, mtu int) (_ *Port, err error) {
	doing := fmt.Sprintf("making a port for node %d of group %d", of.Node, of.Job.GID)
	g := afxdp.GeometryFor(mtu)
	if err := check(memory, g.Bytes()); err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	if len(h.free) == 0 {
		return nil, fmt.Errorf("%s: all ports are in use", doing)
	}
	h.made++
	p := &Port{FD: -1, of: of, Link: h.free[len(h.free)-1]}
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("fup%x", h.made), MTU: mtu}, PeerName: fmt.Sprintf("fui%x", h.made),
		PeerMTU: uint32(mtu), PeerNamespace: netlink.NsFd(h.within.Fd())}
	if err := netlink.LinkAdd(pair); err != nil {
		return nil, fmt.Errorf("%s: making its links: %w", doing, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%s: %w", doing, err), p.close(), netlink.LinkDel(pair))
		}
	}()
	p.Outer = uint32(pair.Attrs().Index)
	if err := h.inside(func() error { return p.open(pair.PeerName, memory, g) }); err != nil {
		return nil, err
	}
	if err := netlink.LinkSetUp(pair); err != nil {
		return nil, err
	}
	if err := h.guard(pair); err != nil {
		return nil, err
	}
	if err := h.sw.AddPort(p.Outer, p.Link, of); err != nil {
		return nil, err
	}
	h.free = h.free[:len(h.free)-1]
	return p, nil
}

// check looks at memory that a process gave away.
func check(memory *os.File, bytes int64) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(memory.Fd()), &st); err != nil {
		return fmt.Errorf("looking at the memory: %w", err)
	}
	seals, err := unix.FcntlInt(memory.Fd(), unix.F_GET_SEALS, 0)
	const want = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	switch {
	case err != nil:
		return fmt.Errorf("%w: it has no seals (%v); give a memfd", ErrMemory, err)
	case seals&want != want:
		return fmt.Errorf("%w: seals %#x; it must not shrink, grow, or lose its seals", ErrMemory, seals)
	case st.Size != bytes:
		return fmt.Errorf("%w: %d bytes, want %d", ErrMemory, st.Size, bytes)
	case st.Blocks*512 < bytes: // whoever fills a hole pays for it (stat(2): blocks are of 512 bytes)
		return fmt.Errorf("%w: it has holes; write all of it", ErrMemory)
	}
	return nil
}

// open makes the socket at the inner end.
func (p *Port) open(inner string, memory *os.File, g afxdp.Geometry) error {
	l, err := netlink.LinkByName(inner)
	if err == nil {
		err = netlink.LinkSetUp(l)
	}
	if err != nil {
		return fmt.Errorf("its inner end: %w", err)
	}
	g.UMEM.File = memory
	umem, err := xdp.NewUMEM(g.UMEM)
	if err != nil {
		return err
	}
	p.FD, p.Info, err = xdp.Handover(xdp.SocketConfig{Index: l.Attrs().Index, UMEM: umem, NeedWakeup: true,
		RxSize: g.RxSize, TxSize: g.TxSize, FillSize: g.FillSize, CompletionSize: g.CompletionSize})
	if err = errors.Join(err, umem.Close()); err != nil {
		return err
	}
	if p.to, err = xdp.NewRedirectProgram(xdp.RedirectConfig{EtherType: bpf.EtherType, Queues: 1}); err != nil {
		return err
	}
	if err := p.to.Sockets.Put(uint32(0), uint32(p.FD)); err != nil {
		return fmt.Errorf("its socket: %w", err)
	}
	p.inner, err = xdp.Attach(p.to.Program, l.Attrs().Index, xdp.AttachNative)
	return err
}

// guard attaches the guard to the outer end (clsact, tc-bpf(8)).
func (h *Host) guard(outer netlink.Link) error {
	index := outer.Attrs().Index
	err := netlink.QdiscAdd(&netlink.GenericQdisc{QdiscType: "clsact",
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}})
	if err == nil {
		err = netlink.FilterAdd(&netlink.BpfFilter{Fd: h.sw.Guard().FD(), Name: "funet_guard", DirectAction: true,
			FilterAttrs: netlink.FilterAttrs{LinkIndex: index, Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1, Protocol: unix.ETH_P_ALL, Priority: 1}})
	}
	if err != nil {
		return fmt.Errorf("attaching the guard: %w", err)
	}
	return nil
}

// close gives back what the port has beside its links.
func (p *Port) close() error {
	var errs []error
	if p.inner != nil {
		errs = append(errs, p.inner.Close())
	}
	if p.to != nil {
		errs = append(errs, p.to.Close())
	}
	if p.FD >= 0 {
		errs = append(errs, unix.Close(p.FD))
		p.FD = -1
	}
	return errors.Join(errs...)
}

// End ends a port: its node is nowhere, nothing passes, and the links are gone.
func (h *Host) End(p *Port) error {
	err := errors.Join(h.sw.SetPlace(p.of.Job, p.of.Node, nil), h.sw.RemovePort(p.Outer, p.Link), p.close())
	outer, e := netlink.LinkByIndex(int(p.Outer))
	if e == nil {
		e = netlink.LinkDel(outer)
	}
	h.free = append(h.free, p.Link)
	if err = errors.Join(err, e); err != nil {
		return fmt.Errorf("ending the port of node %d of group %d: %w", p.of.Node, p.of.Job.GID, err)
	}
	return nil
}

// Close gives everything back but the ports: whoever made them ends them before.
func (h *Host) Close() error { return errors.Join(h.sw.Close(), h.within.Close()) }
