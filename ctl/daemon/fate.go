package daemon

// This file is what becomes of the processes of direct jobs, which have cards of their own, told to
// those who talk to them: nobody else would notice before peer_timeout that one has died.
//
//	a process ends ──> its connection ends (endPort)
//	  ├──> members on this host, by their connections (attach.Fate) ──> their cards
//	  │    (uspace/card, fate.go)
//	  └──> daemons of the job's other hosts (notice.go) ──> their members
//
// A process that takes the place of one that has ended is told of in the same way. A process whose
// peer is silent may ask whether that lives (attach.Doubt): the daemon of the peer's host says so,
// which gives the peer connect_timeout, or that it does not.
//
// A daemon believes a host about the nodes that the job has there and about no others. Notices may
// come late, twice, out of order or not at all: they name the process by the incarnation of its
// card, and what is older than the last about the node changes nothing. Lost is one that a daemon
// would have sent that is being replaced, for which the next one looks (disinherit), or that finds
// no room, or a host that is silent; then peer_timeout is what there was before.
//
// What it costs is paid by the user whose process it was, who asks, or, of what other hosts say,
// whose job it is; of that a job has at most 10,000 a second, and of questions 1,000.

import (
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/funet/funet/ctl/ports"
	"github.com/funet/funet/uspace/attach"
)

const (
	// noticeGap is the time in which a job earns a notice from other hosts, besides memberGap for
	// each member on this one who is told; it may save as many as are earned in burst.
	noticeGap, memberGap = 100 * time.Microsecond, 10 * time.Microsecond
	// doubtGap is the time in which a job earns a question of its processes here, the same way.
	doubtGap = time.Millisecond
	// postPatience is how long a notice waits for room.
	postPatience = time.Second
	// postAtOnce is how many cards a command of the card's thread tells.
	postAtOnce = 8
)

// fates is what a daemon knows of the processes of a direct job. Daemon.mu guards it. It is bounded
// by the nodes of the job.
type fates struct {
	hosts []uint16               // the other cards of the job
	lives map[uint16]uint32      // by node: those that have ports here
	known map[uint16]attach.Fate // by node: the last that was told
	heard debt                   // for what other hosts say
	asked debt                   // for questions of its processes here
}

// newFates is of a job that nobody has joined.
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

// born notes the life of a node of this host, and returns what is to be told: that it is there, if
// an earlier one is known to have ended; nil: nothing.
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

// died is the same of a life that has ended.
func (d *Daemon) died(j *job, node uint16, life uint32) attach.Fate {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(j.lives, node)
	return d.decide(j, node, life, false)
}

// decide makes news of a node of this host. The caller holds mu.
func (d *Daemon) decide(j *job, node uint16, life uint32, lives bool) attach.Fate {
	d.decided = max(d.decided+1, uint64(time.Now().UnixNano()))
	f := attach.Fate{Node: node, Lives: lives, Life: life, Order: d.decided}
	j.known[node] = f
	return f
}

// spread tells everybody what became of a process of this host. The connection pays.
func (c *connection) spread(j *job, f attach.Fate) {
	c.d.paid(c.purse, func() { c.d.tellMembers(j, f) })
	what := saysEnded
	if f.Lives {
		what = saysLives
	}
	c.tellHosts(j.hosts, &notice{what, j.gid, f.Node, j.tag, f.Life, f.Order}, postPatience)
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

// tellFate tells the connection's process, if there is room: who does not read learns nothing.
func (c *connection) tellFate(message []byte) {
	if !c.sendAtOnce(message, nil) {
		c.d.loop.post.unheard.Add(1)
	}
}

// tellHosts has daemons told, and waits for room for some time. The connection pays.
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

// paid carries something out for an account, which pays for the time of the processor.
func (d *Daemon) paid(purse *purse, f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := ports.ThreadTime()
	f()
	d.pay(purse, costFactor*(ports.ThreadTime()-began))
}

// hearFates has the connection's process told from now on, and of whom it should not wait for.
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

// doubt carries out KindFate.
func (c *connection) doubt(message []byte) error {
	q, err := attach.DecodeDoubt(message)
	if err != nil {
		return err
	}
	c.mu.Lock()
	p := c.port
	c.mu.Unlock()
	switch {
	case p == nil:
		return attach.ErrNode
	case int(q.Node) >= len(p.job.cards):
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

// mayAsk reports whether a process of the job may ask.
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

// fatesOf answers whether the process of a node of this host is one: that it is there; that it has
// ended, and which is there now; or nothing, if none is known to have been there.
func (d *Daemon) fatesOf(j *job, node uint16, life uint32) (all []attach.Fate) {
	d.mu.Lock()
	defer d.mu.Unlock()
	there := j.lives[node]
	if held, ok := d.heirs.ports[place{j.gid, node}]; ok && held.Of.Job == j.key() {
		there = attach.Ticket(held.Ticket).Incarnation()
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

// hearNotices takes what other daemons say, until the end.
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

// hear takes one.
func (d *Daemon) hear(n *heardNotice) {
	j, count := d.believes(n)
	if j == nil {
		count.Add(1)
		return
	}
	purse := j.conn.purse
	if n.kind != asksLife {
		d.paid(purse, func() {
			d.tellMembers(j, attach.Fate{Node: n.node, Lives: n.kind == saysLives, Life: n.life, Order: n.order})
		})
		return
	}
	for _, f := range d.fatesOf(j, n.node, n.life) {
		answer := notice{saysEnded, j.gid, n.node, j.tag, f.Life, f.Order}
		if f.Lives {
			answer.kind = saysLives
		}
		// The command is the daemon's own: the user's others, which may be many, would have all
		// notices wait.
		c := &command{do: func() {
			if d.loop.send(&answer, []uint16{n.from}) == 0 {
				d.loop.post.unheard.Add(1)
			}
		}}
		if d.loop.carryOut(c) == nil {
			d.pay(purse, costFactor*c.took)
		}
	}
}

// believes returns the job of a notice that is believed, or what counts it if none is. It notes
// what became of a process.
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
	j.known[n.node] = attach.Fate{Node: n.node, Lives: n.kind == saysLives, Life: n.life, Order: n.order}
	return j, nil
}
