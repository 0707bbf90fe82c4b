package link

// This file is greetings: when a card sends one, and how it handles one that arrives. handshake.go
// explains what greetings prove, and the epochs of two cards.
//
// A card greets a peer for which packets wait, with growing gaps, until the peer has proven that it
// is there. It answers a greeting whose sender lacks something, and greets a peer whose frames are
// of another epoch. It sends no more such answers than one in answerGap for each peer, and one in
// budgetGap for all of them. So forged greetings and frames cost the card no more than that.
//
// A greeting says how long the frames are that the sender's port carries. The sender gets no longer
// ones, so cards with ports of different sizes agree on the smaller size.
//
// Where a peer has a key (Peer.Key), greetings are authenticated with it, and numbered. So a
// greeting that was recorded in this life of the peer is refused. One that was recorded in an
// earlier life cannot be told from the greeting of a card that is restarted. It is answered, and
// changes nothing, because whoever replays it cannot echo the nonce of the answer. A greeting
// without a key, or with another one, is refused. It is answered while the card knows nothing of
// the peer, so that the peer hears that there is a key here. What waits for the peer returns with
// ReasonKey.

import (
	"github.com/funet/funet/uspace/arctic"
)

const (
	// firstGreetGap and lastGreetGap bound the time between greetings, in nanoseconds.
	firstGreetGap = 1e6
	lastGreetGap  = 100e6
	// busyGreetGap is the time in nanoseconds after which a greeting that found the transmit ring
	// full is tried again.
	busyGreetGap = 100e3
	// answerGap is the time in nanoseconds in which a peer earns one answer to a greeting or to a
	// frame of another epoch. answersAtOnce is how many answers a peer may save up: those of a
	// handshake, and one to spare.
	answerGap     = 100e3
	answersAtOnce = 4
	// budgetGap and budgetAtOnce are the same for all peers together: 20,000 answers a second,
	// which cost a few hundredths of a processor.
	budgetGap    = 50e3
	budgetAtOnce = 1024
	resyncGap    = 100e6 // the least time in nanoseconds between two resynchronisations with a peer
	// keyPatience is the time in nanoseconds after which a card gives up a peer that refuses its
	// key, or has none. Half of ConnectTimeout replaces it if that is less. The card does not give
	// up at once, because another station may have forged the refusal.
	keyPatience = 1e9
)

// budget allows an event a number of times at once, and then once in each gap. Its value is the
// time at which the next would be due if none could be saved up (the generic cell rate algorithm,
// ITU-T I.371).
type budget int64

// spend reports whether the budget allows the event now, and books it if so.
func (b *budget) spend(now, gap int64, atOnce int64) bool {
	due := max(int64(*b), now)
	if due-now > gap*(atOnce-1) {
		return false
	}
	*b = budget(due + gap)
	return true
}

// secured holds what a card knows of a peer that has a key, besides the key.
type secured struct {
	session *Session // of the epoch; nil: there has been none
	number  uint64   // of the last greeting of the peer's life
	// pending: the peer has greeted while it held another epoch. Until it is heard in the present
	// epoch, its frames of other epochs are answered.
	pending bool
}

// KeyState says what a card knows of a peer's key.
type KeyState uint8

// The states, in the order of KeyStates.
const (
	Unkeyed KeyState = iota // neither has one, as far as is known
	Sealed                  // the peer has the key, and frames are sealed
	// there is a key here, and the peer has not been greeted with it, or has been lost since
	Waiting
	NoKeyThere // there is a key here, and the peer says that it has none
	NoKeyHere  // the peer says that it has a key, and there is none here
	OtherKey   // both have one, and not the same
)

// String returns the state in words.
func (s KeyState) String() string {
	return [...]string{"none", "sealed", "waiting", "no key there", "no key here", "other key"}[s]
}

// Refused reports whether the two cards refuse each other for their keys.
func (s KeyState) Refused() bool { return s >= NoKeyThere }

// keyState returns how the card stands to the peer as to keys.
func (p *peer) keyState() KeyState {
	switch {
	case p.trouble != Unkeyed:
		return p.trouble
	case p.Key == nil:
		return Unkeyed
	case !p.established:
		return Waiting
	}
	return Sealed
}

// greet starts greeting a peer for which packets wait.
func (e *End) greet(p *peer) {
	if p.greetAt != 0 {
		return
	}
	if p.removed() || e.over(p) {
		p.greetAt = e.now // what waits for it is returned when the timers are served
		e.timers.set(p, p.greetAt)
		return
	}
	if p.silentSince == 0 {
		p.silentSince = e.now
	}
	p.greetGap = firstGreetGap
	p.greetAt = e.now + int64(p.greetGap)
	e.timers.set(p, p.greetAt)
	p.attempt(e.cfg.Nonces)
	e.sendGreeting(p, !p.established)
}

// introduceAtOnce is how many peers a call of Introduce greets at most.
const introduceAtOnce = 64

// Introduce greets peers that the card has not met, each once and without waiting for an answer. It
// begins at index at of the card's list of peers. It returns the index for the call after the next
// Step, or -1 at the end. A peer that has known an earlier life of the card then returns what waits
// for that life. Without a greeting, the first packets that it has for this life would be taken for
// the earlier one's. They would come back with ReasonRestarted.
func (e *End) Introduce(at int) (next int) {
	for end := at + introduceAtOnce; at < len(e.peers); at++ {
		if at == end {
			return at
		}
		p := e.peers[at]
		if p.established || p.removed() {
			continue
		}
		p.gid = e.resident.after(p.gid) // as in greetAgain
		if !e.sendGreeting(p, !p.established) {
			return at // the transmit ring is full
		}
	}
	return -1
}

// Greet greets one peer once, whether or not the card has met it, and the peer answers. So what
// PeerState says of its key is soon up to date. Greet returns false when the transmit ring is full,
// or the card is not a peer.
func (e *End) Greet(card uint16) bool {
	p := e.peer(card)
	if p == nil {
		return false
	}
	p.gid = e.resident.after(p.gid) // as in greetAgain
	// as in attempt: what is no answer is answered, whatever the peer's key
	p.theirs = 0
	return e.sendGreeting(p, true)
}

// greetAgain repeats a greeting that was not answered, or gives the peer up.
func (e *End) greetAgain(p *peer) {
	switch {
	case p.removed() || e.over(p):
		e.lose(p, arctic.ReasonDeparted)
		return
	case p.trouble != Unkeyed && e.now-p.silentSince >= min(keyPatience, int64(e.cfg.ConnectTimeout)/2):
		e.lose(p, arctic.ReasonKey)
		return
	case e.silent(p):
		e.lose(p, arctic.ReasonSilent)
		return
	}
	// The peer answers only groups that it has: each greeting names the next group
	// that has a context here, so that none can keep the others from meeting the peer.
	p.gid = e.resident.after(p.gid)
	if !e.sendGreeting(p, !p.established) {
		p.greetAt = e.now + busyGreetGap // the transmit ring was full
		return
	}
	p.greetGap = min(2*p.greetGap, lastGreetGap)
	p.greetAt = e.now + int64(p.greetGap)
}

// stale handles a frame of another epoch than the present one. The peer has another life, or holds
// an epoch that this card has not begun or no longer holds. Where there is a key, the sender of
// such a frame is unknown. So the frame is then answered only while the handshake with the peer is
// known to be open, and is otherwise left to the greetings of the peer. A card that begins an
// epoch, and gets no answer to its first frame in time, greets again (timeout).
func (e *End) stale(p *peer, gid uint16) {
	e.Counters.Stale++
	if p.Key == nil || !p.established || p.secured.pending {
		e.greetBack(p, gid)
	}
}

// greetBack greets a peer because a frame of a group came from it, as often as the budgets allow.
func (e *End) greetBack(p *peer, gid uint16) {
	if p.answers.spend(e.now, answerGap, answersAtOnce) && e.budget.spend(e.now, budgetGap, budgetAtOnce) {
		p.gid = gid
		e.sendGreeting(p, !p.established)
	}
}

// sendGreeting sends one greeting, which asks for an answer or does not. It returns false when the
// transmit ring is full; then the timer or the peer asks again.
func (e *End) sendGreeting(p *peer, asks bool) bool {
	b := e.cfg.Ports[p.Port].Reserve()
	if b == nil {
		return false
	}
	e.greetings++
	g := arctic.Greeting{Number: e.greetings, Incarnation: e.cfg.Incarnation,
		Longest: uint32(e.cfg.Ports[p.Port].FrameSize())}
	p.say(&g, e.cfg.Nonces)
	if asks {
		g.Flags |= arctic.Asks
	}
	if e.cfg.Defers {
		g.Flags |= arctic.Defers
	}
	if p.Key != nil {
		g.Key = p.Key.Identity()
		g.Flags |= arctic.Authenticated
		if e.cfg.Readable {
			g.Flags |= arctic.Readable
		}
	}
	e.out = arctic.Header{
		To: p.Address, From: p.Local, Hello: true, GID: p.gid, Route: uint32(p.Card),
		SourceCard: e.cfg.Card, DestinationCard: p.Card, Epoch: p.epoch, Tag: e.noJob(), Direct: e.cfg.Direct != nil,
	}
	e.out.Encode(b)
	n := arctic.PutGreeting(b, &g)
	if p.Key != nil {
		p.Key.SignGreeting(b[:n])
	}
	arctic.Seal(b, n)
	e.commit(p, b[:n], n)
	e.Counters.Greetings++
	e.more = true // an answer to a greeting is composed after this step has flushed
	return true
}

func (e *End) greeted(p *peer, f arctic.Frame, h *arctic.Header) {
	var g arctic.Greeting
	f.Greeting(&g)
	if e.buried(p, &g) { // it was under way
		e.drop(&e.Counters.Stale, Stale)
		return
	}
	// it has heard this card's greeting, and this is its answer
	answers := p.nonce != 0 && g.Echo == p.nonce
	if answers {
		p.replies++
	}
	if trouble := p.refuses(f, &g); trouble != Unkeyed {
		e.drop(&e.Counters.DroppedKey, WrongKey)
		if p.established {
			if answers {
				p.doubt = trouble
			}
			// somebody else has sent it, or the peer has another life, which will be found out
			return
		}
		if answers {
			p.trouble = trouble
			p.theirs = g.Nonce // for the next greeting, by which the peer hears the same
		} else if g.Flags&arctic.Asks != 0 {
			p.theirs = g.Nonce
			e.greetBack(p, h.GID) // so that it knows why it is refused
		}
		return
	}
	if s := p.secured; s != nil {
		if g.Incarnation == p.incarnation && g.Number <= s.number {
			e.drop(&e.Counters.DroppedReplayed, Replayed)
			return
		}
		if g.Incarnation == p.incarnation {
			s.number = g.Number
		}
	}
	p.gid = h.GID
	self, from := Party{Card: e.cfg.Card, Incarnation: e.cfg.Incarnation},
		Party{Card: p.Card, Incarnation: g.Incarnation, Nonce: g.Nonce}
	was := p.incarnation
	what, answer := p.hear(&self, from, h.Epoch, &g, e.cfg.Nonces)
	switch what {
	case begun:
		if p.Key != nil {
			p.secured.session, p.secured.number = p.Key.Session(self, from, e.now), g.Number
		}
		e.begin(p, was)
		fallthrough
	case confirmed:
		e.meet(p, &g, what == begun)
	}
	if p.secured != nil {
		p.secured.pending = h.Epoch != p.epoch
	}
	if answer {
		e.greetBack(p, h.GID)
	}
}

// refuses returns why the peer's greeting is refused for its key, or Unkeyed if it is not.
func (p *peer) refuses(f arctic.Frame, g *arctic.Greeting) KeyState {
	switch authenticated := g.Flags&arctic.Authenticated != 0; {
	case p.Key == nil && !authenticated:
		return Unkeyed
	case p.Key == nil:
		return NoKeyHere
	case !authenticated:
		return NoKeyThere
	case g.Key != p.Key.Identity() || !p.Key.VerifyGreeting(f):
		return OtherKey
	}
	return Unkeyed
}

// begin begins an epoch with the peer. was is the peer's incarnation before, which may be the same.
// What was in flight returns, and both directions count from 0.
func (e *End) begin(p *peer, was uint32) {
	reason := arctic.ReasonResynchronised
	if was != p.incarnation {
		reason = arctic.ReasonRestarted
	}
	if was != 0 {
		if reason == arctic.ReasonRestarted {
			e.Counters.PeersRestarted++
		} else {
			e.Counters.Resynchronised++
		}
		if p.anew == arctic.ReasonNone {
			p.nextAnew, e.anew = e.anew, int32(p.Card)+1
		}
		if p.anew != arctic.ReasonRestarted { // which is the worse news
			p.anew, e.Settles = reason, true
		}
	}
	for _, l := range arctic.ByPriority {
		reached := nextTurn(p.parked[l].reached)
		p.parked[l] = e.fresh()
		p.parked[l].reached = reached
		if f := p.flows[l]; f != nil {
			e.abandon(f, reason)
			f.sndNext, f.sndUna = 0, 0
			f.srtt, f.rttvar = 0, 0
			e.forgetReceived(f)
		}
	}
	p.ackAt, p.beyond = 0, 0
}

// meet notes that the peer has proven that it is there, and what its greeting says. If the peer was
// established, and no epoch has begun anew, the greeting is no sign of life. The peer may be long
// gone, and another station may repeat its greeting.
func (e *End) meet(p *peer, g *arctic.Greeting, anew bool) {
	p.trouble, p.doubt = Unkeyed, Unkeyed
	if e.fates != nil {
		e.fates[p.Card].ended = 0
	}
	p.readable = e.cfg.Readable && g.Flags&arctic.Readable != 0
	p.defers = e.cfg.Defers && p.Key == nil && g.Flags&arctic.Defers != 0
	was := p.said
	p.said = uint16(min(max(g.Longest, leastFrame), arctic.MaxFrame) - arctic.EthernetSize)
	if p.said < was { // the numbers of longer frames in flight are asked back at once
		e.ground(p)
	}
	if p.established && !anew {
		return
	}
	p.established, p.greetAt, p.silentSince = true, 0, 0
	for _, l := range arctic.ByPriority {
		if f := p.flows[l]; f != nil {
			e.makeReady(f)
		}
	}
}

// resynchronise gives up what the two cards know of each other's sequence numbers, and greets the
// peer, so that both begin another epoch. It is for a peer that acknowledges frames never sent, and
// for one whose key is used up.
func (e *End) resynchronise(p *peer) {
	if !p.resyncs.spend(e.now, resyncGap, 1) {
		return
	}
	p.established, p.beyond = false, 0
	p.forget()
	e.greet(p)
}
