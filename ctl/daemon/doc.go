// Package daemon is the body of funid: the card as a service. One daemon on a host owns the
// interfaces. Processes without any privilege attach to it through a Unix socket (package attach).
// They share memory with its card (package funi), and exchange messages through that memory.
//
// The journey of a process, file by file:
//
//	listen.go      makes the socket, to which everybody may connect
//	admit.go       admits connections, through a door for each user; closing.go closes the others
//	users.go       finds the user of a connection, as the kernel says (SO_PEERCRED), the account
//	               that the user counts for (accounts.go), its rule and its present use. A reserve
//	               keeps one user from taking everything (reserve.go, memory_limit.go)
//	connection.go  carries out the requests of a connection, those of a user one after the other
//	               and at a bounded rate (pace.go); the end of the connection frees everything
//	jobs.go        a job is a group with token and routes. A launcher makes it, processes that
//	               show the token join it, and it ends with the launcher's connection; ended.go
//	               tells latecomers why it ended
//	attachment.go  a context: its memory is made and sealed (memory.go), attached to the card and
//	               handed to the process. row.go has many contexts behind one connection.
//	               segment.go makes more memory, bells.go the doorbell pages of each user
//	loop.go        the card's thread: engine, ports, wake-ups. mailbox.go has users take turns at
//	               it, rest.go decides when it sleeps, and priority.go puts it before other
//	               threads. moderate.go has it leave the processor to others where users share it.
//	               fault.go handles memory that fails under it, and panics
//	accesses.go    counts misses of the card's tables and forbidden accesses, and may have the
//	               window suspended
//	port.go        direct ports, for jobs whose processes have cards of their own. carriage.go
//	               decides whether jobs may have them. helper.go starts the helper, the process
//	               that makes them, and is that process's main loop. resume.go takes over ports
//	               and jobs of the previous daemon. neighbours.go makes memory for two ports of
//	               this host
//	fate.go        tells processes with direct ports when one of their peers ends or is back;
//	               notice.go has the messages between daemons
//	share.go       gives groups turns (uspace/turns), where the card has room for few contexts
//
//	links.go       the interfaces that the card is plugged into (port/hello), and the jobs that
//	               need them. follow.go is the thread that follows interfaces when they go away,
//	               come back or change. sockets.go gets AF_XDP sockets for it when the daemon
//	               itself may no longer make any
//	members.go     the peers: those in the peers file, whose changes it follows, and those found.
//	               table.go follows a table in etcd instead, and takes GIDs there
//	presence.go    says which groups are here, for whose absence the NIC program answers
//	hello.go       hellos to other cards: which peers are there and, with discover, which hosts
//	               are on the segment
//	keys.go        reports this host's keys, and whether each peer's key agrees with this card's
//	capture.go     copies frames for an administrator who captures (package ctl/capture);
//	               capturedirect.go copies those of direct ports
//	trace.go       traces single packets of the user who asks, stage by stage (package ctl/trace)
//
// Beside them are daemon.go (start and clean stop), config.go, own.go (finds the node that this
// host is), admin.go, status.go and traffic.go, metrics.go, log.go, privileges.go (capabilities),
// service.go (systemd), and watch.go, for kernels where shared memory can have holes.
//
// Package config reads the configuration file, and package report has the documents in JSON.
//
// Rules:
//   - Only the card's thread touches engine and ports. Connections send it requests through a
//     mailbox, in which users take turns by measured time. Between two steps it carries out a
//     bounded number of them.
//   - A panic ends the context or the connection whose work it interrupted, and is counted and
//     logged. A panic outside such work ends the daemon.
//   - A process can only cause work in proportion to its own. Its mappings and descriptors do not
//     let it stop the card's thread, shrink memory under the card, make holes in that memory, or
//     pass for another process. A fault in its memory ends its context. The user's rule limits its
//     connections, jobs, contexts and bytes, and all of them end with its connection.
//   - A user is identified by its number in the daemon's own user namespace. The file of
//     subordinate numbers (subuid(5)) gives a user further numbers. They count as that user in
//     everything: in quotas, in the time of requests, and in the share of the card's time. The rule
//     that names the user applies to them as well as their own. Each range of root's counts as a
//     user.
//   - The last quarter of the card's contexts, groups, memory and descriptors is a reserve. A user
//     gets of it only an amount that leaves at least as much free as the user then has. So no user
//     alone takes everything, whatever its rule says, and a user who has nothing yet finds room.
//   - A process may be up to 1,024 nodes behind one connection (row.go). Each counts for the user
//     as a context of its own. The card's thread attaches and ends them in portions, and the user
//     rests after each. Rows and contexts that attach alone have separate numbers and reserves.
//   - A user pays for its connections. A connection waits at the user's door until the earlier ones
//     are paid for, and is refused there when the user's rule allows no more. The accept loop never
//     waits for a user. The daemon's other threads give way to the card's thread (their nice value
//     is greater by 5); the status says so, or why not.
//   - When a process is killed, the kernel closes its socket, and the daemon notices. Packets on
//     the way to the process come back to their senders at once, with arctic.ReasonNoContext.
//     Before a member of a job has attached, messages for it wait, for connect_timeout from the
//     first message: the member may have died with a previous daemon (engine.Card.Expect).
//   - A process with a direct port has a card of its own, so after its death no card rejects
//     packets for it. Instead the daemon tells the other processes of the job here, and the daemons
//     of the job's other hosts, which tell theirs. A daemon believes another only about the nodes
//     that the job has on that host. The dead process's user pays. A lost notice of an end costs
//     peer_timeout. A lost notice of a return costs connect_timeout, unless the process sends
//     something first.
//   - Hosts join, leave and move while the daemon runs: it follows its peers file. Packets that
//     wait for a host that left come back to their senders at once, with arctic.ReasonDeparted.
//   - With discover, daemons of a cluster of the same name find each other on their segments. They
//     need no addresses, only a card number each. Without a key discovery trusts everybody on the
//     segment: a host can be any card that no other host is. Hellos never change what the peers
//     file says. A host that was found and is silent stays a peer until it says goodbye, as a
//     daemon that is stopped does, or until another host that answers has its number. A
//     contradiction (two hosts with one number, another version or cluster) is reported once, in
//     the log and in the status.
//   - The daemon answers the hellos of others, also without discover, and asks its peers, one at a
//     time and at most 20 a second. So the status says when each peer last answered and how long
//     that took. An answer goes through both ports and both cards' threads, and proves that frames
//     pass.
//   - An interface may go away and come back, or change; no restart is needed. While the interface
//     is down frames are lost and sent again, and jobs live as long as peer_timeout allows. A job
//     that needs an interface which is gone, or whose MTU is too small, ends, and its processes
//     read why (funi.Page.Why). New jobs over the interface are refused with that reason until it
//     is back. However many changes there are, they take time of the thread that follows them, not
//     of the card's thread.
//   - A process that takes no answer for a second is disconnected. Further wake-ups for a process
//     whose pipe is full of them are dropped.
//
// The interfaces let in frames of all groups that the peers send, not only of the groups here, and
// the card answers them (design idea 8, uspace/DESIGN.md). The NIC program drops malformed frames
// and those of another version, whatever their group. If the program dropped a group, frames of
// that group would have no answer. They would hold up the sequence that all groups of two cards
// share, for PeerTimeout. So any user could stop all others between two hosts, with a job made on
// only one of them. A final answer needs the state of the sequence, which only the card has. So the
// program answers only frames whose senders then wait, and send them again (presence.go).
package daemon
