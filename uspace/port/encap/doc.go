// Package encap puts frames into UDP datagrams, over IPv4 or IPv6, so that they can cross networks
// that route or filter. It is pure: no socket, no state but an immutable table, no allocation per
// frame.
//
// What follows the EtherType of a frame (package arctic) is the payload of a datagram:
//
//	Ethernet 14, or 18 with a VLAN tag | IPv4 20 or IPv6 40 | UDP 8 | version, flags, length, ...
//
// # The journey of a frame
//
// The card does not know about datagrams. It composes frames for Ethernet as ever, to an address
// that Address made from the number of the peer's card. Out: Table.To finds the peer's path by that
// address. Path.Wrap writes the path's headers, which were built beforehand, over the Ethernet
// header and into the Room that the port left free in front of it. Then it writes lengths, source
// port and checksums. The rest of the frame stays where it is. In: Table.Unwrap finds the frame
// within a datagram and writes an Ethernet header over the end of the UDP header. The source of
// that header is the made-up address of the card that the frame names, if the datagram came from
// that card's IP address. Otherwise the frame gets an address that nobody has, and the card treats
// it as a stranger's.
//
// # Rules
//
//   - The pair of cards and the level choose one of Sources source ports. So frames whose sequence
//     numbers are of one series (package engine/link, flow.go) take one path through routers and
//     one queue of a NIC. They overtake each other no more than they do on Ethernet; the card would
//     take that for loss.
//   - The UDP checksum is always computed, also over IPv4 where it is optional, because some
//     filters drop datagrams without a checksum. A receiver verifies a checksum that is there; over
//     IPv6 one is required (RFC 8200 8.1).
//   - Datagrams are never fragmented: IPv4's do-not-fragment is set, and the identification, which
//     then means nothing (RFC 6864 4.1), is 0. A frame longer than its path's MTU allows is
//     refused.
//   - A Table and its Paths are immutable and may be read by any goroutine. Package paths makes
//     them from what the kernel knows.
package encap
