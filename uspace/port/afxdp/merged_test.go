package afxdp

// This file tests what becomes of datagrams that the kernel merged, and of the offload that merges
// them.

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/uspace/port/encap"
	"github.com/funet/funet/xdp"
)

// setMerging has GRO of an interface merge datagrams, or not.
func setMerging(t *testing.T, l *lab.Lab, host int, iface string, on bool) {
	t.Helper()
	if err := l.Do(host, func() error {
		e, err := ethtool.NewEthtool()
		if err != nil {
			return err
		}
		defer e.Close()
		return e.Change(iface, map[string]bool{"rx-gro": true, "rx-gro-list": on})
	}); err != nil {
		t.Fatal(err)
	}
}

// Rule (Info.Why, Watch): above an interface whose GRO merges datagrams a port says so with the
// cure, when it is opened and when frames were lost; and datagrams that hold more than their frame
// are counted.
func TestMergedDatagrams(t *testing.T) {
	l := newLab(t, lab.Options{})
	local := netip.MustParseAddr("198.18.55.2")
	for host, address := range []string{"198.18.55.1/24", "198.18.55.2/24"} {
		if err := l.Do(host, func() error {
			fu0, err := netlink.LinkByName("fu0")
			if err != nil {
				return err
			}
			mv0 := &netlink.Macvlan{LinkAttrs: netlink.LinkAttrs{Name: "mv0", ParentIndex: fu0.Attrs().Index},
				Mode: netlink.MACVLAN_MODE_BRIDGE}
			if err := netlink.LinkAdd(mv0); err != nil {
				return err
			}
			a, err := netlink.ParseAddr(address)
			if err != nil {
				return err
			}
			if err := netlink.AddrAdd(mv0, a); err != nil {
				return err
			}
			return netlink.LinkSetUp(mv0)
		}); err != nil {
			t.Fatal(err)
		}
	}
	udp := &UDP{Local: local, Peers: []encap.Peer{{Card: 0, Address: netip.MustParseAddr("198.18.55.1")}}}
	cure := "ethtool -K fu0 rx-gro-list off"
	setMerging(t, l, 1, "fu0", true)
	p := open(t, l, 1, Config{Interface: "mv0", UDP: udp, Attach: xdp.AttachGeneric})
	if why := p.Info().Why; !strings.Contains(why, cure) {
		t.Errorf("with rx-gro-list below, Why is %q", why)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	setMerging(t, l, 1, "fu0", false)
	p = open(t, l, 1, Config{Interface: "mv0", UDP: udp, Attach: xdp.AttachGeneric})
	if why := p.Info().Why; strings.Contains(why, "merge") {
		t.Errorf("without rx-gro-list below, Why is %q", why)
	}
	watch := func(at time.Time) (f Finding) {
		if err := l.Do(1, func() error { f = p.Watch(at); return nil }); err != nil {
			t.Fatal(err)
		}
		return f
	}
	// What GRO makes of two frames is one datagram that says in its header that it is the first.
	two := make([]byte, 400)
	binary.BigEndian.PutUint16(two[12:], bpf.EtherType)
	two[14] = bpf.Version
	binary.LittleEndian.PutUint16(two[16:], 186)
	binary.LittleEndian.PutUint16(two[18:], group)
	two[14+186] = bpf.Version
	at, seen := time.Now(), uint64(0)
	send := func() {
		t.Helper()
		if err := l.Do(0, func() error {
			c, err := net.Dial("udp", netip.AddrPortFrom(local, encap.DefaultPort).String())
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = c.Write(two[14:])
			return err
		}); err != nil {
			t.Fatal(err)
		}
		seen++
		for end := time.Now().Add(20 * time.Second); ; {
			c, err := p.nic.Counters()
			if err != nil {
				t.Fatal(err)
			}
			if c.Merged == seen {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("the program counted %+v, want %d merged", c, seen)
			}
		}
	}
	if f := watch(at); f.Said != "" {
		t.Errorf("said %q", f.Said)
	}
	send()
	if f := watch(at.Add(time.Second)); !strings.Contains(f.Said, "merged datagrams (1 so far)") ||
		!strings.Contains(f.Said, "ethtool -k") || f.Mended || f.Reopen || p.Info().Merged != 1 {
		t.Errorf("after one merged datagram: %+v, %d", f, p.Info().Merged)
	}
	send()
	if f := watch(at.Add(2 * time.Second)); f.Said != "" || p.Info().Merged != 2 {
		t.Errorf("a second later: %+v, %d", f, p.Info().Merged)
	}
	setMerging(t, l, 1, "fu0", true) // at run time
	if f := watch(at.Add(2 * time.Minute)); !strings.Contains(f.Said, cure) {
		t.Errorf("two minutes later, with rx-gro-list below: %+v", f)
	}
}

// Rule (xdp.Mergers): all interfaces below count, through each other, and the interface itself does
// not.
func TestMergersBelow(t *testing.T) {
	l := newLab(t, lab.Options{})
	if err := l.Do(0, func() error {
		fu0, err := netlink.LinkByName("fu0")
		if err != nil {
			return err
		}
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}
		if err := netlink.LinkAdd(bridge); err != nil {
			return err
		}
		if err := netlink.LinkSetMaster(fu0, bridge); err != nil {
			return err
		}
		return netlink.LinkAdd(&netlink.Macvlan{LinkAttrs: netlink.LinkAttrs{Name: "mv0",
			ParentIndex: bridge.Attrs().Index}, Mode: netlink.MACVLAN_MODE_BRIDGE})
	}); err != nil {
		t.Fatal(err)
	}
	for _, on := range []bool{false, true} {
		setMerging(t, l, 0, "fu0", on)
		for _, c := range []struct {
			iface string
			below bool
		}{{"fu0", false}, {"br0", true}, {"mv0", true}} {
			var found []xdp.Merger
			if err := l.Do(0, func() (err error) { found, err = xdp.Mergers(c.iface); return err }); err != nil {
				t.Fatal(err)
			}
			if want := on && c.below; want != (len(found) == 1 && found[0].Name == "fu0" && found[0].Cure() ==
				"ethtool -K fu0 rx-gro-list off") || !want && len(found) != 0 {
				t.Errorf("below %s, with rx-gro-list %v: %+v", c.iface, on, found)
			}
		}
	}
}
