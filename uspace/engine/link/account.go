package link

// This file is fairness of dispatch among those who pay for frames, such as users (design idea 10): deficit round
// robin (Shreedhar and Varghese, 1995). In each round an account may send as many bytes as its quantum, replies first; a round
// ends when everybody who has something to send, and may, has sent it, which may take several steps while the transmit ring is
// full. An account that has the card to itself has more of everything, since nobody waits for it.

const (
	// AloneBytes is the budget in bytes of an account that has the card to itself, BesideBytes that of one beside others: of
	// dispatch in a round, and of what else its owner shares by it.
	AloneBytes  = 256 << 10
	BesideBytes = 8 << 10
	// Recently is how long in nanoseconds an account counts as one that uses the card.
	Recently = 100e6
	// frameBytes is the cost of a frame in addition to its bytes: short ones cost time, too.
	frameBytes = 512
	// contendedFlight is how many bytes an account beside others has in flight on a flow, at
	// least one frame: what is in flight is before the others' frames at the receiver.
	contendedFlight = 48 << 10
	// resumedInRound is the most classes of an account that go on in a round.
	resumedInRound = 8
)

// Account is charged for the frames of its owners. Its zero value is ready.
type Account struct {
	classes   int // on flows
	dispatch  int // bytes of the round
	round     uint64
	deferred  *turn    // ring of classes that wait for the next round
	nextSpent *Account // see End.spent
	spent     bool
	lastTry   int64 // see hold.go
}

// Used reports whether streams are on the account.
func (a *Account) Used() bool { return a.classes > 0 }

// Uses notes that an account uses the card now.
func (e *End) Uses(a *Account) {
	if a != e.user {
		e.user, e.anotherAt = a, e.usedAt
	}
	e.usedAt = e.now
}

// Contended reports whether more than one account uses the card.
func (e *End) Contended() bool { return e.now-e.anotherAt < Recently }

// Quantum returns how many bytes an account may spend in a step or round.
func (e *End) Quantum() int {
	if e.Contended() {
		return BesideBytes
	}
	return AloneBytes
}

// newRound lets those go on who had spent what they had of the last round of dispatch.
func (e *End) newRound() {
	a := e.spent
	e.spent = nil
	for a != nil {
		next := a.nextSpent
		a.spent, a.nextSpent = false, nil
		for n := 0; a.deferred != nil && n < resumedInRound && e.solvent(a); n++ {
			s := a.deferred.class
			s.turn.remove(&a.deferred)
			s.deferred = false
			if s.first != nil {
				s.enter()
				e.makeReady(s.flow)
			}
		}
		if a.deferred != nil {
			e.awaitRound(a)
		}
		a = next
	}
}

// solvent reports whether the account may send in this round.
func (e *End) solvent(a *Account) bool {
	if a.round != e.round {
		a.dispatch, a.round = min(a.dispatch, 0)+e.Quantum(), e.round
	}
	return a.dispatch > 0
}

// awaitRound puts an account on the list of those that wait for the next round.
func (e *End) awaitRound(a *Account) {
	if !a.spent {
		a.spent, a.nextSpent = true, e.spent
		e.spent = a
	}
	e.more = true
}

// deferClass takes an account's class off until the next round.
func (e *End) deferClass(s *class) {
	s.leave()
	s.deferred = true
	s.turn.append(&s.account.deferred)
	e.awaitRound(s.account)
}
