// Package cluster reads and writes the peers file. This short list tells one host the members of
// its group and the address of each. An address is an Ethernet address on a segment, or an IP
// address where routers or filters lie between (encap: udp).
//
//	gid: 1                                   # optional, 1..2047
//	token: "8f3c...e1"                       # optional, 64 hexadecimal digits
//	key: funet.key                           # optional, a file: see keyfile
//	peers:
//	  - {node: 0, mac: "02:46:55:00:00:01"}
//	  - {node: 1, mac: "02:46:55:00:01:01", iface: fu1}
//
//
//	encap: udp                               # optional: ethernet, udp or hub
//	port: 30600                              # optional: the UDP port
//	peers:
//	  - {node: 0, address: 192.0.2.1}
//	  - {node: 1, address: 198.51.100.1}
//
// A file is valid as a whole or not at all. Its rules:
//
//   - nodes are numbered 0..N-1 without gaps, 2 <= N <= 65536 (a node is 16 bits
//     wide in the slot header), in any order in the file;
//   - a mac is a unicast Ethernet address, and no two nodes have the same one on the
//     same iface;
//   - an address is that of one host, IPv4 or IPv6 for all nodes alike, and no two nodes have the
//     same one. With encap udp each node has an address, otherwise each has a mac. A node may have
//     both, so that one file serves for either ([File.With]). A file without encap means udp if no
//     node has a mac, and ethernet otherwise. All hosts have the same port;
//   - iface names the local interface that leads to the node, for hosts with more
//     than one; for the host's own node it is the interface that carries the mac.
//     The file is therefore a host's own when iface is used, and otherwise may be
//     the same on all hosts;
//   - a host that has left keeps its number, so that the others keep theirs: {node: 1, absent:
//     true} stands where it was, without mac and iface. Daemons follow their peers file (package
//     daemon), and to them nobody has that number. The group of an embedded card needs all its
//     nodes;
//   - groups are the GIDs, as numbers and ranges, that may live on a node's host; without it all
//     may: {node: 1, mac: ..., groups: [1-100, 200]}. Daemons refuse to make a job of another GID
//     that has a node there, whatever their users' rules allow. Jobs that exist stay when groups
//     changes. Frames of all groups are let in and answered nevertheless (package daemon says why).
//     Embedded cards ignore it;
//   - gid is the group, 1..2047; 0 is the system group and is refused. A file without
//     gid leaves the choice to whoever loads it ([File.GID] is then 0);
//   - token is the group's secret, from which its frames get their tag (arctic.JobTag). Nodes whose
//     files have another token learn that another job has the GID. Without a token the tag follows
//     from the GID alone, and all programs with that GID and no token are one job. That is enough
//     where only one administrator opens cards. Whoever can read the file knows the token. A daemon
//     has no use for token or gid: its jobs bring tokens of their own;
//   - key names a file of 32 bytes ("funet key new", package keyfile); all hosts have a copy of it.
//     A file whose name is not absolute lies beside this one. With a key everything that cards send
//     each other is authenticated and encrypted, and nothing else is accepted (package
//     uspace/engine/link). A node may have a key of its own, {node: 1, mac: ..., key: a-b.key},
//     which only this host and that node's share. The file of that host then names the same key for
//     this one;
//   - keys that are not listed here, keys given twice, anchors, aliases, tags and
//     further YAML documents are refused.
//
// An error names the file, the line and the column: "peers.yaml:7:5: node 3 is already at
// peers.yaml:4:5".
// The bytes of a file are not trusted: any input gives a File or an error, never a
// panic, and a file beyond [MaxBytes] is refused before it is parsed.
//
// Nothing here keeps state; every function may be called from any goroutine.
package cluster
