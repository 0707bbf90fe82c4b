package engine_test

// This file is traffic for the test bed: numbered messages between all nodes at
// both levels, each accounted for.

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// lane is the messages of one level from one node to another.
type lane struct {
	from, to int
	level    funi.Level
	sent     int
	seen     []bool // delivered
	returned []bool
	got      int
	back     int
}

type traffic struct {
	b        *bed
	messages int // per lane
	words    int // of each, 2 to 21
	burst    int // messages a lane sends at once
	lanes    []*lane
	// stalled says which nodes do not receive now.
	stalled func(node int) bool
	// asleep says whose processes do nothing now; nil: nobody's.
	asleep func(node int) bool
	// transfers takes notices of transfers; nil: there are none.
	transfers func(node int, s *funi.Slot)
	// reasons are those for which packets may come back.
	reasons []arctic.Reason
}

// newTraffic makes traffic between the given pairs of nodes, all when none is given.
func newTraffic(b *bed, messages, words int, pairs ...[2]int) *traffic {
	t := &traffic{b: b, messages: messages, words: words, burst: 4, stalled: func(int) bool { return false }}
	if len(pairs) == 0 {
		for from := range b.cards {
			for to := range b.cards {
				if from != to {
					pairs = append(pairs, [2]int{from, to})
				}
			}
		}
	}
	for _, p := range pairs {
		for l := range funi.Level(2) {
			t.lanes = append(t.lanes, &lane{from: p[0], to: p[1], level: l, seen: make([]bool, messages),
				returned: make([]bool, messages)})
		}
	}
	return t
}

func (t *traffic) lane(from, to int, l funi.Level) *lane {
	for _, n := range t.lanes {
		if n.from == from && n.to == to && n.level == l {
			return n
		}
	}
	t.b.t.Fatalf("a message of level %v from %d to %d, which nobody sends", l, from, to)
	return nil
}

func payload(words int, n *lane, id int) []uint32 {
	w := make([]uint32, words)
	w[0] = uint32(id)
	w[1] = uint32(n.from)<<16 | uint32(n.to)<<1 | uint32(n.level)
	for i := 2; i < words; i++ {
		w[i] = uint32(id+1) * 2654435761 * uint32(i)
	}
	return w
}

// pump sends and receives what can be sent and received now, and reports whether
// each message has been delivered or has come back.
func (t *traffic) pump() bool {
	t.b.t.Helper()
	for _, n := range t.lanes {
		if t.b.cards[n.from] == nil || t.asleep != nil && t.asleep(n.from) {
			continue
		}
		for range t.burst {
			if n.sent == t.messages || !t.b.send(n.from, n.level, n.to, payload(t.words, n, n.sent)...) {
				break
			}
			n.sent++
		}
	}
	for node, p := range t.b.proc {
		if t.b.cards[node] == nil || t.asleep != nil && t.asleep(node) {
			continue
		}
		for l := range funi.Level(2) {
			for !t.stalled(node) {
				s, ok := take(p, l)
				if !ok {
					break
				}
				t.delivered(node, l, &s)
			}
		}
		for r, ok := p.NextReturn(); ok; r, ok = p.NextReturn() {
			t.cameBack(node, r)
		}
	}
	return t.complete()
}

func (t *traffic) delivered(node int, l funi.Level, s *funi.Slot) {
	t.b.t.Helper()
	if t.transfers != nil && s.Header().Transfer() {
		t.transfers(node, s)
		return
	}
	n := t.lane(int(s.Source()), node, l)
	w := s.Payload()
	if len(w) != t.words || int(w[0]) >= n.sent || !reflect.DeepEqual(w, payload(t.words, n, int(w[0]))) ||
		int(s.Header().Node()) != node || s.Header().Type() != 5 {
		t.b.t.Fatalf("node %d got a damaged message from %d: %#x", node, n.from, s[:])
	}
	if n.seen[w[0]] {
		t.b.t.Fatalf("node %d got message %d from %d again", node, w[0], n.from)
	}
	n.seen[w[0]] = true
	n.got++
}

func (t *traffic) cameBack(node int, r funi.Returned) {
	t.b.t.Helper()
	for _, reason := range t.reasons {
		if r.Reason == reason {
			n := t.lane(node, int(r.Header.Node()), r.Level)
			if n.returned[r.Word] || r.Header.Length() != t.words || r.Header.Type() != 5 {
				t.b.t.Fatalf("node %d: came back again or damaged: %+v", node, r)
			}
			n.returned[r.Word] = true
			n.back++
			return
		}
	}
	t.b.t.Fatalf("at %v node %d: packet %d of level %v to %d came back: %v\n%s", time.Duration(t.b.now), node, r.Word,
		r.Level, r.Header.Node(), r.Reason, t.b.counters())
}

// complete reports whether each message has been delivered or has come back.
func (t *traffic) complete() bool {
	for _, n := range t.lanes {
		if n.sent < t.messages || n.got+n.back < t.messages {
			return false
		}
		for id := range t.messages {
			if !n.seen[id] && !n.returned[id] {
				return false
			}
		}
	}
	return true
}

func (t *traffic) totals() (got, back int) {
	for _, n := range t.lanes {
		got += n.got
		back += n.back
	}
	return got, back
}

// sprintNonzero prints the counters that are not zero.
func sprintNonzero(card int, c engine.Counters) string {
	var s strings.Builder
	fmt.Fprintf(&s, "card %d:", card)
	v := reflect.ValueOf(c)
	for _, f := range reflect.VisibleFields(v.Type()) {
		if n := v.FieldByIndex(f.Index); n.CanUint() && n.Uint() != 0 {
			fmt.Fprintf(&s, " %s=%d", f.Name, n.Uint())
		}
	}
	return s.String() + "\n"
}
