package card

// This file is what a card on a direct port hears of the processes of other nodes: from any
// goroutine, for whoever drives the card.

import (
	"sync"
	"sync/atomic"
)

// news is what has yet to be told to the engine, of each node the last end and the last life: a
// bound by the size of the job.
type news struct {
	some atomic.Bool
	mu   sync.Mutex
	of   map[uint16]lives
}

// lives are incarnations of a node's card; 0: nothing was said.
type lives struct{ ended, there uint32 }

// Ended tells the card that the process of a node has ended, by the incarnation of its card: what
// waits for it fails at once, as does what is sent to it until its next process is there. Any
// goroutine may call it. It does nothing to a card that is not on a direct port.
func (k *Card) Ended(node uint16, life uint32) {
	k.note(node, func(n *lives) {
		if n.ended = life; n.there == life {
			n.there = 0
		}
	})
}

// Lives tells the card that the process of a node is there, by the incarnation of its card: its
// silence may last for ConnectTimeout. Any goroutine may call it.
func (k *Card) Lives(node uint16, life uint32) { k.note(node, func(n *lives) { n.there = life }) }

func (k *Card) note(node uint16, change func(*lives)) {
	k.news.mu.Lock()
	n := k.news.of[node]
	change(&n)
	if k.news.of == nil {
		k.news.of = map[uint16]lives{}
	}
	k.news.of[node] = n
	k.news.mu.Unlock()
	k.news.some.Store(true)
	k.Interrupt()
	k.relief.call()
}

// attendNews tells the engine, and reports whether there was something to tell. It follows a step:
// what a process had sent before it ended is taken first.
func (k *Card) attendNews() bool {
	if !k.news.some.Load() {
		return false
	}
	k.news.some.Store(false)
	k.news.mu.Lock()
	of := k.news.of
	k.news.of = nil
	k.news.mu.Unlock()
	for node, n := range of {
		if n.ended != 0 {
			k.engine.Ended(node, n.ended)
		}
		if n.there != 0 {
			k.engine.Lives(node, n.there)
		}
	}
	return true
}
