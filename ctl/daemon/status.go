package daemon

// This file is the daemon's status. An ordinary user sees its own jobs and contexts and the card's
// sums, an administrator everything. traffic.go reports the card's traffic.

import (
	"cmp"
	"slices"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port/paths"
)

// Status is the JSON of an answer to KindStatus.
type Status struct {
	attach.Info
	Polling     string          `json:"polling"`
	Priority    string          `json:"priority"` // of the card's thread, in words
	Stopping    bool            `json:"stopping"`
	Connections int             `json:"connections"` // this one included
	Jobs        []JobCounted    `json:"jobs"`
	Contexts    []ContextStatus `json:"contexts"`
	Ports       []PortStatus    `json:"ports,omitempty"` // direct ones
	// Direct has the totals of all users; nil: there are no direct ports, or the helper does not
	// say.
	Direct *DirectStatus `json:"direct,omitempty"`
	// LeftOut counts jobs and contexts for which the answer has no room.
	LeftOut int `json:"left_out"`
	// Bytes is the size of the memory that processes share with the card.
	Bytes int64 `json:"bytes"`
	// Memory is the kind of that memory, and MemoryWhy says why it is not the best kind.
	// MemoryLocked says that all of it is locked, and MemoryFaults counts the contexts that ended
	// because memory failed or had holes.
	Memory       string `json:"memory"`
	MemoryWhy    string `json:"memory_why,omitempty"`
	MemoryLocked bool   `json:"memory_locked"`
	MemoryFaults uint64 `json:"memory_faults"`
	// Panics counts mistakes of the daemon that ended only a context or a connection; the log has
	// them.
	Panics   uint64           `json:"panics"`
	Counters *engine.Counters `json:"counters,omitempty"`
	// RefusedAccesses says how the daemon handles refused accesses to windows, in the
	// configuration's words.
	RefusedAccesses string       `json:"refused_accesses"`
	Peers           *Peers       `json:"peers,omitempty"`
	Links           []LinkStatus `json:"links"` // the interfaces
	// Encap says how frames travel. With UDP datagrams Paths counts the peers to which there is a
	// way. Missing lists peers without a way, or about which a router has complained, as many as
	// there is room for.
	Encap   string        `json:"encap"`
	Paths   int           `json:"paths,omitempty"`
	Missing []paths.State `json:"missing_paths,omitempty"`
	Hello   HelloStatus   `json:"hello"`
	// Notices counts notices between this daemon and others about processes with direct ports; nil:
	// there are no direct ports.
	Notices *NoticeCounters `json:"notices,omitempty"`
	// Keys are those that this host shares with others. KeysLeftOut counts those that had no room.
	Keys        []KeyStatus `json:"keys"`
	KeysLeftOut int         `json:"keys_left_out,omitempty"`
}

// JobStatus is a job.
type JobStatus struct {
	GID      uint16 `json:"gid"`
	UID      uint32 `json:"uid"`
	PID      int32  `json:"pid"` // of the process that made it
	Nodes    int    `json:"nodes"`
	Attached int    `json:"attached"` // on this card
	// Absent are the first mostAbsent nodes on this card that have not attached since the job was
	// made.
	Absent []uint16 `json:"absent,omitempty"`
	Direct bool     `json:"direct,omitempty"` // its nodes have direct ports
}

// JobCounted is a job with the traffic of its processes on this card since it was made, ended ones
// included.
type JobCounted struct {
	JobStatus
	Traffic engine.Traffic `json:"traffic"`
	// Faults counts for its processes on this card, ended ones included.
	Faults Faults `json:"faults"`
}

// ContextStatus is a context.
type ContextStatus struct {
	Context  uint32 `json:"context"`
	GID      uint16 `json:"gid"`
	Node     uint16 `json:"node"`
	UID      uint32 `json:"uid"`
	PID      int32  `json:"pid"`
	Slots    int    `json:"slots"`
	Segments int    `json:"segments"`
	Bytes    int64  `json:"bytes"`
	Active   bool   `json:"active"` // on the card, not switched out
	// Remote is its remote memory; nil: it has not asked for any.
	Remote *engine.RemoteUse `json:"remote,omitempty"`
}

// statusRoom is how many contexts an answer has room for, at less than 160 bytes each. In units of
// contexts, a job takes jobRoom, a context with remote memory remoteRoom, and a direct port
// portRoom. missingRoom is how many missing ways there is room for, at less than 600 bytes each.
// hello.go bounds peers and faults, keys.go keys. 6 KB are left for the counters and the interfaces
// with their reasons.
const (
	statusRoom  = 180
	jobRoom     = 4
	remoteRoom  = 6
	portRoom    = 3
	missingRoom = 16
)

// status carries out KindStatus.
func (c *connection) status() error { return c.answerJSON(attach.KindStatus, c.d.statusFor(c)) }

// statusFor collects the part of the status that the user may see.
func (d *Daemon) statusFor(asks *connection) Status {
	p := &asks.peer
	all := d.administrator(p)
	mine := func(account uint32) bool { return all || account == p.account }
	s := Status{Info: d.info(), Polling: d.cfg.Polling.String(), Priority: d.priority, Stopping: d.stopping.Load(),
		Jobs: []JobCounted{}, Contexts: []ContextStatus{},
		Memory: d.memory.kind.String(), MemoryLocked: d.memory.locked.Load(), MemoryFaults: d.loop.faults.Load(),
		Panics: d.panics.Load(), Links: d.linkStatus(),
		RefusedAccesses: d.cfg.Accesses.String()}
	if d.memory.why != nil {
		s.MemoryWhy = d.memory.why.Error()
	}
	var jobs []*job
	d.mu.Lock()
	for account, u := range d.users {
		if mine(account) {
			s.Connections += u.connections
			s.Bytes += u.bytes
		}
	}
	for _, j := range d.jobs {
		if mine(j.peer.account) {
			jobs = append(jobs, j)
			s.Jobs = append(s.Jobs, JobCounted{JobStatus: JobStatus{GID: j.gid, UID: j.peer.uid, PID: j.peer.pid,
				Nodes: len(j.cards), Attached: len(j.members), Absent: j.absent(d.cfg.Card), Direct: j.direct}})
		}
	}
	d.mu.Unlock()
	moved, faults := asks.jobTraffic(jobs)
	for i := range jobs {
		s.Jobs[i].Traffic, s.Jobs[i].Faults = moved[i], faults[i]
	}
	remote := map[int]*engine.Context{} // by index in s.Contexts
	for _, c := range d.allConnections() {
		if mine(c.peer.account) {
			if x, of, ok := c.contextStatus(); ok {
				if x.Remote != nil {
					remote[len(s.Contexts)] = of
				}
				s.Contexts = append(s.Contexts, x)
			}
		}
	}
	if len(remote) > 0 {
		_ = asks.onCard(nil, func() { // after the end nothing is open
			for i, of := range remote {
				*s.Contexts[i].Remote, _ = of.Remote()
			}
		})
	}
	s.ways(asks)
	s.Hello, s.Notices = asks.helloStatus(), d.loop.post.counters()
	s.Keys, s.KeysLeftOut = d.keyStatus()
	var n engine.Counters
	if asks.onCard(nil, func() { n = d.loop.card.Counters() }) == nil {
		s.Counters = &n
	}
	if look, err := d.lookAtPeers(); err == nil {
		s.Peers = &look.Peers
	}
	slices.SortFunc(s.Jobs, func(a, b JobCounted) int { return cmp.Compare(a.GID, b.GID) })
	slices.SortFunc(s.Contexts, func(a, b ContextStatus) int {
		return cmp.Or(cmp.Compare(a.GID, b.GID), cmp.Compare(a.Node, b.Node))
	})
	ports := 0
	s.Ports, ports = d.portStatus(mine)
	s.Direct = d.directStatus(asks.purse)
	s.crop()
	s.LeftOut += ports
	return s
}

// crop leaves as many jobs and contexts as there is room for. Jobs have half of the room, and the
// part that contexts do not need.
func (s *Status) crop() {
	room := statusRoom - portRoom*len(s.Ports)
	need := 0
	for i := range s.Contexts {
		need += s.Contexts[i].room()
	}
	jobs := min(len(s.Jobs), max(room/2, room-need)/jobRoom)
	contexts, left := 0, room-jobRoom*jobs
	for ; contexts < len(s.Contexts) && left >= s.Contexts[contexts].room(); contexts++ {
		left -= s.Contexts[contexts].room()
	}
	s.LeftOut = len(s.Jobs) - jobs + len(s.Contexts) - contexts
	s.Jobs, s.Contexts = s.Jobs[:jobs], s.Contexts[:contexts]
}

// room returns how much of statusRoom the context takes.
func (x *ContextStatus) room() int {
	if x.Remote != nil {
		return remoteRoom
	}
	return 1
}

// ways describes how frames travel, and lists the peers to which there is no way.
func (s *Status) ways(asks *connection) {
	d := asks.d
	s.Encap = d.cfg.Peers.Encap.String()
	var all []paths.State
	_ = asks.onCard(nil, func() { // there are none after the end
		for _, l := range d.links {
			if l.plugged != nil {
				all = append(all, l.plugged.Paths()...)
			}
		}
	})
	for _, way := range all {
		if way.Missing == "" {
			s.Paths++
		}
		if (way.Missing != "" || way.Heard != "") && len(s.Missing) < missingRoom {
			s.Missing = append(s.Missing, way)
		}
	}
}

// contextStatus describes the connection's context, if it has one. Remote stays empty, since only
// the card's thread knows it.
func (c *connection) contextStatus() (x ContextStatus, of *engine.Context, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.attachment
	if a == nil {
		return x, nil, false
	}
	x = ContextStatus{Context: a.ctx.Bell(), GID: a.job.gid, Node: a.node, UID: c.peer.uid,
		PID: c.peer.pid, Slots: a.slots,
		Segments: len(a.segments), Bytes: a.bytes, Active: a.active.Load()}
	if a.shared.Remote != (funi.RemoteSizes{}) {
		x.Remote = new(engine.RemoteUse)
	}
	return x, a.ctx, true
}
