package attack

// This file is a user who fills the switch's table, which all users' direct jobs share, with node
// lists.

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/funet/funet/tests/client"
	"github.com/funet/funet/uspace/attach"
)

// fill makes one more direct job, of as many nodes as a request has room for, all of them on the
// other host. When it is refused the oldest one ends. A refusal that is not the user's quota's, in
// one line, ends the process.
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
