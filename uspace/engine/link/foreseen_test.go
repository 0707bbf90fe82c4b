package link_test

// This file holds the rules of header prediction: it changes what a frame costs, and nothing else.

import (
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
)

// dialogue sends messages of the same length one by one, so that the next is foreseen.
func (b *bed) dialogue() {
	b.t.Helper()
	for range 5 {
		b.arrives(time.Second, b.send(0, arctic.Request, 1))
		b.arrives(time.Second, b.send(1, arctic.Reply, 0))
	}
}

// Rule (arrive.go): what a card thinks of a frame depends on the groups that it has and on where
// its peers are now, also if the frame is like the one before.
func TestForeseenFramesAreSeenAnew(t *testing.T) {
	b := newBed(t, setup{cards: 2, net: near, tune: quick})
	b.dialogue()
	b.cards[1].SetGroup(gid, false, true)
	before := b.cards[1].Counters.DroppedGroup
	b.arrives(time.Second, b.send(0, arctic.Request, 1))
	if n := b.cards[1].Counters.DroppedGroup; n != before+1 {
		t.Errorf("%d frames of a group that is not here, want 1", n-before)
	}
	b.cards[1].SetGroup(gid, true, true)
	b.dialogue()
}

// Rule (arrive.go): a foreseen frame is of the present epoch. Those of the epoch before are stale.
func TestForeseenFramesAreOfThisEpoch(t *testing.T) {
	var frames []arctic.Frame
	b := newBed(t, setup{cards: 2, net: near, tune: quick, wrap: capture(&frames)})
	b.dialogue()
	old := frames
	b.start(0)
	// so that the cards have met; no request has come from card 0 since
	b.arrives(time.Second, b.send(0, arctic.Reply, 1))
	before := b.cards[1].Counters
	for _, f := range old {
		if f.Header().SourceCard == 0 && f.Packets() > 0 {
			b.inject(f)
		}
	}
	b.pass(time.Millisecond)
	if n := b.cards[1].Counters; n.Duplicates != before.Duplicates || n.OutOfWindow != before.OutOfWindow ||
		n.NeverSent != before.NeverSent {
		t.Errorf("frames of the epoch before were looked into\n%s", b.counters())
	}
	b.dialogue()
}
