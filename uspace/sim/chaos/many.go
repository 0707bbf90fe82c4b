package chaos

// This file runs many seeds, each in a world of its own, on all processors.

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Report is the outcome of many scenarios.
type Report struct {
	Seeds int `json:"seeds"`
	Result
	// EventsPerSecond is the number of events simulated in a second of processor time of the whole
	// process.
	EventsPerSecond float64 `json:"events_per_s"`
	// Trace is a number over everything that happened in all scenarios. It is always the same for
	// the same scenarios.
	Trace string `json:"trace_hash"`
	// Failed are the scenarios that broke a promise, in the order of their seeds.
	Failed []Failure `json:"failed,omitempty"`
}

// Failure is a scenario that broke a promise.
type Failure struct {
	Scenario Scenario `json:"-"`
	Command  string   `json:"arguments"` // that run the scenario again
	Reasons  []string `json:"reasons"`
	Smallest string   `json:"smallest,omitempty"` // arguments of what Shrink made of it
}

// Many runs the scenarios of seeds first to last on the given number of goroutines. When the
// context ends it stops within some events, in the middle of runs; Seeds is how many were run. The
// sums do not depend on the number of goroutines. Many calls ran after each run, on several
// goroutines, unless ran is nil.
func Many(ctx context.Context, of func(seed uint64) Scenario, first, last uint64, workers int, ran func()) Report {
	over, release := overWith(ctx)
	defer release()
	results := make([]Result, last-first+1)
	begin := processorTime()
	done := make([]bool, len(results))
	var next atomic.Uint64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for ctx.Err() == nil {
				i := next.Add(1) - 1
				if i >= uint64(len(results)) {
					return
				}
				results[i] = runOf(of(first+i), over).result
				if over() {
					return
				}
				done[i] = true
				if ran != nil {
					ran()
				}
			}
		})
	}
	all.Wait()
	var r Report
	spent := processorTime() - begin
	hash := fnv.New64a()
	for i := range results {
		if !done[i] {
			continue
		}
		r.add(of(first+uint64(i)), &results[i])
		fmt.Fprintln(hash, first+uint64(i), results[i].Hash)
	}
	r.Trace = fmt.Sprintf("%016x", hash.Sum64())
	if spent > 0 {
		r.EventsPerSecond = float64(r.Events) / spent.Seconds()
	}
	return r
}

// overWith returns a function that reports whether the context has ended, and costs less than Err.
func overWith(ctx context.Context) (over func() bool, release func()) {
	var ended atomic.Bool
	if ctx.Err() != nil {
		ended.Store(true)
	}
	stop := context.AfterFunc(ctx, func() { ended.Store(true) })
	return ended.Load, func() { stop() }
}

// processorTime returns the processor time that this process has used. Other work on the machine
// does not count in it.
func processorTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (r *Report) add(s Scenario, one *Result) {
	r.Seeds++
	r.Messages += one.Messages
	r.Transfers += one.Transfers
	r.Delivered += one.Delivered
	r.ReportedFailed += one.ReportedFailed
	r.Both += one.Both
	r.Ended += one.Ended
	r.Lost += one.Lost
	r.Duplicated += one.Duplicated
	r.Misdelivered += one.Misdelivered
	r.Damaged += one.Damaged
	r.Stuck += one.Stuck
	r.Undecided += one.Undecided
	r.Events += one.Events
	r.Virtual += one.Virtual
	if one.Failed() {
		r.Failed = append(r.Failed, Failure{Scenario: s, Command: s.String(), Reasons: one.Failures})
	}
}
