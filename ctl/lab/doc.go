// Package lab makes small clusters of 2 to 16 hosts on one machine: each host is a network
// namespace, joined to the others by veth pairs.
//
// # The journey
//
// [Up] checks its [Options] and draws the plan. The plan has the interfaces, addresses and MACs of
// each host, and the two ends of each veth pair. For each host Up then starts a goroutine locked to
// an operating system thread of its own. The thread moves into a new network namespace and stays
// there. It does all work that concerns the host: a request goes to it over a channel, and the
// answer comes back ([Lab.Do], [Lab.Start]). The threads make the veth pairs, directly between the
// namespaces, and give them addresses. Up returns when every link is operational. No interface ever
// appears in the machine's own namespace.
//
// There are seven topologies. [Pair] is one cable between two hosts. [Bridge] has one more
// namespace, the hub, where a Linux bridge joins the cables of all hosts. [Mesh] has a cable for
// every two hosts. Host h has the MAC 02:46:55:00:hh:01 on its first interface and the address
// 198.18.0.(h+1)/24. RFC 2544 sets 198.18.0.0/15 aside for benchmarks. In a mesh, hosts i < j share
// the /30 at 198.18.(i+1).(4j), and the interface fuJ leads to host J. An idle lab is silent: IPv6
// is off, all neighbours and forwarding entries are static, and the bridge runs no protocol.
//
// In [Router] the hub routes IPv4 and IPv6 between the hosts. Host h is alone with the router on
// the networks 198.18.(100+h).0/24 and 2001:2:0:(h+1)::/64 (RFC 5180). The router has number 1
// there and the host 2. The host has static routes to the others through the router. Neighbours are
// found as elsewhere, by ARP and neighbour discovery. Only IP gets through, so peers files are for
// UDP datagrams.
//
// In [Star], [Hypercube], [FatTree] and [Butterfly] there is a namespace for each router. The hub
// program (package bpf) is attached to all of its ports, and forwards frames of FUNet by their
// routes. The wiring and the ways are those of package topology. The programs and their maps live
// as long as the interfaces. Whoever opens the lab later finds them there ([Lab.Routers],
// [Lab.SetWire]).
//
// # Two kinds
//
// An anonymous lab (without a name) exists only through the threads and file descriptors of this
// process. The children started in it die with the thread that forked them (Pdeathsig). So when the
// process ends, even by SIGKILL, the kernel removes everything. A child's own children are in its
// process group and end with [Lab.Close], but a SIGKILL of the owner reaches the child only.
//
// A named lab outlives its maker, until [Down]. Its namespaces are also bind-mounted as
// /run/netns/funet-NAME-0, -1, ... (and -hub), where ip-netns(8) finds them. Its state file
// /run/funet-labs/state/NAME.json is written before the first namespace is made, with the maker's
// process id and start time and the word "building". When everything works it becomes "up", without
// an owner. A lab is stale if its maker died first, or if its remover died or failed half-way.
// [RemoveStale] removes stale labs, and so does every [Up] of a named lab. A lock (flock) on the
// directory lets one process at a time read or write state or remove a lab. It is not held while a
// lab is built.
//
// # Daemons
//
// [Lab.StartDaemons] starts funid on every host; any user of the machine reaches them through
// [Sockets]. The files of a named lab's daemons are in /run/funet-labs/lab-NAME. Removing the lab
// ends the daemons (SIGTERM, some seconds, SIGKILL), even those of a lab whose maker died. It finds
// them by the configuration file on their command lines. The daemons of an anonymous lab are
// children like others. Their files are in /run/funet-labs/run-..., which is removed with the lab.
// If the maker was killed, making the next such lab or the next RemoveStale removes the folder
// (package scratch). [List] says which daemons of a lab have died.
//
// # The end
//
// [Down] ends the programs in a lab's namespaces, whoever started them: SIGTERM, two seconds,
// SIGKILL, until none is left. It finds processes by the namespace that they are in (the inode of
// /proc/PID/ns/net). It signals them by pidfds, so that it never hits another process. From inside
// a lab Down is refused.
//
// # Rules
//
//   - All methods may be called from any goroutine; requests to one host run one after another. A
//     function given to Do must not call Close, or Do or Start for the same host.
//   - A child sees the same /sys as with ip-netns exec: /sys/class/net has its namespace's
//     interfaces. For this each host's thread has a mount namespace of its own with a new /sys. It
//     lacks the mounts of the machine's own (/sys/fs/bpf, /sys/fs/cgroup).
//   - Up either makes everything or leaves nothing.
//   - Needs CAP_SYS_ADMIN and CAP_NET_ADMIN (root); otherwise [ErrPermission].
package lab
