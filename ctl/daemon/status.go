package daemon

// This file is the daemon's status. An ordinary user sees its own jobs and contexts and the card's
// sums, an administrator everything. traffic.go reports the card's traffic.

import (
	"cmp"
	"slices"

	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port/paths"
)

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

func (c *connection) status(*nothing) error {
	return c.answerJSON(attach.KindStatus, c.d.statusFor(c))
}

// statusFor collects the part of the status that the user may see.
func (d *Daemon) statusFor(asks *connection) report.Status {
	p := &asks.peer
	all := d.administrator(p)
	mine := func(account uint32) bool { return all || account == p.account }
	s := report.Status{Info: d.info(), Polling: d.cfg.Polling.String(), Priority: d.priority,
		Stopping: d.stopping.Load(), Jobs: []report.JobCounted{}, Contexts: []report.ContextStatus{},
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
			s.Jobs = append(s.Jobs, report.JobCounted{JobStatus: report.JobStatus{GID: j.gid, UID: j.peer.uid,
				PID: j.peer.pid, Nodes: len(j.cards), Attached: len(j.members), Absent: j.absent(d.cfg.Card), Direct: j.direct}})
		}
	}
	d.mu.Unlock()
	moved, faults := asks.jobTraffic(jobs)
	for i := range jobs {
		s.Jobs[i].Traffic, s.Jobs[i].Faults = moved[i], faults[i]
	}
	type user struct {
		i int // in s.Contexts
		*attachment
	}
	var remote []user
	for _, c := range d.allConnections() {
		if mine(c.peer.account) {
			if x, of, ok := c.contextStatus(); ok {
				for i := 0; x.Remote != nil && i < len(of); i++ {
					remote = append(remote, user{len(s.Contexts), of[i]})
				}
				s.Contexts = append(s.Contexts, x)
			}
		}
	}
	for some := range slices.Chunk(remote, looksAtOnce) {
		_ = asks.onCard(nil, func() { // after the end nothing is open
			for _, a := range some {
				u, _ := a.ctx.Remote()
				s.Contexts[a.i].Remote.Add(&u)
			}
		})
	}
	d.ways(&s, asks)
	s.Hello, s.Notices = asks.helloStatus(), d.loop.post.counters()
	s.Keys, s.KeysLeftOut = d.keyStatus()
	s.Table = d.tableStatus()
	var n engine.Counters
	if asks.onCard(nil, func() { n, s.Turns = d.loop.card.Counters(), d.turnsStatus() }) == nil {
		s.Counters = &n
	}
	if look, err := d.lookAtPeers(); err == nil {
		s.Peers = &look.Peers
	}
	slices.SortFunc(s.Jobs, func(a, b report.JobCounted) int { return cmp.Compare(a.GID, b.GID) })
	slices.SortFunc(s.Contexts, func(a, b report.ContextStatus) int {
		return cmp.Or(cmp.Compare(a.GID, b.GID), cmp.Compare(a.Node, b.Node))
	})
	ports := 0
	s.Ports, ports = d.portStatus(mine)
	s.Direct = d.directStatus(asks.purse)
	crop(&s)
	s.LeftOut += ports
	return s
}

// crop leaves as many jobs and contexts as there is room for. Jobs have half of the room, and the
// part that contexts do not need.
func crop(s *report.Status) {
	room := statusRoom - portRoom*len(s.Ports)
	need := 0
	for i := range s.Contexts {
		need += contextRoom(&s.Contexts[i])
	}
	jobs := min(len(s.Jobs), max(room/2, room-need)/jobRoom)
	contexts, left := 0, room-jobRoom*jobs
	for ; contexts < len(s.Contexts) && left >= contextRoom(&s.Contexts[contexts]); contexts++ {
		left -= contextRoom(&s.Contexts[contexts])
	}
	s.LeftOut = len(s.Jobs) - jobs + len(s.Contexts) - contexts
	s.Jobs, s.Contexts = s.Jobs[:jobs], s.Contexts[:contexts]
}

// contextRoom returns how much of statusRoom a context takes.
func contextRoom(x *report.ContextStatus) int {
	if x.Remote != nil {
		return remoteRoom
	}
	return 1
}

// ways describes how frames travel, and lists the peers to which there is no way.
func (d *Daemon) ways(s *report.Status, asks *connection) {
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

// turnsStatus describes how groups take turns, or returns nil if they do not. The card's thread
// calls it.
func (d *Daemon) turnsStatus() *report.TurnsStatus {
	if d.loop.share == nil && d.clock == nil {
		return nil
	}
	t := &report.TurnsStatus{Room: d.profileStatus().Contexts, Together: d.clock != nil}
	if d.clock != nil {
		state := d.clock.State(d.loop.clock())
		t.Card, t.Coordinated, t.Apart = state.Leader, state.Together, float64(state.Apart)/1e3
	}
	return t
}

// contextStatus describes the connection's context, if it has one, or its row. Remote stays empty,
// since only the card's thread knows it.
func (c *connection) contextStatus() (x report.ContextStatus, of []*attachment, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.attachment
	if a == nil {
		return x, nil, false
	}
	x = report.ContextStatus{Context: a.ctx.Bell(), GID: a.job.gid, Node: a.node, UID: c.peer.uid,
		PID: c.peer.pid, Slots: a.slots,
		Segments: len(a.segments), Bytes: a.bytes, Active: a.active.Load()}
	if a.shared.Remote != (funi.RemoteSizes{}) {
		x.Remote = new(engine.RemoteUse)
	}
	if a.row != nil {
		x.Contexts = len(a.row.contexts)
	}
	return x, a.all(), true
}
