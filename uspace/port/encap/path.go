package encap

// This file is the way to one peer: headers that are built once, and written in front of each
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
	// DefaultPort is the UDP port where nobody has said another: one that IANA's registry has not
	// assigned (30401 to 30831). Peers files that name no port mean it, on all hosts, so it stays.
	DefaultPort = 30600
	// KubernetesPort is the port that manifests for Kubernetes name: IANA has not assigned it
	// (29170 to 29998), and it lies outside of what Kubernetes gives to services (NodePort) and of
	// what Linux gives to clients (ip_local_port_range, 32768 to 60999).
	KubernetesPort = 29600
	// Sources is how many source ports there are: from the port itself on.
	Sources = 16
	// MaxPort is the greatest port that leaves room for its Sources.
	MaxPort = 1<<16 - Sources

	// Room is how many bytes a port keeps free in front of a frame that is to be wrapped, at least
	// as many as the longest headers need. It keeps frames as aligned as they are without.
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

// NodePort reports whether a UDP port, or one of the Sources from it on, lies where Kubernetes
// gives ports of nodes to services, unless it is told another range (service-node-port-range: 30000
// to 32767).
func NodePort(port uint16) bool { return int(port)+Sources > 30000 && port <= 32767 }

// ErrPath is wrapped when a path cannot be.
var ErrPath = errors.New("no such path")

// Overhead returns by how many bytes frames are shorter than on Ethernet where the MTU is the same:
// IP and UDP over the family of the address.
func Overhead(a netip.Addr) int {
	if a.Is4() {
		return ipv4Size + udpSize
	}
	return ipv6Size + udpSize
}

// Route is the route of a path.
type Route struct {
	Source, Destination netip.Addr // IP, of one family
	// Ethernet: of the interface, and of the neighbour that leads there
	From, To [6]byte
	VLAN     uint16 // number of the VLAN, if not 0
	Port     uint16 // UDP; 1 to MaxPort
	MTU      int    // bytes of the longest IP packet that arrives
}

// Path is the way to a peer. It is immutable.
type Path struct {
	head    [Room + ethernetSize]byte // its last size bytes are the headers
	size    int
	udp     int    // where the UDP header starts in head
	ip      int    // where the IP header does
	four    bool   // IPv4
	port    uint16 // the first source port
	longest int    // bytes of a frame
	ipSum   uint64 // of the IPv4 header without its length
	// of pseudo-header and ports, without lengths and the source port's number above the first
	udpSum uint64
	peer   origin
}

// origin is the source of datagrams: an IP address, that of IPv4 mapped into IPv6.
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

// Headers returns the path's headers, of which whoever writes them fills in what is a frame's own,
// and the sums of all the rest: of an IPv4 header, and of pseudo-header and UDP header. Sums are 16
// bits as they lie in memory.
func (p *Path) Headers() (head []byte, ip, udp [2]byte) {
	binary.LittleEndian.PutUint16(ip[:], fold(p.ipSum))
	binary.LittleEndian.PutUint16(udp[:], fold(p.udpSum))
	return p.head[len(p.head)-p.size:], ip, udp
}

// PutSum writes the sum of what follows the Ethernet header of a frame to its first two bytes, for
// those who make a datagram of it without reading it.
func PutSum(frame []byte) { binary.LittleEndian.PutUint16(frame, fold(sum(0, frame[ethernetSize:]))) }

// Longest returns the length in bytes of the longest frame that the path takes.
func (p *Path) Longest() int { return p.longest }

// Wrap makes a datagram of the frame of n bytes that starts at b[Room], where b has
// arctic.HeaderSize bytes at least. It is b[start:end]. What was in front of the frame, and its
// Ethernet header, is overwritten. Nothing is done and ok is false if the frame is longer than the
// path takes.
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

// sourceOf says by how much the source port of a frame is above the first: by the two cards and the
// level, multiplied by the golden ratio (Knuth, volume 3, 6.4); the upper bits are taken. A hello
// says the way itself, so that several reach the other end by different queues.
func sourceOf(frame []byte) uint16 {
	if frame[versionOffset] == hello {
		return uint16(frame[flagsOffset] & (Sources - 1))
	}
	flow := uint64(binary.LittleEndian.Uint32(frame[cardsOffset:]))<<1 | uint64(frame[flagsOffset]&levelBit)
	return uint16(flow * 0x9e3779b97f4a7c15 >> (64 - 4))
}
