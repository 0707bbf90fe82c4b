package funi

// This file tells a process for which nodes returns were lost because the return ring had no room
// (doc.go). If the process has something under way to one of these nodes, it does not know whether
// that has come back, and asks.
//
// The page has a word for each number modulo LostNodes. Nodes that share a word would all be
// suspects. So the word also names the node, as long as all losses since the process's last look
// were for one. For that the process stores in lostSeen how many losses it knew of when it last
// read all words. The card keeps, for each word, the number of its last loss. If the process has
// seen that loss, the next one names its node anew. The value that the process stores can mislead
// only itself.
//
//	20:0   count, modulo 2^21
//	21     one: all losses that the process has not seen were for one node; 0: for several, or
//	       it is not known
//	31:22  of that node, the number divided by LostNodes
//
// A card that does not know this layout counts in all bits, and so reports several nodes.

import "sync/atomic"

const (
	lostCount = 1<<21 - 1
	lostOne   = 1 << 21
	lostShift = 22
)

// lose counts a return that the ring has no room for.
func (c *Card) lose(h Header) {
	node := h.Node()
	n := node % LostNodes
	word := &c.page[lostTo+n]
	w := atomic.LoadUint32(word)
	which := uint32(lostOne) | uint32(node/LostNodes)<<lostShift
	if int32(atomic.LoadUint32(&c.page[lostSeen])-c.lostAt[n]) < 0 && w&^lostCount != which {
		which = 0
	}
	atomic.StoreUint32(word, which|(w+1)&lostCount)
	c.lost++
	c.lostAt[n] = c.lost
	if h.completes() {
		c.operationsLost++
		atomic.StoreUint32(&c.page[operationsLost], c.operationsLost)
	}
	atomic.StoreUint32(&c.page[returnsLost], c.lost)
}

// Lost is what a process knows of the returns that were lost. The zero value has seen none. Use one
// for an interface at most: losses that one has seen are hidden from another.
type Lost struct {
	seen  uint32
	words [LostNodes]uint32
	more  [LostNodes]bool // since the look before
}

// Look takes note of what was lost since the last Look.
func (l *Lost) Look(i *Interface) {
	lost := atomic.LoadUint32(&i.page[returnsLost]) // before the words, which the card stores first
	for n := range l.words {
		now := atomic.LoadUint32(&i.page[lostTo+n])
		l.more[n], l.words[n] = now != l.words[n], now
	}
	if atomic.LoadUint32(&i.page[returnsLost])-l.seen > lostCount { // a count may be where it was
		for n := range l.words {
			l.more[n], l.words[n] = true, l.words[n]&lostCount
		}
	}
	l.seen = lost
	atomic.StoreUint32(&i.page[lostSeen], lost)
}

// To reports whether a return of what went to the node may be among those that were lost between
// the last two calls of Look. It always is if one was. If none was, it may still be, when others
// were for at least two nodes whose numbers are the same modulo LostNodes.
func (l *Lost) To(node uint16) bool {
	n := node % LostNodes
	w := l.words[n]
	return l.more[n] && (w&lostOne == 0 || w>>lostShift == uint32(node/LostNodes))
}
