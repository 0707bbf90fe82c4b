package main

// This file injects faults into a host while its daemon runs. The link goes down and comes back.
// Rings, queues and MTU change. The driver leaves the device or the kernel, and comes back. In the
// last fault the whole host ends.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	document "github.com/funet/funet/ctl/report"
	"github.com/funet/funet/tests/qemu/guest"
)

// guestKilled names the last fault: host 1 ends in the middle of a job.
const guestKilled = "guest_killed"

// fault is a fault of the NIC of host 1.
type fault struct {
	name string
	// queues is the smallest number of queues of a NIC that has this fault.
	queues int
	// before, do and undo are arguments of the guest program, without the interface, which becomes
	// the second. before runs before the daemons start. before and undo may be missing.
	before, do, undo []string
	// said are texts that must be in the daemons' log afterwards.
	said []string
	// ends are texts. A fault with ends must end the job, and `funet run` must print one of them.
	// With nil the job goes on, as long as processes wait for their peers. Without the NIC there is
	// no ssh either, and `funet run` may be able to name only host 1.
	ends []string
}

// jobsEnded is funid's message that a fault has ended a job.
const jobsEnded = "ended the jobs that need it: 1"

// gone holds the texts for a job that ends without a NIC.
var gone = []string{"is gone", guest.Address(1).String()}

// faults are the faults of a NIC, in the order in which they happen.
var faults = []fault{
	{name: "link_bounce", do: []string{"down"}, undo: []string{"up"}, said: []string{"is down"}},
	{name: "ring_change", do: []string{"rings", "128"}, said: []string{"ring sizes"}},
	{name: "mtu_change", do: []string{"mtu", "600"}, undo: []string{"mtu", "1500"},
		said: []string{"has MTU 600", jobsEnded}, ends: []string{"has MTU 600"}},
	{name: "driver_reload", do: []string{"reload"}, said: []string{"is gone", jobsEnded, "is opened again"},
		ends: gone},
	{name: "driver_unload", do: []string{"unload"}, said: []string{"is gone", jobsEnded, "is opened again"},
		ends: gone},
	// queue_change comes after the others. When queues were added while virtio had zero-copy
	// sockets, and the driver was then taken away, Linux 7.3 was seen to wait for the interface
	// without end. The reason is not known.
	{name: "queue_change", queues: 2, before: []string{"channels", "1"}, do: []string{"channels", "2"},
		said: []string{"number of receive queues was 1 and is 2"}},
}

const (
	// recovery is how long ping-pong through the daemons may fail after a fault.
	recovery = 30 * time.Second
	// mourning is how long `funet run` may go on after a host has ended.
	mourning = 10 * time.Second
)

// faultNames returns the names of all faults.
func faultNames() (names []string) {
	for _, f := range faults {
		names = append(names, f.name)
	}
	return append(names, guestKilled)
}

// besideFaults injects the faults into a NIC while daemons run. After each fault it runs ping-pong
// through the daemons.
func (p pair) besideFaults(ctx context.Context, n nic, scale float64, wanted func(string) bool, enter func(row)) error {
	var log string
	d, err := p.startDaemons(ctx)
	var rows []row
	for _, f := range faults {
		if err != nil || f.queues > n.queues || !wanted(f.name) {
			continue
		}
		if f.before != nil {
			more, stopped := d.stop(ctx)
			log, d = log+more, daemons{}
			e, failed := p.change(ctx, f.before)
			if err = errors.Join(stopped, failed, failure(1, e)); err == nil {
				d, err = p.startDaemons(ctx)
			}
		}
		if err == nil {
			var r row
			r, err = p.befall(ctx, f, scale)
			rows = append(rows, r)
		}
	}
	more, stopped := d.stop(ctx)
	log += more
	for _, r := range rows {
		f := faults[slices.IndexFunc(faults, func(f fault) bool { return f.name == r.Program })]
		for _, said := range f.said {
			if r.Passed && !r.Refused && !strings.Contains(log, said) {
				r.judge(fmt.Errorf("funid's log does not say %q", said))
			}
		}
		enter(r)
	}
	return errors.Join(err, stopped)
}

// change changes the NIC of host 1 with the guest program.
func (p pair) change(ctx context.Context, args []string) (guest.Ended, error) {
	return p[1].run(ctx, measureDeadline, slices.Concat([]string{guest.Program, args[0], p[1].hello.Interface},
		args[1:])...)
}

// befall injects a fault, in the middle of a job if the fault ends jobs. Then it runs ping-pong
// until ping-pong passes.
func (p pair) befall(ctx context.Context, f fault, scale float64) (r row, err error) {
	r.Program = f.name
	var job *running
	if f.ends != nil {
		if job, err = p.beginJob(ctx, &r); job == nil {
			return r, err
		}
	}
	e, err := p.change(ctx, f.do)
	if err != nil {
		return r, err
	}
	begin := time.Now()
	refused := failure(1, e)
	r.Refused = refused != nil
	if job != nil {
		if refused != nil {
			err = job.signal(syscall.SIGINT)
		}
		job.timeout = programDeadline
		e, ended := job.wait(ctx)
		if err := errors.Join(err, ended); err != nil {
			return r, err
		}
		heard := func(reason string) bool { return strings.Contains(e.Stderr, reason) }
		if refused == nil && (e.Code == 0 || !slices.ContainsFunc(f.ends, heard)) {
			r.judge(fmt.Errorf("who runs the job hears none of %q: %w", f.ends, orNil(failure(0, e))))
			return r, nil
		}
	}
	if refused != nil {
		r.judge()
		r.Error = "refused: " + refused.Error()
		return r, nil
	}
	if f.undo != nil {
		e, err := p.change(ctx, f.undo)
		if err := errors.Join(err, failure(1, e)); err != nil {
			return r, err
		}
		begin = time.Now()
	}
	return p.recovered(ctx, f.name, begin, scale)
}

// beginJob begins a job without end and returns it when it runs. It returns nil if the job does not
// run. The rig's failures are errors; FUNet's are judged in the row.
func (p pair) beginJob(ctx context.Context, r *row) (*running, error) {
	job, err := p[0].begin(daemonsDeadline, pingpongJob("--exchanges", fmt.Sprint(endless))...)
	if err != nil {
		return nil, err
	}
	runs, err := p.jobRuns(ctx, job)
	if err != nil {
		return nil, err
	}
	if !runs {
		r.judge(errors.New("the job does not run"))
		return nil, nil
	}
	return job, nil
}

// recovered runs ping-pong through the daemons until it passes. The row has the time from begin
// until then.
func (p pair) recovered(ctx context.Context, name string, begin time.Time, scale float64) (r row, err error) {
	for {
		r, err = p.attached(ctx, scale)
		r.Program, r.Seconds = name, time.Since(begin).Seconds()
		if err != nil || r.Passed || time.Since(begin) > recovery {
			return r, err
		}
	}
}

// killed ends host 1 in the middle of a job. `funet run` must end and name that host. The pair
// cannot be used afterwards.
func (p pair) killed(ctx context.Context) (r row, err error) {
	r.Program = guestKilled
	if _, err := p.startDaemons(ctx); err != nil {
		return r, err
	}
	job, err := p.beginJob(ctx, &r)
	if job == nil {
		return r, err
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

// jobRuns waits until processes of a job are attached on both hosts. It returns false if the job
// ends before that.
func (p pair) jobRuns(ctx context.Context, job *running) (bool, error) {
	for begin := time.Now(); time.Since(begin) < p[0].within(readyDeadline); {
		attached := 0
		for _, m := range p {
			e, err := m.run(ctx, readyDeadline, "funet", "status", "--json")
			if err != nil {
				return false, err
			}
			var s document.Status
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
			job.ended <- e // for the goroutine that waits
			return false, nil
		case <-time.After(50 * time.Millisecond):
		}
	}
	return false, nil
}
