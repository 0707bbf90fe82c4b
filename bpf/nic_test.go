// This file tests what the card does to a loaded program: groups switched, sockets that come and
// go, queues, several loads, refusals; and it measures the program.

package bpf

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestGroupSwitch: a group's frames are redirected exactly while the group is active, and no
// other group's frames are moved by the switch.
func TestGroupSwitch(t *testing.T) {
	n := loadNIC(t, 1, 0)
	for _, group := range []uint16{0, 6, 2046} {
		frame, next := makeFrame(100, gid(group)), makeFrame(100, gid(group+1))
		nextWant := judge(next, map[uint16]bool{homeGroup: true, lastGroup: true})
		for _, step := range []struct {
			set, active bool
			want        Counters
		}{
			{false, false, foreign},
			{true, true, redirected},
			{true, true, redirected}, // switching on twice is no count of users
			{true, false, foreign},
			{true, false, foreign},
			{true, true, redirected},
			{true, false, foreign},
		} {
			if step.set {
				if err := n.SetGroup(group, step.active); err != nil {
					t.Fatal(err)
				}
			}
			if err := run(n, frame, step.want, nil); err != nil {
				t.Fatalf("group %d, active %t: %v", group, step.active, err)
			}
			if err := run(n, next, nextWant, nil); err != nil {
				t.Fatalf("group %d beside %d: %v", group+1, group, err)
			}
		}
	}
}

// TestEveryGroup: all 2048 GIDs can be active, each by itself.
func TestEveryGroup(t *testing.T) {
	n := loadNIC(t, 1, 0)
	for group := uint16(0); group < Groups; group++ {
		home := group == homeGroup || group == lastGroup
		if !home {
			if err := run(n, makeFrame(80, gid(group)), foreign, nil); err != nil {
				t.Fatalf("group %d: %v", group, err)
			}
		}
		if err := n.SetGroup(group, true); err != nil {
			t.Fatal(err)
		}
		if err := run(n, makeFrame(80, gid(group)), redirected, nil); err != nil {
			t.Fatalf("group %d: %v", group, err)
		}
	}
}

// TestSocketComesAndGoes: without a socket on the queue a good frame is dropped and counted, never
// passed to the kernel; closing the socket is enough to remove it from the map.
func TestSocketComesAndGoes(t *testing.T) {
	n := loadNIC(t, 1)
	frame := makeFrame(100)
	if err := run(n, frame, noSocket, nil); err != nil {
		t.Error("before there is a socket:", err)
	}
	closeSocket := addSocket(t, n, 0)
	if err := run(n, frame, redirected, nil); err != nil {
		t.Error("with a socket:", err)
	}
	if err := run(n, makeFrame(100, gid(foreignGroup)), foreign, nil); err != nil {
		t.Error("foreign group with a socket:", err)
	}
	closeSocket()
	if err := run(n, frame, noSocket, nil); err != nil {
		t.Error("after the socket is closed:", err)
	}
}

// TestQueues: a frame goes to the socket of its own queue, and a queue without a socket, or
// beyond the map, has no_socket.
func TestQueues(t *testing.T) {
	enterNamespace(t)
	receiver, _ := addVeth(t, 4)
	n := loadNIC(t, 3, 0, 2)
	for queue, want := range []Counters{redirected, noSocket, redirected, noSocket} {
		at := &xdpMD{IngressIfindex: uint32(receiver.Attrs().Index), RxQueueIndex: uint32(queue)}
		if err := run(n, makeFrame(100), want, at); err != nil {
			t.Errorf("queue %d: %v", queue, err)
		}
	}
}

// TestCountedByQueue: redirected frames are counted by the queue that they came in on, modulo
// CountedQueues, and no other frame is.
func TestCountedByQueue(t *testing.T) {
	enterNamespace(t)
	receiver, _ := addVeth(t, 4)
	n := loadNIC(t, 4, 0, 1, 3)
	var want PerQueue
	for i, queue := range []int{0, 1, 1, 3, 1, 2, 3, 0, 1} {
		at := &xdpMD{IngressIfindex: uint32(receiver.Attrs().Index), RxQueueIndex: uint32(queue)}
		outcome := redirected
		if queue == 2 {
			outcome = noSocket
		} else {
			want[queue]++
		}
		if err := run(n, makeFrame(100), outcome, at); err != nil {
			t.Fatalf("frame %d on queue %d: %v", i, queue, err)
		}
		if err := run(n, makeFrame(100, gid(foreignGroup)), foreign, at); err != nil {
			t.Fatal(err)
		}
	}
	c, got, err := n.CountersByQueue()
	if err != nil || got != want || c.Redirected != 8 || c.NoSocket != 1 || c.ForeignGroup != 9 {
		t.Errorf("counted %+v and %v (%v), want %v", c, got, err, want)
	}
	if c.Redirected != got[0]+got[1]+got[3] {
		t.Errorf("%d redirected, by queue %v", c.Redirected, got)
	}
}

// TestLoadRefusals: a queue count outside of 1..MaxQueues is refused, the edges are taken, and
// the map has the size that was asked for.
func TestLoadRefusals(t *testing.T) {
	for _, queues := range []int{-1, 0, MaxQueues + 1, 1 << 32} {
		n, err := LoadNIC(Load{Queues: queues})
		if !errors.Is(err, ErrRange) || n != nil {
			t.Errorf("%d queues: %v, want ErrRange", queues, err)
		}
	}
	for _, queues := range []int{1, 64, MaxQueues} {
		n := loadNIC(t, queues)
		if got := n.Sockets().MaxEntries(); got != uint32(queues) {
			t.Errorf("%d queues: the map has %d", queues, got)
		}
		if err := n.Sockets().Put(uint32(queues), uint32(0)); err == nil {
			t.Errorf("%d queues: the map took an entry for queue %d", queues, queues)
		}
	}
}

// TestSetGroupRefusals: a GID of more than 11 bits is refused and changes nothing.
func TestSetGroupRefusals(t *testing.T) {
	n := loadNIC(t, 1, 0)
	for _, group := range []uint16{Groups, Groups + foreignGroup, 0xffff} {
		for _, active := range []bool{true, false} {
			if err := n.SetGroup(group, active); !errors.Is(err, ErrRange) {
				t.Errorf("group %d: %v, want ErrRange", group, err)
			}
		}
	}
	if err := run(n, makeFrame(100, gid(foreignGroup)), foreign, nil); err != nil {
		t.Error(err)
	}
}

// TestClosed: Close can be repeated, and what comes after it fails with an error, not a panic.
func TestClosed(t *testing.T) {
	n := loadNIC(t, 1)
	for range 2 {
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.SetGroup(1, true); err == nil {
		t.Error("a group was set after Close")
	}
	if _, err := n.Counters(); err == nil {
		t.Error("counters were read after Close")
	}
}

// TestTwoNICs: each load has maps of its own, so that a card never sees another's groups.
func TestTwoNICs(t *testing.T) {
	first, second := loadNIC(t, 1, 0), loadNIC(t, 1, 0)
	if err := first.SetGroup(foreignGroup, true); err != nil {
		t.Fatal(err)
	}
	frame := makeFrame(100, gid(foreignGroup))
	if err := run(first, frame, redirected, nil); err != nil {
		t.Error(err)
	}
	if err := run(second, frame, foreign, nil); err != nil {
		t.Error(err)
	}
	if got := counters(t, second); got != foreign {
		t.Errorf("the second NIC counted %+v", got)
	}
}

// TestWithoutCapabilities: without the right to load programs (capabilities(7), CAP_BPF) the
// error says in one line what to do. A child process gives its capabilities up.
func TestWithoutCapabilities(t *testing.T) {
	const childVariable = "FUNET_BPF_TEST_WITHOUT_CAPABILITIES"
	if os.Getenv(childVariable) == "" {
		child := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
		child.Env = append(os.Environ(), childVariable+"=1")
		output, err := child.CombinedOutput()
		if err != nil || !strings.Contains(string(output), "--- PASS: "+t.Name()) {
			t.Fatalf("child: %v\n%s", err, output)
		}
		return
	}
	dropCapabilities(t)
	n, err := LoadNIC(Load{Queues: 1})
	if n != nil || !errors.Is(err, os.ErrPermission) {
		t.Fatalf("got %v, %v, want os.ErrPermission", n, err)
	}
	for _, part := range []string{"load the NIC program", "root", "CAP_BPF and CAP_NET_ADMIN"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%q is more than one line", err)
	}
	t.Log(err)
}

// BenchmarkNIC runs the program in the kernel as often as asked: the time per frame of each way
// through it, without driver and delivery.
func BenchmarkNIC(b *testing.B) {
	for _, way := range []struct {
		name  string
		frame []byte
		frags bool
	}{
		{"pass", makeFrame(100, etherType(0x0800)), false},
		{"foreign_group", makeFrame(100, gid(foreignGroup)), false},
		{"redirected", makeFrame(100), false},
		{"redirected, frags", makeFrame(100), true},
		{"redirected, frags, 9014 bytes", makeFrame(9014), true},
	} {
		b.Run(way.name, func(b *testing.B) {
			n := load(b, Load{Queues: 1, Frags: way.frags}, 0)
			_, perRun, err := n.Program().Benchmark(way.frame, b.N, b.ResetTimer)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(perRun.Nanoseconds()), "ns/frame")
		})
	}
}
