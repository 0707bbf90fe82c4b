package chaos

import (
	"testing"

	"github.com/funet/funet/uspace/funi"
)

// Rule: lines are received under faults, with and without the death of processes, and on a modelled
// machine (Froening's thesis, 3.5).
func TestPaths(t *testing.T) {
	for name, faults := range map[string]Faults{"calm": Paths, "network": Paths | Loss | Dup | Reorder | Partition,
		"deaths": Paths | Loss | Crash | Restart | Jobs, "switched": Paths | Switch | Resize | Pause} {
		for _, profile := range []string{Native, "sbus-arctic"} {
			t.Run(name+"/"+profile, func(t *testing.T) {
				received, delivered := 0, 0
				for seed := range uint64(8) {
					r := runOf(Scenario{Seed: seed, Nodes: 6, Messages: 400, Faults: faults, Profile: profile}, nil)
					if r.result.Failed() {
						t.Fatalf("seed %d: %v", seed, r.result.Failures)
					}
					received += r.linesReceived
					for _, l := range r.lines {
						if l.delivered {
							delivered++
						}
					}
				}
				if received < 100 || delivered < 3 {
					t.Errorf("%d lines were received, %d paths ended with all lines there", received, delivered)
				}
				t.Logf("%d lines were received, %d paths ended with all lines there", received, delivered)
			})
		}
	}
}

// Rule: the oracle hears of each promise of a path that is broken.
func TestPathsOracle(t *testing.T) {
	bed := func() (*run, *pathSide) {
		r := runOf(Scenario{Seed: 5, Nodes: 2, Messages: 1, Faults: Paths}, nil)
		r.result = Result{}
		a, b := r.members[0], r.members[1]
		r.lines = []*lines{{from: a, to: b, most: 3}, {number: 1, from: a, to: b, most: 3}}
		words := make([]byte, pathStride)
		e := &pathSide{of: b.paths, slices: pathSlices, path: must(funi.MapPath(words, pathSlices))}
		b.gid, b.job = a.gid, 0
		e.receiver = a.process.Interface().ReceivesOn(e.path)
		return r, e
	}
	put := func(r *run, e *pathSide, at uint16, path, line int) {
		c := funi.NewCardPath(e.path)
		var b []byte
		for _, w := range r.line(r.lines[path], line) {
			for i := range 8 {
				b = append(b, byte(w>>(8*i)))
			}
		}
		c.Put(at, b)
	}
	for what, c := range map[string]struct {
		broken func(r *Result) int
		lines  [][2]int
	}{
		"in order":       {nil, [][2]int{{0, 0}, {0, 1}, {0, 2}}},
		"again":          {func(r *Result) int { return r.Duplicated }, [][2]int{{0, 0}, {0, 0}}},
		"one is missing": {func(r *Result) int { return r.Lost }, [][2]int{{0, 0}, {0, 2}}},
		"another path's": {func(r *Result) int { return r.Misdelivered }, [][2]int{{0, 0}, {1, 0}}},
	} {
		r, e := bed()
		for i, l := range c.lines {
			put(r, e, uint16(i), l[0], l[1])
		}
		e.receives()
		if failed := r.result.Failed(); failed != (c.broken != nil) || failed && c.broken(&r.result) == 0 {
			t.Errorf("%s: %+v", what, r.result)
		}
	}
}
