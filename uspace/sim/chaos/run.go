package chaos

// This file runs a scenario from its first event to silence.

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/engine/link"
	"github.com/funet/funet/uspace/sim"
)

// Scenario says what to run. The same scenario always runs the same way.
type Scenario struct {
	Seed     uint64
	Nodes    int // processes, 2 to MaxNodes
	Messages int // of all processes together, replies included
	Faults   Faults
	Network  Network // without some kinds of Faults if it is Arctic
	Shape    Shape   // of a Swarm the seed draws more; see Drawn
	// Direct gives each node a card of its own, on a direct port of a host (engine.Config.Direct),
	// with a switch between them (sim.Switch). It excludes Moves and Arctic.
	Direct bool
	// Profile is the hardware profile, as hwprofiles.Load has it, whose times and limits the cards
	// have. If it is empty, or has no machine, as native, the seed draws the limits, and no unit
	// takes time. The network is drawn from the seed in either case, and programs are not slowed
	// down.
	Profile string
	// Trace and Capture, if not nil, get a trace and a capture of the run.
	Trace, Capture io.Writer
}

// String returns the arguments of the command that runs the scenario again.
func (s Scenario) String() string {
	text := ""
	if s.Shape != Given {
		text = fmt.Sprintf("--shape %v ", s.Shape)
	}
	text += fmt.Sprintf("--seed %d --nodes %d --messages %d --faults %v", s.Seed, s.Nodes, s.Messages, s.Faults)
	if s.Network != Ethernet || s.Shape == Swarm {
		text += fmt.Sprintf(" --network %v", s.Network)
	}
	if s.Profile != "" && (s.Profile != Native || s.Shape == Swarm) {
		text += fmt.Sprintf(" --profile %s", s.Profile)
	}
	if s.Direct || s.Shape == Swarm {
		text += fmt.Sprintf(" --direct=%t", s.Direct)
	}
	return text
}

// Native is the profile that gives no times.
const Native = "native"

// Result counts the fates of the messages of a scenario, or of several.
type Result struct {
	Messages       int `json:"messages"`
	Transfers      int `json:"transfers"` // of the messages, those that transfer memory
	Delivered      int `json:"delivered"`
	ReportedFailed int `json:"reported_failed"`
	Both           int `json:"delivered_and_reported"` // of those two; the acknowledgment was lost
	// Ended counts messages that are neither, because sender or receiver ended before the fate was
	// reported. With it Delivered + ReportedFailed - Both + Ended + Lost is Messages.
	Ended        int `json:"ended_with_process"`
	Lost         int `json:"lost"`
	Duplicated   int `json:"duplicated"`
	Misdelivered int `json:"misdelivered"`
	Damaged      int `json:"damaged"`
	// Stuck counts scenarios that did not fall silent in time, or fell silent with
	// something left in a card, or ended in a panic.
	Stuck int `json:"stuck"`
	// Undecided counts words of windows for which the search for an order of their operations ended
	// before it found one (linearize.go). That breaks no promise.
	Undecided int `json:"undecided"`

	Events   uint64   `json:"-"`
	Hash     uint64   `json:"-"` // of the run; see sim.World.Hash
	Virtual  int64    `json:"-"` // ns that it took in the world
	Failures []string `json:"-"` // the first ones, in words
	triggers uint64   // that the last lives of the cards have answered
	strays   int      // messages to nobody
	parted   int      // messages that came back because their receiver was in another job
}

// Failed reports whether any promise was broken.
func (r *Result) Failed() bool {
	return r.Lost+r.Duplicated+r.Misdelivered+r.Damaged+r.Stuck != 0
}

// patience is how long, in virtual time, a fair network may make no progress while something is
// outstanding. It is longer than the longest timer of the cards, by which ends of paths ask.
const patience = int64(7 * time.Second)

type run struct {
	plan
	scenario   Scenario
	result     Result
	oracle     oracle
	world      *sim.World
	net        network
	ethernet   *sim.Ethernet // nil on Arctic
	spy        *spy          // nil: there is none
	ghosts     *ghosts       // nil on Arctic, which holds no frame back
	key        *link.Key     // nil: there is none
	gates      *gates        // nil: cards are not direct
	notices    *notices      // nil: funids send no notices
	members    []*member
	byCard     [][]*member
	lives      uint32
	jobs       map[half]uint32     // the job that has the GID there, from 0
	newest     map[uint16]uint32   // the newest job, by GID
	homes      map[uint16][]uint32 // route tables of groups whose processes have moved
	moved      int
	signs      map[half][]*engine.Context // left behind by the processes that moved
	fair       int64                      // the time when all faults are over
	stop       func() bool                // nil: nothing ends the run early
	probing    bool
	sessions   []*session
	closedKeys int                // counts writes that were tried with keys that were closed
	trees      map[uint16][]*tree // by GID
	multicasts []*multicast
	// What was checked: multicasts that came to all, and copies that came.
	carried, copies int
	windows         []*windows
	lines           []*lines // of each path, by its number
	linesReceived   int
	operations      []*operation
	letters         []*letter
	received        int // letters that were checked where they came
	// What was checked: operations in an order, and puts, gets and locks that were carried out.
	orders, puts, gets, locks int
}

// Run runs a scenario. For an impossible one it returns Check's error in Failures, and counts it as
// stuck.
func Run(s Scenario) Result { return runOf(s, nil).result }

// runOf runs a scenario and returns the run with all its records. Unless stop is nil, it is called
// after every event. A run that it ends has no result.
func runOf(s Scenario, stop func() bool) (r *run) {
	p, err := s.ready()
	if err != nil {
		return &run{result: Result{Stuck: 1, Failures: []string{err.Error()}}}
	}
	r = &run{plan: p, stop: stop, scenario: s, jobs: map[half]uint32{}, newest: map[uint16]uint32{},
		homes: map[uint16][]uint32{}, signs: map[half][]*engine.Context{}, trees: map[uint16][]*tree{}}
	defer func() {
		if p := recover(); p != nil {
			r.stuck("panic: %v", p)
			r.finish()
		}
	}()
	r.build()
	if s.Trace != nil {
		r.world.Trace(s.Trace)
	}
	if s.Capture != nil {
		r.world.Capture(s.Capture)
	}
	if r.happen() && (r.scenario.Faults&remote == 0 || r.settle()) {
		r.probe()
	}
	r.finish()
	return r
}

// quota reports whether messages of the scenario are left to be sent.
func (r *run) quota() bool { return len(r.oracle.messages) < r.scenario.Messages }

// more reports whether any message may be sent.
func (r *run) more() bool { return r.probing || r.quota() }

// transfers reports whether programs transfer memory.
func (r *run) transfers() bool { return r.scenario.Faults&Transfer != 0 }

func (r *run) build() {
	r.world = sim.NewWorld(sim.Options{Watch: r.watch, Remote: r.scenario.remoteSizes(), IssueByTrigger: r.byTrigger})
	r.byCard = make([][]*member, r.cards)
	byGroup := map[uint16][]int32{}
	for i, at := range r.plan.members {
		m := &member{place: at, number: i, run: r}
		r.members = append(r.members, m)
		r.byCard[at.card] = append(r.byCard[at.card], m)
		byGroup[at.gid] = append(byGroup[at.gid], int32(i))
	}
	for _, m := range r.members {
		if m.peers = byGroup[m.gid]; r.trees[m.gid] == nil && r.scenario.Faults&Chains != 0 {
			r.plant(m.gid, m.peers)
		}
		m.targets = arena{first: targetBase, seam: targetBase + uint32(r.segment)/2,
			end: targetBase + uint32(r.segment)}
	}
	if r.keyed {
		r.key = must(link.NewKey([]byte(fmt.Sprintf("%032d", r.scenario.Seed+1))))
	}
	r.oracle = oracle{seed: r.scenario.Seed, members: r.members, result: &r.result, now: r.world.Now,
		messages: make([]message, 0, min(r.scenario.Messages, 1<<20))}
	if faults := r.scenario.Faults; faults&(Forge|Replay) != 0 {
		if faults&Forge != 0 && r.keyed { // a silent peer; somebody else says that it has no key
			r.oracle.excused = append(r.oracle.excused, arctic.ReasonKey)
		}
		// an answer that was made up, or with and without a key of an earlier life of a peer
		// (engine/link/handshake.go)
		if !r.keyed || faults&Replay != 0 {
			r.oracle.excused = append(r.oracle.excused, arctic.ReasonResynchronised)
		}
	}
	// a card that was out of reach when it was told (engine/forward.go)
	if r.scenario.Faults&Moves != 0 && r.scenario.Faults&^calm != 0 {
		r.oracle.excused = append(r.oracle.excused, arctic.ReasonSourceNode)
	}
	succeed(r.connect())
	for i := range r.cards {
		r.start(i, 0)
	}
	for _, e := range r.scenario.episodes(&r.plan) {
		r.fair = max(r.fair, e.ends)
		r.world.At(e.at, func() { r.strike(&e) })
	}
	r.fair = max(r.fair, r.horizon)
	r.world.At(r.fair, r.heal)
}

// start begins a new life of card i, and of its processes after the given delay.
func (r *run) start(i int, delay int64) {
	c := r.world.Cards()[i]
	r.lives++
	cfg := engine.Native()
	cfg.Card, cfg.Incarnation, cfg.Seed, cfg.Routes = uint16(i), r.lives*2654435761|1,
		r.scenario.Seed+uint64(r.lives), r.routes
	cfg.Peers, cfg.Readable = r.peers(i), r.readable
	// as a daemon's card, which is told of groups that have nobody here yet
	cfg.AnyGroup = r.scenario.Faults&Moves != 0
	cfg.Defers = r.scenario.Faults&Defer != 0
	if r.gates != nil {
		if until := r.admit(i, &cfg); until > 0 {
			r.world.At(until, func() {
				if c.Engine() == nil {
					r.start(i, delay)
				}
			})
			return
		}
	}
	r.tune(&cfg)
	if r.notices != nil {
		r.born(i, &cfg)
	}
	if r.ghosts != nil {
		r.ghosts.born(i, cfg.Incarnation)
	}
	succeed(c.Start(cfg))
	e := c.Engine()
	r.routesOf(e, slices.Sorted(maps.Keys(r.homes))...)
	for h := range r.signs {
		if h.card == i {
			delete(r.signs, h) // they went with the card's life before
		}
	}
	attach := func() {
		if c.Engine() != e {
			return // crashed again before its processes were back
		}
		for _, m := range r.byCard[i] {
			r.attach(m)
		}
	}
	if delay == 0 {
		attach()
	} else {
		r.world.At(r.world.Now()+delay, attach)
	}
}

// byTrigger reports whether the member at a place issues by triggers.
func (r *run) byTrigger(gid, node uint16) bool {
	for _, m := range r.members {
		if m.gid == gid && m.node == node && r.plan.triggers != nil {
			return r.plan.triggers[m.number]
		}
	}
	return false
}

// attach makes a process for a member without one, on its card, which must be up.
func (r *run) attach(m *member) {
	if m.process != nil {
		return
	}
	m.random = rand.New(rand.NewPCG(r.scenario.Seed, streamMembers+uint64(m.number)<<16+uint64(m.deaths)))
	m.job = r.jobs[half{m.gid, m.card}]
	// The process is known before its program runs.
	m.process = must(r.world.Cards()[m.card].RunIn(m.gid, m.node, r.tag(m.job), r.queue(m.number), m.program))
	m.attached++
	if r.scenario.Faults&Moves != 0 {
		r.routesOf(r.world.Cards()[m.card].Engine(), m.gid)
	}
	if r.transfers() {
		m.newMemory()
	}
	if r.scenario.Faults&remote != 0 {
		m.newKeyed()
	}
	if m.inbox = nil; r.scenario.Faults&Sends != 0 {
		m.newInbox()
	}
	if m.windows = nil; r.scenario.Faults&RMA != 0 {
		m.newWindows()
	}
	if m.paths = nil; r.scenario.Faults&Paths != 0 {
		m.newPaths()
	}
	m.leaves()
}

// half is the part of a job that is on one card.
type half struct {
	gid  uint16
	card int
}

// tag returns the tag of the job with a number. It does not depend on the GID, so that tags tell
// jobs apart and nothing else: the card tells groups apart.
func (r *run) tag(job uint32) uint64 { return (r.scenario.Seed + uint64(job) + 1) * 0x9e3779b97f4a7c15 }

// watch checks what must hold after every event.
func (r *run) watch(c *sim.Card) {
	for _, m := range r.byCard[c.Number()] {
		if m.process != nil {
			r.oracle.indices(m)
		}
		if m.memory != nil {
			m.watchMemory()
		}
	}
	if r.notices != nil {
		r.heed(c)
	}
}

// happen runs the world until it is silent, and reports whether it became silent with nothing left
// anywhere.
func (r *run) happen() bool {
	for {
		last := max(r.oracle.progress, r.fair)
		if !r.world.Run(last+patience, r.stop) {
			return r.clean()
		}
		if r.stop != nil && r.stop() {
			return false
		}
		if max(r.oracle.progress, r.fair) == last {
			r.stuck("no silence: %d messages sent, nothing arrived for %v, and the next event is due at %d ns%s",
				len(r.oracle.messages), time.Duration(patience), r.world.Next(), r.busy())
			return false
		}
	}
}

// probe makes every member send to others on the fair and silent network, twice. In the first round
// a card may learn that another has restarted since they last met, and then its messages fail. In
// the second round nothing may fail.
func (r *run) probe() {
	r.probing = true
	for range 2 {
		r.oracle.probes = append(r.oracle.probes, len(r.oracle.messages))
		for _, m := range r.members {
			for k := range min(len(m.peers), 16) {
				m.probes = append(m.probes, m.peers[(m.number+k)%len(m.peers)])
			}
			m.process.Wake()
		}
		r.fair = r.world.Now()
		if !r.happen() {
			return
		}
		// a card that has heard of an end, and not of what followed, is wrong for so long
		if r.notices != nil {
			r.world.At(r.world.Now()+r.notices.connect, func() {})
			if !r.happen() {
				return
			}
		}
	}
}

func (r *run) busy() (s string) {
	for _, m := range r.members {
		if m.process != nil && !m.process.Context().Idle() {
			s += fmt.Sprintf("; member %d on card %d has work left, TICKET %#x", m.number, m.card,
				m.process.Memory().Page.Load(15))
		}
	}
	return s
}

// clean reports whether nothing is left in cards and network of a silent world.
func (r *run) clean() bool {
	switch s, n := r.busy(), r.net.UnderWay(); {
	case s != "":
		r.stuck("silent%s", s)
	case n != 0:
		r.stuck("silent, but %d frames wait in cards' ports", n)
	case r.quota():
		r.stuck("silent after %d of %d messages", len(r.oracle.messages), r.scenario.Messages)
	}
	return r.result.Stuck == 0
}

// finish counts the messages and ends everything.
func (r *run) finish() {
	if r.world == nil {
		return
	}
	r.oracle.account()
	if r.gates != nil && r.gates.between.Guard.Refused > 0 {
		r.damaged("%d frames left cards that no port lets pass", r.gates.between.Guard.Refused)
	}
	for _, c := range r.world.Cards() {
		if e := c.Engine(); e != nil {
			r.result.triggers += e.Counters().Triggers
		}
	}
	r.result.Events, r.result.Hash, r.result.Virtual = r.world.Events(), r.world.Hash(), r.world.Now()
	if err := r.world.CloseTrace(); err != nil {
		r.result.Failures = append(r.result.Failures, err.Error())
	}
	r.world.Close()
}
