package link

// This file is a card's end of its links as a whole. New makes it. The methods for the parts of a
// step stand in the order in which they are called.

import (
	"math/rand/v2"

	"github.com/funet/funet/uspace/arctic"
)

// End is a card's end of the links to its peers. It belongs to the goroutine that steps the card.
type End struct {
	Counters Counters   // the totals
	ByPeers  Rejections // packets that peers rejected, by reason; each counts each time
	Settles  bool       // NextSettled or NextAnew has something
	// Quantum is how many bytes an account may spend in a step or round now.
	Quantum int
	// See is called for each frame that the card sends, before the port gets the frame. The owner
	// calls it for each frame that has arrived, when Fate is known. nil: frames are not observed.
	See  func(port int, frame []byte, fate Fate)
	Fate Fate // of the frame being looked at

	cfg       Config
	now       int64
	random    rand.PCG
	peers     []*peer // including removed ones
	byCard    cards
	here      groups // those whose frames are taken
	resident  groups // those that have a context here
	timers    timers
	holds     heap[*stream] // streams that back off
	spare     spare
	user      *Account // the one that used the card last
	usedAt    int64    // when user used the card last
	anotherAt int64    // when another account used it last
	round     uint64   // of dispatch
	spent     *Account // those that wait for the next round
	resumes   int64    // when the first rest among them ends
	payers    *Account // those used since the last Charge
	nobody    int      // work that no account caused since then, in bytes as Account.used
	// the account whose frame was answered by the frame being looked at; nil: that answered none
	answered *Account

	ready   [arctic.Levels]readyList // flows with something to send now
	ackNow  *peer                    // peers to acknowledge in this step
	settled Lines                    // for NextSettled
	// a list of peers for NextAnew: one more than the card number; 0: the end
	anew    int32
	timed   *timedSend // nil: dispatch and transmission take no time
	blocked bool       // a transmit ring was full
	stalled bool       // the same, and so the round of dispatch goes on
	more    bool       // a budget ran out; step again at once
	budget  budget     // of greetings that others make this card send

	greetings uint64 // sent
	view      uint64 // changes with the groups that are here, and with the peers; not 0
	plain     []byte // a copy of a frame from before it was sealed, for See

	header arctic.Header // of the frame being looked at
	out    arctic.Header // of the frame being composed
	train  Train         // of the frame being looked at
	bye    *peer         // the peer, if it said goodbye in that frame
	fates  []fate        // index card number; nil: the card is not direct
}

// New makes an End. Its configuration has been checked.
func New(cfg Config) *End {
	e := &End{cfg: cfg, peers: make([]*peer, len(cfg.Peers)), view: 1, Quantum: AloneBytes}
	e.usedAt, e.anotherAt, e.timers.first = -Recently, -Recently, Never
	e.holds.first, e.resumes = Never, Never
	e.random.Seed(cfg.Seed, uint64(cfg.Incarnation))
	if cfg.Nonces == nil {
		e.cfg.Nonces = &e.random
	}
	if cfg.Dispatch > 0 || cfg.Transmit > 0 || cfg.Timed {
		e.timed = newTimedSend(&e.cfg)
	}
	last := cfg.Card
	for _, p := range cfg.Peers {
		last = max(last, p.Card)
	}
	e.byCard.grow(int(last) + 1)
	if cfg.Direct != nil {
		e.fates = make([]fate, e.byCard.size)
	}
	e.timers.of = make([]*peer, 0, len(cfg.Peers))
	room := make([]peer, len(cfg.Peers))
	for i, p := range cfg.Peers {
		e.peers[i] = e.newPeer(&room[i], p)
	}
	e.cfg.Peers = nil // the peers have them now
	return e
}

// SetGroup says whether frames of a group are taken from peers that have not been greeted. It also
// says whether the group has a context here: greetings name such groups.
func (e *End) SetGroup(gid uint16, taken, resident bool) {
	e.view++
	e.here.set(gid, taken)
	e.resident.set(gid, resident)
}

// Begin begins a step at the given time in nanoseconds, which does not run backwards.
func (e *End) Begin(now int64) {
	e.now = now
	if e.Quantum == BesideBytes && now-e.anotherAt >= Recently {
		e.Quantum = AloneBytes
	}
	e.more, e.blocked, e.bye = false, false, nil
}

// Queue hands over a line for a card that is a peer, or was one.
func (e *End) Queue(card uint16, l arctic.Level, ln *Line) { e.queue(e.byCard.at(card), l, ln) }

// Send sends what may leave: acknowledgments before data, replies before requests. Then it lets the
// ports send what they have got.
func (e *End) Send() {
	switch {
	case e.timed != nil:
		e.sendTimed()
	case e.ackNow == nil && e.ready[arctic.Reply].head == nil && e.ready[arctic.Request].head == nil && e.spent == nil:
		e.stalled = false // the transmit ring was full, and what it was full for has gone
	default:
		e.acknowledge(false)
		e.dispatch()
		e.acknowledge(true)
	}
	for _, p := range e.cfg.Ports {
		p.Flush()
	}
}

// Expire does what is due: the ends of back-offs, and timers. In a step it follows Arrive, so that
// a late step is not taken for the peers' silence.
func (e *End) Expire() {
	if e.holds.first <= e.now {
		e.unhold()
	}
	if e.timers.first <= e.now {
		e.expire()
	}
}

// Next returns when something is due: the time of the step if that is at once, or Never.
func (e *End) Next() int64 {
	if e.more || e.blocked || e.timed != nil && e.sendsNow() || e.timed == nil && (e.ackNow != nil ||
		e.ready[arctic.Reply].head != nil || e.ready[arctic.Request].head != nil) {
		return e.now
	}
	next := min(e.timers.first, e.holds.first, e.resumes)
	if e.timed != nil {
		next = min(next, e.timed.next)
	}
	return next
}

// NextAnew returns a card with which this one has begun to count anew, each once, and the reason.
// ReasonRestarted: the card has another life, and has proven it. ReasonResynchronised: it has the
// same life. There is such a card if Settles says so and NextSettled returns nil.
func (e *End) NextAnew() (card uint16, why arctic.Reason) {
	p := e.byCard.at(uint16(e.anew - 1))
	why = p.anew
	e.anew, p.nextAnew, p.anew = p.nextAnew, 0, arctic.ReasonNone
	e.Settles = e.settled.head != nil || e.anew != 0
	return p.Card, why
}

// Leave tells all peers, with last acknowledgments, that the card leaves the network, so that they
// need not infer it from silence. Nothing may be sent after Leave; a step flushes its frames.
func (e *End) Leave() {
	for _, p := range e.peers {
		e.leave(p)
		p.established = false
	}
}

// leave tells a peer that it will hear nothing more from this card.
func (e *End) leave(p *peer) {
	if !p.established {
		return
	}
	b := e.reserve(p)
	if b == nil {
		return // the peer will see the silence
	}
	n := e.head(p, b, arctic.Request, p.gid, e.noJob(), p.sequence(arctic.Request), len(b))
	arctic.SetBye(b)
	e.send(p, b, n, n)
}

// Established reports whether the card's peer of that number has been greeted and
// not been lost since. It is false for the card's own number.
func (e *End) Established(card uint16) bool {
	p := e.peer(card)
	return p != nil && p.established
}

// IsPeer reports whether a card is one of the peers.
func (e *End) IsPeer(card uint16) bool { return e.peer(card) != nil }

// peer returns the peer with the card number, or nil.
func (e *End) peer(card uint16) *peer {
	if int(card) >= e.byCard.size {
		return nil
	}
	if p := e.byCard.at(card); p != nil && !p.removed() {
		return p
	}
	return nil
}

// Sequence returns the sequence number of the next frame to a card that is or was a peer.
func (e *End) Sequence(card uint16, l arctic.Level) uint32 { return e.byCard.at(card).sequence(l) }

// EachReached calls see for each peer and level from which frames have come. reached is how far the
// card has come with them (Train.Reached). Card numbers are below Cards.
func (e *End) EachReached(see func(card uint16, l arctic.Level, reached int64)) {
	for _, p := range e.peers {
		for l := range p.parked {
			if reached := p.reached(arctic.Level(l)); reached != 0 {
				see(p.Card, arctic.Level(l), reached)
			}
		}
	}
}

// Cards returns one more than the greatest number of this card and of all present and former peers.
func (e *End) Cards() int { return e.byCard.size }

// Epoch names the sequence state with a card that is or was a peer; 0: there is none. The function
// Epoch computes it.
func (e *End) Epoch(card uint16) uint64 { return e.byCard.at(card).epoch }
