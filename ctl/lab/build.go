// This file makes the links of a lab inside its namespaces, and waits until they work.

package lab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/topology"
)

// build turns empty namespaces into the lab that the plan describes. The spaces are those of the
// hosts in order, then that of the hub if there is one.
func build(o Options, hosts []Host, cables []cable, spaces []*space) error {
	for _, s := range spaces {
		if err := s.netlink(func(nl *netlink.Handle) error { return prepare(nl, o) }); err != nil {
			return err
		}
	}
	var err error
	switch o.Topology {
	case Router:
		err = spaces[o.Hosts].do(forward)
	case Bridge:
		err = spaces[o.Hosts].netlink(func(nl *netlink.Handle) error { return addBridge(nl, o) })
	}
	if err != nil {
		return err
	}
	for _, c := range cables {
		err := spaces[c.a.space].netlink(func(nl *netlink.Handle) error {
			return addCable(nl, o, c, spaces[c.b.space].ns)
		})
		if err != nil {
			return err
		}
	}
	for i := range hosts {
		if err := spaces[i].netlink(func(nl *netlink.Handle) error { return bringUp(nl, o, hosts, i) }); err != nil {
			return err
		}
		if o.Steer {
			if err := spaces[i].do(func() error { return steer(&hosts[i], i%runtime.NumCPU()) }); err != nil {
				return err
			}
		}
	}
	switch o.Topology {
	case Bridge:
		err = spaces[o.Hosts].netlink(func(nl *netlink.Handle) error { return bringUpHub(nl, hosts) })
	case Router:
		err = spaces[o.Hosts].netlink(func(nl *netlink.Handle) error { return bringUpRouter(nl, hosts) })
		for i := 0; i < len(hosts) && err == nil; i++ {
			err = spaces[i].netlink(func(nl *netlink.Handle) error { return addRoutes(nl, &hosts[i]) })
		}
	case Star, Hypercube, FatTree, Butterfly:
		var n *topology.Network
		if n, err = o.Topology.Network(o.Hosts); err == nil {
			err = bringUpRouters(o, n, hosts, spaces)
		}
	}
	if err != nil {
		return err
	}
	deadline := time.Now().Add(linkDeadline)
	for i, s := range spaces {
		err := s.netlink(func(nl *netlink.Handle) error { return waitUp(nl, deadline, nil) })
		if err != nil {
			who := fmt.Sprintf("host %d", i)
			if i >= o.Hosts {
				who = fmt.Sprintf("hub %d", i-o.Hosts)
			}
			return fmt.Errorf("%s: %w", who, err)
		}
	}
	return nil
}

// netlink runs f in the space with a route socket (rtnetlink) of that space.
func (s *space) netlink(f func(*netlink.Handle) error) error {
	return s.do(func() error {
		nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("open a netlink socket: %w", permission(err))
		}
		defer nl.Close()
		return permission(f(nl))
	})
}

// prepare makes a namespace silent and brings lo up. It must run in the space: /proc/sys/net shows
// the namespace of the thread that opens a file there.
func prepare(nl *netlink.Handle, o Options) error {
	settings := []setting{{"disable_ipv6", "1"}}
	if o.Topology == Router {
		// The addresses are those of the plan, and the link-local ones without which no neighbour
		// is found for others' packets (ndisc_send_ns in net/ipv6/ndisc.c). All are usable at once.
		settings = []setting{{"accept_dad", "0"}, {"accept_ra", "0"}, {"autoconf", "0"}, {"router_solicitations", "0"},
			{"disable_ipv6", "0"}}
	}
	for _, s := range settings {
		for _, which := range []string{"all", "default"} {
			err := os.WriteFile("/proc/sys/net/ipv6/conf/"+which+"/"+s.name, []byte(s.value), 0)
			// A kernel without IPv6 has no such file and needs none.
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("set %s of IPv6 to %s: %w", s.name, s.value, err)
			}
		}
	}
	_, err := raise(nl, "lo")
	return err
}

// raise gives a link addresses, except zero ones, and brings it up.
func raise(nl *netlink.Handle, name string, addresses ...netip.Prefix) (netlink.Link, error) {
	link, err := nl.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", name, err)
	}
	for _, a := range addresses {
		if a.IsValid() {
			if err := nl.AddrAdd(link, &netlink.Addr{IPNet: ipNet(a)}); err != nil {
				return nil, fmt.Errorf("give %s the address %s: %w", name, a, err)
			}
		}
	}
	if err := nl.LinkSetUp(link); err != nil {
		return nil, fmt.Errorf("bring up %s: %w", name, err)
	}
	return link, nil
}

// setting is a kernel variable of a namespace.
type setting struct{ name, value string }

// forward makes the namespace of the calling thread a router.
func forward() error {
	for _, name := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding", "ipv6/conf/default/forwarding"} {
		if err := os.WriteFile("/proc/sys/net/"+name, []byte("1"), 0); err != nil {
			return fmt.Errorf("make a router of the hub: %w", permission(err))
		}
	}
	return nil
}

// addBridge makes the hub's bridge: no spanning tree (the kernel's default), no multicast
// snooping, and ports that forward at once.
func addBridge(nl *netlink.Handle, o Options) error {
	snooping := false
	br := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs(), MulticastSnooping: &snooping}
	br.Name = bridgeName
	br.MTU = o.MTU
	br.HardwareAddr = mac(hubMAC, 0xff, 1)
	if err := nl.LinkAdd(br); err != nil {
		return fmt.Errorf("make bridge %s: %w", br.Name, err)
	}
	// Without a spanning tree a port learns for the forward delay before it forwards
	// (br_make_forwarding in net/bridge/br_stp.c), unless that is 0.
	path := "/sys/class/net/" + bridgeName + "/bridge/forward_delay"
	if err := os.WriteFile(path, []byte("0"), 0); err != nil {
		return fmt.Errorf("set the bridge's forward delay: %w", err)
	}
	return nil
}

// addCable makes a veth pair. Its far end is created in the namespace peer.
func addCable(nl *netlink.Handle, o Options, c cable, peer *os.File) error {
	v := netlink.NewVeth(netlink.NewLinkAttrs())
	v.Name, v.PeerName = c.a.name, c.b.name
	v.HardwareAddr, v.PeerHardwareAddr = c.a.mac, c.b.mac
	v.MTU = o.MTU
	v.NumRxQueues, v.NumTxQueues = o.Queues, o.Queues // the far end is given the same
	v.PeerNamespace = netlink.NsFd(int(peer.Fd()))
	if err := nl.LinkAdd(v); err != nil {
		return fmt.Errorf("make veth %s-%s with MTU %d and %d queues: %w", c.a.name, c.b.name, o.MTU, o.Queues, err)
	}
	return nil
}

// bringUp gives host i its addresses and the neighbours it can reach.
func bringUp(nl *netlink.Handle, o Options, hosts []Host, i int) error {
	h := &hosts[i]
	at := map[string]int{}
	for _, iface := range h.Interfaces {
		link, err := raise(nl, iface.Name, iface.Addr, iface.Addr6)
		if err != nil {
			return fmt.Errorf("host %d: %w", i, err)
		}
		at[iface.Name] = link.Attrs().Index
	}
	for j := range hosts {
		mine, theirs := h.to(j), hosts[j].to(i)
		if mine == nil || o.Topology == Router { // which is asked for by ARP, as anywhere
			continue
		}
		err := nl.NeighSet(&netlink.Neigh{
			LinkIndex:    at[mine.Name],
			Family:       netlink.FAMILY_V4,
			State:        netlink.NUD_PERMANENT,
			IP:           theirs.Addr.Addr().AsSlice(),
			HardwareAddr: theirs.MAC,
		})
		if err != nil {
			return fmt.Errorf("host %d: add neighbour %s: %w", i, theirs.Addr.Addr(), err)
		}
	}
	return nil
}

func ipNet(a netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: a.Addr().AsSlice(), Mask: net.CIDRMask(a.Bits(), a.Addr().BitLen())}
}

// addRoutes adds the routes to the other hosts through the router.
func addRoutes(nl *netlink.Handle, h *Host) error {
	i := &h.Interfaces[0]
	link, err := nl.LinkByName(i.Name)
	if err != nil {
		return fmt.Errorf("host %d: find %s: %w", h.Index, i.Name, err)
	}
	for to, via := range map[netip.Prefix]netip.Addr{all4: i.Gateway, all6: i.Gateway6} {
		err := nl.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(to), Gw: via.AsSlice()})
		if err != nil {
			return fmt.Errorf("host %d: route %s through %s: %w", h.Index, to, via, err)
		}
	}
	return nil
}

// bringUpRouter gives the router's ports their addresses, which are the hosts' gateways.
func bringUpRouter(nl *netlink.Handle, hosts []Host) error {
	for i, h := range hosts {
		at := h.Interfaces[0]
		if _, err := raise(nl, fmt.Sprint(portPrefix, i), netip.PrefixFrom(at.Gateway, at.Addr.Bits()),
			netip.PrefixFrom(at.Gateway6, at.Addr6.Bits())); err != nil {
			return fmt.Errorf("router: %w", err)
		}
	}
	return nil
}

// steer makes a processor receive a host's frames. The mask is in words of 32 bits, separated by
// commas, the last one first (scaling.rst, "RPS Configuration").
func steer(h *Host, cpu int) error {
	mask := fmt.Sprintf("%x", uint32(1)<<(cpu%32)) + strings.Repeat(",00000000", cpu/32)
	for _, iface := range h.Interfaces {
		queues, err := filepath.Glob("/sys/class/net/" + iface.Name + "/queues/rx-*/rps_cpus")
		if err == nil && len(queues) == 0 {
			err = fmt.Errorf("no such file: %w", ErrSteer)
		}
		for _, q := range queues {
			err = errors.Join(err, permission(os.WriteFile(q, []byte(mask), 0)))
		}
		if err != nil {
			return fmt.Errorf("steer the frames of %s to processor %d: %w", iface.Name, cpu, err)
		}
	}
	return nil
}

// bringUpHub joins the ports to the bridge. It also tells the bridge which host is behind which
// port, so that the first frame is not flooded. An entry can name only ports of the bridge.
func bringUpHub(nl *netlink.Handle, hosts []Host) error {
	br, err := raise(nl, bridgeName)
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	for i, h := range hosts {
		name := fmt.Sprint(portPrefix, i)
		port, err := nl.LinkByName(name)
		if err != nil {
			return fmt.Errorf("hub: find %s: %w", name, err)
		}
		if err := nl.LinkSetMaster(port, br); err != nil {
			return fmt.Errorf("hub: add %s to %s: %w", name, bridgeName, err)
		}
		if _, err := raise(nl, name); err != nil {
			return fmt.Errorf("hub: %w", err)
		}
		// NUD_NOARP is bridge(8)'s "static"; NUD_PERMANENT would mean the bridge itself.
		err = nl.NeighSet(&netlink.Neigh{
			LinkIndex:    port.Attrs().Index,
			Family:       unix.AF_BRIDGE,
			Flags:        netlink.NTF_MASTER,
			State:        netlink.NUD_NOARP,
			HardwareAddr: h.Interfaces[0].MAC,
		})
		if err != nil {
			return fmt.Errorf("hub: add forwarding entry for host %d: %w", i, err)
		}
	}
	return nil
}

// linkDeadline bounds the wait for links. The kernel usually settles in milliseconds. It may put
// off link events for a second (net/core/link_watch.c), and on a loaded machine for longer.
const linkDeadline = 10 * time.Second

// waitUp polls until every veth and bridge of the namespace is operational (RFC 2863 ifOperStatus),
// every bridge port forwards, and every address can be used. Unless wanted is nil, links for which
// it returns false are not waited for.
func waitUp(nl *netlink.Handle, deadline time.Time, wanted func(*netlink.LinkAttrs) bool) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		waiting, err := notUp(nl, wanted)
		if err != nil {
			return err
		}
		if len(waiting) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w within %v: %s", ErrLinkDown, linkDeadline, strings.Join(waiting, ", "))
		}
	}
}

// notUp names the links of the namespace that do not work yet.
func notUp(nl *netlink.Handle, wanted func(*netlink.LinkAttrs) bool) (names []string, err error) {
	links, err := links(nl)
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		a := l.Attrs()
		if !ours(l) || wanted != nil && !wanted(a) {
			continue
		}
		up := a.OperState == netlink.OperUp
		if !up {
			// The question for one link, unlike a list, has the kernel do what it put off for it
			// (linkwatch_sync_dev in rtnl_getlink).
			if _, err := nl.LinkByIndex(a.Index); err != nil {
				return nil, fmt.Errorf("ask for the state of %s: %w", a.Name, err)
			}
		}
		if up && a.MasterIndex != 0 {
			state, err := os.ReadFile(filepath.Join("/sys/class/net", a.Name, "brport/state"))
			if err != nil {
				return nil, fmt.Errorf("read the state of bridge port %s: %w", a.Name, err)
			}
			up = strings.TrimSpace(string(state)) == "3" // BR_STATE_FORWARDING, linux/if_bridge.h
		}
		if !up {
			names = append(names, fmt.Sprintf("%s is %s", a.Name, a.OperState))
		}
	}
	// An address of IPv6 is tentative until the kernel's work queue has taken it up, even without
	// duplicate address detection (addrconf_dad_begin in net/ipv6/addrconf.c).
	addresses, err := list(func() ([]netlink.Addr, error) { return nl.AddrList(nil, netlink.FAMILY_V6) })
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	for _, a := range addresses {
		if a.Flags&unix.IFA_F_TENTATIVE != 0 {
			names = append(names, fmt.Sprintf("%s is tentative", a.IP))
		}
	}
	return names, nil
}

// ours tells a lab's links from lo and the kernel's fallback tunnels.
func ours(l netlink.Link) bool {
	return strings.HasPrefix(l.Attrs().Name, "fu") && (l.Type() == "veth" || l.Type() == "bridge")
}

// links lists the links of the namespace.
func links(nl *netlink.Handle) ([]netlink.Link, error) {
	all, err := list(nl.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	return all, nil
}

// list returns what ask lists. The kernel interrupts a list when something in it comes or goes.
// Then list asks again, at most mostLists times.
func list[T any](ask func() ([]T, error)) (all []T, err error) {
	for range mostLists {
		if all, err = ask(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return all, err
}

// mostLists bounds how often list asks.
const mostLists = 1000

// unlink deletes the links of the namespace, and with them their far ends.
func unlink(nl *netlink.Handle) error {
	links, err := links(nl)
	if err != nil {
		return err
	}
	var errs []error
	for _, l := range links {
		if !ours(l) {
			continue
		}
		// The end in another namespace may have been deleted first.
		if err := nl.LinkDel(l); err != nil && !errors.Is(err, unix.ENODEV) {
			errs = append(errs, fmt.Errorf("delete %s: %w", l.Attrs().Name, err))
		}
	}
	return join(errs...)
}
