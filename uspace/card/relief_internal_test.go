package card

// This file tests who drives the card, with steps that are functions of the test.

import (
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience is far more than anything takes.
const patience = 30 * time.Second

// relieved is a relief whose steps count, without a lock.
type relieved struct {
	*relief
	t     *testing.T
	moves int          // calls of the program, and steps; of who has the word
	steps atomic.Int64 // of them, steps
	rest  atomic.Int64 // what a step returns
}

func newRelieved(t *testing.T, rest int64, fds ...unix.PollFd) *relieved {
	t.Helper()
	x := &relieved{t: t}
	x.rest.Store(rest)
	r, err := newRelief(func() int64 {
		x.moves++
		x.steps.Add(1)
		return x.rest.Load()
	}, fds)
	if err != nil {
		t.Fatal(err)
	}
	x.relief = r
	t.Cleanup(func() {
		r.stop()
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

// until waits until something holds.
func (x *relieved) until(what string, holds func() bool) {
	x.t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			x.t.Fatalf("%s: not within %v; word %#b", what, patience, x.word.Load())
		}
	}
}

// sleeps waits until the relief sleeps.
func (x *relieved) sleeps() {
	x.t.Helper()
	x.until("the relief sleeps", func() bool { return x.word.Load()&asleep != 0 })
}

// Rule: a program that calls and computes by turns has the card to itself in its calls, also while
// the relief has no end of work, and the relief drives whenever it computes.
func TestReliefTakesTurns(t *testing.T) {
	x := newRelieved(t, 0)
	calls := 0
	for range 20 {
		for range 1000 {
			x.take()
			x.moves++
			x.give()
			calls++
		}
		before := x.steps.Load()
		x.until("the relief takes over", func() bool { return x.steps.Load() > before })
	}
	x.stop()
	if steps := int(x.steps.Load()); x.moves != calls+steps {
		t.Errorf("%d calls and %d steps are %d together", calls, steps, x.moves)
	}
}

// Rule: while the program has the card, since Arm, the relief makes no step, and sleeps; it drives
// again when the program has given it back.
func TestReliefLeavesASleeper(t *testing.T) {
	x := newRelieved(t, math.MaxInt64)
	for range 10 {
		x.take()
		before := x.steps.Load()
		x.sleeps()
		x.take() // and a second time, as Arm does
		if n := x.steps.Load() - before; n != 0 {
			t.Fatalf("%d steps beside a program that has the card", n)
		}
		x.give()
		x.until("the relief takes over", func() bool { return x.steps.Load() > before })
	}
}

// Rule: a relief that sleeps makes a step when a descriptor is readable, when it is called and when
// its time has come; when the program has come back meanwhile it takes over again as soon as that
// computes.
func TestReliefWakes(t *testing.T) {
	var pipe [2]int
	if err := unix.Pipe(pipe[:]); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	x := newRelieved(t, math.MaxInt64, unix.PollFd{Fd: int32(pipe[0]), Events: unix.POLLIN})
	for name, wake := range map[string]func(){
		"a call": x.call,
		"a descriptor": func() {
			if _, err := unix.Write(pipe[1], []byte{1}); err != nil {
				t.Fatal(err)
			}
		},
		"the program that goes again": func() { x.take(); x.give() },
	} {
		x.sleeps()
		before := x.steps.Load()
		wake()
		x.until(name, func() bool { return x.steps.Load() > before })
		if name == "a descriptor" {
			if _, err := unix.Read(pipe[0], make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
	}
	x.sleeps()
	x.rest.Store(int64(time.Millisecond))
	x.call()
	before := x.steps.Load()
	x.until("its time", func() bool { return x.steps.Load() > before+10 })
}

// Rule: a step that panics ends the relief, and the program's next call panics with what it was;
// stop ends that.
func TestReliefPanics(t *testing.T) {
	r, err := newRelief(func() int64 { panic("the cause") }, nil)
	if err != nil {
		t.Fatal(err)
	}
	<-r.ended
	func() {
		defer func() {
			if err, ok := recover().(error); !ok || !strings.Contains(err.Error(), "the cause") {
				t.Errorf("the call panics with %v", err)
			}
		}()
		r.take()
	}()
	r.stop()
	r.take()
	if err := r.close(); err != nil {
		t.Error(err)
	}
}
