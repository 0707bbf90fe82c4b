package rma

import (
	"testing"

	"pgregory.net/rapid"
)

// Rule: the operation that has been complete longest is reported first, whichever others were
// waited for (Endpoint.Next); and the list holds nothing of operations that were reported.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o order
		var want []*record
		t.Repeat(map[string]func(*rapid.T){
			"complete": func(*rapid.T) {
				m := new(record)
				o.push(m)
				want = append(want, m)
			},
			"report": func(t *rapid.T) {
				if len(want) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(want)-1).Draw(t, "operation")
				o.drop(want[i])
				want = append(want[:i:i], want[i+1:]...)
			},
			"": func(t *rapid.T) {
				i := 0
				for m, before := o.oldest, (*record)(nil); m != nil; m, before = m.after, m {
					if i == len(want) || m != want[i] || m.before != before {
						t.Fatalf("operation %d of %d is another", i, len(want))
					}
					i++
				}
				if i != len(want) || (o.newest == nil) != (i == 0) || i > 0 && o.newest != want[i-1] {
					t.Fatalf("%d operations, want %d", i, len(want))
				}
			},
		})
	})
}
