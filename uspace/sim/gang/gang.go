package gang

// This file is hosts on which jobs take turns.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/sim"
	"github.com/funet/funet/uspace/turns"
)

const (
	// bandwidth and delay are those of the Ethernet, in bits a second and one way.
	bandwidth, delay = 10e9, 10 * time.Microsecond
	// tellEvery is how often a clock tells its time, as stations do.
	tellEvery = 100 * time.Millisecond
	// lieEvery is how often the liar does.
	lieEvery = 50 * time.Millisecond
	// firstGID is the GID of the first job; further jobs have the next ones.
	firstGID = 10
)

// Config configures hosts.
type Config struct {
	Hosts    int // MinHosts to MaxHosts
	Seed     uint64
	Together bool // they take turns together
	// Liar adds a card with a lower number than all others, which tells each host another time.
	Liar bool
}

// Gang is hosts. Close ends it.
type Gang struct {
	w      *sim.World
	hosts  []*host
	rounds []int // by job: rounds that its first node has completed
	random *rand.Rand
	err    error // the first thing that went wrong
}

// host is a host with a card and a clock of its own.
type host struct {
	card  *sim.Card
	turns *turns.Turns
	clock *turns.Clock // nil: it takes its turns alone
	began int64        // its own time at the beginning of the world
	fast  float64      // how much faster than the world's its time runs
	due   int64        // world time of the next step of the turns
	dead  bool         // its clock says nothing any more
}

// own returns the host's own time.
func (h *host) own(world int64) int64 { return h.began + world + int64(float64(world)*h.fast) }

// New makes hosts.
func New(c Config) (*Gang, error) {
	g := &Gang{w: sim.NewWorld(sim.Options{}), random: rand.New(rand.NewPCG(c.Seed, 1))}
	net := g.w.NewEthernet(sim.EthernetConfig{Seed: c.Seed, Bandwidth: bandwidth, Delay: delay})
	for i := range c.Hosts {
		card := g.w.NewCard(net.Plug())
		e := engine.Native()
		e.Card, e.Incarnation, e.Seed = uint16(i), uint32(i+1), c.Seed+uint64(i)
		for j := range c.Hosts {
			e.Routes = append(e.Routes, uint32(j))
			if j != i {
				e.Peers = append(e.Peers, engine.Peer{Card: uint16(j), Address: sim.Address(j), Local: sim.Address(i)})
			}
		}
		if err := card.Start(e); err != nil {
			g.Close()
			return nil, err
		}
		h := &host{card: card, began: g.random.Int64N(int64(time.Hour)), fast: (g.random.Float64() - 0.5) / 5000}
		if c.Together {
			h.clock = turns.NewClock(CardOf(i), h.began)
		}
		h.turns = turns.New(1, h.clock)
		g.hosts = append(g.hosts, h)
		if c.Together {
			g.tell(i)
		}
	}
	if c.Liar {
		g.Lie()
	}
	return g, nil
}

// Close ends it.
func (g *Gang) Close() { g.w.Close() }

// CardOf returns the card whose time a host's clock tells. Card 0 is the liar's.
func CardOf(host int) uint16 { return uint16(host + 1) }

// tell has a host tell its time to all others, again and again.
func (g *Gang) tell(from int) {
	h := g.hosts[from]
	if h.dead {
		return
	}
	if told, ok := h.clock.Tell(h.own(g.w.Now())); ok {
		for _, other := range g.hosts {
			if other != h && g.random.IntN(10) > 0 { // some are lost
				g.w.At(g.w.Now()+20_000+g.random.Int64N(100_000), func() {
					other.clock.Heard(other.own(g.w.Now()), CardOf(from), told)
				})
			}
		}
	}
	g.w.At(g.w.Now()+int64(tellEvery), func() { g.tell(from) })
}

// Lie has card 0 tell each host another time, again and again: a turn apart, and for ever.
func (g *Gang) Lie() {
	for i, h := range g.hosts {
		h.clock.Heard(h.own(g.w.Now()), 0, uint64(g.w.Now()+int64(i)*turns.Turn)+1<<40)
	}
	g.w.At(g.w.Now()+int64(lieEvery), g.Lie)
}

// Die has a host's clock fall silent. Its card goes on.
func (g *Gang) Die(host int) { g.hosts[host].dead = true }

// Clock says how a host's clock stands.
func (g *Gang) Clock(host int) turns.State {
	h := g.hosts[host]
	return h.clock.State(h.own(g.w.Now()))
}

// step steps a host's turns, and again when they say.
func (g *Gang) step(h *host) {
	now := h.own(g.w.Now())
	if next := h.turns.Step(now); next != turns.Never {
		h.due = g.w.Now() + max(1000, next-now)
		due := h.due
		g.w.At(due, func() {
			if h.due == due {
				g.step(h)
			}
		})
	}
}

// Start starts a job of one process on each of some hosts, which take turns from some time within
// 50 ms on.
func (g *Gang) Start(on ...int) error {
	job := len(g.rounds)
	g.rounds = append(g.rounds, 0)
	gid := uint16(firstGID + job)
	for _, i := range on {
		h := g.hosts[i]
		p, err := h.card.Run(gid, uint16(i), 64, func(p *sim.Process) error { return g.exchange(p, job, on) })
		if err != nil {
			return err
		}
		g.w.At(g.w.Now()+g.random.Int64N(int64(50*time.Millisecond)), func() {
			h.turns.Enter(gid, len(on), &member{g: g, p: p})
			g.step(h)
		})
	}
	return nil
}

// exchange is a process of a job.
func (g *Gang) exchange(p *sim.Process, job int, on []int) error {
	self := int(p.Context().Node())
	heard := make([]int, len(g.hosts))
	late := func(round int) bool {
		return slices.ContainsFunc(on, func(node int) bool { return heard[node] < round })
	}
	for round := 1; ; round++ {
		for _, to := range on {
			if to == self {
				continue
			}
			for p.Interface().Reserve(funi.Request) == nil {
				p.Drive()
			}
			p.Interface().Reserve(funi.Request).SetHeader(funi.NewHeader(uint16(to), 1, 1))
			p.Interface().Commit(funi.Request)
		}
		heard[self] = round
		for late(round) {
			for s := p.Interface().Receive(funi.Request); s != nil; s = p.Interface().Receive(funi.Request) {
				heard[s.Source()]++
				p.Interface().Release(funi.Request)
			}
			if r, ok := p.Interface().NextReturn(); ok {
				return fmt.Errorf("node %d: a message came back: %v", self, r.Reason)
			}
			p.Drive()
		}
		if self == on[0] {
			g.rounds[job]++
		}
	}
}

// Pass lets time pass, until the context ends.
func (g *Gang) Pass(ctx context.Context, d time.Duration) error {
	g.w.Run(g.w.Now()+int64(d), func() bool { return ctx.Err() != nil })
	if err := errors.Join(ctx.Err(), g.err); err != nil {
		return err
	}
	for _, h := range g.hosts {
		for _, p := range h.card.Processes() {
			if ended, err := p.Ended(); ended {
				return fmt.Errorf("a process has ended: %w", err)
			}
		}
	}
	return nil
}

// Rates lets time pass and returns the rounds of each job a second.
func (g *Gang) Rates(ctx context.Context, d time.Duration) (all []float64, err error) {
	before := slices.Clone(g.rounds)
	if err := g.Pass(ctx, d); err != nil {
		return nil, err
	}
	for i := range before {
		all = append(all, float64(g.rounds[i]-before[i])/d.Seconds())
	}
	return all, nil
}

// member is a process's context, which goes on while it is off the card, as a daemon's does.
type member struct {
	g     *Gang
	p     *sim.Process
	saved *engine.Saved
}

// Out implements turns.Member.
func (m *member) Out(unacknowledged bool) bool {
	if m.saved != nil {
		return true
	}
	saved, err := m.p.Card().Engine().SwitchOut(m.p.Context(), unacknowledged)
	m.p.Card().Tell(func(*engine.Card) {})
	if errors.Is(err, engine.ErrNotReady) {
		return false
	}
	if err != nil {
		m.g.err = errors.Join(m.g.err, err)
		return true
	}
	saved.Live, m.saved = true, saved
	return true
}

// In implements turns.Member.
func (m *member) In() {
	if m.saved == nil {
		return
	}
	if err := m.p.Card().Engine().SwitchIn(m.saved); err != nil {
		m.g.err = errors.Join(m.g.err, err)
	}
	m.saved = nil
	m.p.Card().Tell(func(*engine.Card) {})
}

// Waits implements turns.Member.
func (m *member) Waits() bool {
	if m.saved == nil {
		return !m.p.Context().Idle()
	}
	return m.saved.Waits()
}

// Moved implements turns.Member.
func (m *member) Moved() uint64 {
	n := m.p.Context().Traffic()
	return n.Sent + n.Received + n.Returned
}
