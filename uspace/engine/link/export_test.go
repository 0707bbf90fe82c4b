package link

// This file opens more of the books of an end to tests of this package than check.go does to
// others.

import "github.com/funet/funet/uspace/arctic"

// Flows returns how many flows are in use.
func (e *End) Flows() (n int) {
	e.eachFlow(func(*flow) { n++ })
	return n
}

// ParkQuiet puts every quiet flow away, also one that was just used, and returns how
// many that were.
func (e *End) ParkQuiet() (n int) {
	e.eachFlow(func(f *flow) {
		if !f.waits() && e.quiet(f) {
			e.park(f)
			n++
		}
	})
	return n
}

// Room returns for how many frames in flight a flow has room, 0 if it is put away.
func (e *End) Room(card uint16, l arctic.Level) int {
	if f := e.peer(card).flows[l]; f != nil {
		return len(f.frames)
	}
	return 0
}

// Resynchronise acts as the end does when a peer says what cannot be.
func (e *End) Resynchronise(card uint16) { e.resynchronise(e.peer(card)) }
