// What kinds of link there are to XDP, from what the kernel says about them.

package xdp

import (
	"errors"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Rule: a bond is not for native mode, its slaves are, and tell of it; what carries nothing, or has
// nobody at the other end, says so. An ordinary link has no remark.
func TestKindOf(t *testing.T) {
	attrs := func(flags uint32) netlink.LinkAttrs { return netlink.LinkAttrs{Name: "eth0", RawFlags: flags} }
	const up = unix.IFF_UP | unix.IFF_LOWER_UP
	slave := attrs(up)
	slave.Slave = &netlink.BondSlave{}
	port := attrs(up)
	port.Slave = &netlink.VrfSlave{}
	for _, c := range []struct {
		l      netlink.Link
		native error
		says   string
	}{
		{&netlink.Device{LinkAttrs: attrs(up)}, nil, ""},
		{&netlink.Veth{LinkAttrs: attrs(up)}, nil, ""},
		{&netlink.Bond{LinkAttrs: attrs(up)}, errBond, ""},
		{&netlink.Device{LinkAttrs: slave}, nil, "use the bond"},
		{&netlink.Device{LinkAttrs: port}, nil, ""},
		{&netlink.Dummy{LinkAttrs: attrs(up)}, nil, "carries nothing"},
		{&netlink.IPVlan{LinkAttrs: attrs(up)}, nil, "IP alone"},
		{&netlink.Tuntap{LinkAttrs: attrs(unix.IFF_UP)}, nil, "eth0 has no carrier"},
		{&netlink.Device{LinkAttrs: attrs(0)}, nil, ""}, // down, which Open tells
	} {
		k := kindOf(c.l)
		if k.Name != c.l.Type() || k.Native != c.native || !strings.Contains(k.Remark, c.says) ||
			(c.says == "") != (k.Remark == "") {
			t.Errorf("%s: %+v; want %v and %q", c.l.Type(), k, c.native, c.says)
		}
	}
}

// Rule: where native mode must not be used it is not tried, and the refusal says what to do.
func TestAttachKeepsToKind(t *testing.T) {
	a := &Attachment{ifindex: 1, noNative: errBond}
	err := a.attach(nil, AttachNative)
	if !errors.Is(err, errBond) || hopeless(err) {
		t.Fatalf("%v", err)
	}
	wantError(t, attachFault("attach", err), ErrNotSupported)
	if says := "attach generic, or native to each slave"; !strings.HasSuffix(attachFault("attach", err).Error(), says) {
		t.Errorf("%v; want %q", err, says)
	}
}

func TestKindOfVeth(t *testing.T) {
	l := newLab(t, labOptions{})
	l.in(0, func() {
		if k, err := KindOf(labInterface); k != (Kind{Name: "veth"}) || err != nil {
			t.Errorf("%+v, %v", k, err)
		}
		_, err := KindOf("nosuch0")
		wantError(t, err, ErrNoInterface)
	})
	if c := l.probe(0); c.Kind.Name != "veth" {
		t.Errorf("Probe: %+v", c.Kind)
	}
}
