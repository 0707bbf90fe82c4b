// This file sends real frames through two switches, as processes on two hosts do: inner end, guard,
// NIC, wire, NIC program, inner end.

package bpf

import (
	"bytes"
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// attachGuard puts the guard at the ingress of an interface (clsact, tc-bpf(8)), or as its generic
// XDP program.
func attachGuard(t *testing.T, s *Switch, outer netlink.Link, generic bool) {
	t.Helper()
	if generic {
		if err := netlink.LinkSetXdpFdWithFlags(outer, s.Guard(true).FD(), unix.XDP_FLAGS_SKB_MODE); err != nil {
			t.Fatal("attach the guard:", err)
		}
		return
	}
	index := outer.Attrs().Index
	qdisc := &netlink.GenericQdisc{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index,
		Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}, QdiscType: "clsact"}
	if err := netlink.QdiscAdd(qdisc); err != nil {
		t.Fatal("add a clsact qdisc:", err)
	}
	filter := &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: index, Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1,
			Protocol: unix.ETH_P_ALL, Priority: 1},
		Fd: s.Guard(false).FD(), Name: "funet_guard", DirectAction: true,
	}
	if err := netlink.FilterAdd(filter); err != nil {
		t.Fatal("attach the guard:", err)
	}
}

// awaitUp waits until a link sends: the queue of the end of a pair that was up first becomes active
// later, and until then the kernel drops what is sent (net/core/link_watch.c).
func awaitUp(t *testing.T, l netlink.Link) {
	t.Helper()
	if !await(func() bool {
		now, err := netlink.LinkByIndex(l.Attrs().Index)
		return err == nil && now.Attrs().OperState == netlink.OperUp
	}) {
		t.Fatalf("%s does not come up", l.Attrs().Name)
	}
}

// TestSwitchOnTheWire: a frame of one port arrives at the port of the other host, byte for byte and
// without addresses, and at one of the same host. What the guard or the NIC program drops arrives
// nowhere, and the kernel's stack sees nothing of either.
func TestSwitchOnTheWire(t *testing.T) {
	t.Run("native", func(t *testing.T) { testSwitchOnTheWire(t, link.XDPDriverMode) })
	t.Run("generic", func(t *testing.T) { testSwitchOnTheWire(t, link.XDPGenericMode) })
}

func testSwitchOnTheWire(t *testing.T, mode link.XDPAttachFlags) {
	enterNamespace(t)
	outside, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer outside.Close()
	within, err := netns.New() // of the inner ends
	if err != nil {
		t.Fatal(err)
	}
	defer within.Close()
	// as enterNamespace
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0); err != nil &&
		!os.IsNotExist(err) {
		t.Fatal("switch IPv6 off:", err)
	}
	enter := func(ns netns.NsHandle) {
		t.Helper()
		if err := netns.Set(ns); err != nil {
			t.Fatal(err)
		}
	}
	enter(outside)
	nic0, nic1 := addVeth(t, 1) // the wire; its ends are the NICs of the two hosts
	awaitUp(t, nic0)
	nics := []netlink.Link{nic0, nic1}
	job := Job{jobTag, homeGroup}
	mac := func(l netlink.Link) [6]byte { return [6]byte(l.Attrs().HardwareAddr) }
	var inner [3]int // packet sockets of nodes 0 and 1 on host 0, and of node 2 on host 1
	switches := make([]*Switch, 2)
	programs := make([]*NIC, 2)
	outer := make([]uint32, 3)
	for host := range switches {
		s, err := LoadSwitch(4)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		switches[host] = s
		n := load(t, Load{Queues: 1, Switch: s.Shared()})
		programs[host] = n
		attached, err := link.AttachXDP(link.XDPOptions{Program: n.Program(),
			Interface: nics[host].Attrs().Index, Flags: mode})
		if err != nil {
			t.Fatal("attach the NIC program:", err)
		}
		t.Cleanup(func() { attached.Close() })
		if err := s.AddJob(job, 3); err != nil {
			t.Fatal(err)
		}
	}
	passes, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, xdpPass), asm.Return()}, License: "MIT"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { passes.Close() })
	hostOf := []int{0, 0, 1}
	for node, host := range hostOf {
		name := string(rune('a' + node))
		pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "p" + name}, PeerName: "q" + name,
			PeerNamespace: netlink.NsFd(within)}
		if err := netlink.LinkAdd(pair); err != nil {
			t.Fatal("add a veth pair:", err)
		}
		enter(within)
		inside := linkUp(t, "q"+name)
		attached, err := link.AttachXDP(link.XDPOptions{Program: passes, Interface: inside.Attrs().Index, Flags: mode})
		if err != nil {
			t.Fatal("attach a program to the inner end:", err)
		}
		t.Cleanup(func() { attached.Close() })
		inner[node] = openPacketSocket(t, inside.Attrs().Index, EtherType)
		enter(outside)
		end := linkUp(t, "p"+name)
		outer[node] = uint32(end.Attrs().Index)
		enter(within)
		awaitUp(t, inside)
		enter(outside)
		attachGuard(t, switches[host], end, mode == link.XDPGenericMode)
		if err := switches[host].AddPort(outer[node], uint32(node), Port{job, uint16(node), 7}); err != nil {
			t.Fatal(err)
		}
	}
	for host, s := range switches {
		for node, at := range hostOf {
			place := &Place{Port: outer[node], Link: uint32(node), Longest: 1514}
			if at != host {
				place = &Place{NIC: uint32(nics[host].Attrs().Index),
					Way: EthernetWay(mac(nics[at]), mac(nics[host]), 0), Longest: 1514}
			}
			if err := s.SetPlace(job, uint16(node), place); err != nil {
				t.Fatal(err)
			}
		}
	}
	kernel := []int{openPacketSocket(t, nic0.Attrs().Index, 0), openPacketSocket(t, nic1.Attrs().Index, 0)}
	arrives := func(what string, frame []byte, to int) {
		t.Helper()
		var got [][]byte
		if !await(func() bool { got = append(got, drain(inner[to])...); return len(got) > 0 }) {
			t.Fatalf("%s did not arrive at node %d; the NICs counted %+v and %+v", what, to, counters(t, programs[0]),
				counters(t, programs[1]))
		}
		whole := bytes.Clone(frame)
		clear(whole[:offsetEtherType])
		if len(got) != 1 || !bytes.Equal(got[0], whole) {
			t.Errorf("%s: got % x, want % x", what, got, whole)
		}
		for node, fd := range inner {
			if more := drain(fd); len(more) > 0 {
				t.Errorf("%s: node %d got %d frames more", what, node, len(more))
			}
		}
	}
	for _, size := range []int{FrameMin, 100, 1514} {
		for from := range uint16(3) {
			for to := range uint16(3) {
				frame := directFrame(size, from, to)
				send(t, inner[from], frame)
				arrives("a frame", frame, int(to))
			}
		}
	}
	// What is dropped arrives nowhere: the frame behind it is the next that does.
	dropped := [][]byte{
		directFrame(100, 1, 2), directFrame(100, 0, 2, putTag(9)), directFrame(100, 0, 2, version(6)),
		directFrame(100, 0, 3),
		directFrame(100, 0, 2, gid(6)), directFrame(100, 0, 2, length(90)),
		directFrame(100, 0, 2, version(VersionHello)),
	}
	for _, frame := range dropped {
		send(t, inner[0], frame)
	}
	good := directFrame(90, 0, 2)
	send(t, inner[0], good)
	arrives("the frame behind those that are dropped", good, 2)
	// A stranger on the wire, in the name of a node of the other host and of one of this.
	for _, source := range []uint16{0, 2} {
		send(t, kernel[0], directFrame(100, source, 2, func(f []byte) { copy(f[6:], []byte{2, 9, 9, 9, 9, 9}) }))
	}
	good = directFrame(91, 0, 2)
	send(t, inner[0], good)
	arrives("the frame behind a stranger's", good, 2)
	c, err := switches[0].PortCounters(outer[0])
	if err != nil || c != (PortCounters{Forged: 3, BadVersion: 2, NoNode: 1, BadLength: 1, Sent: 3 + 2, Local: 6}) {
		t.Errorf("counted %+v, %v", c, err)
	}
}
