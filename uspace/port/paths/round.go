package paths

// This file has one round: it asks the kernel for what may have changed, and makes a table from the
// answers.

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/port/encap"
)

// heardFor is how long an ICMP error is reported.
const heardFor = time.Minute

type round struct {
	local      bool // this host has the own address
	mtu        int  // of the interface
	states     []State
	unresolved int  // peers whose next hop is being resolved
	gateways   bool // a route leads through one
	asked      int  // routes
	left       bool // the next round has routes to ask for
}

type link struct {
	index      int
	mtu        int
	mac        [6]byte
	addresses  []netip.Addr // usable ones
	neighbours map[netip.Addr]netlink.Neigh
}

// way is the known state of the way to a peer.
type way struct {
	encap.Peer
	stale bool   // the kernel must be asked for the route
	heard string // the last ICMP error about the peer
	told  string // the same, as state has it
	route route
	state State
	made  encap.Route // what path was made of
	hop   netip.Addr  // the next hop that it leads to
	path  *encap.Path // nil: there is none
	// since is the time at which the next hop's Ethernet address became unknown; zero: it is known.
	since time.Time
}

type route struct {
	err     error
	source  netip.Addr
	next    netip.Addr // the gateway, or the peer
	gateway bool
	mtu     int // 0: the interface's
}

const (
	// routesAtOnce is the most routes that a round asks for, which take some 10 us each. So answers
	// about some peers are used while others are asked for.
	routesAtOnce = 4096
	// routesAnyway is the number of routes that a round asks for, in turn, although the kernel has
	// reported no change. The kernel does not report an exception to a route that another program's
	// packets made.
	routesAnyway = 256
)

// round asks for what may have changed, and publishes and reports any changes.
func (f *Follower) round() (round, error) {
	l, all, err := f.ask()
	if err != nil {
		return round{}, err
	}
	changed := f.doubt(l)
	r := round{local: slices.Contains(all, f.c.Local), mtu: l.mtu}
	news := f.allHeard()
	for i := range f.ways {
		w := &f.ways[i]
		w.heard = news[w.Address]
		switch {
		case w.stale && r.asked < routesAtOnce:
			r.asked++
			w.stale, w.route = false, f.route(l, w.Address)
		case w.stale:
			r.left = true
			fallthrough
		case f.same(l, w):
			r.gateways = r.gateways || w.route.gateway
			continue
		}
		before := w.state
		path, err := f.way(l, w)
		if w.state.Missing = ""; err != nil {
			w.state.Missing = err.Error()
			if errors.Is(err, errUnresolved) {
				r.unresolved++
			}
		}
		changed = changed || path != w.path || w.state != before
		w.path = path
		r.gateways = r.gateways || w.route.gateway
	}
	if changed {
		f.publish()
	}
	r.states = *f.states.Load()
	return r, f.tellOwn(l, r.local)
}

// same reports whether everything that a path is made of is as it was when the path was made.
func (f *Follower) same(l *link, w *way) bool {
	n := l.neighbours[w.route.next]
	return w.path != nil && w.route.err == nil && w.heard == w.told && w.made.From == l.mac && w.made.MTU == l.mtu &&
		n.State&(netlink.NUD_PERMANENT|netlink.NUD_NOARP|netlink.NUD_REACHABLE) != 0 && string(n.HardwareAddr) ==
		string(w.made.To[:])
}

// doubt marks the routes that the kernel must be asked for, and reports whether the peers have
// changed.
func (f *Follower) doubt(l *link) (others bool) {
	f.mu.Lock()
	peers, d := f.peers, f.doubts
	f.doubts = doubts{}
	f.mu.Unlock()
	if d.peers || f.ways == nil {
		others = true
		known := map[netip.Addr]way{}
		for _, w := range f.ways {
			known[w.Address] = w
		}
		f.ways = make([]way, len(peers))
		for i, p := range peers {
			w, ok := known[p.Address]
			if w.Peer = p; !ok {
				w = way{Peer: p, stale: true}
			}
			if w.state.Card, w.state.Address = p.Card, p.Address.String(); !ok {
				w.state.Missing = "the kernel has not been asked for it yet"
			}
			f.ways[i] = w
		}
	}
	// Which source the kernel takes, and whether there is a route at all, hangs on the interface
	// and its addresses.
	slices.SortFunc(l.addresses, netip.Addr.Compare)
	if f.seen == nil || f.seen.mtu != l.mtu || !slices.Equal(f.seen.addresses, l.addresses) {
		d.all = true
	}
	f.seen = l
	for i := range f.ways {
		if w := &f.ways[i]; d.all || d.of(w.Address) {
			w.stale = true
		}
	}
	for range min(routesAnyway, len(f.ways)) {
		f.turn = (f.turn + 1) % len(f.ways)
		f.ways[f.turn].stale = true
	}
	return others
}

// publish makes a table and states of what is known, and reports changes of the ways.
func (f *Follower) publish() {
	entries, states := make([]encap.Entry, len(f.ways)), make([]State, len(f.ways))
	for i := range f.ways {
		entries[i], states[i] = encap.Entry{Peer: f.ways[i].Peer, Path: f.ways[i].path}, f.ways[i].state
	}
	f.table.Store(encap.NewTable(f.c.Port, entries))
	f.limit(states)
	before := f.states.Swap(&states)
	if f.began {
		f.tell(*before)
	}
	if f.c.Changed != nil && (before == nil || !slices.Equal(*before, states)) {
		f.c.Changed()
	}
}

// tell reports the changes of the ways since before.
func (f *Follower) tell(before []State) {
	missing := map[uint16]string{}
	for _, s := range before {
		missing[s.Card] = s.Missing
	}
	for _, s := range f.States() {
		switch was, known := missing[s.Card]; {
		case !known && s.Missing == "" || was == s.Missing:
		case s.Missing != "":
			f.c.Tell(fmt.Sprintf("no path to card %d at %s: %s", s.Card, s.Address, s.Missing))
		default:
			f.c.Tell(fmt.Sprintf("there is a path to card %d at %s again, by %s", s.Card, s.Address, f.c.Interface))
		}
	}
}

// tellOwn tells the NIC program for which addresses to take datagrams: those of the interface, and
// the card's own address on whichever interface of this host it is.
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

// ask reads the interface with its addresses and neighbours. It also returns the addresses of the
// whole host.
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

// address converts an IP address of package net. It has no zone.
func address(ip net.IP) (netip.Addr, bool) {
	a, ok := netip.AddrFromSlice(ip)
	return a.Unmap(), ok
}

// errUnresolved reports a next hop that does not answer, or has not answered yet.
var errUnresolved = errors.New("not resolved")

// way finds the path to a peer, and notes what it found in w. The errors are for people.
func (f *Follower) way(l *link, w *way) (*encap.Path, error) {
	s := &w.state
	s.Source, s.Gateway, s.MAC, s.MTU, s.Heard = "", "", "", 0, w.heard
	w.told = w.heard
	if w.route.err != nil {
		return nil, w.route.err
	}
	s.Source, s.MTU = w.route.source.String(), l.mtu
	if w.route.mtu > 0 {
		s.MTU = min(l.mtu, w.route.mtu)
	}
	if w.route.gateway {
		s.Gateway = w.route.next.String()
	}
	mac, err := f.neighbour(l, w.route.next, w.Address)
	switch {
	case !errors.Is(err, errUnresolved):
		w.since = time.Time{}
	case w.keeps(l):
		mac, err = w.made.To, nil
	}
	if err != nil {
		return nil, err
	}
	s.MAC = net.HardwareAddr(mac[:]).String()
	if l.mtu < f.c.Least {
		return nil, fmt.Errorf("the MTU of %s is %d bytes, FUNet needs %d; `ip link set %[1]s mtu 1500` mends it",
			f.c.Interface, l.mtu, f.c.Least)
	}
	if s.MTU < f.c.Least {
		// The MTU is a state and the ICMP error an event: neither hides the other, whichever came
		// first.
		narrow :=
			fmt.Sprintf("the path's MTU is said to be %d bytes, FUNet needs %d; see `ip route get %v`, or raise it on the way", s.MTU, f.c.Least, w.Address)
		s.Heard = strings.TrimSuffix(narrow+"; "+s.Heard, "; ")
	}
	// How long packets may be is for the card to find out: what the kernel heard may be forged.
	made := encap.Route{Source: w.route.source, Destination: w.Address, From: l.mac, To: mac,
		Port: f.c.Port, MTU: l.mtu}
	if w.path != nil && w.made == made {
		return w.path, nil
	}
	w.made, w.hop = made, w.route.next
	return encap.NewPath(made)
}

// keepFor is how long a path uses an address that the kernel no longer knows. The kernel asks three
// times, a second apart, before it says that nobody answers (arp(7), mcast_solicit and
// retrans_time_ms).
const keepFor = 5 * time.Second

// keeps reports whether an existing path stays while the kernel resolves its next hop anew, for
// instance because the table of neighbours was flushed. The kernel itself goes on using an address
// that it doubts (NUD_STALE, NUD_PROBE).
func (w *way) keeps(l *link) bool {
	if w.path == nil || w.hop != w.route.next || l.neighbours[w.hop].State&netlink.NUD_FAILED != 0 {
		return false
	}
	if w.since.IsZero() {
		w.since = time.Now()
	}
	return time.Since(w.since) < keepFor
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

// route asks which route leads to an address, and returns the parts of it that matter.
func (f *Follower) route(l *link, to netip.Addr) (r route) {
	found, err := f.routeTo(l, to)
	if err != nil {
		return route{err: err}
	}
	r = route{source: f.c.Local, next: to, mtu: found.MTU}
	if !slices.Contains(l.addresses, f.c.Local) {
		ok := false
		if r.source, ok = address(found.Src); !ok {
			return route{err: fmt.Errorf("the route gives no source address; `ip address add ... dev %s` gives the interface one", f.c.Interface)}
		}
	}
	if gateway, ok := gatewayOf(found); ok {
		r.next, r.gateway = gateway, true
	}
	return r
}

// routeTo asks which route leads to an address through the interface.
func (f *Follower) routeTo(l *link, to netip.Addr) (*netlink.Route, error) {
	o := netlink.RouteGetOptions{OifIndex: l.index}
	if slices.Contains(l.addresses, f.c.Local) {
		o.SrcAddr = f.c.Local.AsSlice()
	}
	if to.Is4() {
		// Told an interface, and without a route, the kernel takes IPv4's neighbours for everybody
		// (ip_route_output_key_hash_rcu in net/ipv4/route.c), unless it is asked for the very
		// route.
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

// noRoute explains the kernel's refusal. The kernel does not say why there is no route through an
// interface, so noRoute asks again for a route through any.
func (f *Follower) noRoute(to netip.Addr, err error) error {
	switch any, e := f.handle.RouteGet(to.AsSlice()); {
	case e != nil:
		err = e
	case len(any) == 1 && any[0].LinkIndex != f.c.Index:
		if l, e := f.handle.LinkByIndex(any[0].LinkIndex); e == nil {
			return fmt.Errorf("the route to %v leads through %s, not %s; take that interface, or change the route", to,
				l.Attrs().Name, f.c.Interface)
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
	return fmt.Errorf("%s to %v through %s; `ip route get %v` shows what the kernel would do", why, to,
		f.c.Interface, to)
}

// usable are the states of a neighbour whose Ethernet address is valid (NUD_VALID in
// include/net/neighbour.h).
const usable = netlink.NUD_PERMANENT | netlink.NUD_NOARP | netlink.NUD_REACHABLE | netlink.NUD_PROBE | netlink.NUD_STALE | netlink.NUD_DELAY

// neighbour returns the Ethernet address of the next hop to a peer. If need be it has the kernel
// resolve the address, or verify it.
func (f *Follower) neighbour(l *link, a, to netip.Addr) (mac [6]byte, err error) {
	n, known := l.neighbours[a]
	if !known || n.State&(netlink.NUD_PERMANENT|netlink.NUD_NOARP|netlink.NUD_REACHABLE) == 0 {
		if err = f.sources.nudge(a, to); errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
			err =
				fmt.Errorf("sending UDP to %v is forbidden on this host: %w; allow it (a packet filter, or IPAddressDeny= of funid's unit)", to, err)
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
	return mac, fmt.Errorf("%w: %v does not answer %s on %s; see that it is up, and on this network", errUnresolved,
		a, how, f.c.Interface)
}

// allHeard returns the last ICMP errors by peer, without old ones (heardFor).
func (f *Follower) allHeard() map[netip.Addr]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all map[netip.Addr]string
	for a, h := range f.heard {
		if time.Since(h.at) > heardFor {
			delete(f.heard, a)
			continue
		}
		if all == nil {
			all = map[netip.Addr]string{}
		}
		all[a] = h.text
	}
	return all
}
