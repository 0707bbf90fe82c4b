package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// source has a function of each form; counters are what it takes when f was called 10 times.
const source = `package p

func f(n int) {
	for range n {
		g()
	}
	func() { g() }()
}

func g() { h() }
func h() {}

func never() { h() }

type T[A, B any] struct{}

func (t *T[A, B]) m() { func() { h() }() }
func (T[A, B]) v()   { h() }
`

const counters = `mode: atomic
github.com/funet/funet/uspace/p/a.go:3.15,4.15 1 10
github.com/funet/funet/uspace/p/a.go:4.15,6.3 1 90
github.com/funet/funet/uspace/p/a.go:7.2,7.18 1 10
github.com/funet/funet/uspace/p/a.go:7.9,7.14 1 10
github.com/funet/funet/uspace/p/a.go:10.10,10.16 1 100
github.com/funet/funet/uspace/p/a.go:13.14,13.20 1 0
github.com/funet/funet/uspace/p/a.go:17.23,17.41 1 9
github.com/funet/funet/uspace/p/a.go:17.32,17.37 1 50
github.com/funet/funet/uspace/p/a.go:18.22,18.28 1 11
github.com/funet/funet/tests/path/main.go:1.1,2.1 1 10
`

// read is the only file that there is.
func read(name string) ([]byte, error) {
	if name != "uspace/p/a.go" {
		return nil, errors.New("no such file")
	}
	return []byte(source), nil
}

// Rule: a function was called as often as its first counter says, whatever the others say. This
// program's own functions are left out.
func TestCalls(t *testing.T) {
	all, err := functions(strings.NewReader(counters), read)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"f": 10, "g": 100, "h": 0, "never": 0, "T.m": 9, "T.v": 11}
	for _, f := range all {
		if f.Calls != want[f.Name] || f.Package != "uspace/p" || f.File != "uspace/p/a.go" {
			t.Errorf("%+v, want %d calls", f, want[f.Name])
		}
	}
	if len(all) != len(want) {
		t.Errorf("%d functions, want %d", len(all), len(want))
	}
}

// Rule: counters that make no sense, and those of a file that is not there, are errors.
func TestBadCounters(t *testing.T) {
	for _, bad := range []string{"github.com/funet/funet/uspace/p/a.go:3.15", "github.com/funet/funet/uspace/p/b.go:3.15,4.15 1 10"} {
		if all, err := functions(strings.NewReader(bad), read); err == nil {
			t.Errorf("%s: %+v", bad, all)
		}
	}
}

// Rule: functions called less than once a round trip do not count. The limit is met up to the last
// function, and not without any.
func TestReport(t *testing.T) {
	all := []function{{"a", "a/a.go", "f", 10}, {"a", "a/b.go", "g", 9}, {"b", "b/a.go", "h", 30}, {"b", "b/b.go", "i", 10}}
	for most, met := range map[int]bool{2: false, 3: true} {
		r := newReport(all, 10, most)
		if r.Functions != 3 || r.Files != 3 || len(r.Packages) != 2 || r.Met != met {
			t.Errorf("%+v, want met %t", r, met)
		}
		if r.Packages[0] != (packageReport{"b", 2, 2}) || r.Packages[1] != (packageReport{"a", 1, 1}) {
			t.Errorf("%+v", r.Packages)
		}
		var b bytes.Buffer
		var again report
		if err := errors.Join(r.print(&b, true, false), json.Unmarshal(b.Bytes(), &again)); err != nil || again.Functions != 3 ||
			len(again.Executed) != 3 {
			t.Errorf("%v: %+v", err, again)
		}
		b.Reset()
		if err := r.print(&b, false, true); err != nil || !strings.Contains(b.String(), "h ") || strings.Contains(b.String(), "g ") {
			t.Errorf("%v: %s", err, b.String())
		}
	}
	if newReport(nil, 10, 3).Met {
		t.Error("without any function the limit is met")
	}
}

// Rule: a round trip over AF_XDP makes one request and one reply, and counts nothing of the warm-up
// and of the beginning.
func TestMeasure(t *testing.T) {
	t.Chdir("../..")
	const trips = 100
	all, err := measure(t.Context(), trips)
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]int{}
	for _, f := range all {
		calls[f.Package+"."+f.Name] = f.Calls
	}
	for name, want := range map[string]int{"uspace/am.Endpoint.Request4": trips, "uspace/am.Message.Reply4": trips,
		"uspace/am.New": 0, "uspace/card.Open": 0} {
		if got, ok := calls[name]; !ok || got != want {
			t.Errorf("%s was called %d times, want %d", name, got, want)
		}
	}
	for _, name := range []string{"uspace/engine.Card.Step", "uspace/engine/link.End.Send", "uspace/port/afxdp.Port.Commit",
		"xdp.Socket.Kick"} {
		if calls[name] < trips {
			t.Errorf("%s was called %d times in %d round trips", name, calls[name], trips)
		}
	}
}
