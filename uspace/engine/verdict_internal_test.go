package engine

// This file holds the rule of what a verdict has room for.

import (
	"testing"

	"github.com/funet/funet/uspace/arctic"
)

// Rule: a frame has room for one transient and one permanent reason; a packet with
// a second permanent reason is sent back as transient and gets its own verdict
// when it comes again (note).
func TestVerdictWithTwoPermanentReasons(t *testing.T) {
	var r rejected
	for i, reason := range []arctic.Reason{arctic.ReasonUnknownKind, arctic.ReasonNone, arctic.ReasonNoContext, arctic.ReasonUnknownKind, arctic.ReasonQueueFull} {
		r.note(i, reason)
	}
	if r.fail != 0b01001 || r.failReason != arctic.ReasonUnknownKind || r.retry != 0b10100 || r.retryReason != arctic.ReasonQueueFull {
		t.Errorf("fail %#b %v, retry %#b %v", r.fail, r.failReason, r.retry, r.retryReason)
	}
}
