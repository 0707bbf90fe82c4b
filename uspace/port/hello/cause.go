package hello

// This file bounds the questions that other cards cause when they announce themselves, claim a
// number that another card has, or say goodbye. Each such frame costs its sender one frame and can
// be forged, and an answer makes room for the next question. Without these rates, a host that
// answers at once could have the station ask without end.

const (
	// These bound all questions of a purpose together: a rate, and how many at once.
	newcomersPerSecond, newcomersAtOnce = 100, 128
	claimsPerSecond, claimsAtOnce       = 100, 128
	partedPerSecond, partedAtOnce       = 50, 64

	// These bound the questions about newcomers and claims that one address causes, so that one
	// host leaves others their share.
	sourcePerSecond, sourceAtOnce = 10, 16

	// These bound the questions to one peer that claims and goodbyes cause. A peer answers another
	// a hundred questions a second (answer). An attacker that could use up these answers would make
	// the peer seem silent, and would get its number.
	peerPerSecond, peerAtOnce = 10, 16

	// questionedPerSecond bounds the questions that all cards of a cluster together ask one of them
	// because of a claim or a goodbye, which all of them hear. A card answers four times as many.
	questionedPerSecond = 1000
)

// rate is the average and the burst of a bucket.
type rate struct{ perSecond, atOnce int64 }

// causes holds the rates, by purpose, of all questions that others cause.
var causes = [purposes]rate{newcomer: {newcomersPerSecond, newcomersAtOnce}, owner: {claimsPerSecond, claimsAtOnce},
	parted: {partedPerSecond, partedAtOnce}}

// mayCause reports whether a frame from an address may cause a question of a purpose, and pays for
// it. The question goes to the peer, or to that address if p is nil.
func (s *Station) mayCause(now int64, why purpose, from [6]byte, p *peer) bool {
	may := s.waits[why] < most[why] &&
		(why == parted || s.causing[s.hash(from)].take(now, second/sourcePerSecond, sourceAtOnce)) &&
		(p == nil || s.mayQuestion(now, p)) &&
		s.caused[why].take(now, second/causes[why].perSecond, causes[why].atOnce)
	if !may {
		s.n.Crowded++
	}
	return may
}

// mayQuestion reports whether a peer may be asked because of a claim or goodbye, and pays for it.
// The more cards hear and ask the same, the lower is the rate.
func (s *Station) mayQuestion(now int64, p *peer) bool {
	cards := int64(len(s.order))
	return p.questions.take(now, max(second/peerPerSecond, cards*second/questionedPerSecond),
		min(max(questionedPerSecond/cards, 1), peerAtOnce))
}

// spread returns a random delay for a question that all cards of the cluster would ask at the same
// time.
func (s *Station) spread() int64 {
	return s.random.Int64N(1 + int64(len(s.order))*second/questionedPerSecond)
}
