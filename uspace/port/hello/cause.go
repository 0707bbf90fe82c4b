package hello

// This file bounds how many questions others cause, who announce themselves, claim a number that
// another card has, or say goodbye. Each such frame costs its sender one frame and can be forged,
// and an answer makes room for the next question: without these rates whoever answers at once would
// have the station ask without end.

const (
	// All questions of a purpose together, and how many of them at once.
	newcomersPerSecond, newcomersAtOnce = 100, 128
	claimsPerSecond, claimsAtOnce       = 100, 128
	partedPerSecond, partedAtOnce       = 50, 64

	// Questions about newcomers and claims that one address causes, so that one host leaves others
	// their share.
	sourcePerSecond, sourceAtOnce = 10, 16

	// Questions to one peer, by claims and goodbyes. A peer answers another a hundred questions a
	// second (answer): somebody who could use that up would make the peer seem silent, and would
	// get its number.
	peerPerSecond, peerAtOnce = 10, 16

	// questionedPerSecond bounds the questions that all cards of a cluster together ask one of them
	// because of a claim or a goodbye, which all of them hear. It answers four times as many.
	questionedPerSecond = 1000
)

// rate is the rate of a bucket.
type rate struct{ perSecond, atOnce int64 }

// causes are the rates of all questions of a purpose that others cause.
var causes = [purposes]rate{newcomer: {newcomersPerSecond, newcomersAtOnce}, owner: {claimsPerSecond, claimsAtOnce},
	parted: {partedPerSecond, partedAtOnce}}

// mayCause reports whether a frame from an address may cause a question for a purpose, to a peer
// or, nil, to that address, and pays for it.
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

// mayQuestion reports whether a peer may be asked because of a claim or goodbye, and pays for it:
// less often where there are many who hear the same and ask the same.
func (s *Station) mayQuestion(now int64, p *peer) bool {
	cards := int64(len(s.order))
	return p.questions.take(now, max(second/peerPerSecond, cards*second/questionedPerSecond),
		min(max(questionedPerSecond/cards, 1), peerAtOnce))
}

// spread is how long to wait with a question that all cards of the cluster ask at the same time, at
// random.
func (s *Station) spread() int64 {
	return s.random.Int64N(1 + int64(len(s.order))*second/questionedPerSecond)
}
