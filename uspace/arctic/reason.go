package arctic

// This file is the reasons a card gives when it rejects a packet.

import "strconv"

// Reason says why a packet came back. Reasons below ReasonPermanent are
// transient: the sender's card tries again after a back-off and its process sees
// nothing. The others end in an error at the sending process.
type Reason uint8

const (
	// ReasonNone is no reason: the packet was accepted.
	ReasonNone Reason = 0
	// ReasonQueueFull: receive queue and receive FIFO of the context are full (thesis 5.6.2).
	ReasonQueueFull Reason = 1
	// ReasonSwitching: the context is switched out or not started, and will be back
	// (thesis 3.1.2, CTXM; 3.3.2).
	ReasonSwitching Reason = 2

	// ReasonTooLong: the frame of that number has not arrived, and will not be taken any more: its
	// sender says that it was too long for the way (PutVoid).
	ReasonTooLong Reason = 3

	// ReasonBusy: the receiving card has no line for the answer of an operation, or the word
	// changed under each of its tries. Nothing was executed.
	ReasonBusy Reason = 4
	// ReasonAbsent: the window is not present: its owner has suspended it, or opened it so, and may
	// bring it back.
	ReasonAbsent Reason = 5
	// ReasonMoved: the process is on another card now. The sender's card looks its route up anew.
	ReasonMoved Reason = 6

	// ReasonPermanent is the first reason that trying again does not mend.
	ReasonPermanent Reason = 64
	// ReasonUnknownKind: the receiving card does not know the kind of packet.
	ReasonUnknownKind Reason = 64
	// ReasonNoContext: no process of that group and node is attached to the card.
	ReasonNoContext Reason = 65
	// ReasonDestination: a transfer's destination does not lie in a segment that
	// the receiving process lets others write (thesis 3.2.4).
	ReasonDestination Reason = 66
	// ReasonTransferForm: the packet is no transfer that a card sends.
	ReasonTransferForm Reason = 67
	// ReasonSourceNode: the receiving card's route table does not put the sending node on
	// the card that sent the packet, so it could be anybody's (thesis 3.3.1, 4.1.1).
	ReasonSourceNode Reason = 68
	// ReasonReplaced: a transfer of many packets began before the process that is the
	// node now was attached, or before the node was on that card, so that some of the data
	// may have come to another.
	ReasonReplaced Reason = 69

	// ReasonJob: the node belongs to another job, which has the same GID; see Header.Tag.
	ReasonJob Reason = 70
	// ReasonKeySlot: the receiver has not opened that key slot, or with another key. Which of the
	// two is not told.
	ReasonKeySlot Reason = 71
	// ReasonRange: a remote write does not lie within the key slot's memory.
	ReasonRange Reason = 72
	// ReasonArea: the receiver has not opened that area, or for another key slot.
	ReasonArea Reason = 73
	// ReasonNoBuffer: the area has as many notifications that the receiver has not read as it may
	// have, and was opened to refuse more.
	ReasonNoBuffer Reason = 74
	// ReasonRemoteForm: the packet is no remote write that a card sends.
	ReasonRemoteForm Reason = 75

	// ReasonRights: the window does not let others do that.
	ReasonRights Reason = 76
	// ReasonLocked: another process has locked the window, or the one that unlocks it has not.
	ReasonLocked Reason = 77
	// ReasonAlignment: an element does not lie on a multiple of its size.
	ReasonAlignment Reason = 78
	// ReasonOperation: there is no such operation on elements of that type.
	ReasonOperation Reason = 79
	// ReasonPosted: an answer is longer than what was asked for.
	ReasonPosted Reason = 80
	// ReasonPath: an answer comes from a node that was not asked.
	ReasonPath Reason = 81
	// ReasonRequest: an answer is to no request that is open.
	ReasonRequest Reason = 82
	// ReasonChain: a member's chain is not installed, or a message passed more members than a chain
	// can have.
	ReasonChain Reason = 83
	// ReasonHops: a write has been forwarded as often as it may.
	ReasonHops Reason = 84
	// ReasonWithheld: the window has been absent (ReasonAbsent) for longer than the receiving card
	// lets others wait for it.
	ReasonWithheld Reason = 85

	// ReasonLocal is the first reason that is found at the sender and never travels.
	ReasonLocal Reason = 128
	// ReasonSilent: the peer has not answered within the configured time.
	ReasonSilent Reason = 128
	// ReasonRestarted: the peer's card was restarted; whether it had accepted
	// the packet before is not known.
	ReasonRestarted Reason = 129
	// ReasonDeparted: the peer's card said that it leaves the network.
	ReasonDeparted Reason = 130
	// ReasonNoRoute: the route table has no entry for the destination node.
	ReasonNoRoute Reason = 131
	// ReasonSource: a transfer's source does not lie in a segment that the process
	// registered for reading.
	ReasonSource Reason = 132
	// ReasonTransferLength: a transfer's length is not a multiple of four words, or
	// too long for its mode.
	ReasonTransferLength Reason = 133
	// ReasonQueueSize and ReasonQueueLayout say why MERR is set: Q_MASK is not one less
	// than a power of two from 2 to 64K, or a queue does not lie in the context's
	// memory (thesis 3.1.2).
	ReasonQueueSize   Reason = 134
	ReasonQueueLayout Reason = 135
	// ReasonGivenUp: the owner of the card reset TICKET with the packet undelivered
	// (thesis 3.1.2); if it was one of a long transfer, some of it may have arrived.
	ReasonGivenUp Reason = 136
	// ReasonResynchronised: the two cards have begun to count anew, because each held the other to
	// be wrong; whether the peer had accepted the packet before is not known.
	ReasonResynchronised Reason = 137
	// ReasonKey: the peer's card has another key than this one, or only one of them has one.
	ReasonKey Reason = 138
	// ReasonRemoteRequest: a request block for remote memory is none, or this card does not take
	// them.
	ReasonRemoteRequest Reason = 139
	// ReasonNotOpened: a request block cannot open its key slot or area, or closes or resets one
	// that is not open. It cannot open one that is open already, or does not lie in the card's
	// tables or in a segment with the right Keyed. Nor can it open one with more credit than the
	// notification ring has left.
	ReasonNotOpened Reason = 140
	// ReasonWindow: where the answer of a request is to go is not in a segment with the right
	// Destination or Keyed.
	ReasonWindow Reason = 141
	// ReasonOperand: an operation has more operands than a packet, or other than it takes.
	ReasonOperand Reason = 142
)

// Doubtful reports whether the receiver may have a packet that came back for that reason: it was on
// its way when the two cards lost each other.
func (r Reason) Doubtful() bool {
	switch r {
	case ReasonSilent, ReasonRestarted, ReasonDeparted, ReasonResynchronised, ReasonKey:
		return true
	}
	return false
}

// Permanent reports whether trying again cannot mend it.
func (r Reason) Permanent() bool { return r >= ReasonPermanent }

// String returns what happened, in words.
func (r Reason) String() string {
	switch r {
	case ReasonNone:
		return "accepted"
	case ReasonQueueFull:
		return "receive queue full"
	case ReasonSwitching:
		return "context is switched out"
	case ReasonTooLong:
		return "frame was too long for the way"
	case ReasonQueueSize:
		return "queue size is not a power of two from 2 to 65536 slots"
	case ReasonQueueLayout:
		return "queue is not within the memory of the context"
	case ReasonGivenUp:
		return "given up by the owner of the card"
	case ReasonUnknownKind:
		return "unknown kind of packet"
	case ReasonNoContext:
		return "no such node on the receiving card"
	case ReasonDestination:
		return "destination is not in a segment that the receiver lets others write"
	case ReasonTransferForm:
		return "malformed transfer packet"
	case ReasonSourceNode:
		return "receiver's route table does not put the sending node on the sending card"
	case ReasonReplaced:
		return "another process has become the node since the transfer began"
	case ReasonJob:
		return "another job has this GID there"
	case ReasonKeySlot:
		return "no such key slot there, or another key"
	case ReasonRange:
		return "not within the memory of the key slot"
	case ReasonArea:
		return "no such area of the key slot there"
	case ReasonNoBuffer:
		return "receiver has no buffer for it"
	case ReasonBusy:
		return "receiver's card is busy"
	case ReasonAbsent:
		return "window is suspended"
	case ReasonMoved:
		return "process is on another card"
	case ReasonRights:
		return "window does not permit it"
	case ReasonLocked:
		return "window is locked by another, or not by this process"
	case ReasonAlignment:
		return "element is not aligned"
	case ReasonOperation:
		return "no such operation on this type"
	case ReasonPosted:
		return "answer is longer than what was asked for"
	case ReasonPath:
		return "answer from another node than was asked"
	case ReasonRequest:
		return "answer to no open request"
	case ReasonChain:
		return "chain is not installed, or too long"
	case ReasonHops:
		return "forwarded too often"
	case ReasonWithheld:
		return "window has been suspended for too long"
	case ReasonWindow:
		return "memory for the answer is not in a segment that it may be written to"
	case ReasonOperand:
		return "operands do not fit the operation"
	case ReasonRemoteForm:
		return "malformed remote write"
	case ReasonRemoteRequest:
		return "malformed request block for remote memory"
	case ReasonNotOpened:
		return "key slot or area cannot be opened, closed or reset so"
	case ReasonSource:
		return "source is not in a segment that the process may read"
	case ReasonTransferLength:
		return "length of a transfer is not a multiple of 4 words or too long"
	case ReasonSilent:
		return "peer silent"
	case ReasonRestarted:
		return "peer's card restarted"
	case ReasonResynchronised:
		return "cards have begun to count anew"
	case ReasonKey:
		return "peer has another key, or only one of the two has one"
	case ReasonDeparted:
		return "peer has left"
	case ReasonNoRoute:
		return "no route to node"
	}
	return "reason " + strconv.Itoa(int(r))
}
