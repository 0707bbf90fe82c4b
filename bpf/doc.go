// Package bpf holds FUNet's eBPF programs and loads them. The programs are C (nic.c, on the
// constants and the header of funet.h); their compiled form is committed, so that building needs
// no clang, and `go generate` makes it again.
//
// # The header
//
// A FUNet frame starts as follows. Offsets are in bytes from the start of the Ethernet frame.
// Fields of several bytes are little-endian, except the EtherType, which is in network order.
//
//	     0      1      2      3      4      5      6      7
//	  +------+------+------+------+------+------+------+------+
//	0 |              destination MAC            | source MAC  |
//	  +------+------+------+------+------+------+------+------+
//	8 |         source MAC        |  EtherType  | vers.| flags|
//	  +------+------+------+------+------+------+------+------+
//	16|   length    |     GID     |           route           |
//	  +------+------+------+------+------+------+------+------+
//	24| source card | dest. card  |pckts.|rejct.|     age     |
//	  +------+------+------+------+------+------+------+------+
//	32|                         epoch                         |
//	  +------+------+------+------+------+------+------+------+
//	40|         sequence          |        request ack        |
//	  +------+------+------+------+------+------+------+------+
//	48|                   request ack mask                    |
//	  +------+------+------+------+------+------+------+------+
//	56|         reply ack         |       reply ack mask      |
//	  +------+------+------+------+------+------+------+------+
//	64|      reply ack mask       |         tag of the        |
//	  +------+------+------+------+------+------+------+------+
//	72|            job            |          CRC32C           |
//	  +------+------+------+------+------+------+------+------+
//	80| packets ...
//
// Length counts from the version to the end of the last packet or the block, so a frame without
// packets has 66, and Ethernet padding is outside of it. A GID has 11 bits; the upper five of its
// field are zero. The NIC program reads the EtherType, the version, the length and the GID, and of
// frames of absent groups the flags and counts. The route, sequence numbers, the tag and the CRC
// are for the card in user space.
//
// # The journey of a frame through the NIC program
//
// The driver (or, in generic mode, the kernel's receive path) shows each frame to the program
// before anything else sees it. The first test that fails decides. Each end has its own counter
// ([Counters]), one per CPU; redirected frames have one per receive queue:
//
//	frame ──> EtherType 0x88B5? ── no, or < 14 bytes ──────────> XDP_PASS      pass
//	          80 bytes or more? ── no ─────────────────────────> XDP_DROP      short
//	          version 0? ───────── yes, a probe ───────────────> XDP_PASS      pass
//	          version 6, or 255,
//	          a hello? ─────────── no ─────────────────────────> XDP_DROP      bad_version
//	          66 <= length and
//	          14+length <= frame?  no ─────────────────────────> XDP_DROP      bad_length
//	          a hello? ─────────── yes: of no group, on to the last test
//	            │                  if its source may say one now; no ─> XDP_DROP  hellos
//	          GID < 2048? ──────── no ─────────────────────────> XDP_DROP      bad_gid
//	          another frame behind 14+length of a datagram? ───> XDP_DROP      merged
//	          funet_groups[GID]? ─ foreign ────────────────────> XDP_DROP      foreign_group
//	            │ absent, and may
//	            │ be deferred? ─── yes: its source may have an
//	            │                  answer now? ─────────── yes ─> XDP_TX        deferred
//	            │                    └─ no ────────────────────> XDP_DROP      undeferred
//	          funet_sockets[rx queue]? ─ none ─────────────────> XDP_DROP      no_socket
//	            └───────────────── AF_XDP socket ──────────────> XDP_REDIRECT  redirected
//
// Loaded for UDP ([Load.UDPPort]), the program finds the header behind IP and UDP instead, and the
// rest is as above, with the datagram's length in place of the frame's. On the wire what follows
// the EtherType is the payload of a datagram:
//
//	Ethernet 14, or 18 with a VLAN tag | IPv4 20 or IPv6 40 | UDP 8 | version, flags, length, ...
//
//	frame ──> tag as [Load.VLAN] says, IPv4 without options and fragments and with
//	          the right header checksum, or IPv6 without extension headers; to an
//	          own address and the port; lengths that agree; over IPv6 a UDP
//	          checksum? ───────── no ──────────────────────────> XDP_PASS      pass
//
// The UDP checksum is verified by the card in user space.
//
// The EtherType is FUNet's alone, but others may send to the UDP port, for instance to a service
// that has it on a node of Kubernetes. So a datagram that is short, bad_version, bad_length or
// bad_gid is counted as such and passed (XDP_PASS). A datagram with another frame behind its own
// was merged by the kernel. The program knows it by the version: a card that tries whether longer
// frames pass has zeroes there. Generic XDP on a VLAN, macvlan, bond or bridge sees what GRO of the
// interface below made (rx-udp-gro-forwarding and rx-gro-list of ethtool). Merged datagrams are
// dropped, because their checksums are gone and sockets have no room for them.
//
// So the program leaves frames that are not FUNet's to the kernel, untouched. It also leaves to the
// kernel the probes of `funet doctor`, which show whether the EtherType passes between two hosts
// (package ctl/doctor/probe). The kernel's sockets get these probes even while a card has the
// interface. A malformed frame, or one of a group that the card has not opened, never wakes user
// space. Hellos (package uspace/port/hello) do, whatever groups the card has opened: cards of any
// version find and ask each other with them. A card of one process opens its group. A daemon opens
// all groups, because it also answers frames of groups that it does not have (package ctl/daemon).
//
// # Absent groups
//
// A daemon marks the groups that nobody on its host has as absent ([NIC.SetAbsent]). The program
// answers for them what it can say truly: nobody here has the group now (thesis 5.6.2, the Network
// Packet Preprocessor). It cannot reject packets. A reject is final, and only the card knows
// whether it has taken another copy of the frame. So the answer is a deferral
// (arctic.Header.Defer): the frame's header, sent back. It settles nothing. The sender's card holds
// the frame back and sends it again, with the same number (uspace/engine/link/defer.go).
//
// The sender says which frames may be deferred. It says so of the first frames for a node only, and
// never without the end of its patience: then the card has the last word. These frames carry no
// rejects, and the acknowledgments in them are repeated elsewhere, so dropping them costs nobody
// else anything. All other frames of absent groups are the card's, as are those of older senders,
// and sealed ones: the program has no key, and an answer without one could be anybody's. Frames in
// UDP datagrams are the card's, too. Frames of version 7 for a node without a port are dropped
// (no_port); their senders greet the node again, less and less often.
//
// Nobody makes the host send more than it gets. An answer has the length of a header, and its frame
// had at least that. It has no packets, and such frames are never answered. Frames from or for
// addresses of many stations are not answered. An Ethernet address gets 2048 answers at once, and
// then one in 16 us. The addresses are remembered in a table of 4096, in which the one used least
// recently gives way. Frames beyond the rate are dropped, and their senders send again.
//
// In native mode veth delivers answers only to an interface that has an XDP program itself, as
// those of cards do. Captures show a deferral only where it arrives.
//
// # Ports
//
// A port is a veth pair. A process has an AF_XDP socket on the inner end, in a namespace of its
// own. On the outer end the guard (guard.c) sees what the process sends. Guard and NIC program
// share one table ([Switch], switch.h): the place of each node of each job, and the owner of each
// port. The frames are of version 7: they all have the job's tag, and their card numbers are node
// numbers. The process writes no addresses and learns none. The first test that fails decides, with
// a counter of the port ([PortCounters]):
//
//	inner end ──> a port? ────────────────────── no ──> dropped
//	              80 bytes or more? ──────────── no ──> dropped      short
//	              EtherType 0x88B5, version 7? ─ no ──> dropped      bad_version
//	              its GID, source card, tag? ─── no ──> dropped      forged
//	              66 <= length and
//	              14+length <= frame? ────────── no ──> dropped      bad_length
//	              the job's table has the node?  no ──> dropped      no_node
//	              short enough for the way? ──── no ──> dropped      too_long
//	              credit with the host? ──────── no ──> dropped      no_credit
//	              behind another host ─────────────────> the NIC, with headers     sent
//	              behind a port of that node's record ─> its inner end, without    local
//
// A bundle (below, Hubs) is a frame of version 8. It passes if each of its frames would pass alone,
// and otherwise it is dropped as a whole, by the reason of the first that would not:
//
//	2 to 8 frames of 80 to 256 bytes, that fill it? no ──> dropped      bad_length
//	each as above, up to too_long? ──────────────── no ──> dropped      as there
//	each to a host behind routers, by one NIC? ──── no ──> dropped      no_node
//	short enough, as a whole, for each way? ─────── no ──> dropped      too_long
//	credit with each host for all of it? ────────── no ──> dropped      no_credit
//	  └─ the NIC, with addresses of it and of each frame   sent, once a frame
//
// Bundles go only where routers take them apart ([Place.Bundles]). To any other network they are
// frames for many stations. At worst routers copy the whole bundle for each of its frames. So the
// account pays as much as for that many frames of its length: the credit with the host of each
// frame loses as many bytes as the bundle has.
//
// A frame of version 7 that arrives at a NIC goes to a port or is dropped:
//
//	wire ──> as above, up to the length
//	         from the host and NIC of its source node? ───────────── no ──> XDP_DROP      stranger
//	         the destination node has a port here, as its record says? no ─> XDP_DROP      no_port
//	           └─ without headers to the outer end, and through it ────────> XDP_REDIRECT  direct
//
// The headers that lead to a host ([Way]) are the two Ethernet addresses. They may have the tag of
// a VLAN, and IP and UDP headers may follow. They are those of the way as a daemon's card knows it.
// The guard fills in lengths, source port and checksums. It cannot read a frame's bytes fast enough
// to sum them up, so the process writes their sum in front of the frame. A wrong sum harms nobody
// else. On arrival the frame's own checksum, or its seal, says whether it is whole.
//
// Credit bounds the work that an account can force on a host that does not want its frames. All
// ports of the account together may send that host 32 MiB, and then one byte in 1024 ns. A frame
// from that host for one of these ports gives all of the credit back. A host that answers therefore
// never causes a shortage: 32 MiB take 2.7 ms at 100 Gbit/s. The tc guard also gives each frame its
// account's hash, by which queueing disciplines such as fq_codel share a full NIC.
//
// During a capture ([Switch.StartCapture], capture.h) both programs put the frames that they saw
// into a ring in the kernel. Each is there as it left or came on the wire, or as it was dropped,
// with its counter. Without a capture the place of the ring is empty, and a frame costs one load of
// it. The ring is made for each capture. So a reader never sees frames of an earlier one, and a
// host without captures has no memory for it.
//
// There are two guards. The tc guard hands the frames of ports to the NIC's queueing discipline; an
// XDP program that redirects to a full NIC loses frames. But frames that a tc program redirects
// bypass generic XDP programs until they come to a wire. On a veth, as in a lab, the NIC program of
// the other host is generic. So where a NIC that is not a physical device is in generic mode, the
// guard is an XDP program in generic mode. The programs at inner ends are then in generic mode,
// too. That is the faster way on veth: a round trip of raw frames takes 3.2 us where all programs
// are generic, and 3.7 us where all are native. Otherwise the programs at inner ends are native,
// because frames that a native NIC program redirects reach only those. Guards of both kinds on one
// host do not reach each other's ports.
//
// # Hubs
//
// A router is a network namespace, or a machine with several NICs, with the hub program (hub.c) at
// each of its ports ([Hub]). It forwards frames as an Arctic router does: by a digit of the route,
// which it consumes (thesis 5.4). The route cannot be the header's, which a checksum covers and
// perhaps a seal. It is the destination address of the frame on its way:
//
//	0x0e | routers left | 30 route bits in network order, the lowest for the next router
//
// The first router writes it, from its table of the ways to stations, or the station has. The last
// router puts the address of the station back. The first test that fails decides, with a counter of
// the router ([HubCounters]):
//
//	port ──> EtherType 0x88B5? ─────────────────── no ──> XDP_PASS      passed
//	         in by a port of the router? ───────── no ──> XDP_DROP      of_no_port
//	         a station's, of its own address? ──── no ──> XDP_DROP      forged
//	         no route, and not for one station,
//	         or from another router? ───────────── yes ─> XDP_DROP      unrouted
//	         no route: in the table? ───────────── no ──> XDP_DROP      to_unknown
//	         routers left? ─────────────────────── no ──> XDP_DROP      exhausted
//	         at most 30 bits? ──────────────────── no ──> XDP_DROP      too_long_routed
//	         the port leads anywhere? ──────────── no ──> XDP_DROP      nowhere
//	         is it up, or another one that leads there? no XDP_DROP      down
//	         a station, and routers left? ──────── yes ─> XDP_DROP      too_long_routed
//	           └─ the rest of the route, or the station ─> XDP_REDIRECT  forwarded
//
// A bundle (arctic.PutBundle) has several frames, each with its own address, and is for 0x0f. The
// tests above decide about each of its frames. A router notes in the bundle by which port each
// frame leaves, so that the next one knows which are no longer the bundle's. Of one frame that is
// left only that frame goes on. A bundle for several ports is copied by the kernel, to all ports; a
// second program, at each port's way out, drops the copy of a port without a frame, and makes that
// of a port with one frame the frame (a devmap's program, Linux 5.8; copies, 5.13). It writes
// nothing, because copies may share their bytes. A bundle does not go back where it came from.
//
// So a forged route leads through 15 routers at most. The program keeps no level apart from the
// other: a redirect by XDP has no queue to choose.
//
// # Rules
//
//   - The program looks only at the frame, the queue it came in on and the maps. It writes nothing
//     but counters, credit and answers.
//   - [LoadNIC] loads; attaching, and putting sockets into [NIC.Sockets], is the caller's. The
//     program comes to the socket of a queue by the queue's number alone.
//   - The program sees frames in one buffer only. On an interface whose frames span several buffers
//     (an MTU above about a page) the driver refuses a native attach. With [Load.Frags] the same
//     program is loaded for frames of several buffers. "80 bytes or more" is then asked of the
//     first buffer, and the length of the whole frame.
//   - A frame with a VLAN tag is not FUNet's and passes, unless it is a datagram of [Load.VLAN]. A
//     NIC that strips tags in hardware hides them from XDP. Where FUNet shares an interface with
//     VLANs, switch that off (ethtool -K IF rxvlan off); otherwise frames of a VLAN are judged as
//     if they had no tag.
package bpf
