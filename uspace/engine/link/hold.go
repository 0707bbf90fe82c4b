package link

// This file is the back-off of streams. After a transient reject a stream sends nothing new until
// its hold is over. The back-off grows from MinHold to MaxHold, so a node that stays full costs ten
// tries a second. Each try wakes both cards' threads, so the tries of one account are spaced,
// however many streams it has. After a burst of tryBurst the account tries once each aloneGap, or
// once each besideGap while others use the card. So a user whose messages are never taken costs the
// cards the same, with any number of streams.
//
// The streams on hold are a binary heap, ordered by the end of their holds, so a card does work
// only for holds that are due.

const (
	// aloneGap and besideGap are the time in nanoseconds between two tries of an account after
	// rejects, alone and beside others. MaxHold replaces either if it is less.
	aloneGap  = 50e3
	besideGap = 400e3
	tryBurst  = 64 // how many tries at once an account has that has made none for a while
	// doubled is the back-off in nanoseconds up to which a back-off doubles. Then it grows by a
	// quarter, so that a process that did not run for some milliseconds is found soon.
	doubled = 1e6
	// unholds is how many holds are ended in one step. Others that are due follow in the next step.
	unholds = 64
)

func (s *stream) when() int64   { return s.hold }
func (s *stream) place() *int32 { return &s.seat }

// tryGap returns the least time between two tries of an account.
func (e *End) tryGap() int64 {
	if e.Contended() {
		return min(besideGap, int64(e.cfg.MaxHold))
	}
	return min(aloneGap, int64(e.cfg.MaxHold))
}

// holdOff starts or lengthens the back-off of a stream on no list, after a transient reject.
func (s *stream) holdOff(now int64, cfg *Config, gap int64, random uint64) {
	if s.hold > now {
		return // other frames of the same moment have been rejected already
	}
	longer := 2 * s.backoff
	if s.backoff >= doubled {
		longer = s.backoff + s.backoff/4
	}
	s.backoff = min(max(longer, int64(cfg.MinHold)), int64(cfg.MaxHold))
	// Up to a quarter more, so that rejected senders do not return together.
	s.hold = max(now+s.backoff+int64(random%uint64(s.backoff/4+1)), s.payer.account.try(now, gap))
	s.limit = 1
}

// TryAnew restarts the back-offs of a context that has been switched in, as far as its account may
// try before they are over. Otherwise, where the groups of two cards take turns, each card might
// always try while the other has another group.
func (e *End) TryAnew(o *Owner) {
	gap := e.tryGap()
	for _, s := range o.streams {
		e.tryStream(s, gap)
	}
}

// TryNode does the same for the packets that wait for a node behind a card, after the card has said
// something about the node.
func (e *End) TryNode(o *Owner, card, node uint16) {
	gap := e.tryGap()
	for _, s := range o.streams {
		if s.flow.peer.Card == card && s.node == node {
			e.tryStream(s, gap)
		}
	}
}

// tryStream restarts a back-off: the stream's next try is the next that its account may make.
func (e *End) tryStream(s *stream, gap int64) {
	a := s.payer.account
	if s.hold <= e.now || s.hold <= a.nextTry(e.now, gap) {
		return
	}
	if s.list == onHold {
		e.withdraw(s)
	}
	s.backoff = 0
	s.hold = a.try(e.now, gap)
	e.mayGo(s)
	e.makeReady(s.flow)
}

// nextTry returns the earliest time of the account's next try.
func (a *Account) nextTry(now, gap int64) int64 { return max(a.lastTry, now-tryBurst*gap) + gap }

// try books the account's next try and returns its time.
func (a *Account) try(now, gap int64) int64 {
	a.lastTry = a.nextTry(now, gap)
	return a.lastTry
}

// mayGo puts a stream with waiting lines on turn, or on hold while it backs off, unless it is on a
// list already. The deferred frame of a stream goes before its waiting lines.
func (e *End) mayGo(s *stream) {
	switch {
	case s.list != nowhere || !s.held && (s.waiting.head == nil || s.flying >= s.limit):
	case s.hold > e.now && !(s.held && s.owner.Halted):
		s.list = onHold
		e.holds.push(s)
	case s.held:
		e.release(s)
	default:
		s.list = onTurn
		s.turn.enter()
	}
}

func (e *End) withdraw(s *stream) {
	was := s.list
	s.list = nowhere
	switch was {
	case onTurn:
		s.turn.leave()
	case onHold:
		e.holds.remove(s)
	}
}

// unhold lets the streams go whose holds are over.
func (e *End) unhold() {
	for n := 0; len(e.holds.of) > 0 && e.holds.first <= e.now; n++ {
		if n == unholds {
			e.more = true
			return
		}
		s := e.holds.of[0]
		e.withdraw(s)
		e.mayGo(s)
		e.makeReady(s.flow)
	}
}
