// This file has steering: a rule in the NIC that brings frames of a kind to one receive queue
// (ethtool's ntuple filters, "ethtool -N").

package xdp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Flow says which frames a rule steers: those of an EtherType, or UDP datagrams to a port. Exactly
// one of the two is not 0.
type Flow struct {
	EtherType uint16
	UDPPort   uint16
	IPv6      bool // of UDPPort; false: IPv4
}

func (f Flow) String() string {
	switch {
	case f.EtherType != 0:
		return fmt.Sprintf("EtherType %#x", f.EtherType)
	case f.IPv6:
		return fmt.Sprintf("UDP port %d over IPv6", f.UDPPort)
	}
	return fmt.Sprintf("UDP port %d over IPv4", f.UDPPort)
}

// Steering is a rule in a NIC.
type Steering struct {
	ifname   string
	rule     flowSpec
	location uint32
	ioctl    func(ifname string, request unsafe.Pointer) error
	closed   bool
}

// Steer makes the NIC bring frames of a flow to a receive queue, on an interface in the network
// namespace of the calling thread. A rule belongs to the NIC and survives its process. Steer takes
// over an equal rule, as one that a killed process left. It replaces a rule for the same flow and
// another queue. Errors: ErrNoInterface, ErrNotSupported (the driver has no such rules, or not of
// this flow), ErrPermission (CAP_NET_ADMIN, which taking over does not need).
func Steer(ifname string, f Flow, queue uint32) (*Steering, error) {
	if _, err := findInterface(ifname, 0); err != nil {
		return nil, err
	}
	return steer(ifname, f, queue, ethtoolIoctl)
}

// Location returns the NIC's number of the rule: "ethtool -N IF delete LOCATION" removes it.
func (s *Steering) Location() uint32 { return s.location }

// Close removes the rule, unless another rule has taken its place. It does nothing the second time.
// Without the capability it returns ErrPermission, and the rule stays until the next Steer.
func (s *Steering) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	c := classifier{s.ifname, s.ioctl}
	now, err := c.rule(s.location)
	if err != nil || !now.same(&s.rule) {
		return nil // it is gone, and so may be the interface
	}
	if err := c.delete(s.location); err != nil {
		return steerFault(fmt.Sprintf("remove rule %d of %s", s.location, s.ifname), s.ifname, err)
	}
	return nil
}

// flowSpec is struct ethtool_rx_flow_spec. rxnfc is struct ethtool_rxnfc without the numbers behind
// it (include/uapi/linux/ethtool.h).
type flowSpec struct {
	flowType   uint32
	value      [52]byte
	valueExt   [20]byte
	mask       [52]byte
	maskExt    [20]byte
	_          uint32
	ringCookie uint64
	location   uint32
	_          uint32
}

type rxnfc struct {
	cmd, flowType uint32
	data          uint64
	spec          flowSpec
	count         uint32
	first         uint32 // of the locations
}

const (
	anyLocation     = 0xffffffff // RX_CLS_LOC_ANY: the driver chooses,
	specialLocation = 1 << 31    // RX_CLS_LOC_SPECIAL: if it can
	mostRules       = 1 << 16    // that are looked at
)

func (f Flow) spec(queue uint32) flowSpec {
	s := flowSpec{flowType: unix.ETHER_FLOW, ringCookie: uint64(queue)}
	at, number := 12, f.EtherType // ethhdr.h_proto
	if f.EtherType == 0 {
		number = f.UDPPort
		if s.flowType, at = unix.UDP_V4_FLOW, 10; f.IPv6 { // ethtool_tcpip4_spec.pdst
			s.flowType, at = unix.UDP_V6_FLOW, 34 // ethtool_tcpip6_spec.pdst
		}
	}
	binary.BigEndian.PutUint16(s.value[at:], number)
	binary.BigEndian.PutUint16(s.mask[at:], 0xffff)
	return s
}

// sameFlow reports whether two rules match the same frames.
func (s *flowSpec) sameFlow(other *flowSpec) bool {
	if s.flowType != other.flowType || s.mask != other.mask {
		return false
	}
	for i, m := range s.mask {
		if (s.value[i]^other.value[i])&m != 0 {
			return false
		}
	}
	return true
}

// same reports whether two rules match the same frames and do the same with them.
func (s *flowSpec) same(other *flowSpec) bool {
	return s.sameFlow(other) && s.ringCookie == other.ringCookie
}

// classifier gives access to the rules of a NIC.
type classifier struct {
	ifname string
	ioctl  func(ifname string, request unsafe.Pointer) error
}

// steer is Steer with a function that asks the driver.
func steer(ifname string, f Flow, queue uint32, ioctl func(string, unsafe.Pointer) error) (*Steering, error) {
	doing := fmt.Sprintf("steer %s to queue %d of %s", f, queue, ifname)
	if (f.EtherType == 0) == (f.UDPPort == 0) {
		return nil, refuse(doing, "give an EtherType or a UDP port")
	}
	c := classifier{ifname, ioctl}
	s := &Steering{ifname: ifname, rule: f.spec(queue), ioctl: ioctl}
	size, special, locations, err := c.table()
	if err != nil {
		return nil, steerFault(doing, ifname, err)
	}
	taken := map[uint32]bool{}
	for _, at := range locations {
		taken[at] = true
		r, err := c.rule(at)
		switch {
		case err != nil || !r.sameFlow(&s.rule):
		case r.ringCookie == s.rule.ringCookie:
			s.location = at
			return s, nil
		default:
			if err := c.delete(at); err != nil {
				return nil, steerFault(doing, ifname, err)
			}
			delete(taken, at)
		}
	}
	s.rule.location = anyLocation
	if !special {
		// The last free one: rules of people begin at the other end, and go before.
		for s.rule.location = size; s.rule.location > 0 && taken[s.rule.location-1]; s.rule.location-- {
		}
		if s.rule.location == 0 {
			return nil, fault(doing, ErrNotSupported, unix.ENOSPC,
				fmt.Sprintf("the NIC has no room for a rule: 'ethtool -n %s' shows those it has", ifname))
		}
		s.rule.location--
	}
	if s.location, err = c.insert(s.rule); err != nil {
		return nil, steerFault(doing, ifname, err)
	}
	return s, nil
}

// table returns how many rules there may be, whether the driver can choose their places, and the
// places of the rules that exist.
func (c classifier) table() (size uint32, special bool, locations []uint32, err error) {
	ask := rxnfc{cmd: unix.ETHTOOL_GRXCLSRLCNT}
	if err := c.ioctl(c.ifname, unsafe.Pointer(&ask)); err != nil {
		return 0, false, nil, err
	}
	size, special = uint32(ask.data)&^specialLocation, ask.data&specialLocation != 0
	// The locations are behind the rest, from its last field on. There may be more by then.
	all := struct {
		rxnfc
		rest [mostRules]uint32
	}{rxnfc: rxnfc{cmd: unix.ETHTOOL_GRXCLSRLALL, count: min(ask.count+16, mostRules)}}
	n := all.count
	if err := c.ioctl(c.ifname, unsafe.Pointer(&all)); err != nil {
		return 0, false, nil, err
	}
	if n = min(n, all.count); n > 0 {
		locations = append(append(locations, all.first), all.rest[:n-1]...)
	}
	if size == 0 { // such as igb say it here
		size = uint32(all.data) &^ specialLocation
	}
	return size, special, locations, nil
}

func (c classifier) rule(at uint32) (flowSpec, error) {
	ask := rxnfc{cmd: unix.ETHTOOL_GRXCLSRULE, spec: flowSpec{location: at}}
	err := c.ioctl(c.ifname, unsafe.Pointer(&ask))
	return ask.spec, err
}

// insert inserts a rule and returns its place.
func (c classifier) insert(s flowSpec) (uint32, error) {
	ask := rxnfc{cmd: unix.ETHTOOL_SRXCLSRLINS, spec: s}
	err := c.ioctl(c.ifname, unsafe.Pointer(&ask))
	return ask.spec.location, err
}

func (c classifier) delete(at uint32) error {
	ask := rxnfc{cmd: unix.ETHTOOL_SRXCLSRLDEL, spec: flowSpec{location: at}}
	return c.ioctl(c.ifname, unsafe.Pointer(&ask))
}

// ethtoolIoctl asks the driver of an interface in the network namespace of the calling thread.
func ethtoolIoctl(ifname string, request unsafe.Pointer) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var ifreq struct { // struct ifreq
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}
	copy(ifreq.name[:unix.IFNAMSIZ-1], ifname)
	ifreq.data = request
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&ifreq))); e != 0 {
		return e
	}
	return nil
}

// steerFault gives a driver's error its sentinel and its cure.
func steerFault(doing, ifname string, err error) error {
	switch {
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EINVAL):
		return fault(doing, ErrNotSupported, err,
			fmt.Sprintf("the driver has no such rules, or they are off: 'ethtool -K %s ntuple on'", ifname))
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EBUSY):
		return fault(doing, ErrNotSupported, err,
			fmt.Sprintf("the NIC has no room for a rule: 'ethtool -n %s' shows those it has", ifname))
	}
	return sysFault(doing, err)
}
