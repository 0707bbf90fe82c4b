package paper

// This file is the workload of figure 3.21 of Froening's thesis: how long independent work waits
// behind a context whose destination does not answer, under each issue policy (3.2.6).
//
// Contexts of one card issue requests at a steady rate, each to a card of its own. One of these
// cards takes nothing from its network until some time. Its units and queues fill, then packets for
// it stay in the requesters that sent them (2.3.3). The same is run without that, and the
// difference is what the other contexts have lost. A stage takes the time of an access: the thesis
// gives none, and its units spend their time on accesses to I/O and network (3.2.5).

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/scoreboard"
	"github.com/funet/funet/uspace/sim"
)

const (
	// issuers is the number of contexts, of which the first is blocked, and issued that of the
	// requests of each.
	issuers = 16
	issued  = 64
	// issuePeriod is the slots between two requests of a context. All of them keep two requesters
	// busy for a third of the time, so one suffices while the other is blocked.
	issuePeriod = 24
	// packetQueue is the packets that a responder or completer queue has room for. It is not
	// stated; a packet has 64 bytes or more.
	packetQueue = 8
	// storeEntries is the size of the conditional store buffer if the profile states none.
	storeEntries = 4096
	// longestHop is the most slots of a hop. With such hops packets go out no faster than their
	// destinations' queues answer, and the workload ends within issueSlots.
	longestHop = 64
	// issueSlots is more than any workload takes.
	issueSlots = 1 << 16
)

// issueBlocked are the times for which the destination does not answer, in slots. The first is what
// the table has, the others are the picture's.
var issueBlocked = []int{640, 0, 128, 256, 384, 512, 768, 896, 1024}

// errWorkload reports requests that did not end, or ended out of order: a mistake of the model.
var errWorkload = errors.New("a request of the modelled units was lost, repeated or overtaken")

// policyResult is what the blocked context costs the others under a policy.
type policyResult struct {
	Policy    string      `json:"policy"`
	Issues    int         `json:"issues_per_slot"`
	Window    int         `json:"window_requests"`
	Wait      int         `json:"wait_queue_requests"`
	BlockedNS float64     `json:"blocked_ns"`      // mean of the requests of other contexts
	MostNS    int64       `json:"most_blocked_ns"` // of one of them
	Curve     []lostPoint `json:"curve"`
}

// lostPoint is a point of the picture.
type lostPoint struct {
	UnansweredNS int64   `json:"unanswered_ns"`
	BlockedNS    float64 `json:"blocked_ns"`
}

// issueReport is the workload and its results.
type issueReport struct {
	SlotNS       int64          `json:"slot_ns"`
	Contexts     int            `json:"contexts"`
	Requests     int            `json:"requests"`
	PeriodNS     int64          `json:"period_ns"`
	UnansweredNS int64          `json:"unanswered_ns"`
	Policies     []policyResult `json:"policies"`
	Order        bool           `json:"order_holds"` // each policy costs less than the one before
}

// fabric is a number of cards in virtual time, each with its units.
type fabric struct {
	w       *sim.World
	cards   []*scoreboard.Card
	flying  [][scoreboard.Kinds]int // packets on their way to a card's queues
	slot    int64
	path    int64 // from card to card
	blocked int64 // the time until which the first destination takes nothing
	due     [issuers]int
	ended   []int64 // by serial; 0: not yet
	last    map[scoreboard.Key]uint32
	left    int
	err     error
}

// slotTime returns the time of a stage in ns, in whole cycles of the units.
func slotTime(p *hwprofiles.Profile) int64 {
	cycle := max(p.Units.Clock.Duration(hwprofiles.Cycle), 1)
	return int64((p.IO.Access + cycle - 1) / cycle * cycle)
}

// storeSize returns the number of entries of the conditional store buffer.
func storeSize(p *hwprofiles.Profile) int { return cmp.Or(p.Card.CSBEntries, storeEntries) }

// newFabric makes a card that sends, and one for each of its contexts.
func newFabric(p *hwprofiles.Profile, policy scoreboard.Policy, blocked int64) (*fabric, error) {
	u := &p.Units
	f := &fabric{w: sim.NewWorld(sim.Options{}), slot: slotTime(p), blocked: blocked, left: issuers * issued,
		path: int64(hopTime(p, 1)), ended: make([]int64, issuers*issued), last: map[scoreboard.Key]uint32{}}
	config := func(units, queue int) scoreboard.Config {
		return scoreboard.Config{Units: units, Stages: u.Stages, Queue: queue, Policy: policy}
	}
	for range issuers + 1 {
		c, err := scoreboard.NewCard([scoreboard.Kinds]scoreboard.Config{config(u.Requesters, storeSize(p)),
			config(u.Responders, packetQueue), config(u.Completers, packetQueue)})
		if err != nil {
			return nil, err
		}
		f.cards = append(f.cards, c)
	}
	f.flying = make([][scoreboard.Kinds]int, len(f.cards))
	return f, nil
}

// run carries out slots until all requests have ended.
func (f *fabric) run(ctx context.Context) error {
	for n := range int64(issueSlots) {
		f.w.At(1+n*f.slot, f.step)
		for f.w.Next() <= 1+n*f.slot {
			f.w.Step()
		}
		if err := ctx.Err(); err != nil || f.left == 0 {
			return err
		}
		if f.err != nil {
			return f.err
		}
	}
	return fmt.Errorf("%w: %d have not ended", errWorkload, f.left)
}

// step carries out a slot of all cards. Each context first issues the requests whose time has come;
// what the conditional store buffer has no room for it issues in a later slot.
func (f *fabric) step() {
	for c := range issuers {
		for k := f.due[c]; k < issued && f.at(c, k) <= f.w.Now(); k++ {
			if !f.cards[0].Group(scoreboard.Requester).Offer(request(c, k)) {
				break
			}
			f.due[c] = k + 1
		}
	}
	for i, c := range f.cards {
		c.Slot(func(k scoreboard.Kind, r scoreboard.Request) bool { return f.leave(i, k, r) })
	}
}

// at returns the time at which a context issues its request k.
func (f *fabric) at(c, k int) int64 { return 1 + int64(k*issuePeriod+c*issuePeriod/issuers)*f.slot }

// request returns request k of a context. Every third context gets, the others put.
func request(c, k int) scoreboard.Request {
	t := scoreboard.Put
	if c%3 == 2 {
		t = scoreboard.Get
	}
	return scoreboard.Request{Key: scoreboard.Key{Context: uint16(c), Destination: uint16(c + 1), Type: t},
		Serial: uint32(k*issuers + c)}
}

// leave has a request leave a unit of card i, if there is room where it goes. The key of a packet
// has the card that it came from.
func (f *fabric) leave(i int, k scoreboard.Kind, r scoreboard.Request) bool {
	if i == 1 && f.w.Now() < f.blocked {
		return false
	}
	next, more := r.Type.Next(k)
	if !more {
		return f.end(r)
	}
	to := int(r.Destination)
	if f.cards[to].Group(next).Room() <= f.flying[to][next] {
		return false
	}
	f.flying[to][next]++
	r.Destination = uint16(i)
	f.w.At(f.w.Now()+f.path, func() {
		f.flying[to][next]--
		f.cards[to].Group(next).Offer(r)
	})
	return true
}

// end notes that a request has ended.
func (f *fabric) end(r scoreboard.Request) bool {
	if k := r.Key; f.ended[r.Serial] != 0 || f.last[k] > r.Serial {
		f.err = fmt.Errorf("%w: %+v", errWorkload, r)
	} else {
		f.last[k] = r.Serial
	}
	f.ended[r.Serial] = f.w.Now()
	f.left--
	return true
}

// lost runs the workload with and without the blocked context, and returns how much later the
// requests of the others end: the mean, and the most.
func lost(ctx context.Context, p *hwprofiles.Profile, policy scoreboard.Policy,
	blocked int64) (mean float64, most int64, err error) {
	var ends [2][]int64
	for i, until := range []int64{0, blocked} {
		f, err := newFabric(p, policy, until)
		if err == nil {
			err = f.run(ctx)
		}
		if err != nil {
			return 0, 0, err
		}
		ends[i] = f.ended
	}
	for serial := range ends[0] {
		if serial%issuers != 0 {
			d := ends[1][serial] - ends[0][serial]
			mean += float64(d)
			most = max(most, d)
		}
	}
	return mean / float64(issued*(issuers-1)), most, nil
}

// issue runs the workload under the four policies of 3.2.6. Look-ahead looks at as many requests as
// multi-issue, which makes their scoreboards as complex.
func issue(ctx context.Context, p *hwprofiles.Profile) (*issueReport, error) {
	slot, width := slotTime(p), p.Units.IssueWidth
	r := &issueReport{SlotNS: slot, Contexts: issuers, Requests: issuers * issued, PeriodNS: issuePeriod * slot,
		UnansweredNS: int64(issueBlocked[0]) * slot, Order: true}
	for _, x := range []struct {
		name string
		scoreboard.Policy
	}{{"single", scoreboard.Single()}, {"look_ahead", scoreboard.LookAhead(width)}, {"multi", scoreboard.Multi(width)},
		{"multi_wait_queues", scoreboard.MultiWait(width, p.Units.WaitQueue)}} {
		r.Policies = append(r.Policies, policyResult{Policy: x.name, Issues: x.Issues, Window: x.Window, Wait: x.Wait})
	}
	curves := make([]lostPoint, len(r.Policies)*len(issueBlocked))
	most := make([]int64, len(curves))
	err := each(ctx, len(curves), func(i int) (err error) {
		v := &r.Policies[i/len(issueBlocked)]
		at := int64(issueBlocked[i%len(issueBlocked)]) * slot
		curves[i].UnansweredNS = at
		policy := scoreboard.Policy{Issues: v.Issues, Window: v.Window, Wait: v.Wait}
		curves[i].BlockedNS, most[i], err = lost(ctx, p, policy, at)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("issuing by the units of %s: %w", p.Name, err)
	}
	for i := range r.Policies {
		v := &r.Policies[i]
		v.Curve = curves[i*len(issueBlocked):][:len(issueBlocked)]
		v.BlockedNS, v.MostNS = v.Curve[0].BlockedNS, most[i*len(issueBlocked)]
		slices.SortFunc(v.Curve, func(a, b lostPoint) int { return int(a.UnansweredNS - b.UnansweredNS) })
		if i > 0 && v.BlockedNS >= r.Policies[i-1].BlockedNS {
			r.Order = false
		}
	}
	return r, nil
}

// hopTime returns the time of a number of hops, each through the crossbar of a card and over a wire
// (1.4.2).
func hopTime(p *hwprofiles.Profile, hops int) time.Duration {
	n := &p.Network
	return n.Clock.Duration(hwprofiles.Cycles(hops)*(n.RouterCycles+n.WireCycles)) + time.Duration(hops)*n.Wire
}
