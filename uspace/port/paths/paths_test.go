package paths

// This file tests the follower on kernels' routes and neighbours, in labs with a router and
// without: what becomes of the ways when something of theirs goes away and comes back, and what
// many peers cost.

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/port/encap"
)

// patience bounds every wait: long enough for a machine that is busy.
const patience = 30 * time.Second

func newLab(t *testing.T, o lab.Options) *lab.Lab {
	t.Helper()
	l, err := lab.Up(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func do(t *testing.T, f func(func() error) error, change func() error) {
	t.Helper()
	if err := f(change); err != nil {
		t.Fatal(err)
	}
}

// on is Lab.Do for a host.
func on(l *lab.Lab, host int) func(func() error) error {
	return func(f func() error) error { return l.Do(host, f) }
}

// log is the lines that a follower tells.
type log struct {
	mu    sync.Mutex
	lines []string
}

func (g *log) add(line string) {
	g.mu.Lock()
	g.lines = append(g.lines, line)
	g.mu.Unlock()
}

// has waits for a line with all of the words: a state is told of after it can be seen.
func (g *log) has(words ...string) bool {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); runtime.Gosched() {
		if g.hasNow(words...) {
			return true
		}
	}
	return false
}

// hasNow reports whether there is a line with all of the words.
func (g *log) hasNow(words ...string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
next:
	for _, line := range g.lines {
		for _, w := range words {
			if !strings.Contains(line, w) {
				continue next
			}
		}
		return true
	}
	return false
}

// follow opens a follower on an interface of a host, which follows if the test wants it to.
func follow(t *testing.T, l *lab.Lab, host int, c Config, follows bool) *Follower {
	t.Helper()
	var f *Follower
	do(t, on(l, host), func() error {
		ifc, err := net.InterfaceByName(c.Interface)
		if err != nil {
			return err
		}
		c.Index, c.Port, c.Least = ifc.Index, encap.DefaultPort, arctic.MinMTU+encap.Overhead(c.Local)
		if f, err = Open(c); err != nil {
			return err
		}
		t.Cleanup(f.Close)
		if follows {
			return f.Follow(func([]netip.Addr) error { return nil })
		}
		return nil
	})
	return f
}

// await waits until the state of a follower's only way is as a function says.
func await(t *testing.T, f *Follower, what string, is func(s State) bool) State {
	t.Helper()
	for deadline := time.Now().Add(patience); ; runtime.Gosched() {
		s := f.States()[0]
		if is(s) {
			if (f.Table().To(frameTo(s.Card)) == nil) != (s.Missing != "") ||
				errors.Is(f.Fault(s.Card), ErrNoPath) != (s.Missing != "") {
				t.Fatalf("%s: state %+v, but the table or Fault says something else", what, s)
			}
			return s
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: the state is %+v", what, s)
		}
	}
}

func frameTo(card uint16) []byte {
	a := encap.Address(card)
	return append(a[:], make([]byte, 8)...)
}

func found(s State) bool { return s.Missing == "" }

func missing(words string) func(State) bool {
	return func(s State) bool { return strings.Contains(s.Missing, words) }
}

// routedWay is a follower on host 0 of a lab with a router, whose peer is host 1.
func routedWay(t *testing.T, six bool) (*lab.Lab, *Follower, *log) {
	l := newLab(t, lab.Options{Hosts: 2, Topology: lab.Router, IPv6: six})
	at, peer := l.Hosts()[0].Interfaces[0], l.Hosts()[1].Interfaces[0]
	c := Config{Interface: at.Name, Local: at.Addr.Addr(), Peers: []encap.Peer{{Card: 1, Address: peer.Addr.Addr()}}}
	if six {
		c.Local, c.Peers[0].Address = at.Addr6.Addr(), peer.Addr6.Addr()
	}
	g := &log{}
	c.Tell = g.add
	return l, follow(t, l, 0, c, true), g
}

// Rule: a way follows its neighbour, its source address and its router, away and back, and reports
// each change.
func TestWaysComeAndGo(t *testing.T) {
	long.Test(t)
	for _, six := range []bool{false, true} {
		t.Run(fmt.Sprintf("IPv6 %v", six), func(t *testing.T) {
			l, f, g := routedWay(t, six)
			first := await(t, f, "at first", found)
			if first.Gateway == "" || first.MAC == "" || first.MTU != 1500 {
				t.Errorf("state %+v", first)
			}

			// The router dies, and with it its entries at its neighbours.
			port := fmt.Sprint("fup", 0)
			link := func(up bool) func() error {
				return func() error {
					p, err := netlink.LinkByName(port)
					if err == nil && up {
						return netlink.LinkSetUp(p)
					} else if err == nil {
						return netlink.LinkSetDown(p)
					}
					return err
				}
			}
			do(t, l.DoRouter, link(false))
			lost := await(t, f, "the router is down", func(s State) bool { return s.Missing != "" })
			if !g.has("no path to card 1", lost.Missing) {
				t.Errorf("told %q", g.lines)
			}
			do(t, l.DoRouter, link(true))
			if six { // it forgot its address
				do(t, l.DoRouter, func() error {
					p, err := netlink.LinkByName(port)
					if err != nil {
						return err
					}
					gateway := l.Hosts()[0].Interfaces[0].Gateway6
					err = netlink.AddrReplace(p,
						&netlink.Addr{IPNet: &net.IPNet{IP: gateway.AsSlice(), Mask: net.CIDRMask(64, 128)},
							Flags: unix.IFA_F_NODAD})
					return err
				})
			}
			await(t, f, "the router is back", found)
			if !g.has("there is a path to card 1", "again") {
				t.Errorf("told %q", g.lines)
			}

			// Its Ethernet address becomes another.
			other := net.HardwareAddr{2, 0, 0, 9, 9, 9}
			do(t, l.DoRouter, func() error {
				p, err := netlink.LinkByName(port)
				if err != nil {
					return err
				}
				return netlink.LinkSetHardwareAddr(p, other)
			})
			// as a gratuitous ARP, or an unsolicited advertisement, does
			do(t, on(l, 0), func() error {
				n := netlink.Neigh{LinkIndex: f.c.Index, IP: netip.MustParseAddr(first.Gateway).AsSlice(),
					HardwareAddr: other, State: netlink.NUD_REACHABLE}
				return netlink.NeighSet(&n)
			})
			await(t, f, "another Ethernet address", func(s State) bool { return s.MAC == other.String() })

			// Narrower, and as before.
			for _, mtu := range []int{1300, 0} {
				do(t, on(l, 0), func() error {
					to := netip.MustParseAddr(first.Address)
					r := netlink.Route{LinkIndex: f.c.Index,
						Dst: &net.IPNet{IP: to.AsSlice(), Mask: net.CIDRMask(to.BitLen(), to.BitLen())},
						Gw:  netip.MustParseAddr(first.Gateway).AsSlice(), MTU: mtu}
					if mtu == 0 {
						return netlink.RouteDel(&r)
					}
					return netlink.RouteAdd(&r)
				})
				if mtu == 0 {
					mtu = 1500
				}
				await(t, f, "another MTU", func(s State) bool { return s.Missing == "" && s.MTU == mtu })
				limits := f.Limits()
				if want := (Limit{1, mtu - encap.Overhead(f.c.Local) + 14}); len(limits) != 1 || limits[0] != want {
					t.Errorf("limits %+v, want %+v", limits, want)
				}
				if !g.has("the path to card 1", fmt.Sprintf("is said to take packets of %d bytes now", mtu)) {
					t.Errorf("told %q", g.lines)
				}
			}

			// A route of its own leads to the peer from another source, and goes.
			to := netip.MustParseAddr(first.Address)
			r := netlink.Route{Dst: &net.IPNet{IP: to.AsSlice(), Mask: net.CIDRMask(to.BitLen(), to.BitLen())},
				Type: unix.RTN_UNREACHABLE}
			do(t, on(l, 0), func() error { return netlink.RouteAdd(&r) })
			await(t, f, "unreachable", missing("no route to"))
			do(t, on(l, 0), func() error { return netlink.RouteDel(&r) })
			await(t, f, "reachable", found)
		})
	}
}

// Rule: when the card's own address goes, the kernel chooses the source, or there is no way; when
// the address is back, the old way is back, too.
func TestSourceVanishes(t *testing.T) {
	l, f, _ := routedWay(t, false)
	await(t, f, "at first", found)
	at := l.Hosts()[0].Interfaces[0]
	address := &netlink.Addr{IPNet: &net.IPNet{IP: at.Addr.Addr().AsSlice(), Mask: net.CIDRMask(at.Addr.Bits(), 32)}}
	second := &netlink.Addr{IPNet: &net.IPNet{IP: at.Addr.Addr().Next().AsSlice(),
		Mask: net.CIDRMask(at.Addr.Bits(), 32)}}
	change := func(f func(netlink.Link, *netlink.Addr) error, a *netlink.Addr) {
		t.Helper()
		do(t, on(l, 0), func() error {
			link, err := netlink.LinkByName(at.Name)
			if err != nil {
				return err
			}
			return f(link, a)
		})
	}
	var routes []netlink.Route
	do(t, on(l, 0), func() (err error) { routes, err = netlink.RouteList(nil, netlink.FAMILY_V4); return err })
	change(netlink.AddrDel, address)
	await(t, f, "no address", func(s State) bool { return s.Missing != "" })
	change(netlink.AddrAdd, second)
	do(t, on(l, 0), func() error {
		for _, r := range routes {
			if r.Gw != nil {
				return netlink.RouteAdd(&netlink.Route{Dst: r.Dst, Gw: r.Gw, LinkIndex: r.LinkIndex})
			}
		}
		return errors.New("there was no route through the router")
	})
	await(t, f, "another address", func(s State) bool { return s.Missing == "" && s.Source == second.IP.String() })
	change(netlink.AddrAdd, address)
	await(t, f, "the address again", func(s State) bool { return s.Missing == "" && s.Source == address.IP.String() })
}

// Rule: peers may have link-local addresses of IPv6 (RFC 4291 2.5.6), which mean something on the
// card's interface only.
func TestLinkLocal(t *testing.T) {
	l := newLab(t, lab.Options{Hosts: 2, Topology: lab.Router, IPv6: true})
	local := func(in func(func() error) error, name string) (a netip.Addr) {
		t.Helper()
		for deadline := time.Now().Add(patience); ; runtime.Gosched() {
			do(t, in, func() error {
				link, err := netlink.LinkByName(name)
				if err != nil {
					return err
				}
				all, err := netlink.AddrList(link, netlink.FAMILY_V6)
				for _, one := range all {
					if one.IP.IsLinkLocalUnicast() && one.Flags&unix.IFA_F_TENTATIVE == 0 {
						a, _ = address(one.IP)
					}
				}
				return err
			})
			if a.IsValid() {
				return a
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s has no link-local address", name)
			}
		}
	}
	at := l.Hosts()[0].Interfaces[0]
	c := Config{Interface: at.Name, Local: local(on(l, 0), at.Name),
		Peers: []encap.Peer{{Card: 1, Address: local(l.DoRouter, "fup0")}}}
	f := follow(t, l, 0, c, true)
	if s := await(t, f, "link-local", found); s.Gateway != "" || s.Source != c.Local.String() {
		t.Errorf("state %+v", s)
	}
}

// Rule: a peer behind another interface has no way through this one, and the other is named.
func TestTwoInterfaces(t *testing.T) {
	l := newLab(t, lab.Options{Hosts: 3, Topology: lab.Mesh})
	at := l.Hosts()[0].Interfaces
	far := func(i int) netip.Addr {
		for _, ifc := range l.Hosts()[at[i].Peer].Interfaces {
			if ifc.Peer == 0 {
				return ifc.Addr.Addr()
			}
		}
		t.Fatal("no interface leads back")
		return netip.Addr{}
	}
	for i := range at {
		c := Config{Interface: at[i].Name, Local: at[i].Addr.Addr(), Peers: []encap.Peer{{Card: 7, Address: far(i)}}}
		f := follow(t, l, 0, c, true)
		await(t, f, "the own network", found)
		f.SetPeers([]encap.Peer{{Card: 7, Address: far(1 - i)}})
		await(t, f, "the other's network", missing("leads through "+at[1-i].Name+", not "+at[i].Name))
		f.SetPeers([]encap.Peer{{Card: 7, Address: far(i)}})
		await(t, f, "the own network again", found)
		f.Close()
	}
}

// Rule: the cost of a round grows with the number of changes. With 20,000 peers and no change a
// round asks for few routes. After a change of a route it asks for the routes that the change
// concerns. It asks for all routes only where all may have changed. A round that leaves routes to
// be asked for reports that.
func TestManyPeers(t *testing.T) {
	l := newLab(t, lab.Options{Hosts: 2, Topology: lab.Router})
	at := l.Hosts()[0].Interfaces[0]
	c := Config{Interface: at.Name, Local: at.Addr.Addr()}
	a := netip.MustParseAddr("10.0.0.1")
	for i := range 20000 {
		c.Peers = append(c.Peers, encap.Peer{Card: uint16(i + 1), Address: a})
		a = a.Next()
	}
	do(t, on(l, 0), func() error {
		link, err := netlink.LinkByName(at.Name)
		if err != nil {
			return err
		}
		_, all, err := net.ParseCIDR("10.0.0.0/8")
		if err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{Dst: all, Gw: at.Gateway.AsSlice(), LinkIndex: link.Attrs().Index})
	})
	begun := time.Now()
	f := follow(t, l, 0, c, false)
	t.Logf("opened in %v", time.Since(begun))
	for i, s := range f.States() {
		if s.Missing != "" {
			t.Fatalf("peer %d: %+v", i, s)
		}
	}
	f.events.Close() // the test notes what there is
	quiet := func() {
		t.Helper()
		before := f.Table()
		begun := time.Now()
		r, err := f.round()
		if err != nil {
			t.Fatal(err)
		}
		if t.Logf("a quiet round asks for %d routes in %v", r.asked, time.Since(begun)); r.asked >
			routesAnyway || r.left {
			t.Errorf("a quiet round asks for %d routes", r.asked)
		}
		if f.Table() != before {
			t.Error("a quiet round makes a table")
		}
	}
	quiet()
	quiet()
	event := func(kind uint16, network string) {
		t.Helper()
		s := watch(t, l)
		_, to, err := net.ParseCIDR(network)
		if err != nil {
			t.Fatal(err)
		}
		do(t, on(l, 0), func() error {
			r := &netlink.Route{Dst: to, Type: unix.RTN_BLACKHOLE}
			if kind == unix.RTM_DELROUTE {
				return netlink.RouteDel(r)
			}
			return netlink.RouteAdd(r)
		})
		s(func(d *doubts) { f.mu.Lock(); f.doubts = *d; f.mu.Unlock() })
	}
	for _, kind := range []uint16{unix.RTM_NEWROUTE, unix.RTM_DELROUTE} {
		event(kind, "10.0.7.0/24")
		r, err := f.round()
		if err != nil {
			t.Fatal(err)
		}
		if r.asked < 256 || r.asked > 256+routesAnyway {
			t.Errorf("a route to 256 peers has changed: %d routes are asked for", r.asked)
		}
		for _, s := range f.States() {
			if in := strings.HasPrefix(s.Address, "10.0.7."); (s.Missing != "") != (in && kind == unix.RTM_NEWROUTE) {
				t.Fatalf("after %d: %+v", kind, s)
			}
		}
	}
	f.mu.Lock()
	f.doubts.all = true
	f.mu.Unlock()
	begun = time.Now()
	r, err := f.round()
	if err != nil || r.asked != routesAtOnce || !r.left {
		t.Errorf("all may have changed: %+v, %v", r.asked, err)
	}
	if _, err = f.whole(); err != nil {
		t.Fatal(err)
	}
	t.Logf("all routes in %v", time.Since(begun))
	f.SetPeers(append(c.Peers, encap.Peer{Card: 20001, Address: netip.MustParseAddr("10.77.0.1")}))
	if r, err = f.round(); err != nil || r.asked > 1+routesAnyway || len(f.States()) != 20001 ||
		f.States()[20000].Missing != "" {
		t.Errorf("a peer has joined: %d routes are asked for, %v", r.asked, err)
	}
}

// watch hears the kernel's news of host 0 from now on; what it returns gives those of one change as
// doubts.
func watch(t *testing.T, l *lab.Lab) func(func(*doubts)) {
	t.Helper()
	var s *os.File
	do(t, on(l, 0), func() error {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		s = os.NewFile(uintptr(fd), "netlink")
		return unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1 << (unix.RTNLGRP_IPV4_ROUTE - 1)})
	})
	return func(use func(*doubts)) {
		t.Helper()
		defer s.Close()
		b := make([]byte, 1<<16)
		n, _, err := unix.Recvfrom(int(s.Fd()), b, 0)
		if err != nil {
			t.Fatal(err)
		}
		messages, err := syscall.ParseNetlinkMessage(b[:n])
		if err != nil {
			t.Fatal(err)
		}
		d := &doubts{}
		for i := range messages {
			d.note(&messages[i])
		}
		if d.all || len(d.prefixes) != 1 {
			t.Fatalf("of one route the kernel tells %+v", d)
		}
		use(d)
	}
}
