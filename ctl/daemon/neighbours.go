package daemon

// This file manages memory between two processes with direct ports on this host (package
// port/shared). One of them asks for it. The daemon makes it, the helper keeps it so that it can
// erase it, and both processes map it. Both belong to one job, one user and one user namespace, as
// far as the kernel tells the daemon.
//
// The memory counts for the user from its making until one of the two ports ends. Then the helper
// takes its pages away at once. A process that maps it still gets new pages there, of its own. The
// next daemon counts the memory again, with the first process that goes on (resume.go).

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/ports"
	"github.com/funet/funet/uspace/attach"
	rings "github.com/funet/funet/uspace/port/shared"
)

const (
	// mostShared is how many pairs of processes can have memory at a time. Each pair takes a
	// descriptor of the helper. As with everything, the last quarter is for users that have less
	// than is left of it (reserve.go).
	mostShared     = 4096
	mostNeighbours = 32 // how many others a process can share memory with
)

// sharedUse is the use that the memory of a pair counts as.
var sharedUse = usage{pieces: 1, bytes: rings.Size}

// neighbours holds the ports of this host that may share memory, and the memory that they share. A
// holder of mu never waits.
type neighbours struct {
	mu    sync.Mutex
	ports map[place]*neighbour
	pairs map[ports.Pair]*pair
}

func newNeighbours() neighbours {
	return neighbours{ports: map[place]*neighbour{}, pairs: map[ports.Pair]*pair{}}
}

// neighbour is a port of this host.
type neighbour struct {
	id    uint32 // number at the helper
	owner peer
	space string // the user namespace of its process; "": not known
}

// pair is the memory of two ports.
type pair struct {
	account uint32
	rule    *config.Rule
	made    bool // the helper has it, and it is counted
}

// enterPort makes a port visible to its neighbours. The caller holds the connection's mu.
func (c *connection) enterPort(p *directPort) {
	n, s := &neighbour{p.id, c.peer, userSpace(c.peer.pid)}, &c.d.neighbours
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ports[place{p.job.gid, p.node}] = n
	c.d.loop.ports.Add(1)
}

// userSpace identifies the user namespace of a process by its number mapping, which can be read
// also of a process of another user (user_namespaces(7)).
func userSpace(pid int32) string {
	folder := filepath.Join("/proc", strconv.Itoa(int(pid)))
	users, err := os.ReadFile(filepath.Join(folder, "uid_map"))
	if err != nil || pid == 0 {
		return "" // it has ended, or is of a namespace that the daemon does not see
	}
	groups, err := os.ReadFile(filepath.Join(folder, "gid_map"))
	if err != nil {
		return ""
	}
	return string(users) + "\n" + string(groups)
}

func (c *connection) listNeighbours(*nothing) error {
	p := c.itsPort()
	if p == nil {
		return fmt.Errorf("listing neighbours of a process without a port: %w", attach.ErrNode)
	}
	var nodes []uint16
	for node, card := range p.job.cards {
		if card == c.d.cfg.Card && uint16(node) != p.node {
			nodes = append(nodes, uint16(node))
		}
	}
	answer, err := attach.EncodeList(attach.KindNeighbours, nodes)
	if err != nil {
		return err
	}
	return c.send(answer)
}

func (c *connection) share(r *attach.ShareRequest) error {
	fd, err := c.sharedWith(r.Node)
	if err != nil {
		return fmt.Errorf("making memory for a process and its neighbour node %d: %w", r.Node, err)
	}
	defer closeFD(fd)
	return c.send(attach.ShareAnswer{Node: r.Node, Bytes: rings.Size}.Encode(), fd)
}

// sharedWith returns a descriptor of the memory of the connection's port and a neighbour. The
// caller owns it.
func (c *connection) sharedWith(node uint16) (fd int, err error) {
	d := c.d
	p := c.itsPort()
	if p == nil {
		return -1, fmt.Errorf("it has no port: %w", attach.ErrNode)
	}
	key, mine, err := d.neighbours.reserve(place{p.job.gid, p.node}, place{p.job.gid, node},
		&pair{account: c.peer.account, rule: c.rule})
	if err != nil {
		return -1, err
	}
	if mine == nil {
		return d.cfg.Ports.Shared(key)
	}
	var m *region
	if err = d.take(c.peer.account, c.rule, sharedUse); err == nil {
		if m, err = d.memory.make("neighbours", rings.Size, nil); err != nil {
			err = fmt.Errorf("%w: %w", attach.ErrFull, err)
		} else {
			spent, e := d.cfg.Ports.Share(key, m.fd, rings.Size)
			c.spent += spent
			err = e
		}
		if err == nil {
			err = d.neighbours.made(key, mine)
		}
		if err != nil {
			d.give(c.peer.account, c.rule, sharedUse)
		}
	}
	if err != nil {
		d.neighbours.abandon(key, mine)
		if m != nil {
			m.close()
		}
		return -1, err
	}
	fd, m.fd = m.fd, -1
	m.close()
	return fd, nil
}

// reserve finds the pair of two ports. If it has no memory yet it returns mine, a new pair for
// which the caller makes the memory.
func (s *neighbours) reserve(at, with place, of *pair) (key ports.Pair, mine *pair, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, b := s.ports[at], s.ports[with]
	switch {
	case a == nil || b == nil || a == b:
		return key, nil, fmt.Errorf("it has no port here now: %w", attach.ErrBusy)
	case a.owner.uid != b.owner.uid || a.owner.account != b.owner.account:
		return key, nil, fmt.Errorf("it is another user's, %d and not %d: %w", b.owner.uid, a.owner.uid,
			attach.ErrForbidden)
	case a.space == "" || a.space != b.space:
		return key, nil, fmt.Errorf("it is not known to be in the same user namespace: %w", attach.ErrForbidden)
	}
	key = ports.PairOf(a.id, b.id)
	if there := s.pairs[key]; there != nil {
		if !there.made {
			err = fmt.Errorf("it is being made: %w", attach.ErrBusy)
		}
		return key, nil, err
	}
	ofA, ofB, own := 0, 0, 0
	for k, v := range s.pairs {
		ofA, ofB = ofA+k.Has(a.id), ofB+k.Has(b.id)
		if v.account == of.account {
			own++
		}
	}
	switch {
	case max(ofA, ofB) >= mostNeighbours:
		return key, nil, fmt.Errorf("one of the two has memory with %d others, which is the most: %w",
			mostNeighbours, attach.ErrFull)
	case !spare(mostShared, int64(len(s.pairs)), int64(own), 1):
		return key, nil, fmt.Errorf("%d pairs of this host's %d have memory, %d of them user %d's: %w", len(s.pairs),
			mostShared, own, of.account, attach.ErrFull)
	}
	s.pairs[key] = of
	return key, of, nil
}

// made records that memory was made. It is an error if one of the two ports has ended meanwhile:
// then the helper has erased the memory.
func (s *neighbours) made(key ports.Pair, p *pair) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pairs[key] != p {
		return fmt.Errorf("it has ended: %w", attach.ErrBusy)
	}
	p.made = true
	return nil
}

// abandon removes a pair whose memory was not made.
func (s *neighbours) abandon(key ports.Pair, p *pair) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pairs[key] == p {
		delete(s.pairs, key)
	}
}

// leave takes a port out. It returns the pairs with memory that end with it. The caller gives their
// use back when the helper has ended the port.
func (s *neighbours) leave(at place, id uint32) (ended []*pair) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.ports[at]; n != nil && n.id == id {
		delete(s.ports, at)
	}
	for k, p := range s.pairs {
		if k.Has(id) == 0 {
			continue
		}
		delete(s.pairs, k)
		if p.made {
			ended = append(ended, p)
		}
	}
	return ended
}

// giveShared gives back the use of pairs that have ended.
func (d *Daemon) giveShared(ended []*pair) {
	for _, p := range ended {
		d.give(p.account, p.rule, sharedUse)
	}
}

// inherit takes over those pairs of a port of the previous daemon that are not counted yet. The
// caller counts them, and calls made for each.
func (s *neighbours) inherit(id uint32, with []uint32, account uint32, rule *config.Rule) map[ports.Pair]*pair {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := map[ports.Pair]*pair{}
	for _, other := range with {
		if key := ports.PairOf(id, other); s.pairs[key] == nil {
			got[key] = &pair{account: account, rule: rule}
			s.pairs[key] = got[key]
		}
	}
	return got
}

// count returns the number of ports with which each port shares memory.
func (s *neighbours) count() map[uint32]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := map[uint32]int{}
	for k, p := range s.pairs {
		if p.made {
			n[k[0]]++
			n[k[1]]++
		}
	}
	return n
}

// takeShared counts the memory that a port of the previous daemon shares. After an error the caller
// ends the port, and with it the memory counted so far.
func (c *connection) takeShared(held *ports.Held) error {
	s := &c.d.neighbours
	for key, p := range s.inherit(held.ID, held.Shared, c.peer.account, c.rule) {
		if err := c.d.take(p.account, p.rule, sharedUse); err != nil {
			return err
		}
		if s.made(key, p) != nil { // the other port has ended
			c.d.give(p.account, p.rule, sharedUse)
		}
	}
	return nil
}
