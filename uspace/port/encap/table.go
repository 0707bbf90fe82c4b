package encap

// This file has the table of a card's paths. A frame finds its path by the made-up Ethernet address
// on the way out, and by the IP address on the way in.

import (
	"encoding/binary"
	"net/netip"

	"github.com/funet/funet/uspace/arctic"
)

// Peer is a card and its IP address.
type Peer struct {
	Card    uint16
	Address netip.Addr
}

// Address returns the Ethernet address that stands for a card: locally administered, unicast (IEEE
// 802-2014 section 8.4), and never seen on a wire.
func Address(card uint16) [6]byte { return [6]byte{0x02, 'F', 'U', 0xfe, byte(card >> 8), byte(card)} }

// Nobody is the source address of frames that did not come from the address of the card that they
// name. No card has it.
var Nobody = [6]byte{}

// Table holds the paths of a card. It is immutable. The zero value has no peers.
type Table struct {
	port  uint16
	peers []peer // by card number
}

type peer struct {
	known bool
	origin
	path *Path // nil: there is none at present
}

// Entry is a peer with its path, nil if there is none at present.
type Entry struct {
	Peer
	Path *Path
}

// NewTable makes a table for datagrams to a UDP port.
func NewTable(port uint16, entries []Entry) *Table {
	t := &Table{port: port}
	for _, e := range entries {
		for int(e.Card) >= len(t.peers) {
			t.peers = append(t.peers, peer{})
		}
		t.peers[e.Card] = peer{true, originOf(e.Address), e.Path}
	}
	return t
}

// To returns the path of a frame, or nil if there is none. The frame has at least an Ethernet
// header.
func (t *Table) To(frame []byte) *Path {
	if binary.BigEndian.Uint32(frame) != 0x024655fe {
		return nil
	}
	return t.ToCard(binary.BigEndian.Uint16(frame[4:]))
}

// ToCard returns the path to a card, or nil if there is none.
func (t *Table) ToCard(card uint16) *Path {
	if int(card) >= len(t.peers) {
		return nil
	}
	return t.peers[card].path
}

// Unwrap returns the frame within a datagram; it changes the bytes in front of the frame. It
// accepts any bytes. It drops anything but an intact datagram for the port: lengths that contradict
// each other, options, fragments, a wrong UDP checksum, or no checksum over IPv6. The NIC program
// has already checked the header checksum of IPv4.
func (t *Table) Unwrap(b []byte) (frame []byte, ok bool) {
	if len(b) < ethernetSize {
		return nil, false
	}
	at := ethernetSize
	kind := binary.BigEndian.Uint16(b[at-2:])
	if kind == etherVLAN {
		at += vlanSize
		if len(b) < at {
			return nil, false
		}
		kind = binary.BigEndian.Uint16(b[at-2:])
	}
	ip := b[at:]
	var from origin
	var udp []byte
	var s uint64 // of the addresses
	switch {
	case kind == etherIPv4 && len(ip) >= ipv4Size+udpSize:
		total := int(binary.BigEndian.Uint16(ip[2:]))
		if ip[0] != 0x45 || ip[9] != protocol || binary.BigEndian.Uint16(ip[6:])&^dontFrag != 0 ||
			total < ipv4Size+udpSize || total > len(ip) {
			return nil, false
		}
		from.low = mapped | uint64(binary.BigEndian.Uint32(ip[12:]))
		s = uint64(binary.LittleEndian.Uint32(ip[12:])) + uint64(binary.LittleEndian.Uint32(ip[16:]))
		at += ipv4Size
		udp = ip[ipv4Size:total]
	case kind == etherIPv6 && len(ip) >= ipv6Size+udpSize:
		n := int(binary.BigEndian.Uint16(ip[4:]))
		if ip[0]>>4 != 6 || ip[6] != protocol || n < udpSize || n > len(ip)-ipv6Size ||
			ip[ipv6Size+6]|ip[ipv6Size+7] == 0 {
			return nil, false
		}
		from.high, from.low = binary.BigEndian.Uint64(ip[8:]), binary.BigEndian.Uint64(ip[16:])
		s = sum(0, ip[8:ipv6Size])
		at += ipv6Size
		udp = ip[ipv6Size : ipv6Size+n]
	default:
		return nil, false
	}
	length := binary.BigEndian.Uint16(udp[4:])
	if binary.BigEndian.Uint16(udp[2:]) != t.port || int(length) != len(udp) {
		return nil, false
	}
	// With the checksum among them the words of an intact datagram sum up to all ones.
	if udp[6]|udp[7] != 0 && fold(sum(s+network(protocol)+network(length), udp)) != 0xffff {
		return nil, false
	}
	frame = b[at+udpSize-ethernetSize : at+len(udp)]
	t.address(frame, from)
	return frame, true
}

// address writes the Ethernet header of a frame that came from an IP address.
func (t *Table) address(frame []byte, from origin) {
	if len(frame) < arctic.HeaderSize {
		*(*[ethernetSize]byte)(frame) = [ethernetSize]byte{12: arctic.EtherType >> 8, 13: arctic.EtherType & 0xff}
		return // no frame: whoever reads it will say so
	}
	card := binary.LittleEndian.Uint16(frame[sourceCardOffset:])
	source := Nobody
	if int(card) < len(t.peers) && t.peers[card].known && t.peers[card].origin == from {
		source = Address(card)
	}
	to := Address(binary.LittleEndian.Uint16(frame[destinationOffset:]))
	copy(frame, to[:])
	copy(frame[6:], source[:])
	frame[12], frame[13] = arctic.EtherType>>8, arctic.EtherType&0xff
}
