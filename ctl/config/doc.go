// Package config reads funid's configuration file, for funid and for commands that look at it. The
// file names in its comments are those of package daemon, which checks the configuration as a whole
// and keeps to it.
//
// The journey: Load reads the file, and parse.go turns it into a File (file.go). Its words are in
// choices.go, and what users may use in rules.go.
//
// Every key may be left out but peers; card, discover and interfaces together can replace peers:
//
//	socket: /run/funet/funid.sock
//	card: 0                     # number of this host in the peers file; default: the node whose
//	                            # address this host has
//	peers: peers.yaml           # beside this file; see package cluster
//	                            # or a table: etcd://a:2379,b:2379/lab, see package registry
//	etcd: {ca: ca.pem, cert: host.pem, key: host.key, user: etcd.user, lease: 10s}
//	                            # how to reach it; default: no TLS, no user, 10s
//	discover: lab-2             # name of a cluster: find its hosts on the segments of the
//	                            # interfaces, besides those in peers
//	interfaces: [eth1]          # default: those that the peers file names, or that with this
//	                            # host's address there
//	key: funet.key              # a file beside this one that all hosts share, where peers names
//	                            # none; default: none
//	encrypt: true               # false: with a key, authenticate frames and leave them readable,
//	                            # to hosts that say the same
//	encap: ethernet             # ethernet, or udp: over routers; default: as the peers file says
//	port: 30600                 # of encap udp; default: as the peers file says, or this
//	xdp: auto                   # auto, native, generic
//	bind: auto                  # auto, copy, zero-copy
//	huge_pages: false
//	jumbo: false                # frames as long as the MTU allows, to hosts that have it, too
//	vlan: 5                     # that frames are tagged with; none. On an interface such as
//	                            # eth0.5 the kernel does that
//	queue: 1                    # the one that frames leave on, and are steered to where the NIC
//	                            # can; default: all
//	cpu: 3                      # processor of the card's thread; default: none in particular
//	memory: auto                # auto, immutable, watched; see memory.go
//	polling: adaptive           # adaptive, spin, sleep
//	carriage: daemon            # direct: jobs may have direct ports (port.go), or funid does not
//	                            # start; auto: where they carry frames (carriage.go)
//	helper: /run/funet-ports/socket   # that makes them, if it has a unit of its own; default:
//	                                  # funid starts one
//	profile: native             # or a file of limits; see profile.go
//	turns: alone                # together: groups for which a card has too little room take their
//	                            # turns at the same time on all hosts; see share.go
//	slots: 1024                 # of each queue, for programs that do not say
//	refused_accesses: count     # count, suspend: have a window suspended that forbids what others
//	                            # of the job want; see accesses.go
//	refused_limit: 1000         # how many accesses of one node are refused before it is
//	peer_timeout: 5s            # after which a silent host is given up
//	connect_timeout: 30s        # the same for one that was never heard, or a process that never
//	                            # attached
//	drain: 1s                   # how long a stop waits for what is under way
//	metrics: 127.0.0.1:9464     # or unix:/run/funet/metrics.sock; default: none
//	log_format: text            # text, json; see log.go
//	log_level: info             # debug, info, warn, error
//	administrators:             # root: false: uid 0 is not one
//	  {users: [alice], groups: [wheel], root: true}
//	subuid: /etc/subuid         # whose subordinate numbers count for whom
//	most_memory: 16GiB          # shared with all processes together; default: 3/4 of the
//	                            # machine's, or what its cgroups leave
//	rules:                      # the first that matches a user applies; default: the last here
//	  - {users: [bob, 1001], groups: [hpc], gids: [1-100, 200],
//	     contexts: 16, jobs: 8, connections: 64, bytes: 1GiB,
//	     total: {contexts: 128, jobs: 64, connections: 512, bytes: 8GiB}}
//	  - {gids: [1-2047], contexts: 64, jobs: 64, connections: 256, bytes: 256MiB}
//
// A rule limits each of its users, and total limits all of them together. The default of total is
// 16 times the limit of one user in a rule that names groups; in another rule there is no total.
package config
