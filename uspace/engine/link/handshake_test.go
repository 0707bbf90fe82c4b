package link

// This file lets two handshakes greet each other over a network that loses, repeats and reorders,
// with restarts and a forger. It checks after every step that no epoch is ever begun twice, and at
// the end that both cards hold the same one.

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
)

// parley is two cards that greet each other.
type parley struct {
	t      *rapid.T
	cards  [2]*greeter
	wire   []greetingTo
	all    []greetingTo // that was ever sent
	random rand.PCG
	epochs [2]map[uint64]bool // that a life of the card has begun; the incarnation is in them
	lives  uint32
}

type greeter struct {
	handshake
	self  Party
	knows bool // that the peer is there
}

type greetingTo struct {
	to    int
	from  Party
	epoch uint64
	g     arctic.Greeting
}

func newParley(t *rapid.T) *parley {
	p := &parley{t: t}
	p.random.Seed(rapid.Uint64().Draw(t, "seed"), 0)
	for i := range 2 {
		p.epochs[i] = map[uint64]bool{}
		p.restart(i)
	}
	return p
}

func (p *parley) restart(i int) {
	p.lives++
	p.cards[i] = &greeter{self: Party{Card: uint16(i), Incarnation: p.lives}}
}

func (p *parley) send(i int) {
	c := p.cards[i]
	m := greetingTo{to: 1 - i, from: c.self, epoch: c.epoch}
	c.say(&m.g, &p.random)
	m.from.Nonce = m.g.Nonce
	if !c.knows {
		m.g.Flags |= arctic.Asks
	}
	p.wire, p.all = append(p.wire, m), append(p.all, m)
}

// attempt has a card greet the other because it has something for it.
func (p *parley) attempt(i int) {
	p.cards[i].knows = false
	p.cards[i].attempt(&p.random)
	p.send(i)
}

// arrive gives a greeting to its card, which answers.
func (p *parley) arrive(m greetingTo) {
	c := p.cards[m.to]
	self := c.self
	what, answer := c.hear(&self, m.from, m.epoch, &m.g, &p.random)
	switch what {
	case begun:
		if p.epochs[m.to][c.epoch] {
			p.t.Fatalf("card %d began epoch %x twice", m.to, c.epoch)
		}
		p.epochs[m.to][c.epoch] = true
		c.knows = true
	case confirmed:
		c.knows = true
	}
	if answer {
		p.send(m.to)
	}
}

// settle lets all that is sent arrive in order.
func (p *parley) settle() {
	for n := 0; len(p.wire) > 0; n++ {
		if n > 100 {
			p.t.Fatal("they never stop greeting")
		}
		m := p.wire[0]
		p.wire = p.wire[1:]
		p.arrive(m)
	}
}

func (p *parley) agreed() bool {
	a, b := p.cards[0], p.cards[1]
	return a.epoch == b.epoch && a.epoch != 0 && a.incarnation == b.self.Incarnation && b.incarnation ==
		a.self.Incarnation
}

// Rule: two cards that greet agree on an epoch by three greetings, or by those of two that begin at
// once, and then are quiet.
func TestHandshakeOfTwo(t *testing.T) {
	for name, c := range map[string]struct {
		open []int
		most int
	}{"one opens": {[]int{0}, 3}, "both at once": {[]int{0, 1}, 6}} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			p := newParley(t)
			for _, i := range c.open {
				p.attempt(i)
			}
			p.settle()
			if !p.agreed() || !p.cards[0].knows || !p.cards[1].knows || len(p.all) > c.most {
				t.Fatalf("%d greetings, agreed %v: %+v and %+v", len(p.all), p.agreed(), *p.cards[0], *p.cards[1])
			}
			// Who loses the other for a while, and greets it again, resets nothing.
			epoch, sent := p.cards[0].epoch, len(p.all)
			p.attempt(0)
			p.settle()
			if p.cards[0].epoch != epoch || p.cards[1].epoch != epoch || !p.cards[0].knows || len(p.all) > sent+3 {
				t.Fatalf("%d more greetings, and epochs %x and %x, want %x", len(p.all)-sent, p.cards[0].epoch,
					p.cards[1].epoch, epoch)
			}
		}))
	}
}

// Rule: a card that greets a new life of the other while its answer to that life is on its way
// keeps the nonce of the answer, so they begin one epoch: a second would return what is in flight.
func TestAttemptKeepsTheAnswersNonce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newParley(t)
		for range 2 { // the second proves the present nonce, which begins nothing
			p.attempt(0)
			p.settle()
		}
		p.restart(1)
		before := len(p.epochs[1])
		p.attempt(1)
		m := p.wire[0]
		p.wire = p.wire[1:]
		p.arrive(m)
		p.attempt(0)
		p.settle()
		if n := len(p.epochs[1]) - before; n != 1 || !p.agreed() {
			t.Fatalf("the new life has begun %d epochs: %+v and %+v", n, *p.cards[0], *p.cards[1])
		}
	})
}

// Rule: where the last greeting is lost, the frames that follow, which the other does not know, get
// it repeated, and nothing is begun anew.
func TestLostGreetingIsRepeated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newParley(t)
		p.attempt(0)
		for len(p.all) < 3 {
			m := p.wire[0]
			p.wire = p.wire[1:]
			p.arrive(m)
		}
		p.wire = nil // the third
		epoch := p.cards[0].epoch
		p.send(1) // as to a frame of an epoch that it does not hold
		p.settle()
		if !p.agreed() || p.cards[0].epoch != epoch || len(p.epochs[0]) != 1 {
			t.Fatalf("agreed %v, epoch %x, want %x", p.agreed(), p.cards[0].epoch, epoch)
		}
	})
}

// Rule: greetings that are lost, repeated and reordered, and attempts of both until they know each
// other, begin no more than one epoch. Frames that have been sent in it come to nothing only where
// a card is lost or restarted, or somebody forges.
func TestOneEpochOfALife(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newParley(t)
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			switch i := rapid.IntRange(0, 1).Draw(t, "card"); rapid.IntRange(0, 9).Draw(t, "step") {
			case 0, 1:
				if !p.cards[i].knows {
					p.attempt(i)
				}
			case 2:
				p.send(i)
			case 3:
				if len(p.all) > 0 {
					p.arrive(p.all[rapid.IntRange(0, len(p.all)-1).Draw(t, "which")])
				}
			default:
				if len(p.wire) > 0 {
					at := rapid.IntRange(0, len(p.wire)-1).Draw(t, "arrives")
					m := p.wire[at]
					p.wire = append(p.wire[:at], p.wire[at+1:]...)
					p.arrive(m)
				}
			}
			if len(p.epochs[0]) > 1 || len(p.epochs[1]) > 1 || len(p.epochs[0])+len(p.epochs[1]) == 2 && !p.agreed() {
				t.Fatalf("epochs %v and %v", p.epochs[0], p.epochs[1])
			}
		}
	})
}

// Rule: greetings of an earlier life of a card, which anybody can repeat, begin nothing, and make
// two cards that are about to agree begin nothing twice, whatever is lost, repeated and reordered
// besides.
func TestEarlierLivesBeginNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newParley(t)
		p.attempt(rapid.IntRange(0, 1).Draw(t, "first"))
		p.settle()
		earlier := p.all
		for i := range 2 {
			p.restart(i)
			p.epochs[i] = map[uint64]bool{}
		}
		p.all = nil
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			switch i := rapid.IntRange(0, 1).Draw(t, "card"); rapid.IntRange(0, 9).Draw(t, "step") {
			case 0, 1:
				if !p.cards[i].knows {
					p.attempt(i)
				}
			case 2:
				p.send(i)
			case 3, 4:
				p.arrive(earlier[rapid.IntRange(0, len(earlier)-1).Draw(t, "which")])
			case 5: // lost
				if len(p.wire) > 0 {
					p.wire = p.wire[1:]
				}
			default:
				if len(p.wire) > 0 {
					at := rapid.IntRange(0, len(p.wire)-1).Draw(t, "arrives")
					m := p.wire[at]
					p.wire = append(p.wire[:at], p.wire[at+1:]...)
					p.arrive(m)
				}
			}
			if len(p.epochs[0]) > 1 || len(p.epochs[1]) > 1 || len(p.epochs[0])+len(p.epochs[1]) == 2 && !p.agreed() {
				t.Fatalf("epochs %v and %v", p.epochs[0], p.epochs[1])
			}
		}
	})
}

// Rule: whatever is lost, repeated, reordered, forged and restarted, no card begins an epoch twice
// in its life. So neither card is ever in the epoch of another beginning. Afterwards a greeting for
// each stale frame makes both agree.
func TestHandshakeWithEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newParley(t)
		forged := 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch i := rapid.IntRange(0, 1).Draw(t, "card"); rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				p.attempt(i)
			case 1:
				p.send(i)
			case 2:
				if rapid.IntRange(0, 3).Draw(t, "restart") == 0 {
					p.restart(i)
				}
			case 3:
				p.cards[i].forget()
				p.attempt(i)
			case 4: // a greeting of any age, once more
				if len(p.all) > 0 {
					p.arrive(p.all[rapid.IntRange(0, len(p.all)-1).Draw(t, "which")])
				}
			case 5: // somebody who has seen all that was sent makes one up
				m := greetingTo{to: i, from: Party{Card: uint16(1 - i),
					Incarnation: rapid.Uint32Range(0, p.lives+1).Draw(t, "incarnation")}}
				m.from.Nonce = p.random.Uint64()
				if len(p.all) > 0 {
					seen := p.all[rapid.IntRange(0, len(p.all)-1).Draw(t, "seen")]
					m.g.Echo = seen.g.Nonce
					if rapid.Bool().Draw(t, "his nonce") {
						m.from.Nonce = p.all[rapid.IntRange(0, len(p.all)-1).Draw(t, "other")].g.Nonce
					}
					m.epoch = seen.epoch
				}
				m.g.Nonce = m.from.Nonce
				forged++
				p.arrive(m)
			default:
				if len(p.wire) > 0 {
					at := rapid.IntRange(0, len(p.wire)-1).Draw(t, "arrives")
					m := p.wire[at]
					p.wire = append(p.wire[:at], p.wire[at+1:]...)
					p.arrive(m)
				}
			}
		}
		p.wire = nil
		// each sends a frame, which is stale where the epochs differ, and each that is greets
		for range 8 {
			for i := range 2 {
				if p.cards[i].epoch == 0 || !p.agreed() {
					p.send(i)
					p.settle()
				}
			}
		}
		if !p.agreed() {
			t.Fatalf("they never agree: %+v and %+v", *p.cards[0], *p.cards[1])
		}
		sent := len(p.all)
		p.attempt(0)
		p.settle()
		if !p.agreed() || len(p.all) > sent+6 {
			t.Fatalf("%d greetings when all was well", len(p.all)-sent)
		}
	})
}
