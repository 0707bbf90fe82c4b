package engine

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
)

// TestTransferStates: a transfer goes through its states in the order that transfer.go draws,
// whatever else is true of it, and leaves a state only when what that waits for has happened.
func TestTransferStates(t *testing.T) {
	// A transfer that has not failed takes the first way, one that has takes the second.
	ways := map[transferState][2]transferState{
		transferFree:       {transferRetrieving, transferRetrieving},
		transferRetrieving: {transferRetrieved, transferRetrieved},
		transferRetrieved:  {transferDue, transferOver},
		transferDue:        {transferEnding, transferOver},
		transferEnding:     {transferOver, transferOver},
		transferOver:       {transferFree, transferFree},
	}
	for from, to := range ways {
		for _, source := range [][]byte{nil, {}, {1}} {
			for lines := range 3 {
				for failed, reason := range []arctic.Reason{arctic.ReasonNone, arctic.ReasonRestarted} {
					for _, finished := range []bool{false, true} {
						r := &transfer{state: from, source: source, lines: lines, failed: reason}
						var goesOn bool
						switch from {
						case transferFree:
							goesOn = source != nil
						case transferRetrieving:
							goesOn = source == nil
						case transferRetrieved, transferEnding:
							goesOn = lines == 0
						case transferDue:
							goesOn = failed == 1 || lines > 0
						case transferOver:
							goesOn = finished
						}
						want := from
						if goesOn {
							want = to[failed]
						}
						if got := r.following(finished); got != want {
							t.Errorf("state %d, source %v, %d lines, failed %v, slot finished %v: next %d, want %d",
								from, source, lines, reason, finished, got, want)
						}
					}
				}
			}
		}
	}
}

// Rule (failTransfers): what a card with which this one counts anew costs is the transfers to that
// card, however many there are to others, in whatever order they begin and end.
func TestTransfersByRoute(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o transfersTo
		var open []*transfer
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "begins") || len(open) == 0 {
				x := &transfer{route: rapid.Uint32Range(0, 40).Draw(t, "route")}
				if rapid.IntRange(0, 9).Draw(t, "nowhere") == 0 {
					x.route = NoRoute
				}
				o.add(x)
				open = append(open, x)
				continue
			}
			i := rapid.IntRange(0, len(open)-1).Draw(t, "ends")
			o.remove(open[i])
			open = slices.Delete(open, i, i+1)
		}
		n := 0
		for route := range uint32(256) {
			for x := *o.to(route); x != nil; x = x.after {
				if !slices.Contains(open, x) || x.route != route && !(x.route == NoRoute && NoRoute%256 == route) {
					t.Fatalf("one to %d is among those to %d", x.route, route)
				}
				n++
			}
		}
		if n != len(open) {
			t.Fatalf("%d of %d are on the lists", n, len(open))
		}
	})
}
