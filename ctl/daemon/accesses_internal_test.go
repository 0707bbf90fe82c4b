package daemon

import (
	"testing"

	"github.com/funet/funet/uspace/arctic"
)

// Rule (accesses.go): each node has a count of its own, and only one that reaches the limit by
// itself counts; of more nodes than there are counts for, those that came later have none.
func TestSuspicionIsOfOneNode(t *testing.T) {
	var s suspicion
	const limit = 3
	for range limit - 1 {
		for node := range uint16(2 * suspects) {
			if s.refused(node, limit) {
				t.Fatalf("node %d has reached %d", node, limit)
			}
		}
	}
	for node := range uint16(2 * suspects) {
		if got, want := s.refused(node, limit), node < suspects; got != want {
			t.Errorf("node %d: %v, want %v", node, got, want)
		}
	}
}

// Rule (accesses.go): only what needs the window's key, and what no ordinary program does again and
// again, counts towards a suspension.
func TestForbidden(t *testing.T) {
	counts := map[arctic.Reason]bool{arctic.ReasonRange: true, arctic.ReasonRights: true, arctic.ReasonAlignment: true,
		arctic.ReasonOperation: true}
	for r := range arctic.Reason(255) {
		if forbidden(r) != counts[r] {
			t.Errorf("%v: %v", r, forbidden(r))
		}
	}
}
