package chaos

// This file checks that operations on windows are there at all, and that their oracle notices.

import (
	"math/rand/v2"
	"testing"

	"github.com/funet/funet/uspace/arctic"
)

// Rule: operations of each kind are carried out under faults, on words in an order that can be; on
// cards whose units take time, too.
func TestOperationsOnWindows(t *testing.T) {
	for profile, seeds := range map[string]uint64{Native: 12, "sbus-arctic": 12, "tokyo": 12} {
		t.Run(profile, func(t *testing.T) {
			orders, puts, gets, locks := 0, 0, 0, 0
			for seed := range seeds {
				s := Scenario{Seed: 7000 + seed, Nodes: 6, Messages: 1500, Faults: RMA | Loss | Reorder | Dup,
					Profile: profile}
				r := runOf(s, nil)
				if r.result.Failed() {
					t.Errorf("funet sim chaos %v: %q", s, r.result.Failures)
				}
				orders, puts, gets, locks = orders+r.orders, puts+r.puts, gets+r.gets, locks+r.locks
			}
			if orders < 100 || puts < 20 || gets < 20 || locks < 10 {
				t.Errorf("%d operations on words, %d puts, %d gets, %d locks", orders, puts, gets, locks)
			}
			t.Logf("%d operations on words, %d puts, %d gets, %d locks", orders, puts, gets, locks)
		})
	}
}

// Rule: an order that cannot be is noticed: two answered the same, one answered what was never
// there, one that comes before another that was complete before it was issued, an add that was
// carried out twice. What is not known may be in it, or not.
func TestLinearizability(t *testing.T) {
	add := func(a, was uint64, begun, ended int64) *operation {
		return &operation{kind: arctic.RemoteAdd, a: a, was: was, begun: begun, ended: ended}
	}
	unknown := func(a uint64) *operation {
		return &operation{kind: arctic.RemoteAdd, a: a, begun: 1, ended: 99, reason: arctic.ReasonSilent,
			doubtful: true}
	}
	unknownFrom := func(begun int64, a uint64) *operation {
		return &operation{kind: arctic.RemoteAdd, a: a, begun: begun, ended: 99, reason: arctic.ReasonSilent,
			doubtful: true}
	}
	swap := func(a uint64) *operation {
		return &operation{kind: arctic.RemoteSwap, a: a, begun: 1, ended: 99, reason: arctic.ReasonSilent,
			doubtful: true}
	}
	for name, c := range map[string]struct {
		all   []*operation
		holds uint64
		good  bool
	}{
		"in a row":               {[]*operation{add(5, 0, 1, 2), add(7, 5, 3, 4)}, 12, true},
		"at once":                {[]*operation{add(5, 7, 1, 4), add(7, 0, 2, 3)}, 12, true},
		"both answered the same": {[]*operation{add(5, 0, 1, 2), add(7, 0, 3, 4)}, 7, false},
		"what was never there":   {[]*operation{add(5, 0, 1, 2), add(7, 6, 3, 4)}, 13, false},
		"before it was issued":   {[]*operation{add(5, 7, 1, 2), add(7, 0, 3, 4)}, 12, false},
		"carried out twice":      {[]*operation{add(5, 0, 1, 2)}, 10, false},
		"lost":                   {[]*operation{add(5, 0, 1, 2), add(7, 5, 3, 4)}, 5, false},
		"one that is not known, in it": {[]*operation{add(5, 0, 1, 2), unknown(100), add(7, 105, 3, 4)},
			112, true},
		"one that is not known, last": {[]*operation{add(5, 0, 1, 2), unknown(100)}, 105, true},
		"one that is not known, not":  {[]*operation{add(5, 0, 1, 2), unknown(100)}, 5, true},
		"two that are not known":      {[]*operation{unknown(30), add(5, 130, 1, 2), unknown(100)}, 135, true},
		"eight that are not known": {[]*operation{unknown(1), unknown(2), unknown(4), unknown(8),
			unknown(16), unknown(32), unknown(64), unknown(128), add(5, 255, 1, 2)}, 260, true},
		"two that lead there, one too late": {[]*operation{unknownFrom(50, 100), unknown(100), add(7, 100, 2, 3)},
			107, true},
		"only by coming back to what it held": {[]*operation{swap(3), swap(0),
			{kind: arctic.RemoteRead, was: 3, begun: 2, ended: 3}, add(5, 0, 4, 5)}, 5, true},
		"and not when that comes too late": {[]*operation{swap(3),
			{kind: arctic.RemoteRead, was: 3, begun: 2, ended: 3}, add(5, 0, 4, 5)}, 5, false},
		"one that is not known, twice": {[]*operation{unknown(100), add(5, 0, 1, 2), add(7, 105, 3, 4),
			add(9, 212, 5, 6)}, 221, false},
		"a read of what was there": {[]*operation{{kind: arctic.RemoteRead, was: 5, begun: 2, ended: 3},
			add(5, 0, 1, 2)}, 5, true},
		"a read of what was before": {[]*operation{{kind: arctic.RemoteRead, was: 0, begun: 3, ended: 4},
			add(5, 0, 1, 2)}, 5, false},
	} {
		r := &run{}
		r.oracle = oracle{result: &r.result, now: func() int64 { return 0 }}
		w := &windows{m: &member{run: r}, memory: make([]byte, windowSegment)}
		for i := range 8 {
			w.memory[i] = byte(c.holds >> (8 * i))
		}
		linearize(r, w, 0, c.all, true)
		if r.result.Failed() == c.good || r.result.Undecided != 0 {
			t.Errorf("%s: %d undecided, failures %q", name, r.result.Undecided, r.result.Failures)
		}
	}
}

// Rule (linearize.go): a history that a word has had is accepted, whatever became of answers; one
// in which an answer is another is refused; and what the search does not come to the end of is
// undecided.
func TestHistoriesOfWords(t *testing.T) {
	var found [2][undecided + 1]int
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(1, seed))
		known, unknown, holds := history(r)
		o, left, at := linearizable(known, unknown, true, holds, mostStates)
		if found[0][o]++; o != possible {
			t.Fatalf("history %d of %d operations and %d that are not known: %d, %d left at %#x", seed, len(known),
				len(unknown), o, left, at)
		}
		if o, _, _ := linearizable(known, unknown, true, holds, 1); o != undecided && len(known) > 1 {
			t.Fatalf("history %d: %d after one state", seed, o)
		}
		if len(known) == 0 {
			continue
		}
		known[r.IntN(len(known))].was ^= 1 << 20
		o, _, _ = linearizable(known, unknown, true, holds, mostStates)
		if found[1][o]++; o == possible {
			t.Fatalf("history %d with another answer is possible", seed)
		}
	}
	if found[1][undecided] > found[1][impossible]/20 {
		t.Errorf("with another answer %d are undecided and %d refused", found[1][undecided], found[1][impossible])
	}
}

// history has a word changed by operations of several processes that overlap, of some of which
// nobody knows the outcome. It returns what the word holds at the end.
func history(r *rand.Rand) (known, unknown []*operation, v uint64) {
	n, lost := 1+r.IntN(60), r.IntN(8)
	for i := range n {
		o := &operation{kind: arctic.RemoteAdd, a: r.Uint64()}
		switch r.IntN(4) {
		case 0:
			o.kind = arctic.RemoteSwap
		case 1:
			o.kind, o.b = arctic.RemoteCompareSwap, r.Uint64()
			if r.IntN(2) == 0 {
				o.a = v
			}
		case 2:
			o.kind = arctic.RemoteRead
		}
		at := int64(100 * i)
		o.begun, o.ended, o.was = at-r.Int64N(400), at+r.Int64N(400), v
		if o.kind != arctic.RemoteRead && r.IntN(60) < lost {
			o.reason, o.doubtful = arctic.ReasonSilent, true
			if unknown = append(unknown, o); r.IntN(2) == 0 {
				continue // it was not carried out
			}
		} else {
			known = append(known, o)
		}
		v = o.after(v)
	}
	r.Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] })
	return known, unknown, v
}
