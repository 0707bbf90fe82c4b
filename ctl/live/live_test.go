package live

// This file tests what reports and screens say, whatever the daemon says.

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"pgregory.net/rapid"

	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/uspace/engine"
)

func name(uid uint32) string { return "user\x1b[31m" + strings.Repeat("x", int(uid%20)) }

// counted is any traffic.
func counted(t *rapid.T) engine.Traffic {
	n := func(what string) uint64 { return rapid.OneOf(rapid.Uint64Range(0, 10), rapid.Uint64()).Draw(t, what) }
	return engine.Traffic{Sent: n("sent"), SentBytes: n("bytes"), Received: n("received"), Retried: n("retried"),
		Returned: n("returned")}
}

// sampled is any sample.
func sampled(t *rapid.T, at time.Time) *Sample {
	s := new(Sample)
	s.Traffic.Time, s.Traffic.Incarnation = at, rapid.Uint32Range(1, 2).Draw(t, "incarnation")
	s.Traffic.Card.PacketsSent, s.Traffic.Card.TrainsSent = rapid.Uint64().Draw(t, "packets"),
		rapid.Uint64().Draw(t, "trains")
	s.Traffic.Card.FrameBytesSent = rapid.Uint64().Draw(t, "frame bytes")
	text := rapid.StringMatching(`[a-zä\x1b\n\t ]{0,100}`)
	s.Status.Host = text.Draw(t, "host")
	for i := range rapid.IntRange(0, 40).Draw(t, "contexts") {
		x := counted(t)
		s.Status.Contexts = append(s.Status.Contexts,
			report.ContextStatus{Context: uint32(i), GID: uint16(i % 7), Node: math.MaxUint16, UID: uint32(i),
				PID: math.MaxInt32, Active: i%3 > 0})
		s.Traffic.Contexts = append(s.Traffic.Contexts,
			report.ContextTraffic{Context: uint32(i), GID: uint16(i % 7), Node: math.MaxUint16,
				PID: math.MaxInt32, Traffic: x})
	}
	for i := range rapid.IntRange(0, 7).Draw(t, "jobs") {
		s.Status.Jobs = append(s.Status.Jobs,
			report.JobCounted{JobStatus: report.JobStatus{GID: uint16(i), UID: uint32(i), Nodes: 65536,
				Attached: 2048}})
		s.Traffic.Jobs = append(s.Traffic.Jobs, report.JobTraffic{GID: uint16(i), Traffic: counted(t)})
	}
	for i := range rapid.IntRange(0, 50).Draw(t, "peers") {
		s.Traffic.RoundTrips = append(s.Traffic.RoundTrips,
			report.RoundTrip{Card: uint16(i), RoundTrip: rapid.Int64Range(1, math.MaxInt64).Draw(t, "ns"),
				Variation: 1, InFlight: i})
	}
	for range rapid.IntRange(0, 3).Draw(t, "interfaces") {
		s.Status.Links = append(s.Status.Links, report.LinkStatus{Interface: text.Draw(t, "interface"),
			State: report.LinkUp, Why: text.Draw(t, "why"), MTU: 65535, Reopened: math.MaxUint64})
	}
	r := []report.Rejected{{Reason: "receive queue full", Packets: rapid.Uint64().Draw(t, "rejected")},
		{Reason: text.Draw(t, "reason"), Packets: 1}}
	s.Traffic.Rejected, s.Traffic.RejectedThem = r, r
	return s
}

// Rule: no rate is negative or more than was counted, and of another card nothing is known
// (Between).
func TestRates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1e9, 0)
		a, b := sampled(t, now), sampled(t, now.Add(time.Second))
		r := Between(a, b)
		if r.Restarted != (a.Traffic.Incarnation != b.Traffic.Incarnation) ||
			len(r.Contexts) != len(b.Status.Contexts) || len(r.Jobs) != len(b.Status.Jobs) {
			t.Fatalf("%+v", r)
		}
		for i, x := range r.Contexts {
			most := float64(b.Traffic.Contexts[i].Sent)
			if x.MessagesSent < 0 || x.MessagesSent > most || r.Restarted && x.Rates != (Rates{}) {
				t.Fatalf("%+v of %v", x, most)
			}
		}
		if s := r.Sums; s.BytesSent < 0 || s.PacketsPerFrame < 0 || r.Restarted && s != (Sums{}) {
			t.Fatalf("%+v", s)
		}
	})
	a, b := new(Sample), new(Sample)
	a.Traffic.Time, b.Traffic.Time = time.Unix(1, 0), time.Unix(3, 0)
	b.Status.Contexts = []report.ContextStatus{{Context: 1, GID: 2, Node: 3, PID: 4}}
	a.Traffic.Contexts = []report.ContextTraffic{{Context: 1, GID: 2, Node: 3, PID: 4,
		Traffic: engine.Traffic{Sent: 100, ReceivedBytes: 7}}}
	b.Traffic.Contexts = []report.ContextTraffic{{Context: 1, GID: 2, Node: 3, PID: 4,
		Traffic: engine.Traffic{Sent: 300, ReceivedBytes: 8}}}
	b.Traffic.Card.PacketsSent, b.Traffic.Card.TrainsSent = 60, 20
	r := Between(a, b)
	if x := r.Contexts[0].Rates; x != (Rates{MessagesSent: 100, BytesReceived: 0.5}) || r.Sums.PacketsPerFrame != 3 ||
		r.Interval != 2 {
		t.Errorf("%+v, %+v", x, r.Sums)
	}
	b.Traffic.Contexts[0].PID = 5 // another process has the context
	if x := Between(a, b).Contexts[0].Rates; x != (Rates{}) {
		t.Errorf("%+v", x)
	}
}

// Rule: whatever there is and however large the terminal, there are as many lines as it has, none
// longer than it is wide, with nothing that it would obey, and on 80 by 24 no column is cut off
// (lines).
func TestScreenFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1e9, 0)
		a, b := sampled(t, now), sampled(t, now.Add(time.Second))
		wide, high := rapid.IntRange(1, 130).Draw(t, "wide"), rapid.IntRange(1, 60).Draw(t, "high")
		table := Table(rapid.IntRange(0, int(Tables)-1).Draw(t, "table"))
		v := view{table: table, name: name, from: rapid.IntRange(0, 60).Draw(t, "from"),
			notice: rapid.SampledFrom([]string{"", "no\x1banswer"}).Draw(t, "notice")}
		for i := range Tables {
			v.order[i] = Order{rapid.IntRange(0, len(columns[i])-1).Draw(t, "column"), rapid.Bool().Draw(t, "reverse")}
		}
		if rapid.IntRange(0, 9).Draw(t, "some") > 0 {
			v.report = Between(a, b)
		}
		lines, title := v.lines(wide, high)
		if len(lines) != high || title >= high {
			t.Fatalf("%d lines on %d, titles in %d", len(lines), high, title)
		}
		for _, l := range lines {
			if utf8.RuneCountInString(l) > wide || strings.ContainsFunc(l, func(r rune) bool {
				return !unicode.IsPrint(r)
			}) {
				t.Fatalf("%q on %d columns", l, wide)
			}
		}
		if v.report != nil {
			for _, l := range v.report.table(table, v.order[table], name) {
				if utf8.RuneCountInString(l) > 80 {
					t.Fatalf("%q is longer than 80", l)
				}
			}
		}
		if v.report != nil && high >= 24 && title < 0 {
			t.Fatalf("no table on %d lines", high)
		}
	})
}

// Rule: rows are in the order of the column that is chosen (rows).
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1e9, 0)
		r := Between(sampled(t, now), sampled(t, now.Add(time.Second)))
		for table := range Tables {
			o := Order{rapid.IntRange(0, len(columns[table])-1).Draw(t, "column"), rapid.Bool().Draw(t, "reverse")}
			rows := r.rows(table, o, name)
			for i := 1; i < len(rows); i++ {
				a, b := rows[i-1][o.Column], rows[i][o.Column]
				before := a.rank >= b.rank
				if a.low {
					before = a.rank <= b.rank
				}
				if a.word {
					before = a.text <= b.text
				}
				after := a.rank == b.rank && a.text == b.text || !before || a.rank == b.rank && !a.word
				if !o.Reverse && !before || o.Reverse && !after {
					t.Fatalf("%v by %+v: %+v before %+v", table, o, a, b)
				}
			}
		}
	})
}

// Rule: numbers take at most 5 characters, and read back within a tenth of what they are (Short).
func TestShort(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.25: "0.25", 1: "1", 12.34: "12.3", 999: "999", 999.7: "1.0k",
		1234: "1.2k", 45.12e6: "45.1M", 999.96e3: "1.0M", 120e9: "120G"} {
		if got := Short(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float64Range(0, 1e19).Draw(t, "v")
		if s := Short(v); len(s) > 5 {
			t.Fatalf("%v is %q", v, s)
		}
	})
}

// Rule: when a daemon does not answer the screen says so and asks again, what was known stays, and
// keys work; its card is said to be another when it is back (screen).
func TestScreenGoesOn(t *testing.T) {
	sample := func(at int64, incarnation uint32) *Sample {
		s := new(Sample)
		s.Traffic.Time, s.Traffic.Incarnation, s.Status.Host = time.Unix(at, 0), incarnation, "thishost"
		return s
	}
	s := &screen{ctx: context.Background(), every: time.Second, last: sample(1, 7), wide: 80, high: 24}
	shows := func(want string) {
		t.Helper()
		if got := s.View().Content; !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
	press := func(k rune) (end bool) {
		_, cmd := s.Update(tea.KeyPressMsg{Code: k, Text: string(k)})
		return cmd != nil
	}
	answer := func(a answered) {
		t.Helper()
		if _, cmd := s.Update(a); cmd == nil {
			t.Error("it does not ask again")
		}
	}
	shows("asking funid")
	answer(answered{sample: sample(2, 7)})
	shows("thishost")
	answer(answered{err: errors.New("no daemon\nthere")})
	shows("no daemon; there; asking again")
	press('c')
	shows("ctx")
	answer(answered{sample: sample(3, 8)})
	shows("begun anew")
	answer(answered{sample: sample(4, 8)})
	shows("thishost")
	s.Update(tea.WindowSizeMsg{Width: 20, Height: 3})
	if got := strings.Count(s.View().Content, "\n"); got != 2 {
		t.Errorf("%d lines on 3", got+1)
	}
	if !press('q') {
		t.Error("q does not end it")
	}
}
