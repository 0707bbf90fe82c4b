package apps

// This file lets programs report their progress.

// Progress is called now and then with the amount done and the total, on the goroutine of the
// program; nil: progress is not reported.
type Progress func(done, total int)

// progressEvery is how many messages pass between two reports, in programs whose measurement would
// suffer from a report for each.
const progressEvery = 512

func (p Progress) tell(done, total int) {
	if p != nil {
		p(done, total)
	}
}
