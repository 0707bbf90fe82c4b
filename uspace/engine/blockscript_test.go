package engine_test

// This file tries long transfers with everything that can happen to their contexts, in
// any order.

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// errTired ends a change of queues that takes too long: the process gives it up.
var errTired = errors.New("the card takes too long")

// scripted is two nodes that send each other long transfers and messages, each to be
// accounted for. Transfer or message i of all has argument or first word i.
type scripted struct {
	*bed
	t       *rapid.T
	m       []memory
	all     []sent
	unsent  [2][2][]int       // by node and level: to be put into the send queue
	slots   [2][2][]int       // in the send queue, not known to be retired; -1: a piece
	pieces  [2][2][]funi.Slot // drained, to be sent again
	saved   [2]*engine.Saved  // of a node that is switched out
	changes [2]int            // of queues, that were made
	want    [2][]byte         // each area at the end
}

type sent struct {
	from, to int
	level    funi.Level
	x        funi.Transfer // Words 0: a message
	done     bool
}

const scriptCells = 8

// submit makes a new transfer or message between two nodes. The source is the lower half
// of the sender's area and the destination the upper half of the receiver's.
func (s *scripted) submit() {
	n := len(s.all)
	x := sent{from: rapid.IntRange(0, 1).Draw(s.t, "from"), to: rapid.IntRange(0, 1).Draw(s.t, "to"),
		level: funi.Level(rapid.IntRange(0, 1).Draw(s.t, "level"))}
	const cell = areaSize / 2 / scriptCells
	at := uint32(n % scriptCells * cell)
	if n < scriptCells && rapid.IntRange(0, 3).Draw(s.t, "message") > 0 {
		words := 4 * rapid.SampledFrom([]int{5, 89, 90, 200, cell / 16}).Draw(s.t, "quads")
		x.x = funi.Transfer{Source: area + at, Destination: area + areaSize/2 + at, Argument: uint32(n), Words: words}
		copy(s.want[x.to][areaSize/2+at:], s.m[x.from].area[at:at+uint32(4*words)])
	}
	s.all = append(s.all, x)
	s.unsent[x.from][x.level] = append(s.unsent[x.from][x.level], n)
}

// process lets the process of a node that is on its card send and receive what it can.
func (s *scripted) process(node int) {
	p := s.proc[node]
	for l := range funi.Level(2) {
		slots, unsent := &s.slots[node][l], &s.unsent[node][l]
		for retired := len(*slots) - p.Unsent(l); retired > 0; retired-- {
			// the source is the process's again
			if n := (*slots)[0]; n >= 0 && s.all[n].x.Words > 0 {
				at := s.all[n].x.Source - area
				fill(s.m[node].area[at:at+uint32(4*s.all[n].x.Words)], uint32(n+1000))
			}
			*slots = (*slots)[1:]
		}
		for q := &s.pieces[node][l]; len(*q) > 0; *q = (*q)[1:] {
			slot := p.Reserve(l)
			if slot == nil {
				break
			}
			*slot = (*q)[0]
			p.Commit(l)
			*slots = append(*slots, -1)
		}
		for len(*unsent) > 0 {
			n := (*unsent)[0]
			x := s.all[n]
			if x.x.Words > 0 && !request(p, l, x.to, x.x) || x.x.Words == 0 && !put(p, l, x.to, uint32(n)) {
				break
			}
			*slots, *unsent = append(*slots, n), (*unsent)[1:]
		}
		for m, ok := take(p, l); ok; m, ok = take(p, l) {
			s.received(node, l, &m)
		}
	}
	if r, ok := p.NextReturn(); ok {
		s.t.Fatalf("node %d: came back: %+v\n%s", node, r, s.counters())
	}
}

func (s *scripted) received(node int, l funi.Level, m *funi.Slot) {
	h := m.Header()
	if h.Many() && h.Words() > 0 { // drained
		m[0] = m[0]&^0xffff | uint32(node)
		s.pieces[node][l] = append(s.pieces[node][l], *m)
		return
	}
	n, words := m[funi.PayloadWord], 0
	if h.Transfer() {
		n, words = m.Notice().Argument, m.Notice().Words
	}
	if int(n) >= len(s.all) {
		s.t.Fatalf("node %d got %#x", node, m[:6])
	}
	x := &s.all[n]
	if x.done || x.to != node || x.level != l || x.x.Words != words ||
		words > 0 && m.Notice().Address != x.x.Destination {
		s.t.Fatalf("node %d got %d again or wrong: %+v, %#x", node, n, *x, m[:6])
	}
	x.done = true
}

// run lets both nodes run for a while, but leaves out one process, or none.
func (s *scripted) run(d time.Duration, without int) {
	for end := s.now + int64(d); s.now < end; {
		for node := range 2 {
			if node != without && s.saved[node] == nil {
				s.process(node)
			}
		}
		s.step(min(max(s.next(), s.now+1000), end))
	}
}

// resize changes the queues of a node with CSQM and CRQM, while the other goes on.
func (s *scripted) resize(node int) {
	patience := 50
	err := s.proc[node].Resize(rapid.SampledFrom([]int{2, 8, 32}).Draw(s.t, "slots"), func() error {
		if patience--; patience == 0 {
			return errTired
		}
		s.run(100*time.Microsecond, node)
		return nil
	})
	switch {
	case err == nil:
		s.changes[node]++
	case !errors.Is(err, errTired) && !errors.Is(err, funi.ErrTooSmall):
		s.t.Fatal(err)
	}
	s.wake[node] = 0
}

// Rule: long transfers and messages are exactly once and byte-exact (design idea 4). The transfers
// are of both levels, between all nodes and to the own one. Meanwhile queues change their size
// (thesis 3.1.2), and contexts are switched out with and without CTXR1 (4.2, appendix B) and
// drained (5.2.3). The rule holds over every network, on cards with blocks and without. A source
// may be changed as soon as its slot is retired (3.2.4).
func TestTransfersUnderScripts(t *testing.T) {
	total := 0
	rapid.Check(t, func(rt *rapid.T) {
		net := networks[rapid.SampledFrom([]string{"clean", "loss", "duplicate", "reorder", "corrupt", "all"}).Draw(rt,
			"network")]
		card := rapid.SampledFrom([]string{"native", "thesis", "train 1", "tiny"}).Draw(rt, "card")
		slots := rapid.SampledFrom([]int{2, 32}).Draw(rt, "slots")
		b, m := transferBed(t, setup{cards: 2, slots: 32, tune: cardConfigs[card],
			net: wire.Config{Seed: rapid.Uint64().Draw(rt, "seed"), Delay: 10 * time.Microsecond, Faults: net}})
		s := &scripted{bed: b, t: rt, m: m, want: [2][]byte{bytes.Clone(m[0].area), bytes.Clone(m[1].area)}}
		for i := range 2 {
			if err := s.proc[i].Resize(slots, func() error { s.step(s.now); return nil }); err != nil {
				rt.Fatal(err)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"send":      func(*rapid.T) { s.submit() },
			"send more": func(*rapid.T) { s.submit(); s.submit(); s.submit() },
			"run": func(rt *rapid.T) {
				s.run(time.Duration(rapid.IntRange(1, 300).Draw(rt, "us"))*time.Microsecond, -1)
			},
			"resize": func(rt *rapid.T) {
				if node := rapid.IntRange(0, 1).Draw(rt, "node"); s.saved[node] == nil {
					s.resize(node)
				}
			},
			"switch": func(rt *rapid.T) {
				node := rapid.IntRange(0, 1).Draw(rt, "node")
				if s.saved[node] != nil {
					s.switchIn(node, s.saved[node])
					s.saved[node] = nil
					return
				}
				unacknowledged := rapid.Bool().Draw(rt, "unacknowledged")
				for tries := 0; s.saved[node] == nil; tries++ {
					out, err := s.cards[node].SwitchOut(s.ctx[node], unacknowledged)
					if err != nil && !errors.Is(err, engine.ErrNotReady) || tries == 10000 {
						rt.Fatalf("switching out: %v", err)
					}
					if s.saved[node] = out; err != nil {
						s.run(100*time.Microsecond, node)
					}
				}
			},
			"drain": func(rt *rapid.T) {
				if node := rapid.IntRange(0, 1).Draw(rt, "node"); s.saved[node] == nil {
					if err := s.ctx[node].Store(funi.Control, s.ctx[node].Load(funi.Control)^funi.DRAIN); err != nil {
						rt.Fatal(err)
					}
					s.wake[node] = 0
				}
			},
			"": func(rt *rapid.T) {
				for i, c := range s.cards {
					if err := c.Check(); err != nil {
						rt.Fatalf("card %d: %v", i, err)
					}
				}
			},
		})
		for node := range 2 {
			if s.saved[node] != nil {
				s.switchIn(node, s.saved[node])
				s.saved[node] = nil
			}
			if err := s.ctx[node].Store(funi.Control, 0); err != nil {
				rt.Fatal(err)
			}
			s.wake[node] = 0
		}
		for limit := s.now + int64(time.Minute); ; s.run(time.Millisecond, -1) {
			quiet := !slices.ContainsFunc(s.all, func(x sent) bool { return !x.done }) &&
				s.ctx[0].Idle() && s.ctx[1].Idle()
			if quiet && len(s.pieces[0][0])+len(s.pieces[0][1])+len(s.pieces[1][0])+len(s.pieces[1][1]) == 0 {
				break
			}
			if s.now > limit {
				rt.Fatalf("not all arrived: %+v\n%s", s.all, s.counters())
			}
		}
		s.run(50*time.Millisecond, -1)
		quietTransfers(rt, b)
		for node := range 2 {
			if !bytes.Equal(s.m[node].area[areaSize/2:], s.want[node][areaSize/2:]) {
				rt.Fatalf("memory of node %d differs", node)
			}
		}
		total += len(s.all)
	})
	if total == 0 {
		t.Error("nothing was sent")
	}
}
