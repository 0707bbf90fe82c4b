// Package paths follows the kernel's routes and neighbours on the ways to a card's peers. From them
// it makes the tables that give datagrams their headers (package encap).
//
// # The journey
//
// Open asks the kernel by netlink (rtnetlink(7)), once for each peer: which route leads there
// through the card's interface, from which source address, with which MTU; and which Ethernet
// address the next hop has. It puts the answers into an immutable encap.Table. From Follow on a
// goroutine looks again whenever the kernel reports that links, addresses, routes or neighbours
// have changed, and once a second. It looks at the interface and its addresses and neighbours. Of
// the routes it looks at those that the change concerns, and at some others in turn. If anything
// has changed, the goroutine publishes a new table for the card's thread, which only loads a
// pointer. So a large number of peers is expensive only when much changes.
//
// The kernel does not see the card's datagrams. Three things that it does for its own datagrams
// must be asked for:
//
//   - A next hop that the kernel does not know, or is no longer sure of, has to be resolved. So an
//     empty datagram is sent to the peer through that hop, at most one a second. That needs no
//     privilege, because the daemon has given its own up.
//   - UDP sockets hold the source ports of the datagrams, so nobody else gets these ports. When a
//     router answers one of the card's datagrams with an ICMP error, the kernel finds the socket
//     that the error concerns. The kernel notes the path's MTU with its route (RFC 1191, RFC 8201).
//     It reports the error to the socket, where this package reads it (IP_RECVERR, ip(7)).
//   - Before the card begins, a datagram as long as the interface's MTU goes to each peer, so that
//     routers with a shorter MTU say so now. These and the empty datagrams go to the second of the
//     ports, where no frames arrive.
//
// # Rules
//
//   - A peer without route, source or neighbour has no path, and no peer has one while the
//     interface's MTU is too small. State says why.
//   - The source is the card's own address where the interface has it, and otherwise the one that
//     the kernel chooses for the route.
//   - The kernel learns from routers how long packets on a path may be, and anybody can forge that.
//     So the limit is only passed on (Limits); the card makes frames shorter and finds out itself
//     (package engine/link, limit.go). No path is given up for it.
//   - Sockets are opened by Open, in the network namespace of its thread. All methods may be called
//     from any goroutine.
package paths
