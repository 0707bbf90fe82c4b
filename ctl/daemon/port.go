package daemon

// This file is direct ports: a process of a direct job has a card of its own, on a port that the helper makes (package
// ports), and the daemon stands beside: it admits, makes the memory, tells the switch where nodes are, counts, and ends.
//
// Memory and context count for the user until nobody has the port's socket any more: the kernel keeps the memory as long.

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/ctl/ports"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/port/afxdp"
)

// directPort is a port that a process has. connection.mu guards it.
type directPort struct {
	job  *job
	node uint16
	id   uint32 // at the helper, which keeps the memory
	use  usage
}

// key names the job at the switch.
func (j *job) key() bpf.Job { return bpf.Job{Tag: j.tag, GID: j.gid} }

// directly refuses a job whose nodes cannot have ports: attach.ErrNoPort. It returns the file of the key that all of its hosts share; "": they have none.
func (d *Daemon) directly(cards []uint16) (path string, err error) {
	if d.cfg.Ports == nil {
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
			return "", fmt.Errorf("card %d has a key of its own with this host, and a job of direct ports has one key: %w", card, attach.ErrNoPort)
		}
		path, first = of, false
	}
	return path, nil
}

// portMTU returns the MTU of ports: what all interfaces have.
func (d *Daemon) portMTU() int {
	mtu := 1 << 16
	for _, l := range d.links {
		_, own := l.current()
		mtu = min(mtu, own)
	}
	return min(mtu, afxdp.MaxSingle-arctic.EthernetSize)
}

// openJob tells the switch of a direct job and where its nodes are.
func (d *Daemon) openJob(j *job) error {
	if !d.takeJob(j) {
		if err := d.cfg.Ports.AddJob(j.key(), len(j.cards)); err != nil {
			return err
		}
	}
	return d.place(j)
}

// place tells the switch where the nodes of a job are that are on other hosts.
func (d *Daemon) place(j *job) error {
	peers := d.peers.Load()
	var places []bpf.Place
	byCard, at := map[uint16]int{}, make([]int, len(j.cards))
	for node, card := range j.cards {
		i, known := byCard[card]
		if !known {
			i = -1
			if p := present(peers, int(card)); p != nil && card != d.cfg.Card {
				to := d.cfg.peer(peers, p)
				index, mtu := d.links[to.Port].current()
				i, places = len(places), append(places, bpf.Place{NIC: uint32(index), MAC: to.Address, Own: d.links[to.Port].mac, Longest: mtu + arctic.EthernetSize})
			}
			byCard[card] = i
		}
		at[node] = i
	}
	return d.cfg.Ports.Place(j.key(), at, places)
}

// placeJobs tells the switch anew where the nodes of all direct jobs are, after hosts or interfaces have changed.
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
		if err := d.place(j); err != nil {
			d.cfg.Logger.Warn(fmt.Sprintf("telling the switch where the nodes of job %d are: %v", j.gid, err), "job", j.gid)
		}
	}
}

// givePort carries out KindPort.
func (c *connection) givePort(message []byte) error {
	r, err := attach.DecodePortRequest(message)
	if err != nil {
		return err
	}
	answer, memory, socket, err := c.newPort(&r)
	if err != nil {
		return fmt.Errorf("making the port of node %d of group %d: %w", r.Node, r.GID, err)
	}
	defer closeFD(socket)
	defer memory.close()
	return c.send(answer.Encode(), memory.fd, socket)
}

// newPort makes the connection's port. Memory and socket are the caller's.
func (c *connection) newPort(r *attach.AttachRequest) (a attach.PortAnswer, memory *region, socket int, err error) {
	d := c.d
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attachment != nil || c.job != nil || c.port != nil {
		return a, nil, -1, attach.ErrAttached
	}
	c.freeKept()
	j, err := d.join(c, r, true)
	if err != nil {
		return a, nil, -1, err
	}
	mtu := d.portMTU()
	g := afxdp.GeometryFor(mtu)
	p := &directPort{job: j, node: r.Node, use: usage{contexts: 1, pieces: 1, bytes: pages(g.Bytes())}}
	if err = d.vacate(place{r.GID, r.Node}); err == nil {
		err = d.take(c.peer.account, c.rule, p.use)
	}
	if err != nil {
		d.leave(j, r.Node)
		return a, nil, -1, err
	}
	a = attach.PortAnswer{GID: r.GID, Node: r.Node, Nodes: uint32(len(j.cards)), MTU: uint32(mtu), Geometry: g}
	_, _ = rand.Read(a.Ticket[:]) // it never fails
	if j.secret != nil {
		a.Key, a.Readable = j.secret, d.cfg.Readable
	}
	var made ports.Made
	if memory, err = d.memory.make("port", g.Bytes(), nil); err != nil {
		err = fmt.Errorf("%w: %w", attach.ErrFull, err)
	} else if made, err = d.cfg.Ports.Make(bpf.Port{Job: j.key(), Node: r.Node}, ports.Ticket(a.Ticket), memory.fd, g, mtu); errors.Is(err, ports.ErrFull) {
		err = fmt.Errorf("%w: %w", attach.ErrFull, err)
	}
	c.spent += made.Spent
	if err != nil {
		if memory != nil {
			memory.close()
		}
		d.give(c.peer.account, c.rule, p.use)
		d.leave(j, r.Node)
		return a, nil, -1, err
	}
	p.id, c.port = made.ID, p
	return a, memory, made.FD, nil
}

// endPort ends the connection's port, if it has one; when the daemon stops, the port is for the next. The caller holds mu.
func (c *connection) endPort() {
	p, d := c.port, c.d
	if p == nil {
		return
	}
	c.port = nil
	if d.stopping.Load() {
		return
	}
	spent, err := d.cfg.Ports.End(p.id)
	d.pay(c.purse, costFactor*spent) // whoever's request it is in
	d.leave(p.job, p.node)
	if err != nil {
		d.cfg.Logger.Warn(fmt.Sprintf("ending the port of node %d of job %d: %v", p.node, p.job.gid, err), "job", p.job.gid)
	}
	account, rule, purse := c.peer.account, c.rule, c.purse
	go func() { // of as many as his rule allows
		d.awaitGone(p.id, purse)
		d.give(account, rule, p.use)
	}()
}

// firstAsk and lastAsk bound the time between two looks whether a port is gone.
const firstAsk, lastAsk = time.Millisecond, 5 * time.Second

// awaitGone waits until nobody has a port's socket any more, or the daemon ends. Whose port it was pays for the looks; nil: nobody has taken it over.
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

// detachPort ends the connection's port because its job has ended, and tells the process why. The caller holds mu.
func (c *connection) detachPort(j *job) {
	if c.port == nil || c.port.job != j || c.d.stopping.Load() {
		return
	}
	c.endPort()
	why := j.why
	if why == "" {
		why = "the job has ended"
	}
	c.sendAtOnce(attach.EncodeRefusal(attach.KindPort, fmt.Errorf("%s: %w", why, attach.ErrGroup)), nil) // else it is told by the end of its connection
}

// PortStatus is a direct port in the status.
type PortStatus struct {
	GID    uint16            `json:"gid"`
	Node   uint16            `json:"node"`
	UID    uint32            `json:"uid"`
	PID    int32             `json:"pid"`
	Bytes  int64             `json:"bytes"`
	Frames *bpf.PortCounters `json:"frames,omitempty"` // that its process sent
}

// mostPorts is how many ports an answer has room for.
const mostPorts = statusRoom / 4 / portRoom

// portStatus describes the ports of connections, in the order of groups and nodes, and says for how many there is no room.
func (d *Daemon) portStatus(of func(account uint32) bool) (all []PortStatus, left int) {
	ids := map[[2]uint16]uint32{}
	for _, c := range d.allConnections() {
		if !of(c.peer.account) {
			continue
		}
		c.mu.Lock()
		if p := c.port; p != nil {
			all = append(all, PortStatus{GID: p.job.gid, Node: p.node, UID: c.peer.uid, PID: c.peer.pid, Bytes: p.use.bytes})
			ids[[2]uint16{p.job.gid, p.node}] = p.id
		}
		c.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b PortStatus) int { return (int(a.GID)-int(b.GID))<<16 + int(a.Node) - int(b.Node) })
	left = max(0, len(all)-mostPorts)
	all = all[:len(all)-left]
	for i := range all {
		if n, err := d.cfg.Ports.Counters(ids[[2]uint16{all[i].GID, all[i].Node}]); err == nil { // it may just have ended
			all[i].Frames = &n
		}
	}
	return all, left
}
