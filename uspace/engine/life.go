package engine

// This file keeps a long transfer from being torn between two lives of its receiver. Otherwise one
// process could get the first part, and another, attached since under the same group and node, the
// notice.
//
// The notice comes with the Last. With it comes the number that the next frame to this card and
// level had when the sender's card began the transfer (arctic.Transfer.First). The receiver's card
// knows how far it had come with the sender's frames when the process was attached (Context.born).
// If frames from First on had been handled by then, some of them may have brought parts to a
// process that is gone. Then the Last is rejected with ReasonReplaced, and the whole transfer
// returns to its program. If not, all parts came later. A transfer that begins while the process is
// there is always taken. One that began before may come back even if the process got all of it. No
// clock is asked.
//
// Between contexts of one card there are no frames, so the lives are numbered instead. Sequences
// have 32 bits: a transfer that lasts 2^32 frames of its level is taken for a younger one.
//
// Parts that still come for the process that is gone are written to their destination, if the new
// process lets others write there. As with any transfer that fails, some of the data may have
// arrived, and no notice says so.
//
// A life begins when a context enters a group: at Attach, or when GID is stored after RESET or for
// another group. SwitchOut and SwitchIn are within one life.

import (
	"cmp"
	"slices"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
)

// beginLife notes how far the card has come with the frames of its peers and with the lives of its
// own contexts. A context that is attached after frames have come keeps 24 bytes for each card that
// sent some, whatever that card's number.
func (t *contexts) beginLife(x *Context) {
	t.lives++
	x.life, x.born, x.bornElsewhere = t.lives, nil, false
	x.lineage = uint64(t.cfg.Incarnation)<<32 | uint64(uint32(t.lives))
	t.link.EachReached(func(card uint16, l arctic.Level, reached int64) {
		if n := len(x.born); n == 0 || x.born[n-1].card != card {
			x.born = append(x.born, birth{card: card})
		}
		x.born[len(x.born)-1].reached[l] = reached
	})
	slices.SortFunc(x.born, func(a, b birth) int { return cmp.Compare(a.card, b.card) })
}

// birth is how far the card had come with another card's frames when a life began.
type birth struct {
	card    uint16
	reached [arctic.Levels]int64
}

// endBirth lets a context that comes from another card take transfers that began before this card
// was told of its arrival. It lowers each number in born by one, below all numbers that peers have
// been told to use (forward.go).
func (x *Context) endBirth() {
	for i := range x.born {
		for l := range x.born[i].reached {
			x.born[i].reached[l]--
		}
	}
	x.bornElsewhere = true
}

// goOn is for a context that comes back to a card where it has left a sign. It lets the context
// also take transfers that began when it was there before.
func (x *Context) goOn(sign *Context) {
	x.life = sign.life
	for i := range x.born {
		b := &x.born[i]
		for l := range b.reached {
			b.reached[l] = min(b.reached[l], sign.bornAt(b.card, arctic.Level(l)))
		}
	}
}

// bornAt returns how far this card had come with another card's frames of the level when the
// context's life began.
func (x *Context) bornAt(card uint16, l arctic.Level) int64 {
	at, heard := slices.BinarySearchFunc(x.born, card, func(b birth, card uint16) int {
		return cmp.Compare(b.card, card)
	})
	switch {
	case heard:
		return x.born[at].reached[l]
	case x.bornElsewhere: // the peer is younger than the context
		return -1
	}
	return 0
}

// beginning returns the First of a transfer of the level that begins now and takes the route.
func (t *contexts) beginning(route uint32, l arctic.Level) uint32 {
	switch {
	case route == NoRoute:
		return 0 // it goes nowhere
	case uint16(route) == t.cfg.Card:
		return uint32(t.lives)
	}
	return t.link.Sequence(uint16(route), l)
}

// torn reports whether the process may lack some of the transfer that a Last ends. The Last came in
// the frame of the train; nil: from this card.
func (t *contexts) torn(x *Context, train *link.Train, last *arctic.Transfer) bool {
	if int(last.Total)*arctic.WordSize == len(last.Data) || x.restoring {
		return false // it is all here; or it was accepted before
	}
	if train == nil {
		return beganBefore(x.life, t.lives, last.First)
	}
	return beganBefore(x.bornAt(train.Header.SourceCard, train.Header.Level), train.Reached(), last.First)
}

// beganBefore reports whether first, the lower 32 bits of a number up to 2^32 below now, is a
// number below born.
func beganBefore(born, now int64, first uint32) bool { return now-int64(uint32(now)-first) < born }
