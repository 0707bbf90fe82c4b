// Package attack does what one user without privileges can do to the cards of two hosts at once,
// as fast as a process on each host goes. Each attack aims at something that users share: the
// turns at dispatch, the levels, the time of a step, the doorbells, the daemon's socket, the
// memory under the card. `make share` measures what others keep beside each of them, and
// tests/hostile verifies that they lose nothing.
//
// The journey of an attack: a launcher makes the groups that Cards describes on both daemons, and
// starts on each host a process of the hostile user that calls Play, beside quiet processes of
// others if Sleepers asks for them. Play attaches the process's contexts, says "ready", and
// repeats the attack's round until it is killed. A context that the daemon takes away is
// attached again. Ten times a second a line tells what has been done.
//
// A process has one busy thread, besides the idle ones that Idle counts. So it takes as much of a
// processor as a process that only computes. Others may lose more beside the attack than beside a
// process that only computes: that loss is due to the attack.
//
//	deadnodes.go  messages for nodes that are expected or do not read
//	replies.go    the reply level, full
//	blocks.go     long transfers, to oneself and across
//	bells.go      other processes' doorbells, cleared; and the processes that ring them
//	connect.go    connections, opened and closed, with descriptors that are slow to close
//	holes.go      memory that is taken away under the card
//	readers.go    many groups of slow readers
//	remote.go     memory of other processes: written, guessed at, operated on, missed
//	direct.go     direct ports: flooded, forged, made and ended
//	scribble.go   the rings of direct ports, written over
//	table.go      the switch's table, filled with node lists
//	neighbour.go  the memory of nodes of one host, written over
//	dials.go      initial requests, as dials of connections are
//	requests.go   requests at the daemon's socket; Requests lists these
//	tree.go       multicasts along a tree
//	unpaid.go     blocks, refusals and modes that make no frame
//
// A process that plays has nothing else to do: Play sets GOMAXPROCS.
package attack

import (
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/funet/funet/tests/client"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

// Attack is one attack.
type Attack struct {
	Name string
	Does string // in a line, for people
	// Groups is how many there are; each has Contexts nodes on card 0, as many on card 1, and
	// then Dead nodes on card 0 and on card 1, which nobody attaches.
	Groups, Contexts, Dead int
	Sleepers               int // users of SleeperContexts quiet contexts on each host
	// threads that run when nothing else wants the processor (SCHED_IDLE)
	Idle int
	// Waits: its cards try again and again what its processes have sent at first, so that these
	// have nothing more to do. Any other attack goes on.
	Waits bool
	// Direct: its groups are direct, and its processes have ports instead of contexts.
	Direct bool

	slots, segment int              // of each context; bytes of its segment, 0: none
	remote         funi.RemoteSizes // of each context; zero: no remote memory
	seated         func(*player, *seat) error
	take           func(*player, *seat) error // takes a seat of a direct attack
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
	for _, a := range append(append(append(Attacks(), Requests()...), Direct()...), Neighbour(), sleepers()) {
		if a.Name == name {
			return a, nil
		}
	}
	return Attack{}, fmt.Errorf("no attack is called %.40q", name)
}

// Cards returns where the nodes of each of the attack's groups are, for attach.JobRequest.
func (a *Attack) Cards() (cards []uint16) {
	for _, n := range []int{a.Contexts, a.Dead} {
		for card := range uint16(2) {
			for range n {
				cards = append(cards, card)
			}
		}
	}
	return cards
}

// Group is a group as its members know it.
type Group struct {
	GID   uint16
	Token string // attach.Token.Text
}

// Config configures a process of an attack.
type Config struct {
	Attack string
	Socket string // of the daemon of its host
	Host   int    // 0 or 1, its card
	Groups []Group
	First  uint16 // the attack's first node in its groups, which have others
}

// player is a process of an attack.
type player struct {
	Attack
	c     Config
	seats []*seat
	did   atomic.Int64
	start time.Time // of the rounds

	gates  []*gate              // of direct attacks
	rings  []*rings             // of one that writes them
	near   *near                // of one with neighbours
	jobs   []*client.Connection // of one that makes them, each with its own
	forged uint64               // frames

	requested chan struct{} // for each round of an attack on requests

	published atomic.Pointer[[]int] // descriptors for threads that punch holes
}

// seat is a context that the process has, or had.
type seat struct {
	group Group
	node  uint16
	index int                // among those of the process in the group
	k     *client.Connection // nil: the daemon has taken it away
	next  int                // for rounds that go through targets
	desk  *desk              // of dials
}

// lookEvery is how often a process looks whether its contexts are still there.
const lookEvery = 5 * time.Millisecond

// tellEvery is how often a process says what it has done.
const tellEvery = 100 * time.Millisecond

// Play is an attacking process. It writes "ready" when the attack begins, then "did N" ten times a
// second, with all that was done so far in units of the attack's own. It returns only if it cannot
// begin.
func Play(c Config, out io.Writer) error {
	a, err := find(c.Attack)
	if err != nil {
		return err
	}
	if len(c.Groups) != a.Groups {
		return fmt.Errorf("%s wants %d groups, not %d", a.Name, a.Groups, len(c.Groups))
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

// sit attaches a context.
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

// sitAgain attaches contexts again that the daemon has taken away, as soon as it allows it. It
// reads nothing that is shared with the card, where there may be a hole.
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

// twin returns the node of the other host that is there what the seat is here.
func (p *player) twin(s *seat) uint16 { return uint16((1-p.c.Host)*p.Contexts + s.index) }

// messageType is the type of all messages and notices.
const messageType = 7

// send commits messages as long as possible to the node, until there is no room; at most the given
// number.
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

// receive takes messages of a level, at most the given number.
func (s *seat) receive(level funi.Level, most int) {
	for ; most > 0 && s.k.Iface.Receive(level) != nil; most-- {
		s.k.Iface.Release(level)
	}
}
