// The test bench: two anonymous network namespaces joined by a veth pair, and
// one AF_XDP port in each. Everything vanishes with the test.

package xdp

import (
	"errors"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

const (
	testEtherType = 0x88B5 // IEEE Std 802: local experimental EtherType 1
	patience      = 30 * time.Second
)

// lab is two hosts, 0 and 1, whose interfaces have the same name.
type lab struct {
	t      testing.TB
	origin netns.NsHandle
	inside bool // in is running
	ns     [2]netns.NsHandle
	// bound to its namespace: no slip of the thread's namespace reaches the machine's links
	nl    [2]*netlink.Handle
	index [2]int
}

const labInterface = "xdp0"

var labMAC = [2]net.HardwareAddr{{2, 0x58, 0, 0, 0, 1}, {2, 0x58, 0, 0, 0, 2}}

type labOptions struct {
	queues int // 0 means 1
	mtu    int // 0 means 1500
	down   bool
}

// newLab locks the test's goroutine to its thread for good: the thread ends with
// the test, so that a namespace that cannot be left does no harm.
func newLab(t testing.TB, o labOptions) *lab {
	t.Helper()
	runtime.LockOSThread()
	if o.queues == 0 {
		o.queues = 1
	}
	if o.mtu == 0 {
		o.mtu = 1500
	}
	l := &lab{t: t}
	var err error
	l.origin, err = netns.Get()
	must(t, err)
	t.Cleanup(func() { l.origin.Close() })
	for i := range l.ns {
		l.ns[i], err = netns.New()
		must(t, err)
		t.Cleanup(func() { l.ns[i].Close() })
		// No router solicitations between the test's frames.
		for _, conf := range []string{"all", "default"} {
			err := os.WriteFile("/proc/sys/net/ipv6/conf/"+conf+"/disable_ipv6", []byte("1"), 0o644)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
	}
	must(t, netns.Set(l.origin))

	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr, attrs.MTU = labInterface, labMAC[0], o.mtu
	attrs.NumTxQueues, attrs.NumRxQueues = o.queues, o.queues
	for i, ns := range l.ns {
		l.nl[i], err = netlink.NewHandleAt(ns)
		must(t, err)
		t.Cleanup(l.nl[i].Close)
	}
	must(t, l.nl[0].LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: labInterface, PeerHardwareAddr: labMAC[1],
		PeerNamespace: netlink.NsFd(l.ns[1]), PeerMTU: uint32(o.mtu), PeerNumTxQueues: uint32(o.queues),
		PeerNumRxQueues: uint32(o.queues)}))
	for host := range l.nl {
		l.index[host] = l.link(host).Attrs().Index
		if !o.down {
			l.setUp(host)
		}
	}
	for host := range l.nl {
		eventually(t, "the link comes up", func() bool {
			return o.down || l.link(host).Attrs().OperState == netlink.OperUp
		})
	}
	return l
}

// in runs f in the namespace of a host. It does not nest.
func (l *lab) in(host int, f func()) {
	l.t.Helper()
	if l.inside {
		l.t.Fatal("lab.in inside lab.in")
	}
	l.inside = true
	must(l.t, netns.Set(l.ns[host]))
	defer func() {
		must(l.t, netns.Set(l.origin))
		l.inside = false
	}()
	f()
}

// link is the host's interface as netlink sees it.
func (l *lab) link(host int) netlink.Link {
	l.t.Helper()
	dev, err := l.nl[host].LinkByName(labInterface)
	must(l.t, err)
	return dev
}

func (l *lab) setUp(host int)   { l.t.Helper(); must(l.t, l.nl[host].LinkSetUp(l.link(host))) }
func (l *lab) setDown(host int) { l.t.Helper(); must(l.t, l.nl[host].LinkSetDown(l.link(host))) }
func (l *lab) remove(host int)  { l.t.Helper(); must(l.t, l.nl[host].LinkDel(l.link(host))) }

// portConfig says how a port differs from the usual.
type portConfig struct {
	umem   UMEMConfig
	socket SocketConfig
	frags  bool
}

// port is a socket with its memory and its free frames, driven by the test.
type port struct {
	t    testing.TB
	sock *Socket
	umem *UMEM
	free *Allocator
}

// openPort opens a socket on a host; frames [first, first+n) of the UMEM are its own.
func (l *lab) openPort(host int, c portConfig) *port {
	l.t.Helper()
	if c.umem.FrameCount == 0 {
		c.umem.FrameCount = 256
	}
	umem, err := NewUMEM(c.umem)
	must(l.t, err)
	l.t.Cleanup(func() { must(l.t, umem.Close()) })
	c.socket.UMEM = umem
	return &port{t: l.t, sock: l.openSocket(host, c.socket), umem: umem,
		free: NewAllocator(umem, 0, umem.Config().FrameCount)}
}

func (l *lab) openSocket(host int, c SocketConfig) *Socket {
	l.t.Helper()
	var s *Socket
	c.Interface = labInterface
	l.in(host, func() {
		var err error
		s, err = Open(c)
		must(l.t, err)
	})
	l.t.Cleanup(func() { must(l.t, s.Close()) })
	return s
}

// redirect attaches a redirect program to a host and registers the sockets.
func (l *lab) redirect(host int, mode AttachMode, c RedirectConfig, sockets ...*Socket) *Attachment {
	l.t.Helper()
	if c.Queues == 0 {
		c.Queues = 8
	}
	r, err := NewRedirectProgram(c)
	must(l.t, err)
	l.t.Cleanup(func() { must(l.t, r.Close()) })
	for _, s := range sockets {
		must(l.t, s.Register(r.Sockets, s.Info().Queue))
	}
	var a *Attachment
	l.in(host, func() {
		a, err = Attach(r.Program, l.index[host], mode)
		must(l.t, err)
	})
	l.t.Cleanup(func() { must(l.t, a.Close()) })
	return a
}

// fill gives n free frames to the kernel.
func (p *port) fill(n uint32) {
	p.t.Helper()
	if got := p.sock.Fill().Reserve(n); got != n {
		p.t.Fatalf("fill ring: reserved %d of %d", got, n)
	}
	for i := range n {
		addr, ok := p.free.Get()
		if !ok {
			p.t.Fatal("no free frame")
		}
		p.sock.Fill().Set(i, addr)
	}
	p.sock.Fill().Submit(n)
}

// send puts frames into the tx ring in one batch and kicks once.
func (p *port) send(frames ...[]byte) error {
	p.t.Helper()
	n := uint32(len(frames))
	if got := p.sock.Tx().Reserve(n); got != n {
		p.t.Fatalf("tx ring: reserved %d of %d", got, n)
	}
	for i, f := range frames {
		addr, ok := p.free.Get()
		if !ok {
			p.t.Fatal("no free frame")
		}
		p.sock.Tx().Set(uint32(i), Desc{Addr: addr, Len: uint32(copy(p.umem.Span(addr, 2048), f))})
	}
	p.sock.Tx().Submit(n)
	return p.sock.Kick()
}

// complete takes back every frame that was sent.
func (p *port) complete() (n uint32) {
	c := p.sock.Completion()
	for got := c.Peek(64); got > 0; got = c.Peek(64) {
		for i := range got {
			if !p.free.Put(c.At(i)) {
				p.t.Fatalf("completion of unknown address %#x", c.At(i))
			}
		}
		c.Release(got)
		n += got
	}
	return n
}

// receive waits for n frames, copies them and refills.
func (p *port) receive(n int) [][]byte {
	p.t.Helper()
	var frames [][]byte
	deadline := time.Now().Add(patience)
	for len(frames) < n {
		if time.Now().After(deadline) {
			s, _ := p.sock.Statistics()
			p.t.Fatalf("received %d of %d frames; %+v", len(frames), n, s)
		}
		must(p.t, p.sock.WakeRx())
		got := p.sock.Rx().Peek(uint32(n - len(frames)))
		for i := range got {
			d := p.sock.Rx().At(i)
			data := p.umem.Data(d)
			if data == nil {
				p.t.Fatalf("descriptor %+v outside the UMEM", d)
			}
			frames = append(frames, append([]byte(nil), data...))
			p.free.Put(d.Addr)
		}
		p.sock.Rx().Release(got)
		p.fill(got)
	}
	return frames
}

// frame is an Ethernet frame from one host to the other, with a payload that
// depends on seq and has size bytes in all.
func testFrame(from, seq, size int) []byte {
	f := make([]byte, 0, size)
	f = append(f, labMAC[1-from]...)
	f = append(f, labMAC[from]...)
	f = append(f, testEtherType>>8, testEtherType&0xff)
	for i := 0; len(f) < size; i++ {
		f = append(f, byte(seq+i*7+i>>8))
	}
	return f
}

// eventually waits for a condition of the kernel.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantError checks the sentinel and that the message says what to do.
func wantError(t testing.TB, err, sentinel error) {
	t.Helper()
	if !errors.Is(err, sentinel) {
		t.Fatalf("error %v; want one that is %q", err, sentinel)
	}
	t.Log(err)
}
