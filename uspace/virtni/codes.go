package virtni

// This file has the numbers of Froening's thesis: command codes (section 4.2.2, table 4.1) and
// error codes (section 4.2.6, table 4.2), and which error code stands for which reason of a card.

import (
	"fmt"

	"github.com/funet/funet/uspace/arctic"
)

// Command is a command code, 8 bits (table 4.1). Bit 3 asks for an acknowledgment in commands that
// have one, bit 2 makes a response of a command that has one, and the lowest bits of a fast command
// are the number of its words of 64 bits.
type Command uint8

// The commands of instructions, and those of notifications. The thesis has no codes for a posted
// receive and a barrier; theirs are the next ones of the group.
const (
	CommandInvalid       Command = 0x00
	CommandFastSend      Command = 0x10 // and the words 2:0
	CommandFastPut       Command = 0x20 // and the words 1:0
	CommandFastGet       Command = 0x30 // and the words 1:0
	CommandMisalignedPut Command = 0x40
	CommandFetchAndAdd   Command = 0x62
	CommandCompareSwap   Command = 0x73
	CommandSend          Command = 0x90
	CommandPut           Command = 0xa0
	CommandGet           Command = 0xb0

	NotifyCompletion   Command = 0xf0
	NotifyRemoteAccess Command = 0xf1
	NotifyFastReceive  Command = 0xf2
	NotifyReceive      Command = 0xf3
	NotifyPosted       Command = 0xf4
	NotifyBarrier      Command = 0xf5
	CommandAcknowledge Command = 0xff

	commandAckWanted = 1 << 3
	commandResponse  = 1 << 2
	commandGroup     = 0xf0
)

// Base returns the command without the request for an acknowledgment and the number of words.
func (c Command) Base() Command {
	switch c & commandGroup {
	case CommandFastSend, CommandFastPut, CommandFastGet, CommandMisalignedPut, CommandSend, CommandPut,
		CommandGet:
		return c & commandGroup
	case CommandFetchAndAdd & commandGroup:
		return CommandFetchAndAdd
	case CommandCompareSwap & commandGroup:
		return CommandCompareSwap
	}
	return c
}

// Words returns the number of words of a fast command: up to 5 of a Fast Send, up to 3 of a Fast
// Put or Fast Get, and 0 of others.
func (c Command) Words() int {
	switch c.Base() {
	case CommandFastSend:
		return int(c & 7)
	case CommandFastPut, CommandFastGet:
		return int(c & 3)
	}
	return 0
}

// Acknowledged reports whether the command asks for an acknowledgment. Gets and atomic operations
// have none: their response tells as much.
func (c Command) Acknowledged() bool {
	switch c.Base() {
	case CommandFastSend, CommandFastPut, CommandMisalignedPut, CommandSend, CommandPut:
		return c&commandAckWanted != 0
	}
	return false
}

// Response returns the command of the packet that answers a get or an atomic operation, or
// CommandInvalid for a command without a response.
func (c Command) Response() Command {
	switch c.Base() {
	case CommandFastGet, CommandGet, CommandFetchAndAdd, CommandCompareSwap:
		return c | commandResponse
	}
	return CommandInvalid
}

var commandNames = map[Command]string{CommandInvalid: "invalid", CommandFastSend: "fast send",
	CommandFastPut: "fast put", CommandFastGet: "fast get", CommandMisalignedPut: "misaligned put",
	CommandFetchAndAdd: "fetch-and-add", CommandCompareSwap: "compare-and-swap", CommandSend: "send",
	CommandPut: "put", CommandGet: "get", NotifyCompletion: "completion", NotifyRemoteAccess: "remote access",
	NotifyFastReceive: "fast receive", NotifyReceive: "receive", NotifyPosted: "posted receive", NotifyBarrier: "barrier",
	CommandAcknowledge: "acknowledge"}

// String returns the command's name.
func (c Command) String() string {
	if name := commandNames[c.Base()]; name != "" {
		return name
	}
	return fmt.Sprintf("command %#02x", uint8(c))
}

// Code is an error code, 5 bits (table 4.2). It is an error that errors.Is finds in an *Error.
type Code uint8

// The error codes. T stands for the target, O for the origin, and Win-ID for a window's number.
const (
	CodeNone             Code = iota // ERR_NOERR
	CodeCommand                      // ERR_CMD_INV
	CodeOrigin                       // ERR_OVPID_INV: the origin has no context any more
	CodeRoute                        // ERR_ROUTE_INV
	CodeOriginWindow                 // ERR_OWINID_INV: the port has no such window
	CodeOriginBounds                 // ERR_OWINID: beyond the origin's window
	CodeOriginOffset                 // ERR_OOFFSET: not a multiple of 8
	CodeOriginLength                 // ERR_OLENGTH: not a multiple of 8
	CodeTarget                       // ERR_TVPID_INV
	CodeTargetWindow                 // ERR_TWINID_INV: suspended for too long
	CodeCapability                   // ERR_TWINID_CAPA: no such window, or another capability
	CodeTargetBounds                 // ERR_TWINID: beyond the window, against its rights, or locked
	CodeTargetOffset                 // ERR_TOFFSET: not a multiple of 8
	CodeTargetLength                 // ERR_TLENGTH
	CodeBroken                       // ERR_ROUTE_BROKEN: the target cannot be reached
	CodePostedPhysical               // ERR_POSTED_PA: nothing here has physical addresses
	CodePostedDescriptor             // ERR_POSTED_PA_INV
	CodeTruncated                    // ERR_POSTED_TRUNC
	Codes                            // how many there are
)

var codeTexts = [Codes]string{"no error", "invalid command", "the origin's context is gone",
	"no route to the target",
	"no such window of the origin", "beyond the window of the origin", "misaligned offset at the origin",
	"misaligned length at the origin", "no such target", "the target's window is disabled",
	"no such window of the target, or another capability",
	"not permitted by the target's window, or beyond it, or locked",
	"misaligned offset at the target", "misaligned length at the target", "the target cannot be reached",
	"no physical addresses for posted receives", "invalid descriptor of a posted receive",
	"the message was longer than the posted receive, and was cut"}

// Error returns the meaning of the code.
func (c Code) Error() string {
	if c < Codes {
		return fmt.Sprintf("virtni: error %d: %s", uint8(c), codeTexts[c])
	}
	return fmt.Sprintf("virtni: error %d, of another version", uint8(c))
}

// reasonCodes has the codes of reasons that are not CodeNone.
//
// The reasons of what the card does not try again: form, then origin, then target. The thesis has
// no code for a lock; a locked window answers as one without the right. A card does not tell
// whether a window is absent or the capability wrong, so both are CodeCapability. Reasons for which
// a card tries again end no instruction, so their codes are only for completeness.
var reasonCodes = map[arctic.Reason]Code{
	arctic.ReasonUnknownKind: CodeCommand, arctic.ReasonTransferForm: CodeCommand,
	arctic.ReasonRemoteForm: CodeCommand, arctic.ReasonRemoteRequest: CodeCommand,
	arctic.ReasonOperand: CodeCommand, arctic.ReasonRequest: CodeCommand, arctic.ReasonPath: CodeCommand,

	arctic.ReasonGivenUp: CodeOrigin, arctic.ReasonQueueSize: CodeOrigin, arctic.ReasonQueueLayout: CodeOrigin,
	arctic.ReasonNoRoute: CodeRoute, arctic.ReasonChain: CodeRoute, arctic.ReasonHops: CodeRoute,
	arctic.ReasonWindow: CodeOriginWindow, arctic.ReasonNotOpened: CodeOriginWindow,
	arctic.ReasonSource: CodeOriginBounds, arctic.ReasonTransferLength: CodeOriginLength,

	arctic.ReasonNoContext: CodeTarget, arctic.ReasonJob: CodeTarget, arctic.ReasonSwitching: CodeTarget,
	arctic.ReasonMoved: CodeTarget, arctic.ReasonReplaced: CodeTarget, arctic.ReasonNoPath: CodeTarget,
	arctic.ReasonWithheld: CodeTargetWindow, arctic.ReasonAbsent: CodeTargetWindow, arctic.ReasonArea: CodeTargetWindow,
	arctic.ReasonKeySlot: CodeCapability,
	arctic.ReasonRange:   CodeTargetBounds, arctic.ReasonRights: CodeTargetBounds,
	arctic.ReasonLocked: CodeTargetBounds, arctic.ReasonDestination: CodeTargetBounds,
	arctic.ReasonAlignment: CodeTargetOffset, arctic.ReasonOperation: CodeTargetLength,
	arctic.ReasonPosted: CodeTargetLength,

	arctic.ReasonSilent: CodeBroken, arctic.ReasonRestarted: CodeBroken, arctic.ReasonDeparted: CodeBroken,
	arctic.ReasonSourceNode: CodeBroken, arctic.ReasonResynchronised: CodeBroken, arctic.ReasonKey: CodeBroken,
	arctic.ReasonBroken: CodeBroken, arctic.ReasonTruncated: CodeTruncated,
	arctic.ReasonQueueFull: CodeBroken, arctic.ReasonTooLong: CodeBroken, arctic.ReasonBusy: CodeBroken,
	arctic.ReasonNoBuffer: CodeBroken,
}

// CodeOf returns the error code of a reason: CodeNone for arctic.ReasonNone, and CodeCommand for a
// reason of another version.
func CodeOf(r arctic.Reason) Code {
	if c, ok := reasonCodes[r]; ok || r == arctic.ReasonNone {
		return c
	}
	return CodeCommand
}

// Error says why an instruction was not carried out. errors.Is finds its Code in it, and what
// package rma says of it, such as rma.ErrLocked.
type Error struct {
	Code    Code
	Command Command
	Target  uint16        // the VPID of the target
	Reason  arctic.Reason // what the card said; arctic.ReasonNone: the port refused the instruction
	Cause   error         // what package rma said; nil: the port refused the instruction
}

// Error names the instruction, its target and the reason.
func (e *Error) Error() string {
	s := fmt.Sprintf("virtni: %v to node %d: error %d: ", e.Command, e.Target, uint8(e.Code))
	switch {
	case e.Cause == ErrBarrier:
		return fmt.Sprintf("%s%v (%v)", s, e.Cause, e.Reason)
	case e.Reason != arctic.ReasonNone:
		return s + e.Reason.String()
	case e.Cause != nil:
		return s + e.Cause.Error()
	}
	return s + codeTexts[e.Code%Codes]
}

// Unwrap returns the code and the cause.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Code}
	}
	return []error{e.Code, e.Cause}
}
