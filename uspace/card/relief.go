package card

// This file makes progress while the program computes, on a direct port. A word says which side
// drives the card. The program takes it with each call, and keeps it while it sleeps, in Drive or
// after Arm. When the word has not changed for a tick, a goroutine, the relief, takes it. The
// relief steps the engine until there is nothing to do. Then it sleeps in poll(2) until a frame
// comes or the engine wants to run. So the card acknowledges, sends again, delivers into the queues
// and carries out one-sided operations. Handlers run when the program polls.
//
//	the program:  takes ──> a call ──> gives back: calls the relief if that sleeps
//	the relief:   the word is the same as a tick ago, and free ──> takes ──> a step
//	              ──> gives back ──> sleeps until there is something, or is called
//
// The relief takes nothing while the program drives: it loads the word once a tick, and has no
// system call. The program waits for a step at most.
//
// The relief needs a processor, and one of Go's (GOMAXPROCS). Where goroutines compute on all of
// them, it waits at each of its turns for the end of a time slice of Go's scheduler, 10 ms. Its
// time is time of the process.

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/wait"
)

// tick is the time between two looks of the relief at the word. It takes over when the program has
// not driven for one tick, so peers that wait for MinRTO send again once. Ticks that come more
// often would take time from the processor on which the program spins.
const tick = 4 * time.Millisecond

// longestRest bounds a sleep that is to last until a call ends it.
const longestRest = int64(time.Hour)

// The bits of the word.
const (
	byProgram = 1 << iota // the program is in a call, or sleeps after Arm
	byRelief              // the relief is in a step
	asleep                // the relief sleeps until the program gives the word back
	wanted                // the program waits for the end of the relief's step
	turn                  // from this bit on: the number of calls
)

// relief is the goroutine. The program calls take and give around work that must not run beside a
// step. nil: there is no relief.
type relief struct {
	word   atomic.Uint64
	turns  uint64 // the word as the program left it; only the program uses turns
	failed atomic.Pointer[error]

	// returns how many nanoseconds the relief may sleep; 0: there is more to do
	step  func() (rest int64)
	alarm *wait.Alarm
	fds   []unix.PollFd // which end a sleep; the first is the alarm's
	wait  wait.Waiter

	until context.Context
	end   context.CancelFunc
	ended chan struct{}
}

// newRelief starts a relief. Frames on the given descriptors end its sleeps.
func newRelief(step func() int64, fds []unix.PollFd) (*relief, error) {
	alarm, err := wait.NewAlarm()
	if err != nil {
		return nil, err
	}
	r := &relief{step: step, alarm: alarm, fds: append([]unix.PollFd{{Fd: int32(alarm.FD()), Events: unix.POLLIN}},
		fds...), ended: make(chan struct{})}
	r.until, r.end = context.WithCancel(context.Background())
	go r.run()
	return r, nil
}

// take takes the word for the program. A program that has the word already, after Arm, keeps it.
func (r *relief) take() {
	if r != nil && !r.word.CompareAndSwap(r.turns, r.turns|byProgram) {
		r.contend()
	}
}

// give gives the word back.
func (r *relief) give() {
	if r == nil {
		return
	}
	if r.turns += turn; r.word.Swap(r.turns)&asleep != 0 {
		r.alarm.Call()
	}
}

// contend takes the word while the relief sleeps, or is in a step. It passes on a panic of a step.
func (r *relief) contend() {
	for n := 1; ; n++ {
		switch w := r.word.Load(); {
		case w&byProgram != 0:
			return
		case w&byRelief == 0:
			if r.word.CompareAndSwap(w, w|byProgram) {
				return
			}
		case r.failed.Load() != nil:
			panic(*r.failed.Load())
		case n%glance == 0: // its thread, or goroutine, may be waiting for this one's processor
			runtime.Gosched()
			wait.YieldProcessor()
		default:
			r.word.CompareAndSwap(w, w|wanted)
		}
	}
}

// run is the goroutine's function. Memory of the program that fails under the card panics here as
// it would in the program.
func (r *relief) run() {
	defer close(r.ended)
	defer func() {
		if v := recover(); v != nil {
			err := fmt.Errorf("driving the card while the program computes: panic: %v\n%s", v, debug.Stack())
			r.failed.Store(&err)
		}
	}()
	debug.SetPanicOnFault(true)
	timer := time.NewTimer(tick)
	for {
		seen := r.word.Load()
		timer.Reset(tick)
		select {
		case <-timer.C:
		case <-r.until.Done():
			return
		}
		switch w := r.word.Load(); {
		case w != seen: // the program drives, and mostly will again
		case w&byProgram == 0:
			r.relieve(w)
		case r.word.CompareAndSwap(w, w|asleep):
			r.sleep(r.fds[:1], longestRest)
		}
	}
}

// relieve drives until the program comes back.
func (r *relief) relieve(word uint64) {
	free := word &^ (asleep | wanted)
	for r.until.Err() == nil && r.word.CompareAndSwap(word, free|byRelief) {
		rest := r.step()
		if word = free; rest > 0 {
			word |= asleep
		}
		if r.word.Swap(word)&wanted != 0 {
			return
		}
		if rest > 0 {
			r.sleep(r.fds, rest)
		}
	}
}

func (r *relief) sleep(fds []unix.PollFd, rest int64) {
	r.alarm.Sleep(&r.wait, fds, min(rest, longestRest))
}

// call ends a sleep. Any goroutine may call it.
func (r *relief) call() {
	if r != nil {
		r.alarm.Call()
	}
}

// stop ends the goroutine, and waits for the end of its step.
func (r *relief) stop() {
	if r == nil {
		return
	}
	r.end()
	r.alarm.Call()
	<-r.ended
	r.failed.Store(nil)
	r.word.Store(r.turns)
}

// close closes the alarm, after stop.
func (r *relief) close() error {
	if r == nil {
		return nil
	}
	return r.alarm.Close()
}
