package daemon

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/uspace/engine"
)

// Rule: however many jobs and contexts there are, what an answer has of them takes no more than the
// room of statusRoom contexts, neither keeps the other out, and nothing is left out for which there
// is room.
func TestStatusRoom(t *testing.T) {
	most := engine.Traffic{Sent: math.MaxUint64, SentBytes: math.MaxUint64, Received: math.MaxUint64,
		ReceivedBytes: math.MaxUint64,
		Retried:       math.MaxUint64, Returned: math.MaxUint64, Refused: math.MaxUint64}
	job := report.JobCounted{JobStatus: report.JobStatus{GID: math.MaxUint16, UID: math.MaxUint32, PID: math.MaxInt32,
		Nodes: 1 << 16, Attached: 1 << 16, Absent: slices.Repeat([]uint16{math.MaxUint16}, mostAbsent), Direct: true},
		Traffic: most, Faults: report.Faults{Suspended: math.MaxUint64,
			Faults: engine.Faults{Missed: math.MaxUint64, Refused: math.MaxUint64, NoRoute: math.MaxUint64}}}
	context := report.ContextStatus{Context: math.MaxUint32, GID: math.MaxUint16, Node: math.MaxUint16,
		UID: math.MaxUint32, PID: math.MaxInt32, Slots: 1 << 16, Segments: 64, Bytes: math.MaxInt64}
	const most16, most64 = 1 << 16, math.MaxUint64
	remote := engine.RemoteUse{KeySlots: most16, KeySlotsOpen: most16, Areas: most16, AreasOpen: most16,
		Notifications: most16, Credit: most16, Unread: most16, Notified: most64, Operations: most64,
		RequestsOpen: most16, Completed: most64, Failed: most64, Chains: 64,
		Refused: engine.RemoteRefusals{KeySlot: most64, Range: most64, Area: most64, NoBuffer: most64, Form: most64,
			NoCredit: most64, Guessing: most64, Rights: most64, Locked: most64, Operand: most64, Busy: most64,
			Chain: most64, Withheld: most64, Absent: most64}}
	rapid.Check(t, func(t *rapid.T) {
		jobs, contexts := rapid.IntRange(0, 300).Draw(t, "jobs"), rapid.IntRange(0, 300).Draw(t, "contexts")
		keyed := min(rapid.IntRange(0, 300).Draw(t, "with remote memory"), contexts)
		s := report.Status{Jobs: make([]report.JobCounted, jobs), Contexts: make([]report.ContextStatus, contexts)}
		for i := range s.Jobs {
			s.Jobs[i] = job
		}
		for i := range s.Contexts {
			s.Contexts[i] = context
			if i < keyed {
				s.Contexts[i].Remote = &remote
			}
		}
		crop(&s)
		b, err := json.Marshal([]any{s.Jobs, s.Contexts})
		if err != nil || len(b) > 160*statusRoom {
			t.Fatalf("%d jobs and %d contexts take %d bytes: %v", len(s.Jobs), len(s.Contexts), len(b), err)
		}
		if s.LeftOut != jobs+contexts-len(s.Jobs)-len(s.Contexts) {
			t.Fatalf("%d are said to be left out", s.LeftOut)
		}
		if len(s.Jobs) < min(jobs, 90/jobRoom) || len(s.Contexts) < min(contexts, 90/remoteRoom) ||
			s.LeftOut > 0 && jobs*jobRoom+contexts+(remoteRoom-1)*keyed <= statusRoom {
			t.Fatalf("of %d jobs and %d contexts there are %d and %d", jobs, contexts, len(s.Jobs), len(s.Contexts))
		}
	})
}

// Rule: a line says how groups take turns, and whether hosts do so together.
func TestTurnsInWords(t *testing.T) {
	for want, s := range map[string]report.TurnsStatus{
		"groups take turns on the card, 2 at once, on this host alone":            {Room: 2},
		"groups take turns on the card, 1 at once, not yet coordinated by card 3": {Room: 1, Together: true, Card: 3},
		"all groups are on the card at once, coordinated by card 0 (-12 us apart)": {
			Together: true, Coordinated: true, Apart: -12.3},
	} {
		if got := s.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
