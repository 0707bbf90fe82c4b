package link

// This file shows the frames that a card sends and receives to its owner, with their fates. While
// nothing observes, that costs one comparison a frame.

import "github.com/funet/funet/uspace/arctic"

// Outcome says how a frame ended.
type Outcome uint8

// The outcomes. They are part of captures (package ctl/capture): new ones are added at the end.
const (
	Sent Outcome = iota // it was given to the port
	// Accepted: it was received, and no packet of it was rejected.
	Accepted
	Rejected     // it was received, and packets of it were rejected with a reason
	Duplicate    // it had been answered already
	OutOfWindow  // its sender cannot have that many frames unanswered
	Stale        // it is of another life of one of the cards, or they have not greeted yet
	ForeignGroup // its group is not here, and it is not of a peer that has greeted
	Stranger     // its card is not a peer, or has another address, or its tag is another job's
	Misrouted    // it is for another card
	// The rest are frames that arctic.Parse refuses.
	NotFUNet
	CutShort
	OtherVersion
	BadLength
	BadChecksum
	BadReserved
	BadTrain
	// Forged: it is not sealed with the peer's key, or not at all, or sealed where there is no key.
	Forged
	Replayed // it is authentic, but was received before
	// WrongKey: it is a greeting with another key than this card's, or without one, or with one
	// where this card has none.
	WrongKey
	OtherPort // it came in at another port than the one that leads to its card
	Deferred  // it is a switch's answer to a frame, which is to be sent again later

	Outcomes // the number of outcomes
)

var outcomes = [Outcomes]string{"sent", "accepted", "rejected", "duplicate", "out of window", "of another incarnation",
	"foreign group", "unknown card",
	"for another card", "not FUNet", "shorter than its header", "another version", "length does not fit",
	"checksum does not match", "reserved bits set", "malformed train",
	"not authentic", "replayed", "greeting with another key", "at another port than its card's",
	"deferral of a frame"}

// String returns the outcome in words.
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
