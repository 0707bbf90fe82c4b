package encap

// This file has the path to one peer: headers that are built once, and written in front of each
// frame.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"

	"github.com/funet/funet/uspace/arctic"
)

const (
	// DefaultPort is the UDP port unless another is configured. IANA's registry has not assigned it
	// (30401 to 30831). Peers files without a port mean it on all hosts, so it must not change.
	DefaultPort = 30600
	// KubernetesPort is the port that manifests for Kubernetes name. IANA has not assigned it
	// (29170 to 29998). It lies outside the range that Kubernetes gives to services (NodePort), and
	// outside the one that Linux gives to clients (ip_local_port_range, 32768 to 60999).
	KubernetesPort = 29600
	Sources        = 16              // the number of source ports, which begin at the port itself
	MaxPort        = 1<<16 - Sources // the largest port that leaves room for its Sources

	// Room is the number of bytes that a port keeps free in front of a frame to be wrapped. The
	// longest headers fit. Frames stay as aligned as they are without Room.
	Room = 64

	ethernetSize = arctic.EthernetSize
	vlanSize     = 4
	ipv4Size     = 20
	ipv6Size     = 40
	udpSize      = 8

	etherIPv4 = 0x0800
	etherIPv6 = 0x86dd
	etherVLAN = 0x8100
	protocol  = 17 // UDP
	hops      = 64 // RFC 1700, "IP time to live parameter"
	dontFrag  = 0x4000
)

// NodePort reports whether a UDP port, or one of the Sources from it on, lies in the range from
// which Kubernetes gives ports of nodes to services. The range is 30000 to 32767 unless
// service-node-port-range says otherwise.
func NodePort(port uint16) bool { return int(port)+Sources > 30000 && port <= 32767 }

// ErrPath reports a route from which no path can be made.
var ErrPath = errors.New("no such path")

// Overhead returns the length of the IP and UDP headers for the address's family. At the same MTU,
// frames are that many bytes shorter than on Ethernet.
func Overhead(a netip.Addr) int {
	if a.Is4() {
		return ipv4Size + udpSize
	}
	return ipv6Size + udpSize
}

// Route is the route of a path.
type Route struct {
	Source, Destination netip.Addr // IP, of one family
	// Ethernet addresses of the interface and of the next hop
	From, To [6]byte
	VLAN     uint16 // number of the VLAN, if not 0
	Port     uint16 // UDP; 1 to MaxPort
	MTU      int    // bytes of the longest IP packet that arrives
}

// Path holds the headers of datagrams to a peer. It is immutable.
type Path struct {
	head    [Room + ethernetSize]byte // its last size bytes are the headers
	size    int
	udp     int    // where the UDP header starts in head
	ip      int    // where the IP header starts
	four    bool   // IPv4
	port    uint16 // the first source port
	longest int    // bytes of a frame
	ipSum   uint64 // of the IPv4 header without its length
	// of pseudo-header and ports, without lengths, and with the first source port
	udpSum uint64
	peer   origin
}

// origin is the source of datagrams: an IP address, with IPv4 mapped into IPv6.
type origin struct{ high, low uint64 }

func originOf(a netip.Addr) origin {
	b := a.As16()
	return origin{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

// mapped is the prefix of IPv4 addresses (RFC 4291 2.5.5.2), as part of origin.low.
const mapped = 0xffff << 32

// NewPath builds the headers. Errors wrap ErrPath.
func NewPath(r Route) (*Path, error) {
	bad := func(format string, args ...any) (*Path, error) {
		return nil, fmt.Errorf("%w: %s", ErrPath, fmt.Sprintf(format, args...))
	}
	source, to := r.Source, r.Destination
	switch {
	case !source.IsValid() || !to.IsValid() || source.Is4() != to.Is4() || source.Is4In6() || to.Is4In6():
		return bad("from %v to %v; both are IPv4 or both IPv6", source, to)
	case r.Port == 0 || r.Port > MaxPort:
		return bad("UDP port %d; use 1 to %d", r.Port, MaxPort)
	case r.VLAN > 4094:
		return bad("VLAN %d; use 0 to 4094", r.VLAN)
	}
	p := &Path{four: to.Is4(), port: r.Port, peer: originOf(to)}
	p.longest = ethernetSize + min(r.MTU, math.MaxUint16) - Overhead(to)
	b := append(r.To[:], r.From[:]...)
	if r.VLAN != 0 {
		b = binary.BigEndian.AppendUint16(b, etherVLAN)
		b = binary.BigEndian.AppendUint16(b, r.VLAN)
	}
	var addresses []byte
	ip := 0
	if p.four {
		b = binary.BigEndian.AppendUint16(b, etherIPv4)
		ip = len(b)
		b = append(b, 0x45, 0, 0, 0, 0, 0, dontFrag>>8, 0, hops, protocol, 0, 0)
	} else {
		b = binary.BigEndian.AppendUint16(b, etherIPv6)
		ip = len(b)
		b = append(b, 0x60, 0, 0, 0, 0, 0, protocol, hops)
	}
	addresses = append(source.AsSlice(), to.AsSlice()...)
	b = append(b, addresses...)
	p.ipSum = sum(0, b[ip:])
	udp := len(b)
	b = binary.BigEndian.AppendUint16(b, 0) // Wrap's
	b = binary.BigEndian.AppendUint16(b, r.Port)
	b = append(b, 0, 0, 0, 0)
	// The pseudo-header has the protocol and the length in words of their own (RFC 768; RFC 8200
	// 8.1).
	p.udpSum = sum(sum(network(protocol), addresses), b[udp:])
	p.size = len(b)
	before := len(p.head) - p.size
	copy(p.head[before:], b)
	p.ip, p.udp = before+ip, before+udp
	return p, nil
}

// Headers returns the path's headers, and the sums of their constant parts: of an IPv4 header, and
// of pseudo-header and UDP header. Sums are 16 bits as they lie in memory. The writer of a header
// fills in what depends on the frame.
func (p *Path) Headers() (head []byte, ip, udp [2]byte) {
	binary.LittleEndian.PutUint16(ip[:], fold(p.ipSum))
	binary.LittleEndian.PutUint16(udp[:], fold(p.udpSum))
	return p.head[len(p.head)-p.size:], ip, udp
}

// PutSum sums the bytes behind a frame's Ethernet header and writes the sum to the frame's first
// two bytes. A program that cannot read the whole frame makes a datagram of it with this sum.
func PutSum(frame []byte) { binary.LittleEndian.PutUint16(frame, fold(sum(0, frame[ethernetSize:]))) }

// Longest returns the length in bytes of the longest frame that the path takes.
func (p *Path) Longest() int { return p.longest }

// Wrap makes a datagram, b[start:end], of the frame of n bytes that starts at b[Room]; there b has
// at least arctic.HeaderSize bytes. It overwrites what was in front of the frame, and its Ethernet
// header. If the frame is longer than the path takes, Wrap does nothing and returns ok as false.
func (p *Path) Wrap(b []byte, n int) (start, end int, ok bool) {
	if n > p.longest {
		return 0, 0, false
	}
	end = Room + n
	source := p.port + sourceOf(b[Room:])
	b = b[:end]
	*(*[len(p.head)]byte)(b) = p.head
	length := uint16(udpSize + n - ethernetSize) // longest is such that it fits
	if p.four {
		total := length + ipv4Size
		binary.BigEndian.PutUint16(b[p.ip+2:], total)
		binary.LittleEndian.PutUint16(b[p.ip+10:], ^fold(p.ipSum+network(total)))
	} else {
		binary.BigEndian.PutUint16(b[p.ip+4:], length)
	}
	binary.BigEndian.PutUint16(b[p.udp:], source)
	binary.BigEndian.PutUint16(b[p.udp+4:], length)
	s := ^fold(sum(p.udpSum+network(source)+2*network(length), b[Room+ethernetSize:]))
	if s == 0 {
		s = 0xffff // 0 would say that there is none
	}
	binary.LittleEndian.PutUint16(b[p.udp+6:], s)
	return len(p.head) - p.size, end, true
}

// Offsets in a frame (package arctic).
const (
	versionOffset     = 14
	flagsOffset       = 15
	cardsOffset       = 24 // source and destination, two bytes each
	sourceCardOffset  = 24
	destinationOffset = 26
	levelBit          = 1

	hello = 255 // version of hellos (package uspace/port/hello)
)

// sourceOf returns how far a frame's source port is above the first. It multiplies the two cards
// and the level by the golden ratio (Knuth, volume 3, 6.4) and takes the upper bits. A hello states
// its way itself, so that several hellos reach the other end by different queues.
func sourceOf(frame []byte) uint16 {
	if frame[versionOffset] == hello {
		return uint16(frame[flagsOffset] & (Sources - 1))
	}
	flow := uint64(binary.LittleEndian.Uint32(frame[cardsOffset:]))<<1 | uint64(frame[flagsOffset]&levelBit)
	return uint16(flow * 0x9e3779b97f4a7c15 >> (64 - 4))
}
