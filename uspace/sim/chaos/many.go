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
	// EventsPerSecond is how many events were simulated in a second of processor time
	// of the whole process.
	EventsPerSecond float64 `json:"events_per_s"`
	// Trace is a number over everything that happened in all of them: the same for
	// the same scenarios, always.
	Trace string `json:"trace_hash"`
	// Failed are the scenarios that broke a promise, in the order of their seeds.
	Failed []Failure `json:"failed,omitempty"`
}

// Failure is a scenario that broke a promise.
type Failure struct {
	Scenario Scenario `json:"-"`
	Command  string   `json:"arguments"` // that run it again
	Reasons  []string `json:"reasons"`
	Smallest string   `json:"smallest,omitempty"` // arguments of what Shrink made of it
}

// Many runs the scenario with seeds first to last on the given number of goroutines, and stops
// early when the context ends; Seeds says how many were run. The sums do not depend on
// the number of goroutines. Ran is called after each run, on several goroutines; nil: nobody wants to know.
func Many(ctx context.Context, s Scenario, first, last uint64, workers int, ran func()) Report {
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
				one := s
				one.Seed = first + i
				results[i] = Run(one)
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
		one := s
		one.Seed = first + uint64(i)
		r.add(one, &results[i])
		fmt.Fprintln(hash, one.Seed, results[i].Hash)
	}
	r.Trace = fmt.Sprintf("%016x", hash.Sum64())
	if spent > 0 {
		r.EventsPerSecond = float64(r.Events) / spent.Seconds()
	}
	return r
}

// processorTime returns the processor time that this process has used: what others do
// on the machine does not slow a simulation down in it.
func processorTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// add adds the result of one scenario.
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
	r.Events += one.Events
	r.Virtual += one.Virtual
	if one.Failed() {
		r.Failed = append(r.Failed, Failure{Scenario: s, Command: s.String(), Reasons: one.Failures})
	}
}
