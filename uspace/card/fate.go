package card

// This file takes news of the processes of other nodes for a card on a direct port. The news comes
// from any goroutine, and the goroutine that drives the card passes it on to the engine.

import "sync"

// news holds the news for the engine that waits: the last end and the last life of each node. The
// size of the job bounds it.
type news struct {
	mu sync.Mutex
	of map[uint16]lives
}

// lives holds incarnations of a node's card; 0: there is no news.
type lives struct{ ended, there uint32 }

// Ended tells the card that the process of a node has ended. life is the incarnation of the node's
// card. Packets that wait for the node fail at once, and so do later ones until its next process is
// there. Any goroutine may call Ended. It does nothing to a card that is not on a direct port.
func (k *Card) Ended(node uint16, life uint32) {
	k.note(node, func(n *lives) {
		if n.ended = life; n.there == life {
			n.there = 0
		}
	})
}

// Lives tells the card that the process of a node is there. life is the incarnation of the node's
// card. The node's silence may last for ConnectTimeout. Any goroutine may call Lives.
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
	k.ask()
}

// attendNews passes the news on to the engine.
func (k *Card) attendNews() {
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
}
