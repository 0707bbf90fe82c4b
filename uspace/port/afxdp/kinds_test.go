package afxdp

// This file opens ports on every kind of link that the kernel has, and says what it could not make.

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/xdp"
)

// upper makes a link over fu0 and sets it up.
func upper(l netlink.Link) error {
	below, err := netlink.LinkByName("fu0")
	if err != nil {
		return err
	}
	if l.Type() != "bridge" {
		l.Attrs().ParentIndex = below.Attrs().Index
	}
	if err := netlink.LinkAdd(l); err != nil {
		return err
	}
	if l.Type() == "bridge" {
		if err := netlink.LinkSetMaster(below, l); err != nil {
			return err
		}
	}
	return netlink.LinkSetUp(l)
}

// enslave makes a bond of links, which go down for it and up with it.
func enslave(names ...string) error {
	b := netlink.NewLinkBond(named("k0"))
	b.Mode, b.Miimon = netlink.BOND_MODE_ACTIVE_BACKUP, 10
	if err := netlink.LinkAdd(b); err != nil {
		return err
	}
	for _, name := range names {
		s, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if err := errors.Join(netlink.LinkSetDown(s), netlink.LinkSetMaster(s, b), netlink.LinkSetUp(s)); err != nil {
			return err
		}
	}
	return netlink.LinkSetUp(b)
}

func named(name string) netlink.LinkAttrs {
	a := netlink.NewLinkAttrs()
	a.Name = name
	return a
}

// vlan is VLAN 5 on fu0.
func vlan() error { return upper(&netlink.Vlan{LinkAttrs: named("k0"), VlanId: 5}) }

// Rule: every kind of link gets a mode that delivers there, or is refused; a bond is never attached
// to natively, and what carries nothing says so. Where a link carries frames, they cross in both
// directions.
func TestKinds(t *testing.T) {
	const native, generic = xdp.AttachNative, xdp.AttachGeneric
	for _, c := range []struct {
		kind    string
		build   func() error // k0, or what is opened, on host 0
		opened  string
		peer    func() error // k0 on host 1; nil: fu0
		mode    xdp.AttachMode
		why     string // Info.Why, or the refusal
		carries bool
		refused bool
	}{
		{kind: "bridge", build: func() error { return upper(&netlink.Bridge{LinkAttrs: named("k0")}) }, mode: generic,
			why: "no native mode (operation not supported)", carries: true},
		{kind: "port of a bridge", build: func() error { return upper(&netlink.Bridge{LinkAttrs: named("k0")}) },
			opened: "fu0", mode: generic, why: "faster", carries: true},
		{kind: "macvlan", build: func() error {
			return upper(&netlink.Macvlan{LinkAttrs: named("k0"), Mode: netlink.MACVLAN_MODE_BRIDGE})
		}, mode: generic, why: "no native mode (operation not supported)", carries: true},
		{kind: "vlan", build: vlan, peer: vlan, mode: generic, why: "no native mode (operation not supported)",
			carries: true},
		{kind: "bond", build: func() error { return enslave("fu0") }, mode: generic,
			why: "runs a native program on its slaves", carries: true},
		{kind: "slave of a bond", build: func() error { return enslave("fu0") }, opened: "fu0", mode: generic,
			why: "use the bond", carries: true},
		{kind: "dummy", build: func() error { return upper(&netlink.Dummy{LinkAttrs: named("k0")}) }, mode: generic,
			why: "carries nothing"},
		{kind: "ipvlan", build: func() error {
			return upper(&netlink.IPVlan{LinkAttrs: named("k0"), Mode: netlink.IPVLAN_MODE_L2})
		}, mode: generic, why: "IP alone"},
		{kind: "tap with nobody on it", build: func() error {
			return upper(&netlink.Tuntap{LinkAttrs: named("k0"), Mode: netlink.TUNTAP_MODE_TAP})
		}, mode: native, why: "k0 has no carrier"},
		{kind: "tun", build: func() error {
			return upper(&netlink.Tuntap{LinkAttrs: named("k0"), Mode: netlink.TUNTAP_MODE_TUN})
		}, why: "no Ethernet address", refused: true},
		{kind: "lo", build: func() error { return nil }, opened: "lo", why: "no Ethernet address", refused: true},
	} {
		t.Run(c.kind, func(t *testing.T) {
			l := newLab(t, lab.Options{})
			mine, other := "k0", "fu0"
			if c.opened != "" {
				mine = c.opened
			}
			err := l.Do(0, c.build)
			if err == nil && c.peer != nil {
				other = "k0"
				err = l.Do(1, c.peer)
			}
			if errors.Is(err, unix.EOPNOTSUPP) {
				t.Logf("NOT TRIED: this kernel has no such links: %v", err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.refused {
				p, err := tryOpen(l, 0, Config{Interface: mine})
				if err == nil {
					t.Fatalf("opened as %+v, %v", p.Info(), p.Close())
				}
				if !strings.Contains(err.Error(), c.why) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%v; want %q", err, c.why)
				}
				return
			}
			p := open(t, l, 0, Config{Interface: mine})
			i := p.Info()
			t.Logf("%s, %s: %s", i.XDPMode, i.BindMode, i.Why)
			if i.XDPMode != c.mode || i.BindMode != xdp.BindCopy || !strings.Contains(i.Why, c.why) {
				t.Errorf("%+v; want %s and %q", i, c.mode, c.why)
			}
			if c.carries {
				q := open(t, l, 1, Config{Interface: other})
				connected(t, p, q)
				exchange(t, p, q, []int{80, 1000, 1400}, 3)
				exchange(t, q, p, []int{80, 1000, 1400}, 3)
			}
		})
	}
}

// connected sends frames from each end until both have got one and nothing is under way any more: a
// bridge and a bond take a moment until they pass something.
func connected(t *testing.T, ends ...*Port) {
	t.Helper()
	lent := make([][]byte, maxLent)
	for deadline := time.Now().Add(patience); ; {
		heard := 0
		for i, p := range ends {
			q := ends[1-i]
			send(t, p, q, 1, 80)
			p.Flush()
		}
		pause := time.Now().Add(20 * time.Millisecond)
		for _, p := range ends {
			got := false
			for time.Now().Before(pause) || p.Ready() {
				got = p.Receive(lent) > 0 || got
				p.Release()
			}
			if got {
				heard++
			}
		}
		if heard == len(ends) {
			for _, p := range ends {
				settled(t, p)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v no frame passes in both directions", patience)
		}
	}
}

// Rule: a tap with somebody on it carries frames like any other link, in native mode.
func TestTap(t *testing.T) {
	l := newLab(t, lab.Options{})
	tap := &netlink.Tuntap{LinkAttrs: named("k0"), Mode: netlink.TUNTAP_MODE_TAP, Queues: 1,
		Flags: netlink.TUNTAP_NO_PI, NonPersist: true}
	if err := l.Do(0, func() error {
		if err := netlink.LinkAdd(tap); err != nil {
			return err
		}
		return netlink.LinkSetUp(tap)
	}); err != nil {
		t.Fatal(err)
	}
	wire := tap.Fds[0]
	defer wire.Close()
	p := open(t, l, 0, Config{Interface: "k0"})
	if i := p.Info(); i.XDPMode != xdp.AttachNative || strings.Contains(i.Why, "carrier") {
		t.Errorf("%+v", i)
	}
	for n := range uint32(100) {
		send(t, p, p, n, 200)
		p.Flush()
		frame := nextFrame(t, wire)
		if _, err := wire.Write(frame); err != nil {
			t.Fatal(err)
		}
		if got := receive(t, p, 1, 1)[0]; !bytes.Equal(got, frame) {
			t.Fatalf("frame %d: %d bytes came back as %d, or not the same", n, len(frame), len(got))
		}
	}
}

// nextFrame is the next frame of FUNet's that the kernel put on a tap.
func nextFrame(t *testing.T, wire *os.File) []byte {
	t.Helper()
	frame := make([]byte, 4096)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		n, err := wire.Read(frame)
		if err != nil && !errors.Is(err, unix.EAGAIN) {
			t.Fatal(err)
		}
		if n >= bpf.FrameMin && frame[12] == bpf.EtherType>>8 && frame[13] == bpf.EtherType&0xff {
			return frame[:n]
		}
	}
	t.Fatalf("nothing was sent within %v", patience)
	return nil
}

// Rule: a port on a bond follows it to another slave: with generic mode frames pass again when the
// active slave has lost its link, in both directions, without anybody doing anything.
func TestBondFailsOver(t *testing.T) {
	l := newLab(t, lab.Options{})
	var far netns.NsHandle
	if err := l.Do(1, func() (err error) { far, err = netns.Get(); return err }); err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	// Host 0 has slaves s0 and s1, host 1 their ends in a bridge.
	err := l.Do(0, func() error {
		for i := range 2 {
			v := &netlink.Veth{LinkAttrs: named(fmt.Sprint("s", i)), PeerName: fmt.Sprint("s", i),
				PeerNamespace: netlink.NsFd(far)}
			if err := netlink.LinkAdd(v); err != nil {
				return err
			}
		}
		return enslave("s0", "s1")
	})
	if errors.Is(err, unix.EOPNOTSUPP) {
		t.Logf("NOT TRIED: this kernel has no bonds: %v", err)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Do(1, func() error {
		b := &netlink.Bridge{LinkAttrs: named("k0")}
		if err := netlink.LinkAdd(b); err != nil {
			return err
		}
		for i := range 2 {
			s, err := netlink.LinkByName(fmt.Sprint("s", i))
			if err != nil {
				return err
			}
			if err := errors.Join(netlink.LinkSetMaster(s, b), netlink.LinkSetUp(s)); err != nil {
				return err
			}
		}
		return netlink.LinkSetUp(b)
	}); err != nil {
		t.Fatal(err)
	}
	p, q := open(t, l, 0, Config{Interface: "k0"}), open(t, l, 1, Config{Interface: "k0"})
	for _, down := range []string{"", "s0", "s1"} {
		if err := l.Do(1, func() error {
			for _, name := range []string{"s0", "s1"} {
				s, err := netlink.LinkByName(name)
				if err == nil && name == down {
					err = netlink.LinkSetDown(s)
				} else if err == nil {
					err = netlink.LinkSetUp(s)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		connected(t, p, q)
		exchange(t, p, q, mixture(p, 200), 20)
		exchange(t, q, p, mixture(q, 200), 20)
	}
}
