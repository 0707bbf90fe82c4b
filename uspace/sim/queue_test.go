package sim

// This file tests the event queue: order, and that it does not allocate.

import (
	"sort"
	"testing"

	"pgregory.net/rapid"
)

// nobodyElse is an actor for tests of the queue.
type nobodyElse struct{}

func (nobodyElse) happen(uint64, uint64) bool { return true }

// Events come out by time, and those of the same time in the order in which they were
// put in, whatever was put in and taken out in between.
func TestQueueOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type entry struct{ at, arg int64 }
		q, now := &queue{}, int64(0)
		var model []entry
		for n := range int64(rapid.IntRange(1, 300).Draw(t, "steps")) {
			if len(model) == 0 || rapid.IntRange(0, 2).Draw(t, "push") > 0 {
				at := now + rapid.OneOf(rapid.Int64Range(0, 20), rapid.Int64Range(horizon-9, horizon+9),
					rapid.Int64Range(0, 3*horizon)).Draw(t, "at")
				q.push(at, nobodyElse{}, uint64(n))
				model = append(model, entry{at, n})
				sort.SliceStable(model, func(i, j int) bool { return model[i].at < model[j].at })
				continue
			}
			if q.next() != model[0].at {
				t.Fatalf("next at %d, want %d", q.next(), model[0].at)
			}
			at, _, _, arg := q.pop()
			if at != model[0].at || int64(arg) != model[0].arg {
				t.Fatalf("got event %d at %d, want %+v", arg, at, model[0])
			}
			model, now = model[1:], at
		}
		if len(model) == 0 && q.next() != Never {
			t.Fatal("an empty queue has a next event")
		}
	})
}

// A queue that has once been as long as it gets does not allocate.
func TestQueueDoesNotAllocate(t *testing.T) {
	q := &queue{}
	fill := func() {
		for i := range int64(1000) {
			q.push(q.base+i*7919%1000*100, nobodyElse{}, 0)
		}
		for range 1000 {
			q.pop()
		}
	}
	fill()
	if n := testing.AllocsPerRun(10, fill); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
