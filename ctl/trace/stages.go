package trace

// This file makes the table of stages: how long packets spent in each stage.

import (
	"fmt"
	"slices"

	"github.com/funet/funet/uspace/engine"
)

// Stage is the time that packets spent between two events.
type Stage struct {
	Name    string `json:"stage"`
	What    string `json:"what"`
	Packets int    `json:"packets"`
	P50     int64  `json:"p50_ns"`
	P99     int64  `json:"p99_ns"`
	Max     int64  `json:"max_ns"`
}

// Table is the JSON document of `funet trace`.
type Table struct {
	Records int            `json:"records"`
	Lost    uint64         `json:"lost"`
	Ends    map[string]int `json:"ends"`
	Retried int            `json:"retried"` // packets that were rejected and tried again
	Resent  int            `json:"resent"`  // packets that were sent more than once
	Stages  []Stage        `json:"stages"`
	File    string         `json:"file,omitempty"`
	// of a merge: what was added to the times of the second host, or of the one aligned worst
	ClocksOff    int64 `json:"clock_offset_ns,omitempty"`
	ClocksWithin int64 `json:"clock_alignment_ns,omitempty"` // most error of ClocksOff
	Aligned      bool  `json:"clocks_aligned"`
	Both         int   `json:"packets_at_both_ends,omitempty"`
}

// stages are the stages of a sender's record, in the order in which a packet passes them.
var stages = []struct {
	name, what string
	of         func(*engine.Trace) (from, to int64)
}{
	{"queue", "slot seen, until it is retrieved", func(r *engine.Trace) (int64, int64) { return r.Seen, r.Retrieved }},
	{"dispatch", "retrieved, until it is in a train", func(r *engine.Trace) (int64, int64) {
		return r.Retrieved, r.Dispatched
	}},
	{"port", "in a train, until the port has its frame", func(r *engine.Trace) (int64, int64) {
		return r.Dispatched, r.Sent
	}},
	{"retry", "sent first, until sent for the last time", func(r *engine.Trace) (int64, int64) {
		if r.Resent == 0 {
			return 0, 0
		}
		return r.Sent, r.SentLast
	}},
	{"answer", "sent for the last time, until acknowledged", func(r *engine.Trace) (int64, int64) {
		if r.End != engine.Acknowledged {
			return 0, 0
		}
		return r.SentLast, r.Answered
	}},
	{"all", "slot seen, until acknowledged", func(r *engine.Trace) (int64, int64) {
		if r.End != engine.Acknowledged {
			return 0, 0
		}
		return r.Seen, r.Answered
	}},
}

// Stages makes a table of records.
func Stages(records []engine.Trace, lost uint64) *Table {
	t := &Table{Records: len(records), Lost: lost, Ends: map[string]int{}, Stages: []Stage{}}
	for i := range records {
		r := &records[i]
		t.Ends[r.End.String()]++
		if r.Retried > 0 {
			t.Retried++
		}
		if r.Resent > 0 {
			t.Resent++
		}
	}
	for _, s := range stages {
		var took []int64
		for i := range records {
			if from, to := s.of(&records[i]); from > 0 && to >= from {
				took = append(took, to-from)
			}
		}
		t.add(s.name, s.what, took)
	}
	return t
}

// add adds a stage with the times of the packets that reached it.
func (t *Table) add(name, what string, took []int64) {
	if len(took) == 0 {
		return
	}
	slices.Sort(took)
	at := func(q int) int64 { return took[(len(took)*q+99)/100-1] }
	t.Stages = append(t.Stages, Stage{name, what, len(took), at(50), at(99), took[len(took)-1]})
}

// Summary returns one line about the fates of the packets.
func (t *Table) Summary() string {
	text := fmt.Sprintf("%d records", t.Records)
	for e := engine.Unfinished; e <= engine.Refused; e++ {
		if n := t.Ends[e.String()]; n > 0 {
			text += fmt.Sprintf(", %d %v", n, e)
		}
	}
	text += fmt.Sprintf("; %d retried, %d sent again", t.Retried, t.Resent)
	if t.Lost > 0 {
		text += fmt.Sprintf("; %d lost because they were not taken in time: use a larger --every", t.Lost)
	}
	return text
}
