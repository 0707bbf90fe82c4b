package link

// This file holds the rule of what a verdict has room for.

import (
	"testing"

	"github.com/funet/funet/uspace/arctic"
)

// Rule: a frame has room for one transient and one permanent reason; a packet with a second
// permanent reason is sent back as transient and gets its own verdict when it comes again (Note).
func TestVerdictWithTwoPermanentReasons(t *testing.T) {
	var r Verdict
	for i, reason := range []arctic.Reason{arctic.ReasonUnknownKind, arctic.ReasonNone, arctic.ReasonNoContext,
		arctic.ReasonUnknownKind, arctic.ReasonQueueFull} {
		r.Note(i, reason)
	}
	if r.Fail != 0b01001 || r.FailReason != arctic.ReasonUnknownKind || r.Retry != 0b10100 ||
		r.RetryReason != arctic.ReasonQueueFull {
		t.Errorf("fail %#b %v, retry %#b %v", r.Fail, r.FailReason, r.Retry, r.RetryReason)
	}
}
