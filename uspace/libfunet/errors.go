package main

// This file tells the program of errors: a code, and a text in a buffer of the thread.

// #include "gate.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
	"github.com/funet/funet/uspace/ultra"
)

// errCancelled is the cause of a context that funet_cancel has ended.
var errCancelled = errors.New("funet_cancel was called")

// errArgument reports an argument that is out of range.
var errArgument = errors.New("funet: an argument is out of range")

// codes are the codes of errors, the first that matches.
var codes = []struct {
	err  error
	code C.int
}{
	{errBroken, C.FUNET_PANIC},
	{errHandle, C.FUNET_ARGUMENT}, {errMemory, C.FUNET_ARGUMENT}, {errArgument, C.FUNET_ARGUMENT},
	{errFull, C.FUNET_MEMORY}, {errRoom, C.FUNET_LONG},
	{funet.ErrHandler, C.FUNET_HANDLER}, {errCancelled, C.FUNET_CANCELLED},
	{context.DeadlineExceeded, C.FUNET_TIMEOUT},
	{funet.ErrPlace, C.FUNET_PLACE}, {funet.ErrNoHandler, C.FUNET_NO_HANDLER}, {funet.ErrNode, C.FUNET_NODE},
	{funet.ErrLong, C.FUNET_LONG}, {funet.ErrNumber, C.FUNET_NUMBER}, {funet.ErrLeft, C.FUNET_LEFT},
	{funet.ErrExpelled, C.FUNET_EXPELLED}, {funet.ErrMemory, C.FUNET_MEMORY}, {funet.ErrTag, C.FUNET_TAG},
	{funet.ErrTruncate, C.FUNET_TRUNCATED}, {funet.ErrAborted, C.FUNET_ABORTED},
	{funet.ErrLengths, C.FUNET_LENGTHS}, {funet.ErrRoot, C.FUNET_ROOT},
	{funet.ErrClosed, C.FUNET_CLOSED}, {funi.ErrDetached, C.FUNET_CLOSED},
	{am.ErrCancelled, C.FUNET_CANCELLED},
	{rma.ErrKey, C.FUNET_KEY}, {rma.ErrRange, C.FUNET_RANGE}, {rma.ErrRights, C.FUNET_RIGHTS},
	{rma.ErrAbsent, C.FUNET_ABSENT}, {rma.ErrLocked, C.FUNET_LOCKED}, {rma.ErrUnreachable, C.FUNET_UNREACHABLE},
	{rma.ErrUnread, C.FUNET_UNREAD}, {rma.ErrNone, C.FUNET_WINDOWS}, {rma.ErrFull, C.FUNET_WINDOWS},
	{rma.ErrMemory, C.FUNET_MEMORY}, {rma.ErrTooLong, C.FUNET_LONG}, {rma.ErrWindow, C.FUNET_ARGUMENT},
	{rma.ErrID, C.FUNET_ARGUMENT}, {rma.ErrSilent, C.FUNET_ARGUMENT}, {rma.ErrChain, C.FUNET_ARGUMENT},
	{ultra.ErrFull, C.FUNET_MEMORY}, {ultra.ErrLine, C.FUNET_ARGUMENT}, {funi.ErrSlices, C.FUNET_ARGUMENT},
}

// tell makes an error the thread's, and returns its code; nil is 0.
func tell(err error) C.int {
	if err == nil {
		return 0
	}
	code, refusal := codeOf(err)
	say(err.Error(), refusal)
	return code
}

// codeOf returns the code of an error, and with FUNET_REFUSED that of the handler.
func codeOf(err error) (code C.int, refusal uint32) {
	code = C.FUNET_FAILED
	var remote *am.RemoteError
	if errors.As(err, &remote) {
		code, refusal = C.FUNET_REFUSED, remote.Code
	}
	var undelivered *am.Undelivered
	var handler *funet.HandlerError
	var path *ultra.Error
	switch {
	case errors.As(err, &undelivered) && !errors.Is(err, funet.ErrNoHandler):
		code = C.FUNET_UNREACHABLE
	case errors.As(err, &handler):
		code = C.FUNET_CLOSED
	case errors.As(err, &path):
		code = C.FUNET_PATH
	default:
		for _, c := range codes {
			if errors.Is(err, c.err) {
				code = c.code
				break
			}
		}
	}
	return code, refusal
}

// line makes a text one line.
func line(text string) string { return strings.ReplaceAll(text, "\n", "; ") }

// say sets the thread's text.
func say(text string, refusal uint32) {
	text = line(text)
	C.libfunet_tell((*C.char)(unsafe.Pointer(unsafe.StringData(text))), C.size_t(len(text)), C.uint32_t(refusal))
}

// caught turns a panic of the function that defers it into an error.
func caught(code *C.int) {
	if v := recover(); v != nil {
		broken.Store(true)
		say(fmt.Sprintf("funet: a mistake of the library: %v; please report it", v), 0)
		*code = C.FUNET_PANIC
	}
}
