package bench

import (
	"testing"

	"github.com/funet/funet/ctl/lab"
)

// Both contenders and raw AF_XDP play with real sockets. Each verifies that the answers are those
// of its own; how quick they are is not for a test.
func TestReject(t *testing.T) {
	leavesNothing(t)
	r := contest{benchmark: &rejects{exchanges: 300}, rounds: 1}.must(t, newLab(t, lab.Options{}))
	for name, f := range r {
		if v, is := f.(float64); is && v <= 0 {
			t.Errorf("%s is %v", name, v)
		}
	}
	says(t, r, map[string]any{"rounds": 1.0, "exchanges": 300.0})
}

// The names and numbers of the JSON form are stable, and so is the table.
func TestRejectReport(t *testing.T) {
	r, err := (&rejects{exchanges: 30_000}).report(played(map[string][]float64{byKernel: {1.2, 1.5},
		byEngine: {2.4, 2.5}, rawAFXDP: {2, 2.1}}, 2))
	goldens(t, "reject", r, err)
}
