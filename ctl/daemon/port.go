package daemon

// This file manages direct ports. A process of a direct job has a card of its own, on a port that
// the helper makes (package ports). The daemon does not see its frames. It admits processes, makes
// their memory, tells the switch where nodes are, counts what processes use, and ends their ports.
//
// Memory and context count for the user until no process has the port's socket any more, since the
// kernel keeps the memory until then.

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/ctl/ports"
	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/uspace/port/afxdp"
	"github.com/funet/funet/uspace/port/encap"
	"github.com/funet/funet/xdp"
)

// directPort is a port that a process has. connection.mu guards it.
type directPort struct {
	job  *job
	node uint16
	id   uint32 // number at the helper, which keeps the memory
	life uint32 // the incarnation of the process's card
	// returns is news for the job's other processes, told after the process's answer; nil: none.
	returns *attach.Fate
	use     usage
}

func (j *job) key() bpf.Job { return bpf.Job{Tag: j.tag, GID: j.gid} }

// directly refuses a job whose nodes cannot have ports: attach.ErrNoPort. It returns the file of
// the key that all its hosts share; "": they share none.
func (d *Daemon) directly(cards []uint16) (path string, err error) {
	if d.cfg.Ports == nil {
		if why := d.carriage().Why; why != "" {
			return "", fmt.Errorf("this host has none: %s: %w", why, attach.ErrNoPort)
		}
		return "", attach.ErrNoPort
	}
	peers, first := d.peers.Load(), true
	for _, card := range cards {
		p := present(peers, int(card))
		if p == nil || card == d.cfg.Card {
			continue
		}
		of := d.cfg.keyOf(peers, p)
		if !first && of != path {
			return "",
				fmt.Errorf("card %d has a key of its own with this host, and a job of direct ports has one key: %w",
					card, attach.ErrNoPort)
		}
		path, first = of, false
	}
	return path, nil
}

// portMTU returns the MTU of ports: the largest that fits all interfaces, in frames of one buffer.
func (d *Daemon) portMTU() int {
	mtu := ports.MaxMTU
	for _, l := range d.links {
		_, own := l.current()
		mtu = min(mtu, own-l.headers())
	}
	return mtu
}

// headers returns how many bytes of headers frames on an interface have that the card does not see.
func (l *link) headers() (n int) {
	if l.config.VLAN != 0 {
		n = afxdp.TagSize
	}
	if l.config.UDP != nil {
		n += encap.Overhead(l.config.UDP.Local)
	}
	return n
}

// placeOf returns the place of the nodes of another host; false: there is no way there now.
func (d *Daemon) placeOf(peers *cluster.File, p *cluster.Peer) (bpf.Place, bool) {
	to := d.cfg.peer(peers, p)
	l := d.links[to.Port]
	index, mtu := l.current()
	at := bpf.Place{NIC: uint32(index), Host: p.Node, Longest: mtu - l.headers() + arctic.EthernetSize}
	if l.config.UDP == nil {
		at.Way, at.Bundles = bpf.EthernetWay(to.Address, l.mac, l.config.VLAN), d.bundles(l)
		return at, true
	}
	path := l.path(p.Node)
	if path == nil {
		return at, false
	}
	at.From, at.Longest = p.Address.As16(), path.Longest()
	at.Head, at.IPSum, at.UDPSum = path.Headers()
	return at, true
}

// bundles reports whether ports send bundles by an interface.
func (d *Daemon) bundles(l *link) bool { return d.cfg.Peers.Encap == cluster.Hub && l.config.VLAN == 0 }

// listStations tells a process which nodes of its job are on one host, for bundles. All hosts in
// the list are behind one interface.
func (c *connection) listStations(*nothing) error {
	p := c.itsPort()
	if p == nil {
		return fmt.Errorf("listing hosts for a process without a port: %w", attach.ErrNode)
	}
	answer, err := attach.EncodeList(attach.KindStations, c.d.stations(p.job))
	if err != nil {
		return err
	}
	return c.send(answer)
}

// stations returns the host of each node of a job that frames in a bundle may be for.
func (d *Daemon) stations(j *job) []uint16 {
	peers, way := d.peers.Load(), -1
	hosts := make([]uint16, min(len(j.cards), attach.MaxStations))
	for node := range hosts {
		hosts[node] = attach.NoStation
		card := j.cards[node]
		peer := present(peers, int(card))
		if peer == nil || card == d.cfg.Card {
			continue
		}
		at := d.cfg.peer(peers, peer).Port
		if way < 0 && d.bundles(d.links[at]) {
			way = at
		}
		if at == way {
			hosts[node] = card
		}
	}
	if way < 0 || !d.cfg.Ports.Bundles() {
		return nil
	}
	return hosts
}

// use returns the use that a job counts as. That of a direct job includes its part of the switch's
// table in the kernel, 3.5 MiB at most.
func (j *job) use() usage {
	u := usage{jobs: 1}
	if j.direct {
		u.bytes = pages(int64(len(j.cards)) * bpf.PlaceSize)
	}
	return u
}

// openJob tells the switch of a direct job and of the places of its nodes. spent is processor time
// of the helper.
func (d *Daemon) openJob(j *job) (spent time.Duration, err error) {
	if !d.takeJob(j) {
		if spent, err = d.cfg.Ports.AddJob(j.key(), len(j.cards)); err != nil {
			return spent, err
		}
	}
	more, err := d.place(j)
	return spent + more, err
}

// place tells the switch the places of a job's nodes on other hosts. spent is the helper's time.
func (d *Daemon) place(j *job) (spent time.Duration, err error) {
	peers := d.peers.Load()
	var places []bpf.Place
	byCard, at := map[uint16]int{}, make([]int, len(j.cards))
	for node, card := range j.cards {
		i, known := byCard[card]
		if !known {
			i = -1
			if p := present(peers, int(card)); p != nil && card != d.cfg.Card {
				if to, ok := d.placeOf(peers, p); ok {
					i, places = len(places), append(places, to)
				}
			}
			byCard[card] = i
		}
		at[node] = i
	}
	return d.cfg.Ports.Place(j.key(), at, places)
}

// followPaths places the jobs anew when the ways to other hosts have changed.
func (d *Daemon) followPaths() {
	for {
		select {
		case <-d.quit:
			return
		case <-d.cfg.rerouted:
			d.placeJobs()
		}
	}
}

// placeJobs tells the switch the places of the nodes of all direct jobs anew, after hosts or
// interfaces have changed.
func (d *Daemon) placeJobs() {
	if d.cfg.Ports == nil {
		return
	}
	d.mu.Lock()
	var all []*job
	for _, j := range d.jobs {
		if j.direct && j.made && !j.ending {
			all = append(all, j)
		}
	}
	d.mu.Unlock()
	for _, j := range all {
		if _, err := d.place(j); err != nil {
			d.cfg.Logger.Warn(fmt.Sprintf("telling the switch where the nodes of job %d are: %v", j.gid, err),
				"job", j.gid)
		}
	}
}

func (c *connection) givePort(r *attach.AttachRequest) error {
	answer, memory, socket, err := c.newPort(r)
	if err != nil {
		return fmt.Errorf("making the port of node %d of group %d: %w", r.Node, r.GID, err)
	}
	err = c.send(answer.Encode(), memory.fd, socket)
	closeFD(socket)
	memory.close()
	if err == nil {
		c.isThere()
	}
	return err
}

// itsPort returns the connection's port; nil: it has none.
func (c *connection) itsPort() *directPort {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.port
}

// isThere begins the life of a process with a port, once it has its answer.
func (c *connection) isThere() {
	p := c.itsPort()
	if p == nil {
		return // its job has just ended
	}
	c.hearFates(p.job)
	if p.returns != nil {
		c.spread(p.job, *p.returns)
	}
}

// newPort makes the connection's port. The caller owns memory and socket.
func (c *connection) newPort(r *attach.AttachRequest) (a attach.PortAnswer, memory *region, socket int, err error) {
	d := c.d
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attachment != nil || c.job != nil || c.port != nil {
		return a, nil, -1, attach.ErrAttached
	}
	c.freeKept()
	j, err := d.join(c, r, 1, true)
	if err != nil {
		return a, nil, -1, err
	}
	mtu, mode := d.portMTU(), d.portMode()
	g := afxdp.GeometryFor(mtu)
	p := &directPort{job: j, node: r.Node, use: usage{contexts: 1, pieces: 1, bytes: pages(g.Bytes())}}
	if err = d.vacate(j, r.Node); err == nil {
		err = d.take(c.peer.account, c.rule, p.use)
	}
	if err != nil {
		d.leave(j, r.Node, 1)
		return a, nil, -1, err
	}
	a = attach.PortAnswer{GID: r.GID, Node: r.Node, Nodes: uint32(len(j.cards)), MTU: uint32(mtu), Geometry: g,
		Generic: mode == xdp.AttachGeneric, Sums: d.cfg.udpPort() != 0,
		PeerTimeout: d.cfg.PeerTimeout, ConnectTimeout: d.cfg.ConnectTimeout}
	_, _ = rand.Read(a.Ticket[:]) // it never fails
	if j.secret != nil {
		a.Key, a.Readable = j.secret, d.cfg.Readable
	}
	var made ports.Made
	if memory, err = d.memory.make("port", g.Bytes(), nil); err != nil {
		err = fmt.Errorf("%w: %w", attach.ErrFull, err)
	} else if made, err = d.cfg.Ports.Make(bpf.Port{Job: j.key(), Node: r.Node, Account: c.peer.account + 1},
		a.Ticket, memory.fd, g, mtu, mode); errors.Is(err, ports.ErrFull) {
		err = fmt.Errorf("%w: %w", attach.ErrFull, err)
	}
	c.spent += made.Spent
	if err != nil {
		if memory != nil {
			memory.close()
		}
		d.give(c.peer.account, c.rule, p.use)
		d.leave(j, r.Node, 1)
		return a, nil, -1, err
	}
	p.id, p.life = made.ID, a.Ticket.Incarnation()
	p.returns, c.port = d.born(j, r.Node, p.life), p
	c.enterPort(p)
	return a, memory, made.FD, nil
}

// endPort ends the connection's port, if it has one. When the daemon stops, it leaves the port to
// the next daemon. The caller holds mu.
func (c *connection) endPort() {
	p, d := c.port, c.d
	if p == nil {
		return
	}
	c.port = nil
	if d.stopping.Load() {
		return
	}
	d.loop.ports.Add(-1)
	ended := d.neighbours.leave(place{p.job.gid, p.node}, p.id)
	spent, err := d.cfg.Ports.End(p.id)
	d.giveShared(ended)
	d.pay(c.purse, costFactor*spent) // whoever's request it is in
	if err != nil {
		d.cfg.Logger.Warn(fmt.Sprintf("ending the port of node %d of job %d: %v", p.node, p.job.gid, err),
			"job", p.job.gid)
	}
	f := d.died(p.job, p.node, p.life) // before the next process of the node is there
	d.leave(p.job, p.node, 1)
	go func() { // of as many as his rule allows
		c.spread(p.job, f)
		d.awaitGone(p.id, c.purse)
		d.give(c.peer.account, c.rule, p.use)
	}()
}

// firstAsk and lastAsk bound the time between two questions whether a port is gone.
const firstAsk, lastAsk = time.Millisecond, 5 * time.Second

// awaitGone waits until no process has a port's socket any more, or the daemon ends. The port's
// user pays for the questions through its purse; nil: the port has no user yet.
func (d *Daemon) awaitGone(id uint32, whose *purse) {
	for pause := firstAsk; ; pause = min(2*pause, lastAsk) {
		gone, spent, err := d.cfg.Ports.Gone(id)
		if whose != nil {
			d.pay(whose, costFactor*spent)
		}
		if gone || err != nil {
			return // without a helper there are no ports
		}
		if !d.sleep(pause) {
			return
		}
	}
}

// detachPort ends the connection's port as its job j has ended, and tells the process. mu is held.
func (c *connection) detachPort(j *job) {
	if c.port == nil || c.port.job != j || c.d.stopping.Load() {
		return
	}
	c.endPort()
	why := j.why
	if why == "" {
		why = "the job has ended"
	}
	// else it is told by the end of its connection
	c.sendAtOnce(attach.EncodeRefusal(attach.KindPort, fmt.Errorf("%s: %w", why, attach.ErrGroup)), nil)
}

// mostPorts is how many ports an answer has room for.
const mostPorts = statusRoom / 4 / portRoom

// portStatus describes the ports of connections, in the order of groups and nodes, and counts those
// for which there is no room.
func (d *Daemon) portStatus(of func(account uint32) bool) (all []report.PortStatus, left int) {
	ids := map[place]uint32{}
	for _, c := range d.allConnections() {
		if !of(c.peer.account) {
			continue
		}
		if p := c.itsPort(); p != nil {
			all = append(all, report.PortStatus{GID: p.job.gid, Node: p.node, UID: c.peer.uid, PID: c.peer.pid,
				Bytes: p.use.bytes})
			ids[place{p.job.gid, p.node}] = p.id
		}
	}
	slices.SortFunc(all, func(a, b report.PortStatus) int {
		return (int(a.GID)-int(b.GID))<<16 + int(a.Node) - int(b.Node)
	})
	left = max(0, len(all)-mostPorts)
	all = all[:len(all)-left]
	with := d.neighbours.count()
	for i := range all {
		id := ids[place{all[i].GID, all[i].Node}]
		all[i].Shared = with[id]
		// it may just have ended
		if n, err := d.cfg.Ports.Counters(id); err == nil {
			all[i].Frames = &n
		}
	}
	return all, left
}

// portsOf counts the ports of the accounts that which accepts; nil: all ports.
func (d *Daemon) portsOf(which func(account uint32) bool) (n int) {
	for _, c := range d.allConnections() {
		if (which == nil || which(c.peer.account)) && c.itsPort() != nil {
			n++
		}
	}
	return n
}

// directStatus asks the helper. The account of the purse pays for that; nil: no account pays.
func (d *Daemon) directStatus(whose *purse) *report.DirectStatus {
	if d.cfg.Ports == nil {
		return nil
	}
	t, ok, err := d.cfg.Ports.Totals()
	if whose != nil {
		d.pay(whose, costFactor*t.Spent)
	}
	if err != nil || !ok {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return &report.DirectStatus{Ports: t.Ports, Kept: t.Kept, Frames: t.Frames, Orphaned: len(d.heirs.ports)}
}
