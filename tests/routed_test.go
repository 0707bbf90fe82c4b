package tests

// This file tests programs and daemons whose frames travel in UDP datagrams: over a router between
// the hosts, by IPv4 and IPv6, and the reports when the router drops, refuses or is narrow.

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/long"
)

// families are the flags for both.
var families = map[string][]string{"IPv4": nil, "IPv6": {"--ipv6"}}

// TestRoutedPrograms: ping-pong, matrix multiply, blocks of memory and a flood on labs with a
// router of their own.
func TestRoutedPrograms(t *testing.T) {
	long.Test(t)
	for family, flags := range families {
		for _, c := range [][]string{
			{"pingpong", "--lab", "2", "--exchanges", "500", "--warm-up", "100"},
			{"matmul", "--lab", "3", "--size", "60"},
			{"transfer", "--lab", "2", "--bytes", "4194304", "--block", "65536", "--mtu", "9000", "--jumbo"},
			{"flood", "--lab", "2", "--messages", "20000", "--stalls", "2", "--stall", "20ms"},
		} {
			p := funet(t, append(append(c, "--topology", "router", "--json"), flags...)...)
			out := p.ok()
			if c[0] == "matmul" && !decode[matmul](t, out).Verified {
				t.Errorf("%s: %s", family, out)
			}
			(&holdings{}).gone(t, p.mark)
		}
	}
	// Without a router, too, if one asks for it.
	r := decode[pingpong](t, funet(t, "pingpong", "--lab", "2", "--encap", "udp", "--exchanges", "500", "--warm-up",
		"100", "--json").ok())
	r.check(t, 500, "native", "generic")
}

// TestRoutedDaemons: a named lab with a router, jobs of an ordinary user on its daemons, the
// daemons' status, and the end of it.
func TestRoutedDaemons(t *testing.T) {
	long.Test(t)
	for family, flags := range families {
		t.Run(family, func(t *testing.T) {
			s := daemons(t, append(flags, "--router", "--hosts", "3")...)
			s.run("-n", "2", "--", "funet", "pingpong", "--exchanges", "500", "--warm-up", "100").ok()
			out := s.run("-n", "4", "--", "funet", "matmul", "--size", "60", "--json").ok()
			if !strings.Contains(out, `"verified": true`) {
				t.Errorf("node 0 printed %s", out)
			}
			s.free()
			for _, socket := range s.sockets {
				if status := waysOf(t, socket); status.Encap != "udp" || status.Paths != 2 {
					t.Errorf("status of %s: %+v", socket, status)
				}
			}
			funet(t, "lab", "down", s.name).ok()
			noLab(t, s.name)
			outside(t)
		})
	}
}

// wayStatus has the fields of a daemon's status about ways to its peers.
type wayStatus struct {
	Encap   string `json:"encap"`
	Paths   int    `json:"paths"`
	Missing []struct {
		Card    int    `json:"card"`
		Missing string `json:"missing"`
		Heard   string `json:"icmp"`
	} `json:"missing_paths"`
}

func waysOf(t *testing.T, socket string) (w wayStatus) {
	t.Helper()
	if err := json.Unmarshal([]byte(funet(t, "status", "--socket", socket, "--json").ok()), &w); err != nil {
		t.Fatal(err)
	}
	return w
}

// routed is a lab with a router that this process has, so that it can spoil the router.
func routed(t *testing.T, six bool) *lab.Lab {
	t.Helper()
	l, err := lab.Up(lab.Options{Hosts: 2, Topology: lab.Router, IPv6: six})
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

// spoil gives the router a route of a kind to host 1 alone.
func spoil(t *testing.T, l *lab.Lab, kind int) {
	t.Helper()
	at := l.Hosts()[1].Interfaces[0]
	to := at.Addr.Addr()
	if l.Options().IPv6 {
		to = at.Addr6.Addr()
	}
	err := l.DoRouter(func() error {
		return netlink.RouteAdd(&netlink.Route{Type: kind,
			Dst: &net.IPNet{IP: to.AsSlice(), Mask: net.CIDRMask(to.BitLen(), to.BitLen())}})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// onRouted starts a program on both hosts.
func onRouted(t *testing.T, l *lab.Lab, program ...string) (all [2]*process) {
	t.Helper()
	for host := range all {
		peers, err := l.Peers(host).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		args := append(program, "--iface", "fu0", "--node", strconv.Itoa(host), "--peers",
			file(t, string(peers)), "--json")
		all[host] = on(t, l, host, args...)
	}
	return all
}

// TestRouterThatDrops: what the router says is in the error; where it says nothing, the peer is
// silent, within the time that was given.
func TestRouterThatDrops(t *testing.T) {
	long.Test(t)
	for _, six := range []bool{false, true} {
		for kind, says := range map[int]string{unix.RTN_PROHIBIT: "prohibited by a filter",
			unix.RTN_UNREACHABLE: "unreachable", unix.RTN_BLACKHOLE: "silent"} {
			l := routed(t, six)
			spoil(t, l, kind)
			all := onRouted(t, l, "pingpong", "--exchanges", "500", "--wait", "2s")
			all[0].fails(says)
			all[1].wait() // whatever becomes of it: its answers do arrive
		}
	}
}

// TestNarrowRouter: a program whose blocks fill frames moves them through a router that takes
// shorter packets than the hosts' interfaces.
func TestNarrowRouter(t *testing.T) {
	long.Test(t)
	for _, six := range []bool{false, true} {
		l := routed(t, six)
		for host := range 2 {
			at := l.Hosts()[host].Interfaces[0]
			network := at.Addr.Masked()
			r := netlink.Route{MTU: 1300, MTULock: true}
			if six {
				network, r.Priority = at.Addr6.Masked(), 1
			}
			r.Dst = &net.IPNet{IP: network.Addr().AsSlice(),
				Mask: net.CIDRMask(network.Bits(), network.Addr().BitLen())}
			err := l.DoRouter(func() error {
				port, err := net.InterfaceByName(fmt.Sprint("fup", host))
				if err != nil {
					return err
				}
				r.LinkIndex = port.Index
				return netlink.RouteReplace(&r)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range onRouted(t, l, "transfer", "--bytes", "4194304", "--block", "65536") {
			p.ok()
		}
	}
}

// TestRoutedDaemonWithoutWay: a daemon says in its log and in its status when there is no way to a
// peer, and why, and when there is one again; it does not end.
func TestRoutedDaemonWithoutWay(t *testing.T) {
	long.Test(t)
	l := routed(t, false)
	if err := l.StartDaemons(lab.DaemonOptions{Program: filepath.Join(filepath.Dir(command), "funid"),
		XDP: "generic"}); err != nil {
		t.Fatal(err)
	}
	sockets, err := l.Sockets()
	if err != nil {
		t.Fatal(err)
	}
	log := strings.TrimSuffix(sockets[0], ".sock") + ".log"
	hole := &netlink.Route{Type: unix.RTN_PROHIBIT,
		Dst: &net.IPNet{IP: l.Hosts()[1].Interfaces[0].Addr.Addr().AsSlice(), Mask: net.CIDRMask(32, 32)}}
	if err := l.Do(0, func() error { return netlink.RouteAdd(hole) }); err != nil {
		t.Fatal(err)
	}
	logged := func(want string) {
		t.Helper()
		eventually(t, "the log of a daemon says "+want, func() bool {
			text, err := os.ReadFile(log)
			return err == nil && strings.Contains(string(text), want)
		})
	}
	logged("no path to card 1 at 198.18.101.2: a route of this host prohibits it")
	if w := waysOf(t, sockets[0]); w.Paths != 0 || len(w.Missing) != 1 ||
		!strings.Contains(w.Missing[0].Missing, "prohibits it") {
		t.Errorf("status: %+v", w)
	}
	if err := l.Do(0, func() error { return netlink.RouteDel(hole) }); err != nil {
		t.Fatal(err)
	}
	logged("there is a path to card 1 at 198.18.101.2 again")
	// The daemon has dropped its privileges: neighbours must be found without.
	err = l.Do(0, func() error {
		link, err := netlink.LinkByName("fu0")
		if err != nil {
			return err
		}
		gateway := l.Hosts()[0].Interfaces[0].Gateway
		return netlink.NeighDel(&netlink.Neigh{LinkIndex: link.Attrs().Index, Family: netlink.FAMILY_V4,
			IP: gateway.AsSlice()})
	})
	if err != nil && !errors.Is(err, unix.ENOENT) {
		t.Fatal(err)
	}
	eventually(t, "the daemon finds its gateway again", func() bool { return waysOf(t, sockets[0]).Paths == 1 })
	// So must the interface be opened again, and other addresses of its be taken.
	err = l.Do(0, func() error {
		link, err := netlink.LinkByName("fu0")
		if err != nil {
			return err
		}
		other := &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(198, 18, 100, 77), Mask: net.CIDRMask(24, 32)}}
		return errors.Join(netlink.AddrAdd(link, other), netlink.LinkSetMTU(link, 1600))
	})
	if err != nil {
		t.Fatal(err)
	}
	logged("interface fu0 is opened again")
	eventually(t, "there is a way again", func() bool { return waysOf(t, sockets[0]).Paths == 1 })
	if text, err := os.ReadFile(log); err != nil || strings.Contains(string(text), "following routes on") {
		t.Errorf("the log (%v) says %s", err, text)
	}
	if err := l.StopDaemons(); err != nil {
		t.Error(err)
	}
}

// TestRoutedRefusals: impossible combinations are refused by name, before anything is made.
func TestRoutedRefusals(t *testing.T) {
	funet(t, "pingpong", "--lab", "2", "--encap", "gre").fails("--encap gre: use ethernet, udp or hub")
	funet(t, "pingpong", "--lab", "2", "--ipv6").fails("IPv6 with topology pair, want router")
	funet(t, "pingpong", "--lab", "2", "--topology", "router", "--encap",
		"ethernet").fails("node 0 has no mac, which encap ethernet needs")
	funet(t, "lab", "up", "--router", "--topology", "mesh", "x").fails("--router is --topology router")
	l := routed(t, false)
	for text, says := range map[string]string{
		"peers: [{node: 0, address: 198.18.100.9}, {node: 1, address: 198.18.101.2}]\n":        "no interface has the address 198.18.100.9",
		"peers: [{node: 0, address: 198.18.100.2}, {node: 1, address: \"2001:2:0:2::2\"}]\n":   "IPv4 and IPv6 mixed",
		"peers: [{node: 0, mac: 02:46:55:00:00:01}, {node: 1, address: 198.18.101.2}]\n":       "node 1 has no mac, which encap ethernet needs",
		"encap: udp\npeers: [{node: 0, mac: 02:46:55:00:00:01}, {node: 1, address: 10.0.0.1}]": "node 0 has no address, which encap udp needs",
	} {
		on(t, l, 0, "pingpong", "--iface", "fu0", "--node", "0", "--peers", file(t, text)).fails(says)
	}
	// A peer that no route leads to: the error names it.
	on(t, l, 0, "pingpong", "--iface", "fu0", "--node", "0", "--wait", "2s", "--exchanges", "500",
		"--peers",
		file(t,
			"peers: [{node: 0, address: 198.18.100.2}, {node: 1, address: 203.0.113.1}]\n")).fails("no route to 203.0.113.1")
}
