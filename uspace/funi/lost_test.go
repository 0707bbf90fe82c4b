package funi_test

// This file tests what a process learns of the nodes that returns were lost for (lost.go).

import (
	"runtime"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// lose has the card lose a return for a node: the ring is full.
func lose(c *funi.Card, node uint16) {
	c.Return(funi.Returned{Reason: arctic.ReasonKeySlot, Header: funi.NewHeader(node, 1, 0)})
}

// overflowing is both ends with a ring that is full.
func overflowing(t testing.TB) (*funi.Interface, *funi.Card, *funi.Memory) {
	i, c, m := pair(t, 2)
	for range funi.ReturnSlots {
		lose(c, 0)
	}
	return i, c, m
}

// Rule: a node is under suspicion if a return for it was lost since the last look, however many
// returns were lost between two looks. Another node with the same number modulo LostNodes is under
// suspicion only if at least two such nodes lost some, and only until the look after that.
func TestLostTellsWhichNode(t *testing.T) {
	i, c, _ := overflowing(t)
	var l funi.Lost
	const a, b, far = 5, 5 + funi.LostNodes, 5 + 1023*funi.LostNodes
	for step, s := range []struct {
		lost []uint16
		want map[uint16]bool
	}{
		{nil, nil},
		{[]uint16{b}, map[uint16]bool{b: true}},
		{nil, nil},
		{[]uint16{a}, map[uint16]bool{a: true}},
		{make100(far), map[uint16]bool{far: true}},
		{[]uint16{a, far}, map[uint16]bool{a: true, b: true, far: true}},
		{[]uint16{b, b, 6}, map[uint16]bool{b: true, 6: true}},
		{[]uint16{a, b, a}, map[uint16]bool{a: true, b: true, far: true}},
		{nil, nil},
	} {
		for _, n := range s.lost {
			lose(c, n)
		}
		l.Look(i)
		for _, n := range []uint16{a, b, far, 6, 6 + funi.LostNodes} {
			if l.To(n) != s.want[n] {
				t.Errorf("step %d, lost %v: node %d is under suspicion: %v", step,
					s.lost[:min(len(s.lost), 3)], n, l.To(n))
			}
		}
	}
}

func make100(n uint16) (s []uint16) {
	for range 100 {
		s = append(s, n)
	}
	return s
}

// Rule: no loss is missed, in any order of losses and looks. A node without a loss is suspected
// only if two nodes with the same number modulo LostNodes lost some. No loss is missed, either,
// when the context goes on at another card meanwhile, which knows only the page. All this holds
// with whatever the page may have had in earlier lives.
func TestLostMissesNothing(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		i, c, m := overflowing(t)
		for range rapid.IntRange(0, 200).Draw(r, "earlier") {
			lose(c, rapid.Uint16().Draw(r, "for"))
		}
		var l funi.Lost
		l.Look(i)
		lost, moved := map[uint16]bool{}, false
		for range rapid.IntRange(1, 60).Draw(r, "steps") {
			switch rapid.IntRange(0, 9).Draw(r, "what") {
			default:
				n := uint16(rapid.IntRange(0, 3).Draw(r, "low") + rapid.IntRange(0, 3).Draw(r, "high")*funi.LostNodes)
				lose(c, n)
				lost[n] = true
			case 0, 1, 2:
				l.Look(i)
				for low := range uint16(4) {
					sharers := 0
					for high := range uint16(4) {
						if lost[low+high*funi.LostNodes] {
							sharers++
						}
					}
					for high := range uint16(4) {
						n := low + high*funi.LostNodes
						switch {
						case lost[n] && !l.To(n):
							r.Fatalf("what was lost for node %d is missed", n)
						case !lost[n] && l.To(n) && sharers < 2 && !moved:
							r.Fatalf("node %d is suspected, and %d with its number modulo %d have lost some", n,
								sharers, funi.LostNodes)
						}
					}
				}
				clear(lost)
				moved = false
			case 3:
				c = funi.ResumedCard(m)
				moved = true
			}
		}
	})
}

// Rule: nothing is missed while losses go on during a look.
func TestLostBesideALook(t *testing.T) {
	i, c, _ := overflowing(t)
	const nodes, each = 3, 40_000
	var begun, told [nodes]atomic.Uint32 // losses that the card begins to count, and has counted
	end := make(chan struct{})
	of := func(n int) uint16 { return uint16(7 + n*funi.LostNodes) }
	go func() {
		for k := range uint32(nodes * each) {
			n := int(k*2654435761>>16) % nodes
			begun[n].Add(1)
			lose(c, of(n))
			told[n].Add(1)
			if k%64 == 0 {
				runtime.Gosched()
			}
		}
		close(end)
	}()
	var l funi.Lost
	var before [nodes]uint32 // had begun when the look before began
	var was [nodes]bool      // suspected then
	for ended := false; !ended; {
		select {
		case <-end:
			ended = true
		default:
		}
		var done, now [nodes]uint32
		for n := range now {
			done[n] = told[n].Load()
			now[n] = begun[n].Load()
		}
		l.Look(i)
		for n := range now {
			// What began and ended between the beginnings of two looks, one of them has seen.
			if done[n] > before[n] && !was[n] && !l.To(of(n)) {
				t.Fatalf("of losses %d to %d for node %d none was seen", before[n], done[n], of(n))
			}
			was[n] = l.To(of(n))
		}
		before = now
	}
}

// Rule: a process that stores anything where it says what it has seen, or into the words, misleads
// itself alone: the card counts on, and stays within its page. One that looks for the first time
// after more losses than a word counts suspects all.
func TestLostBelievesNobody(t *testing.T) {
	i, c, m := overflowing(t)
	for _, v := range []uint32{0, 1, 1 << 31, 1<<32 - 1} {
		for at := range m.Page {
			if at == funi.LostSeen || at >= funi.LostTo && at < funi.LostTo+funi.LostNodes {
				atomic.StoreUint32(&m.Page[at], v)
			}
		}
		before := i.ReturnsLost()
		lose(c, 1<<16-1)
		if got := i.ReturnsLost() - before; got != 1 {
			t.Errorf("%#x: %d losses were counted", v, got)
		}
	}
	i, c, _ = overflowing(t)
	var l funi.Lost
	lose(c, 9)
	l.Look(i)
	for range 1 << 21 {
		lose(c, 9)
	}
	if l.Look(i); !l.To(9) {
		t.Error("as many losses as a word counts are none")
	}
}

// Rule (OperationsLost): of the returns that were lost, those of operations on windows and of
// multicasts are counted apart, and go on where another card has left off.
func TestLostOperations(t *testing.T) {
	i, c, m := overflowing(t)
	var s funi.Slot
	s.SetMulticast(7, &funi.MulticastRequest{})
	cast := s.Header()
	s.SetOperation(7, &funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteAdd}})
	add := s.Header()
	s.SetCloseKeySlot(1, 0)
	for n, h := range []funi.Header{cast, add, s.Header(), funi.NewHeader(7, 1, 0)} {
		if n == 1 {
			c = funi.ResumedCard(m)
		}
		c.Return(funi.Returned{Reason: arctic.ReasonNoBuffer, Header: h})
		if got, want := i.OperationsLost(), uint32(min(n+1, 2)); got != want {
			t.Errorf("after return %d: %d operations were lost, want %d", n, got, want)
		}
	}
}
