package link

// This file is the answer to a frame: which of its packets are rejected, and why.

import "github.com/funet/funet/uspace/arctic"

// Verdict holds the rejects of a frame: bit i stands for packet i of its train. A frame without a
// bit set is accepted.
type Verdict struct {
	Retry, Fail uint64 // packets rejected for a transient, for a permanent reason
	RetryReason arctic.Reason
	FailReason  arctic.Reason

	asked    bool // to be sent
	sequence uint32
}

// Note adds the verdict on packet i. A frame has room for one transient and one
// permanent reason; a packet with a second permanent reason is sent back as
// transient and gets its own verdict when it comes again.
func (v *Verdict) Note(i int, reason arctic.Reason) {
	bit := uint64(1) << i
	switch {
	case reason == arctic.ReasonNone:
	case reason.Permanent() && (v.Fail == 0 || v.FailReason == reason):
		v.Fail |= bit
		v.FailReason = reason
	default:
		v.Retry |= bit
		if reason.Permanent() {
			reason = arctic.ReasonQueueFull
		}
		if v.RetryReason == arctic.ReasonNone {
			v.RetryReason = reason
		}
	}
}

// first returns a reason of a verdict that rejects something: the permanent one, if there is one.
func (v *Verdict) first() arctic.Reason {
	if v.Fail != 0 {
		return v.FailReason
	}
	return v.RetryReason
}

func (v *Verdict) take(w arctic.Reject) {
	if w.Reason.Permanent() {
		v.Fail |= w.Bits
		v.FailReason = w.Reason
	} else {
		v.Retry |= w.Bits
		v.RetryReason = w.Reason
	}
}

// Rejections counts packets by the reason for which they were rejected. Reasons that this version
// does not know, which a peer may send, share one count.
type Rejections [len(reasons) + 1]uint64

// reasons are the reasons that travel (arctic.Reason).
var reasons = [...]arctic.Reason{arctic.ReasonQueueFull, arctic.ReasonSwitching, arctic.ReasonTooLong,
	arctic.ReasonUnknownKind, arctic.ReasonNoContext, arctic.ReasonDestination,
	arctic.ReasonTransferForm, arctic.ReasonSourceNode, arctic.ReasonReplaced, arctic.ReasonJob,
	arctic.ReasonKeySlot, arctic.ReasonRange, arctic.ReasonArea, arctic.ReasonNoBuffer, arctic.ReasonRemoteForm,
	arctic.ReasonBusy, arctic.ReasonAbsent, arctic.ReasonMoved, arctic.ReasonRights, arctic.ReasonLocked,
	arctic.ReasonAlignment, arctic.ReasonOperation,
	arctic.ReasonPosted, arctic.ReasonPath, arctic.ReasonRequest, arctic.ReasonChain, arctic.ReasonHops,
	arctic.ReasonWithheld, arctic.ReasonNoPath, arctic.ReasonTruncated, arctic.ReasonBroken}

// Each calls see for each reason, and with arctic.ReasonNone for the unknown ones together.
func (r *Rejections) Each(see func(arctic.Reason, uint64)) {
	for i, reason := range reasons {
		see(reason, r[i])
	}
	see(arctic.ReasonNone, r[len(reasons)])
}

// Add counts a packet rejected for the reason.
func (r *Rejections) Add(why arctic.Reason) {
	for i, reason := range reasons {
		if reason == why {
			r[i]++
			return
		}
	}
	r[len(reasons)]++
}
