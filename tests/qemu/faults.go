package main

// This file is what happens to a host while its daemon runs: the link goes down and comes back, the driver
// goes and comes back, and the whole host is gone.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/tests/qemu/guest"
)

// The faults, as rows of the report.
const (
	linkBounce   = "link_bounce"   // down and up again, on host 1
	driverReload = "driver_reload" // unbound and bound again, on host 1
	guestKilled  = "guest_killed"  // host 1, in the middle of a job
)

const (
	// recovery is how long ping-pong through the daemons may fail after a fault.
	recovery = 30 * time.Second
	// mourning is how long `funet run` may go on when a host has died.
	mourning = 10 * time.Second
)

// faultNames lists them.
func faultNames() []string { return []string{linkBounce, driverReload, guestKilled} }

// besideFaults runs ping-pong through daemons after the link, and then the driver, of host 1 went and
// came back. The daemons run on.
func (p pair) besideFaults(ctx context.Context, scale float64, enter func(row)) (d daemons, err error) {
	if d, err = p.startDaemons(ctx); err != nil {
		return d, err
	}
	for _, fault := range []struct {
		name string
		args [][]string
	}{
		{linkBounce, [][]string{{"ip", "link", "set", p[1].hello.Interface, "down"}, {guest.Program, "up", p[1].hello.Interface}}},
		{driverReload, [][]string{{guest.Program, "reload", p[1].hello.Interface}}},
	} {
		var failed error
		for _, args := range fault.args {
			e, err := p[1].run(ctx, measureDeadline, args...)
			if err != nil {
				return d, err
			}
			failed = errors.Join(failed, failure(1, e))
		}
		r := row{Program: fault.name}
		if failed != nil {
			r.judge(failed)
		} else if r, err = p.recovered(ctx, fault.name, scale); err != nil {
			return d, err
		}
		enter(r)
	}
	return d, nil
}

// recovered runs ping-pong through the daemons until it passes, and says how long that took.
func (p pair) recovered(ctx context.Context, name string, scale float64) (r row, err error) {
	for begin := time.Now(); ; {
		r, err = p.attached(ctx, scale)
		r.Program, r.Seconds = name, time.Since(begin).Seconds()
		if err != nil || r.Passed || time.Since(begin) > recovery {
			return r, err
		}
	}
}

// killed ends host 1 in the middle of a job: `funet run` must end and say which host it was. The
// pair is of no use afterwards.
func (p pair) killed(ctx context.Context) (r row, err error) {
	r.Program = guestKilled
	job, err := p[0].begin(daemonsDeadline, jobArguments("pingpong", "--exchanges", fmt.Sprint(endless))...)
	if err != nil {
		return r, err
	}
	switch runs, err := p.jobRuns(ctx, job); {
	case err != nil:
		return r, err
	case !runs:
		r.judge(errors.New("the job does not run"))
		return r, nil
	}
	p[1].kill()
	begin := time.Now()
	job.timeout = programDeadline
	e, err := job.wait(ctx)
	r.Seconds = time.Since(begin).Seconds()
	switch {
	case ctx.Err() != nil:
		return r, context.Cause(ctx)
	case err != nil:
		r.judge(fmt.Errorf("funet run goes on after %.0f s", r.Seconds))
	case e.Code == 0:
		r.judge(errors.New("funet run ended as if nothing had happened"))
	case !strings.Contains(e.Stderr, guest.Address(1).String()):
		r.judge(fmt.Errorf("funet run does not say that host %v died: %s", guest.Address(1), failure(0, e)))
	case r.Seconds > mourning.Seconds():
		r.judge(fmt.Errorf("funet run ended after %.0f s, not %.0f: %s", r.Seconds, mourning.Seconds(), failure(0, e)))
	default:
		r.judge()
	}
	return r, nil
}

// jobRuns waits until processes of a job are attached on both hosts, or it has ended.
func (p pair) jobRuns(ctx context.Context, job *running) (bool, error) {
	for begin := time.Now(); time.Since(begin) < p[0].within(readyDeadline); {
		attached := 0
		for _, m := range p {
			e, err := m.run(ctx, readyDeadline, "funet", "status", "--json")
			if err != nil {
				return false, err
			}
			var s daemon.Status
			if json.Unmarshal([]byte(e.Stdout), &s) == nil {
				for _, j := range s.Jobs {
					attached += j.Attached
				}
			}
		}
		if attached == len(p) {
			return true, nil
		}
		select {
		case e := <-job.ended:
			job.ended <- e // for who waits
			return false, nil
		case <-time.After(50 * time.Millisecond):
		}
	}
	return false, nil
}
