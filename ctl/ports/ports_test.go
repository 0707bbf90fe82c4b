package ports

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port/afxdp"
	"github.com/funet/funet/xdp"
)

const (
	gid = 7
	mtu = 1500
	// patience is far more than anything takes.
	patience = 30 * time.Second
)

var (
	token = [32]byte{1, 2, 3}
	job   = bpf.Job{Tag: arctic.JobTag(token[:], gid), GID: gid}
)

// bed is two hosts, each with a helper and its other end.
type bed struct {
	t     *testing.T
	l     *lab.Lab
	mode  xdp.AttachMode // of NIC programs and ports
	hosts [2]*Client
	nics  [2]netlink.Link
	ended [2]chan error // of the helper
}

// inBothModes runs a test on native and on generic programs.
func inBothModes(t *testing.T, test func(t *testing.T, mode xdp.AttachMode)) {
	for _, mode := range []xdp.AttachMode{xdp.AttachNative, xdp.AttachGeneric} {
		t.Run(mode.String(), func(t *testing.T) { test(t, mode) })
	}
}

// newBed makes it, with room for so many ports on each host, and a job.
func newBed(t *testing.T, ports, nodes int, mode xdp.AttachMode) *bed {
	t.Helper()
	l, err := lab.Up(lab.Options{Hosts: 2})
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{t: t, l: l, mode: mode}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	for i := range b.hosts {
		b.on(i, func() error {
			host, err := New(ports, nil)
			if err != nil {
				return err
			}
			mine, its := pair(t)
			b.hosts[i], b.ended[i] = NewClient(mine), make(chan error, 1)
			here, err := os.Open("/proc/thread-self/ns/net")
			if err != nil {
				return err
			}
			go func() { // a process of its own, but for the memory
				runtime.LockOSThread() // which ends
				defer here.Close()
				h := NewHelper(host, func(err error) { t.Error(err) })
				b.ended[i] <- errors.Join(unix.Setns(int(here.Fd()), unix.CLONE_NEWNET), h.Serve(its), h.Close())
			}()
			t.Cleanup(func() { b.end(i) })
			shared, err := b.hosts[i].Switch()
			if err != nil {
				return err
			}
			defer shared.Close()
			program, err := bpf.LoadNIC(bpf.Load{Queues: 1, Switch: shared})
			if err != nil {
				return err
			}
			if b.nics[i], err = netlink.LinkByName("fu0"); err != nil {
				return err
			}
			attached, err := xdp.Attach(program.Program(), b.nics[i].Attrs().Index, mode)
			t.Cleanup(func() {
				if err := errors.Join(attached.Close(), program.Close()); err != nil {
					t.Error(err)
				}
			})
			return err
		})
		if _, err := b.hosts[i].AddJob(job, nodes); err != nil { // nowhere yet
			t.Fatal(err)
		}
	}
	return b
}

// pair is a connection between funid and its helper.
func pair(t *testing.T) (_, _ *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "ports")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = c.(*net.UnixConn)
	}
	return ends[0], ends[1]
}

func (b *bed) on(host int, f func() error) {
	b.t.Helper()
	if err := b.l.Do(host, f); err != nil {
		b.t.Fatal(err)
	}
}

// end ends the helper of a host, once.
func (b *bed) end(host int) {
	b.t.Helper()
	if b.ended[host] == nil {
		return
	}
	_ = b.hosts[host].Close()
	if err := <-b.ended[host]; err != nil {
		b.t.Error(err)
	}
	b.ended[host] = nil
}

// links returns how many links a host has.
func (b *bed) links(host int) int {
	b.t.Helper()
	return len(b.linkNames(host))
}

// linkNames lists the links of a host.
func (b *bed) linkNames(host int) (names []string) {
	b.t.Helper()
	b.on(host, func() error {
		all, err := netlink.LinkList()
		for errors.Is(err, netlink.ErrDumpInterrupted) { // one of them has just changed
			all, err = netlink.LinkList()
		}
		for _, l := range all {
			names = append(names, l.Attrs().Name)
		}
		return err
	})
	return names
}

// memory is what a process has for its port: a memfd whose pages are there.
func memory(t *testing.T) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("port", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "port")
	t.Cleanup(func() { f.Close() })
	g := afxdp.GeometryFor(mtu)
	if err := unix.Fallocate(fd, 0, 0, g.Bytes()); err != nil {
		t.Fatal(err)
	}
	return f
}

// make makes the port of a node on a host, and tells the others where it is.
func (b *bed) make(host int, node uint16, memory *os.File) (Made, error) {
	return b.makeFor(host, node, 1, memory)
}

// makeFor is make for an account.
func (b *bed) makeFor(host int, node uint16, account uint32, memory *os.File) (Made, error) {
	m, err := b.hosts[host].Make(bpf.Port{Job: job, Node: node, Account: account}, attach.Ticket{}, int(memory.Fd()),
		afxdp.GeometryFor(mtu), mtu, b.mode)
	if err != nil {
		return m, err
	}
	for i, h := range b.hosts {
		if i != host {
			at := make([]int, node+1)
			for n := range at[:node] {
				at[n] = -1
			}
			_, placing := h.Place(job, at,
				[]bpf.Place{{NIC: uint32(b.nics[i].Attrs().Index), Longest: mtu + 14, Host: uint16(host),
					Way: bpf.EthernetWay([6]byte(b.nics[host].Attrs().HardwareAddr),
						[6]byte(b.nics[i].Attrs().HardwareAddr), 0)}})
			err = errors.Join(err, placing)
		}
	}
	return m, err
}

// openCard is what an unprivileged process does: the thread has no capability, and ends.
func openCard(m Made, memory *os.File, node uint16, nodes int) (*card.Card, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capset(&header, &make([]unix.CapUserData, 2)[0]); err != nil {
		return nil, err
	}
	c := card.Config{GID: gid, Token: token, Node: node, CPU: -1, AnyThread: true,
		Direct: &card.Direct{Direct: afxdp.Direct{FD: m.FD, Memory: memory,
			Geometry: afxdp.GeometryFor(mtu), MTU: mtu}}}
	for n := range nodes {
		c.Peers = append(c.Peers, card.Peer{Node: uint16(n)})
	}
	return card.Open(c)
}

// send sends a word to a node.
func send1(k *card.Card, to uint16, word uint32) {
	s := k.Interface().Reserve(funi.Request)
	s.SetHeader(funi.NewHeader(to, 5, 1))
	s[funi.PayloadWord] = word
	k.Interface().Commit(funi.Request)
	k.Drive()
}

// receive1 waits for one.
func receive1(k *card.Card, until time.Time) (word uint32, err error) {
	for time.Now().Before(until) {
		k.Drive()
		if s := k.Interface().Receive(funi.Request); s != nil {
			word = s[funi.PayloadWord]
			k.Interface().Release(funi.Request)
			return word, nil
		}
	}
	return 0, errors.New("nothing came")
}

// Rule: processes without privileges, on two hosts and on one, exchange messages by their own
// cards; every message comes once.
func TestPingPongOfProcesses(t *testing.T) { inBothModes(t, testPingPongOfProcesses) }

func testPingPongOfProcesses(t *testing.T, mode xdp.AttachMode) {
	for name, hostOf := range map[string][]int{"two hosts": {0, 1}, "one host": {0, 0}} {
		t.Run(name, func(t *testing.T) {
			const exchanges = 500
			b := newBed(t, 4, len(hostOf), mode)
			until := time.Now().Add(patience)
			opened, start, done := make(chan error), make(chan struct{}), make(chan error)
			var rtt []time.Duration
			var made []Made
			for node, host := range hostOf {
				memory := memory(t)
				m, err := b.make(host, uint16(node), memory)
				if err != nil {
					t.Fatal(err)
				}
				made = append(made, m)
				go func() {
					runtime.LockOSThread() // which has lost its capabilities, and ends
					k, err := openCard(m, memory, uint16(node), len(hostOf))
					opened <- err
					if err != nil {
						return
					}
					<-start
					for i := range uint32(exchanges) {
						begin := time.Now()
						if node == 0 {
							send1(k, 1, i)
						}
						var word uint32
						if word, err = receive1(k, until); err == nil && word != i {
							err = fmt.Errorf("message %d of node %d is %d", i, node, word)
						}
						if err != nil {
							break
						}
						if node == 1 {
							send1(k, 0, i)
						} else {
							rtt = append(rtt, time.Since(begin))
						}
					}
					done <- errors.Join(err, k.Close(patience))
				}()
				if err := <-opened; err != nil {
					t.Fatal(err)
				}
			}
			close(start)
			for range hostOf {
				if err := <-done; err != nil {
					t.Fatal(err)
				}
			}
			slices.Sort(rtt)
			t.Logf("round trip: p50 %v, p99 %v", rtt[len(rtt)/2], rtt[len(rtt)*99/100])
			for node, m := range made {
				h := b.hosts[hostOf[node]]
				c, err := h.Counters(m.ID)
				if err != nil || c.Sent+c.Local < exchanges || c.Dropped() != 0 {
					t.Errorf("node %d: %+v, %v", node, c, err)
				}
				if _, err := h.End(m.ID); err != nil {
					t.Error(err)
				}
			}
			for host := range b.hosts {
				b.end(host)
				if n := b.links(host); n != 2 { // with lo
					t.Errorf("host %d has %d links", host, n)
				}
			}
		})
	}
}

// Rule (Gone, ErrFull): a port that has ended counts until nobody has its socket; then its place is
// free. When funid ends nothing is left.
func TestPortIsGone(t *testing.T) {
	b := newBed(t, 1, 2, xdp.AttachGeneric)
	memory := memory(t)
	m, err := b.make(0, 0, memory)
	if err != nil {
		t.Fatal(err)
	}
	h := b.hosts[0]
	if _, err := h.End(m.ID); err != nil {
		t.Fatal(err)
	}
	if gone, _, err := h.Gone(m.ID); gone || err != nil {
		t.Fatalf("while the process has the socket: gone %v, %v", gone, err)
	}
	if _, err := b.make(0, 1, memory); !errors.Is(err, ErrFull) {
		t.Fatalf("a port too many: %v", err)
	}
	if err := unix.Close(m.FD); err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(patience)
	for gone := false; !gone; { // the kernel takes the socket apart later
		if gone, _, err = h.Gone(m.ID); err != nil || time.Now().After(until) {
			t.Fatalf("afterwards: gone %v, %v", gone, err)
		}
	}
	for made := false; !made; { // the links are deleted later, too
		m, err = b.make(0, 1, memory)
		if made = err == nil; !made && (!errors.Is(err, ErrFull) || time.Now().After(until)) {
			t.Fatal(err)
		}
	}
	defer unix.Close(m.FD)
	b.end(0)
	if n := b.links(0); n != 2 { // with lo
		t.Errorf("%d links are left", n)
	}
	if _, err := h.Counters(m.ID); !errors.Is(err, ErrHelper) {
		t.Errorf("a helper that has ended: %v", err)
	}
}

// Rule: what there is not is an error, and the helper goes on.
func TestHelperRefuses(t *testing.T) {
	b := newBed(t, 1, 2, xdp.AttachGeneric)
	h := b.hosts[0]
	_, ended := h.End(9)
	_, _, gone := h.Gone(9)
	_, _, unknown := h.ask(&request{Op: "something"}, 0)
	_, none := h.Make(bpf.Port{Job: bpf.Job{GID: 9}}, attach.Ticket{}, int(memory(t).Fd()),
		afxdp.GeometryFor(mtu), mtu, b.mode)
	_, tooMany := b.make(0, 2, memory(t))
	_, twice := h.AddJob(job, 2)
	_, nowhere := h.Place(bpf.Job{GID: 9}, []int{-1}, nil)
	for what, err := range map[string]error{"a port that there is not ends": ended, "or is gone": gone,
		"an unknown request": unknown, "no such job": none,
		"no such node": tooMany, "a job twice": twice, "no such job's places": nowhere} {
		if err == nil || errors.Is(err, ErrHelper) {
			t.Errorf("%s: %v", what, err)
		}
	}
	until := time.Now().Add(patience)
	for {
		m, err := b.make(0, 1, memory(t))
		if err == nil {
			attach.CloseDescriptors([]int{m.FD})
			b.mode = xdp.AttachNative
			if _, err := b.make(0, 0, memory(t)); !errors.Is(err, ErrFull) ||
				!strings.Contains(err.Error(), "XDP mode") {
				t.Errorf("ports of two modes: %v", err)
			}
			break
		}
		// the pairs of those that were refused go soon
		if !errors.Is(err, ErrFull) || time.Now().After(until) {
			t.Fatal(err)
		}
	}
}
