package link_test

// This file holds the rule of where nonces come from.

import (
	"testing"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
)

// drawn are the numbers that a card has got for nonces.
type drawn map[uint64]bool

func (d drawn) Uint64() uint64 {
	n := uint64(1000 + len(d))
	d[n] = true
	return n
}

// Rule (Config.Nonces): every nonce of a card's greetings is a number of the source that the card
// was given: nobody foresees it who cannot foresee that.
func TestNoncesComeFromOutside(t *testing.T) {
	var frames []arctic.Frame
	numbers := drawn{}
	b := newBed(t, setup{cards: 2, net: near, wrap: capture(&frames), tune: func(c *link.Config) {
		if quick(c); c.Card == 0 {
			c.Nonces = numbers
		}
	}})
	b.meet()
	b.start(1)
	b.meet()
	greetings := 0
	for _, f := range frames {
		if h := f.Header(); h.Hello && h.SourceCard == 0 {
			greetings++
			var g arctic.Greeting
			if f.Greeting(&g); !numbers[g.Nonce] {
				t.Errorf("a greeting has nonce %d, which nobody has drawn", g.Nonce)
			}
		}
	}
	if greetings < 2 || len(numbers) < 2 {
		t.Errorf("%d greetings with %d nonces, so little is tested", greetings, len(numbers))
	}
}
