package daemon

// This file manages jobs. A job is a group with its token and its routes, and lasts as long as the
// connection that made it. A card knows of a group only while its job lasts.

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/uspace/engine"
)

// job is a group on this card.
type job struct {
	gid    uint16
	peer   *peer        // the process that made it
	rule   *config.Rule // of the process's user
	token  attach.Token
	tag    uint64   // in every frame, from token and GID
	cards  []uint16 // card of each node
	width  int      // how many cards these are
	secret []byte   // secret for a direct job's key; nil: its hosts have none
	direct bool     // its nodes have ports and no contexts (port.go)
	fates           // of a direct job: the fates of its processes (fate.go)

	// made is false until the card has its routes. Daemon.mu guards it and the fields below, except
	// those that belong to the card's thread.
	made    bool
	ending  bool
	members map[uint16]*connection // by node
	came    map[uint16]bool        // nodes that have attached, ended ones included
	signs   []sign                 // of nodes that have moved away
	conn    *connection

	why  string // reason of its end, for its processes; "": its launcher ended it
	lost error  // why another job of the cluster has the GID now (table.go); Daemon.mu guards it
	gone bool   // the card no longer has its routes; belongs to the card's thread
	// moved is the sum of traffic of the job's ended contexts; it belongs to the card's thread.
	moved engine.Traffic
	// faults counts what the card has reported of its processes; it belongs to the card's thread.
	faults report.Faults
}

func (c *connection) makeJob(r *attach.JobRequest) (err error) {
	d := c.d
	for node, card := range r.Cards {
		if !d.knows(card) {
			return fmt.Errorf("making a job whose node %d is on card %d, which the peers file of card %d does not have: %w", node, card, d.cfg.Card, attach.ErrRoute)
		}
	}
	if err := d.uncontested(r.Cards); err != nil {
		return fmt.Errorf("making a job: %w", err)
	}
	if err := d.reachable(r.Cards); err != nil {
		return fmt.Errorf("making a job: %w", err)
	}
	if err := c.agreed(r.Cards); err != nil {
		return fmt.Errorf("making a job: %w", err)
	}
	keyed := ""
	if r.Direct {
		if keyed, err = d.directly(r.Cards); err != nil {
			return fmt.Errorf("making a job of direct ports: %w", err)
		}
	}
	here := 0
	for _, card := range r.Cards {
		if card == d.cfg.Card {
			here++
		}
	}
	if here > c.rule.Contexts {
		return fmt.Errorf("making a job with %d nodes on this card as user %d, who may have %d contexts: %w", here,
			c.peer.uid, c.rule.Contexts, attach.ErrQuota)
	}
	c.mu.Lock()
	busy := c.job != nil || c.attachment != nil || c.port != nil
	c.mu.Unlock()
	if busy {
		return fmt.Errorf("making a job: %w", attach.ErrAttached)
	}
	j := &job{peer: &c.peer, rule: c.rule, token: r.Token, cards: r.Cards, direct: r.Direct, width: widthOf(r.Cards),
		members: map[uint16]*connection{}, came: map[uint16]bool{}, conn: c}
	if err := d.take(c.peer.account, c.rule, j.use()); err != nil {
		return fmt.Errorf("making a job: %w", err)
	}
	if j.direct {
		j.fates = newFates(j.cards, d.cfg.Card)
	}
	lives := d.lives(r.Cards)
	err = d.reserve(j, r.GID, lives)
	if err == nil {
		err = c.enlist(j, r.GID, lives)
	}
	if err != nil {
		d.give(c.peer.account, c.rule, j.use())
		return err
	}
	j.tag = arctic.JobTag(j.token[:], j.gid)
	if key, _ := d.cfg.keys.Load(keyed); key != nil { // complete has read it
		j.secret = key.Job(j.gid, j.token[:])
	}
	if j.direct {
		var spent time.Duration
		spent, err = d.openJob(j)
		c.spent += spent
	} else {
		err = c.routeJob(j)
	}
	if err == nil {
		d.mu.Lock()
		j.made = true
		d.mu.Unlock()
		err = d.reachable(r.Cards) // an interface went away, and failJobs did not see this job
	}
	if err != nil {
		d.endJob(j, err.Error())
		return fmt.Errorf("making a job: %w", err)
	}
	c.mu.Lock()
	c.job = j
	c.mu.Unlock()
	d.userLine(&c.peer, fmt.Sprintf("job %d is there, of %d nodes", j.gid, len(j.cards)), "job", j.gid)
	return c.send(attach.JobAnswer{GID: j.gid}.Encode())
}

func (c *connection) routeJob(j *job) error {
	routes := make([]uint32, len(j.cards))
	for node, card := range j.cards {
		routes[node] = uint32(card)
	}
	err := c.expect(j, true)
	if err == nil {
		err = c.askCard(nil, func() error { return c.d.loop.card.SetGroupRoutes(j.gid, routes) })
	}
	return err
}

// expectAtOnce is how many nodes one command of the card's thread expects.
const expectAtOnce = 128

// expect has the card expect the nodes of a job that are to attach here, or no longer.
func (c *connection) expect(j *job, so bool) (err error) {
	for from := 0; from < len(j.cards) && err == nil; from += expectAtOnce {
		err = c.onCard(nil, func() {
			for node := from; node < min(from+expectAtOnce, len(j.cards)); node++ {
				if j.cards[node] == c.d.cfg.Card {
					c.d.loop.card.Expect(j.gid, uint16(node), j.tag, so)
				}
			}
		})
	}
	return err
}

// mostAbsent bounds how many nodes JobStatus names.
const mostAbsent = 4

// absent returns the first nodes on a card that have not yet attached. The caller holds Daemon.mu.
func (j *job) absent(card uint16) (nodes []uint16) {
	for node, at := range j.cards {
		if at == card && !j.came[uint16(node)] && len(nodes) < mostAbsent {
			nodes = append(nodes, uint16(node))
		}
	}
	return nodes
}

// knows reports whether a card of that number is in the list of peers.
func (d *Daemon) knows(card uint16) bool {
	peers := d.peers.Load().Peers
	return int(card) < len(peers) && !peers[card].Absent
}

// reserve finds the job's GID: the one that the job asks for, or a free one if gid is 0.
func (d *Daemon) reserve(j *job, gid uint16, lives *places) error {
	r := j.rule
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.replacing {
		return fmt.Errorf("making a job: the card's profile is being changed: %w", attach.ErrBusy)
	}
	if gid != 0 {
		switch {
		case gid > arctic.MaxGID || !r.Allows(gid):
			return fmt.Errorf("making a job with GID %d as user %d: %w", gid, j.peer.uid, attach.ErrForbidden)
		case !lives.allow(gid):
			return fmt.Errorf("making a job with GID %d, which has a node on card %d, whose groups are %v: %w", gid,
				lives.refuses(gid).Node, lives.refuses(gid).Groups, attach.ErrHost)
		case d.jobs[gid] != nil || d.heirs.others(gid, arctic.JobTag(j.token[:], gid)):
			return fmt.Errorf("making a job with GID %d: %w", gid, attach.ErrTaken)
		}
		return d.enter(j, gid)
	}
	// In turn, so that a GID is not used again at once: frames of its last job may be on the way.
	allowed, placed := false, false
	for range arctic.MaxGID {
		d.nextGID = d.nextGID%arctic.MaxGID + 1
		if !r.Allows(d.nextGID) {
			continue
		}
		allowed = true
		if !lives.allow(d.nextGID) {
			continue
		}
		placed = true
		if d.jobs[d.nextGID] == nil && !d.takenElsewhere(j, d.nextGID) && !d.heirs.others(d.nextGID,
			arctic.JobTag(j.token[:], d.nextGID)) {
			return d.enter(j, d.nextGID)
		}
	}
	switch {
	case !allowed:
		return fmt.Errorf("making a job as user %d, who may use no GID: %w", j.peer.uid, attach.ErrForbidden)
	case !placed:
		return fmt.Errorf("making a job as user %d, none of whose GIDs may live on all of its hosts: %w",
			j.peer.uid, attach.ErrHost)
	}
	return fmt.Errorf("making a job as user %d, whose GIDs are all in use: %w", j.peer.uid, attach.ErrTaken)
}

// enter gives a job its GID. The caller holds mu.
func (d *Daemon) enter(j *job, gid uint16) error {
	if err := d.arrive(gid); err != nil {
		return fmt.Errorf("making a job: %w", err)
	}
	j.gid = gid
	d.jobs[gid] = j
	return nil
}

// places is the set of GIDs that may live on all hosts of a job.
type places struct {
	limited []*cluster.Peer // its hosts that not all groups may live on, each once
	allowed gidSet
}

type gidSet [(arctic.MaxGID + 1) / 64]uint64

// lives finds the groups that may live on all of the cards.
func (d *Daemon) lives(cards []uint16) *places {
	l := &places{}
	for i := range l.allowed {
		l.allowed[i] = math.MaxUint64
	}
	peers, seen := d.peers.Load().Peers, map[uint16]bool{}
	for _, card := range cards {
		if int(card) >= len(peers) || peers[card].Groups == nil || seen[card] {
			continue
		}
		seen[card] = true
		l.limited = append(l.limited, &peers[card])
		var here gidSet
		for _, r := range peers[card].Groups {
			for gid := r.First; gid <= r.Last; gid++ {
				here[gid/64] |= 1 << (gid % 64)
			}
		}
		for i := range l.allowed {
			l.allowed[i] &= here[i]
		}
	}
	return l
}

// allow reports whether a group may live on all hosts.
func (l *places) allow(gid uint16) bool { return l.allowed[gid/64]>>(gid%64)&1 != 0 }

// refuses returns the first host that a group may not live on. There must be one.
func (l *places) refuses(gid uint16) *cluster.Peer {
	i := slices.IndexFunc(l.limited, func(p *cluster.Peer) bool { return !p.Lives(gid) })
	return l.limited[i]
}

// join checks that a process may be a node of a group, and the count-1 nodes behind it, with a port
// or with contexts, and adds them.
func (d *Daemon) join(c *connection, r *attach.AttachRequest, count int, direct bool) (*job, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	j, err := d.groupOf(c, r, direct)
	if err == nil && int(r.Node)+count > len(j.cards) {
		err = fmt.Errorf("its nodes are 0 to %d: %w", len(j.cards)-1, attach.ErrNode)
	}
	if err != nil {
		return nil, err
	}
	for i := range count {
		node := r.Node + uint16(i)
		switch {
		case j.cards[node] != d.cfg.Card:
			return nil, fmt.Errorf("node %d is on card %d, and this is card %d: %w", node, j.cards[node], d.cfg.Card,
				attach.ErrNode)
		case j.members[node] != nil:
			return nil, fmt.Errorf("node %d: %w", node, attach.ErrTaken)
		}
	}
	for i := range count {
		j.members[r.Node+uint16(i)], j.came[r.Node+uint16(i)] = c, true
	}
	return j, nil
}

// groupOf finds the group in which a process wants to be a node. The caller holds mu.
func (d *Daemon) groupOf(c *connection, r *attach.AttachRequest, direct bool) (*job, error) {
	j := d.jobs[r.GID]
	switch {
	case r.GID > arctic.MaxGID || !c.rule.Allows(r.GID):
		return nil, fmt.Errorf("GID %d as user %d: %w", r.GID, c.peer.uid, attach.ErrForbidden)
	case j == nil || !j.made || j.ending:
		return nil, d.ended.refusal(r.GID, r.Token)
	case !j.token.Equal(r.Token):
		return nil, attach.ErrToken
	case j.lost != nil:
		return nil, fmt.Errorf("its job has lost it while etcd was away: %w: %w", j.lost, attach.ErrTaken)
	case j.direct != direct:
		return nil, attach.ErrCarriage
	case int(r.Node) >= len(j.cards):
		return nil, fmt.Errorf("its nodes are 0 to %d: %w", len(j.cards)-1, attach.ErrNode)
	}
	return j, nil
}

// widthOf counts the cards of a job's nodes.
func widthOf(cards []uint16) int {
	sorted := slices.Clone(cards)
	slices.Sort(sorted)
	return len(slices.Compact(sorted))
}

// leave takes count nodes off the members of a job.
func (d *Daemon) leave(j *job, first uint16, count int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range count {
		delete(j.members, first+uint16(i))
	}
}

// endJob ends a job: it detaches its contexts, frees its group, and remembers the reason. A second
// call does nothing.
func (d *Daemon) endJob(j *job, why string) {
	d.mu.Lock()
	if j.ending {
		d.mu.Unlock()
		return
	}
	j.ending = true
	if j.made {
		d.ended.add(endedJob{j.peer.account, j.gid, j.token, why})
	}
	members := slices.Collect(maps.Values(j.members))
	d.mu.Unlock()
	for _, c := range members {
		c.detach(j)
	}
	d.mu.Lock()
	signs := j.signs
	j.signs = nil
	d.mu.Unlock()
	if j.direct && !d.stopping.Load() { // else it is for the next daemon
		spent, _ := d.cfg.Ports.RemoveJob(j.key()) // without a helper there is none
		d.pay(j.conn.purse, costFactor*spent)
	}
	_ = j.conn.expect(j, false) // a thread that has ended has no groups
	_ = j.conn.onCard(nil, func() {
		for _, s := range signs {
			d.loop.card.Detach(s.ctx)
		}
		_ = d.loop.card.SetGroupRoutes(j.gid, nil) // it always can be taken away
		j.gone = true
	})
	for _, s := range signs {
		d.give(s.account, s.rule, usage{contexts: 1})
	}
	d.mu.Lock()
	delete(d.jobs, j.gid)
	d.depart(j.gid)
	d.mu.Unlock()
	d.delist(j)
	d.give(j.peer.account, j.rule, j.use())
	ended := fmt.Sprintf("job %d has ended", j.gid)
	if j.why != "" {
		ended += ": " + j.why
	}
	d.userLine(j.peer, ended, "job", j.gid)
}
