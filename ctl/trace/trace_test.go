package trace

// This file tests what is made of records, in the format of ui.perfetto.dev and out of it.

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/engine"
)

// sentBy is any record of a sender.
func sentBy(t *rapid.T, card uint16, sequence uint32) engine.Trace {
	r := engine.Trace{FromCard: card, ToCard: 1 - card, Session: 7, Sequence: sequence,
		Context: rapid.Uint32Range(0, 3).Draw(t, "context"), GID: 9, Source: card, Destination: 1 - card,
		Level: arctic.Level(rapid.IntRange(0, 1).Draw(t, "level")),
		Index: rapid.Uint8Range(0, 63).Draw(t, "index"), Bytes: 100}
	at := rapid.Int64Range(1, 50_000).Draw(t, "seen")
	for _, to := range []*int64{&r.Seen, &r.Retrieved, &r.Dispatched, &r.Sent, &r.SentLast} {
		*to = at
		at += rapid.Int64Range(0, 2000).Draw(t, "stage")
	}
	switch r.End = rapid.SampledFrom([]engine.End{engine.Unfinished, engine.Acknowledged, engine.Returned}).Draw(t,
		"end"); r.End {
	case engine.Unfinished:
		if rapid.Bool().Draw(t, "unsent") {
			r.Sent, r.SentLast = 0, 0
		}
	case engine.Returned:
		r.Reason = arctic.ReasonNoContext
		r.Answered = at
	default:
		r.Answered = at
	}
	if r.Sent > 0 && r.SentLast > r.Sent && rapid.Bool().Draw(t, "rejected") {
		r.Rejected, r.Retried, r.Resent = r.Sent+1, 1, 1
	}
	return r
}

// hostOf is any host.
func hostOf(t *rapid.T, card uint16) Host {
	h := Host{Begin: Begin{Info: attach.Info{Host: "host\"<>", Card: card}, Every: 3,
		Clock: 1_800_000_000_000_000_000, Contexts: 4}}
	for i := range rapid.IntRange(1, 60).Draw(t, "records") {
		if rapid.Bool().Draw(t, "arrival") {
			h.Records = append(h.Records, engine.Trace{End: engine.Delivered, FromCard: 1 - card, ToCard: card,
				Session: 7, Sequence: uint32(i), Context: 2, Arrived: rapid.Int64Range(1, 60_000).Draw(t, "arrived")})
		} else {
			h.Records = append(h.Records, sentBy(t, card, uint32(i)))
		}
	}
	return h
}

// parsed is an event as the format has it (Trace Event Format, "Event Descriptions"), read by
// another parser than Read.
type parsed struct {
	Name string
	Ph   string
	Cat  string
	PID  *int
	TID  *int
	TS   *float64
	Dur  *float64
	ID   *uint64
	BP   string
	S    string
	Args map[string]any
}

// Rule: the file follows the format (perfetto.go). Each event has the fields of its phase. The
// slices of a thread lie within each other or apart, and no time is negative. Each arrow begins or
// ends in a slice of its thread. Every process and thread that has slices has a name. Read finds
// every record again.
func TestFileIsOfTheFormat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hosts := []Host{hostOf(t, 0)}
		if rapid.Bool().Draw(t, "two") {
			hosts = append(hosts, hostOf(t, 1))
		}
		var b bytes.Buffer
		if err := WriteFile(&b, hosts); err != nil {
			t.Fatal(err)
		}
		var file struct {
			DisplayTimeUnit string
			TraceEvents     []parsed
		}
		d := json.NewDecoder(bytes.NewReader(b.Bytes()))
		d.DisallowUnknownFields()
		if err := d.Decode(&file); err != nil || file.DisplayTimeUnit != "ns" {
			t.Fatal(err)
		}
		type thread struct{ pid, tid int }
		named := map[thread]bool{}
		slices := map[thread][][2]float64{}
		for _, e := range file.TraceEvents {
			if e.Name == "" || e.PID == nil || e.TID == nil || e.TS == nil || *e.TS < 0 {
				t.Fatalf("%+v", e)
			}
			at := thread{*e.PID, *e.TID}
			switch e.Ph {
			case "M":
				if e.Name == "thread_name" || e.Name == "process_name" {
					if e.Args["name"] == "" {
						t.Fatalf("%+v", e)
					}
					named[at] = true
				}
			case "X":
				if e.Dur == nil || *e.Dur < 0 || !named[at] || !named[thread{at.pid, 0}] {
					t.Fatalf("%+v", e)
				}
				slices[at] = append(slices[at], [2]float64{*e.TS, *e.TS + *e.Dur})
			case "i":
				if e.S != "t" && e.S != "p" {
					t.Fatalf("%+v", e)
				}
			case "s", "f":
				inside := false
				for _, s := range slices[at] {
					inside = inside || s[0]-1e-6 <= *e.TS && *e.TS <= s[1]+1e-6
				}
				if e.ID == nil || *e.ID == 0 || *e.ID >= 1<<53 || !inside || e.Ph == "f" && e.BP != "e" {
					t.Fatalf("%+v", e)
				}
			default:
				t.Fatalf("phase %q", e.Ph)
			}
		}
		const little = 1e-6
		for at, all := range slices {
			for i, a := range all {
				for _, b := range all[i+1:] {
					apart := a[1] <= b[0]+little || b[1] <= a[0]+little
					within := a[0] <= b[0]+little && b[1] <= a[1]+little || b[0] <= a[0]+little && a[1] <= b[1]+little
					if !apart && !within {
						t.Fatalf("on %+v %v crosses %v", at, a, b)
					}
				}
			}
		}
		again, err := Read(&b)
		if err != nil || len(again) != len(hosts) {
			t.Fatalf("%d hosts of %d: %v", len(again), len(hosts), err)
		}
		for i, h := range again {
			if !reflect.DeepEqual(h.Begin, hosts[i].Begin) || len(h.Records) != len(hosts[i].Records) {
				t.Fatalf("%+v of %+v", h, hosts[i])
			}
			have := map[engine.Trace]int{}
			for _, r := range h.Records {
				have[r]++
			}
			for _, r := range hosts[i].Records {
				if have[r]--; have[r] < 0 {
					t.Fatalf("%+v is not there again", r)
				}
			}
		}
	})
}

// Rule: two clocks are aligned from packets in both directions, whatever they are apart, and not
// from packets in one (Merge).
func TestClocksAreAligned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		apart, wire := rapid.Int64Range(-1e12, 1e12).Draw(t, "apart"), rapid.Int64Range(1, 1e6).Draw(t, "wire")
		oneWay := rapid.Bool().Draw(t, "one way")
		hosts := []Host{{Begin: Begin{Info: attach.Info{Card: 0}, Every: 1, Clock: 2e18}},
			{Begin: Begin{Info: attach.Info{Card: 1}, Every: 1, Clock: 2e18 + apart}}}
		n := rapid.IntRange(1, 20).Draw(t, "packets")
		for i := range n {
			for from := range uint16(2) {
				if from == 1 && oneWay {
					continue
				}
				at := int64(2e12) + rapid.Int64Range(1, 1e9).Draw(t, "at") // since 2e18
				own, other := &hosts[from], &hosts[1-from]
				there := at + wire
				r := engine.Trace{End: engine.Acknowledged, FromCard: from, ToCard: 1 - from,
					Sequence: uint32(i), Session: 1}
				r.Seen, r.Retrieved, r.Dispatched, r.Sent, r.SentLast, r.Answered = at, at, at, at, at, there+wire
				arrival := engine.Trace{End: engine.Delivered, FromCard: from, ToCard: 1 - from, Sequence: uint32(i),
					Session: 1, Arrived: there}
				own.Records, other.Records = append(own.Records, r), append(other.Records, arrival)
			}
		}
		table, err := Merge(hosts)
		if err != nil {
			t.Fatal(err)
		}
		if table.Aligned == oneWay || table.Both != n && !oneWay && table.Both != 2*n {
			t.Fatalf("%+v", table)
		}
		if oneWay {
			for _, s := range table.Stages {
				if s.Name == "wire" {
					t.Fatal("a time between clocks that are not aligned")
				}
			}
			return
		}
		if off := hosts[1].Shift + apart; off < -1 || off > 1 || table.ClocksWithin < wire-1 ||
			table.ClocksWithin > wire+1 {
			t.Fatalf("%d off, %+v", off, table)
		}
		found := 0
		for _, s := range table.Stages {
			if s.Name == "wire" || s.Name == "back" {
				found++
				if s.P50 < wire-1 || s.Max > wire+1 || s.Packets != 2*n {
					t.Fatalf("%+v, and it took %d", s, wire)
				}
			}
		}
		if found != 2 {
			t.Fatalf("%+v", table.Stages)
		}
	})
}

// Rule: traces that do not go together are refused (Merge), and so are files that are none (Read).
func TestRefused(t *testing.T) {
	one, other := Host{Begin: Begin{Every: 1}}, Host{Begin: Begin{Info: attach.Info{Card: 1}, Every: 2}}
	for want, hosts := range map[string][]Host{"two traces of card 0": {one, one}, "the same --every": {one, other}} {
		if _, err := Merge(hosts); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	begin := `{"name":"trace","ph":"i","cat":"funet","pid":1,"args":{"every":1}}`
	for _, file := range []string{"", "x", "[]", "{}", `{"traceEvents":5}`, `{"traceEvents":[]}`,
		`{"traceEvents":[{"name":"trace","ph":"i","cat":"funet","args":{"every":0}}]}`,
		`{"traceEvents":[` + begin + "," + begin + `]}`, `{"traceEvents":[` + begin +
			`,{"ph":"X","cat":"funet","pid":2,"args":{}}]}`,
		`{"traceEvents":[` + begin + `,{"ph":"X","cat":"funet","pid":1,"args":{"end":"lost"}}]}`,
		`{"traceEvents":[` + begin + `,{"ph":"X","cat":"funet","pid":1,"args":{"end":"held","sent_ns":-1}}]}`} {
		if hosts, err := Read(strings.NewReader(file)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %+v, %v", file, hosts, err)
		}
	}
}

// Rule: the longest batch fits into a message (batch.go).
func TestBatchFits(t *testing.T) {
	r := engine.Trace{End: engine.Acknowledged, Reason: math.MaxUint8, Level: 1, Retried: 255, Resent: 255, Index: 255,
		Bytes: math.MaxUint16, GID: math.MaxUint16, Source: math.MaxUint16, Destination: math.MaxUint16,
		FromCard: math.MaxUint16, ToCard: math.MaxUint16, Session: math.MaxUint16, Sequence: math.MaxUint32,
		Context: math.MaxUint32}
	for _, at := range []*int64{&r.Seen, &r.Retrieved, &r.Dispatched, &r.Sent, &r.SentLast, &r.Rejected, &r.Answered} {
		*at = 1 << 61
	}
	b := Batch{Lost: math.MaxUint64}
	for range BatchRecords {
		b.Records = append(b.Records, r)
	}
	body, err := json.Marshal(b)
	if err == nil {
		_, err = attach.EncodeBody(attach.KindTrace|attach.AnswerBit, body)
	}
	if err != nil {
		t.Error(err)
	}
}

// Rule: each stage has the packets that got there, and quantiles are values that there were
// (Stages).
func TestStages(t *testing.T) {
	var all []engine.Trace
	for i := range int64(100) {
		all = append(all, engine.Trace{End: engine.Acknowledged, Seen: 10, Retrieved: 10 + i, Dispatched: 1000,
			Sent: 1000, SentLast: 1000, Answered: 2000 + i})
	}
	all = append(all, engine.Trace{End: engine.Returned, Seen: 10, Retrieved: 10},
		engine.Trace{End: engine.Refused, Arrived: 5})
	table := Stages(all, 3)
	want := map[string]Stage{"queue": {Packets: 101, P50: 49, P99: 98, Max: 99},
		"answer": {Packets: 100, P50: 1049, P99: 1098, Max: 1099}}
	for _, s := range table.Stages {
		if w, ok := want[s.Name]; ok && (s.Packets != w.Packets || s.P50 != w.P50 || s.P99 != w.P99 || s.Max != w.Max) {
			t.Errorf("%+v, want %+v", s, w)
		}
	}
	if len(table.Stages) != 5 || table.Records != 102 || table.Lost != 3 || table.Ends["returned"] != 1 ||
		table.Ends["refused"] != 1 {
		t.Errorf("%+v", table)
	}
}

// Rule: times are written in microseconds with three digits behind the point, negative ones too
// (JSON, RFC 8259, 6), and read again.
func TestMicros(t *testing.T) {
	for ns, want := range map[micros]string{0: "0.000", 1: "0.001", 12345: "12.345", -1: "-0.001", -12345: "-12.345",
		math.MinInt64: "-9223372036854775.808"} {
		text, err := json.Marshal(ns)
		if err != nil || string(text) != want {
			t.Errorf("%d ns: %q, %v; want %q", int64(ns), text, err, want)
		}
		var again micros
		if err := json.Unmarshal(text, &again); err != nil || again != ns {
			t.Errorf("%s is read as %d ns, %v", text, int64(again), err)
		}
	}
}

// FuzzRead: no file makes Read fail in another way than with an error, and what it read can be
// merged and written.
func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	if err := WriteFile(&b, []Host{{Begin: Begin{Every: 1},
		Records: []engine.Trace{{Seen: 1, Retrieved: 2, Sent: 3, SentLast: 3, End: engine.Acknowledged, Answered: 9},
			{Arrived: 5, End: engine.Held}}}}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, in []byte) {
		hosts, err := Read(bytes.NewReader(in))
		if err != nil {
			return
		}
		if _, err := Merge(hosts); err != nil {
			return
		}
		var out bytes.Buffer
		if err := WriteFile(&out, hosts); err != nil {
			t.Fatal(err)
		}
	})
}
