package afxdp

// This file tests ports whose frames travel in UDP datagrams, between hosts on one network and
// behind a router.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/port/encap"
	"github.com/funet/funet/uspace/port/paths"
	"github.com/funet/funet/xdp"
)

// cardOf is the number of a port's card in these tests: the other peer's is the other.
func cardOf(p *Port) uint16 { return 1 - p.Paths()[0].Card }

// datagrams returns what makes the port of a host send datagrams.
func datagrams(l *lab.Lab, host int) *UDP {
	u := &UDP{}
	for _, p := range l.Peers(host).Peers {
		if int(p.Node) == host {
			u.Local = p.Address
		} else {
			u.Peers = append(u.Peers, encap.Peer{Card: p.Node, Address: p.Address})
		}
	}
	return u
}

// networks are the labs that datagrams cross.
var networks = map[string]lab.Options{
	"segment": {},
	"IPv4":    {Topology: lab.Router},
	"IPv6":    {Topology: lab.Router, IPv6: true},
}

// openUDP opens a port of datagrams on a host.
func openUDP(t *testing.T, l *lab.Lab, host int, c Config) *Port {
	t.Helper()
	c.UDP = datagrams(l, host)
	return open(t, l, host, c)
}

// Rule (port.Port): with datagrams, too, every frame arrives whole, once, unchanged and in order,
// whatever its size, with and without jumbo frames; frames are shorter by the headers.
func TestDatagrams(t *testing.T) {
	for name, o := range networks {
		for _, c := range []struct {
			mtu  int
			port Config
		}{
			{1500, Config{Attach: xdp.AttachGeneric}},
			{1500, Config{Attach: xdp.AttachNative}},
			{9000, Config{Attach: xdp.AttachGeneric, Jumbo: true}},
			{65535, Config{Attach: xdp.AttachGeneric, Jumbo: true}},
		} {
			if testing.Short() && c.mtu == 9000 {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d/%v", name, c.mtu, c.port.Attach), func(t *testing.T) {
				o.MTU = c.mtu
				l := newLab(t, o)
				a, b := openUDP(t, l, 0, c.port), openUDP(t, l, 1, c.port)
				if want := c.mtu + arctic.EthernetSize - encap.Overhead(datagrams(l, 0).Local); a.FrameSize() != want ||
					a.Info().FrameSize != want {
					t.Errorf("frames of %d bytes (%d), want %d", a.FrameSize(), a.Info().FrameSize, want)
				}
				exchange(t, a, b, mixture(a, 60), 1)
				exchange(t, b, a, mixture(b, 200), 20)
				for _, p := range []*Port{a, b} {
					if n := p.Datagrams(); n != (Datagrams{}) {
						t.Errorf("%+v", n)
					}
				}
			})
		}
	}
}

// Rule: all receive queues are served; which one a datagram comes in on is the NIC's to choose.
func TestDatagramsOfManyQueues(t *testing.T) {
	l := newLab(t, lab.Options{Topology: lab.Router, Queues: 3})
	a, b := openUDP(t, l, 0, Config{}), openUDP(t, l, 1, Config{})
	exchange(t, a, b, mixture(a, 100), 20)
}

// Rule: nothing allocates per frame.
func TestNoAllocationWithDatagrams(t *testing.T) {
	l := newLab(t, lab.Options{Topology: lab.Router})
	a, b := openUDP(t, l, 0, Config{}), openUDP(t, l, 1, Config{})
	lent := make([][]byte, maxLent)
	warm := func() {
		buffer := a.Reserve()
		compose(buffer, b, a, 1)
		a.Commit(len(buffer))
		a.Flush()
		for n := 0; n < 1; b.Release() {
			n = b.Receive(lent)
		}
	}
	// The follower's goroutine allocates, so a few are not the port's.
	if n := testing.AllocsPerRun(20000, warm); n > 1 {
		t.Errorf("%v allocations for each frame", n)
	}
}

// Rule: datagrams that are not from where their card is come from nobody; the damaged ones are
// counted and thrown away; those that are for others, fragments and foreign protocols are not
// touched.
func TestForeignDatagrams(t *testing.T) {
	long.Test(t)
	for name, o := range networks {
		t.Run(name, func(t *testing.T) {
			o.Hosts = 3
			if o.Topology == "" {
				o.Topology = lab.Bridge
			}
			l, err := lab.Up(o)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			}()
			victim := openUDP(t, l, 1, Config{})
			local := datagrams(l, 1).Local
			// Host 2 is a peer, too, and says that it is card 0; the kernel sends for it, with
			// whatever checksum.
			frame := func(card uint16) []byte {
				f := make([]byte, 200)
				for i := range f {
					f[i] = byte(i)
				}
				binary.BigEndian.PutUint16(f[12:], bpf.EtherType)
				f[14] = bpf.Version
				binary.LittleEndian.PutUint16(f[16:], uint16(len(f)-14))
				binary.LittleEndian.PutUint16(f[18:], group)
				binary.LittleEndian.PutUint16(f[24:], card)
				return f
			}
			// Otherwise the kernel leaves checksums to the interface, which on veth nobody
			// completes.
			if err := l.Do(2, func() error {
				e, err := ethtool.NewEthtool()
				if err != nil {
					return err
				}
				defer e.Close()
				return e.Change("fu0", map[string]bool{"tx-checksum-ip-generic": false})
			}); err != nil {
				t.Fatal(err)
			}
			send := func(payload []byte, noChecksum bool) {
				t.Helper()
				err := l.Do(2, func() error {
					c, err := net.Dial("udp", netip.AddrPortFrom(local, encap.DefaultPort).String())
					if err != nil {
						return err
					}
					defer c.Close()
					if noChecksum {
						raw, err := c.(*net.UDPConn).SyscallConn()
						if err != nil {
							return err
						}
						if err := raw.Control(func(fd uintptr) {
							_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_NO_CHECK, 1)
						}); err != nil {
							return err
						}
					}
					_, err = c.Write(payload)
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			for _, c := range []struct {
				card uint16
				want [6]byte
			}{{2, encap.Address(2)}, {0, encap.Nobody}, {1, encap.Nobody}, {7, encap.Nobody}} {
				for _, no := range []bool{false, true} {
					if no && !local.Is4() {
						continue
					}
					send(frame(c.card)[14:], no)
					got := receive(t, victim, 1, 4)[0]
					if [6]byte(got[6:12]) != c.want {
						t.Errorf("card %d of host 2, without checksum %v: from %x, want %x", c.card, no,
							got[6:12], c.want)
					}
				}
			}
			if n := victim.Datagrams(); n.Refused != 0 {
				t.Errorf("%+v", n)
			}
		})
	}
}

// narrow gives the router's route to a host an MTU of its own, 0 for none.
func narrow(t *testing.T, l *lab.Lab, host, mtu int, six bool) {
	t.Helper()
	at := l.Hosts()[host].Interfaces[0]
	network := at.Addr.Masked()
	if six {
		network = at.Addr6.Masked()
	}
	err := l.DoRouter(func() error {
		port, err := net.InterfaceByName(fmt.Sprint("fup", host))
		if err != nil {
			return err
		}
		r := netlink.Route{LinkIndex: port.Index, MTU: mtu, MTULock: true,
			Dst: &net.IPNet{IP: network.Addr().AsSlice(), Mask: net.CIDRMask(network.Bits(), network.Addr().BitLen())}}
		if six {
			r.Priority = 1 // before the kernel's own
		}
		return netlink.RouteReplace(&r)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// limited waits until the port has told a limit of its only peer, and is how long frames may be.
func limited(t *testing.T, p *Port, want int) {
	t.Helper()
	var last []paths.Limit
	for deadline := time.Now().Add(patience); ; runtime.Gosched() {
		if l := p.Limits(); len(l) > 0 {
			last = l
		}
		if len(last) == 1 && last[0] == (paths.Limit{Card: p.Paths()[0].Card, Frame: want}) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("limits %+v, want frames of %d bytes; the path is %+v", last, want, p.Paths()[0])
		}
	}
}

// Rule (RFC 1191, RFC 8201): the port reports what a router on the way says about the length of
// packets, when the port is opened and later. The port sends longer packets none the less, because
// not every sender of such a message is a router.
func TestPathMTU(t *testing.T) {
	for _, name := range []string{"IPv4", "IPv6"} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, networks[name])
			six := name == "IPv6"
			narrow(t, l, 1, 1400, six)
			a, b := openUDP(t, l, 0, Config{}), openUDP(t, l, 1, Config{})
			over := encap.Overhead(datagrams(l, 0).Local) - arctic.EthernetSize
			if got := a.Limits(); len(got) != 1 || got[0] != (paths.Limit{Card: 1, Frame: 1400 - over}) ||
				a.FrameSize() != 1500-over {
				t.Fatalf("limits %+v on a path of %+v, frames of %d bytes", got, a.Paths()[0], a.FrameSize())
			}
			limited(t, b, 1500-over)
			exchange(t, b, a, mixture(b, 50), 10)

			narrow(t, l, 1, 1300, six)
			send(t, a, b, 1, 1400-over) // the router answers that it is too long
			a.Flush()
			limited(t, a, 1300-over)
			narrow(t, l, 1, 0, six)
			send(t, a, b, 7, a.FrameSize())
			a.Flush()
			if got := receive(t, b, 1, 4)[0]; len(got) != a.FrameSize() {
				t.Errorf("%d bytes arrived", len(got))
			}
			if got := a.Limits(); got != nil {
				t.Errorf("limits %+v again", got)
			}
			a.Remind()
			limited(t, a, 1300-over)
		})
	}
}

// Rule: when a router says that a path is too narrow for FUNet's frames the path stays, as narrow
// as it can be, and the message is reported: it may be forged. An interface that is too narrow has
// no path.
func TestNarrowPath(t *testing.T) {
	l := newLab(t, networks["IPv4"])
	narrow(t, l, 1, 600, false)
	a := openUDP(t, l, 0, Config{})
	missing(t, a, "")
	limited(t, a, arctic.EthernetSize+arctic.MinMTU)
	if err := a.Fault(1); err == nil || errors.Is(err, paths.ErrNoPath) ||
		!strings.Contains(err.Error(), fmt.Sprintf("MTU is said to be 600 bytes, FUNet needs %d", arctic.MinMTU+28)) {
		t.Errorf("Fault says %v", err)
	}
	// The peer answers, too: nobody has the port there. That may come at any time, also before the
	// port is open, and hides nothing.
	heard(t, a, "nobody has the UDP port there")
	if err := a.Fault(1); err == nil || !strings.Contains(err.Error(), "MTU is said to be 600 bytes") ||
		!strings.Contains(err.Error(), "nobody has the UDP port there") {
		t.Errorf("Fault says %v of a narrow path to a host without FUNet", err)
	}
	small := newLab(t, lab.Options{MTU: arctic.MinMTU + 27})
	if _, err := tryOpen(small, 0, Config{UDP: datagrams(small, 0)}); !errors.Is(err, ErrMTU) {
		t.Errorf("on an interface with MTU %d: %v", arctic.MinMTU+27, err)
	}
}

// short sends the shortest frame to card 1.
func short(p *Port) {
	frame, address := p.Reserve()[:bpf.FrameMin], encap.Address(1)
	copy(frame, address[:])
	p.Commit(len(frame))
	p.Flush()
}

// heard sends until the port has heard something of its only peer. A kernel bounds the ICMP
// messages to a peer, and those of all its namespaces together, so one datagram may remain without.
// Datagrams in quick succession would use up what it still sends.
func heard(t *testing.T, p *Port, want string) {
	t.Helper()
	var sent time.Time
	for deadline := time.Now().Add(patience); !strings.Contains(p.Paths()[0].Heard, want); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: heard %q, want %q", p.Paths()[0].Address, p.Paths()[0].Heard, want)
		}
		if time.Since(sent) > 3*time.Second {
			short(p)
			sent = time.Now()
		}
	}
}

// Rule: ICMP messages of a router or the peer are reported: that a filter prohibits it, that nobody
// is there, that FUNet does not run there; and it is no reason to stop.
func TestHeard(t *testing.T) {
	for _, name := range []string{"IPv4", "IPv6"} {
		l := newLab(t, networks[name])
		at := l.Hosts()[1].Interfaces[0]
		to := at.Addr.Addr()
		if name == "IPv6" {
			to = at.Addr6.Addr()
		}
		a := openUDP(t, l, 0, Config{})
		heard(t, a, "nobody has the UDP port there")
		for kind, want := range map[int]string{unix.RTN_PROHIBIT: "prohibited by a filter",
			unix.RTN_UNREACHABLE: "unreachable"} {
			r := &netlink.Route{Type: kind, Dst: &net.IPNet{IP: to.AsSlice(),
				Mask: net.CIDRMask(to.BitLen(), to.BitLen())}}
			if err := l.DoRouter(func() error { return netlink.RouteAdd(r) }); err != nil {
				t.Fatal(err)
			}
			heard(t, a, want)
			if err := a.Fault(1); err == nil || errors.Is(err, paths.ErrNoPath) ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("%s: Fault says %v", name, err)
			}
			if err := l.DoRouter(func() error { return netlink.RouteDel(r) }); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Rule: errors name the process that has one of the ports, and an own address that this host does
// not have.
func TestOpenRefusesDatagrams(t *testing.T) {
	l := newLab(t, networks["IPv4"])
	u := datagrams(l, 0)
	u.Local = datagrams(l, 1).Local
	if _, err := tryOpen(l, 0, Config{UDP: u}); !errors.Is(err, paths.ErrAddress) ||
		!strings.Contains(err.Error(), u.Local.String()) {
		t.Errorf("another's address: %v", err)
	}
	var other *net.UDPConn
	if err := l.Do(0, func() (err error) {
		other, err = net.ListenUDP("udp4", &net.UDPAddr{Port: encap.DefaultPort + 3})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := tryOpen(l, 0, Config{UDP: datagrams(l, 0)}); !errors.Is(err, paths.ErrPort) ||
		!strings.Contains(err.Error(), "30603") {
		t.Errorf("a port that somebody has: %v", err)
	}
	u = datagrams(l, 0)
	u.Port = 4000
	open(t, l, 0, Config{UDP: u})
}

// Rule: a peer without a route, or whose router does not answer, has no path. The port reports that
// with its reason. Frames to the peer are counted and lost. They arrive when there is a way again.
// The other peers are not concerned.
func TestPathsComeAndGo(t *testing.T) {
	long.Test(t)
	for _, name := range []string{"IPv4", "IPv6"} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, networks[name])
			a, b := openUDP(t, l, 0, Config{}), openUDP(t, l, 1, Config{})
			exchange(t, a, b, mixture(a, 10), 1)
			family := netlink.FAMILY_V4
			if name == "IPv6" {
				family = netlink.FAMILY_V6
			}
			var gone []netlink.Route
			change := func(f func() error) {
				t.Helper()
				if err := l.Do(0, f); err != nil {
					t.Fatal(err)
				}
			}
			change(func() error {
				routes, err := netlink.RouteList(nil, family)
				for _, r := range routes {
					if r.Gw != nil && err == nil {
						gone = append(gone, r)
						err = netlink.RouteDel(&r)
					}
				}
				return err
			})
			missing(t, a, "no route to")
			before := a.Datagrams().Unsent
			send(t, a, b, 1, 100)
			if a.Flush(); a.Datagrams().Unsent != before+1 {
				t.Errorf("%+v", a.Datagrams())
			}
			change(func() error { return netlink.RouteAdd(&gone[0]) })
			missing(t, a, "")
			exchange(t, a, b, mixture(a, 10), 1)

			// A blackhole of the host's own, and a gateway that is not there.
			host := netip.MustParseAddr(a.Paths()[0].Address)
			to := &net.IPNet{IP: host.AsSlice(), Mask: net.CIDRMask(host.BitLen(), host.BitLen())}
			silent := l.Hosts()[0].Interfaces[0].Gateway
			if name == "IPv6" {
				silent = l.Hosts()[0].Interfaces[0].Gateway6
			}
			for range 70 {
				silent = silent.Next() // nobody
			}
			for _, c := range []struct {
				route  netlink.Route
				reason string
			}{
				{netlink.Route{Dst: to, Type: unix.RTN_BLACKHOLE}, "discards it"},
				{netlink.Route{Dst: to, Type: unix.RTN_PROHIBIT}, "prohibits it"},
				{netlink.Route{Dst: to, Type: unix.RTN_UNREACHABLE}, "no route"},
				{netlink.Route{Dst: to, LinkIndex: gone[0].LinkIndex, Gw: silent.AsSlice()},
					silent.String() + " does not answer"},
			} {
				change(func() error { return netlink.RouteAdd(&c.route) })
				missing(t, a, c.reason)
				change(func() error { return netlink.RouteDel(&c.route) })
				missing(t, a, "")
			}
			exchange(t, a, b, mixture(a, 10), 1)
		})
	}
}

// missing waits until the way of a port's only peer is missing for a reason, or is there for "".
func missing(t *testing.T, p *Port, reason string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; runtime.Gosched() {
		got := p.Paths()[0].Missing
		if reason == "" && got == "" || reason != "" && strings.Contains(got, reason) {
			// What was answered before the other port was open is still told.
			if err := p.Fault(p.Paths()[0].Card); errors.Is(err, paths.ErrNoPath) != (reason != "") {
				t.Errorf("Fault says %v", err)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the way is missing because of %q, want %q", got, reason)
		}
	}
}
