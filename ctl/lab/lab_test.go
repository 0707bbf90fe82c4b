// Labs in use: traffic in every topology, options applied, and what is left after Close.

package lab

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

func TestTraffic(t *testing.T) {
	for _, o := range []Options{
		{Hosts: 2},
		{Hosts: 2, Topology: Bridge},
		{Hosts: 2, Topology: Mesh},
		{Hosts: 3},
		{Hosts: 8, Topology: Bridge},
		{Hosts: 4, Topology: Mesh},
		{Hosts: 8, Topology: Mesh},
		{Hosts: 4, Queues: 3, MTU: 3506},
	} {
		t.Run(fmt.Sprintf("%d%s", o.Hosts, o.Topology), func(t *testing.T) {
			l := mustUp(t, o)
			exchange(t, l)
		})
	}
}

// exchange sends a datagram from every host to every other, and proves that no other frame was
// on the wire: nothing was resolved, announced or flooded.
func exchange(t *testing.T, l *Lab) {
	t.Helper()
	hosts := l.Hosts()
	const port = 4242
	sockets := make([]*net.UDPConn, len(hosts))
	for i := range hosts {
		err := l.Do(i, func() (err error) {
			sockets[i], err = net.ListenUDP("udp4", &net.UDPAddr{Port: port})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		defer sockets[i].Close()
		if err := sockets[i].SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range hosts {
		for j := range hosts {
			if i == j {
				continue
			}
			to := net.UDPAddr{IP: hosts[j].to(i).Addr.Addr().AsSlice(), Port: port}
			if _, err := fmt.Fprintf(writer{sockets[i], &to}, "from %d to %d", i, j); err != nil {
				t.Fatalf("host %d to host %d: %v", i, j, err)
			}
		}
	}
	for j := range hosts {
		var got, want []string
		buf := make([]byte, 64)
		for i := range hosts {
			if i == j {
				continue
			}
			n, from, err := sockets[j].ReadFromUDP(buf)
			if err != nil {
				t.Fatalf("host %d: %v", j, err)
			}
			got = append(got, fmt.Sprintf("%s: %s", from.IP, buf[:n]))
			want = append(want, fmt.Sprintf("%s: from %d to %d", hosts[i].to(j).Addr.Addr(), i, j))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("host %d: got %q, want %q", j, got, want)
		}
	}
	for j, h := range hosts {
		err := l.spaces[j].netlink(func(nl *netlink.Handle) error {
			rx := uint64(0)
			for _, f := range h.Interfaces {
				link, err := nl.LinkByName(f.Name)
				if err != nil {
					return err
				}
				rx += link.Attrs().Statistics.RxPackets
			}
			if want := uint64(len(hosts) - 1); rx != want {
				return fmt.Errorf("host %d received %d frames, want %d", j, rx, want)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

type writer struct {
	conn *net.UDPConn
	to   *net.UDPAddr
}

func (w writer) Write(b []byte) (int, error) { return w.conn.WriteToUDP(b, w.to) }

// The kernel has what Options and Hosts say.
func TestAsDescribed(t *testing.T) {
	for _, o := range []Options{
		{Hosts: 2, MTU: 9000, Queues: 4},
		{Hosts: 3, MTU: MaxMTU, Queues: 2},
		{Hosts: 3, MTU: MinMTU, Topology: Mesh},
		{Hosts: 2, Queues: MaxQueues},
		{Hosts: 2},
	} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			l := mustUp(t, o)
			mtu, queues := max(o.MTU, DefaultMTU), max(o.Queues, 1)
			if o.MTU == MinMTU {
				mtu = MinMTU
			}
			if got := l.Options(); got.MTU != mtu || got.Queues != queues || got.Topology == "" {
				t.Errorf("Options: %+v", got)
			}
			for i, h := range l.Hosts() {
				err := l.spaces[i].netlink(func(nl *netlink.Handle) error { return asDescribed(nl, h, mtu, queues) })
				if err != nil {
					t.Errorf("host %d: %v", i, err)
				}
			}
		})
	}
}

func asDescribed(nl *netlink.Handle, h Host, mtu, queues int) error {
	links, err := nl.LinkList()
	if err != nil {
		return err
	}
	n := 0
	for _, l := range links {
		if ours(l) {
			n++
		}
	}
	if n != len(h.Interfaces) {
		return fmt.Errorf("%d links, want %d", n, len(h.Interfaces))
	}
	for _, f := range h.Interfaces {
		l, err := nl.LinkByName(f.Name)
		if err != nil {
			return err
		}
		a := l.Attrs()
		if a.MTU != mtu || a.NumRxQueues != queues || a.NumTxQueues != queues {
			return fmt.Errorf("%s has MTU %d, queues %d and %d, want %d, %d", f.Name, a.MTU, a.NumRxQueues,
				a.NumTxQueues, mtu, queues)
		}
		if a.OperState != netlink.OperUp || a.HardwareAddr.String() != f.MAC.String() {
			return fmt.Errorf("%s is %s with MAC %s, want up, %s", f.Name, a.OperState, a.HardwareAddr, f.MAC)
		}
		addrs, err := nl.AddrList(l, netlink.FAMILY_ALL)
		if err != nil {
			return err
		}
		if len(addrs) != 1 || addrs[0].IPNet.String() != f.Addr.String() {
			return fmt.Errorf("%s has addresses %v, want %s only", f.Name, addrs, f.Addr)
		}
		// The thread's /sys is that of its namespace.
		for _, queue := range []string{"rx", "tx"} {
			if _, err := os.Stat(fmt.Sprintf("/sys/class/net/%s/queues/%s-%d", f.Name, queue, queues-1)); err != nil {
				return err
			}
		}
	}
	for _, file := range []string{"all", "default"} {
		v, err := os.ReadFile("/proc/sys/net/ipv6/conf/" + file + "/disable_ipv6")
		if err == nil && strings.TrimSpace(string(v)) != "1" {
			return fmt.Errorf("IPv6 is on (%s)", file)
		}
	}
	lo, err := nl.LinkByName("lo")
	if err != nil {
		return err
	}
	if lo.Attrs().Flags&net.FlagUp == 0 {
		return errors.New("lo is down")
	}
	return nil
}

func TestCloseLeavesNothing(t *testing.T) {
	leavesNothing(t)
	l, err := Up(Options{Hosts: 4})
	if err != nil {
		t.Fatal(err)
	}
	namespaces := inodes(t, l)
	if len(namespaces) != 5 {
		t.Errorf("%d namespaces, want 4 hosts and a hub", len(namespaces))
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	gone(t, namespaces)
	if err := l.Do(0, func() error { t.Error("ran after Close"); return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("Do after Close: %v", err)
	}
	if err := l.Start(0, l.Command(0, "true")); !errors.Is(err, ErrClosed) {
		t.Errorf("Start after Close: %v", err)
	}
	if err := l.Down(); err != nil {
		t.Errorf("Down of an anonymous lab that is closed: %v", err)
	}
}

func TestDo(t *testing.T) {
	l := mustUp(t, Options{Hosts: 2})
	boom := errors.New("boom")
	if err := l.Do(1, func() error { return boom }); err != boom {
		t.Errorf("Do returned %v, want f's error as it is", err)
	}
	for _, host := range []int{-1, 2} {
		if err := l.Do(host, func() error { t.Error("ran"); return nil }); !errors.Is(err, ErrNoHost) {
			t.Errorf("Do(%d): %v", host, err)
		}
	}
	var before uint64
	namespaces := inodes(t, l)
	for host, want := range namespaces {
		err := l.Do(host, func() (err error) {
			before, err = inode("/proc/thread-self/ns/net")
			return err
		})
		if err != nil || before != want {
			t.Errorf("host %d runs in namespace %d (%v), want %d", host, before, err, want)
		}
	}
	// A function that leaves its goroutine, as FailNow does, ends the host but hangs nobody.
	if err := l.Do(0, func() error { runtime.Goexit(); return nil }); err == nil {
		t.Error("no error from a function that did not return")
	}
	eventually(t, "the host is closed", func() bool {
		return errors.Is(l.Do(0, func() error { return nil }), ErrClosed)
	})
	if err := l.Do(1, func() error { return nil }); err != nil {
		t.Errorf("the other host: %v", err)
	}
}

// A lab that is closed has given back its file descriptors, goroutines and threads.
func TestNothingLeaks(t *testing.T) {
	leavesNothing(t)
	type use struct{ fds, goroutines, threads int }
	used := func() (u use) {
		fds, _ := os.ReadDir("/proc/self/fd")
		tasks, _ := os.ReadDir("/proc/self/task")
		return use{len(fds), runtime.NumGoroutine(), len(tasks)}
	}
	round := func() {
		l, err := Up(Options{Hosts: 4})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Start(3, l.Command(3, "sleep", "600")); err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	round() // what the runtime keeps once it has made it
	before := used()
	for range 5 {
		round()
	}
	eventually(t, "resources are given back", func() bool {
		now := used()
		// The runtime keeps a few threads for others to use; a lab of 4 hosts and a hub has 5.
		return now.fds <= before.fds && now.goroutines <= before.goroutines && now.threads < before.threads+5*5
	})
}

// Anonymous labs do not know of each other, and many may be made at once.
func TestManyAtOnce(t *testing.T) {
	leavesNothing(t)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			l, err := Up(Options{Hosts: 3})
			if err != nil {
				t.Error(err)
				return
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestNobody(t *testing.T) {
	l := mustUp(t, Options{Hosts: 2, Name: labName("n")})
	a := start(t, "nobody "+l.Options().Name)
	if got := a.values("refused"); len(got) != 4 {
		t.Fatalf("want 4 refusals, got %q", a.lines)
	}
	for _, line := range a.values("refused") {
		if !strings.Contains(line, "run as root") {
			t.Errorf("no cure in %q", line)
		}
	}
	t.Log(a.lines)
}
