package chaos

// This file has the notices of funids about processes with direct ports that have ended or are
// there (ctl/daemon/fate.go). Funids send them to each other and to their processes. They also
// answer a card that doubts whether a silent peer lives. Notices and answers come at once or late,
// twice, out of order, or not at all. The file also checks what must hold then:
//
//   - a card that is told of the end of the life that it has met gives that peer up at once; a card
//     that has met another life does not;
//   - a silent card that is vouched for is not given up before ConnectTimeout, however long its
//     silence lasted;
//   - no card is given up as departed that never was, or whose life the card was told of last.

import (
	"math/rand/v2"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/sim"
)

type seat struct {
	sim.Job
	node uint16
}

// news says what became of the process of a node.
type news struct {
	seat
	life  uint32
	lives bool
	order uint64 // greater in later news
	died  int64  // when it ended, for the count of those that had been waited for longer
}

// told is news that a card was told, and how many messages had been sent before.
type told struct {
	news
	before int
}

// vouch is the news for a card that a silent peer lives.
type vouch struct {
	life        uint32
	since, over int64 // of the silence; over 0: it goes on
}

// notices is what the funids of all hosts know and say.
type notices struct {
	random *rand.Rand
	lost   int  // of 8 messages between hosts, those that do not arrive
	orders bool // processes ignore news that are older than the last (attach.Port.Watch)
	order  uint64
	known  []map[seat]news   // by host: the last of each node
	last   []map[uint16]told // by card: the last that it was told of each node, in its present life
	// vouches are by card and node, and of its present life.
	vouches          []map[uint16]*vouch
	lives            []uint32         // by card: its incarnation; 0: it is down
	died             map[uint32]int64 // by incarnation: when it ended
	left             []bool           // by card: a life of it has said that it leaves
	silence, connect int64            // PeerTimeout and ConnectTimeout

	// What was tried: news that ended a peer that would have been waited for longer; news of
	// another life than the card had met; news older than the last; questions; and silences that
	// were vouched for.
	ended, strange, late, doubts, vouched int
}

// newNotices returns notices of hosts that know nothing.
func (r *run) newNotices() *notices {
	n := &notices{random: r.scenario.stream(streamFaults + 24), lives: make([]uint32, r.cards),
		died: map[uint32]int64{}, left: make([]bool, r.cards)}
	n.lost, n.orders = pick(n.random, 0, 1, 4), n.random.IntN(2) == 0
	for range r.hosts {
		n.known = append(n.known, map[seat]news{})
	}
	for range r.cards {
		n.last, n.vouches = append(n.last, nil), append(n.vouches, nil)
	}
	return n
}

// seatOf returns the seat of a card, or the last one that it had.
func (r *run) seatOf(i int) seat { return seat{r.gates.jobs[i], r.members[i].node} }

// born handles the start of a card's life, and completes its configuration. The card hears who has
// ended. Others that know of an earlier end hear that it is there.
func (r *run) born(i int, cfg *engine.Config) {
	n, at, host := r.notices, r.seatOf(i), r.gates.host[i]
	n.last[i], n.vouches[i], n.lives[i] = map[uint16]told{}, map[uint16]*vouch{}, cfg.Incarnation
	n.silence, n.connect = int64(cfg.PeerTimeout), int64(cfg.ConnectTimeout)
	life := cfg.Incarnation
	cfg.Doubt = func(node uint16, of uint32) { r.doubt(i, life, node, of) }
	for node := range cfg.Routes {
		if f, ok := n.known[host][seat{at.Job, uint16(node)}]; ok && !f.lives && uint16(node) != at.node {
			r.tellProcess(i, f)
		}
	}
	if f, ok := n.known[host][at]; ok && !f.lives {
		r.spread(host, n.decide(at, host, life, true))
	}
}

// over handles the end of a card's life, with or without a goodbye: its host's funid tells all, or
// the next funid does.
func (r *run) over(i int) {
	n, at, host := r.notices, r.seatOf(i), r.gates.host[i]
	if n == nil {
		return
	}
	life := n.lives[i]
	n.lives[i], n.died[life] = 0, r.world.Now()
	r.whenRuns(host, func() { r.spread(host, n.decide(at, host, life, false)) })
}

// leave ends a card and its process with a goodbye.
func (r *run) leave(c *sim.Card) {
	if r.notices != nil {
		r.notices.left[c.Number()] = true
	}
	c.Leave()
}

func (n *notices) decide(at seat, host int, life uint32, lives bool) news {
	n.order++
	f := news{at, life, lives, n.order, n.died[life]}
	n.known[host][at] = f
	return f
}

// whenRuns makes the funid of a host do something, now or when it runs again.
func (r *run) whenRuns(host int, do func()) {
	if until := r.gates.stopped[host]; until > r.world.Now() {
		r.world.At(until, func() { r.whenRuns(host, do) })
		return
	}
	do()
}

// soon draws the time when something arrives: mostly within some microseconds, and perhaps after
// all peers have given up.
func (r *run) soon() int64 {
	return r.world.Now() + r.notices.random.Int64N(int64(10*time.Microsecond)<<r.notices.random.IntN(14))
}

// spread tells all hosts and processes what became of a process of a host.
func (r *run) spread(host int, f news) {
	r.tellProcesses(host, f)
	for other := range r.hosts {
		if other != host {
			r.post(other, f)
		}
	}
}

func (r *run) post(host int, f news) {
	n := r.notices
	if n.random.IntN(8) < n.lost {
		return
	}
	for range 1 + n.random.IntN(4)/3 {
		r.world.At(r.soon(), func() {
			if r.gates.stopped[host] > r.world.Now() && n.random.IntN(2) == 0 {
				return // nobody is there
			}
			r.whenRuns(host, func() {
				if n.known[host][f.seat].order < f.order {
					n.known[host][f.seat] = f
				} else if n.late++; n.orders {
					return
				}
				r.tellProcesses(host, f)
			})
		})
	}
}

func (r *run) tellProcesses(host int, f news) {
	for i := range r.cards {
		if at := r.seatOf(i); r.gates.host[i] == host && at.Job == f.Job && at.node != f.node &&
			r.notices.lives[i] != 0 {
			r.tellProcess(i, f)
		}
	}
}

// tellProcess tells the process on a card, in its present life.
func (r *run) tellProcess(i int, f news) {
	n := r.notices
	life := n.lives[i]
	r.world.At(r.soon(), func() {
		if n.lives[i] == life && life != 0 {
			r.world.Cards()[i].Tell(func(e *engine.Card) { r.learn(i, e, f) })
		}
	})
}

func (r *run) learn(i int, e *engine.Card, f news) {
	n := r.notices
	if n.last[i][f.node].order >= f.order {
		if n.late++; n.orders {
			return
		}
	}
	n.last[i][f.node] = told{f, len(r.oracle.messages)}
	was, ok := e.PeerState(f.node)
	if f.lives {
		e.Lives(f.node, f.life)
		if ok && was.Life == f.life && was.SilentSince != 0 {
			n.vouched++
			n.vouches[i][f.node] = &vouch{life: f.life, since: was.SilentSince}
		}
		return
	}
	e.Ended(f.node, f.life)
	switch is, _ := e.PeerState(f.node); {
	case !was.Established:
	case was.Life != f.life && !is.Established:
		r.damaged("card %d gave up node %d for the end of another life of it", i, f.node)
	case was.Life != f.life:
		n.strange++
	case is.Established || is.InFlight != 0:
		r.stuck("card %d waits for node %d, which has ended", i, f.node)
	case was.InFlight != 0 && r.world.Now()-f.died < n.silence:
		n.ended++
	}
}

// cardOf returns the card whose node has a seat now, or had it last; -1: none.
func (r *run) cardOf(at seat) int {
	for i := range r.cards {
		if r.seatOf(i) == at {
			return i
		}
	}
	return -1
}

// doubt handles a card's question about a silent peer. Its funid asks the funid of the peer's host,
// which answers with the truth, if both run.
func (r *run) doubt(i int, asking uint32, node uint16, life uint32) {
	n, at := r.notices, seat{r.gates.jobs[i], node}
	n.doubts++
	of, own := r.cardOf(at), r.gates.host[i]
	if of < 0 || r.gates.stopped[own] > r.world.Now() || n.random.IntN(8) < n.lost {
		return
	}
	r.world.At(r.soon(), func() {
		host := r.gates.host[of]
		if r.gates.stopped[host] > r.world.Now() || r.seatOf(of) != at {
			return
		}
		var answers []news
		there := n.lives[of]
		if there != life {
			answers = append(answers, n.decide(at, host, life, false))
		}
		if there != 0 {
			answers = append(answers, n.decide(at, host, there, true))
		}
		for _, f := range answers {
			if host != own {
				r.post(own, f)
			} else if n.lives[i] == asking {
				r.tellProcess(i, f)
			}
		}
	})
}

// heed checks whether the silences end that a card was told to tolerate.
func (r *run) heed(c *sim.Card) {
	if c.Engine() == nil {
		return
	}
	for node, v := range r.notices.vouches[c.Number()] { // in any order
		if s, _ := c.Engine().PeerState(node); v.over == 0 && s.SilentSince != v.since {
			v.over = r.world.Now()
		}
	}
}

// judge checks whether a message may have come back to a member because its peer was silent, or
// gone. Forged greetings can make a card believe that its peer has another life, which the peer's
// funid says has ended.
func (r *run) judge(at *member, b funi.Returned) {
	n, number := r.notices, int(b.Word)-1
	if number < 0 || number >= len(r.oracle.messages) || r.scenario.Faults&(Forge|Replay) != 0 && !r.keyed {
		return
	}
	m := &r.oracle.messages[number]
	to := r.oracle.receiver(m)
	if to == nobody || r.oracle.parted(m) || m.fromDeaths != at.deaths || m.toDeaths != r.members[to].deaths {
		return
	}
	peer, now := r.members[to], r.world.Now()
	life, last := n.lives[peer.card], n.last[at.card][peer.node]
	v := n.vouches[at.card][peer.node]
	switch {
	case b.Reason == arctic.ReasonSilent && v != nil && v.life == life && now < v.since+n.connect &&
		(v.over == 0 || now < v.over+n.silence):
		r.damaged("member %d, silent since %d, over %d, and vouched for, was given up by member %d", to, v.since,
			v.over, at.number)
	case b.Reason != arctic.ReasonDeparted:
	case peer.deaths == 0:
		r.damaged("member %d, which never ended, has departed for member %d", to, at.number)
	case !n.left[peer.card] && last.lives && last.life == life && number >= last.before:
		r.damaged("member %d has departed for member %d, which was told that it is there", to, at.number)
	}
}
