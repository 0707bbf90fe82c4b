package attach

// This file has the status of a request: the numbers in an answer's header, which are also errors
// that callers can compare with.

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/funet/funet/uspace/funi"
)

// Status is the status word of an answer. Those other than Done are errors: compare
// with errors.Is(err, attach.ErrQuota).
type Status uint32

// The status numbers. They are part of the protocol: new ones are added at the end.
const (
	Done Status = iota // says that the request was carried out
	// ErrMalformed reports bytes that are not a message, or fields that contradict each other. The
	// daemon then closes the connection.
	ErrMalformed
	ErrVersion   // reports that the other side speaks another version
	ErrKind      // reports a kind of request that the daemon does not know
	ErrForbidden // reports that the user may not do this
	ErrToken     // reports a token that is not that of the group
	// ErrQuota reports that the user has as many contexts or bytes as the configuration allows.
	ErrQuota
	ErrTaken       // reports that the GID, or the node of the group, is in use on this card
	ErrGroup       // reports that this card has no such group
	ErrNode        // reports that the group has no such node, or has it on another card
	ErrRoute       // reports a card of the list that this one does not know
	ErrSlots       // reports a number of slots that no queue can have
	ErrAttached    // reports that the connection already has a context, or a job
	ErrNotAttached // reports that the connection has no context
	ErrSegment     // reports a segment with an invalid base, size or rights (funi.ErrSegment)
	ErrOverlap     // reports that part of the range is registered (funi.ErrOverlap)
	// ErrTooManySegments reports that the context has as many segments as it can have
	// (funi.ErrTooManySegments).
	ErrTooManySegments
	ErrNoSegment // reports that no segment starts there (funi.ErrNoSegment)
	ErrBusy      // reports that the card needs the object at the moment; try again
	ErrFull      // reports that the card has no room for another context
	ErrCommand   // reports an administrator's command that is unknown, or cannot be carried out
	ErrStopping  // reports that the daemon is about to end
	ErrInternal  // reports that the daemon failed; the caller can do nothing about it
	ErrNoToken   // reports a job whose token is all zeros, which anybody could guess
	ErrInterface // reports that an interface that a job needs is missing, or cannot be used
	// ErrHost reports that the group may not live on a host that has a node of it (groups in the
	// peers file).
	ErrHost
	// ErrKey reports that a card of the list has another key than this one, or that only one of the
	// two has a key.
	ErrKey
	// ErrCarriage reports that the processes of the job have direct ports and not contexts on the
	// card, or the other way round.
	ErrCarriage
	ErrNoPort // reports that the daemon gives no direct ports, or none for such a job
	// ErrCluster reports that etcd, where the cluster keeps its groups, does not answer for this
	// host.
	ErrCluster

	statuses
)

var statusText = [statuses]string{
	Done:               "done",
	ErrMalformed:       "malformed message; are both sides the same version of FUNet?",
	ErrVersion:         "the other side speaks another version of the protocol; run the same version of FUNet on both sides",
	ErrKind:            "the daemon does not know this request; run the same version of FUNet on both sides",
	ErrForbidden:       "this user may not do that; ask the administrator for it in funid's configuration",
	ErrToken:           "the token is not that of the group",
	ErrQuota:           "the user's quota is reached",
	ErrTaken:           "in use already",
	ErrGroup:           "no such group on this card",
	ErrNode:            "the group has no such node on this card",
	ErrRoute:           "a card of the list is not known to this daemon",
	ErrSlots:           "a queue has a power of two of slots, from 2 to 65536",
	ErrAttached:        "the connection has a context or a job already; open another",
	ErrNotAttached:     "the connection has no context; attach first",
	ErrSegment:         "a segment starts at a multiple of 16 other than 0, has a positive multiple of 16 bytes, ends within 32 bits and gives a right",
	ErrOverlap:         "segments must not overlap",
	ErrTooManySegments: "a context has at most 64 segments",
	ErrNoSegment:       "no segment is registered at that address",
	ErrBusy:            "the card still needs it; try again",
	ErrFull:            "the card has no room for another context; end one",
	ErrCommand:         "the command cannot be done",
	ErrStopping:        "the daemon is about to end",
	ErrInternal:        "the daemon failed; its log says why",
	ErrNoToken:         "a job needs a token that nobody guesses, not zeroes; draw one at random, as funet run does",
	ErrInterface:       "an interface of the card cannot be used; `funet status` says how it is",
	ErrHost:            "the peers file does not let the group live there (groups); take another GID, or another host",
	ErrKey:             "the two hosts exchange nothing because their keys differ; `funet doctor` with that card's number says what to do",
	ErrCarriage:        "the job has direct ports and no contexts, or the other way round; programs that use funi.h or package attach themselves need contexts: `funet run --card daemon`",
	ErrNoPort:          "the daemon gives no direct ports for this job; use `funet run --card daemon`, or have the administrator configure carriage: auto on all hosts",
	ErrCluster:         "new jobs wait until etcd answers; `funet status` says since when it does not",
}

// Error returns what the number means and what to do about it.
func (s Status) Error() string {
	if s >= statuses {
		return "refused for a reason that this version does not know; run the same version of FUNet on both sides"
	}
	return statusText[s]
}

// ofCard has the errors of an embedded card that are also numbers.
var ofCard = map[Status]error{ErrSegment: funi.ErrSegment, ErrOverlap: funi.ErrOverlap, ErrSlots: funi.ErrSlots,
	ErrTooManySegments: funi.ErrTooManySegments, ErrNoSegment: funi.ErrNoSegment}

// Is makes errors.Is also match the errors of an embedded card.
func (s Status) Is(target error) bool { return target != nil && ofCard[s] == target }

// StatusOf returns the number with which an error is answered: the Status in its chain, that of a
// card's error there, or ErrInternal; Done for nil.
func StatusOf(err error) Status {
	if err == nil {
		return Done
	}
	var s Status
	if errors.As(err, &s) && s != Done {
		return s
	}
	for s, same := range ofCard {
		if errors.Is(err, same) {
			return s
		}
	}
	return ErrInternal
}

// Refusal is the error of a request that the daemon refused. Its chain has the Status.
type Refusal struct {
	Status Status
	Text   string // the daemon's words, one line of UTF-8
}

// Error returns the daemon's words.
func (r *Refusal) Error() string {
	if r.Text == "" {
		return r.Status.Error()
	}
	return r.Text
}

// Unwrap returns the status.
func (r *Refusal) Unwrap() error { return r.Status }

// maxText is the longest text of a refusal in bytes.
const maxText = 1024

// oneLine turns any text into one line: characters that cannot be printed become spaces.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, " "))
	for len(s) > maxText { // at the end of a character
		_, n := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-n]
	}
	return s
}
