package probe

// This file makes the two sockets of either side: one for frames of the EtherType, and one for UDP,
// both bound to one interface.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/uspace/port/hello"
	"github.com/funet/funet/xdp"
)

const ethernetSize = 14

type sockets struct {
	ifc    *net.Interface
	frames *os.File // AF_PACKET
	udp    *net.UDPConn
	kernel *netlink.Handle // for the namespace of the sockets, from any thread
}

// networkOrder converts a 16-bit number to network byte order, as the kernel's sockets want it.
func networkOrder(v uint16) uint16 {
	b := [2]byte{byte(v >> 8), byte(v)}
	return *(*uint16)(unsafe.Pointer(&b))
}

// open makes the sockets. With port 0 the UDP socket gets any free port.
func open(name string, port uint16) (_ *sockets, err error) {
	ifc, err := xdp.Find(name)
	if err != nil {
		return nil, fmt.Errorf("opening interface %s: %w; `ip link` lists those there are", name, err)
	}
	if len(ifc.HardwareAddr) != 6 {
		return nil, fmt.Errorf("opening interface %s: it has no Ethernet address; use an Ethernet interface", name)
	}
	s := &sockets{ifc: ifc}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.kernel, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return nil, fmt.Errorf("opening interface %s: %w", name, err)
	}
	if s.frames, err = openFrames(ifc.Index); err != nil {
		if errors.Is(err, unix.EPERM) {
			err = fmt.Errorf("%w; run as root or with CAP_NET_RAW", err)
		}
		return nil, fmt.Errorf("opening a packet socket on %s: %w", name, err)
	}
	if s.udp, err = openUDP(name, port); err != nil {
		return nil, fmt.Errorf("opening UDP port %d on %s: %w; choose another port", port, name, err)
	}
	return s, nil
}

// openFrames opens a packet socket that gets probes and hellos and no other frames of the
// EtherType. A card that runs in generic mode would bring many others.
func openFrames(index int) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: ethernetSize}, // the version
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: bpf.VersionProbe, Jt: 1},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: bpf.VersionHello, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 1<<18 - 1},
		{Code: unix.BPF_RET | unix.BPF_K},
	}
	err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: networkOrder(bpf.EtherType), Ifindex: index})
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "packet socket"), nil
}

// openUDP opens a socket that sends and receives on the interface only, and fragments nothing.
func openUDP(name string, port uint16) (*net.UDPConn, error) {
	lc := net.ListenConfig{Control: func(network, _ string, c syscall.RawConn) error {
		var err error
		set := func(fd uintptr) {
			if err = unix.BindToDevice(int(fd), name); err != nil {
				return
			}
			// Where one family lacks on the host its option is refused, and not needed.
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE)
		}
		return errors.Join(c.Control(set), err)
	}}
	c, err := lc.ListenPacket(context.Background(), "udp", fmt.Sprintf(":%d", port))
	if err != nil {
		return nil, err
	}
	return c.(*net.UDPConn), nil
}

func (s *sockets) close() {
	if s.frames != nil {
		_ = s.frames.Close()
	}
	if s.udp != nil {
		_ = s.udp.Close()
	}
	if s.kernel != nil {
		s.kernel.Close()
	}
}

// mtu returns the interface's current MTU in bytes.
func (s *sockets) mtu() int {
	if l, err := s.kernel.LinkByIndex(s.ifc.Index); err == nil {
		return l.Attrs().MTU
	}
	return s.ifc.MTU
}

// prefixes returns the addresses of the interface, with their subnets.
func (s *sockets) prefixes() (list []netip.Prefix) {
	l, err := s.kernel.LinkByIndex(s.ifc.Index)
	if err != nil {
		return nil
	}
	all, err := s.kernel.AddrList(l, netlink.FAMILY_ALL)
	if err != nil {
		return nil
	}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.IPNet.String()); err == nil {
			list = append(list, p)
		}
	}
	return list
}

// full returns the length in bytes of a message that fills the MTU.
func (s *sockets) full(c Carrier, to netip.Addr) int {
	mtu := s.mtu()
	switch {
	case c == Ethernet:
		return mtu
	case to.Is4() || to.Is4In6():
		return mtu - 28 // RFC 791, RFC 768
	}
	return mtu - 48 // RFC 8200
}

// sendFrame sends a message by Ethernet. A frame that the interface refuses counts as lost.
func (s *sockets) sendFrame(to []byte, message []byte) {
	b := make([]byte, 0, ethernetSize+len(message))
	b = append(append(b, to...), s.ifc.HardwareAddr...)
	b = append(b, byte(bpf.EtherType>>8), byte(bpf.EtherType&0xff))
	_, _ = s.frames.Write(append(b, message...))
}

// sendHello sends a hello. size is in bytes from the Ethernet header on, at least hello.Size.
func (s *sockets) sendHello(to [6]byte, m *hello.Message, size int) {
	b := make([]byte, max(size, hello.Size))
	m.Put(b, to, [6]byte(s.ifc.HardwareAddr))
	_, _ = s.frames.Write(b)
}

func (s *sockets) sendUDP(to netip.AddrPort, message []byte) {
	_, _ = s.udp.WriteToUDPAddrPort(message, to)
}

type arrival struct {
	message
	by   Carrier
	size int            // bytes
	mac  [6]byte        // of the sender, if by Ethernet
	from netip.AddrPort // the sender, if by UDP
	// hello is a hello that arrived instead of a message, sent by mac; nil: a message arrived.
	hello *hello.Message
	at    time.Time
}

// receive passes on the arrivals of both carriers until the sockets are closed.
func (s *sockets) receive(to chan<- arrival, done <-chan struct{}) {
	pass := func(a arrival) bool {
		select {
		case to <- a:
			return true
		case <-done:
			return false
		}
	}
	go func() {
		b := make([]byte, 1<<16)
		for {
			n, err := s.frames.Read(b)
			if errors.Is(err, unix.ENETDOWN) {
				continue // said once for each time that the interface goes down
			}
			if err != nil {
				return
			}
			if n < ethernetSize {
				continue
			}
			if m, from, err := hello.Parse(b[:n]); err == nil {
				if !pass(arrival{hello: &m, mac: from, at: time.Now()}) {
					return
				}
				continue
			}
			m, err := decode(b[ethernetSize:n])
			if err == nil && !pass(arrival{message: m, by: Ethernet, size: n - ethernetSize, mac: [6]byte(b[6:12])}) {
				return
			}
		}
	}()
	go func() {
		b := make([]byte, 1<<16)
		for {
			n, from, err := s.udp.ReadFromUDPAddrPort(b)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				continue // an ICMP message about what was sent before
			}
			m, err := decode(b[:n])
			from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
			if err == nil && !pass(arrival{message: m, by: UDP, size: n, from: from}) {
				return
			}
		}
	}()
}
