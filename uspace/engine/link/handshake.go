package link

// This file is the handshake of two cards as a state machine of its own. It holds what a card has
// said to a peer, what it has heard, and which epoch their sequence state is of. It knows no
// frames, no time and no flows: greeting.go sends what it says.
//
// Sequence numbers mean something between two cards only while both count from the same beginning.
// So they are bound to an epoch, which stands in every frame. Both cards make it of two nonces, one
// of each card, and both incarnations (Epoch). A card begins an epoch when a greeting echoes a
// nonce of its own that has begun none yet. The nonce is drawn at random, and beginning the epoch
// spends it. So no card ever begins an epoch twice, and all sequence state of an epoch is of one
// beginning. Both cards begin the epoch, or the one that has not will say so:
//
//	A: nonce x, no epoch                 ->
//	            <- B: nonce y, echo x, no epoch       (A begins the epoch of x and y)
//	A: nonce x, echo y, that epoch       ->           (B begins it, too)
//
// A greeting is answered when its sender lacks something: it does not echo the present nonce, or
// holds another epoch, or asks for an answer because it does not know yet that this card is there.
// Two cards that hold the same epoch and know the same nonces say nothing more.
//
// A nonce that has begun no epoch is kept. One that has begun an epoch is repeated to a peer that
// has not begun it yet, even if another nonce was drawn since. So greetings may be lost, repeated
// and overtaken, and those of an earlier life of the peer may arrive again: they begin at most one
// epoch.
//
// A card that believes a peer and loses it keeps the epoch. A new attempt has a new nonce, and
// where both still hold the same epoch nothing is reset. Where the last greeting of a handshake was
// lost, only one card holds the new epoch. The other does not know the epoch of the frames that the
// first sends, and greets again. Its old nonce, repeated, gets the answer that was lost. Where
// there is a key such frames are not always answered, because any station can send them. There the
// card that holds the new epoch greets again when its first frame is not answered in time
// (timeout).
//
// A greeting that echoes the present nonce proves that its sender lived after the nonce was drawn.
// It does not prove that the sender lives now: the greeting may be of a life that ended while the
// network held it up. Then the card begins an epoch with a dead life. The peer's present life
// learns of it from the greeting that says so, from the first frame, or from the greeting that
// follows a retransmission timeout. That greeting echoes a nonce that is not the present life's. So
// the present life answers, and the next nonces of both begin their epoch. The epoch with the dead
// life lasts a round trip, and one or two retransmissions where greetings are lost. It cannot be
// excluded: the sender of any greeting may die before the greeting arrives. Where the present life
// has been answered with the same nonce, and has begun its epoch, it must begin another, and what
// it has sent comes back. The nonce cannot be kept for it: incarnations have no order, and the
// greetings of the two lives, the other way round, would end the epoch with the living.
//
// Where there is no key, a station that sees a greeting can echo its nonce, with an incarnation and
// a nonce that it made up. The card then begins an epoch that the peer will never hold. Every frame
// of one card is then stale for the other, and they greet again, each with a nonce that is not
// spent. So such a station can make both cards begin anew, and can do nothing else.

import (
	"math/rand/v2"

	"github.com/funet/funet/uspace/arctic"
)

// handshake holds what a card and a peer have said to each other.
type handshake struct {
	nonce       uint64 // the last that this card has drawn; 0: none
	theirs      uint64 // the nonce of the peer's last greeting, which proves nothing
	epoch       uint64 // 0: there is none
	began       uint64 // the nonce of this card that began it
	incarnation uint32 // the peer's, of the last epoch; 0: there has been none
	used, spent bool   // nonce has been echoed; nonce has begun an epoch
	// this card greets to find out whether the peer is there, and nothing has proven it yet
	attempts bool
}

type heard uint8

const (
	unproven heard = iota // the greeting echoes no nonce that proves anything
	// confirmed: the peer is there, and both hold the same epoch, or will when the peer has the
	// answer.
	confirmed
	begun // an epoch has begun, and all earlier knowledge of sequence numbers is void
)

// attempt begins to greet the peer. A nonce that was echoed before cannot prove that the peer is
// there now, so another is drawn. One that was not echoed is kept, because greetings with it may be
// on their way.
func (h *handshake) attempt(random rand.Source) {
	if h.used {
		h.draw(random)
	}
	h.theirs, h.attempts = 0, true
}

func (h *handshake) draw(random rand.Source) {
	h.nonce, h.used, h.spent = 0, false, false
	for h.nonce == 0 {
		h.nonce = random.Uint64()
	}
}

// forget gives up the epoch, so that the next handshake begins another.
func (h *handshake) forget() { h.epoch = 0 }

// say fills in the handshake's part of a greeting, except for the epoch.
func (h *handshake) say(g *arctic.Greeting, random rand.Source) {
	if h.nonce == 0 {
		h.draw(random)
	}
	g.Nonce, g.Echo = h.nonce, h.theirs
}

// hear handles a greeting whose sender holds the epoch held. It returns the outcome, and whether
// the greeting is to be answered. self is this card with its incarnation, from is the other card
// with what the greeting says. After begun, self's nonce is the one that began the epoch.
func (h *handshake) hear(self *Party, from Party, held uint64, g *arctic.Greeting,
	random rand.Source) (what heard, answer bool) {
	h.theirs = from.Nonce
	if h.epoch != 0 && h.nonce != h.began && !h.attempts && from.Incarnation == h.incarnation && held != h.epoch {
		// Something made this card draw another nonce, a greeting of an earlier life of the peer,
		// for example. If the peer has heard nothing of the epoch that its nonce has begun, the
		// peer needs the nonce that has begun it here.
		self.Nonce = h.began
		if Epoch(*self, from) == h.epoch {
			h.nonce, h.used, h.spent = h.began, true, true
		}
	}
	self.Nonce = h.nonce
	epoch := Epoch(*self, from)
	same := h.spent && epoch == h.epoch // as began the present epoch
	if h.nonce != 0 && g.Echo == h.nonce {
		h.used = true
		switch {
		case h.epoch != 0 && held == h.epoch && from.Incarnation == h.incarnation, same:
			what = confirmed
		case !h.spent:
			h.epoch, h.began, h.incarnation, h.spent = epoch, h.nonce, from.Incarnation, true
			what = begun
		}
	}
	if what != unproven {
		h.attempts = false
	} else if (h.spent || h.used) && !same {
		// A spent nonce proves nothing to a peer with another nonce. The next attempt would replace
		// a used one, although the peer begins the epoch with it.
		h.draw(random) // for the answer
	}
	return what, what == unproven || held != h.epoch || g.Flags&arctic.Asks != 0
}
