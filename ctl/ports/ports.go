// Package ports makes direct ports: a card of its own for a process without privileges.
//
// A port is a veth pair. Its inner end lies in a network namespace that only the helper is in; a
// process has the AF_XDP socket that is bound to it. Its outer end lies beside the NIC. The guard
// there (package bpf) lets only those frames pass that the process may send.
//
// The journey of a request: a process asks funid for its node's port. Funid makes memory for it,
// which counts as the user's, and asks its helper (client.go, helper.go; wire.go has the messages).
// The helper makes the pair, registers the memory with a socket, binds the socket to the inner end
// and attaches programs to both ends (Host.Make). Memory and socket go to the process, which opens
// its port (package afxdp). AddJob and Place tell the switch where the nodes of a job are.
//
// Rules:
//   - Ports are used only where test ports have carried frames (Client.Prove, prove.go).
//   - Helper and funid may be of two successive releases (wire.go).
//   - The helper is a process of its own, which keeps the capabilities that funid drops. Only funid
//     sends it requests, and has checked what processes ask for. The helper outlives funid: the
//     next funid finds jobs and ports there (Client.Held).
//   - All ports of a host have their programs in one mode. In native mode the guard is a tc
//     program. In generic mode, on a NIC that is a veth, it is an XDP program (package bpf, Ports).
//   - A Host's methods are called one at a time, by threads in the network namespace of the NICs:
//     the kernel looks a link for the switch up in the caller's namespace (dev_map_update_elem,
//     kernel/bpf/devmap.c).
//   - End takes the node out of the switch first, then the port: an index that is used again is
//     another port's.
//   - Memory that the processes of two ports share (share.go) is erased as soon as one of the two
//     ends, whichever funid is there then.
//   - The kernel keeps links, guards and sockets. Everything else that a helper needs is also at
//     its service manager (store.go, ledger.go). The next helper takes it over (takeover.go) while
//     frames go on. Without a service manager ports go on without their helper, but cannot be
//     managed any more.
//   - What a process keeps counts for it: a port that has ended is gone only when no process holds
//     its socket any more (Gone). Then its pair waits for the account's next port for a while
//     (spare.go), or a goroutine of its own deletes it, since that takes the kernel some 20 ms.
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

// ErrFull reports that all ports are in use.
var ErrFull = errors.New("all ports of the host are in use")

// MaxMTU is the largest MTU of a port's links, in bytes. Where a veth has a native program, a page
// has to hold the frame with room before and behind it (veth_xdp_set, drivers/net/veth.c).
const MaxMTU = 3498

// Host manages the ports of a host.
type Host struct {
	sw     *bpf.Switch
	inner  *space          // of the inner ends
	probe  *xdp.UMEM       // of sockets that test whether other sockets are bound
	handle *netlink.Handle // of the NIC's network namespace
	free   []uint32        // places among the links of the switch
	made   uint64          // pairs, for their names
	graves chan grave
	buried chan uint32    // places that are free again
	dying  int            // pairs in graves or buried
	ports  int            // ports whose links exist, in
	mode   xdp.AttachMode // this mode
	spares []spare        // pairs of ports that are gone, oldest first
	store  *Store
	ledger *ledger
	head   head
	left   *legacy // of the previous helper; nil: there was none
}

// grave is a pair to be deleted, and its place.
type grave struct {
	outer int
	link  uint32
}

// New prepares a host for the given number of ports. It takes over the store, and the ports in it.
// The calling thread is in the network namespace of the NICs. Errors: ErrStore, after which the
// store is empty and New may be called again, and those of the kernel.
func New(most int, store *Store) (_ *Host, err error) {
	h := &Host{graves: make(chan grave, most), buried: make(chan uint32, most), store: store}
	defer func() {
		if err != nil {
			if h.sw != nil {
				err = errors.Join(err, h.sw.Close())
			}
			if h.inner != nil {
				h.inner.close()
			}
			err = errors.Join(err, h.ledger.close())
		}
	}()
	if h.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return nil, fmt.Errorf("preparing for ports: %w", err)
	}
	if store.has() {
		if err := h.takeOver(most); err != nil {
			store.discard()
			return nil, fmt.Errorf("%w: %w", ErrStore, err)
		}
	} else if err := h.begin(most); err != nil {
		return nil, err
	}
	undertaker, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("preparing for ports: %w", err)
	}
	if h.probe, err = xdp.NewUMEM(xdp.UMEMConfig{FrameCount: 2}); err != nil {
		undertaker.Close()
		return nil, err
	}
	go h.bury(undertaker)
	return h, nil
}

// begin makes the maps and the namespace of a host, and has the service manager keep them.
func (h *Host) begin(most int) (err error) {
	if h.sw, err = bpf.LoadSwitch(most); err != nil {
		return err
	}
	if h.inner, err = newSpace(nil); err != nil {
		return err
	}
	for n := range most {
		h.free = append(h.free, uint32(most-1-n))
	}
	if h.store == nil {
		return nil
	}
	if h.ledger, err = newLedger(); err == nil {
		err = h.ledger.get(0, &h.head)
	}
	if err == nil {
		err = h.store.keep(name("ledger"), int(h.ledger.file.Fd()))
	}
	if err == nil {
		err = h.store.keep(name("space"), h.inner.fd())
	}
	for i, fd := range h.sw.Shared().FDs() {
		if err == nil {
			err = h.store.keep(name("map", uint64(i)), fd)
		}
	}
	return err
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

// Port is a port that was made.
type Port struct {
	FD     int    // the socket, until letGo
	Outer  uint32 // index of the outer end
	Link   uint32 // place among the links of the switch
	of     bpf.Port
	mode   xdp.AttachMode
	mtu    int    // of its links; 0: the previous helper made them
	number uint64 // in the names of its ends
}

func (p *Port) inner() string { return fmt.Sprintf(innerName, p.number) }

// outerName and innerName are the names of the ends of a pair.
const outerName, innerName = "fup%x", "fui%x"

// Make makes a port for a node of a job, on memory that is divided as the geometry says. Its links
// have the given MTU, and its programs run in the given mode, native or generic. The mode has to be
// that of the existing ports, or the ports would not reach each other. The job must exist
// (bpf.Switch.AddJob). Errors: ErrFull, and those of the kernel.
func (h *Host) Make(of bpf.Port, memory *os.File, g port.Geometry, mtu int, mode xdp.AttachMode) (_ *Port, err error) {
	doing := fmt.Sprintf("making a port for node %d of group %d", of.Node, of.Job.GID)
	if h.ports != 0 && mode != h.mode {
		return nil, fmt.Errorf("%s: %w, in the XDP mode that the interfaces had before; end their jobs", doing, ErrFull)
	}
	for reuse := true; ; {
		var p *Port
		if reuse {
			p = h.usePair(of.Account, mtu, mode)
		}
		if reuse = p != nil; !reuse {
			if p, err = h.newPair(mtu, mode); err != nil {
				return nil, fmt.Errorf("%s: %w", doing, err)
			}
		}
		p.of = of
		err = h.open(p, memory, g, reuse)
		switch {
		case err == nil:
			return p, nil
		// the kernel has its last socket yet, and may for seconds
		case reuse && errors.Is(err, xdp.ErrBusy):
			h.keepPair(p)
			reuse = false
			continue
		}
		err = errors.Join(fmt.Errorf("%s: %w", doing, err), p.close())
		h.remove(p)
		if !reuse { // else its links may have been somebody's to change
			return nil, err
		}
	}
}

// open makes a port of a pair; again says that the pair has been a port's before.
func (h *Host) open(p *Port, memory *os.File, g port.Geometry, again bool) error {
	if err := h.inner.do(func() error { return p.open(h.inner.handle, memory, g) }); err != nil {
		return err
	}
	if !again {
		outer := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Index: int(p.Outer)}}
		if err := h.handle.LinkSetUp(outer); err != nil {
			return err
		}
		if err := h.guard(outer, p.mode, false); err != nil {
			return err
		}
	}
	return h.sw.AddPort(p.Outer, p.Link, p.of)
}

func (h *Host) newPair(mtu int, mode xdp.AttachMode) (*Port, error) {
	link, ok := h.place()
	if !ok {
		return nil, ErrFull
	}
	h.made++
	p := &Port{FD: -1, Link: link, mode: mode, mtu: mtu, number: h.made}
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf(outerName, p.number), MTU: mtu},
		PeerName: p.inner(),
		PeerMTU:  uint32(mtu), PeerNamespace: netlink.NsFd(h.inner.fd())}
	if err := h.handle.LinkAdd(pair); err != nil {
		h.free = append(h.free, link)
		return nil, fmt.Errorf("making its links: %w", err)
	}
	p.Outer = uint32(pair.Attrs().Index)
	h.ports, h.mode = h.ports+1, mode
	return p, nil
}

// place takes a place among the links. If no place is free it deletes the spare pairs, and waits
// until the deletion of a pair is complete.
func (h *Host) place() (link uint32, ok bool) {
	for more := true; more; {
		select {
		case link := <-h.buried:
			h.dying--
			h.free = append(h.free, link)
		default:
			more = false
		}
	}
	if len(h.free) == 0 {
		if h.dying == 0 {
			h.endSpares(0)
		}
		if h.dying == 0 {
			return 0, false
		}
		link := <-h.buried
		h.dying--
		return link, true
	}
	link = h.free[len(h.free)-1]
	h.free = h.free[:len(h.free)-1]
	return link, true
}

// open makes the socket at the inner end.
func (p *Port) open(handle *netlink.Handle, memory *os.File, g port.Geometry) (err error) {
	l, err := handle.LinkByName(p.inner())
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
		RxSize: g.RxSize, TxSize: g.TxSize, FillSize: g.FillSize, CompletionSize: g.CompletionSize}, 0)
	if err = errors.Join(err, umem.Close()); err != nil {
		return err
	}
	to, err := xdp.NewRedirectProgram(xdp.RedirectConfig{EtherType: bpf.EtherType, Queues: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }() // the link has it
	if err := to.Sockets.Put(uint32(0), uint32(p.FD)); err != nil {
		return fmt.Errorf("its socket: %w", err)
	}
	flags := unix.XDP_FLAGS_DRV_MODE
	if p.mode == xdp.AttachGeneric {
		flags = unix.XDP_FLAGS_SKB_MODE
	}
	if err := netlink.LinkSetXdpFdWithFlags(l, to.Program.FD(), flags); err != nil {
		return fmt.Errorf("attaching the program of its inner end: %w", err)
	}
	return nil
}

// guard attaches the guard to the outer end: at clsact (tc-bpf(8)), or in generic mode as its XDP
// program. With instead it replaces the guard that is there. Both live as long as the link.
func (h *Host) guard(outer netlink.Link, mode xdp.AttachMode, instead bool) (err error) {
	index := outer.Attrs().Index
	if mode == xdp.AttachGeneric {
		err = netlink.LinkSetXdpFdWithFlags(outer, h.sw.Guard(true).FD(), unix.XDP_FLAGS_SKB_MODE)
	} else {
		if !instead {
			err = h.handle.QdiscAdd(&netlink.GenericQdisc{QdiscType: "clsact",
				QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0),
					Parent: netlink.HANDLE_CLSACT}})
		}
		if err == nil {
			err = h.handle.FilterReplace(&netlink.BpfFilter{Fd: h.sw.Guard(false).FD(), Name: "funet_guard",
				DirectAction: true,
				FilterAttrs: netlink.FilterAttrs{LinkIndex: index, Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1,
					Protocol: unix.ETH_P_ALL, Priority: 1}})
		}
	}
	if err != nil {
		return fmt.Errorf("attaching the guard: %w", err)
	}
	return nil
}

// close closes the port's resources other than its links.
func (p *Port) close() error {
	if p.FD < 0 {
		return nil
	}
	return p.letGo()
}

// End ends a port: its node has no place any more, and no frame passes. Its process may keep the
// socket, until Gone. If the job has ended before, the node's place is gone already.
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

// Gone reports whether no process has the socket of an ended port any more. If so it keeps the
// port's pair for another port, or has it deleted (keepPair). Do not ask about that port again.
func (h *Host) Gone(p *Port) (bool, error) {
	alive, err := h.alive(p)
	if alive {
		return false, nil
	}
	if err == nil {
		h.keepPair(p)
	} else {
		h.remove(p)
	}
	return true, err
}

// alive reports whether a process has a port's socket.
func (h *Host) alive(p *Port) (taken bool, err error) {
	err = h.inner.do(func() (err error) {
		taken, err = xdp.Taken(xdp.SocketConfig{Interface: p.inner(), UMEM: h.probe, RxSize: 1, TxSize: 1, FillSize: 1,
			CompletionSize: 1})
		return err
	})
	return taken, err
}

// letGo closes the port's own descriptor of the socket, once its process has one.
func (p *Port) letGo() error {
	fd := p.FD
	p.FD = -1
	return unix.Close(fd)
}

func (h *Host) remove(p *Port) {
	h.ports--
	h.dying++
	h.graves <- grave{int(p.Outer), p.Link}
}

// Close gives everything back except the ports, which the caller ends first. It waits until their
// links are gone.
func (h *Host) Close() error {
	h.endSpares(0)
	close(h.graves)
	for range h.buried { // until it is closed
	}
	h.handle.Close()
	h.inner.close()
	h.store.drop(name("space"))
	h.store.drop(name("ledger"))
	for i := range bpf.SharedMaps {
		h.store.drop(name("map", uint64(i)))
	}
	return errors.Join(h.probe.Close(), h.sw.Close(), h.ledger.close(), h.store.close())
}
