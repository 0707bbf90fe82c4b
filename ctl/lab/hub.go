// This file makes labs whose hosts are joined by routers, each in a namespace of its own, that
// forward in the kernel (bpf/hub.c).

package lab

import (
	"fmt"
	"math/bits"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/uspace/topology"
)

// IsHub reports whether the hosts are joined by routers in the kernel. Only frames with FUNet's own
// EtherType get through those.
func (t Topology) IsHub() bool { return t == Hypercube || t == FatTree || t == Butterfly }

// Network returns how the routers of a topology are wired for a number of hosts, of which host i is
// at terminal i. It returns topology.Err if there is no such network.
func (t Topology) Network(hosts int) (*topology.Network, error) {
	digits := bits.Len(uint(hosts - 1)) // of the number of a host
	switch t {
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
	return nil, fmt.Errorf("%w: topology %q has no routers in the kernel; use hypercube, fat-tree or butterfly",
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
func bringUpRouters(n *topology.Network, hosts []Host, spaces []*space) error {
	for r := range n.Routers() {
		if err := spaces[len(hosts)+r].do(func() error { return permission(bringUpOne(n, hosts, r)) }); err != nil {
			return fmt.Errorf("router %d: %w", r, err)
		}
	}
	return nil
}

func bringUpOne(n *topology.Network, hosts []Host, router int) (err error) {
	hub, err := bpf.LoadHub()
	if err != nil {
		return err
	}
	defer func() { err = join(err, hub.Close()) }() // it stays with the interfaces
	if err := hub.SetRouter(bpf.HubRouter{Width: n.Width(), Up: n.Up(router)}); err != nil {
		return err
	}
	handle, err := netlink.NewHandle()
	if err != nil {
		return fmt.Errorf("open a netlink socket: %w", err)
	}
	defer handle.Close()
	all, err := links(handle)
	if err != nil {
		return err
	}
	for _, l := range all {
		var port int
		if _, err := fmt.Sscanf(l.Attrs().Name, portPrefix+"%d", &port); err != nil {
			continue // lo
		}
		p := bpf.HubPort{Interface: uint32(l.Attrs().Index)}
		if terminal, ok := n.End(router, port).Terminal(); ok {
			p.IsStation, p.Station = true, [6]byte(hosts[terminal].Interfaces[0].MAC)
		}
		if err := hub.SetPort(port, p); err != nil {
			return err
		}
		if _, err := raise(handle, l.Attrs().Name); err != nil {
			return err
		}
		// The native mode of a veth forwards only to ends that have a program of their own, and is
		// no quicker here.
		if err := netlink.LinkSetXdpFdWithFlags(l, hub.Program().FD(), nl.XDP_FLAGS_SKB_MODE); err != nil {
			return fmt.Errorf("attach the hub program to %s: %w", l.Attrs().Name, err)
		}
	}
	return setRoutes(hub, n, hosts, router)
}

// setRoutes tells a router the ways to all hosts from its own. A router that has none needs no way:
// the first router of a frame names the ports of all.
func setRoutes(hub *bpf.Hub, n *topology.Network, hosts []Host, router int) error {
	for from := range hosts {
		if at, _ := n.Home(from); at != router {
			continue
		}
		for to := range hosts {
			w := n.Way(from, to)
			if err := hub.SetRoute([6]byte(hosts[to].Interfaces[0].MAC), bpf.HubRoute{Bits: w.Bits, Left: w.Hops}); err != nil {
				return err
			}
		}
		break // the ways of its other hosts are the same
	}
	return nil
}
