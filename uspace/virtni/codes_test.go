package virtni_test

// This file has the rules of codes.go.

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/rma"
	"github.com/funet/funet/uspace/virtni"
)

// Rule: error codes have the numbers of Froening's thesis, section 4.2.6, table 4.2.
func TestErrorCodeNumbers(t *testing.T) {
	for i, c := range []virtni.Code{virtni.CodeNone, virtni.CodeCommand, virtni.CodeOrigin, virtni.CodeRoute,
		virtni.CodeOriginWindow, virtni.CodeOriginBounds, virtni.CodeOriginOffset, virtni.CodeOriginLength,
		virtni.CodeTarget, virtni.CodeTargetWindow, virtni.CodeCapability, virtni.CodeTargetBounds,
		virtni.CodeTargetOffset, virtni.CodeTargetLength, virtni.CodeBroken, virtni.CodePostedPhysical,
		virtni.CodePostedDescriptor, virtni.CodeTruncated} {
		if int(c) != i {
			t.Errorf("%v has number %d, not %d", c, c, i)
		}
	}
	if virtni.Codes != 18 {
		t.Errorf("there are %d codes, and the table has 18", virtni.Codes)
	}
}

// Rule: command codes have the bits of table 4.1: A in bit 3, the words in the lowest bits, and a
// response in bit 2.
func TestCommandCodes(t *testing.T) {
	for _, c := range []struct {
		command  virtni.Command
		bits     string
		response string
	}{
		{virtni.CommandFastSend, "00010000", ""}, {virtni.CommandFastSend | 1<<3 | 5, "00011101", ""},
		{virtni.CommandFastPut | 3, "00100011", ""}, {virtni.CommandFastGet | 2, "00110010", "00110110"},
		{virtni.CommandMisalignedPut, "01000000", ""}, {virtni.CommandFetchAndAdd, "01100010", "01100110"},
		{virtni.CommandCompareSwap, "01110011", "01110111"}, {virtni.CommandSend, "10010000", ""},
		{virtni.CommandPut, "10100000", ""}, {virtni.CommandGet, "10110000", "10110100"},
		{virtni.CommandInvalid, "00000000", ""}, {virtni.NotifyCompletion, "11110000", ""},
		{virtni.NotifyRemoteAccess, "11110001", ""}, {virtni.NotifyFastReceive, "11110010", ""},
		{virtni.NotifyReceive, "11110011", ""}, {virtni.CommandAcknowledge, "11111111", ""},
	} {
		if got := fmt.Sprintf("%08b", uint8(c.command)); got != c.bits {
			t.Errorf("%v is %s, and the table has %s", c.command, got, c.bits)
		}
		if r := c.command.Response(); c.response == "" && r != virtni.CommandInvalid ||
			c.response != "" && fmt.Sprintf("%08b", uint8(r)) != c.response {
			t.Errorf("the response of %v is %08b, want %s", c.command, uint8(r), c.response)
		}
	}
	c := virtni.CommandFastSend | 1<<3 | 5
	if c.Words() != 5 || !c.Acknowledged() || c.Base() != virtni.CommandFastSend {
		t.Errorf("%08b: %d words, ack %v, %v", uint8(c), c.Words(), c.Acknowledged(), c.Base())
	}
	if virtni.CommandGet.Acknowledged() || (virtni.CommandFetchAndAdd | 1<<3).Acknowledged() {
		t.Error("a get or an atomic operation says that it has an acknowledgment of its own")
	}
}

// Rule: every reason of a card has an error code, and only success has code 0 (design of virtni:
// form 1, route 3, origin's window 4, no context 8, window 9, key 10, range, rights and lock 11,
// alignment 12 and 13, a lost peer and a wrong source 14).
func TestEveryReasonHasACode(t *testing.T) {
	want := map[virtni.Code][]arctic.Reason{
		virtni.CodeNone: {arctic.ReasonNone},
		virtni.CodeCommand: {arctic.ReasonUnknownKind, arctic.ReasonTransferForm, arctic.ReasonRemoteForm,
			arctic.ReasonRemoteRequest, arctic.ReasonOperand, arctic.ReasonRequest, arctic.ReasonPath},
		virtni.CodeOrigin:       {arctic.ReasonGivenUp, arctic.ReasonQueueSize, arctic.ReasonQueueLayout},
		virtni.CodeRoute:        {arctic.ReasonNoRoute, arctic.ReasonChain, arctic.ReasonHops},
		virtni.CodeOriginWindow: {arctic.ReasonWindow, arctic.ReasonNotOpened},
		virtni.CodeOriginBounds: {arctic.ReasonSource},
		virtni.CodeOriginLength: {arctic.ReasonTransferLength},
		virtni.CodeTarget: {arctic.ReasonNoContext, arctic.ReasonJob, arctic.ReasonSwitching, arctic.ReasonMoved,
			arctic.ReasonReplaced, arctic.ReasonNoPath},
		virtni.CodeTargetWindow: {arctic.ReasonWithheld, arctic.ReasonAbsent, arctic.ReasonArea},
		virtni.CodeCapability:   {arctic.ReasonKeySlot},
		virtni.CodeTargetBounds: {arctic.ReasonRange, arctic.ReasonRights, arctic.ReasonLocked,
			arctic.ReasonDestination},
		virtni.CodeTargetOffset: {arctic.ReasonAlignment},
		virtni.CodeTargetLength: {arctic.ReasonOperation, arctic.ReasonPosted},
		virtni.CodeBroken: {arctic.ReasonSilent, arctic.ReasonRestarted, arctic.ReasonDeparted,
			arctic.ReasonSourceNode, arctic.ReasonResynchronised, arctic.ReasonKey, arctic.ReasonQueueFull,
			arctic.ReasonTooLong, arctic.ReasonBusy, arctic.ReasonNoBuffer, arctic.ReasonBroken},
		virtni.CodeTruncated: {arctic.ReasonTruncated},
	}
	named := map[arctic.Reason]virtni.Code{}
	for code, reasons := range want {
		for _, r := range reasons {
			named[r] = code
		}
	}
	for i := range 256 {
		r := arctic.Reason(i)
		code, listed := named[r]
		if known := !strings.HasPrefix(r.String(), "reason "); known != listed {
			t.Errorf("reason %d, %v: it is in this test's list: %v", i, r, listed)
			continue
		}
		if !listed {
			code = virtni.CodeCommand
		}
		if got := virtni.CodeOf(r); got != code {
			t.Errorf("reason %d, %v: code %d, want %d", i, r, got, code)
		}
	}
}

// Rule: errors.Is finds the code in an Error, and what package rma says; errors.As finds the Error.
func TestErrorIs(t *testing.T) {
	cause := &rma.Error{Operation: arctic.RemotePut, Node: 3, Reason: arctic.ReasonLocked}
	err := fmt.Errorf("putting: %w", &virtni.Error{Code: virtni.CodeTargetBounds,
		Command: virtni.CommandPut, Target: 3, Reason: arctic.ReasonLocked, Cause: cause})
	var e *virtni.Error
	if !errors.Is(err, virtni.CodeTargetBounds) || errors.Is(err, virtni.CodeBroken) || !errors.Is(err, rma.ErrLocked) ||
		!errors.As(err, &e) || e.Target != 3 {
		t.Errorf("%v: %v", err, e)
	}
	if !strings.Contains(err.Error(), "error 11") {
		t.Errorf("%q does not name the code", err)
	}
}
