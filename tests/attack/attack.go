// Package attack attacks the cards of two hosts at once, as one user without privileges, as fast as
// a process on each host can. Each attack aims at something that users share: the turns at
// dispatch, the levels, the time of a step, the doorbells, the daemon's socket, the memory under
// the card. `make share` measures what other users keep beside each attack. tests/hostile verifies
// that they lose nothing.
//
// The journey of an attack: a launcher makes the groups on both daemons, with the nodes that Cards
// describes. It starts a process of the hostile user on each host, and quiet processes of other
// users if Sleepers asks for them. The hostile process calls Play, which attaches its contexts,
// says "ready" and repeats the attack's round until it is killed. It attaches a context again that
// the daemon has taken away. Ten times a second it prints how much it has done.
//
// A process has one busy thread, besides the idle ones that Idle counts. So it takes as much of a
// processor as a process that only computes. Others may lose more beside the attack than beside a
// process that only computes: that loss is due to the attack.
//
//	deadnodes.go  messages for nodes that are expected or do not read
//	replies.go    the reply level, full
//	blocks.go     long transfers, to oneself and across
//	bells.go      other processes' doorbells, cleared; and contexts that sleep
//	connect.go    connections, opened and closed, with descriptors that are slow to close
//	holes.go      memory that is taken away under the card
//	readers.go    many groups of slow readers
//	remote.go     memory of other processes: written, guessed at, operated on, missed
//	direct.go     direct ports: flooded, forged, made and ended
//	scribble.go   the rings of direct ports, written over
//	table.go      the switch's table, filled with node lists
//	udp.go        the kernel's sockets, for comparison; UDP lists these
//	hub.go        foreign hosts on a network of routers; Hub lists these
//	bundles.go    bundles of direct ports there; Bundles lists them
//	time.go       the time by which groups take turns
//	etcd.go       a cluster's table in etcd; Etcd lists these
//	ranks.go      ranks of libfabric that flood, are deaf, or lie; Ranks lists these
//	neighbour.go  the memory of nodes of one host, written over
//	dials.go      initial requests, as dials of connections are
//	requests.go   requests at the daemon's socket; Requests lists these
//	sends.go      messages to memory that receivers name
//	barriers.go   barriers, and forged arrivals
//	rows.go       rows of 1,024 contexts; Rows lists these
//	triggers.go   triggers, one over the other
//	tree.go       multicasts along a tree
//	unpaid.go     blocks, refusals and modes that make no frame
//
// A process that calls Play has no other work: Play sets GOMAXPROCS.
package attack

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/tests/client"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

// Attack is one attack.
type Attack struct {
	Name string
	Does string // in a line, for people: what the other user does
	// Groups is the number of groups. Each has Contexts nodes on card 0 and as many on card 1. Then
	// come Dead nodes on card 0 and Dead on card 1, which no process attaches.
	Groups, Contexts, Dead int
	Sleepers               int // users of SleeperContexts quiet contexts on each host
	// Idle is the number of threads that run only while the processor is free (SCHED_IDLE).
	Idle int
	// Waits marks an attack whose cards repeat, again and again, what its processes sent at first.
	// These processes need do nothing more. In any other attack they must go on.
	Waits bool
	// Direct marks an attack of direct groups, whose processes have ports instead of contexts.
	Direct bool
	// Rank is what the program rank does in the attack (ranks.go); "": it has no ranks.
	Rank string
	// Yardstick marks what is no attack on FUNet, but says how much of a loss is not FUNet's.
	Yardstick bool
	// Hosts is the number of hosts that the groups' nodes are on; 0: two. The processes of an
	// attack with more are on hosts that are not the victim's.
	Hosts int
	// Foreign marks an attack of hosts that are not the victim's, by their root.
	Foreign bool
	// Row marks an attack whose user needs a rule of RowContexts contexts on each host.
	Row bool

	slots, segment int              // of each context; bytes of its segment, 0: none
	remote         funi.RemoteSizes // of each context; zero: no remote memory
	seated         func(*player, *seat) error
	take           func(*player, *seat) error // takes the place of a seat, in a direct attack
	begin          func(*player) error
	round          func(*player) (did int)
}

// Attacks lists them.
func Attacks() []Attack {
	return append([]Attack{
		deadNodes("dead_nodes_8", 8),
		deadNodes("dead_nodes_64", 64),
		replies(),
		blocksToSelf("blocks_to_self_1", 1),
		blocksToSelf("blocks_to_self_64", 64),
		blocksAcross(),
		stolenBells(),
		triggers(),
		pathRequests(),
		sends(),
		barriers(),
		connections(),
		lingeringConnections(),
		holes(),
		holesFromIdle(),
		slowReaders(),
		remoteWrites(),
		remoteGuesses(),
		remoteOperations(),
		remoteMisses(),
		dials(),
		tree(),
	}, unpaid()...)
}

// find returns the attack of that name.
func find(name string) (Attack, error) {
	for _, a := range slices.Concat(Attacks(), Requests(), Direct(), Ranks(), UDP(), Hub(), Bundles(), Etcd(), Rows(),
		[]Attack{Neighbour(), sleepers()}) {
		if a.Name == name {
			return a, nil
		}
	}
	return Attack{}, fmt.Errorf("no attack is called %.40q", name)
}

// Cards returns the card of each node of one of the attack's groups, for attach.JobRequest.
func (a *Attack) Cards() (cards []uint16) {
	for _, n := range []int{a.Contexts, a.Dead} {
		for card := range uint16(max(a.Hosts, 2)) {
			for range n {
				cards = append(cards, card)
			}
		}
	}
	return cards
}

// Group is a group, as its members need it.
type Group struct {
	GID   uint16
	Token string // attach.Token.Text
}

// Config configures a process of an attack.
type Config struct {
	Attack string
	Socket string // of the daemon of the process's host
	Host   int    // also the number of its card
	Groups []Group
	First  uint16  // the attack's first node, where groups have other nodes before it
	Ranks  string  // the folder of RankProgram and RankProvider, for attacks by ranks
	Places []Place // of all hosts, for attacks by the kernel's sockets
	Etcd   string  // the endpoint, for attacks on a cluster's table, whose keys begin with Prefix
	Prefix string
}

// Place is where a host of the lab is.
type Place struct{ Address, MAC string }

// player is a process of an attack.
type player struct {
	Attack
	c     Config
	seats []*seat
	did   atomic.Int64
	start time.Time // when the rounds began

	gates  []*gate              // in attacks that send frames through direct ports
	rings  []*rings             // in the attack that writes over rings
	near   *near                // in the attack on neighbours
	liar   *liar                // in the attack of a rank that lies
	jobs   []*client.Connection // in the attack that makes jobs: a connection for each
	forged uint64               // how many frames were forged, or ports made
	frames [][]byte             // in the attack by bundles: a bundle's frames

	rows *rowJob // in attacks with rows

	raw    *raw             // in attacks of foreign hosts
	table  *clientv3.Client // in attacks on a cluster's table
	socket int              // in attacks by sockets, with the address of the other process's
	peer   *unix.SockaddrInet4

	requested chan struct{} // a value for each round of an attack on requests

	published atomic.Pointer[[]int] // descriptors that idle threads punch
}

// seat is a place in a group for a context of the process; the context may be gone.
type seat struct {
	group Group
	node  uint16
	index int                // among the process's seats in the group
	k     *client.Connection // nil: the daemon has taken it away
	next  int                // a counter, for rounds that go through targets or requests
	desk  *desk              // in the attack of dials
}

// lookEvery is how often a process looks for contexts that the daemon has taken away.
const lookEvery = 5 * time.Millisecond

// tellEvery is how often a process reports how much it has done.
const tellEvery = 100 * time.Millisecond

// Play runs an attack as a process. It writes "ready" when the attack begins, then "did N" ten
// times a second. N counts what has been done so far, in the attack's own unit. Play returns only
// if it cannot begin.
func Play(c Config, out io.Writer) error {
	a, err := find(c.Attack)
	if err != nil {
		return err
	}
	if len(c.Groups) != a.Groups {
		return fmt.Errorf("%s wants %d groups, not %d", a.Name, a.Groups, len(c.Groups))
	}
	if err := a.become(c); err != nil {
		return err
	}
	p := &player{Attack: a, c: c, requested: make(chan struct{}, requesters)}
	runtime.GOMAXPROCS(1 + a.Idle)
	runtime.LockOSThread()
	for _, g := range c.Groups {
		for i := range a.Contexts {
			s := &seat{group: g, index: i, node: c.First + uint16(c.Host*a.Contexts+i)}
			take := (*player).sit
			if a.Direct {
				take = a.take
			}
			if err := take(p, s); err != nil {
				return fmt.Errorf("attaching node %d of group %d: %w", s.node, g.GID, err)
			}
			p.seats = append(p.seats, s)
		}
	}
	if a.begin != nil {
		if err := a.begin(p); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "ready")
	go func() {
		for range time.Tick(tellEvery) {
			fmt.Fprintln(out, "did", p.did.Load())
		}
	}()
	p.start = time.Now()
	for looked := p.start; ; {
		if now := time.Now(); now.Sub(looked) > lookEvery {
			looked = now
			p.sitAgain()
		}
		p.did.Add(int64(a.round(p)))
	}
}

// segmentBase is the address where a context's segment starts.
const segmentBase = 0x10000

// sit attaches the context of a seat.
func (p *player) sit(s *seat) (err error) {
	token, err := attach.ParseToken(s.group.Token)
	if err != nil {
		return err
	}
	k, err := client.Dial(p.c.Socket)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			k.Close()
		}
	}()
	if err := k.Attach(attach.AttachRequest{GID: s.group.GID, Node: s.node, Slots: uint32(p.slots), Remote: p.remote,
		Token: token}); err != nil {
		return err
	}
	rights := funi.Source | funi.Destination
	if p.remote != (funi.RemoteSizes{}) {
		rights = funi.Source | funi.Keyed
	}
	if p.segment > 0 {
		if _, err = k.Segment(attach.SegmentRequest{Base: segmentBase, Bytes: uint64(p.segment),
			Rights: rights}); err != nil {
			return err
		}
	}
	if err := k.Start(); err != nil {
		return err
	}
	s.k = k
	if p.seated != nil {
		return p.seated(p, s)
	}
	return nil
}

// sitAgain attaches contexts that the daemon has taken away, as soon as the daemon allows it. It
// reads no memory that is shared with the card, as there may be a hole.
func (p *player) sitAgain() {
	if p.Direct {
		return // a port stays
	}
	for _, s := range p.seats {
		if s.k != nil {
			if !s.k.HungUp() {
				continue
			}
			s.k.Close()
			s.k = nil
		}
		if p.sit(s) != nil {
			s.k = nil
		}
	}
}

// twin returns the node with the seat's index on the other host.
func (p *player) twin(s *seat) uint16 { return uint16((1-p.c.Host)*p.Contexts + s.index) }

// messageType is the type of all messages and notices.
const messageType = 7

// send commits messages of the greatest length to the node, until there is no room, at most the
// given number.
func (s *seat) send(level funi.Level, node uint16, most int) (sent int) {
	for ; sent < most; sent++ {
		slot := s.k.Iface.Reserve(level)
		if slot == nil {
			break
		}
		slot.SetHeader(funi.NewHeader(node, messageType, funi.MaxPayloadWords))
		s.k.Iface.Commit(level)
	}
	return sent
}

// receive reads messages of a level, at most the given number.
func (s *seat) receive(level funi.Level, most int) {
	for ; most > 0 && s.k.Iface.Receive(level) != nil; most-- {
		s.k.Iface.Release(level)
	}
}
