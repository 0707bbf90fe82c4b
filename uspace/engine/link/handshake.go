package link

// This file is the handshake of two cards as a state machine of its own: what a card has said to a peer, what it has heard,
// and which epoch their sequence state is of. It knows no frames, no time and no flows: greeting.go sends what it says.
//
// Sequence numbers mean something between two cards only while both count from the same beginning. So they are bound to an
// epoch, which stands in every frame, and which both find from two nonces, one of each card, and both incarnations (Epoch).
// A card begins an epoch when a greeting echoes a nonce of its own that has begun none yet: the nonce is drawn at random
// and spent by that, so no card ever begins an epoch twice, and all sequence state of an epoch is of one beginning. The two
// begin it together, or who has not will say so:
//
//	A: nonce x, no epoch                 ->
//	            <- B: nonce y, echo x, no epoch       (A begins the epoch of x and y)
//	A: nonce x, echo y, that epoch       ->           (B begins it, too)
//
// A greeting is answered when its sender lacks something: it does not echo the present nonce, or holds another
// epoch, or asks for an answer because it does not know yet that this card is there. Two cards that hold the same
// epoch and know the same nonces say nothing more.
//
// Who believes a peer and loses it keeps the epoch: a new attempt has a new nonce, and where both still hold the same epoch
// nothing is reset. Where the last greeting of a handshake was lost, only one holds the new epoch; the frames that
// it sends are of an epoch that the other does not know, who greets again, and its old nonce, repeated, gets the answer that
// was lost.
//
// Whoever sees a greeting, and where there is no key, can echo its nonce with an incarnation and a nonce that he made up. The
// card then begins an epoch that the peer will never hold: every frame of one is stale for the other, and they greet
// again, each with a nonce that is not spent. So he can make two cards begin anew, both of them, and nothing else.

import "github.com/funet/funet/uspace/arctic"

// handshake is what a card and a peer have said to each other.
type handshake struct {
	nonce uint64 // the last that this card has drawn; 0: none
	// theirNonce and theirIncarnation are what the peer's last greeting said, not proven by anything.
	theirNonce       uint64
	theirIncarnation uint32
	// incarnation is the peer's of the epoch; 0: there has been none.
	incarnation uint32
	epoch       uint64 // 0: there is none
	spent       bool   // nonce has begun an epoch
}

// heard is what a greeting comes to.
type heard uint8

const (
	// unproven: it echoes no nonce that proves anything.
	unproven heard = iota
	// confirmed: the peer is there, and both hold the same epoch or will when it has the answer.
	confirmed
	// begun: an epoch has begun, and all that was known of sequence numbers is void.
	begun
)

// attempt begins to greet the peer: whatever it proves from now on it proves for a nonce that is new, of which the last
// greeting of the peer knows nothing.
func (h *handshake) attempt(random func() uint64) {
	h.draw(random)
	h.theirNonce = 0
}

func (h *handshake) draw(random func() uint64) {
	h.nonce, h.spent = 0, false
	for h.nonce == 0 {
		h.nonce = random()
	}
}

// forget gives the epoch up: what the peer says of it is impossible. The next handshake begins another.
func (h *handshake) forget() { h.epoch = 0 }

// say fills in what a greeting says of the handshake.
func (h *handshake) say(g *arctic.Greeting, random func() uint64) {
	if h.nonce == 0 {
		h.draw(random)
	}
	g.Nonce, g.Echo, g.Epoch = h.nonce, h.theirNonce, h.epoch
}

// take takes a greeting of a card's life, and says what it comes to and whether it is to be answered. self is this card with
// its incarnation, from the other with what the greeting says.
func (h *handshake) take(self, from Party, g *arctic.Greeting, random func() uint64) (what heard, answer bool) {
	h.theirNonce, h.theirIncarnation = from.Nonce, from.Incarnation
	if h.nonce != 0 && g.Echo == h.nonce {
		self.Nonce = h.nonce
		epoch := Epoch(self, from)
		switch {
		case h.epoch != 0 && g.Epoch == h.epoch && from.Incarnation == h.incarnation, epoch == h.epoch:
			what = confirmed
		case !h.spent:
			h.epoch, h.incarnation, h.spent = epoch, from.Incarnation, true
			what = begun
		}
	}
	if what == unproven && h.spent {
		h.draw(random) // for the answer: what is spent proves nothing more
	}
	return what, what == unproven || g.Epoch != h.epoch || g.Flags&arctic.Asks != 0
}
