// Package registry keeps the table of a cluster in etcd: its hosts, the groups that its jobs have
// taken, and which key of the hosts is in use. A daemon with `peers: etcd://...` is a [Member] of
// such a table (package ctl/daemon). The keys, below the prefix that the URL names:
//
//	hosts/3        host 3: its name, address, encapsulation, and the life of its daemon. Its lease
//	               is the daemon's, so the key goes soon after the daemon
//	groups/17/3    the job of GID 17 on host 3: a fingerprint of GID and token, the user, and the
//	               nodes that are on that host. It has the same lease
//	groups/restored
//	               etcd was restored a moment ago. It has a lease of its own
//	epoch          the number of the key that hosts use, and its identity. An administrator writes
//	               it. No key is ever in etcd
//
// The journey of a value: client.go reaches etcd; session.go reads everything, takes this host's
// keys, and watches from that revision on; table.go keeps what was read, and makes the
// [cluster.File] that a peers file would have been; value.go reads and writes single values.
// groups.go takes GIDs and gives them back.
//
// Rules:
//   - Values are not trusted. They are bounded, and valid as a whole or not at all; an error begins
//     with the key's name. A host whose value is invalid, or contradicts that of a
//     host which was there before it, is not in the table; all others are.
//   - A GID is taken by writing a claim below groups/GID/ if none of another job counts there, and
//     looking again at the revision of that write. So of two jobs that take a GID at once the later
//     one sees the earlier one, and gives way. The hosts of one job have the same fingerprint, and
//     share the GID. What does not count may change meanwhile as it likes: a host that writes below
//     a GID without end, more than can be read, keeps no job from it. Then the claims of hosts are
//     read by their names, and hosts/ in at most mostPages pages, between which other keys are
//     passed over. Behind those the names of hosts are asked for one by one. So all hosts are
//     found, and others' keys below hosts/ cost a job the same, however many they are.
//   - A host takes GIDs only for itself: a key groups/17/3 counts only if its lease is that of
//     hosts/3. The first mostClaims keys of a host count, so one host that lies leaves half of all
//     GIDs to the others.
//   - More than mostEvents changes in a second are not followed, nor such as are longer than etcd
//     may answer at once. The watch ends then, and the table is read now and then until there are
//     fewer: a host that writes without end costs the others little. A page that is too long is
//     cut. Join fails with ErrSilent if no etcd answers, so that its caller can try again.
//   - While etcd is away nothing changes: hosts and groups stay as they were. [Member.Take] waits
//     for etcd within the caller's time.
//   - A lease that etcd has ended while its daemon lived is replaced. The daemon then takes its own
//     keys again. If another host has the number, or another job a GID, that one keeps it: the
//     member reports the number (Take fails), and the groups that are lost ([Member.Lost]).
//   - A daemon that finds hosts/N of its own address takes it over with its lease, because the
//     daemon before it is dead. Groups of that daemon that are not taken again go with
//     [Member.Sweep].
//   - After each break of a connection to a member of etcd everything is read anew. etcd's client
//     does not tell of breaks, so breaks (client.go) counts connections.
//   - An etcd that was restored from a copy has a lower revision than was seen, or other values in
//     revisions that were seen. The log has that. Each member writes its keys again, with its
//     present lease. For a lease's time and mostPause no member takes a GID for a new job, so that
//     all have written theirs before. The first to notice writes the key groups/restored with a
//     lease of that time: a member that joins meanwhile waits as well. A member heeds such a key
//     once, soon after it has joined: a host that lies costs each start one wait. In the short
//     moment before a member notices, a job of a daemon that starts may get the GID of another,
//     which then goes on as lost. The same goes for an etcd that was restored without a revision
//     that a member has seen.
//   - An etcd of another cluster ID is refused until the daemon is restarted.
//
// Every function may be called from any goroutine.
package registry
