package paths

// This file is one round: everything is asked for, and a table made of the answers.

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/port/encap"
)

// heardFor is how long an ICMP error is told.
const heardFor = time.Minute

// round is what one round found.
type round struct {
	local      bool // this host has the own address
	mtu        int  // of the interface
	states     []State
	unresolved int  // peers whose next hop is being resolved
	gateways   bool // a route leads through one
}

// link is the card's interface in a round.
type link struct {
	index      int
	mtu        int
	mac        [6]byte
	addresses  []netip.Addr // usable ones
	neighbours map[netip.Addr]netlink.Neigh
}

// round asks for everything, publishes a table and tells what changed.
func (f *Follower) round() (round, error) {
	f.mu.Lock()
	peers := f.peers
	f.mu.Unlock()
	l, all, err := f.ask()
	if err != nil {
		return round{}, err
	}
	r := round{local: slices.Contains(all, f.c.Local), mtu: l.mtu}
	entries := make([]encap.Entry, len(peers))
	r.states = make([]State, len(peers))
	for i, p := range peers {
		s := &r.states[i]
		s.Card, s.Address = p.Card, p.Address.String()
		s.Heard = f.heardOf(p.Address)
		entries[i].Peer = p
		path, err := f.way(l, p.Address, s)
		if err != nil {
			s.Missing = err.Error()
			if errors.Is(err, errUnresolved) {
				r.unresolved++
			}
		}
		entries[i].Path = path
		r.gateways = r.gateways || s.Gateway != ""
	}
	f.table.Store(encap.NewTable(f.c.Port, entries))
	f.limit(r.states)
	f.publish(r.states)
	return r, f.tellOwn(l, r.local)
}

// publish replaces the states, and tells what became of the ways.
func (f *Follower) publish(states []State) {
	before := f.states.Swap(&states)
	if f.own == nil {
		return // it is only being opened
	}
	if !f.began {
		f.began, before = true, &[]State{}
	}
	missing := map[uint16]string{}
	for _, s := range *before {
		missing[s.Card] = s.Missing
	}
	for _, s := range states {
		switch was, known := missing[s.Card]; {
		case !known && s.Missing == "" || was == s.Missing:
		case s.Missing != "":
			f.c.Tell(fmt.Sprintf("no path to card %d at %s: %s", s.Card, s.Address, s.Missing))
		default:
			f.c.Tell(fmt.Sprintf("there is a path to card %d at %s again, by %s", s.Card, s.Address, f.c.Interface))
		}
	}
}

// tellOwn tells the NIC program for which addresses to take datagrams: the interface's, and the own one
// wherever on this host it is.
func (f *Follower) tellOwn(l *link, local bool) error {
	if f.own == nil {
		return nil
	}
	own := l.addresses
	if local && !slices.Contains(own, f.c.Local) {
		own = append(slices.Clone(own), f.c.Local)
	}
	slices.SortFunc(own, netip.Addr.Compare)
	if f.owned != nil && slices.Equal(own, f.owned) {
		return nil
	}
	if err := f.own(own); err != nil {
		return err
	}
	f.owned = own
	return nil
}

// ask reads interface, addresses and neighbours, and returns the addresses of the whole host, too.
func (f *Follower) ask() (_ *link, all []netip.Addr, err error) {
	dev, err := f.handle.LinkByIndex(f.c.Index)
	if err != nil {
		return nil, nil, fmt.Errorf("the interface is gone: %w", err)
	}
	a := dev.Attrs()
	l := &link{index: a.Index, mtu: a.MTU, neighbours: map[netip.Addr]netlink.Neigh{}}
	copy(l.mac[:], a.HardwareAddr)
	family := netlink.FAMILY_V6
	if f.c.Local.Is4() {
		family = netlink.FAMILY_V4
	}
	addresses, err := f.handle.AddrList(nil, family)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, nil, fmt.Errorf("listing addresses: %w", err)
	}
	for _, a := range addresses {
		ip, ok := address(a.IP)
		if !ok || a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) != 0 && a.Flags&unix.IFA_F_OPTIMISTIC == 0 {
			continue
		}
		all = append(all, ip)
		if a.LinkIndex == l.index {
			l.addresses = append(l.addresses, ip)
		}
	}
	neighbours, err := f.handle.NeighList(l.index, family)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, nil, fmt.Errorf("listing neighbours: %w", err)
	}
	for _, n := range neighbours {
		if ip, ok := address(n.IP); ok {
			l.neighbours[ip] = n
		}
	}
	return l, all, nil
}

// address is an IP address as package net has it, without zone.
func address(ip net.IP) (netip.Addr, bool) {
	a, ok := netip.AddrFromSlice(ip)
	return a.Unmap(), ok
}

// errUnresolved: the next hop does not answer, or has not yet.
var errUnresolved = errors.New("not resolved")

// way finds the path to an address, and notes what it found. The errors are for people.
func (f *Follower) way(l *link, to netip.Addr, s *State) (*encap.Path, error) {
	route, err := f.route(l, to)
	if err != nil {
		return nil, err
	}
	source, ok := f.c.Local, slices.Contains(l.addresses, f.c.Local)
	if !ok {
		if source, ok = address(route.Src); !ok {
			return nil, fmt.Errorf("the route gives no source address; `ip address add ... dev %s` gives the interface one", f.c.Interface)
		}
	}
	s.Source = source.String()
	s.MTU = l.mtu
	if route.MTU > 0 {
		s.MTU = min(l.mtu, route.MTU)
	}
	next := to
	if gateway, ok := gatewayOf(route); ok {
		next, s.Gateway = gateway, gateway.String()
	}
	mac, err := f.neighbour(l, next, to)
	if err != nil {
		return nil, err
	}
	s.MAC = net.HardwareAddr(mac[:]).String()
	if l.mtu < f.c.Least {
		return nil, fmt.Errorf("the MTU of %s is %d bytes, FUNet needs %d; `ip link set %[1]s mtu 1500` mends it", f.c.Interface, l.mtu, f.c.Least)
	}
	if s.MTU < f.c.Least && s.Heard == "" {
		s.Heard = fmt.Sprintf("the path's MTU is said to be %d bytes, FUNet needs %d; see `ip route get %v`, or raise it on the way", s.MTU, f.c.Least, to)
	}
	// How long packets may be is for the card to find out: what the kernel heard may be forged.
	return encap.NewPath(encap.Route{Source: source, Destination: to, From: l.mac, To: mac, Port: f.c.Port, MTU: l.mtu})
}

// gatewayOf returns the next hop of a route that has one.
func gatewayOf(r *netlink.Route) (netip.Addr, bool) {
	if a, ok := address(r.Gw); ok {
		return a, true
	}
	if via, ok := r.Via.(*netlink.Via); ok {
		return address(via.Addr)
	}
	return netip.Addr{}, false
}

// route asks which route leads to an address through the interface.
func (f *Follower) route(l *link, to netip.Addr) (*netlink.Route, error) {
	o := netlink.RouteGetOptions{OifIndex: l.index}
	if slices.Contains(l.addresses, f.c.Local) {
		o.SrcAddr = f.c.Local.AsSlice()
	}
	if to.Is4() {
		// Told an interface, and without a route, the kernel takes IPv4's neighbours for everybody
		// (ip_route_output_key_hash_rcu in net/ipv4/route.c), unless it is asked for the very route.
		match := o
		match.FIBMatch = true
		if _, err := f.handle.RouteGetWithOptions(to.AsSlice(), &match); err != nil {
			return nil, f.noRoute(to, err)
		}
	}
	routes, err := f.handle.RouteGetWithOptions(to.AsSlice(), &o)
	if err == nil && len(routes) != 1 {
		err = fmt.Errorf("%d answers of the kernel", len(routes))
	}
	if err != nil {
		return nil, f.noRoute(to, err)
	}
	r := &routes[0]
	switch {
	case r.Type == unix.RTN_LOCAL:
		return nil, fmt.Errorf("the address is this host's own; give the peer its own")
	case r.Type != unix.RTN_UNICAST && r.Type != unix.RTN_UNSPEC:
		return nil, fmt.Errorf("the route to %v is not for one host (broadcast or multicast)", to)
	case r.LinkIndex != l.index:
		return nil, f.noRoute(to, unix.ENETUNREACH)
	}
	return r, nil
}

// noRoute says what the kernel's refusal means. Asked for a route through an interface the kernel does not say
// why there is none, so it is asked again for any.
func (f *Follower) noRoute(to netip.Addr, err error) error {
	switch any, e := f.handle.RouteGet(to.AsSlice()); {
	case e != nil:
		err = e
	case len(any) == 1 && any[0].LinkIndex != f.c.Index:
		if l, e := f.handle.LinkByIndex(any[0].LinkIndex); e == nil {
			return fmt.Errorf("the route to %v leads through %s, not %s; take that interface, or change the route", to, l.Attrs().Name, f.c.Interface)
		}
	}
	why := err.Error()
	switch {
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.ESRCH):
		why = "no route"
	case errors.Is(err, unix.EACCES):
		why = "a route of this host prohibits it"
	case errors.Is(err, unix.EINVAL):
		why = "a route of this host discards it (blackhole)"
	case errors.Is(err, unix.ENETDOWN):
		why = "the interface is down"
	}
	return fmt.Errorf("%s to %v through %s; `ip route get %v` shows what the kernel would do", why, to, f.c.Interface, to)
}

// usable are the states of a neighbour whose Ethernet address is valid (NUD_VALID in include/net/neighbour.h).
const usable = netlink.NUD_PERMANENT | netlink.NUD_NOARP | netlink.NUD_REACHABLE | netlink.NUD_PROBE | netlink.NUD_STALE | netlink.NUD_DELAY

// neighbour returns the Ethernet address of the next hop to a peer, and has the kernel find it, or make sure of it.
func (f *Follower) neighbour(l *link, a, to netip.Addr) (mac [6]byte, err error) {
	n, known := l.neighbours[a]
	if !known || n.State&(netlink.NUD_PERMANENT|netlink.NUD_NOARP|netlink.NUD_REACHABLE) == 0 {
		if err = f.sources.nudge(a, to); errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
			err = fmt.Errorf("sending UDP to %v is forbidden on this host: %w; allow it (a packet filter, or IPAddressDeny= of funid's unit)", to, err)
		} else {
			err = nil
		}
	}
	if known && n.State&usable != 0 && len(n.HardwareAddr) == len(mac) {
		return [6]byte(n.HardwareAddr), nil
	}
	how := "ARP"
	if !a.Is4() {
		how = "neighbour solicitation"
	}
	if err != nil {
		return mac, err
	}
	return mac, fmt.Errorf("%w: %v does not answer %s on %s; see that it is up, and on this network", errUnresolved, a, how, f.c.Interface)
}

// heardOf returns the last ICMP error about an address, if it is not long ago.
func (f *Follower) heardOf(a netip.Addr) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	h, ok := f.heard[a]
	if !ok {
		return ""
	}
	if time.Since(h.at) > heardFor {
		delete(f.heard, a)
		return ""
	}
	return h.text
}
