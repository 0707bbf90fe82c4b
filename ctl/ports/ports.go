// Package ports makes direct ports: a card of its own for a process without privileges.
//
// A port is a veth pair. Its inner end lies in a network namespace that nobody else is in, and a process has the
// AF_XDP socket that is bound to it; its outer end lies beside the NIC, and the guard there (package bpf) lets pass
// only what that process may send.
//
// The journey of a request: a process asks funid for its node's port; funid makes memory for it, which counts as the
// user's, and asks its helper (client.go, helper.go; wire.go is what they say). The helper makes the pair, registers the
// memory with a socket, binds that to the inner end and attaches programs to both ends (Host.Make). Memory and socket go to
// the process, which opens its port (package afxdp). AddJob and Place tell the switch where the nodes of a job are.
//
// Rules:
//   - The helper is a process of its own, which keeps the capabilities that funid drops. Only funid asks
//     it, and has checked what processes ask for. It outlives funid: the next one finds jobs and ports there (Client.Held).
//   - A Host's methods are called one at a time, by threads in the network namespace of the NICs: the kernel looks a link for
//     the switch up in that of the caller (dev_map_update_elem, kernel/bpf/devmap.c).
//   - End takes the node out of the switch first, then the port: an index that is used again is another port's.
//   - What a process keeps counts for it: a port that has ended is gone when nobody holds its socket any more (Gone). Then its
//     pair goes, on a goroutine of its own, which the kernel keeps for some 20 ms.
package ports

import (
	"errors"
	"fmt"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/uspace/port"
	"github.com/funet/funet/xdp"
)

// ErrFull: all ports are in use.
var ErrFull = errors.New("all ports of the host are in use")

// Host is the ports of a host.
type Host struct {
	sw     *bpf.Switch
	inner  *space          // of the inner ends
	probe  *xdp.UMEM       // of sockets that find out whether others are there
	handle *netlink.Handle // of the NIC's network namespace
	free   []uint32        // places among the links of the switch
	made   uint64          // pairs, for their names
	graves chan grave
	buried chan uint32 // places that are free again
}

// grave is a pair that is to go, and its place.
type grave struct {
	outer int
	link  uint32
}

// New prepares a host for so many ports. The calling thread is in the network namespace of the NICs.
func New(most int) (_ *Host, err error) {
	h := &Host{graves: make(chan grave, most), buried: make(chan uint32, most)}
	if h.sw, err = bpf.LoadSwitch(most); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.sw.Close())
			if h.inner != nil {
				h.inner.close()
			}
		}
	}()
	if h.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return nil, fmt.Errorf("preparing for ports: %w", err)
	}
	undertaker, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("preparing for ports: %w", err)
	}
	if h.inner, err = newSpace(); err != nil {
		undertaker.Close()
		return nil, err
	}
	if h.probe, err = xdp.NewUMEM(xdp.UMEMConfig{FrameCount: 2}); err != nil {
		undertaker.Close()
		return nil, err
	}
	for n := range most {
		h.free = append(h.free, uint32(most-1-n))
	}
	go h.bury(undertaker)
	return h, nil
}

// bury deletes pairs until graves is closed.
func (h *Host) bury(handle *netlink.Handle) {
	defer close(h.buried)
	defer handle.Close()
	for g := range h.graves {
		// It may be gone with its NIC's namespace, or somebody has deleted it.
		_ = handle.LinkDel(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Index: g.outer}})
		h.buried <- g.link
	}
}

// Switch is the host's, for the NIC program (bpf.Load.Switch), jobs and places.
func (h *Host) Switch() *bpf.Switch { return h.sw }

// Port is a port that was made.
type Port struct {
	FD    int    // the socket, until letGo
	Outer uint32 // index of the outer end
	Link  uint32 // place among the links of the switch
	of    bpf.Port
	name  string // of the inner end
	inner *xdp.Attachment
	to    *xdp.RedirectProgram
}

// Make makes a port for a node of a job, on memory that is divided as the geometry says, with links of the given MTU. The job is there
// (bpf.Switch.AddJob). Errors: ErrFull, and those of the kernel.
func (h *Host) Make(of bpf.Port, memory *os.File, g port.Geometry, mtu int) (_ *Port, err error) {
	doing := fmt.Sprintf("making a port for node %d of group %d", of.Node, of.Job.GID)
	link, ok := h.place()
	if !ok {
		return nil, fmt.Errorf("%s: %w", doing, ErrFull)
	}
	h.made++
	p := &Port{FD: -1, of: of, Link: link, name: fmt.Sprintf("fui%x", h.made)}
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("fup%x", h.made), MTU: mtu}, PeerName: p.name,
		PeerMTU: uint32(mtu), PeerNamespace: netlink.NsFd(h.inner.fd())}
	if err := h.handle.LinkAdd(pair); err != nil {
		h.free = append(h.free, link)
		return nil, fmt.Errorf("%s: making its links: %w", doing, err)
	}
	p.Outer = uint32(pair.Attrs().Index)
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%s: %w", doing, err), p.close())
			h.remove(p)
		}
	}()
	if err := h.inner.do(func() error { return p.open(h.inner.handle, memory, g) }); err != nil {
		return nil, err
	}
	if err := h.handle.LinkSetUp(pair); err != nil {
		return nil, err
	}
	if err := h.guard(pair); err != nil {
		return nil, err
	}
	return p, h.sw.AddPort(p.Outer, p.Link, of)
}

// place takes a place among the links. One that a pair has which is about to go is waited for if there is no other.
func (h *Host) place() (link uint32, ok bool) {
	for more := true; more; {
		select {
		case link := <-h.buried:
			h.free = append(h.free, link)
		default:
			more = false
		}
	}
	if len(h.free) == 0 {
		return 0, false
	}
	link = h.free[len(h.free)-1]
	h.free = h.free[:len(h.free)-1]
	return link, true
}

// open makes the socket at the inner end.
func (p *Port) open(handle *netlink.Handle, memory *os.File, g port.Geometry) error {
	l, err := handle.LinkByName(p.name)
	if err == nil {
		err = handle.LinkSetUp(l)
	}
	if err != nil {
		return fmt.Errorf("its inner end: %w", err)
	}
	umem, err := xdp.NewUMEM(xdp.UMEMConfig{FrameSize: g.FrameSize, FrameCount: g.Frames, File: memory})
	if err != nil {
		return err
	}
	p.FD, _, err = xdp.Handover(xdp.SocketConfig{Index: l.Attrs().Index, UMEM: umem, NeedWakeup: true,
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
	err := h.handle.QdiscAdd(&netlink.GenericQdisc{QdiscType: "clsact",
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}})
	if err == nil {
		err = h.handle.FilterAdd(&netlink.BpfFilter{Fd: h.sw.Guard().FD(), Name: "funet_guard", DirectAction: true,
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
		errs = append(errs, p.letGo())
	}
	return errors.Join(errs...)
}

// End ends a port: its node is nowhere, and nothing passes. Its process may keep the socket, until Gone. A job that has ended before
// took its places along.
func (h *Host) End(p *Port) error {
	var err error
	if h.sw.HasJob(p.of.Job) {
		err = h.sw.SetPlace(p.of.Job, p.of.Node, nil)
	}
	if err = errors.Join(err, h.sw.RemovePort(p.Outer, p.Link), p.close()); err != nil {
		return fmt.Errorf("ending the port of node %d of group %d: %w", p.of.Node, p.of.Job.GID, err)
	}
	return nil
}

// Gone reports whether nobody has the socket of a port any more that has ended, and then has its links deleted; it must not be asked again.
func (h *Host) Gone(p *Port) (bool, error) {
	alive, err := h.alive(p)
	if alive {
		return false, nil
	}
	h.remove(p)
	return true, err
}

// alive reports whether somebody has a port's socket.
func (h *Host) alive(p *Port) (taken bool, err error) {
	err = h.inner.do(func() (err error) {
		taken, err = xdp.Taken(xdp.SocketConfig{Interface: p.name, UMEM: h.probe, RxSize: 1, TxSize: 1, FillSize: 1, CompletionSize: 1})
		return err
	})
	return taken, err
}

// letGo closes the port's own descriptor of the socket, when its process has one.
func (p *Port) letGo() error {
	fd := p.FD
	p.FD = -1
	return unix.Close(fd)
}

// remove has the links of a port deleted.
func (h *Host) remove(p *Port) { h.graves <- grave{int(p.Outer), p.Link} }

// Close gives everything back but the ports: whoever made them ends them before. It waits until their links are gone.
func (h *Host) Close() error {
	close(h.graves)
	for range h.buried { // until it is closed
	}
	h.handle.Close()
	h.inner.close()
	return errors.Join(h.probe.Close(), h.sw.Close())
}
