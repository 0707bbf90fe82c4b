package attack

// This file fills the table of the switch with node lists. All users' direct jobs share this table.

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/funet/funet/tests/client"
	"github.com/funet/funet/uspace/attach"
)

// fill makes one more direct job, with as many nodes as a request has room for, all on the other
// host. When the daemon refuses the job, fill ends the oldest one. It panics at a refusal that does
// not name the user's quota in one line.
func (p *player) fill() int {
	k, err := client.Dial(p.c.Socket)
	if err == nil {
		_, err = k.Job(attach.JobRequest{Direct: true, Token: attach.NewToken(),
			Cards: slices.Repeat([]uint16{uint16(1 - p.c.Host)}, attach.MaxNodes)})
	}
	if err == nil {
		p.jobs = append(p.jobs, k)
		return 1
	}
	if !errors.Is(err, attach.ErrQuota) || strings.Contains(err.Error(), "\n") || len(p.jobs) == 0 {
		panic(fmt.Sprintf("attack: with %d jobs another one is refused: %v", len(p.jobs), err))
	}
	k.Close()
	p.jobs[0].Close()
	p.jobs = p.jobs[1:]
	return 1
}
