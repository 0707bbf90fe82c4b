package daemon

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/attach"
)

// Rule: as many jobs as somebody may end cost the daemon bounded memory, and take from another
// account nothing while that has fewer; an asker hears of the last job that had GID and token, and
// without the token nothing.
func TestEndedJobsAreBounded(t *testing.T) {
	long.Test(t)
	rapid.Check(t, func(t *rapid.T) {
		var all endedJobs
		mine := endedJob{account: 1 << 20, gid: 7, token: attach.NewToken(), why: "mine"}
		all.add(mine)
		// with two jobs each, they fill it
		accounts := rapid.Uint32Range(1, mostEnded/2).Draw(t, "accounts")
		for n := range rapid.IntRange(1, 2*mostEndedOf).Draw(t, "jobs of each") {
			for account := range accounts {
				all.add(endedJob{account: account, gid: 7, why: strings.Repeat("x", n)})
			}
		}
		of := map[uint32]int{}
		for _, j := range all {
			of[j.account]++
		}
		for account, n := range of {
			if n > mostEndedOf {
				t.Fatalf("account %d has %d", account, n)
			}
		}
		if len(all) > mostEnded || of[mine.account] != 1 {
			t.Fatalf("%d jobs are remembered, %d of the user who ended one", len(all), of[mine.account])
		}
		if err := all.refusal(mine.gid, mine.token); !errors.Is(err, attach.ErrGroup) ||
			!strings.Contains(err.Error(), "mine") {
			t.Fatal(err)
		}
		for _, err := range []error{all.refusal(8, mine.token), all.refusal(mine.gid, attach.NewToken())} {
			// nothing of a job that ended
			if !errors.Is(err, attach.ErrGroup) || err.Error() != endedJobs(nil).refusal(8, mine.token).Error() {
				t.Fatal(err)
			}
		}
	})
}
