package chaos

// This file draws a plan from a seed: cluster, placement, pace, and faults.

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/machine"
	"github.com/funet/funet/uspace/sim"
	"github.com/funet/funet/uspace/topology"
)

// Faults is a set of kinds of faults.
type Faults uint32

// Kinds of faults.
const (
	Loss       Faults = 1 << iota // frames vanish
	Dup                           // frames arrive twice, the second time perhaps much later
	Reorder                       // frames are overtaken
	Corrupt                       // bits flip, frames are cut short
	Congestion                    // narrow links, short queues and rings
	Partition                     // the network falls apart, and heals
	Cut                           // frames are lost in one direction, for a time
	Pause                         // processes and cards stop, and go on
	Slow                          // processes and cards are slow for a time
	// processes crash; they are detached, or their cards leave; they return
	Crash
	Restart  // cards crash with their processes and return with another incarnation
	Resize   // programs change the size of their queues while traffic flows
	Switch   // processes are switched out and in again
	Transfer // programs move memory, and ask for what they may not have
	Jobs     // a job ends, host after host, and another takes its GID
	// Narrow makes paths carry shorter frames for a time, and their cards are told so, or told
	// lies, or nothing
	Narrow
	Forge  // has a stranger forge greetings, with echoes of what it has seen of others
	Replay // frames come again that were recorded any time before
	Sizes  // cards have ports that carry frames of different lengths
	Rats   // programs use every protocol of package rats
	RMA    // programs operate on each other's windows
	Chains // programs send along chains
	Moves  // processes move to other cards; see ends
	// Ports has direct ports come and go, on other hosts, and funids stop and go on; see
	// Scenario.Direct
	Ports
	// Notices has funids tell each other and their processes which of those with direct ports have
	// ended or are there
	Notices
	Paths // programs send lines on ULTRA paths
	Sends // programs send to where their receivers have said; see letters.go
	// Defer has hosts answer for groups that are absent, as NIC programs do (link/defer.go): any
	// group, for a time
	Defer
	// Bundles has cards send small frames in bundles, which the network takes apart (package
	// bundle); those of direct cards do not
	Bundles
	All = Bundles<<1 - 1
)

var faultNames = []string{"loss", "dup", "reorder", "corrupt", "congestion", "partition", "cut", "pause", "slow",
	"crash", "restart", "resize", "switch", "xfer", "jobs", "narrow", "forge", "replay", "sizes", "rats", "rma",
	"chains", "moves", "ports", "notices", "paths", "sends", "defer", "bundles"}

// ends are the faults that end processes. A scenario that asks for these and Moves has Moves if its
// seed is even, and these if it is odd.
const ends = Crash | Restart | Jobs

// remote has the kinds for which programs have remote memory.
const remote = Rats | RMA | Chains | Paths | Sends

// FaultNames returns the names of the kinds that ParseFaults knows.
func FaultNames() []string { return slices.Clone(faultNames) }

// ErrFaults reports a name that is not that of a fault.
var ErrFaults = errors.New("chaos: no such fault")

// ParseFaults reads "all", "none", or names with commas between them.
func ParseFaults(s string) (Faults, error) {
	switch s {
	case "all":
		return All, nil
	case "none", "":
		return 0, nil
	}
	var f Faults
	for _, name := range strings.Split(s, ",") {
		i := slices.Index(faultNames, strings.TrimSpace(name))
		if i < 0 {
			return 0, fmt.Errorf("reading faults %q: %w: %q; use all, none, or some of %s", s, ErrFaults, name,
				strings.Join(faultNames, ","))
		}
		f |= 1 << i
	}
	return f, nil
}

// String returns the form that ParseFaults reads.
func (f Faults) String() string {
	switch f & All {
	case All:
		return "all"
	case 0:
		return "none"
	}
	var names []string
	for i, n := range faultNames {
		if f>>i&1 != 0 {
			names = append(names, n)
		}
	}
	return strings.Join(names, ",")
}

// MaxNodes is the most nodes of a scenario.
const MaxNodes = 4096

// maxMemory bounds the sources and the destinations of all processes together, in bytes.
const maxMemory = 64 << 20

// ErrScenario is wrapped by errors about scenarios that cannot be run.
var ErrScenario = errors.New("chaos: impossible scenario")

// Check refuses a scenario that cannot be run.
func (s *Scenario) Check() error {
	if s.Nodes < 2 || s.Nodes > MaxNodes {
		return fmt.Errorf("%w: %d nodes; use 2 to %d", ErrScenario, s.Nodes, MaxNodes)
	}
	if s.Messages < 1 || s.Messages > 1<<30 {
		return fmt.Errorf("%w: %d messages; use 1 to %d", ErrScenario, s.Messages, 1<<30)
	}
	if s.Network == Arctic && s.Direct && s.Shape == Given {
		return fmt.Errorf("%w: direct cards on Arctic, which has no switch for them; use Ethernet", ErrScenario)
	}
	if s.Network == Arctic && s.Nodes > maxArctic {
		return fmt.Errorf("%w: %d nodes on Arctic; use 2 to %d", ErrScenario, s.Nodes, maxArctic)
	}
	_, err := s.profile()
	return err
}

// profile reads the scenario's profile; nil: it gives no times.
func (s *Scenario) profile() (*hwprofiles.Profile, error) {
	if s.Profile == "" || s.Profile == Native {
		return nil, nil
	}
	p, err := hwprofiles.Load(s.Profile)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrScenario, err)
	}
	switch model, err := machine.Modelled(p); {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrScenario, err)
	case !model:
		return nil, nil
	}
	return p, nil
}

// Streams of random numbers of a scenario.
const (
	streamPlace   = 1
	streamCluster = 2
	streamNet     = 3
	streamPace    = 4
	streamMemory  = 5
	streamArctic  = 6
	streamKey     = 7
	streamShape   = 8
	streamSwarm   = 9
	streamDirect  = 10
	streamTrigger = 11
	streamLetters = 1 << 40 // and up: one for each life
	streamChains  = 1 << 20 // and up: one for each group
	streamFaults  = 100     // and up: one for each kind
	streamMembers = 1000
)

func (s *Scenario) stream(n uint64) *rand.Rand { return rand.New(rand.NewPCG(s.Seed, n)) }

func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// plan is a scenario with everything drawn from its seed.
type plan struct {
	cards  int
	routes []uint32 // node to card, for all groups
	// hosts is how many hosts have the direct cards. jobNodes is how many nodes the jobs of a group
	// have; some of them never have a process.
	hosts    int
	jobNodes map[uint16]int
	members  []place
	slots    int
	// crowd is how many of 8 processes share a card with others. A swarm has an MTU of its own, and
	// slots of its own for each member's queues. Without them (0 and none), all members have slots,
	// and the network draws the MTU.
	crowd  int
	mtu    int
	queues []int
	// triggers says which members issue by triggers; nil: none.
	triggers []bool
	tune     func(*engine.Config)
	net      sim.EthernetConfig
	// arctic and topology take the place of net on Arctic.
	arctic   sim.ArcticConfig
	topology *topology.Network
	horizon  int64 // faults are over by then, in ns
	pause    int64 // the mean time between the operations of a member, in ns
	pattern  int   // says to which members a member sends
	replies  int   // in 16 requests
	segment  int   // bytes of a process that are sources of transfers, and destinations
	// keyed says that all cards have a key. A key is drawn if greetings are forged or frames
	// replayed.
	keyed, readable bool
}

// place is the place where a process runs.
type place struct {
	gid, node uint16
	card      int
}

// ready removes the kinds of faults that a scenario cannot have, and returns its plan. Errors:
// those of Check.
func (s *Scenario) ready() (plan, error) {
	if err := s.Check(); err != nil {
		return plan{}, err
	}
	if s.Network == Arctic {
		s.Faults &^= faultsOfEthernet
		s.Direct = false // of a swarm, some of whose fields may be given
	}
	profile, err := s.profile()
	if err != nil {
		return plan{}, err
	}
	if s.Direct {
		s.Faults &^= Moves // a card stays that of one node
	} else {
		s.Faults &^= Ports | Notices
	}
	if profile != nil {
		s.Faults &^= Moves // which cards of modelled machines do not do
	}
	if s.Faults&Moves != 0 && s.Faults&ends != 0 {
		// Not both in one run: where a node is whose process or card ends in the middle of a move
		// is for its launcher to say.
		if s.Seed%2 == 0 {
			s.Faults &^= ends
		} else {
			s.Faults &^= Moves
		}
	}
	return s.plan(profile), nil
}

func (s *Scenario) plan(profile *hwprofiles.Profile) plan {
	p := plan{crowd: 1}
	if s.Shape == Swarm {
		s.swarm(&p)
	}
	s.place(&p)
	s.cluster(&p)
	if profile != nil {
		p.tune = timed(p.tune, profile)
	}
	if s.Network == Ethernet {
		s.ethernet(&p)
	} else {
		s.arctic(&p)
	}
	if r := s.stream(streamKey); s.Faults&(Forge|Replay) != 0 {
		p.keyed, p.readable = r.IntN(2) == 0, r.IntN(2) == 0
	}
	if s.Faults&remote != 0 {
		p.slots = max(p.slots, leastSlots)
		for i, n := range p.queues {
			p.queues[i] = max(n, leastSlots)
		}
	}
	r := s.stream(streamPace)
	p.horizon = int64(pick(r, 3*time.Millisecond, 30*time.Millisecond, 150*time.Millisecond))
	p.pause = min(max(1, p.horizon*int64(s.Nodes)/int64(s.Messages)*8), p.horizon/4)
	p.pattern = r.IntN(patterns)
	p.replies = r.IntN(17)
	p.segment = min(pick(s.stream(streamMemory), 4<<10, 64<<10, 512<<10), max(4<<10, maxMemory/s.Nodes&^(4<<10-1)))
	return p
}

// queue returns the initial size of a member's queues, in slots.
func (p *plan) queue(member int) int {
	if p.queues == nil {
		return p.slots
	}
	return p.queues[member]
}

// place puts processes on cards. Most have a card alone, some share one, and some have the node
// number of a process of another group. Direct cards have one process each.
func (s *Scenario) place(p *plan) {
	r := s.stream(streamPlace)
	groups := 1 + r.IntN(3)
	if s.Direct {
		p.cards, p.hosts, p.jobNodes = s.Nodes, 1+r.IntN(s.Nodes), map[uint16]int{}
		for i := range s.Nodes {
			gid := uint16(1 + r.IntN(groups))
			p.members = append(p.members, place{gid: gid, node: uint16(p.jobNodes[gid]), card: i})
			p.jobNodes[gid]++
		}
		for gid := range uint16(groups) {
			p.jobNodes[gid+1] += r.IntN(2)
		}
		for i := range s.Nodes + 2 { // a card's are as many as its job has nodes
			p.routes = append(p.routes, uint32(i))
		}
		return
	}
	for len(p.members) < s.Nodes {
		i := len(p.members)
		m := place{gid: uint16(1 + r.IntN(groups)), node: uint16(len(p.routes))}
		switch k := r.IntN(8); {
		case i >= 2 && k == 0 && groups > 1: // a twin in another group
			twin := p.members[r.IntN(i)]
			m.node, m.card, m.gid = twin.node, twin.card, twin.gid%uint16(groups)+1
			if slices.Contains(p.members, m) {
				continue
			}
		case i >= 2 && k >= 1 && k <= p.crowd: // on a card with others
			m.card = r.IntN(p.cards)
			p.routes = append(p.routes, uint32(m.card))
		default:
			m.card = p.cards
			p.cards++
			p.routes = append(p.routes, uint32(m.card))
		}
		p.members = append(p.members, m)
	}
	p.routes = append(p.routes, engine.NoRoute) // one node that has no route
}

// cluster draws the cards' configuration.
func (s *Scenario) cluster(p *plan) {
	r := s.stream(streamCluster)
	lines, replies, fifo, train, window := 1024, 256, 10, arctic.MaxTrain, 32
	switch r.IntN(3) {
	case 0: // the papers' (thesis 5.3, 5.5)
		lines, replies, fifo, train, window = 8, 2, 3, 1, 8
	case 1:
		lines = 2 << r.IntN(8)
		replies = max(1, lines/4)
		fifo, train, window = 1+r.IntN(16), 1+r.IntN(arctic.MaxTrain), 1+r.IntN(engine.Window)
	}
	every := 1 + r.IntN(32)
	ackDelay := pick(r, 5*time.Microsecond, 50*time.Microsecond, 200*time.Microsecond)
	silence := pick(r, 20*time.Millisecond, 60*time.Millisecond)
	p.slots = pick(r, 2, 4, 16, 64, 256)
	p.tune = func(c *engine.Config) {
		c.Lines, c.ReplyLines, c.FIFO, c.Train, c.FirstWindow = lines, replies, fifo, train, window
		c.AckEvery, c.AckDelay = every, ackDelay
		// A way that has become narrow is found out at the fourth try (engine/link/limit.go), so
		// there is time for twice that.
		c.FirstRTO, c.MinRTO, c.MaxRTO = silence/10, silence/50, silence/8
		c.PeerTimeout, c.ConnectTimeout, c.RaiseAfter = silence, 2*silence, silence/4
	}
}

// timed returns a configuration with the profile's times and limits. Only the back-off is not the
// profile's. Its "at once" is for the bare packets of the thesis, whose acknowledgments are much
// shorter than they are. As frames, the rejects of a node that takes nothing fill its link. What
// the node sends then waits behind them for longer than patience.
func timed(drawn func(*engine.Config), profile *hwprofiles.Profile) func(*engine.Config) {
	return func(c *engine.Config) {
		drawn(c)
		least, most := c.MinHold, c.MaxHold
		m, _ := machine.New(profile) // which is modelled
		m.Tune(c)
		c.MinHold, c.MaxHold = least, most
	}
}

// episode is a fault that lasts for a time.
type episode struct {
	kind     Faults
	at, ends int64
	random   *rand.Rand
}

// episodes draws the episodes of all kinds of the scenario, in no order.
func (s *Scenario) episodes(p *plan) (all []episode) {
	for k := range faultNames {
		kind := Faults(1) << k
		if s.Faults&kind == 0 || kind < Partition || kind == Resize || kind == Transfer || kind == Sizes ||
			kind&(Defer|Bundles|remote|Notices) != 0 {
			continue
		}
		r := s.stream(streamFaults + uint64(k))
		for range 1 + r.IntN(3) {
			at := 1 + r.Int64N(p.horizon)
			// From 10 us to 80 ms: shorter than a retransmission, longer than patience.
			ends := at + int64(10*time.Microsecond)<<r.IntN(14)
			all = append(all, episode{kind, at, ends, rand.New(rand.NewPCG(s.Seed, r.Uint64()))})
		}
	}
	return all
}
