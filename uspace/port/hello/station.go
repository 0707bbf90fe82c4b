package hello

// This file has the Station as a whole, and its step.

import (
	"math"
	"math/rand/v2"
)

// Never is later than all times.
const Never = math.MaxInt64

const (
	second = int64(1e9)
	// turnsPerSecond bounds the questions by turns. Where there are few peers, each has its turn
	// once a period.
	turnsPerSecond = 20
	period         = 4 * second
)

// Config configures a station.
type Config struct {
	Self Said // describes the station itself. New sets IsCard and Discovers.
	// Discover announces the station on its ports. It also finds other stations that announce the
	// same name of a cluster, which must not be empty.
	Discover bool
	// Ports are the card's ports, by the engine's numbers, and Addresses the card's Ethernet
	// addresses on them.
	Ports     []*Port
	Addresses [][6]byte
	// Seed determines the nonces, which nobody can guess while Seed is secret, and the times of
	// announcements.
	Seed [32]byte
	// Clock is the clock of turns of groups. The station passes on what peers tell, and tells its
	// time while it is the one that counts; nil: the station does neither.
	Clock Clock
}

// Station sends and answers hellos for a card. All its methods are for the goroutine of the card's
// ports. Times are in nanoseconds, of a clock that does not run backwards.
type Station struct {
	// Due is when the station wants its next Step. It is 0, at once, after a hello has arrived, and
	// after SetPeer, Prove and Ask.
	Due    int64
	c      Config
	random *rand.Rand
	secret uint64 // for the hash of addresses
	sent   []bool // by port: something was sent in this step
	proofs []proof
	left   []QueueNews

	byCard map[uint16]*peer
	at     map[place]*peer // the first peer of a list (peer.beside)
	order  []*peer         // in which they have turns
	turn   int             // index in order of the peer whose turn is next
	fresh  []*peer         // that were set and have had no turn yet
	next   int64           // time of the next turn
	found  int
	silent int // peers that did not answer when they were last asked

	questions [mostQuestions]question
	waits     [purposes]int // questions by purpose

	telling int64 // when the clock's time is told next
	teller  int   // index in order of the peer to which it is told

	announced int   // how many times
	announce  int64 // time of the next announcement

	faults  [mostFaults]Fault
	nFaults int
	news    []*peer
	told    bool // no fault is new
	done    bool // it has said goodbye

	strangers, peers, tells bucket
	sources                 [256]bucket      // answers, by hash of the address
	causing                 [256]bucket      // questions, by hash of the address that causes them
	caused                  [purposes]bucket // questions that others cause, all of a purpose
	scratch                 [Longest]byte

	n Counters
}

// Counters are totals since the station was made.
type Counters struct {
	Arrived    uint64 `json:"arrived"`    // frames with the version of hellos
	Questions  uint64 `json:"questions"`  // sent
	Answered   uint64 `json:"answered"`   // questions that got their answer
	Unanswered uint64 `json:"unanswered"` // questions that got none in time
	Answers    uint64 `json:"answers"`    // sent
	Refused    uint64 `json:"refused"`    // questions too fast, or without a source
	Malformed  uint64 `json:"malformed"`  // of these, frames that are no hellos
	Dropped    uint64 `json:"dropped"`    // hellos that found no room between two steps
	// that found no room: hosts, faults, and questions that others would have caused
	Crowded uint64 `json:"crowded"`
	// RoundTrips counts answers by their round trip. Entry i has those up to RoundTripLimits[i],
	// and the last entry has longer ones.
	RoundTrips [len(RoundTripLimits) + 1]uint64 `json:"round_trips"`
	RoundTrip  uint64                           `json:"round_trip_ns"` // sum
}

// RoundTripLimits holds the upper limits of the classes of round trips, in nanoseconds.
var RoundTripLimits = [...]int64{10e3, 20e3, 50e3, 100e3, 200e3, 500e3, 1e6, 2e6, 5e6, 10e6, 50e6, 200e6}

// New makes a station.
func New(c Config) *Station {
	c.Self.IsCard, c.Self.Discovers = true, c.Discover
	s := &Station{c: c, random: rand.New(rand.NewChaCha8(c.Seed)), byCard: map[uint16]*peer{}, at: map[place]*peer{},
		sent: make([]bool, len(c.Ports)), proofs: make([]proof, len(c.Ports)), told: true, announce: Never}
	s.secret = s.random.Uint64()
	for _, p := range c.Ports {
		p.due = &s.Due
	}
	if c.Discover {
		s.announce = 0
	}
	return s
}

// SetIncarnation sets the card's incarnation.
func (s *Station) SetIncarnation(i uint32) { s.c.Self.Incarnation = i }

// Step handles the hellos that have arrived, then sends those that are due. It calls the functions
// that were given to Ask.
func (s *Station) Step(now int64) {
	if s.Due = Never; s.done {
		return // an answer would contradict the goodbye
	}
	for i, p := range s.c.Ports {
		for k := range p.waiting[:p.n] {
			s.receive(now, i, p.waiting[k].frame[:p.waiting[k].n], p.waiting[k].queue)
		}
		p.n = 0
		s.n.Dropped += p.dropped
		p.dropped = 0
	}
	s.Due = min(s.expire(now), s.takeTurn(now), s.prove(now), s.announceSelf(now), s.tellTime(now))
	for i, sent := range s.sent {
		if sent {
			s.c.Ports[i].Flush()
			s.sent[i] = false
		}
	}
}

func (s *Station) receive(now int64, port int, frame []byte, queue uint16) {
	v, ok := check(frame)
	if !ok {
		s.n.Malformed++
		return
	}
	from := v.source()
	for _, own := range s.c.Addresses {
		if from == own { // the network gave it back
			return
		}
	}
	switch v.kind() {
	case Question:
		s.answer(now, port, v, queue)
		s.meet(now, port, v)
	case Answer:
		s.answered(now, port, v, queue)
	case Announcement:
		s.meet(now, port, v)
		s.hearTime(now, v)
	case Goodbye:
		s.leaving(now, port, v)
	}
}

// answer answers a question, if the budgets of its sender allow it.
func (s *Station) answer(now int64, port int, v view, queue uint16) {
	from := v.source()
	if from[0]&1 != 0 || from == ([6]byte{}) {
		s.n.Refused++
		return
	}
	var may bool
	if p := s.byCard[v.card()]; v.isCard() && p != nil && p.Address == from {
		may = p.answers.take(now, second/100, 64) && s.peers.take(now, second/4000, 512)
	} else {
		may = s.sources[s.hash(from)].take(now, second/40, 32) && s.strangers.take(now, second/400, 64)
	}
	if !may {
		s.n.Refused++
		return
	}
	m := Message{Kind: Answer, Way: v[wayAt], To: v.card(), Nonce: v.nonce(), Arrived: queue}
	// The answer's queue follows the question's, and is another for each try: a lost answer must
	// not speak against the queue that the question left on.
	if s.send(port, from, &m, int(v.queue())+int(v.nonce()&(mostTries-1))) {
		s.n.Answers++
	}
}

// hash returns the index of an address among the buckets of sources.
func (s *Station) hash(a [6]byte) uint8 {
	x := uint64(a[0])<<40 | uint64(a[1])<<32 | uint64(a[2])<<24 | uint64(a[3])<<16 | uint64(a[4])<<8 | uint64(a[5])
	return uint8((x ^ s.secret) * 0x9e3779b97f4a7c15 >> 56) // Knuth, volume 3, 6.4
}

// send sends a hello on a queue, modulo the number of queues. It returns false if the port has no
// room; the hello is then lost, as it could be on the wire.
func (s *Station) send(port int, to [6]byte, m *Message, queue int) bool {
	p := s.c.Ports[port]
	m.Said = s.c.Self
	m.FrameSize = uint16(min(p.FrameSize(), math.MaxUint16))
	m.Queue = 0
	if q := p.queues; q != nil && q.QueueCount() > 1 {
		m.Queue = uint16(queue % q.QueueCount())
		return q.SendOn(int(m.Queue), s.scratch[:m.Put(s.scratch[:], to, s.c.Addresses[port])])
	}
	b := p.Reserve()
	if b == nil {
		return false
	}
	p.Commit(m.Put(b, to, s.c.Addresses[port]))
	s.sent[port] = true
	return true
}

// Counters returns the totals.
func (s *Station) Counters() Counters {
	n := s.n
	for _, p := range s.c.Ports {
		n.Arrived += p.arrived
	}
	return n
}

// bucket bounds a rate (the generic cell rate algorithm, ITU-T I.371 Annex A).
type bucket struct{ full int64 }

// take takes one unit from the bucket and reports whether there was one. The bucket yields one a
// period on average, and atOnce at once.
func (b *bucket) take(now, period int64, atOnce int64) bool {
	full := max(b.full, now)
	if full-now >= atOnce*period {
		return false
	}
	b.full = full + period
	return true
}
