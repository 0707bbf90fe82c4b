package hello

// This file asks questions: of peers by turns, of hosts that may be new, of owners of numbers that
// another host claims, and of cards that a caller asks about.

import "errors"

const (
	mostQuestions = 112 // the sum of most
	mostTries     = 4
	between       = second / 5 // time between two tries
)

// ErrBusy reports that too many questions of callers (Ask) wait already.
var ErrBusy = errors.New("too many questions are under way; ask again")

type purpose uint8

const (
	byTurn purpose = iota
	asked          // a caller waits for the answer (Ask)
	newcomer
	owner  // of a number that rival claims
	parted // a peer that said goodbye
	proves // a transmit queue
	purposes
)

// most bounds the questions of each purpose that wait at a time.
var most = [purposes]int{byTurn: 16, asked: 16, newcomer: 32, owner: 16, parted: 16, proves: 16}

type question struct {
	open  bool
	why   purpose
	nonce uint64 // without the number of the try
	port  int
	queue int // the question leaves on it, modulo the queues of the port
	to    [6]byte
	card  uint16 // that should answer
	tries int    // that were sent
	most  int
	sent  [mostTries]int64
	due   int64 // time of the next try, or of the end
	final bool  // it is of the last round of a proof
	rival struct {
		address [6]byte
		port    int
		said    Said
	}
	done func(Reply)
}

// Reply is the outcome of a question.
type Reply struct {
	Answered  bool
	Said      Said
	From      [6]byte
	RoundTrip int64  // ns
	Queue     uint16 // that the answer came in on
	Arrived   uint16 // that the question came in on there
	Tries     int    // that were sent
}

// ask sends a question. It returns nil when too many questions of the purpose wait. For most
// purposes it also returns nil when one to the same address waits.
func (s *Station) ask(now int64, why purpose, port, queue int, to [6]byte, card uint16) *question {
	q := s.open(why, port, queue, to, card)
	if q != nil {
		s.try(now, q)
	}
	return q
}

// askLater has expire send a question at the given time. It returns nil when ask does.
func (s *Station) askLater(at int64, why purpose, port int, to [6]byte, card uint16) *question {
	q := s.open(why, port, 0, to, card)
	if q != nil {
		q.due = at
	}
	return q
}

// open makes a question without sending it, or returns nil when ask does.
func (s *Station) open(why purpose, port, queue int, to [6]byte, card uint16) *question {
	if s.waits[why] == most[why] || why != asked && why != proves && s.asks(why, to) {
		return nil
	}
	i := 0
	for s.questions[i].open { // one is free: mostQuestions is the sum of most
		i++
	}
	q := &s.questions[i]
	*q = question{open: true, why: why, nonce: s.random.Uint64() &^ (mostTries - 1), port: port, queue: queue, to: to,
		card: card, most: 3}
	s.waits[why]++
	return q
}

// asks reports whether a question of a purpose to an address waits.
func (s *Station) asks(why purpose, to [6]byte) bool {
	for i := range s.questions {
		if q := &s.questions[i]; q.open && q.why == why && q.to == to {
			return true
		}
	}
	return false
}

// try sends a question, for the first time or again.
func (s *Station) try(now int64, q *question) {
	m := Message{Kind: Question, To: q.card, Nonce: q.nonce | uint64(q.tries), Arrived: NoQueue,
		Way: uint8(q.nonce>>32) & 15}
	if s.send(q.port, q.to, &m, q.queue) {
		s.n.Questions++
	}
	q.sent[q.tries] = now
	q.tries++
	q.due = now + between
}

func (s *Station) close(q *question) {
	q.open = false
	s.waits[q.why]--
}

// expire sends the questions that are due, or gives them up, and returns when the next one is due.
func (s *Station) expire(now int64) (next int64) {
	next = Never
	for i := range s.questions {
		q := &s.questions[i]
		if q.open && q.due <= now {
			if q.tries < q.most {
				s.try(now, q)
			} else {
				s.close(q)
				s.n.Unanswered++
				s.unanswered(now, q)
			}
		}
	}
	for i := range s.questions { // giving one up may have made another
		if q := &s.questions[i]; q.open {
			next = min(next, q.due)
		}
	}
	return next
}

// answered takes an answer. An answer to no question that waits is dropped.
func (s *Station) answered(now int64, port int, v view, queue uint16) {
	nonce, from := v.nonce(), v.source()
	for i := range s.questions {
		q := &s.questions[i]
		try := int(nonce & (mostTries - 1))
		if !q.open || q.nonce != nonce&^(mostTries-1) || q.to != from || q.port != port || try >= q.tries {
			continue
		}
		s.close(q)
		s.n.Answered++
		trip := now - q.sent[try]
		s.count(trip)
		s.proven(q)
		if q.done != nil {
			q.done(Reply{Answered: true, Said: v.said(), From: from, RoundTrip: trip, Queue: queue,
				Arrived: v.arrived(), Tries: q.tries})
		}
		ours := s.judge(now, port, v)
		switch p := s.byCard[q.card]; {
		case q.why == newcomer:
			if ours && v.isCard() && v.card() == q.card && v.discovers() {
				s.admit(now, port, v, trip)
			}
		case p == nil || p.Address != from:
		case !v.isCard() || v.card() != q.card:
			s.fault(now, WrongCard, port, v, q.card, p.Address)
			p.unheard(s)
		default:
			p.heard(s, now, v, trip)
			s.proofs[port].peer = p
			if q.why == owner {
				s.faultOf(now, Fault{Kind: SameCard, Card: q.card, Address: q.rival.address, Port: q.rival.port,
					Said: q.rival.said, Owner: from})
			}
		}
		return
	}
}

// unanswered acts on a question that got no answer.
func (s *Station) unanswered(now int64, q *question) {
	if q.done != nil {
		q.done(Reply{Tries: q.tries})
	}
	if q.why == proves {
		s.unproven(q)
		return // other queues say whether the peer is there
	}
	p := s.byCard[q.card]
	if p == nil || p.Address != q.to {
		return
	}
	switch q.why {
	case byTurn, asked:
		p.unheard(s)
	case owner:
		p.unheard(s)
		if p.Found { // its number passes on, if the rival answers
			s.ask(now, newcomer, q.rival.port, 0, q.rival.address, q.card)
		} else {
			s.faultOf(now, Fault{Kind: Elsewhere, Card: q.card, Address: q.rival.address, Port: q.rival.port,
				Said: q.rival.said, Owner: p.Address})
		}
	case parted:
		if p.Found {
			s.drop(p)
		}
	}
}

func (s *Station) count(trip int64) {
	i := 0
	for i < len(RoundTripLimits) && trip > RoundTripLimits[i] {
		i++
	}
	s.n.RoundTrips[i]++
	s.n.RoundTrip += uint64(max(trip, 0))
}

// Ask asks the card that is expected at an address behind a port, for a caller that waits. A step
// calls done within a second. Errors: ErrBusy.
func (s *Station) Ask(now int64, port int, to [6]byte, card uint16, done func(Reply)) error {
	q := s.ask(now, asked, port, 0, to, card)
	if q == nil {
		return ErrBusy
	}
	q.done, q.most, s.Due = done, mostTries, 0
	s.c.Ports[port].Flush()
	s.sent[port] = false
	return nil
}

// takeTurn asks the next peer when it is time, and returns the time of the turn after that.
func (s *Station) takeTurn(now int64) (next int64) {
	if len(s.order) == 0 {
		return Never
	}
	if s.next > now {
		return s.next
	}
	var p *peer
	if len(s.fresh) > 0 {
		p, s.fresh = s.fresh[0], s.fresh[1:]
	} else {
		if s.turn >= len(s.order) {
			s.turn = 0
		}
		p = s.order[s.turn]
		s.turn++
	}
	if !p.gone {
		// unless the questions to silent peers take all room
		s.ask(now, byTurn, p.Port, s.nextQueue(p.Port), p.Address, p.Card)
	}
	gap := second / turnsPerSecond
	if len(s.fresh) == 0 {
		gap = max(gap, period/int64(len(s.order)))
	}
	s.next = now + gap
	return s.next
}
