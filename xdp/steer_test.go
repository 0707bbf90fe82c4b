package xdp

// This file tests rules that steer, against a table in memory that answers as the kernel's, byte
// for byte, and the refusal of a driver that has none.

import (
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// nicTable is the rules of a NIC that does not exist.
type nicTable struct {
	size    uint32
	special bool // it chooses the location
	late    bool // it says how many there may be with the list alone, as igb does
	rules   map[uint32][168]byte
	denied  bool // changes are
	unknown bool // flows
	asked   []uint32
}

// ioctl answers as ethtool_get_rxnfc and ethtool_set_rxnfc of the kernel do.
func (n *nicTable) ioctl(_ string, request unsafe.Pointer) error {
	b := unsafe.Slice((*byte)(request), 192)
	word := func(at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }
	put := func(at int, v uint32) { binary.NativeEndian.PutUint32(b[at:], v) }
	location := word(16 + 160)
	cmd := word(0)
	n.asked = append(n.asked, cmd)
	switch cmd {
	case 0x2e: // ETHTOOL_GRXCLSRLCNT
		data := uint64(n.size)
		if n.late {
			data = 0
		}
		if n.special {
			data |= 1 << 31
		}
		binary.NativeEndian.PutUint64(b[8:], data)
		put(184, uint32(len(n.rules)))
	case 0x30: // ETHTOOL_GRXCLSRLALL
		room := word(184)
		if int(room) < len(n.rules) {
			return unix.EMSGSIZE
		}
		all := unsafe.Slice((*byte)(unsafe.Add(request, 188)), 4*room)
		var at []uint32
		for l := range n.rules {
			at = append(at, l)
		}
		slices.Sort(at)
		for i, l := range at {
			binary.NativeEndian.PutUint32(all[4*i:], l)
		}
		put(184, uint32(len(at)))
		binary.NativeEndian.PutUint64(b[8:], uint64(n.size))
	case 0x2f: // ETHTOOL_GRXCLSRULE
		r, ok := n.rules[location]
		if !ok {
			return unix.EINVAL
		}
		copy(b[16:], r[:])
	case 0x32: // ETHTOOL_SRXCLSRLINS
		switch {
		case n.denied:
			return unix.EPERM
		case n.unknown:
			return unix.EOPNOTSUPP
		case location == 0xffffffff && !n.special, location != 0xffffffff && location >= n.size:
			return unix.EINVAL
		case location == 0xffffffff:
			for location = 0; ; location++ {
				if _, ok := n.rules[location]; !ok {
					break
				}
			}
			if location >= n.size {
				return unix.ENOSPC
			}
			put(16+160, location)
		}
		n.rules[location] = [168]byte(b[16:])
	case 0x31: // ETHTOOL_SRXCLSRLDEL
		if n.denied {
			return unix.EPERM
		}
		if _, ok := n.rules[location]; !ok {
			return unix.ENOENT
		}
		delete(n.rules, location)
	default:
		return unix.EOPNOTSUPP
	}
	return nil
}

var flows = []Flow{{EtherType: 0x88b5}, {UDPPort: 30600}, {UDPPort: 30600, IPv6: true}, {UDPPort: 30601}}

// Rule (include/uapi/linux/ethtool.h): what is asked of the kernel has its layout.
func TestSteeringLayout(t *testing.T) {
	var r rxnfc
	var s flowSpec
	for what, c := range map[string][2]uintptr{
		"ethtool_rxnfc": {unsafe.Sizeof(r), 192}, "data": {unsafe.Offsetof(r.data), 8},
		"fs":       {unsafe.Offsetof(r.spec), 16},
		"rule_cnt": {unsafe.Offsetof(r.count), 184}, "rule_locs": {unsafe.Offsetof(r.first), 188},
		"flow_spec": {unsafe.Sizeof(s), 168},
		"h_u":       {unsafe.Offsetof(s.value), 4}, "h_ext": {unsafe.Offsetof(s.valueExt), 56},
		"m_u": {unsafe.Offsetof(s.mask), 76}, "m_ext": {unsafe.Offsetof(s.maskExt), 128},
		"ring_cookie": {unsafe.Offsetof(s.ringCookie), 152}, "location": {unsafe.Offsetof(s.location), 160},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: %d, want %d", what, c[0], c[1])
		}
	}
	for f, want := range map[Flow]struct {
		kind uint32
		at   int
		v    uint16
	}{flows[0]: {0x12, 12, 0x88b5}, flows[1]: {2, 10, 30600}, flows[2]: {6, 34, 30600}} {
		s := f.spec(3)
		value, mask := s.value, s.mask
		if s.flowType != want.kind || s.ringCookie != 3 || binary.BigEndian.Uint16(value[want.at:]) != want.v ||
			binary.BigEndian.Uint16(mask[want.at:]) != 0xffff {
			t.Errorf("%s: %+v", f, s)
		}
		clear(value[want.at:][:2])
		clear(mask[want.at:][:2])
		if value != [52]byte{} || mask != [52]byte{} {
			t.Errorf("%s: more is asked: %+v", f, s)
		}
	}
}

// Rule: whatever rules there are, Steer leaves one for its flow, to its queue, and all others as
// they are. Of the rules that a killed process may leave for the flow, the same is taken over, and
// one to another queue is replaced. Close removes the rule unless somebody has changed it.
func TestSteer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := &nicTable{size: rapid.Uint32Range(1, 8).Draw(t, "size"), special: rapid.Bool().Draw(t, "special"),
			late: rapid.Bool().Draw(t, "late"), rules: map[uint32][168]byte{}}
		mine := rapid.SampledFrom(flows).Draw(t, "flow")
		queue := rapid.Uint32Range(0, 3).Draw(t, "queue")
		others := map[uint32][168]byte{}
		left := -1
		for at := range n.size {
			switch rapid.IntRange(0, 2).Draw(t, "there") {
			case 0:
				f := rapid.SampledFrom(flows).Draw(t, "other")
				if f == mine && left >= 0 {
					continue
				}
				s := f.spec(rapid.Uint32Range(0, 3).Draw(t, "other queue"))
				s.location = at
				n.rules[at] = *(*[168]byte)(unsafe.Pointer(&s))
				if f == mine {
					left = int(at)
				} else {
					others[at] = n.rules[at]
				}
			case 1: // of a person, and narrower
				s := mine.spec(queue)
				s.mask[0], s.value[0], s.location = 0xff, 9, at
				n.rules[at] = *(*[168]byte)(unsafe.Pointer(&s))
				others[at] = n.rules[at]
			}
		}
		full := len(n.rules) == int(n.size) && left < 0
		s, err := steer("eth0", mine, queue, n.ioctl)
		if full {
			if !errors.Is(err, ErrNotSupported) || !strings.Contains(err.Error(), "no room") {
				t.Fatalf("a full table: %v", err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		got, ok := n.rules[s.Location()]
		r := (*flowSpec)(unsafe.Pointer(&got))
		want := mine.spec(queue)
		if !ok || !r.same(&want) || len(n.rules) != len(others)+1 {
			t.Fatalf("rule %d is %+v of %d", s.Location(), r, len(n.rules))
		}
		for at, o := range others {
			if n.rules[at] != o {
				t.Fatalf("rule %d of somebody else has changed", at)
			}
		}
		again, err := steer("eth0", mine, queue, n.ioctl) // as after kill -9
		if err != nil || again.Location() != s.Location() || len(n.rules) != len(others)+1 {
			t.Fatalf("taken over as %+v, %v", again, err)
		}
		changed := rapid.Bool().Draw(t, "changed")
		if changed {
			o := mine.spec(queue + 1)
			n.rules[s.Location()] = *(*[168]byte)(unsafe.Pointer(&o))
		}
		for range 2 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if _, there := n.rules[s.Location()]; there != changed {
			t.Fatalf("after Close the rule is there: %v, changed by another: %v", there, changed)
		}
	})
}

// Rule: refusals are named, and need no capability to be taken over.
func TestSteerRefused(t *testing.T) {
	n := &nicTable{size: 4, rules: map[uint32][168]byte{}, unknown: true}
	if _, err := steer("eth0", flows[0], 1, n.ioctl); !errors.Is(err, ErrNotSupported) ||
		!strings.Contains(err.Error(), "'ethtool -K eth0 ntuple on'") {
		t.Errorf("a flow that the driver does not know: %v", err)
	}
	n.unknown, n.denied = false, true
	if _, err := steer("eth0", flows[0], 1, n.ioctl); !errors.Is(err, ErrPermission) {
		t.Errorf("without the capability: %v", err)
	}
	n.denied = false
	s, err := steer("eth0", flows[0], 1, n.ioctl)
	if err != nil {
		t.Fatal(err)
	}
	n.denied = true
	if again, err := steer("eth0", flows[0], 1, n.ioctl); err != nil || again.Location() != s.Location() {
		t.Errorf("taken over without the capability: %v", err)
	}
	if err := s.Close(); !errors.Is(err, ErrPermission) {
		t.Errorf("removed without the capability: %v", err)
	}
	for _, f := range []Flow{{}, {EtherType: 1, UDPPort: 1}} {
		if _, err := steer("eth0", f, 1, n.ioctl); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

// Rule: a driver without such rules, as veth's, refuses, and says what might help.
func TestSteerOnVeth(t *testing.T) {
	l := newLab(t, labOptions{queues: 2})
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err = netns.Set(l.ns[0]); err == nil {
			_, err = Steer(labInterface, flows[0], 1)
		}
	}()
	<-done
	wantError(t, err, ErrNotSupported)
	if _, err := Steer("nosuch0", flows[0], 1); !errors.Is(err, ErrNoInterface) {
		t.Error(err)
	}
}
