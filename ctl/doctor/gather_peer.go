package doctor

// This file identifies the peer, asks the kernel about it, and finds out which frames pass.

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/doctor/probe"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/xdp"
)

// findPeer makes a Peer from the user's name for it, and returns its interface in the peers file.
func findPeer(ctx context.Context, o *Options) (p *Peer, iface string) {
	p = &Peer{Given: o.Peer, Node: -1, OwnNode: -1, OwnListed: true, Port: cmp.Or(o.Port, probe.DefaultPort)}
	if n, err := strconv.ParseUint(o.Peer, 10, 16); err == nil {
		if o.Peers == "" && o.daemon != nil && o.daemon.State == Answers {
			return p, p.fromDaemon(ctx, o.daemon, int(n))
		}
		return p, p.fromFile(o, int(n))
	}
	if mac, err := net.ParseMAC(o.Peer); err == nil {
		if len(mac) != 6 || mac[0]&1 != 0 {
			p.Problem, p.Cure = "it is no Ethernet address of one card",
				"name the peer's own address, as `ip link` shows it there"
		}
		p.MAC = mac
		return p, ""
	}
	if a, err := netip.ParseAddr(o.Peer); err == nil {
		p.Addr = a.Unmap()
		return p, ""
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", o.Peer)
	if err != nil || len(addrs) == 0 {
		p.Problem, p.Cure = fmt.Sprintf("no address is known for this name (%v)", err),
			"name its IP or MAC address, or its node with --peers"
		return p, ""
	}
	p.Addr = addrs[0].Unmap()
	for _, a := range addrs { // IPv4 needs no interface to be named
		if a.Unmap().Is4() {
			p.Addr = a.Unmap()
			break
		}
	}
	return p, ""
}

func (p *Peer) fromFile(o *Options, node int) (iface string) {
	if o.Peers == "" {
		p.Problem,
			p.Cure =
			"a number is a node of a peers file, and none is given, or a card that funid of this host knows, and none answers", "say which with --peers, or name the peer's address"
		return ""
	}
	if strings.HasPrefix(o.Peers, config.EtcdScheme) {
		p.Problem, p.Cure = "--peers names a table in etcd, which only funid reads",
			"leave --peers out: funid knows the hosts"
		return ""
	}
	f, err := cluster.Load(o.Peers)
	if err != nil {
		p.Problem, p.Cure = err.Error(), "put the peers file right; `funet lab peers` shows one"
		return ""
	}
	if node >= len(f.Peers) {
		p.Problem, p.Cure = fmt.Sprintf("%s has nodes 0 to %d", o.Peers, len(f.Peers)-1), "name one of these"
		return ""
	}
	if f.Peers[node].Absent {
		p.Problem, p.Cure = fmt.Sprintf("%s has node %d as absent", o.Peers, node),
			"give it a mac there, or name another"
		return ""
	}
	p.Node, p.MAC, iface = node, f.Peers[node].MAC, f.Peers[node].Iface
	if f.Encap == cluster.UDP {
		p.Datagrams, p.MAC, p.Addr = true, nil, f.Peers[node].Address
		if f.Port != 0 && o.Port == 0 {
			p.Port = f.Port
		}
		own := localAddresses()
		p.OwnListed = slices.ContainsFunc(f.Peers, func(q cluster.Peer) bool { return own[q.Address] })
		p.Own = own[p.Addr]
		return iface
	}
	p.OwnListed = false
	if ifc, err := xdp.Find(cmp.Or(o.Interface, iface)); err == nil {
		for _, q := range f.Peers {
			// The file's entry of this host names the interface that has the address, if any.
			if !q.Absent && bytes.Equal(q.MAC, ifc.HardwareAddr) {
				p.OwnListed, p.OwnNode = true, int(q.Node)
			}
		}
		p.OwnListed = p.OwnListed || ownAddress(f)
	} else {
		p.OwnListed = true // there is worse to say
	}
	return iface
}

// localAddresses returns the IP addresses of this host.
func localAddresses() map[netip.Addr]bool {
	own := map[netip.Addr]bool{}
	all, _ := net.InterfaceAddrs() // none: then no address is the host's
	for _, a := range all {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			own[prefix.Addr().Unmap()] = true
		}
	}
	return own
}

// ownAddress reports whether the file has the address of an interface of this host.
func ownAddress(f *cluster.File) bool {
	all, err := net.Interfaces()
	return err != nil || slices.ContainsFunc(all, func(i net.Interface) bool {
		return slices.ContainsFunc(f.Peers, func(q cluster.Peer) bool {
			return !q.Absent && bytes.Equal(q.MAC, i.HardwareAddr)
		})
	})
}

// look asks the kernel about the peer, and probes which frames pass.
func (p *Peer) look(ctx context.Context, o *Options, i *Interface) {
	if i == nil {
		p.Problem, p.Cure = "no interface is named, and nothing is sent on one that is not",
			"say which leads there with --iface"
		return
	}
	if !i.There || !i.Up || i.Loopback || len(i.MAC) != 6 {
		p.ProbeErr = "interface " + i.Name + " cannot send"
		return
	}
	var ifc *net.Interface
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err == nil {
		defer h.Close()
		ifc, err = net.InterfaceByName(i.Name)
	}
	if err != nil {
		p.ProbeErr = err.Error()
		return
	}
	if !p.Addr.IsValid() {
		p.Addr = addressOf(h, ifc.Index, p.MAC)
	}
	p.Own = p.Own || bytes.Equal(p.MAC, ifc.HardwareAddr)
	p.route(h, ifc)
	if p.Own {
		return
	}
	resolve := func() net.HardwareAddr {
		p.neighbour(h, ifc.Index)
		if p.Gateway.IsValid() {
			return nil // the gateway's address is not the peer's
		}
		return p.Neighbour
	}
	r, err := probe.Ask(ctx, probe.Target{Interface: i.Name, MAC: p.MAC, Addr: p.Addr, Port: p.Port, Resolve: resolve,
		Hello: o.hello && !p.Datagrams}, o.Patience)
	p.neighbour(h, ifc.Index)
	if err != nil {
		p.ProbeErr = err.Error()
		return
	}
	p.Result = &r
}

// addressOf finds the IP address that the neighbour table has for an Ethernet address.
func addressOf(h *netlink.Handle, index int, mac net.HardwareAddr) (found netip.Addr) {
	list, err := h.NeighList(index, netlink.FAMILY_ALL)
	if err != nil {
		return found
	}
	for _, n := range list {
		if a, ok := netip.AddrFromSlice(n.IP); ok && bytes.Equal(n.HardwareAddr, mac) {
			if found = a.Unmap(); found.Is4() {
				return found
			}
		}
	}
	if found.Is6() && found.IsLinkLocalUnicast() {
		if i, err := net.InterfaceByIndex(index); err == nil {
			found = found.WithZone(i.Name)
		}
	}
	return found
}

// neighbour reads the result of ARP or neighbour discovery.
func (p *Peer) neighbour(h *netlink.Handle, index int) {
	if !p.Addr.IsValid() {
		return
	}
	list, err := h.NeighList(index, netlink.FAMILY_ALL)
	if err != nil {
		return
	}
	for _, n := range list {
		if a, ok := netip.AddrFromSlice(n.IP); !ok || a.Unmap() != p.Addr.WithZone("") {
			continue
		}
		p.NeighbourState = neighbourStates[n.State]
		if len(n.HardwareAddr) == 6 && n.State&(netlink.NUD_FAILED|netlink.NUD_INCOMPLETE) == 0 {
			p.Neighbour = n.HardwareAddr
		}
	}
}

// neighbourStates are the names of neighbour states in ip-neighbour(8).
var neighbourStates = map[int]string{
	netlink.NUD_INCOMPLETE: "incomplete", netlink.NUD_REACHABLE: "reachable", netlink.NUD_STALE: "stale",
	netlink.NUD_DELAY: "delay",
	netlink.NUD_PROBE: "probe", netlink.NUD_FAILED: "failed", netlink.NUD_NOARP: "noarp",
	netlink.NUD_PERMANENT: "permanent",
}

func (p *Peer) route(h *netlink.Handle, ifc *net.Interface) {
	if !p.Addr.IsValid() || p.Addr.IsLinkLocalUnicast() { // such an address needs no route
		return
	}
	routes, err := h.RouteGet(net.IP(p.Addr.AsSlice()))
	if err != nil || len(routes) == 0 {
		p.RouteErr = fmt.Sprint(err)
		return
	}
	r := routes[0]
	if r.Type == unix.RTN_LOCAL {
		p.Own = true
		return
	}
	if l, err := h.LinkByIndex(r.LinkIndex); err == nil {
		p.RouteVia = l.Attrs().Name
	}
	if g, ok := netip.AddrFromSlice(r.Gw); ok && p.RouteVia == ifc.Name {
		p.Gateway = g.Unmap()
	}
}
