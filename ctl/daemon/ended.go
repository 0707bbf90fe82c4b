package daemon

// This file remembers jobs that have ended. So a process that attaches too late hears why its job
// ended, and not only that there is no such group. Only a process that shows the job's token hears
// it. The number of jobs is bounded, by account and altogether. At the bound the oldest job of the
// account with the most jobs is forgotten.

import (
	"fmt"
	"slices"

	"github.com/funet/funet/uspace/attach"
)

const (
	mostEndedOf = 16  // of an account
	mostEnded   = 512 // of all
)

type endedJob struct {
	account uint32
	gid     uint16
	token   attach.Token
	why     string
}

// endedJobs lists ended jobs in the order of their ends.
type endedJobs []endedJob

func (e *endedJobs) add(j endedJob) {
	of := map[uint32]int{}
	for _, other := range *e {
		of[other.account]++
	}
	full := func(account uint32) bool { return account == j.account }
	if of[j.account] < mostEndedOf {
		most := 0
		for _, n := range of {
			most = max(most, n)
		}
		full = func(account uint32) bool { return len(*e) >= mostEnded && of[account] == most }
	}
	if i := slices.IndexFunc(*e, func(other endedJob) bool { return full(other.account) }); i >= 0 {
		*e = slices.Delete(*e, i, i+1)
	}
	*e = append(*e, j)
}

// refusal is the error for a process that wants to attach to a group that does not exist:
// attach.ErrGroup, with the reason of the job's end if its token is known.
func (e endedJobs) refusal(gid uint16, token attach.Token) error {
	for _, j := range slices.Backward(e) {
		if j.gid == gid && j.token.Equal(token) {
			return fmt.Errorf("its job has ended: %s: %w", j.why, attach.ErrGroup)
		}
	}
	return fmt.Errorf("%w; start the program with funet run", attach.ErrGroup)
}
