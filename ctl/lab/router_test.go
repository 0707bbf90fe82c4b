// Labs with a router: IP gets through, frames do not, and nothing is left of them.

package lab

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// Hosts of a lab with a router reach each other by IPv4 and IPv6 and by nothing else, whichever of
// them they are; and the peers file says so.
func TestRouter(t *testing.T) {
	leavesNothing(t)
	l, err := Up(Options{Hosts: 3, Topology: Router, IPv6: true})
	if err != nil {
		t.Fatal(err)
	}
	namespaces := inodes(t, l)
	hosts := l.Hosts()
	for from := range hosts {
		for to := range hosts {
			if from == to {
				continue
			}
			for _, a := range []netip.Addr{hosts[to].Interfaces[0].Addr.Addr(), hosts[to].Interfaces[0].Addr6.Addr()} {
				if err := datagram(l, from, to, a); err != nil {
					t.Errorf("from host %d to host %d at %v: %v", from, to, a, err)
				}
			}
		}
	}
	data, err := l.Peers(1).Marshal()
	if err != nil || !strings.Contains(string(data), "encap: udp") ||
		!strings.Contains(string(data), `address: "2001:2:0:1::2"`) || strings.Contains(string(data), "mac") {
		t.Errorf("peers file (%v):\n%s", err, data)
	}
	if err := l.DoRouter(func() error { _, err := net.InterfaceByName("fup2"); return err }); err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	gone(t, namespaces)
}

// datagram sends a datagram from one host to another's address.
func datagram(l *Lab, from, to int, a netip.Addr) error {
	var receiver *net.UDPConn
	err := l.Do(to, func() (err error) {
		receiver, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 0)))
		return err
	})
	if err != nil {
		return err
	}
	defer receiver.Close()
	err = l.Do(from, func() error {
		sender, err := net.Dial("udp", receiver.LocalAddr().String())
		if err != nil {
			return err
		}
		defer sender.Close()
		_, err = sender.Write([]byte("hello"))
		return err
	})
	if err != nil {
		return err
	}
	if err := receiver.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return err
	}
	_, err = receiver.Read(make([]byte, 10))
	return err
}

// Only the user who made a lab with a router reaches it.
func TestNoRouter(t *testing.T) {
	l := mustUp(t, Options{Hosts: 3})
	if err := l.DoRouter(func() error { t.Error("ran"); return nil }); !errors.Is(err, ErrNoHost) {
		t.Errorf("router of a lab without: %v", err)
	}
}
