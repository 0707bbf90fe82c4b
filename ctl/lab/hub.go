// This file makes labs whose hosts are joined by routers, each in a namespace of its own, that
// forward in the kernel (bpf/hub.c).

package lab

import (
	"fmt"
	"math/bits"
	"net"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/ctl/hub"
	"github.com/funet/funet/uspace/topology"
)

// IsHub reports whether the hosts are joined by routers in the kernel. Only frames with FUNet's own
// EtherType get through those.
func (t Topology) IsHub() bool { return t == Star || t == Hypercube || t == FatTree || t == Butterfly }

// Network returns how the routers of a topology are wired for a number of hosts. Host i is at
// terminal i. It returns topology.Err if no such network exists.
func (t Topology) Network(hosts int) (*topology.Network, error) {
	digits := bits.Len(uint(hosts - 1)) // of the number of a host
	switch t {
	case Star:
		return topology.Star(hosts)
	case Hypercube: // one host at a router
		radix := 4
		if digits >= radix {
			radix = 8
		}
		return topology.Hypercube(radix, digits, 1)
	case FatTree:
		if digits <= 3 {
			return topology.FatTree(4, max(digits, 1)) // two hosts at a router
		}
		return topology.FatTree(8, (digits+1)/2) // four
	case Butterfly:
		return topology.Butterfly(2, (hosts+3)/4)
	}
	return nil, fmt.Errorf("%w: topology %q has no routers in the kernel; use star, hypercube, fat-tree or butterfly",
		topology.Err, t)
}

// wires returns the cables of hosts and routers.
func wires(hosts []Host, n *topology.Network) (cables []cable) {
	port := func(router, p int) end {
		return end{len(hosts) + router, fmt.Sprint(portPrefix, p), mac(hubMAC, router, p)}
	}
	done := map[[2]int]bool{}
	for r := range n.Routers() {
		for p := range n.Radix() {
			e := n.End(r, p)
			if terminal, ok := e.Terminal(); ok && terminal < len(hosts) {
				at := hosts[terminal].Interfaces[0]
				cables = append(cables, cable{end{terminal, at.Name, at.MAC}, port(r, p)})
			} else if router, q, ok := e.Port(n.Radix()); ok && !done[[2]int{r, p}] {
				done[[2]int{router, q}] = true
				cables = append(cables, cable{port(r, p), port(router, q)})
			}
		}
	}
	return cables
}

// bringUpRouters brings the ports of all routers up, and attaches the hub program to them.
func bringUpRouters(o Options, n *topology.Network, hosts []Host, spaces []*space) error {
	for r := range n.Routers() {
		err := spaces[len(hosts)+r].netlink(func(handle *netlink.Handle) error {
			return bringUpOne(handle, o, n, hosts, r)
		})
		if err != nil {
			return fmt.Errorf("router %d: %w", r, err)
		}
	}
	return nil
}

func bringUpOne(handle *netlink.Handle, o Options, n *topology.Network, hosts []Host, router int) (err error) {
	h, err := bpf.LoadHub()
	if err != nil {
		return err
	}
	defer func() { err = join(err, h.Close()) }() // it stays with the interfaces
	err = eachPort(handle, func(port int, l netlink.Link) error {
		p := bpf.HubPort{Interface: uint32(l.Attrs().Index)}
		if terminal, ok := n.End(router, port).Terminal(); ok {
			p.IsStation, p.Station = true, [6]byte(hosts[terminal].Interfaces[0].MAC)
		}
		if _, far, ok := n.Wire(router, port); ok {
			p.Far = far
		}
		if err := h.SetPort(port, p); err != nil {
			return err
		}
		if _, err := raise(handle, l.Attrs().Name); err != nil {
			return err
		}
		// The native mode of a veth forwards only to ends that have a program of their own, and is
		// no quicker here.
		if err := netlink.LinkSetXdpFdWithFlags(l, h.Program().FD(), nl.XDP_FLAGS_SKB_MODE); err != nil {
			return fmt.Errorf("attach the hub program: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return hub.Forward(h, n, func(int, int) bool { return false }, router, o.Hashed, macs(hosts))
}

// macs returns the addresses of all hosts, in the order of their terminals.
func macs(hosts []Host) (all [][6]byte) {
	for _, h := range hosts {
		all = append(all, [6]byte(h.Interfaces[0].MAC))
	}
	return all
}

// RouterState is what a router of a lab does.
type RouterState struct {
	Down     []int           // ports that are down, whichever end of the wire is
	Counters bpf.HubCounters // since the lab was made
}

// Routers returns the state of each router in the kernel. It returns ErrNoHost if the lab has none.
func (l *Lab) Routers() ([]RouterState, error) {
	n, failed, err := l.failed()
	if err != nil {
		return nil, err
	}
	m := n.Without(failed)
	states := make([]RouterState, n.Routers())
	for r := range states {
		for p := range n.Radix() {
			if n.End(r, p) != m.End(r, p) && m.End(r, p) == topology.Unwired {
				states[r].Down = append(states[r].Down, p)
			}
		}
		err := l.router(r, func(h *bpf.Hub, _ *netlink.Handle) (err error) {
			states[r].Counters, err = h.Counters()
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return states, nil
}

// SetWire breaks the wire of a router's port, or mends it. Port -1 stands for all ports of the
// router. Then the routers' ways are computed anew, for all wires that are down. SetWire returns
// the pairs of hosts that cannot reach each other. It returns ErrNoHost if there is no such port.
func (l *Lab) SetWire(router, port int, up bool) (apart [][2]int, err error) {
	n, err := l.network()
	if err != nil {
		return nil, err
	}
	if router < 0 || router >= n.Routers() || port < -1 || port >= n.Radix() {
		return nil, fmt.Errorf("%w: port %d of router %d; there are %d routers of %d ports", ErrNoHost, port, router,
			n.Routers(), n.Radix())
	}
	found, err := l.setPorts(router, func(p int) bool { return port < 0 || p == port }, up)
	if err == nil && !found {
		err = fmt.Errorf("%w: port %d of router %d has no wire", ErrNoHost, port, router)
	}
	for p := 0; up && err == nil && p < n.Radix(); p++ { // whichever end was broken
		if to, far, ok := n.Wire(router, p); ok && (port < 0 || p == port) {
			_, err = l.setPorts(to, func(p int) bool { return p == far }, up)
		}
	}
	if err == nil && up {
		deadline := time.Now().Add(linkDeadline)
		err = l.spaces[len(l.hosts)+router].netlink(func(handle *netlink.Handle) error {
			return waitUp(handle, deadline, hub.Carries) // for no wire that is broken
		})
	}
	if err != nil {
		return nil, err
	}
	return l.reroute()
}

// setPorts brings chosen ports of a router up or down, and reports whether there were any.
func (l *Lab) setPorts(router int, chosen func(port int) bool, up bool) (found bool, err error) {
	err = l.spaces[len(l.hosts)+router].netlink(func(handle *netlink.Handle) error {
		return eachPort(handle, func(p int, link netlink.Link) error {
			if !chosen(p) {
				return nil
			}
			found = true
			if up {
				return handle.LinkSetUp(link)
			}
			return handle.LinkSetDown(link)
		})
	})
	return found, err
}

// reroute tells all routers the ways over wires that are not down.
func (l *Lab) reroute() (apart [][2]int, err error) {
	whole, failed, err := l.failed()
	if err != nil {
		return nil, err
	}
	n := whole.Without(failed)
	for r := range n.Routers() {
		err := l.router(r, func(h *bpf.Hub, _ *netlink.Handle) error {
			return hub.Forward(h, whole, failed, r, l.opts.Hashed, macs(l.hosts))
		})
		if err != nil {
			return nil, err
		}
	}
	for a := range l.hosts {
		for b := range a {
			if n.Way(a, b).Hops == 0 || n.Way(b, a).Hops == 0 {
				apart = append(apart, [2]int{b, a})
			}
		}
	}
	return apart, nil
}

func (l *Lab) network() (*topology.Network, error) {
	if !l.opts.Topology.IsHub() {
		return nil, fmt.Errorf("%w: a lab of topology %s has no routers in the kernel", ErrNoHost, l.opts.Topology)
	}
	return l.opts.Topology.Network(l.opts.Hosts)
}

// failed returns the network, and which ports are down.
func (l *Lab) failed() (_ *topology.Network, failed func(router, port int) bool, err error) {
	n, err := l.network()
	if err != nil {
		return nil, nil, err
	}
	down := map[[2]int]bool{}
	for r := range n.Routers() {
		err := l.spaces[len(l.hosts)+r].netlink(func(handle *netlink.Handle) error {
			return eachPort(handle, func(p int, link netlink.Link) error {
				if link.Attrs().Flags&net.FlagUp == 0 {
					down[[2]int{r, p}] = true
				}
				return nil
			})
		})
		if err != nil {
			return nil, nil, fmt.Errorf("router %d: %w", r, err)
		}
	}
	return n, func(router, port int) bool { return down[[2]int{router, port}] }, nil
}

// router calls f in a router's namespace with its program.
func (l *Lab) router(r int, f func(*bpf.Hub, *netlink.Handle) error) error {
	err := l.spaces[len(l.hosts)+r].netlink(func(handle *netlink.Handle) (err error) {
		var h *bpf.Hub
		err = eachPort(handle, func(_ int, link netlink.Link) (err error) {
			if x := link.Attrs().Xdp; h == nil && x != nil && x.Attached {
				h, err = bpf.TakeHub(x.ProgId)
			}
			return err
		})
		if h != nil {
			defer func() { err = join(err, h.Close()) }()
		} else if err == nil {
			err = fmt.Errorf("%w: it has no program; make the lab anew", ErrDamaged)
		}
		if err != nil {
			return err
		}
		return f(h, handle)
	})
	if err != nil {
		return fmt.Errorf("router %d: %w", r, err)
	}
	return nil
}

// eachPort calls f with the ports of the router in whose namespace it runs.
func eachPort(handle *netlink.Handle, f func(port int, link netlink.Link) error) error {
	all, err := links(handle)
	if err != nil {
		return err
	}
	for _, l := range all {
		var port int
		if _, err := fmt.Sscanf(l.Attrs().Name, portPrefix+"%d", &port); err != nil {
			continue // lo
		}
		if err := f(port, l); err != nil {
			return fmt.Errorf("%s: %w", l.Attrs().Name, err)
		}
	}
	return nil
}
