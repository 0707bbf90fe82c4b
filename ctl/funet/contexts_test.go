package main

import (
	"strings"
	"testing"

	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/uspace/engine"
)

// Rule: the table of jobs is followed by a line for each job of which the card has told its daemon
// something, and by none for others.
func TestJobsTable(t *testing.T) {
	quiet := report.JobCounted{JobStatus: report.JobStatus{GID: 7}}
	told := report.JobCounted{JobStatus: report.JobStatus{GID: 8},
		Faults: report.Faults{Faults: engine.Faults{Missed: 1, Refused: 12, NoRoute: 3}, Suspended: 2}}
	var b strings.Builder
	if err := writeJobs(&b, []report.JobCounted{quiet, told}); err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(b.String(), "GID 8")
	if want :=
		": 1 window missed, 12 accesses refused, 3 packets for nodes that there are not, 2 windows suspended by this daemon\n"; rest != want || strings.Contains(b.String(), "GID 7") {
		t.Errorf("%s", b.String())
	}
}

// Rule: the table of contexts has the key slots and areas of those that have asked for them, and
// what was refused by reason; where nobody has, it has no columns for them. A row is one line.
func TestContextsTable(t *testing.T) {
	table := func(all ...report.ContextStatus) string {
		var b strings.Builder
		if err := (&contextsShown{report.Contexts{Contexts: all}}).WriteTable(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	plain := report.ContextStatus{Context: 1, GID: 7, Slots: 64}
	if got := table(plain); strings.Contains(got, "key slots") {
		t.Errorf("without remote memory:\n%s", got)
	}
	row := plain
	row.Node, row.Contexts = 3, 1024
	if got := table(row); !strings.Contains(got, " 3-1026 ") {
		t.Errorf("of a row:\n%s", got)
	}
	keyed, quiet := plain, plain
	keyed.Remote = &engine.RemoteUse{KeySlots: 1024, KeySlotsOpen: 3, Areas: 64, AreasOpen: 2, Notifications: 256,
		Credit: 9, Unread: 5, Refused: engine.RemoteRefusals{KeySlot: 12, NoCredit: 4}}
	quiet.Remote = &engine.RemoteUse{KeySlots: 2, Areas: 2, Notifications: 2}
	lines := strings.Split(table(plain, keyed, quiet), "\n")
	for i, words := range [][]string{{"key slots", "areas", "unread", "refused"}, {" - "},
		{"3 of 1024", "2 of 64", "5 of 256", "key 12, credit 4"}, {"0 of 2", " 0"}} {
		for _, w := range words {
			if !strings.Contains(lines[i]+" ", w) {
				t.Errorf("line %d has no %q: %q", i, w, lines[i])
			}
		}
	}
}
