package scoreboard

// This file has the issue policies (thesis 3.2.6, figure 3.21).

// Policy says which requests of an issue queue may be issued in a time slot.
type Policy struct {
	Issues int // the most requests issued in a slot, 1 to MaxWindow
	Window int // how many requests are looked at, from the head of the queue: Issues to MaxWindow
	Wait   int // requests in the wait queue before each unit, 0 to MaxWait; 0: there is none
}

// Limits of a Policy.
const (
	MaxWindow = 64
	MaxWait   = 64
)

// Single issues the request at the head of the queue. If that cannot be issued, the queue waits.
func Single() Policy { return Policy{Issues: 1, Window: 1} }

// LookAhead issues one request a slot, the first of depth that can be.
func LookAhead(depth int) Policy { return Policy{Issues: 1, Window: depth} }

// Multi issues as many of the first width requests as it can. The queue waits if all are blocked.
func Multi(width int) Policy { return Policy{Issues: width, Window: width} }

// MultiWait is Multi with a wait queue of some entries before each unit. A request whose unit is
// full waits there, and no longer in the window.
func MultiWait(width, entries int) Policy { return Policy{Issues: width, Window: width, Wait: entries} }

// good reports whether the policy is within its limits.
func (p Policy) good() bool {
	return p.Issues >= 1 && p.Window >= p.Issues && p.Window <= MaxWindow && p.Wait >= 0 && p.Wait <= MaxWait
}
