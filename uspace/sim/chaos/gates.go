package chaos

// This file is direct ports that come and go. Each life of a card has a port of its own, on the
// same host as the last or on another. Hosts hear of the port late, or when their funid runs again.

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/engine/link"
	"github.com/funet/funet/uspace/sim"
)

// gates has the ports of a scenario's direct cards, by card.
type gates struct {
	random  *rand.Rand
	between *sim.Switch
	host    []int // where the port of a card is, or was last
	jobs    []sim.Job
	// stopped has, by host, the time until which its funid does not run. Until then nothing changes
	// in the host's table, and no port is made there.
	stopped []int64
}

// newGates puts the switch between the cards.
func (r *run) newGates() *gates {
	g := &gates{random: r.scenario.stream(streamFaults + 23), between: r.ethernet.Switch(r.hosts),
		stopped: make([]int64, r.hosts), jobs: make([]sim.Job, r.cards)}
	for range r.cards {
		g.host = append(g.host, g.random.IntN(r.hosts))
	}
	return g
}

// admit opens the port of a card that begins a life, and makes the card its job's. If the host's
// funid does not run, admit returns the time until which it is stopped.
func (r *run) admit(i int, cfg *engine.Config) (until int64) {
	g, m := r.gates, r.members[i]
	if r.scenario.Faults&Ports != 0 && g.random.IntN(2) == 0 {
		g.host[i] = g.random.IntN(r.hosts)
	}
	if until := g.stopped[g.host[i]]; until > r.world.Now() {
		return until
	}
	job := r.jobs[half{m.gid, i}]
	tag := r.tag(job)
	cfg.Card, cfg.Direct, cfg.Routes = m.node, &tag, r.routes[:r.jobNodes[m.gid]]
	key := r.jobKey(sim.Job{Tag: tag, GID: m.gid})
	cfg.Peers = nil
	for node := range cfg.Routes {
		if uint16(node) != m.node {
			cfg.Peers = append(cfg.Peers, engine.Peer{Card: uint16(node), Key: key})
		}
	}
	g.jobs[i] = sim.Job{Tag: tag, GID: m.gid}
	succeed(g.between.Open(i, g.host[i], g.jobs[i], m.node))
	r.announce(i)
	return 0
}

// jobKey returns the key of a job; nil: there is none.
func (r *run) jobKey(job sim.Job) *link.Key {
	if r.key == nil {
		return nil
	}
	return must(link.NewKey(r.key.Job(job.GID, binary.LittleEndian.AppendUint64(nil, job.Tag))))
}

// part ends the port of a card whose life is over.
func (r *run) part(i int) {
	if r.gates != nil {
		r.gates.between.Close(i)
		r.over(i)
		r.announce(i)
	}
}

// announce tells all hosts where a card's node is: at once, or with the fault Ports at any time.
func (r *run) announce(i int) {
	job, node := r.gates.jobs[i], r.members[i].node
	for host := range r.hosts {
		if host == r.gates.host[i] {
			continue
		}
		var late int64
		if r.scenario.Faults&Ports != 0 {
			late = r.gates.random.Int64N(int64(10*time.Microsecond) << r.gates.random.IntN(14))
		}
		r.hear(host, job, node, r.world.Now()+late)
	}
}

// hear tells a host of a node at a time, or when its funid runs again.
func (r *run) hear(host int, job sim.Job, node uint16, at int64) {
	if at = max(at, r.gates.stopped[host]); at > r.world.Now() {
		r.world.At(at, func() { r.hear(host, job, node, 0) })
		return
	}
	r.gates.between.Hear(host, job, node)
}

// unsettle ends the port of a card, or stops the funid of a host.
func (r *run) unsettle(e *episode, i int) {
	if host := e.random.IntN(r.hosts); e.random.IntN(2) == 0 {
		r.gates.stopped[host] = max(r.gates.stopped[host], e.ends)
		return
	}
	r.endCard(e, i)
}

// endCard ends a card and its process, with or without a goodbye, until the end of the episode.
func (r *run) endCard(e *episode, i int) {
	c := r.world.Cards()[i]
	switch {
	case c.Engine() == nil:
		return
	case e.random.IntN(2) == 0:
		r.leave(c)
	default:
		c.Crash()
	}
	r.down(e, i)
}

// pretend returns the header of a frame by which a stranger on the wire pretends to be one card
// that sends to another.
func (r *run) pretend(as, to int) arctic.Header {
	h := arctic.Header{To: sim.Address(to), From: sim.Address(as), Route: uint32(to), SourceCard: uint16(as),
		DestinationCard: uint16(to)}
	if g := r.gates; g != nil {
		h.To, h.From, h.Route = sim.Address(g.host[to]), sim.Address(g.host[as]), uint32(r.members[to].node)
		h.SourceCard, h.DestinationCard = r.members[as].node, r.members[to].node
		h.Direct, h.Tag, h.GID = true, g.jobs[to].Tag, g.jobs[to].GID
	}
	return h
}
