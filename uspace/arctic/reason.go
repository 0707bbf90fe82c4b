package arctic

// This file has the reasons for which a packet is rejected or a request refused.

import "strconv"

// Reason says why a packet came back. Reasons below ReasonPermanent are
// transient: the sender's card tries again after a back-off and its process sees
// nothing. The others end in an error at the sending process.
type Reason uint8

const (
	ReasonNone Reason = 0 // no reason: the packet was accepted
	// ReasonQueueFull says that the context's receive queue and FIFO are full (thesis 5.6.2).
	ReasonQueueFull Reason = 1
	// ReasonSwitching says that the context is switched out or not started, and will be back
	// (thesis 3.1.2, CTXM; 3.3.2).
	ReasonSwitching Reason = 2

	// ReasonTooLong says that the frame of that number has not arrived and is no longer accepted:
	// its sender says that it was too long for the path (PutVoid).
	ReasonTooLong Reason = 3

	// ReasonBusy says that the receiving card has no line for the answer of an operation, or that
	// the word changed under each of its tries. Nothing was executed.
	ReasonBusy Reason = 4
	// ReasonAbsent says that the window is not present: its owner has suspended it, or opened it
	// suspended, and may resume it.
	ReasonAbsent Reason = 5
	// ReasonMoved says that the process is on another card now. The sender's card looks its route
	// up anew.
	ReasonMoved Reason = 6

	ReasonPermanent   Reason = 64 // the first reason for which trying again does not help
	ReasonUnknownKind Reason = 64 // says that the receiving card does not know the kind of packet
	// ReasonNoContext says that no process of that group and node is attached to the card.
	ReasonNoContext Reason = 65
	// ReasonDestination says that a transfer's destination does not lie in a segment that the
	// receiving process lets others write (thesis 3.2.4).
	ReasonDestination  Reason = 66
	ReasonTransferForm Reason = 67 // says that no card sends a transfer of that form
	// ReasonSourceNode says that the receiving card's route table does not put the sending node on
	// the card that sent the packet, so anybody could have sent it (thesis 3.3.1, 4.1.1).
	ReasonSourceNode Reason = 68
	// ReasonReplaced says that a transfer of many packets began before the node's present process
	// was attached, or before the node was on that card. Some of the data may have come to another
	// process.
	ReasonReplaced Reason = 69

	// ReasonJob says that the node belongs to another job with the same GID; see Header.Tag.
	ReasonJob Reason = 70
	// ReasonKeySlot says that the receiver has not opened that key slot, or has opened it with
	// another key. It does not tell which.
	ReasonKeySlot Reason = 71
	ReasonRange   Reason = 72 // says that a remote write does not lie within the key slot's memory
	// ReasonArea says that the receiver has not opened that area, or for another key slot.
	ReasonArea Reason = 73
	// ReasonNoBuffer says that the area has as many unread notifications as it may have, and was
	// opened to refuse more. Of a message (KindSend) it says that the process receives none, or
	// none of that length. A process also gets it from its own card, for an operation, a message or
	// a multicast that the notification ring or funi.MaxRequests has no room for.
	ReasonNoBuffer   Reason = 74
	ReasonRemoteForm Reason = 75 // says that no card sends a remote write of that form

	ReasonRights Reason = 76 // says that the window's rights do not permit the operation
	// ReasonLocked says that another process has locked the window, or that the process which
	// unlocks it has not locked it.
	ReasonLocked    Reason = 77
	ReasonAlignment Reason = 78 // says that an element does not lie on a multiple of its size
	ReasonOperation Reason = 79 // says that there is no such operation on elements of that type
	ReasonPosted    Reason = 80 // says that an answer is longer than what was asked for
	ReasonPath      Reason = 81 // says that an answer comes from a node that was not asked
	ReasonRequest   Reason = 82 // says that an answer names a request that is not open
	// ReasonChain says that a member's chain is not installed, or that a message passed more
	// members than a chain can have.
	ReasonChain Reason = 83
	ReasonHops  Reason = 84 // says that a write has been forwarded as often as it may
	// ReasonWithheld says that the window has been absent (ReasonAbsent) for longer than the
	// receiving card lets others wait for it.
	ReasonWithheld Reason = 85
	// ReasonNoPath says that the receiver has no end of that path, or that the end belongs to
	// another sender.
	ReasonNoPath Reason = 86

	// ReasonTruncated says that a message was longer than the buffer that its receiver had posted.
	// The receiver has as much of it as fits. It is a receiver's reason for a packet that it has
	// taken, once, unlike all others.
	ReasonTruncated Reason = 87
	// ReasonBroken says that the receiver no longer has the room that it had reserved for a message
	// of many packets: the sender's card was silent for too long, or the receiver has closed its
	// receive ring, withdrawn the memory, or moved.
	ReasonBroken Reason = 88

	ReasonLocal  Reason = 128 // the first reason that is found at the sender and never travels
	ReasonSilent Reason = 128 // says that the peer has not answered within the configured time
	// ReasonRestarted says that the peer's card was restarted. It may have accepted the packet.
	ReasonRestarted Reason = 129
	ReasonDeparted  Reason = 130 // says that the peer's card has said that it leaves the network
	ReasonNoRoute   Reason = 131 // says that the route table has no entry for the destination node
	// ReasonSource says that a transfer's source does not lie in a segment that the process
	// registered for reading.
	ReasonSource Reason = 132
	// ReasonTransferLength says that a transfer is not of a multiple of four words, or too long.
	ReasonTransferLength Reason = 133
	// ReasonQueueSize and ReasonQueueLayout say why MERR is set: Q_MASK is not one less than a
	// power of two from 2 to 64K, or a queue does not lie in the context's memory (thesis 3.1.2).
	ReasonQueueSize   Reason = 134
	ReasonQueueLayout Reason = 135
	// ReasonGivenUp says that the owner of the card reset TICKET with the packet undelivered
	// (thesis 3.1.2). If the packet was one of a long transfer, some of it may have arrived.
	ReasonGivenUp Reason = 136
	// ReasonResynchronised says that the two cards have begun a new epoch, because each held the
	// other's sequence numbers to be wrong. The peer may have accepted the packet before.
	ReasonResynchronised Reason = 137
	// ReasonKey says that the two cards have different keys, or that only one of them has a key.
	ReasonKey Reason = 138
	// ReasonRemoteRequest says that a request block for remote memory is malformed, or that this
	// card does not take such blocks.
	ReasonRemoteRequest Reason = 139
	// ReasonNotOpened says that a request block cannot open, close, reset, suspend or resume what
	// it names, or cannot set a chain. A key slot or window cannot be opened in these cases: it is
	// open already, has no bytes, or lies outside the card's tables or outside segments with the
	// right Keyed; or a window's rights or addresses are invalid. An area cannot be opened if it is
	// open already, has no credit, or its key slot is not open. Neither can be opened while
	// notifications of its number are unread, or with more credit than the notification ring has
	// left. Closing, resetting, suspending and resuming need something that is open. A chain needs
	// valid members (funi.Slot.SetChain). A context without remote memory can do none of this.
	ReasonNotOpened Reason = 140
	// ReasonWindow says that the memory for the answer of a request is not in a segment with the
	// right Destination or Keyed.
	ReasonWindow Reason = 141
	// ReasonOperand says that an operation has more operands than a packet holds, or wrong ones.
	ReasonOperand Reason = 142
)

// Doubtful reports whether the receiver may have a packet that came back for that reason: the
// packet was on its way when the two cards lost each other.
func (r Reason) Doubtful() bool {
	switch r {
	case ReasonSilent, ReasonRestarted, ReasonDeparted, ReasonResynchronised, ReasonKey:
		return true
	}
	return false
}

// Permanent reports whether trying again is of no use.
func (r Reason) Permanent() bool { return r >= ReasonPermanent }

// reasons say what happened, in words.
var reasons = map[Reason]string{
	ReasonNone:           "accepted",
	ReasonQueueFull:      "receive queue full",
	ReasonSwitching:      "context is switched out",
	ReasonTooLong:        "frame was too long for the way",
	ReasonQueueSize:      "queue size is not a power of two from 2 to 65536 slots",
	ReasonQueueLayout:    "queue is not within the memory of the context",
	ReasonGivenUp:        "given up by the owner of the card",
	ReasonUnknownKind:    "unknown kind of packet",
	ReasonNoContext:      "no such node on the receiving card",
	ReasonDestination:    "destination is not in a segment that the receiver lets others write",
	ReasonTransferForm:   "malformed transfer packet",
	ReasonSourceNode:     "receiver's route table does not put the sending node on the sending card",
	ReasonReplaced:       "another process has become the node since the transfer began",
	ReasonJob:            "another job has this GID there",
	ReasonKeySlot:        "no such key slot there, or another key",
	ReasonRange:          "not within the memory of the key slot",
	ReasonArea:           "no such area of the key slot there",
	ReasonNoBuffer:       "receiver has no buffer for it",
	ReasonBusy:           "receiver's card is busy",
	ReasonAbsent:         "window is suspended",
	ReasonMoved:          "process is on another card",
	ReasonRights:         "window does not permit it",
	ReasonLocked:         "window is locked by another, or not by this process",
	ReasonAlignment:      "element is not aligned",
	ReasonOperation:      "no such operation on this type",
	ReasonPosted:         "answer is longer than what was asked for",
	ReasonPath:           "answer from another node than was asked",
	ReasonRequest:        "answer to no open request",
	ReasonChain:          "chain is not installed, or too long",
	ReasonHops:           "forwarded too often",
	ReasonWithheld:       "window has been suspended for too long",
	ReasonNoPath:         "no such path there",
	ReasonTruncated:      "longer than the buffer posted for it, and cut",
	ReasonBroken:         "receiver has given up the room for the message",
	ReasonWindow:         "memory for the answer is not in a segment that it may be written to",
	ReasonOperand:        "operands do not fit the operation",
	ReasonRemoteForm:     "malformed remote write",
	ReasonRemoteRequest:  "malformed request block for remote memory",
	ReasonNotOpened:      "key slot or area cannot be opened, closed or reset so",
	ReasonSource:         "source is not in a segment that the process may read",
	ReasonTransferLength: "length of a transfer is not a multiple of 4 words or too long",
	ReasonSilent:         "peer silent",
	ReasonRestarted:      "peer's card restarted",
	ReasonResynchronised: "cards have begun to count anew",
	ReasonKey:            "peer has another key, or only one of the two has one",
	ReasonDeparted:       "peer has left",
	ReasonNoRoute:        "no route to node",
}

// String returns what happened, in words.
func (r Reason) String() string {
	if s, ok := reasons[r]; ok {
		return s
	}
	return "reason " + strconv.Itoa(int(r))
}
