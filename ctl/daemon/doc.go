// Package daemon is the body of funid: the card as a service. One daemon on a host owns
// the interfaces; processes without any privilege attach to it through a Unix socket
// (package attach), share memory with its card (package funi), and talk without it.
//
// The journey of a process, file by file:
//
//	listen.go      the socket, which everybody may connect to
//	admit.go       connections come in, at a door for each user; closing.go closes the others
//	users.go       who has connected, as the kernel says (SO_PEERCRED), for whom that counts
//	               (accounts.go), which rule is his, what he uses already, and what nobody
//	               alone can take (reserve.go)
//	connection.go  its requests, one after the other, not too fast (pace.go); its end frees
//	               everything
//	jobs.go        a group with token and routes: made by a launcher, joined by who shows
//	               the token, and gone with the launcher's connection; ended.go is why, for who comes too late
//	attachment.go  memory made and sealed (memory.go), attached to the card, passed on;
//	               segment.go is more of it, bells.go the doorbell page of each user
//	loop.go        the card's thread: engine, ports, wake-ups; rest.go is when it sleeps,
//	               priority.go that it comes before other threads, moderate.go that it leaves
//	               the processor to others where users share it, fault.go what becomes of
//	               memory that fails under it
//	share.go       groups in turn, where the card has room for few contexts
//
//	links.go       the interfaces: what the card is plugged into (package plug), and which jobs need it;
//	               follow.go is the thread that follows them when they go away, come back or change,
//	               sockets.go where it gets AF_XDP sockets from when the daemon may make none any more
//	members.go     the peers: those of the peers file, which is followed, and those that were found
//	hello.go       saying hello to other cards: who is there, and, if it is wanted, who is on the segment
//	capture.go     frames, for an administrator who captures (package ctl/capture)
//	trace.go       single packets of who asks, stage by stage (package ctl/trace)
//
// and beside them: daemon.go (start and clean stop), config.go and parse.go, own.go (which node this host is), members.go
// (hosts that come and go), admin.go,
// status.go and traffic.go, metrics.go, log.go, privileges.go (capabilities), service.go (systemd), and watch.go, for
// kernels whose memory can have holes.
//
// A configuration file, in which every key may be left out but peers, or card, discover and interfaces in its place:
//
//	socket: /run/funet/funid.sock
//	card: 0                     # number of this host in the peers file; default: the node whose address this host has
//	peers: peers.yaml           # beside this file; see package cluster
//	discover: lab-2             # name of a cluster: find its hosts on the segments of the interfaces, besides those in peers
//	interfaces: [eth1]          # default: those that the peers file names, or that with this host's address there
//	key: funet.key              # a file beside this one that all hosts share, where peers names none; default: none
//	encrypt: true               # false: with a key, authenticate frames and leave them readable, to hosts that say the same
//	encap: ethernet             # ethernet, or udp: over routers; default: as the peers file says
//	port: 30600                 # of encap udp; default: as the peers file says, or this
//	xdp: auto                   # auto, native, generic
//	bind: auto                  # auto, copy, zero-copy
//	huge_pages: false
//	jumbo: false                # frames as long as the MTU allows, to hosts that have it, too
//	vlan: 5                     # that frames are tagged with; none. On an interface such as eth0.5 the kernel does that
//	queue: 1                    # the one that frames leave on, and are steered to where the NIC can; default: all
//	cpu: 3                      # processor of the card's thread; default: none in particular
//	memory: auto                # auto, immutable, watched; see memory.go
//	polling: adaptive           # adaptive, spin, sleep
//	profile: native             # or a file of limits; see profile.go
//	slots: 1024                 # of each queue, for programs that do not say
//	peer_timeout: 5s            # after which a silent host is given up
//	connect_timeout: 30s        # the same for one that was never heard, or a process that never attached
//	drain: 1s                   # how long a stop waits for what is under way
//	metrics: 127.0.0.1:9464     # or unix:/run/funet/metrics.sock; default: none
//	log_format: text            # text, json; see log.go
//	log_level: info             # debug, info, warn, error
//	administrators: {users: [alice], groups: [wheel], root: true}   # root: false, and root is none
//	subuid: /etc/subuid         # whose subordinate numbers count for whom
//	most_memory: 16GiB          # shared with all processes together; default: 3/4 of the machine's
//	rules:                      # the first that matches a user is his; default: the last one here
//	  - {users: [bob, 1001], groups: [hpc], gids: [1-100, 200], contexts: 16, jobs: 8, connections: 64, bytes: 1GiB,
//	     total: {contexts: 128, jobs: 64, connections: 512, bytes: 8GiB}}
//	  - {gids: [1-2047], contexts: 64, jobs: 64, connections: 256, bytes: 256MiB}
//
// A rule says what each user may have, and total what all together may whose rule it is. The
// default of total is 16 times what one may in a rule that names groups, and none in another.
//
// Rules:
//   - Only the card's thread touches engine and ports; connections ask it to, through a
//     bounded mailbox, and it carries out a bounded number of requests between two steps.
//   - A process can make the daemon do nothing but work in proportion: nothing that it maps
//     or holds a descriptor of lets it stop the card's thread, shrink memory under it, make holes
//     there, or be taken for another. A fault in its memory ends its context. It has at most as many connections, jobs, contexts and bytes as
//     its user's rule says, and all of them end with its connection.
//   - Who he is is a user's number, as the daemon's own user namespace has it. Numbers that
//     the file of subordinate numbers (subuid(5)) gives a user count for him in everything: what
//     he has, the time of his requests, and his part of the card's time. They have the rule
//     that names him, besides their own. Each range that is root's counts as a user.
//   - Of the last quarter of the card's contexts, groups, memory and descriptors a user gets
//     only what leaves at least as much free as he then has. So nobody alone takes everything,
//     whatever his rule says, and who has nothing yet finds room.
//   - What a connection costs is its user's: it waits at his door until he has paid for those
//     before it, and beyond what his rule allows it is refused there. The accept loop waits
//     for nobody, and the daemon's other threads give way to the card's (their nice value is
//     greater by 5); the status says so, or why not.
//   - Whoever is killed is noticed by the kernel closing his socket. What was on the way to him
//     comes back to its senders at once, with arctic.ReasonNoContext. Before a member of a
//     job has attached, messages for it wait, connect_timeout from the first: it may have died
//     with a daemon before this one (engine.Card.Expect).
//   - Hosts join, leave and move while the daemon runs: it follows its peers file. What waits
//     for a host that left comes back to its senders at once, with arctic.ReasonDeparted.
//   - With discover it finds, and is found by, daemons of a cluster of the same name on its segments, which need
//     nobody's address, only a card number of their own. Whoever is on the segment is trusted in that, where there is no key: he can be any card that nobody
//     else is. What the peers file says of a card is never changed by what is heard. A
//     host that was found and is silent stays a peer until it says goodbye, as a daemon that is stopped does, or
//     another that answers has its number. What cannot be, two hosts with one number, another version
//     or cluster, is a line of the log and of the status, each once.
//   - It answers the hellos of others, also where nobody is to be found, and asks its peers, one at a time and 20 a second
//     at most, so the status says of each when it last answered and how long that took: through both ports and both cards'
//     threads, and so proof that frames pass.
//   - An interface may go away and come back, or change; then no restart is needed. While it is down what is sent is lost
//     and sent again, and jobs live as long as peer_timeout allows. A job that needs one which is gone, or
//     whose MTU is too small, ends, and its processes read why (funi.Page.Why); no new one is made over it until it
//     is back, and who asks hears why. Changes, as many as somebody likes to make, take time of the thread that
//     follows them and not of the card's.
//   - A full mailbox makes connections wait; a process that takes no answer for a second
//     is disconnected; a process without a wake-up left in its pipe needs none.
//
// Where this differs from idea 8 of the design: the interfaces let in frames of all groups
// that the peers send, not only of those that are here, and the card answers them. The NIC program filters
// what is malformed or of another version, no groups. Were a group closed in it, a frame for it would
// have no answer, and hold up the sequence that all groups of two cards share, for
// PeerTimeout: any user could stop all others between two hosts, with a job that he makes on
// one of them only. For the program to answer in the driver it would have to know the state of
// the sequence, which is the card's.
package daemon
