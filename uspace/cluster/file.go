// This file is the content of a peers file once it is read, its rules, and how it is written.

package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/hwprofiles/strictyaml"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/port/encap"
)

// Limits of a peers file.
const (
	MaxGID    = 2047    // a GID has 11 bits
	MaxNodes  = 1 << 16 // a node has 16 bits
	MaxRanges = 64      // of a node's groups
	MinNodes  = 2       // a group of one node has no peer
	MaxBytes  = 8 << 20 // bytes in a file; 65536 nodes need about 4 MiB
)

// These errors say what is wrong with a file, for errors.Is. The error's text has the file, line
// and values.
var (
	// YAML that does not parse or has the wrong shape
	ErrSyntax        = errors.New("not a peers file")
	ErrUnknownKey    = strictyaml.ErrUnknownKey     // a key the format does not have
	ErrDuplicateKey  = strictyaml.ErrDuplicateKey   // a key twice in one place
	ErrDuplicateNode = errors.New("duplicate node") // two entries with the same node
	// two nodes with the same mac on the same iface
	ErrDuplicateMAC = errors.New("duplicate mac")
	ErrNodeRange    = errors.New("node out of range")        // node outside 0..65535
	ErrNodeGap      = errors.New("nodes are not contiguous") // nodes other than 0..N-1
	ErrPeerCount    = errors.New("wrong number of peers")    // fewer than 2 or more than 65536
	// malformed, zero, multicast or broadcast, or missing with encapsulation Ethernet
	ErrMAC      = errors.New("not a unicast Ethernet mac")
	ErrIface    = errors.New("not an interface name") // empty, too long or with forbidden bytes
	ErrGIDRange = errors.New("gid out of range")      // gid outside 1..2047
	ErrTooLarge = strictyaml.ErrTooLarge              // beyond MaxBytes
	ErrEncap    = errors.New("not an encapsulation")  // other than ethernet, udp and hub
	ErrPort     = errors.New("UDP port out of range") // port outside 1..65520
	// malformed, multicast, unspecified, loopback, or with a zone, or missing with encapsulation
	// UDP
	ErrAddress = errors.New("not a unicast IP address")
	// nodes that could not answer each other
	ErrFamily      = errors.New("IPv4 and IPv6 mixed")
	ErrDuplicateIP = errors.New("duplicate address")         // two nodes with the same address
	ErrAbsent      = errors.New("an absent node is nowhere") // absent together with mac or iface
	// other than 64 hexadecimal digits, or zero
	ErrToken = errors.New("not a token")
	ErrKey   = errors.New("not a key file's name") // too long, or with bytes that are not printable
)

// File is a peers file. Load and Parse return it sorted, so that Peers[i].Node == i.
type File struct {
	GID   uint16 // 1..2047; 0 when the file does not say
	Peers []Peer
	Token attach.Token // of the group; zero when the file does not say
	Key   string       // file of the key that all hosts share; "" when the file does not say
	Encap Encap
	Port  uint16 // UDP, with encapsulation UDP; 0: encap.DefaultPort
}

// Encap is the encapsulation in which frames cross the network.
type Encap int

const (
	Ethernet Encap = iota // without any, to MAC addresses on one segment
	UDP                   // in UDP datagrams, to IP addresses
	// Hub is Ethernet over the routers of `funet hub`: small frames for several nodes leave in a
	// bundle, which the routers take apart (package bundle).
	Hub
)

// Encaps lists all encapsulations.
var Encaps = []Encap{Ethernet, UDP, Hub}

// String returns the encapsulation's name in a file.
func (e Encap) String() string {
	switch e {
	case UDP:
		return "udp"
	case Hub:
		return "hub"
	}
	return "ethernet"
}

// ParseEncap reads the name of an encapsulation. Errors: ErrEncap.
func ParseEncap(s string) (Encap, error) {
	for _, e := range Encaps {
		if s == e.String() {
			return e, nil
		}
	}
	return 0, fmt.Errorf("encap %q, want ethernet, udp or hub: %w", s, ErrEncap)
}

// With returns the file with another encapsulation, if its peers have addresses for it. Errors:
// those of Validate.
func (f *File) With(e Encap) (*File, error) {
	g := *f
	g.Encap = e
	return &g, g.Validate()
}

// Peer is one member of the group.
type Peer struct {
	Node    uint16           // 0..len(Peers)-1
	MAC     net.HardwareAddr // 6 bytes, unicast; nil when the file does not say
	Iface   string           // local interface that leads there; "" when the host has only one
	Address netip.Addr       // the node's IP address; the zero Addr when the file does not say
	Groups  []Range          // the GIDs that may live on the node's host; nil: all
	// Key is the file of a key that only this host and the node's share; "": the key of all hosts.
	Key    string
	Found  string // the name of a host that a daemon has found; in a file it is empty
	Absent bool   // says that no host has the number now; then there is no MAC and no Iface
}

// Range is a range of GIDs, both ends included.
type Range struct{ First, Last uint16 }

// String returns the range as a file writes it.
func (r Range) String() string {
	if r.First == r.Last {
		return strconv.Itoa(int(r.First))
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// ParseRange reads a GID or a range of them, such as 10-20. Errors: ErrGIDRange.
func ParseRange(s string) (r Range, err error) {
	first, last, two := strings.Cut(s, "-")
	if !two {
		last = first
	}
	a, errA := strconv.ParseUint(strings.TrimSpace(first), 10, 16)
	b, errB := strconv.ParseUint(strings.TrimSpace(last), 10, 16)
	r = Range{uint16(a), uint16(b)}
	if errA != nil || errB != nil || r.check() != nil {
		return Range{},
			fmt.Errorf("%q, want a number or a range such as 10-20, from 1 to %d (0 is the system group): %w", s,
				MaxGID, ErrGIDRange)
	}
	return r, nil
}

func (r Range) check() error {
	if r.First < 1 || r.First > r.Last || r.Last > MaxGID {
		return fmt.Errorf("%d to %d, want 1 to %d (0 is the system group): %w", r.First, r.Last, MaxGID, ErrGIDRange)
	}
	return nil
}

// Lives reports whether a group may live on the peer's host (Groups).
func (p *Peer) Lives(gid uint16) bool {
	return p.Groups == nil || slices.ContainsFunc(p.Groups, func(r Range) bool {
		return r.First <= gid && gid <= r.Last
	})
}

// Validate says whether the file obeys the rules of the package; the errors are those of
// Parse with "peer 3" (the index in Peers) in place of a line.
func (f *File) Validate() error {
	return f.check(func(i int) string {
		if i < 0 {
			return "peers"
		}
		return "peer " + strconv.Itoa(i)
	})
}

// check applies the rules that concern a whole file. at returns the position of entry i, or the
// name of the file for i < 0.
func (f *File) check(at func(i int) string) error {
	if f.GID > MaxGID {
		return fmt.Errorf("%s: gid %d, want 1..%d: %w", at(-1), f.GID, MaxGID, ErrGIDRange)
	}
	if err := checkKey(f.Key); err != nil {
		return fmt.Errorf("%s: %w", at(-1), err)
	}
	if n := len(f.Peers); n < MinNodes || n > MaxNodes {
		return fmt.Errorf("%s: %d peers, want %d..%d: %w", at(-1), n, MinNodes, MaxNodes, ErrPeerCount)
	}
	if int(f.Port) > encap.MaxPort {
		return fmt.Errorf("%s: port %d, want 1..%d: %w", at(-1), f.Port, encap.MaxPort, ErrPort)
	}
	type port struct{ mac, iface string }
	addresses, first := make(map[netip.Addr]int, len(f.Peers)), -1
	nodes := make(map[uint16]int, len(f.Peers))
	macs := make(map[port]int, len(f.Peers))
	for i, p := range f.Peers {
		if err := p.Validate(f.Encap); err != nil {
			return fmt.Errorf("%s: node %d %w", at(i), p.Node, err)
		}
		if p.Address.IsValid() {
			if j, ok := addresses[p.Address]; ok {
				return fmt.Errorf("%s: address %v of node %d is that of node %d at %s; give each node its own: %w",
					at(i), p.Address, p.Node, f.Peers[j].Node, at(j), ErrDuplicateIP)
			}
			addresses[p.Address] = i
			if first < 0 {
				first = i
			}
			if other := f.Peers[first]; f.Encap == UDP && other.Address.Is4() != p.Address.Is4() {
				return fmt.Errorf("%s: node %d has address %v and node %d %v; give all nodes addresses of one kind: %w",
					at(i), p.Node, p.Address, other.Node, other.Address, ErrFamily)
			}
		}
		if j, ok := nodes[p.Node]; ok {
			return fmt.Errorf("%s: node %d is already at %s; give each node once: %w", at(i), p.Node, at(j),
				ErrDuplicateNode)
		}
		port := port{string(p.MAC), p.Iface}
		if j, ok := macs[port]; ok && p.MAC != nil {
			return fmt.Errorf("%s: mac %s of node %d is that of node %d at %s; give each node its own: %w",
				at(i), p.MAC, p.Node, f.Peers[j].Node, at(j), ErrDuplicateMAC)
		}
		nodes[p.Node] = i
		if !p.Absent {
			macs[port] = i
		}
	}
	// N different nodes are 0..N-1 exactly when none is N or more.
	for i, p := range f.Peers {
		if int(p.Node) >= len(f.Peers) {
			return fmt.Errorf("%s: node %d in a file of %d peers; number them 0..%d: %w",
				at(i), p.Node, len(f.Peers), len(f.Peers)-1, ErrNodeGap)
		}
	}
	return nil
}

// Validate applies the rules that concern one peer, such as one that is not in a file; its errors
// go on after the words "node 3".
func (p *Peer) Validate(e Encap) error {
	switch {
	case p.Absent && (p.MAC != nil || p.Iface != "" || p.Groups != nil || p.Key != "" || p.Address.IsValid()):
		return fmt.Errorf("has a mac, an address, an iface, groups or a key; leave them out, or absent: %w", ErrAbsent)
	case p.Absent:
		return nil
	case p.MAC == nil && e != UDP:
		return fmt.Errorf("has no mac, which encap %v needs: %w", e, ErrMAC)
	case !p.Address.IsValid() && e == UDP:
		return fmt.Errorf("has no address, which encap udp needs: %w", ErrAddress)
	case p.Groups != nil && len(p.Groups) == 0 || len(p.Groups) > MaxRanges:
		return fmt.Errorf("has %d ranges of groups, want 1 to %d, or leave it out for all: %w", len(p.Groups), MaxRanges,
			ErrGIDRange)
	}
	for _, r := range p.Groups {
		if err := r.check(); err != nil {
			return fmt.Errorf("has groups %w", err)
		}
	}
	if err := checkKey(p.Key); err != nil {
		return fmt.Errorf("has %w", err)
	}
	if err := checkMAC(p.MAC); p.MAC != nil && err != nil {
		return fmt.Errorf("has mac %q, %w", p.MAC, err)
	}
	if err := checkAddress(p.Address); p.Address.IsValid() && err != nil {
		return fmt.Errorf("has address %v, %w", p.Address, err)
	}
	if err := checkIface(p.Iface); p.Iface != "" && err != nil {
		return fmt.Errorf("has iface %q, %w", p.Iface, err)
	}
	return nil
}

// checkMAC accepts unicast Ethernet addresses (IEEE 802-2014 section 8.2: the group bit is the
// least significant bit of the first octet, and broadcast has it set).
func checkMAC(mac net.HardwareAddr) error {
	switch {
	case len(mac) != 6:
		return fmt.Errorf("want six bytes such as 02:46:55:00:00:01: %w", ErrMAC)
	case bytes.Equal(mac, make([]byte, 6)):
		return fmt.Errorf("want the address of a card, not zero: %w", ErrMAC)
	case mac[0]&1 != 0:
		return fmt.Errorf("want the address of one card, not multicast or broadcast: %w", ErrMAC)
	}
	return nil
}

// checkAddress accepts an address of one host on a network. It refuses link-local addresses
// (fe80::/10), which would need to name a link on every host.
func checkAddress(a netip.Addr) error {
	switch {
	case a.Zone() != "" || a.Is4In6():
		return fmt.Errorf("want one such as 192.0.2.1 or 2001:db8::1: %w", ErrAddress)
	case !a.IsGlobalUnicast():
		return fmt.Errorf("want the address of one host, not multicast, broadcast, loopback, link-local or zero: %w",
			ErrAddress)
	}
	return nil
}

// checkKey accepts the empty name, and names that a file can have, in printable ASCII.
func checkKey(name string) error {
	if len(name) >= unix.PathMax || strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c > '~' }) {
		return fmt.Errorf("key %.40q, want the name of a file: %w", name, ErrKey)
	}
	return nil
}

// checkIface accepts what the kernel accepts as a name (dev_valid_name in net/core/dev.c: shorter
// than IFNAMSIZ = 16 bytes, not "." or "..", no '/', ':' or white space), in printable ASCII.
func checkIface(name string) error {
	if name == "" || len(name) > 15 || name == "." || name == ".." {
		return fmt.Errorf("want 1 to 15 characters: %w", ErrIface)
	}
	for _, c := range []byte(name) {
		if c <= ' ' || c > '~' || c == '/' || c == ':' {
			return fmt.Errorf("want letters, digits and marks without '/', ':' or spaces: %w", ErrIface)
		}
	}
	return nil
}

// Marshal writes the file in the form that Parse reads, one peer a line. A file that Validate
// refuses is not written.
func (f *File) Marshal() ([]byte, error) {
	if err := f.Validate(); err != nil {
		return nil, fmt.Errorf("write peers file: %w", err)
	}
	var b bytes.Buffer
	if f.GID != 0 {
		fmt.Fprintf(&b, "gid: %d\n", f.GID)
	}
	if !f.Token.Zero() {
		fmt.Fprintf(&b, "token: \"%s\"\n", f.Token.Text())
	}
	if f.Key != "" {
		fmt.Fprintf(&b, "key: %q\n", f.Key)
	}
	if f.Encap != Ethernet {
		fmt.Fprintf(&b, "encap: %v\n", f.Encap)
	}
	if f.Port != 0 {
		fmt.Fprintf(&b, "port: %d\n", f.Port)
	}
	b.WriteString("peers:\n")
	for _, p := range f.Peers {
		if p.Absent {
			fmt.Fprintf(&b, "  - {node: %d, absent: true}\n", p.Node)
			continue
		}
		fmt.Fprintf(&b, "  - {node: %d", p.Node)
		if p.MAC != nil {
			fmt.Fprintf(&b, ", mac: \"%s\"", p.MAC)
		}
		if p.Address.IsValid() {
			fmt.Fprintf(&b, ", address: \"%s\"", p.Address)
		}
		if p.Iface != "" {
			fmt.Fprintf(&b, ", iface: %q", p.Iface)
		}
		if p.Key != "" {
			fmt.Fprintf(&b, ", key: %q", p.Key)
		}
		if p.Groups != nil {
			var all []string
			for _, r := range p.Groups {
				all = append(all, r.String())
			}
			fmt.Fprintf(&b, ", groups: [%s]", strings.Join(all, ", "))
		}
		b.WriteString("}\n")
	}
	return b.Bytes(), nil
}
