package link

// This file is fairness of dispatch among the accounts that pay for frames, such as users (design
// idea 10): deficit round robin (Shreedhar and Varghese, 1995). In each round an account may send
// as many bytes as its quantum, replies first. A round ends when every account has sent what it has
// and may send. That may take several steps while the transmit ring is full. An account that has
// the card to itself has larger budgets, since no other account waits for it.
//
// A frame that only acknowledges is charged when it is sent and when it arrives. Its sender charges
// the account of the train that it answers; its receiver charges the account whose frame it
// answered. A frame that is sent again is charged to the account of its owner.
//
// Users share more than bytes. The kernel makes a thread wait that works all the time (Linux,
// Documentation/scheduler/sched-eevdf.rst), and all users' messages wait with the card's thread. So
// where other programs want the card's processor, the owner of the card says how long steps took
// (Charge). Accounts for which the card worked rest after that, and no others do. So an account
// that sends little does not wait for the rests of one that sends much.

const (
	// AloneBytes is the budget in bytes of an account that has the card to itself, BesideBytes that
	// of one beside others. Both bound dispatch in a round, and other work that the card's owner
	// shares out by Quantum.
	AloneBytes  = 256 << 10
	BesideBytes = 8 << 10
	Recently    = 100e6 // the time in nanoseconds for which an account counts as using the card
	frameBytes  = 512   // the cost of a frame in addition to its bytes: short ones cost time, too
	// contendedFlight is how many bytes an account beside others may have in flight on a flow, at
	// least one frame. Bytes in flight reach the receiver before the others' frames do.
	contendedFlight = 48 << 10
	resumedInRound  = 8 // how many classes of an account resume in a round at most
	// FrameTime is how many bytes are copied in the time that a frame takes beside its bytes. That
	// time, a microsecond or two, is mostly the kernel's. So a byte stands for a quarter to half of
	// a nanosecond.
	FrameTime = 4096
	// resting is the ratio of rest to work where Charge is called: for each nanosecond that the
	// card works for the accounts that use it, it works for none of them for resting nanoseconds.
	resting = 2
	// longestCharge is the longest time in nanoseconds that is charged at once. In what looks
	// longer the kernel ran other threads. LongestRest bounds a rest, in nanoseconds.
	longestCharge = 50e3
	LongestRest   = 1e6
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
	// when a frame of the account was last deferred; 0: none was (defer.go)
	deferredAt int64

	used       int      // since the last Charge, in bytes and what takes as long
	pays       bool     // it is on the list of accounts used since then (End.payers)
	nextPayer  *Account // next on that list
	restsUntil int64    // nothing new is sent before
}

// Used reports whether streams are on the account.
func (a *Account) Used() bool { return a.classes > 0 }

// Uses notes that an account uses the card now, and charges it for work. bytes is how many bytes
// could be copied in the time of the work.
func (e *End) Uses(a *Account, bytes int) {
	a.used += bytes
	if a != e.user {
		e.changeUser(a)
	}
	e.usedAt = e.now
}

// Spends charges an account for other work, in bytes that could be copied in its time. Unlike Uses
// it does not note that the account uses the card now. Work for packets that wait for a peer costs
// time, but the other accounts keep their larger budgets.
func (e *End) Spends(a *Account, bytes int) {
	a.used += bytes
	if !a.pays {
		e.list(a)
	}
}

// SpendsForNobody notes work that no account of this card has caused, such as that of foreign
// frames. Charge charges that part of the time to no account.
func (e *End) SpendsForNobody(bytes int) { e.nobody += bytes }

// SpendsForAnswer charges for a received frame that brought no packets to judge. It charges the
// account whose frame the received one has answered, or no account if it answered none.
func (e *End) SpendsForAnswer() { e.spendsFrame(e.answered) }

// spendsFrame charges an account, or none if a is nil, for a frame without packets.
func (e *End) spendsFrame(a *Account) {
	if a == nil {
		e.nobody += FrameTime
		return
	}
	e.Spends(a, FrameTime)
}

// list enters an account in the list of those used since the last Charge.
func (e *End) list(a *Account) { a.pays, a.nextPayer, e.payers = true, e.payers, a }

// changeUser notes that another account uses the card than the one before.
func (e *End) changeUser(a *Account) {
	e.user, e.anotherAt, e.Quantum = a, e.usedAt, AloneBytes
	if e.now-e.anotherAt < Recently {
		e.Quantum = BesideBytes
	}
	if !a.pays {
		e.list(a)
	}
}

// Beside makes the account that uses the card count as one beside others for a time (Recently),
// although no other account uses the card.
func (e *End) Beside(now int64) { e.anotherAt, e.Quantum = max(e.anotherAt, now), BesideBytes }

// Contended reports whether more than one account uses the card, or Beside was called.
func (e *End) Contended() bool { return e.Quantum == BesideBytes }

// newRound resumes the accounts that had spent their budget of the last round of dispatch.
func (e *End) newRound() {
	a := e.spent
	e.spent, e.resumes = nil, Never
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
	if a.restsUntil > e.now {
		return false
	}
	if a.round != e.round {
		a.dispatch, a.round = min(a.dispatch, 0)+e.Quantum, e.round
	}
	return a.dispatch > 0
}

// awaitRound puts an account on the list of those that wait for the next round.
func (e *End) awaitRound(a *Account) {
	if !a.spent {
		a.spent, a.nextSpent = true, e.spent
		e.spent = a
	}
	if a.restsUntil > e.now {
		e.resumes = min(e.resumes, a.restsUntil)
		return
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

// Charge splits the nanoseconds that the card has worked since the last Charge, until now, among
// the accounts that used it. Each account then rests in proportion to its part. The rests are so
// long that the card works for all of these accounts together a third of the time. Work that cannot
// be put off, such as for frames that arrive, is charged to accounts that rest, too. Charge returns
// how many of the nanoseconds went to accounts with too large a part: their rest would exceed
// LongestRest.
func (e *End) Charge(now, took int64) (over int64) {
	took = min(took, longestCharge)
	all, n := e.nobody, int64(0)
	for a := e.payers; a != nil; a = a.nextPayer {
		if all += a.used; a.used > 0 {
			n++
		}
	}
	if all == 0 {
		return 0
	}
	e.nobody = 0
	for a := e.payers; a != nil; {
		next := a.nextPayer
		part := took * int64(a.used) / int64(all)
		a.restsUntil = max(a.restsUntil, now) + part*(n*(1+resting)-1)
		if a.restsUntil > now+LongestRest {
			a.restsUntil = now + LongestRest
			over += part
		}
		a.used, a.pays, a.nextPayer = 0, false, nil
		a = next
	}
	if e.payers = e.user; e.user != nil {
		e.user.pays = true // who goes on does not say so again
	}
	return over
}

// Rests reports whether an account rests, and until when.
func (e *End) Rests(a *Account) (until int64, so bool) { return a.restsUntil, a.restsUntil > e.now }
