package chaos

// This file notes the greetings that arrive after the life of the card that sent them. Such a
// greeting may begin an epoch with the dead, although the life that follows has begun one already
// (engine/link/handshake.go). Then the two cards count anew once more, and what the present life
// has sent comes back.

import (
	"time"

	"github.com/funet/funet/uspace/arctic"
)

// haunting is how long messages may come back after such a greeting: as long as a few timeouts.
const haunting = time.Second

// ghosts knows the lives of all cards.
type ghosts struct {
	cards map[uint32]int // by incarnation
	lives []uint32       // the present, or last, of each card
	heard []int64        // when a greeting of an ended life last arrived at each card; 0: never
	now   func() int64
}

func newGhosts(cards int, now func() int64) *ghosts {
	return &ghosts{cards: map[uint32]int{}, lives: make([]uint32, cards), heard: make([]int64, cards), now: now}
}

// born begins a life of a card.
func (g *ghosts) born(card int, incarnation uint32) {
	g.cards[incarnation], g.lives[card] = card, incarnation
}

// arrives looks at a frame that arrives at a card.
func (g *ghosts) arrives(at int, b []byte) {
	f, err := arctic.Look(b)
	if err != nil || !f.Hello() {
		return
	}
	var said arctic.Greeting
	f.Greeting(&said)
	if card, ok := g.cards[said.Incarnation]; ok && g.lives[card] != said.Incarnation {
		g.heard[at] = g.now()
	}
}

// haunt reports whether a card has heard an ended life of another a short while ago.
func (g *ghosts) haunt(card int) bool {
	return g != nil && g.heard[card] != 0 && g.now()-g.heard[card] <= int64(haunting)
}
