package main

// This file measures the kernels' own traffic beside FUNet, and collects the kernels' complaints.

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/funet/funet/tests/qemu/guest"
)

const (
	// A TCP rate is the best of manyStreams streams of length streamTime: other work of the machine
	// only slows them down.
	manyStreams = 5
	streamTime  = time.Second
	// manyPings is the number of pings, sent one every pingEvery.
	manyPings = 100
	pingEvery = 20 * time.Millisecond
	// startsEvery is the interval of pings while a daemon starts and stops, which takes longer.
	startsEvery = 100 * time.Millisecond
	// endless is a number of exchanges that no job reaches.
	endless = 1_000_000_000
	// measureDeadline bounds a measurement.
	measureDeadline = time.Minute
)

// tcp returns the best stream, or nil if one failed.
func (p pair) tcp(ctx context.Context) (best *guest.TCP, err error) {
	for range manyStreams {
		one, err := measure[guest.TCP](ctx, p, measureDeadline, "tcp", streamTime.String())
		if err != nil || one == nil {
			return nil, err
		}
		if best == nil || one.Rate > best.Rate {
			best = one
		}
	}
	return best, nil
}

// ping returns how many pings came back, or nil if the measurement failed.
func (p pair) ping(ctx context.Context) (*guest.Pings, error) {
	return measure[guest.Pings](ctx, p, measureDeadline, "ping", fmt.Sprint(manyPings), pingEvery.String())
}

// besideDaemons measures the kernel's own traffic without daemons, while they start and stop,
// beside idle daemons, beside a job, and without daemons again. It also measures beside an XDP
// program that does nothing, in the mode that FUNet's programs got. The row is of ping-pong through
// the daemons, and nil if they did not start.
func (p pair) besideDaemons(ctx context.Context, mode string, scale float64) (b *beside, r *row, err error) {
	b = &beside{}
	// What a daemon fails to do is a result, and what the rig fails to do is an error.
	fault := func(err error) error {
		if errors.Is(err, errDaemon) {
			b.Error = strings.TrimPrefix(b.Error+"; "+err.Error(), "; ")
			return nil
		}
		return err
	}
	if b.PingAlone, err = p.ping(ctx); err != nil {
		return b, nil, err
	}
	if b.Alone, err = p.tcp(ctx); err != nil {
		return b, nil, err
	}
	if err := p.besideBare(ctx, b, mode); err != nil {
		return b, nil, err
	}
	if err := fault(p.startAndStop(ctx, b)); err != nil || b.Error != "" {
		return b, nil, err
	}
	d, err := p.startDaemons(ctx)
	if err == nil {
		r, err = p.withDaemons(ctx, b, scale)
	}
	log, stopped := d.stop(ctx)
	if err := fault(errors.Join(err, stopped)); err != nil {
		return b, r, err
	}
	b.Log = firstLines(log, mostComplaints)
	if b.After, err = p.tcp(ctx); err != nil {
		return b, r, err
	}
	b.ratio()
	return b, r, nil
}

// besideBare measures TCP beside XDP programs that do nothing, on both hosts. The loss of rate
// there is the price of the driver's XDP mode, for any program.
func (p pair) besideBare(ctx context.Context, b *beside, mode string) error {
	if err := p.both(ctx, "pass", mode); err != nil {
		b.BareError = err.Error()
		return nil // FUNet says what it thinks of that driver
	}
	var err error
	if b.Bare, err = p.tcp(ctx); err != nil {
		return err
	}
	return p.both(ctx, "unpass")
}

// both runs a command of the guest program on both guests, which changes their NICs.
func (p pair) both(ctx context.Context, what string, args ...string) error {
	for host, m := range p {
		e, err := m.run(ctx, measureDeadline, append([]string{guest.Program, what, m.hello.Interface}, args...)...)
		if err == nil {
			err = failure(host, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// startAndStop pings while daemons start and stop.
func (p pair) startAndStop(ctx context.Context, b *beside) error {
	pings, err := p[0].begin(measureDeadline, guest.Program, "ping", fmt.Sprint(manyPings), startsEvery.String())
	if err != nil {
		return err
	}
	d, failed := p.startDaemons(ctx)
	log, stopped := d.stop(ctx)
	b.StartsLog = firstLines(log, mostComplaints)
	e, err := pings.wait(ctx)
	if err := errors.Join(failed, stopped, err); err != nil {
		return err
	}
	b.PingStarts, err = measured[guest.Pings](e)
	return err
}

// withDaemons makes the measurements beside running daemons.
func (p pair) withDaemons(ctx context.Context, b *beside, scale float64) (r *row, err error) {
	if b.PingIdle, err = p.ping(ctx); err != nil {
		return nil, err
	}
	if b.Idle, err = p.tcp(ctx); err != nil {
		return nil, err
	}
	one, err := p.attached(ctx, scale)
	if err != nil || !one.Passed {
		return &one, err // a job that does not run has nothing beside it
	}
	// A job that goes on until it is interrupted.
	job, err := p[0].begin(daemonsDeadline, pingpongJob("--exchanges", fmt.Sprint(endless))...)
	if err != nil {
		return &one, err
	}
	running, err := p.jobRuns(ctx, job)
	if err == nil && running {
		if b.PingJob, err = p.ping(ctx); err == nil {
			b.Job, err = p.tcp(ctx)
		}
	}
	err = errors.Join(err, job.signal(syscall.SIGINT))
	job.timeout = job.m.within(readyDeadline)
	e, ended := job.wait(ctx)
	if err := errors.Join(err, ended); err != nil {
		return &one, err
	}
	if want := 128 + int(syscall.SIGINT); e.Code != want {
		b.Error = fmt.Sprintf("the job beside which the kernel was measured ended with code %d, not %d: %v", e.Code,
			want, failure(0, e))
	}
	return &one, nil
}

// ratio computes how much of its rate TCP keeps beside idle daemons, and beside XDP programs that
// do nothing.
func (b *beside) ratio() {
	if b.Alone == nil || b.After == nil {
		return
	}
	if b.Idle != nil {
		b.IdleRatio = b.Idle.Rate / b.without()
	}
	if b.Bare != nil {
		b.BareRatio = b.Bare.Rate / b.without()
	}
}

// without returns the mean of the rates without daemons, before and after them.
func (b *beside) without() float64 { return max((b.Alone.Rate+b.After.Rate)/2, 1e-9) }

// linkReset is part of funid's log line about a driver that resets its link for a program.
const linkReset = "its driver resets the link"

// resetSaid reports whether the log of a daemon's start and stop has that line.
func (b *beside) resetSaid() bool {
	return slices.ContainsFunc(b.StartsLog, func(line string) bool { return strings.Contains(line, linkReset) })
}

// complaint matches a kernel's messages about errors, and about a link that went down.
var complaint = regexp.MustCompile(`(?m)^.*(WARNING:|BUG:|Call Trace|Oops|general protection|lockup|Hang|timed out|Reset adapter|[Rr]edirect failed|Link is Down).*$`)

// mostComplaints is the largest number of complaints reported of a kernel.
const mostComplaints = 10

// linkUp matches a driver's message about a link that came up, which follows every reset.
var linkUp = regexp.MustCompile(`Link is Up`)

// complaints returns the complaints in both kernels' logs, and how often links came up.
func (p pair) complaints(ctx context.Context) (all []string, ups int, err error) {
	for _, m := range p {
		e, err := m.run(ctx, time.Minute, "dmesg")
		if err != nil {
			return all, ups, err
		}
		ups += len(linkUp.FindAllString(e.Stdout, -1))
		for _, line := range complaint.FindAllString(e.Stdout, mostComplaints) {
			all = append(all, fmt.Sprintf("host %d: %s", m.host, line))
		}
	}
	return all, ups, nil
}

// firstLines returns the first lines of a log.
func firstLines(log string, most int) (lines []string) {
	for line := range strings.Lines(log) {
		if line = strings.TrimSpace(line); line != "" && len(lines) < most {
			lines = append(lines, line)
		}
	}
	return lines
}
