package engine

import (
	"testing"

	"github.com/funet/funet/uspace/arctic"
)

// TestTransferStates: a transfer goes through its states in the order that transfer.go draws, whatever else is true of it,
// and leaves a state only when what that waits for has happened.
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
							t.Errorf("state %d, source %v, %d lines, failed %v, slot finished %v: next %d, want %d", from, source, lines, reason, finished, got, want)
						}
					}
				}
			}
		}
	}
}
