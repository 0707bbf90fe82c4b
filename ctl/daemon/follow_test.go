package daemon_test

// This file tests interfaces that change under the daemons of a lab: traffic before and after shows
// whether the cards are plugged into the present interfaces.

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

const labInterface = "fu0"

// do runs something in a host's network namespace.
func (b *bed) do(host int, f func() error) {
	b.t.Helper()
	if err := b.lab.Do(host, f); err != nil {
		b.t.Fatal(err)
	}
}

// change changes the interface of a host.
func (b *bed) change(host int, name string, f func(netlink.Link) error) {
	b.t.Helper()
	b.do(host, func() error {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("%s of host %d: %w", name, host, err)
		}
		return f(l)
	})
}

// remove takes the cable away, with both its ends.
func (b *bed) remove() {
	b.t.Helper()
	b.change(0, labInterface, netlink.LinkDel)
}

// restore puts another cable in, with the names and the addresses of the first.
func (b *bed) restore(mtu int) {
	b.t.Helper()
	var there *os.File
	b.do(1, func() (err error) {
		there, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	defer there.Close()
	hosts := b.lab.Hosts()
	b.do(0, func() error {
		return netlink.LinkAdd(&netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: labInterface, MTU: mtu, HardwareAddr: hosts[0].Interfaces[0].MAC},
			PeerName:  labInterface, PeerHardwareAddr: hosts[1].Interfaces[0].MAC, PeerMTU: uint32(mtu),
			PeerNamespace: netlink.NsFd(there.Fd()),
		})
	})
	for host := range hosts {
		b.change(host, labInterface, netlink.LinkSetUp)
	}
}

func (b *bed) mtu(name string) (mtu int) {
	b.t.Helper()
	b.change(0, name, func(l netlink.Link) error { mtu = l.Attrs().MTU; return nil })
	return mtu
}

// awaitLink waits until the interface of a daemon is in a state.
func awaitLink(t testing.TB, r *running, state report.LinkState) (s report.LinkStatus) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("%s: %+v", r.socket, s)
		}
	}()
	until(t, fmt.Sprintf("%s: the interface is %s", r.socket, state), func() bool {
		s = linkOf(t, r)
		return s.State == state
	})
	return s
}

// linkOf asks a daemon for its interface, on one connection for all questions.
func linkOf(t testing.TB, r *running) report.LinkStatus {
	t.Helper()
	s, err := askStatusOn(r.asker(t))
	if err != nil {
		t.Fatal(err)
	}
	return s.Links[0]
}

// asker returns the connection for all questions to a daemon. One for each question, in a loop, may
// be more than a user has.
func (r *running) asker(t testing.TB) *client {
	t.Helper()
	if r.asks == nil {
		r.asks = dial(t, r.socket)
	}
	return r.asks
}

func closeAll(all ...[]*client) {
	for _, clients := range all {
		for _, k := range clients {
			k.Close()
		}
	}
}

// Rule: an interface that is gone ends the jobs that need it, and no others, whose processes hear
// why; new ones are refused with that reason; when the interface is back the daemons open it again,
// and jobs run.
func TestInterfaceGone(t *testing.T) {
	b := newBed(t)
	var log logged
	daemons := []*running{b.start(0, func(c *daemon.Config) { c.Log = log.add }), b.start(1, nil)}
	_, own := group(t, daemons[:1], 0, 0)
	mtu := b.mtu(labInterface)
	for range 3 {
		owners, nodes := group(t, daemons, 0, 1)
		pingPong(t, nodes, 20)
		b.remove()
		for _, k := range nodes {
			k.until("it is told", k.Iface.Gone)
			if err := k.Iface.Err(); !errors.Is(err, funi.ErrDetached) ||
				!strings.Contains(err.Error(), "interface fu0 is gone") {
				t.Errorf("the context ended with %v", err)
			}
		}
		for _, r := range daemons {
			if s := awaitLink(t, r, report.LinkGone); !strings.Contains(s.Why, "interface fu0 is gone") {
				t.Errorf("status %+v", s)
			}
		}
		_, err := dial(t, daemons[0].socket).Job(attach.JobRequest{Token: attach.NewToken(), Cards: []uint16{0, 1}})
		if !errors.Is(err, attach.ErrInterface) || !strings.Contains(err.Error(), "interface fu0 is gone") {
			t.Errorf("a job over it: %v", err)
		}
		pingPong(t, own, 20) // through no interface
		closeAll(nodes, owners)
		b.restore(mtu)
		for _, r := range daemons {
			awaitLink(t, r, report.LinkUp)
		}
		owners, nodes = group(t, daemons, 0, 1)
		pingPong(t, nodes, 20)
		closeAll(nodes, owners)
	}
	if s := linkOf(t, daemons[0]); s.Reopened != 3 {
		t.Errorf("status %+v", s)
	}
	for _, parts := range [][]string{{"fu0 is gone", "ended the jobs that need it: 1"}, {"fu0 is opened again"},
		{"fu0 is up"}} {
		if !log.has(parts...) {
			t.Errorf("the log does not say %q:\n%s", parts, log.text())
		}
	}
}

// Rule: an interface that comes back with another name is known by its address, and one that is
// only called otherwise goes on.
func TestInterfaceRenamed(t *testing.T) {
	b := newBed(t)
	var log logged
	daemons := []*running{b.start(0, func(c *daemon.Config) { c.Log = log.add }), b.start(1, nil)}
	owners, nodes := group(t, daemons, 0, 1)
	pingPong(t, nodes, 20)
	rename := func(from, to string) {
		t.Helper()
		b.change(0, from, func(l netlink.Link) error { return netlink.LinkSetName(l, to) })
	}
	rename(labInterface, "other")
	until(t, "the status has the name", func() bool {
		s := linkOf(t, daemons[0])
		return s.Interface == "other" && s.Configured == labInterface && s.State == report.LinkUp
	})
	pingPong(t, nodes, 20)
	if !log.has("interface fu0 is called other now") {
		t.Errorf("the log:\n%s", log.text())
	}
	closeAll(nodes, owners)
	mtu := b.mtu("other")
	b.change(0, "other", netlink.LinkDel)
	awaitLink(t, daemons[0], report.LinkGone)
	awaitLink(t, daemons[1], report.LinkGone)
	// Down first, as udev has it: so it has its name before it is used.
	b.restore(mtu)
	b.change(0, labInterface, netlink.LinkSetDown)
	rename(labInterface, "third")
	b.change(0, "third", netlink.LinkSetUp)
	until(t, "it is found by its address", func() bool {
		s := linkOf(t, daemons[0])
		return s.Interface == "third" && s.State == report.LinkUp
	})
	awaitLink(t, daemons[1], report.LinkUp)
	_, nodes = group(t, daemons, 0, 1)
	pingPong(t, nodes, 20)
}

// Rule: an interface with another address is not the one that the peers know: it is not used until
// it has its own.
func TestInterfaceOfAnotherAddress(t *testing.T) {
	b := newBed(t)
	daemons := []*running{b.start(0, nil), b.start(1, nil)}
	own := b.lab.Hosts()[0].Interfaces[0].MAC
	other := slices.Clone(own)
	other[5] ^= 0x40
	b.change(0, labInterface, func(l netlink.Link) error { return netlink.LinkSetHardwareAddr(l, other) })
	if s := awaitLink(t, daemons[0], report.LinkGone); !strings.Contains(s.Why, other.String()) ||
		!strings.Contains(s.Why, "ip link set fu0 address "+own.String()) {
		t.Errorf("status %+v", s)
	}
	b.change(0, labInterface, func(l netlink.Link) error { return netlink.LinkSetHardwareAddr(l, own) })
	awaitLink(t, daemons[0], report.LinkUp)
	_, nodes := group(t, daemons, 0, 1)
	pingPong(t, nodes, 20)
}

// Rule: an MTU below what FUNet needs ends the jobs, with what mends it; any other is no harm, to
// nobody's job; and after either, when it is as it was, jobs run.
func TestInterfaceMTU(t *testing.T) {
	b := newBed(t)
	var log logged
	daemons := []*running{b.start(0, func(c *daemon.Config) { c.Log = log.add }), b.start(1, nil)}
	mtu := b.mtu(labInterface)
	set := func(mtu int) {
		t.Helper()
		b.change(0, labInterface, func(l netlink.Link) error { return netlink.LinkSetMTU(l, mtu) })
	}
	owners, nodes := group(t, daemons, 0, 1)
	pingPong(t, nodes, 20)
	for _, other := range []int{mtu + 100, mtu, mtu - 100, arctic.MinMTU, mtu} {
		before := linkOf(t, daemons[0]).Reopened
		set(other)
		until(t, "it is opened anew", func() bool { return linkOf(t, daemons[0]).Reopened > before })
		pingPong(t, nodes, 20)
	}
	if !log.has("its MTU was", "opened anew") {
		t.Errorf("the log:\n%s", log.text())
	}
	set(arctic.MinMTU - 1)
	s := awaitLink(t, daemons[0], report.LinkMTU)
	want := fmt.Sprintf("has MTU %d, and FUNet needs %d", arctic.MinMTU-1, arctic.MinMTU)
	nodes[0].until("it is told", nodes[0].Iface.Gone)
	if err := nodes[0].Iface.Err(); !strings.Contains(s.Why, want) || !strings.Contains(err.Error(), want) {
		t.Errorf("status %+v; the context ended with %v", s, err)
	}
	closeAll(nodes, owners)
	set(mtu)
	awaitLink(t, daemons[0], report.LinkUp)
	_, nodes = group(t, daemons, 0, 1)
	pingPong(t, nodes, 20)
}

// Rule: daemons tag their frames with the VLAN of their configuration, also after their interfaces
// were opened anew, and their MTU counts without the tag.
func TestDaemonsInAVLAN(t *testing.T) {
	b := newBed(t)
	five := func(c *daemon.Config) { c.VLAN = 5 }
	daemons := []*running{b.start(0, five), b.start(1, five)}
	_, nodes := group(t, daemons, 0, 1)
	pingPong(t, nodes, 50)
	for _, mtu := range []int{1400, arctic.MinMTU + 4} {
		before := linkOf(t, daemons[0]).Reopened
		b.change(0, labInterface, func(l netlink.Link) error { return netlink.LinkSetMTU(l, mtu) })
		until(t, "it is opened anew", func() bool { return linkOf(t, daemons[0]).Reopened > before })
		pingPong(t, nodes, 20)
	}
	b.change(0, labInterface, func(l netlink.Link) error { return netlink.LinkSetMTU(l, arctic.MinMTU+3) })
	awaitLink(t, daemons[0], report.LinkMTU)
}

// Rule: while an interface is down, or has no carrier, jobs live as long as their peers' time-outs
// allow; what was sent meanwhile arrives, once.
func TestInterfaceDown(t *testing.T) {
	b := newBed(t)
	patient := func(c *daemon.Config) { c.PeerTimeout, c.ConnectTimeout = time.Hour, time.Hour }
	var log logged
	daemons := []*running{b.start(0, func(c *daemon.Config) { patient(c); c.Log = log.add }), b.start(1, patient)}
	_, nodes := group(t, daemons, 0, 1)
	pingPong(t, nodes, 20)
	for i := range uint32(3) {
		b.change(0, labInterface, netlink.LinkSetDown)
		if s := awaitLink(t, daemons[0], report.LinkDown); !strings.Contains(s.Why, "ip link set fu0 up") {
			t.Errorf("status %+v", s)
		}
		awaitLink(t, daemons[1], report.LinkNoCarrier)
		nodes[0].send(1, 100+i)
		nodes[1].send(0, 200+i)
		b.change(0, labInterface, netlink.LinkSetUp)
		if from, word := nodes[1].receive(); from != 0 || word != 100+i {
			t.Errorf("got %d from %d", word, from)
		}
		if from, word := nodes[0].receive(); from != 1 || word != 200+i {
			t.Errorf("got %d from %d", word, from)
		}
		for _, r := range daemons {
			awaitLink(t, r, report.LinkUp)
		}
		pingPong(t, nodes, 20)
	}
	if s := linkOf(t, daemons[0]); s.Reopened != 0 || !log.has("interface fu0 is down") {
		t.Errorf("status %+v, and the log:\n%s", s, log.text())
	}
}

// Rule: a process may delete and make an interface of the card's as fast as it can (CAP_NET_ADMIN
// of its network namespace). That ends the jobs that need this interface, and costs no other job a
// message. When the process is done, the interface is opened again.
func TestInterfaceMadeAndDeletedInALoop(t *testing.T) {
	long.Test(t)
	b := newBedOf(t, lab.Options{Hosts: 3, Topology: lab.Mesh})
	daemons := []*running{b.start(0, nil), b.start(1, nil), b.start(2, nil)}
	_, nodes := group(t, daemons, 0, 2)
	at := b.lab.Hosts()[0].Interfaces[0] // to host 1
	mtu := b.mtu(at.Name)
	stop, looping := make(chan struct{}), sync.WaitGroup{}
	var made atomic.Int64
	looping.Go(func() {
		b.do(0, func() error {
			for {
				l, err := netlink.LinkByName(at.Name)
				if err == nil {
					err = netlink.LinkDel(l)
				}
				if err == nil {
					err = netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: at.Name, MTU: mtu,
						HardwareAddr: at.MAC}, PeerName: "other"})
				}
				if err == nil {
					l, err = netlink.LinkByName(at.Name)
				}
				if err == nil {
					err = netlink.LinkSetUp(l)
				}
				if made.Add(1); err != nil {
					return err
				}
				select {
				case <-stop:
					return nil
				default:
				}
			}
		})
	})
	for range 20 {
		pingPong(t, nodes, 200)
	}
	before := made.Load()
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); { // several openings long
		pingPong(t, nodes, 20)
	}
	close(stop)
	looping.Wait()
	if t.Logf("made %d times, %d of them in the end", made.Load(), made.Load()-before); made.Load() < 20 {
		t.Errorf("made %d times: nothing was tested", made.Load())
	}
	b.change(0, "other", netlink.LinkSetUp)
	awaitLink(t, daemons[0], report.LinkUp)
	pingPong(t, nodes, 20)
}

// Rule: a link may lose its carrier while the daemon opens it, as the drivers of some NICs reset
// theirs. The log then says that and how long it took, and does not point to the cable. A later
// outage is not the driver's.
func TestLinkResetByAttaching(t *testing.T) {
	b := newBed(t)
	var log logged
	carrier := func(f func(netlink.Link) error) { b.change(1, labInterface, f) }
	const cable = "look at its cable"
	r := b.start(0, func(c *daemon.Config) {
		c.Log = log.add
		c.MakeSocket = func() (int, error) { // what a driver does a moment before or after
			carrier(netlink.LinkSetDown)
			return unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		}
	})
	if s := awaitLink(t, r, report.LinkNoCarrier); !strings.Contains(s.Why, "its driver resets the link") ||
		strings.Contains(s.Why, cable) {
		t.Errorf("status %+v", s)
	}
	carrier(netlink.LinkSetUp)
	awaitLink(t, r, report.LinkUp)
	if !log.has("interface fu0: its driver resets the link when the NIC program comes or goes; this time it was back after") || log.has(cable) {
		t.Errorf("the log:\n%s", log.text())
	}
	carrier(netlink.LinkSetDown)
	if s := awaitLink(t, r, report.LinkNoCarrier); !strings.Contains(s.Why, cable) {
		t.Errorf("status %+v", s)
	}
}

// Rule: a daemon has after 50 changes what it had before them: descriptors, goroutines, and memory
// of the kernel's making.
func TestManyInterfaceChanges(t *testing.T) {
	long.Test(t)
	b := newBed(t)
	daemons := []*running{b.start(0, nil), b.start(1, nil)}
	mtu := b.mtu(labInterface)
	changes := []func(){
		func() {
			before := []uint64{linkOf(t, daemons[0]).Reopened, linkOf(t, daemons[1]).Reopened}
			b.remove()
			awaitLink(t, daemons[0], report.LinkGone)
			b.restore(mtu)
			// Host 1's daemon may be late, and not have seen it gone: until it opens the new one it
			// says that the old one is up.
			for i, r := range daemons {
				until(t, "it is opened again", func() bool { return linkOf(t, r).Reopened > before[i] })
			}
		},
		func() {
			b.change(0, labInterface, netlink.LinkSetDown)
			awaitLink(t, daemons[0], report.LinkDown)
			b.change(0, labInterface, netlink.LinkSetUp)
		},
		func() {
			b.change(1, labInterface, func(l netlink.Link) error { return netlink.LinkSetMTU(l, arctic.MinMTU-1) })
			awaitLink(t, daemons[1], report.LinkMTU)
			b.change(1, labInterface, func(l netlink.Link) error { return netlink.LinkSetMTU(l, mtu) })
		},
		func() {
			for _, name := range [][2]string{{labInterface, "x"}, {"x", labInterface}} {
				b.change(0, name[0], func(l netlink.Link) error { return netlink.LinkSetName(l, name[1]) })
				until(t, "the name", func() bool { return linkOf(t, daemons[0]).Interface == name[1] })
			}
		},
	}
	run := func(n int) {
		for i := range n {
			changes[i%len(changes)]()
			for _, r := range daemons {
				awaitLink(t, r, report.LinkUp)
			}
		}
		owners, nodes := group(t, daemons, 0, 1)
		pingPong(t, nodes, 20)
		closeAll(nodes, owners)
		for _, r := range daemons {
			until(t, "all is free", func() bool {
				s, err := askStatusOn(r.asks)
				return err == nil && len(s.Jobs) == 0 && s.Connections == 1
			})
		}
	}
	openings := func() uint64 { return linkOf(t, daemons[0]).Reopened + linkOf(t, daemons[1]).Reopened }
	run(len(changes)) // what is made once
	descriptors, goroutines, resident := holdings(t)
	opened := openings()
	run(50)
	// A port has 2 MiB of UMEM frames (package afxdp), all of them resident. The Go runtime takes
	// some MiB more or less, with the machine's load; so the bound is half of what the openings
	// would have left behind.
	if opened = openings() - opened; opened < 30 {
		t.Fatalf("the interfaces were opened %d times again, so little was tested", opened)
	}
	most := resident + int64(opened)*(2<<20)/2
	var d, g int
	var m int64
	eventually(t, fmt.Sprintf("no more than %d descriptors, %d goroutines and %d KiB resident", descriptors, goroutines,
		most>>10), func() bool {
		d, g, m = holdings(t)
		t.Logf("descriptors %d to %d, goroutines %d to %d, resident %d to %d KiB", descriptors, d, goroutines, g,
			resident>>10, m>>10)
		return d <= descriptors && g <= goroutines && m <= most
	})
}

// holdings counts what this process holds, with the daemons in it; resident is in bytes.
func holdings(t testing.TB) (descriptors, goroutines int, resident int64) {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	b, err := os.ReadFile("/proc/self/statm")
	if err == nil {
		var size, in int64
		_, err = fmt.Sscan(string(b), &size, &in)
		resident = in * int64(os.Getpagesize())
	}
	if err != nil {
		t.Fatal(err)
	}
	return len(names), runtime.NumGoroutine(), resident
}

// Rule: somebody who changes other interfaces of the namespace as fast as the kernel lets him does
// not stop the card's thread: others' messages go on, and what happens to the card's interface is
// still noticed.
func TestFloodOfInterfaceNews(t *testing.T) {
	long.Test(t)
	b := newBed(t)
	daemons := []*running{b.start(0, nil), b.start(1, nil)}
	_, nodes := group(t, daemons, 0, 1)
	stop, flooding := make(chan struct{}), sync.WaitGroup{}
	var flaps int
	flooding.Go(func() {
		b.do(0, func() error {
			if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "flapping"},
				PeerName: "still"}); err != nil {
				return err
			}
			l, err := netlink.LinkByName("flapping")
			for err == nil {
				select {
				case <-stop:
					return nil
				default:
				}
				flaps++
				if err = netlink.LinkSetUp(l); err == nil {
					err = netlink.LinkSetDown(l)
				}
			}
			return err
		})
	})
	pingPong(t, nodes, 2000)
	close(stop)
	flooding.Wait()
	t.Logf("%d flaps", flaps)
	b.change(0, labInterface, netlink.LinkSetDown)
	awaitLink(t, daemons[0], report.LinkDown)
	b.change(0, labInterface, netlink.LinkSetUp)
	awaitLink(t, daemons[0], report.LinkUp)
	pingPong(t, nodes, 20)
}
