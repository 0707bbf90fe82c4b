package apps

// This file is how programs tell how far they have come.

// Progress is told how much is done of a whole, now and then, on the goroutine of the program; nil:
// nobody is told.
type Progress func(done, total int)

// progressEvery is how many messages pass between two times that a program tells, where telling
// each time would take a share of what it measures.
const progressEvery = 512

func (p Progress) tell(done, total int) {
	if p != nil {
		p(done, total)
	}
}
