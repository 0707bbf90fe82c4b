package daemon

// This file is the daemon's report of traffic, for programs that read it again and again. It has
// the card's sums, the traffic of each context, the reasons of rejects, and the round trips of the
// peers. An ordinary user sees the sums, the peers' round trips and its own contexts, an
// administrator all.

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/engine"
)

// Traffic is the JSON of an answer to KindTraffic. All numbers except those of Peers are totals
// since the card was made, or the context attached. Time is when they were read.
type Traffic struct {
	Time time.Time `json:"time"`
	// Incarnation is that of the card: with another card the totals begin anew.
	Incarnation  uint32          `json:"incarnation"`
	Card         engine.Counters `json:"card"`
	Rejected     []Rejected      `json:"rejected"`          // packets, by this card
	RejectedThem []Rejected      `json:"rejected_by_peers"` // this card's packets
	Peers        Peers           `json:"peers"`
	// Jobs are the sums of the contexts by group, Contexts the single contexts, and RoundTrips the
	// single peers, as many of each as there is room for. Jobs and contexts that have moved most
	// come first. Of peers those that owe answers come first, then the slowest.
	Jobs       []JobTraffic     `json:"jobs"`
	Contexts   []ContextTraffic `json:"contexts"`
	RoundTrips []RoundTrip      `json:"round_trips"`
	// LeftOut counts jobs, contexts and peers for which there is no room.
	LeftOut int `json:"left_out"`
}

// Rejected is how many packets were rejected for a reason.
type Rejected struct {
	Reason  string `json:"reason"`
	Packets uint64 `json:"packets"`
}

// Peers counts the other cards, and has the quantiles of their round trips (engine.PeerState); a
// quantile of 0 says that no round trip was measured.
type Peers struct {
	Known       int `json:"known"`
	Established int `json:"established"` // they have been greeted, and not been lost since
	Sealed      int `json:"sealed"`      // they have this host's key
	// Readable counts those of them to which frames are authenticated but not encrypted.
	Readable int   `json:"readable"`
	Refused  int   `json:"key_refused"` // they have another key, or only one of the two has a key
	Measured int   `json:"measured"`
	Shortest int64 `json:"round_trip_shortest_ns"`
	Median   int64 `json:"round_trip_median_ns"`
	P99      int64 `json:"round_trip_p99_ns"`
	Longest  int64 `json:"round_trip_longest_ns"`
	// KeyFault says what is wrong with the key of the first refused peer; "": no peer was refused.
	KeyFault string `json:"key_fault,omitempty"`
}

// RoundTrip is the smoothed round trip to a peer, and its variation.
type RoundTrip struct {
	Card      uint16 `json:"card"`
	RoundTrip int64  `json:"round_trip_ns"`
	Variation int64  `json:"variation_ns"`
	InFlight  int    `json:"frames_in_flight,omitempty"` // for an administrator
}

// JobTraffic counts what the contexts of a group have moved.
type JobTraffic struct {
	GID uint16 `json:"gid"`
	engine.Traffic
}

// ContextTraffic counts what a context has moved.
type ContextTraffic struct {
	Context uint32 `json:"context"`
	GID     uint16 `json:"gid"`
	Node    uint16 `json:"node"`
	PID     int32  `json:"pid"`
	engine.Traffic
}

// The room in an answer: for jobs at less than 300 bytes each, contexts at less than 370, and peers
// at less than 110. The rest of the answer has 8 KB.
const (
	trafficJobs     = 40
	trafficContexts = 96
	trafficPeers    = 48
)

// traffic carries out KindTraffic.
func (c *connection) traffic() error {
	t, err := c.trafficFor()
	if err != nil {
		return err
	}
	return c.answerJSON(attach.KindTraffic, t)
}

// trafficFor collects the traffic that the user may see.
func (c *connection) trafficFor() (*Traffic, error) {
	d, p := c.d, &c.peer
	all := d.administrator(p)
	t := &Traffic{}
	var here, there engine.Rejections
	contexts := make([]ContextTraffic, 0, 64)
	err := c.onCard(nil, func() {
		t.Time, t.Incarnation, t.Card = time.Now(), d.incarnation.Load(), d.loop.card.Counters()
		here, there = d.loop.card.Rejections()
		for _, a := range d.loop.byBell {
			if a != nil && (all || a.account == p.account) {
				contexts = append(contexts, ContextTraffic{a.ctx.Bell(), a.job.gid, a.node, a.conn.peer.pid,
					a.ctx.Traffic()})
			}
		}
	})
	if err != nil {
		return nil, err
	}
	t.Rejected, t.RejectedThem = rejections(&here), rejections(&there)
	sums := map[uint16]*JobTraffic{}
	jobs := []JobTraffic{}
	for i := range contexts {
		x := &contexts[i]
		if sums[x.GID] == nil {
			sums[x.GID] = &JobTraffic{GID: x.GID}
		}
		sums[x.GID].Add(&x.Traffic)
	}
	for _, j := range sums {
		jobs = append(jobs, *j)
	}
	busiest := func(a, b *engine.Traffic) int { return cmp.Compare(b.Sent+b.Received, a.Sent+a.Received) }
	slices.SortFunc(jobs, func(a, b JobTraffic) int {
		return cmp.Or(busiest(&a.Traffic, &b.Traffic), cmp.Compare(a.GID, b.GID))
	})
	slices.SortFunc(contexts, func(a, b ContextTraffic) int {
		return cmp.Or(busiest(&a.Traffic, &b.Traffic), cmp.Compare(a.Context, b.Context))
	})
	t.Jobs, t.Contexts = jobs[:min(len(jobs), trafficJobs)], contexts[:min(len(contexts), trafficContexts)]
	look, err := d.lookAtPeers()
	if err != nil {
		return nil, err
	}
	t.Peers, t.RoundTrips = look.Peers, make([]RoundTrip, 0, len(look.first))
	for _, r := range look.first {
		if !all {
			r.InFlight = 0
		}
		t.RoundTrips = append(t.RoundTrips, r)
	}
	t.LeftOut = len(jobs) - len(t.Jobs) + len(contexts) - len(t.Contexts) + look.Measured - len(t.RoundTrips)
	return t, nil
}

// strike removes an ending context from the list of the card's thread, and adds its traffic to its
// job's.
func (l *loop) strike(a *attachment) {
	t := a.ctx.Traffic()
	a.job.moved.Add(&t)
	l.byBell[a.ctx.Bell()] = nil
	delete(l.byPlace, place{a.job.gid, a.node})
}

// jobTraffic returns the traffic of each job on this card since it was made, and the faults that
// the card has reported of its processes.
func (c *connection) jobTraffic(jobs []*job) ([]engine.Traffic, []Faults) {
	d := c.d
	sums, faults := make([]engine.Traffic, len(jobs)), make([]Faults, len(jobs))
	at := make(map[*job]int, len(jobs))
	for i, j := range jobs {
		at[j] = i
	}
	_ = c.onCard(nil, func() { // a card that has ended moves nothing more, and counts nothing
		for i, j := range jobs {
			sums[i], faults[i] = j.moved, j.faults
		}
		for _, a := range d.loop.byBell {
			if a == nil {
				continue
			}
			if i, ok := at[a.job]; ok {
				t := a.ctx.Traffic()
				sums[i].Add(&t)
			}
		}
	})
	return sums, faults
}

// unknownReason stands for the reasons of rejects that this version does not know.
const unknownReason = "unknown"

// rejections lists the reasons with their counts, in the order of the reasons.
func rejections(r *engine.Rejections) (all []Rejected) {
	r.Each(func(why arctic.Reason, n uint64) {
		name := why.String()
		if why == arctic.ReasonNone {
			name = unknownReason
		}
		all = append(all, Rejected{name, n})
	})
	return all
}

const (
	// peersAtOnce is how many peers the card's thread looks at in one command.
	peersAtOnce = 512
	// peersEvery is the least time between two looks at all of them, however many ask.
	peersEvery = 500 * time.Millisecond
)

// peersLook is the result of a look at all peers.
type peersLook struct {
	Peers
	first   []RoundTrip                // as Traffic.RoundTrips
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
	var all []RoundTrip
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
				all = append(all, RoundTrip{s.Card, int64(s.RoundTrip), int64(s.Variation), s.InFlight})
			}
		}
	}
	look.summarize(all)
	d.seen.at, d.seen.look = time.Now(), look
	return look, nil
}

// summarize fills in the quantiles and the first of the measured peers.
func (l *peersLook) summarize(all []RoundTrip) {
	l.Measured = len(all)
	if len(all) == 0 {
		return
	}
	slices.SortFunc(all, func(a, b RoundTrip) int { return cmp.Compare(a.RoundTrip, b.RoundTrip) })
	at := func(q float64) int64 { return all[max(int(math.Ceil(q*float64(len(all))))-1, 0)].RoundTrip }
	l.Shortest, l.Median, l.P99, l.Longest = at(0), at(0.5), at(0.99), at(1)
	owes := func(r RoundTrip) int { return min(r.InFlight, 1) }
	slices.SortFunc(all, func(a, b RoundTrip) int {
		return cmp.Or(cmp.Compare(owes(b), owes(a)), cmp.Compare(b.RoundTrip, a.RoundTrip), cmp.Compare(a.Card, b.Card))
	})
	l.first = slices.Clone(all[:min(len(all), trafficPeers)])
}
