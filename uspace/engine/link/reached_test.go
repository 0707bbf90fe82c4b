package link

import (
	"testing"

	"pgregory.net/rapid"
)

// Rule: reached is one more than the highest sequence that was handled, through any number
// of turns.
func TestReach(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &flow{reached: rapid.Int64Range(0, 1<<40).Draw(t, "reached")}
		want := f.reached
		for range rapid.IntRange(1, 20).Draw(t, "frames") {
			at := max(0, want+rapid.OneOf(rapid.Int64Range(-Window, Window),
				rapid.Int64Range(0, 1<<31-1)).Draw(t, "ahead"))
			if f.reach(uint32(at)); f.reached != max(want, at+1) {
				t.Fatalf("%d after %d and frame %d", f.reached, want, at)
			}
			want = f.reached
		}
		if n := nextTurn(f.reached); uint32(n) != 0 || n < f.reached || n-f.reached >= 1<<32 {
			t.Fatalf("the turn after %d is %d", f.reached, n)
		}
	})
}
