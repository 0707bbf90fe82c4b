package chaos

// This file has a spy on the network, which sees every frame, keeps some, and sends any frame it
// likes.

import (
	"bytes"
	"math/rand/v2"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/sim"
)

// spyKeeps is how many of all frames the spy keeps.
const spyKeeps = 256

type spy struct {
	random *rand.Rand
	kept   [][]byte
	seen   int
	pairs  map[pair]overheard
}

// pair is two cards. For direct cards it has their job, because their numbers mean nothing without
// it.
type pair struct {
	from, to uint16
	job      sim.Job
}

// pairOf returns the sender and the receiver of a frame.
func pairOf(h *arctic.Header) pair {
	p := pair{from: h.SourceCard, to: h.DestinationCard}
	if h.Direct {
		p.job = sim.Job{Tag: h.Tag, GID: h.GID}
	}
	return p
}

// overheard is what the spy has heard one card say to another.
type overheard struct {
	nonce, epoch uint64
	gid          uint16
}

func newSpy(seed uint64) *spy {
	return &spy{random: rand.New(rand.NewPCG(seed, streamFaults+16)), pairs: map[pair]overheard{}}
}

// hear records a frame that a card sends. Every frame heard so far is kept with the same chance.
func (s *spy) hear(b []byte) {
	f, err := arctic.Look(b)
	if err != nil {
		return
	}
	h := f.Header()
	pair := pairOf(&h)
	known := s.pairs[pair]
	known.epoch, known.gid = h.Epoch, h.GID
	if f.Hello() {
		var g arctic.Greeting
		f.Greeting(&g)
		known.nonce = g.Nonce
	}
	s.pairs[pair] = known
	s.seen++
	if len(s.kept) < spyKeeps {
		s.kept = append(s.kept, bytes.Clone(f))
	} else if i := s.random.IntN(s.seen); i < spyKeeps {
		s.kept[i] = bytes.Clone(f)
	}
}

// frame returns the next frame that the spy sends, or nil.
func (s *spy) frame(kind Faults, r *run) []byte {
	if kind == Replay {
		if len(s.kept) == 0 {
			return nil
		}
		return s.kept[s.random.IntN(len(s.kept))]
	}
	victim := s.random.IntN(r.cards)
	h := r.pretend(s.random.IntN(r.cards), victim)
	back := pairOf(&h)
	back.from, back.to = back.to, back.from
	known := s.pairs[back]
	if h.GID == 0 {
		h.GID = known.gid
	}
	if s.random.IntN(3) == 0 {
		h.Epoch = known.epoch
	}
	g := arctic.Greeting{Nonce: s.random.Uint64() | 1, Echo: known.nonce, Number: s.random.Uint64(),
		Incarnation: s.random.Uint32() | 1,
		Longest:     leastFrame + s.random.Uint32N(mostFrame), Flags: arctic.GreetingFlags(s.random.IntN(2))}
	b := make([]byte, arctic.GreetingEnd)
	h.Encode(b)
	arctic.Seal(b, arctic.PutGreeting(b, &g))
	return b
}
