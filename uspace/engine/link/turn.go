package link

// This file is the order in which a flow sends: accounts take turns, then the jobs of each account,
// then the streams of each job (design idea 10). An account with many streams, nodes or jobs waits
// for its own, and others do not wait for them.
//
// A turn belongs to a ring of those that have something to send. The flow has a ring of accounts,
// an account's class one of jobs, and a job's class one of streams. The first of each ring is next.
// After it has sent, it goes behind the others of its ring.
//
// An account's class is deferred while the account has spent what it may send in a round
// (account.go). It is full while it has contendedFlight bytes in flight beside others. In both
// cases it is on no ring of the flow.

// turn is a place in a ring: that of a stream, of a job or of an account on a flow.
type turn struct {
	of         *turn   // the turn whose ring it is in; nil: it is the flow's own
	next, prev *turn   // in that ring; nil: it has nothing to send
	first      *turn   // of its own ring
	stream     *stream // the stream whose turn it is; nil: it is a class's or the flow's
	class      *class  // the class whose turn it is; nil: it is a stream's or the flow's
}

// class holds what an account, or a job of the account, sends on a flow (a class of hierarchical
// scheduling, as in CBQ, Floyd and Jacobson 1995). It exists as long as it has streams.
type class struct {
	turn
	flow     *flow
	account  *Account
	gid      uint16 // of a job's
	deferred bool   // an account's: the account has nothing left to spend
	full     bool   // an account's: as much as others leave it is in flight
	flight   int    // an account's: bytes in flight or lost
	parts    int    // jobs or streams
	beside   *class // the next of the flow, or the next job of the account
	jobs     *class // an account's
}

func (t *turn) append(ring **turn) {
	first := *ring
	if first == nil {
		t.next, t.prev, *ring = t, t, t
		return
	}
	t.next, t.prev = first, first.prev
	first.prev.next, first.prev = t, t
}

func (t *turn) remove(ring **turn) {
	if t.next == t {
		*ring = nil
	} else {
		t.next.prev, t.prev.next = t.prev, t.next
		if *ring == t {
			*ring = t.next
		}
	}
	t.next, t.prev = nil, nil
}

// enter puts a turn that has something to send behind the others of its ring. It does the same to
// the class that the turn is part of, and so on.
func (t *turn) enter() {
	for ; t.of != nil && t.next == nil; t = t.of {
		if t.class != nil && (t.class.deferred || t.class.full) {
			return
		}
		t.append(&t.of.first)
	}
}

// leave takes a turn off its ring. It does the same to the class that the turn is part of if that
// has nothing else to send, and so on.
func (t *turn) leave() {
	for ; t.of != nil && t.next != nil; t = t.of {
		if t.class != nil && t.class.deferred {
			return // it is not on that ring
		}
		t.remove(&t.of.first)
		if t.of.first != nil {
			return
		}
	}
}

// pass puts a turn that has sent, the first of its ring, behind the others of the ring. It does the
// same to the class that the turn is part of, and so on.
func (t *turn) pass() {
	for ; t.of != nil; t = t.of {
		t.of.first = t.next
	}
}

// went puts a stream that has sent, and was next, behind the others of its job, or takes it off if
// it has no more to send now. In either case its job and its account go behind others.
func (e *End) went(s *stream) {
	if s.waiting.head != nil && s.flying < s.limit {
		s.turn.pass()
		return
	}
	e.withdraw(s)
	for t := s.turn.of; t.of != nil; t = t.of {
		if t.next != nil {
			t.pass()
			return
		}
	}
}

// upcoming returns the stream whose turn it is, or nil.
func (f *flow) upcoming() *stream {
	t := f.turns.first
	if t == nil {
		return nil
	}
	for t.stream == nil {
		t = t.first
	}
	return t.stream
}

// classOf returns the job's class to which a new stream of the context belongs, and makes the class
// if the stream is the first.
func (e *End) classOf(f *flow, o *Owner) *class {
	a := o.Account
	var mine *class
	for mine = f.classes; mine != nil && mine.account != a; mine = mine.beside {
	}
	if mine == nil {
		mine = e.takeClass(f, a, &f.turns)
		mine.beside, f.classes = f.classes, mine
		a.classes++
	}
	for j := mine.jobs; j != nil; j = j.beside {
		if j.gid == o.GID {
			return j
		}
	}
	j := e.takeClass(f, a, &mine.turn)
	j.gid = o.GID
	j.beside, mine.jobs = mine.jobs, j
	mine.parts++
	return j
}

func (e *End) takeClass(f *flow, a *Account, of *turn) *class {
	s := e.spare.classes.take()
	*s = class{flow: f, account: a, turn: turn{of: of, class: s}}
	return s
}

// quitClass takes a stream, which is on no ring, out of its job's class, and gives back classes
// that have no members left.
func (e *End) quitClass(s *stream) {
	j := s.turn.of.class
	if j.parts--; j.parts > 0 {
		return
	}
	mine := j.of.class
	j.unlist(&mine.jobs)
	e.giveClass(j)
	if mine.parts--; mine.parts > 0 {
		return
	}
	if mine.deferred {
		mine.turn.remove(&mine.account.deferred)
	}
	mine.unlist(&s.flow.classes)
	a := mine.account
	e.giveClass(mine)
	a.classes--
}

// unlist takes a class off the list of those beside it.
func (s *class) unlist(list **class) {
	for *list != s {
		list = &(*list).beside
	}
	*list = s.beside
}

func (e *End) giveClass(s *class) {
	*s = class{}
	e.spare.classes.give(s, spareClasses)
}

// refill puts an account's class that was full on turn again, if it has something to send and may.
func (s *class) refill() {
	if s.full && s.flight < contendedFlight {
		if s.full = false; s.first != nil {
			s.enter()
		}
	}
}
