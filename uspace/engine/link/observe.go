package link

// This file shows the frames that a card sends and receives to its owner, with what became of
// each. Nobody who looks costs a comparison a frame.

import "github.com/funet/funet/uspace/arctic"

// Outcome says how a frame ended.
type Outcome uint8

// The outcomes. They are part of captures (package ctl/capture): new ones are added at the end.
const (
	// Sent: it was given to the port.
	Sent Outcome = iota
	// Accepted: it was received, and nothing of it was refused.
	Accepted
	// Rejected: it was received, and packets of it were rejected with a reason.
	Rejected
	// Duplicate: it had been answered already.
	Duplicate
	// OutOfWindow: its sender cannot have that many frames unanswered.
	OutOfWindow
	// Stale: it is of another life of one of the cards, or they have not greeted yet.
	Stale
	// ForeignGroup: its group is not here, and it is not of a peer that has greeted.
	ForeignGroup
	// Stranger: its card is none of the peers, or has another address.
	Stranger
	// Misrouted: it is for another card.
	Misrouted
	// The rest are frames that arctic.Parse refuses.
	NotFUNet
	CutShort
	OtherVersion
	BadLength
	BadChecksum
	BadReserved
	BadTrain
	// Forged: it is not sealed with the peer's key, or not at all, or sealed and there is no key.
	Forged
	// Replayed: it is authentic, and has come before.
	Replayed
	// WrongKey: a greeting with another key than this card's, without one, or with one and this
	// card has none.
	WrongKey
	// OtherPort: its card is a peer that another port leads to.
	OtherPort

	// Outcomes is how many there are.
	Outcomes
)

var outcomes = [Outcomes]string{"sent", "accepted", "rejected", "duplicate", "out of window", "of another incarnation",
	"foreign group", "unknown card",
	"for another card", "not FUNet", "shorter than its header", "another version", "length does not fit",
	"checksum does not match", "reserved bits set", "malformed train",
	"not authentic", "replayed", "greeting with another key", "at another port than its card's"}

// String says it in words.
func (o Outcome) String() string {
	if o < Outcomes {
		return outcomes[o]
	}
	return "unknown"
}

// Fate is an outcome and, if packets of the frame were rejected, the reason for the first.
type Fate struct {
	Outcome Outcome
	Reason  arctic.Reason
}

// Observe has see called for each frame that the card sends, before the port gets the frame. It
// also has see called for each frame that the card has received, when the frame's fate is known.
// see gets the number of the port and the bytes, which are valid until see returns and must not be
// changed. A received frame during which a process's memory failed (Abandon) is not shown. nil ends
// the calls. see is called by the caller of Step, and must be quick.
func (e *End) Observe(see func(port int, frame []byte, fate Fate)) { e.see = see }

// Observed shows a frame that has arrived, once it is known what becomes of it.
func (e *End) Observed(port int, frame []byte) {
	if e.see != nil {
		e.see(port, frame, e.fate)
	}
}
