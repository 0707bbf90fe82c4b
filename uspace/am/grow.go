package am

// This file takes memory from the card for one long message, which is too long for the memory of
// UseMemory.
//
// Such a message waits for its grant as others do (grant.go), and does not hold up those that need
// no memory of their own. Pump asks the card for a segment, which becomes one grant. When the
// message is done, the segment is kept for the next one that fits it. It goes back after
// Memory.Hold divided by keepParts without use, or at once if another message needs the bytes.
//
// If a card gives no memory because the user's quota is reached, it is asked again, since other
// processes of the user give memory back. After giveUpHolds times Memory.Hold the first waiting
// message is refused (ErrMemory at its sender).

import (
	"slices"
	"time"

	"github.com/funet/funet/uspace/funi"
)

const (
	// keepParts divides Memory.Hold: an unused segment is kept for that part of it.
	keepParts = 8
	// giveUpHolds is how many times Memory.Hold a message waits for a card that gives no memory.
	giveUpHolds = 3
	// firstAsk is the time until a card that gave no memory is asked again. It doubles up to
	// lastAsk.
	firstAsk = int64(5 * time.Millisecond)
	lastAsk  = int64(500 * time.Millisecond)
)

// growth is the state of the memory beyond that of UseMemory.
type growth struct {
	grown   []segmentOfOne
	refused int64 // when the card first gave no memory; 0: it gave some
	ask     int64 // when to ask it again
	gap     int64
}

// segmentOfOne is memory for one message.
type segmentOfOne struct {
	extent // behind the memory of UseMemory
	memory []byte
	used   bool  // by a grant, or in quarantine
	since  int64 // since when it is unused
}

// most returns the length of the longest message that can be granted memory.
func (l *landing) most() int { return max(l.longest, min(l.Grow, MaxBytes)) }

// room takes memory for a message. It returns false if the message has to wait.
func (l *landing) room(bytes int) (extent, bool) {
	if bytes <= l.longest {
		return l.take(bytes)
	}
	for i := range l.grown {
		if g := &l.grown[i]; !g.used && g.size >= bytes {
			g.used = true
			return g.extent, true
		}
	}
	return extent{}, false
}

// bytes returns the first n bytes of memory that was taken.
func (l *landing) bytes(x extent, n int) []byte {
	if g := l.segmentAt(x); g != nil {
		return g.memory[:n]
	}
	return l.memory[x.at : x.at+n]
}

// giveBack frees memory that room or leases.take returned.
func (l *landing) giveBack(x extent, to *extents) {
	if g := l.segmentAt(x); g != nil {
		g.used, g.since = false, l.Now()
		return
	}
	to.give(x)
}

// segmentAt returns the segment of one message that an extent lies in; nil: it lies in none.
func (l *landing) segmentAt(x extent) *segmentOfOne {
	if x.at < len(l.memory) {
		return nil
	}
	return &l.grown[slices.IndexFunc(l.grown, func(g segmentOfOne) bool { return g.at == x.at })]
}

// grow asks the card for a segment for a message, if that is due. It returns true if the message
// must be refused.
func (l *landing) grow(bytes int) (refuse bool) {
	now := l.Now()
	if now < l.ask {
		return false
	}
	l.shrink(true) // what is unused is too small
	size := (bytes + funi.PageSize - 1) &^ (funi.PageSize - 1)
	at, ok := l.place(size)
	if !ok {
		return false // until the messages that have the memory are done
	}
	if b, err := l.Segment(l.base+uint32(at), size, funi.Destination); err == nil {
		l.grown = append(l.grown, segmentOfOne{extent: extent{at, size}, memory: b, since: now})
		l.refused, l.ask, l.gap = 0, 0, 0
		return false
	}
	if l.refused == 0 || len(l.grown) > 0 { // what this process has itself comes free
		l.refused = max(now, 1)
	}
	l.gap = min(max(firstAsk, 2*l.gap), lastAsk)
	l.ask = now + l.gap
	if now-l.refused < giveUpHolds*int64(l.Hold) {
		return false
	}
	l.refused = now // the next one waits as long
	return true
}

// place returns the position of a new segment of the given size. It returns false if Grow would be
// exceeded, or no addresses are free.
func (l *landing) place(size int) (at int, ok bool) {
	at = (len(l.memory) + funi.PageSize - 1) &^ (funi.PageSize - 1)
	total := size
	slices.SortFunc(l.grown, func(a, b segmentOfOne) int { return a.at - b.at })
	for _, g := range l.grown {
		if total += g.size; !ok && g.at-at >= size {
			ok = true
		} else if !ok {
			at = g.at + g.size
		}
	}
	return at, total <= l.Grow && at+size <= lifeStride
}

// shrink gives segments back to the card: those unused for some time, or all unused ones.
func (l *landing) shrink(all bool) {
	if len(l.grown) == 0 {
		return
	}
	now := l.Now()
	l.grown = slices.DeleteFunc(l.grown, func(g segmentOfOne) bool {
		return !g.used && (all || now-g.since >= int64(l.Hold)/keepParts) && l.Unregister(l.base+uint32(g.at)) == nil
	})
}
