package daemon

// This file tells the processes of direct jobs, which have cards of their own, when one of them has
// ended or is back. Otherwise its peers would notice only after peer_timeout that it has died.
//
//	a process ends ──> its connection ends (endPort)
//	  ├──> members on this host, by their connections (attach.Fate) ──> their cards
//	  │    (uspace/card, fate.go)
//	  └──> daemons of the job's other hosts (notice.go) ──> their members
//
// A process that takes the place of one that has ended is announced in the same way. A process
// whose peer is silent may ask whether the peer lives (attach.Doubt). The daemon of the peer's host
// answers: it lives, which gives it connect_timeout, or it does not.
//
// A daemon believes a host only about the nodes that the job has there. Notices may come late,
// twice, out of order or not at all. So they name the process by the incarnation of its card, and a
// notice older than the last about the node changes nothing. Three kinds of notice are lost: those
// of a daemon that is being replaced, those that find no room, and those of a silent host. The next
// daemon makes up for the first kind (disinherit). For a lost notice of an end, peers wait for
// peer_timeout.
//
// A notice is paid for by the user whose process it is about, and a question by the user who asks.
// Notices from other hosts are paid for by the user whose job it is. A job has at most 10,000 of
// them a second, and at most 1,000 questions.

import (
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/funet/funet/ctl/ports"
	"github.com/funet/funet/uspace/attach"
)

const (
	// A job earns one notice from other hosts in noticeGap, and memberGap more for each member on
	// this host that is told. It may save as many as are earned in burst.
	noticeGap, memberGap = 100 * time.Microsecond, 10 * time.Microsecond
	// doubtGap is the time in which a job earns a question of its processes here; it may save too.
	doubtGap     = time.Millisecond
	postPatience = time.Second // how long a notice waits for room
	postAtOnce   = 8           // the number of cards that one command of the card's thread tells
)

// fates holds what a daemon knows of the processes of a direct job. Daemon.mu guards it. The number
// of nodes of the job bounds it.
type fates struct {
	hosts []uint16               // the other cards of the job
	lives map[uint16]uint32      // by node: incarnations of cards with ports here
	known map[uint16]attach.Fate // by node: the last fate that was told
	heard debt                   // for notices of other hosts
	asked debt                   // for questions of its processes here
}

// newFates returns the fates of a job without processes.
func newFates(cards []uint16, own uint16) fates {
	f := fates{lives: map[uint16]uint32{}, known: map[uint16]attach.Fate{}}
	seen := map[uint16]bool{own: true}
	for _, card := range cards {
		if !seen[card] {
			seen[card] = true
			f.hosts = append(f.hosts, card)
		}
	}
	return f
}

// born records that a node of this host has a new process. If an earlier process of the node is
// known to have ended, it returns the news that a process is back; else nil.
func (d *Daemon) born(j *job, node uint16, life uint32) *attach.Fate {
	d.mu.Lock()
	defer d.mu.Unlock()
	j.lives[node] = life
	last, known := j.known[node]
	if !known || last.Lives {
		return nil
	}
	f := d.decide(j, node, life, true)
	return &f
}

// died records that a process of this host has ended, and returns that news.
func (d *Daemon) died(j *job, node uint16, life uint32) attach.Fate {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(j.lives, node)
	return d.decide(j, node, life, false)
}

// decide makes and numbers news about a node of this host. The caller holds mu.
func (d *Daemon) decide(j *job, node uint16, life uint32, lives bool) attach.Fate {
	d.decided = max(d.decided+1, uint64(time.Now().UnixNano()))
	f := attach.Fate{Node: node, Lives: lives, Life: life, Order: d.decided}
	j.known[node] = f
	return f
}

// spread tells members and hosts the fate of a process of this host. The connection pays.
func (c *connection) spread(j *job, f attach.Fate) {
	c.d.paid(c.purse, func() { c.d.tellMembers(j, f) })
	c.tellHosts(j.hosts, noticeOfFate(j, f), postPatience)
}

// tellMembers tells the processes of a job on this host.
func (d *Daemon) tellMembers(j *job, f attach.Fate) {
	d.mu.Lock()
	var members []*connection
	for node, c := range j.members {
		if node != f.Node && c.follows.Load() && !j.ending {
			members = append(members, c)
		}
	}
	d.mu.Unlock()
	message := f.Encode()
	for _, c := range members {
		c.tellFate(message)
	}
}

// tellFate tells the connection's process, if there is room: one that does not read is not told.
func (c *connection) tellFate(message []byte) {
	if !c.sendAtOnce(message, nil) {
		c.d.loop.post.unheard.Add(1)
	}
}

// tellHosts has daemons told. It waits for room for as long as patience. The connection pays.
func (c *connection) tellHosts(cards []uint16, n *notice, patience time.Duration) {
	l := c.d.loop
	for until := time.Now().Add(patience); len(cards) > 0; {
		told := 0
		if c.onCard(nil, func() { told = l.send(n, cards[:min(len(cards), postAtOnce)]) }) != nil {
			return
		}
		cards = cards[told:]
		if told == 0 && (time.Now().After(until) || !c.d.sleep(time.Millisecond)) {
			l.post.unheard.Add(uint64(len(cards)))
			return
		}
	}
}

// paid runs f on behalf of an account, and charges it the processor time.
func (d *Daemon) paid(purse *purse, f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := ports.ThreadTime()
	f()
	d.pay(purse, costFactor*(ports.ThreadTime()-began))
}

// hearFates has the connection's process told of fates from now on, and at once of those members
// that have ended.
func (c *connection) hearFates(j *job) {
	c.follows.Store(true)
	c.d.mu.Lock()
	var known []attach.Fate
	for _, f := range j.known {
		if !f.Lives {
			known = append(known, f)
		}
	}
	c.d.mu.Unlock()
	for _, f := range known {
		c.tellFate(f.Encode())
	}
}

func (c *connection) doubt(q *attach.Doubt) error {
	p := c.itsPort()
	switch {
	case p == nil || int(q.Node) >= len(p.job.cards):
		return attach.ErrNode
	case !c.d.mayAsk(p.job):
		c.d.loop.post.unheard.Add(1)
		return nil
	}
	c.d.loop.post.doubtful.Add(1)
	if on := p.job.cards[q.Node]; on != c.d.cfg.Card {
		c.tellHosts([]uint16{on}, &notice{kind: asksLife, gid: p.job.gid, node: q.Node, tag: p.job.tag,
			life: q.Life}, 0)
		return nil
	}
	for _, f := range c.d.fatesOf(p.job, q.Node, q.Life) {
		c.tellFate(f.Encode())
	}
	return nil
}

// mayAsk reports whether a process of the job may ask, and counts the question.
func (d *Daemon) mayAsk(j *job) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	may := j.asked.wait(now) == 0
	if may {
		j.asked.add(now, doubtGap)
	}
	return may
}

// fatesOf answers a question about a process of this host. If it is there the answer says so. If it
// has ended the answer says that, and which process is there now. If no process of the node is
// known the answer is empty.
func (d *Daemon) fatesOf(j *job, node uint16, life uint32) (all []attach.Fate) {
	d.mu.Lock()
	defer d.mu.Unlock()
	there := j.lives[node]
	if held, ok := d.heirs.ports[place{j.gid, node}]; ok && held.Of.Job == j.key() {
		there = held.Ticket.Incarnation()
	}
	if there == 0 && !j.came[node] {
		return nil
	}
	if there != life {
		all = append(all, d.decide(j, node, life, false))
	}
	if there != 0 {
		all = append(all, d.decide(j, node, there, true))
	}
	return all
}

// hearNotices handles notices of other daemons, until the card's thread ends.
func (d *Daemon) hearNotices() {
	for {
		select {
		case n := <-d.loop.post.heard:
			d.hear(&n)
		case <-d.loop.ended:
			return
		}
	}
}

func (d *Daemon) hear(n *heardNotice) {
	j, count := d.believes(n)
	if j == nil {
		count.Add(1)
		return
	}
	purse := j.conn.purse
	if n.kind != asksLife {
		d.paid(purse, func() { d.tellMembers(j, n.fate()) })
		return
	}
	for _, f := range d.fatesOf(j, n.node, n.life) {
		answer := noticeOfFate(j, f)
		// The command is the daemon's own: the user's others, which may be many, would have all
		// notices wait.
		c := &command{do: func() {
			if d.loop.send(answer, []uint16{n.from}) == 0 {
				d.loop.post.unheard.Add(1)
			}
		}}
		if d.loop.carryOut(c) == nil {
			d.pay(purse, costFactor*c.took)
		}
	}
}

// believes checks a notice. It returns its job and records the fate, or returns the counter of the
// reason why it is not believed.
func (d *Daemon) believes(n *heardNotice) (*job, *atomic.Uint64) {
	p := d.loop.post
	d.mu.Lock()
	defer d.mu.Unlock()
	j := d.jobs[n.gid]
	if j == nil || !j.direct || !j.made || j.ending || j.tag != n.tag {
		return nil, &p.strange
	}
	on := n.from // whose process it is
	if n.kind == asksLife {
		on = d.cfg.Card
	}
	if int(n.node) >= len(j.cards) || j.cards[n.node] != on || !slices.Contains(j.hosts, n.from) {
		return nil, &p.refused
	}
	now := time.Now()
	if j.heard.wait(now) > 0 {
		return nil, &p.unheard
	}
	j.heard.add(now, noticeGap+memberGap*time.Duration(len(j.members)))
	if n.kind == asksLife {
		return j, nil
	}
	if j.known[n.node].Order >= n.order {
		return nil, &p.late
	}
	j.known[n.node] = n.fate()
	return j, nil
}
