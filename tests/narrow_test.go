package tests

// This file tests ways that come to carry shorter packets while blocks of memory move over them:
// all arrives, and nobody is told of it. The programs check every block.

import (
	"fmt"
	"net"
	"strconv"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/long"
)

// moved returns how many bytes an interface has sent.
func moved(t *testing.T, in func(func() error) error, name string) (bytes uint64) {
	t.Helper()
	if err := in(func() error {
		link, err := netlink.LinkByName(name)
		if err == nil {
			bytes = link.Attrs().Statistics.TxBytes
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return bytes
}

// afterMore waits until an interface has sent the given number of bytes more.
func afterMore(t *testing.T, in func(func() error) error, name string, more uint64) {
	t.Helper()
	until := moved(t, in, name) + more
	eventually(t, fmt.Sprintf("%s sends %d bytes more", name, more), func() bool { return moved(t, in, name) >= until })
}

// routeMTU gives the router's route to a host an MTU.
func routeMTU(l *lab.Lab, host, mtu int, six bool) error {
	at := l.Hosts()[host].Interfaces[0]
	network, r := at.Addr.Masked(), netlink.Route{MTU: mtu, MTULock: true}
	if six {
		network, r.Priority = at.Addr6.Masked(), 1
	}
	r.Dst = &net.IPNet{IP: network.Addr().AsSlice(), Mask: net.CIDRMask(network.Bits(), network.Addr().BitLen())}
	return l.DoRouter(func() error {
		port, err := net.InterfaceByName(fmt.Sprint("fup", host))
		if err != nil {
			return err
		}
		r.LinkIndex = port.Index
		return netlink.RouteReplace(&r)
	})
}

// linkMTU gives an interface an MTU.
func linkMTU(in func(func() error) error, name string, mtu int) error {
	return in(func() error {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		return netlink.LinkSetMTU(link, mtu)
	})
}

// TestRouterBecomesNarrow: a router takes shorter packets, then shorter ones still, and says so;
// then one drops what is too long without a word, because the other end of a link is narrow; then
// all is as before.
func TestRouterBecomesNarrow(t *testing.T) {
	long.Test(t)
	for _, six := range []bool{false, true} {
		l := routed(t, six)
		all := onRouted(t, l, "transfer", "--bytes", "536870912", "--block", "65536")
		for _, change := range []func() error{
			func() error { return routeMTU(l, 1, 1400, six) },
			func() error { return routeMTU(l, 1, 1281, six) },
			func() error { return linkMTU(l.DoRouter, "fup0", 1280) },
			func() error { return linkMTU(l.DoRouter, "fup0", 1500) },
			func() error { return routeMTU(l, 1, 1500, six) },
		} {
			afterMore(t, l.DoRouter, "fup1", 20<<20)
			if err := change(); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range all {
			p.ok()
		}
	}
}

// TestInterfaceBecomesNarrow: an interface of a daemon gets a smaller MTU while a job moves memory
// both ways, and later so does that of the other host, which hears of it only by what does not
// arrive.
func TestInterfaceBecomesNarrow(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	p := s.run("-n", "2", "--", "funet", "transfer", "--bytes", "536870912", "--block", "65536")
	l, err := lab.Open(s.name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	in := func(host int) func(func() error) error {
		return func(f func() error) error { return l.Do(host, f) }
	}
	for i, mtu := range []int{1100, 900, 1500, 1500} {
		host := i % 2
		afterMore(t, in(0), "fu0", 20<<20)
		if err := linkMTU(in(host), "fu0", mtu); err != nil {
			t.Fatal(strconv.Itoa(host), err)
		}
	}
	p.ok()
	s.free()
}
