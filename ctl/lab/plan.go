// This file makes the plan of a lab: names, addresses and cables. It is computed from the options
// alone, so that the state file suffices to describe and remove a named lab.

package lab

import (
	"fmt"
	"net"
	"net/netip"
)

// Host is one host of a lab.
type Host struct {
	Index      int         // 0..N-1
	Namespace  string      // name under /run/netns; "" in an anonymous lab
	Interfaces []Interface // in order of Name; without lo
}

// Interface is one network interface of a host.
type Interface struct {
	Name string           // fu0; in a mesh fuJ leads to host J
	MAC  net.HardwareAddr // locally administered, fixed
	Addr netip.Prefix     // IPv4
	// Addr6 is IPv6, and Gateway and Gateway6 lead to the other hosts, in a lab with a router.
	Addr6             netip.Prefix
	Gateway, Gateway6 netip.Addr
	Peer              int // number of the other end's host in a mesh; else -1
}

// cable is one veth pair. The space of an end is the index of a host, or one of the next for the
// hub or the routers.
type cable struct{ a, b end }

type end struct {
	space int
	name  string
	mac   net.HardwareAddr
}

// Names in the hub's namespace: the bridge, and the prefix of the bridge's or the router's ports.
// Port 0 is joined to host 0.
const (
	bridgeName = "fubr"
	portPrefix = "fup"
)

// plan draws the hosts and the cables of a lab; o is complete.
func plan(o Options) (hosts []Host, cables []cable) {
	hosts = make([]Host, o.Hosts)
	for i := range hosts {
		hosts[i].Index = i
		if o.Name != "" {
			hosts[i].Namespace = fmt.Sprintf("funet-%s-%d", o.Name, i)
		}
		if o.Topology == Router {
			hosts[i].Interfaces = []Interface{{
				Name: "fu0", MAC: mac(hostMAC, i, 1), Peer: -1,
				Addr: netip.PrefixFrom(routed4(i, 2), 24), Gateway: routed4(i, 1),
				Addr6: netip.PrefixFrom(routed6(i, 2), 64), Gateway6: routed6(i, 1),
			}}
			continue
		}
		if o.Topology != Mesh {
			hosts[i].Interfaces = []Interface{{
				Name: "fu0",
				MAC:  mac(hostMAC, i, 1),
				Addr: netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, 0, byte(i + 1)}), 24),
				Peer: -1,
			}}
			continue
		}
		for j := range o.Hosts {
			if j == i {
				continue
			}
			low, high := min(i, j), max(i, j)
			last := 4*high + 1 // of the /30, the lower host has the first address
			if i == high {
				last++
			}
			hosts[i].Interfaces = append(hosts[i].Interfaces, Interface{
				Name: fmt.Sprintf("fu%d", j),
				MAC:  mac(hostMAC, i, len(hosts[i].Interfaces)+1),
				Addr: netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, byte(low + 1), byte(last)}), 30),
				Peer: j,
			})
		}
	}

	at := func(host int, i Interface) end { return end{host, i.Name, i.MAC} }
	switch o.Topology {
	case Pair:
		cables = []cable{{at(0, hosts[0].Interfaces[0]), at(1, hosts[1].Interfaces[0])}}
	case Bridge, Router:
		for i, h := range hosts {
			port := end{o.Hosts, fmt.Sprint(portPrefix, i), mac(hubMAC, i, 1)}
			cables = append(cables, cable{at(i, h.Interfaces[0]), port})
		}
	case Star, Hypercube, FatTree, Butterfly:
		if n, err := o.Topology.Network(o.Hosts); err == nil { // any number of hosts has one
			cables = wires(hosts, n)
		}
	case Mesh:
		for i := range hosts {
			for j := i + 1; j < o.Hosts; j++ {
				cables = append(cables, cable{at(i, *hosts[i].to(j)), at(j, *hosts[j].to(i))})
			}
		}
	}
	return hosts, cables
}

// routed4 and routed6 return addresses on the network between host i and the router, which has
// number 1 there. They are from the ranges for benchmarks (RFC 2544, RFC 5180).
func routed4(i int, number byte) netip.Addr {
	return netip.AddrFrom4([4]byte{198, 18, byte(100 + i), number})
}

func routed6(i int, number byte) netip.Addr {
	return netip.AddrFrom16([16]byte{0x20, 0x01, 0x00, 0x02, 7: byte(i + 1), 15: number})
}

// all4 and all6 are the networks of all hosts.
var (
	all4 = netip.MustParsePrefix("198.18.0.0/15")
	all6 = netip.MustParsePrefix("2001:2::/48")
)

// The fourth byte of a MAC tells hosts from the hub.
const (
	hostMAC = 0
	hubMAC  = 1
)

// mac returns 02:46:55:KIND:HOST:IFACE ("\x02FU" and three numbers): locally administered and
// unicast (IEEE 802-2014 section 8.4).
func mac(kind, host, iface int) net.HardwareAddr {
	return net.HardwareAddr{0x02, 0x46, 0x55, byte(kind), byte(host), byte(iface)}
}

// to returns the interface through which h reaches host peer; nil for h itself.
func (h *Host) to(peer int) *Interface {
	if peer == h.Index {
		return nil
	}
	for i := range h.Interfaces {
		if p := h.Interfaces[i].Peer; p == peer || p == -1 {
			return &h.Interfaces[i]
		}
	}
	return nil
}

func hubNamespace(lab string) string { return "funet-" + lab + "-hub" }

// namespaces lists the names of all namespaces of a named lab, hosts first.
func namespaces(o Options) (names []string) {
	for i := range o.Hosts {
		names = append(names, fmt.Sprintf("funet-%s-%d", o.Name, i))
	}
	return append(names, o.hubs()...)
}
