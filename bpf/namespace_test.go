// This file makes what the tests need from the kernel: a network namespace of the test's own, a
// pair of interfaces in it, and a thread without capabilities.

package bpf

import (
	"os"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// enterNamespace moves the test's thread into a new network namespace until the test ends. The
// namespace has no name and goes with the last thread and socket in it.
func enterNamespace(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		t.Fatal("open the network namespace of the thread:", err)
	}
	mine, err := netns.New()
	if err != nil {
		t.Fatal("make a network namespace:", err)
	}
	t.Cleanup(func() {
		mine.Close()
		if err := netns.Set(home); err != nil {
			t.Error("return to the first network namespace:", err)
			return // the thread stays locked, so it ends with the test
		}
		home.Close()
		runtime.UnlockOSThread()
	})
	// IPv6 sends frames of its own when an interface comes up; the tests count frames.
	err = os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal("switch IPv6 off:", err)
	}
}

// addVeth makes a pair of interfaces with the given number of queues and brings them up, the
// receiver first: so the sender finds its carrier on and can send at once.
func addVeth(t *testing.T, queues int) (receiver, sender netlink.Link) {
	t.Helper()
	pair := &netlink.Veth{
		LinkAttrs:        netlink.LinkAttrs{Name: "receiver", NumRxQueues: queues, NumTxQueues: queues},
		PeerName:         "sender",
		PeerNumRxQueues:  uint32(queues),
		PeerNumTxQueues:  uint32(queues),
		PeerHardwareAddr: []byte{0x02, 0, 0, 0, 0, 1},
	}
	pair.HardwareAddr = []byte{0x02, 0, 0, 0, 0, 2}
	if err := netlink.LinkAdd(pair); err != nil {
		t.Fatal("add a veth pair:", err)
	}
	return linkUp(t, "receiver"), linkUp(t, "sender")
}

func linkUp(t *testing.T, name string) netlink.Link {
	t.Helper()
	link, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatalf("find interface %s: %v", name, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		t.Fatalf("bring interface %s up: %v", name, err)
	}
	return link
}

func setMTU(t *testing.T, mtu int, links ...netlink.Link) {
	t.Helper()
	for _, l := range links {
		if err := netlink.LinkSetMTU(l, mtu); err != nil {
			t.Fatalf("set the MTU of %s to %d: %v", l.Attrs().Name, mtu, err)
		}
	}
}

// dropCapabilities takes every capability from the test's thread for good.
func dropCapabilities(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		t.Fatal("drop the capabilities of the thread:", err)
	}
}
