package daemon

// This file is the daemon's report of traffic, for programs that read it again and again. It has
// the card's sums, the traffic of each context, the reasons of rejects, and the round trips of the
// peers. An ordinary user sees the sums, the peers' round trips and its own contexts.

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/engine"
)

// The room in an answer: for jobs at less than 300 bytes each, contexts at less than 370, and peers
// at less than 110. The rest of the answer has 8 KB.
const (
	trafficJobs     = 40
	trafficContexts = 96
	trafficPeers    = 48
)

func (c *connection) traffic(*nothing) error {
	t, err := c.trafficFor()
	if err != nil {
		return err
	}
	return c.answerJSON(attach.KindTraffic, t)
}

// trafficFor collects the traffic that the user may see.
func (c *connection) trafficFor() (*report.Traffic, error) {
	d, p := c.d, &c.peer
	all := d.administrator(p)
	t := &report.Traffic{}
	var here, there engine.Rejections
	contexts := make([]report.ContextTraffic, 0, 64)
	err := c.onCard(nil, func() {
		t.Time, t.Incarnation, t.Card = time.Now(), d.incarnation.Load(), d.loop.card.Counters()
		here, there = d.loop.card.Rejections()
	})
	rows := map[*row]int{} // by their places in contexts
	if err == nil {
		err = c.eachContext(func(a *attachment) {
			if !all && a.account != p.account {
				return
			}
			moved := a.ctx.Traffic()
			if i, ok := rows[a.row]; ok {
				contexts[i].Contexts++
				contexts[i].Add(&moved)
				return
			}
			x := report.ContextTraffic{Context: a.ctx.Bell(), GID: a.job.gid, Node: a.node, PID: a.conn.peer.pid,
				Traffic: moved}
			if a.row != nil {
				rows[a.row] = len(contexts)
				x.Context, x.Node, x.Contexts = a.first().ctx.Bell(), a.first().node, 1
			}
			contexts = append(contexts, x)
		})
	}
	if err != nil {
		return nil, err
	}
	t.Rejected, t.RejectedThem = rejections(&here), rejections(&there)
	sums := map[uint16]*report.JobTraffic{}
	jobs := []report.JobTraffic{}
	for i := range contexts {
		x := &contexts[i]
		if sums[x.GID] == nil {
			sums[x.GID] = &report.JobTraffic{GID: x.GID}
		}
		sums[x.GID].Add(&x.Traffic)
	}
	for _, j := range sums {
		jobs = append(jobs, *j)
	}
	busiest := func(a, b *engine.Traffic) int { return cmp.Compare(b.Sent+b.Received, a.Sent+a.Received) }
	slices.SortFunc(jobs, func(a, b report.JobTraffic) int {
		return cmp.Or(busiest(&a.Traffic, &b.Traffic), cmp.Compare(a.GID, b.GID))
	})
	slices.SortFunc(contexts, func(a, b report.ContextTraffic) int {
		return cmp.Or(busiest(&a.Traffic, &b.Traffic), cmp.Compare(a.Context, b.Context))
	})
	t.Jobs, t.Contexts = jobs[:min(len(jobs), trafficJobs)], contexts[:min(len(contexts), trafficContexts)]
	look, err := d.lookAtPeers()
	if err != nil {
		return nil, err
	}
	t.Peers, t.RoundTrips = look.Peers, make([]report.RoundTrip, 0, len(look.first))
	for _, r := range look.first {
		if !all {
			r.InFlight = 0
		}
		t.RoundTrips = append(t.RoundTrips, r)
	}
	t.LeftOut = len(jobs) - len(t.Jobs) + len(contexts) - len(t.Contexts) + look.Measured - len(t.RoundTrips)
	return t, nil
}

// strike takes an ending context off the lists of the card's thread, and adds its traffic to its
// job's.
func (l *loop) strike(a *attachment) {
	if a == a.first() {
		l.unwatch(a.card)
	}
	if l.share != nil {
		l.share.Leave(turn{l.card, a})
	}
	t := a.ctx.Traffic()
	a.job.moved.Add(&t)
	l.byBell[a.ctx.Bell()] = nil
	delete(l.byPlace, place{a.job.gid, a.node})
}

// jobTraffic returns the traffic of each job on this card since it was made, and the faults that
// the card has reported of its processes.
func (c *connection) jobTraffic(jobs []*job) ([]engine.Traffic, []report.Faults) {
	sums, faults := make([]engine.Traffic, len(jobs)), make([]report.Faults, len(jobs))
	at := make(map[*job]int, len(jobs))
	for i, j := range jobs {
		at[j] = i
	}
	_ = c.onCard(nil, func() { // a card that has ended moves nothing more, and counts nothing
		for i, j := range jobs {
			sums[i], faults[i] = j.moved, j.faults
		}
	})
	_ = c.eachContext(func(a *attachment) {
		if i, ok := at[a.job]; ok {
			t := a.ctx.Traffic()
			sums[i].Add(&t)
		}
	})
	return sums, faults
}

// unknownReason stands for the reasons of rejects that this version does not know.
const unknownReason = "unknown"

// rejections lists the reasons with their counts, in the order of the reasons.
func rejections(r *engine.Rejections) (all []report.Rejected) {
	r.Each(func(why arctic.Reason, n uint64) {
		name := why.String()
		if why == arctic.ReasonNone {
			name = unknownReason
		}
		all = append(all, report.Rejected{Reason: name, Packets: n})
	})
	return all
}

const (
	peersAtOnce = 512 // how many peers the card's thread looks at in one command
	// peersEvery is the least time between two looks at all of them, however many ask.
	peersEvery = 500 * time.Millisecond
)

type peersLook struct {
	report.Peers
	first   []report.RoundTrip         // as Traffic.RoundTrips
	refused map[uint16]engine.KeyState // the first tellPeers that are refused for their keys
}

// peersSeen caches the last look.
type peersSeen struct {
	mu   sync.Mutex
	at   time.Time
	look peersLook
}

// lookAtPeers returns the state of the peers, at most peersEvery old.
func (d *Daemon) lookAtPeers() (peersLook, error) {
	d.seen.mu.Lock()
	defer d.seen.mu.Unlock()
	if time.Since(d.seen.at) < peersEvery {
		return d.seen.look, nil
	}
	look := peersLook{refused: map[uint16]engine.KeyState{}}
	var all []report.RoundTrip
	states := make([]engine.PeerState, 0, peersAtOnce)
	for from, more := 0, true; more; more = from != 0 {
		states = states[:0]
		err := d.loop.do(func() {
			from = d.loop.card.PeerStates(from, peersAtOnce, func(s engine.PeerState) { states = append(states, s) })
		})
		if err != nil {
			return look, err
		}
		for _, s := range states {
			look.Known++
			if s.Established {
				look.Established++
			}
			switch {
			case s.Key == engine.Sealed:
				look.Sealed++
				if s.Readable {
					look.Readable++
				}
			case s.Key.Refused():
				if look.Refused++; look.Refused == 1 {
					look.KeyFault = fmt.Sprintf("card %d: %v", s.Card, s.Key)
				}
				if len(look.refused) < tellPeers {
					look.refused[s.Card] = s.Key
				}
			}
			if s.RoundTrip > 0 {
				all = append(all, report.RoundTrip{Card: s.Card, RoundTrip: int64(s.RoundTrip),
					Variation: int64(s.Variation), InFlight: s.InFlight})
			}
		}
	}
	look.summarize(all)
	d.seen.at, d.seen.look = time.Now(), look
	return look, nil
}

// summarize fills in the quantiles and the first of the measured peers.
func (l *peersLook) summarize(all []report.RoundTrip) {
	l.Measured = len(all)
	if len(all) == 0 {
		return
	}
	slices.SortFunc(all, func(a, b report.RoundTrip) int { return cmp.Compare(a.RoundTrip, b.RoundTrip) })
	at := func(q float64) int64 { return all[max(int(math.Ceil(q*float64(len(all))))-1, 0)].RoundTrip }
	l.Shortest, l.Median, l.P99, l.Longest = at(0), at(0.5), at(0.99), at(1)
	owes := func(r report.RoundTrip) int { return min(r.InFlight, 1) }
	slices.SortFunc(all, func(a, b report.RoundTrip) int {
		return cmp.Or(cmp.Compare(owes(b), owes(a)), cmp.Compare(b.RoundTrip, a.RoundTrip), cmp.Compare(a.Card, b.Card))
	})
	l.first = slices.Clone(all[:min(len(all), trafficPeers)])
}
