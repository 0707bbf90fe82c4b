package card

// This file tests the model in real time with a clock of its own.

import (
	"slices"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/timing"
)

// fake is a model on a host whose clock moves on by tick at every look, and by more when a
// step takes so long.
type fake struct {
	modelled
	now, tick int64
	steps     []int64         // when the engine was stepped
	due       []int64         // when it has something to do, rising
	takes     map[int64]int64 // of the host's time, by the time of the step
	memory    *funi.Memory
}

func newFake(t *testing.T, tick int64) *fake {
	t.Helper()
	m, err := funi.NewMemory(16)
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{tick: tick, memory: m, takes: map[int64]int64{}}
	f.modelled = modelled{
		heard:   true,
		wall:    func() int64 { f.now += f.tick; return f.now },
		step:    f.step,
		arrived: func() bool { return false },
		vain:    func() {},
		page:    m.Page,
		next:    engine.Never,
		hist:    hdrhistogram.New(1, int64(time.Minute), 2),
	}
	return f
}

// step is the engine's.
func (f *fake) step(now int64) int64 {
	f.steps = append(f.steps, now)
	f.now += f.takes[now]
	for len(f.due) > 0 && f.due[0] <= now {
		f.due = f.due[1:]
	}
	if len(f.due) == 0 {
		return engine.Never
	}
	return f.due[0]
}

// at gives the engine things to do.
func (f *fake) at(times ...int64) { f.due, f.next = times, times[0] }

// Rule: the card does what it does at the times of the model, each once and in order, also when the
// host comes round late, and nothing that comes after what the program has been charged.
func TestEventsAtTheirTimes(t *testing.T) {
	f := newFake(t, 700)
	f.at(100, 150, 900, 1600, 2050, 2500)
	f.until(2000)
	if want := []int64{100, 150, 900, 1600}; !slices.Equal(f.steps, want) {
		t.Errorf("the engine was stepped at %v, want %v", f.steps, want)
	}
	if f.now < 2000 || f.modelled.at != 2000 {
		t.Errorf("the program went on at %d, at %d of the model", f.now, f.modelled.at)
	}
}

// Rule: a host that was late catches up: charges after that end as if it had not been, and
// the model has lost nothing.
func TestLateHostCatchesUp(t *testing.T) {
	f := newFake(t, 10)
	f.at(500)
	f.takes[500] = 3000 // a frame is sent
	cpu := timing.NewCPU(timing.CPUConfig{Cycle: 25}, timing.NewBus(0, 0),
		timing.Clock{Now: func() int64 { return f.modelled.at }, Until: f.until})
	for range 10 {
		cpu.Work(40)
		cpu.Settle()
	}
	if f.modelled.at != 10_000 || f.now > 10_050 || f.late.Lost != 0 {
		t.Errorf("ten charges of a microsecond ended at %d, at %d of the model, %v lost", f.now,
			f.modelled.at, f.late.Lost)
	}
	if f.late.Charges != 10 || f.late.Largest < 2400 || f.late.Largest > 2600 || f.late.Late != 0 {
		t.Errorf("lateness is %+v", f.late)
	}
}

// Rule: a host that is too late does not catch up: the model stands still for so long, which
// is counted, and what the card did meanwhile comes before what the program does next.
func TestTooLate(t *testing.T) {
	f := newFake(t, 10)
	f.at(500, 40_000, 70_000)
	f.takes[500] = 50_000
	f.until(1000)
	if want := []int64{500, 40_000}; !slices.Equal(f.steps, want) {
		t.Errorf("the engine was stepped at %v, want %v", f.steps, want)
	}
	if lost := f.late.Lost; lost < 49_000 || lost > 50_000 || f.modelled.at < 50_000 || f.late.Late != 1 {
		t.Errorf("at %d of the model, %+v", f.modelled.at, f.late)
	}
	f.until(f.modelled.at + 1000)
	if f.late.Late != 1 || f.late.Charges != 2 {
		t.Errorf("the charge after that was late: %+v", f.late)
	}
}

// Rule: the card sees what the program has stored at the time at which the program stored it.
func TestStoresAreSeenAtTheirTime(t *testing.T) {
	f := newFake(t, 10)
	f.until(1000)
	if len(f.steps) != 0 {
		t.Errorf("the engine was stepped at %v without cause", f.steps)
	}
	f.page.Store(funi.RQSQHead, 1)
	f.until(5000)
	if want := []int64{1000}; !slices.Equal(f.steps, want) {
		t.Errorf("the engine was stepped at %v, want %v", f.steps, want)
	}
}

// Rule: the engine's time does not run backwards, not even for a frame that is said to have
// arrived before the last step (package paced).
func TestEngineTimeDoesNotRunBackwards(t *testing.T) {
	f := newFake(t, 10)
	f.at(1000)
	f.until(2000)
	f.next = 300
	f.until(3000)
	if want := []int64{1000, 1000}; !slices.Equal(f.steps, want) {
		t.Errorf("the engine was stepped at %v, want %v", f.steps, want)
	}
}

// Rule: a step that leaves work over is followed by another at once, but when that does not
// help the card does not spin: a microsecond has few steps.
func TestWorkLeftOver(t *testing.T) {
	f := newFake(t, 10)
	f.modelled.step = func(now int64) int64 { f.steps = append(f.steps, now); return now }
	f.next = 0
	f.until(10_000)
	if n := len(f.steps); n < 5 || n > 30 || f.steps[1] != 1 {
		t.Errorf("%d steps, at %v", n, f.steps)
	}
}

// Rule: time passes for a program that waits and charges nothing, so that it sees an end of
// it; it does not for one that calls Drive now and then.
func TestDriveWithoutCharges(t *testing.T) {
	f := newFake(t, 100)
	for range 2 {
		f.until(1000)
		for range vainDrives - 1 {
			f.drive()
		}
	}
	if f.modelled.at != 1000 {
		t.Errorf("time passed to %d", f.modelled.at)
	}
	f.at(2000)
	for i := 0; len(f.steps) == 0 && i < 100*vainDrives; i++ {
		f.drive()
	}
	if want := []int64{2000}; !slices.Equal(f.steps, want) {
		t.Errorf("the engine was stepped at %v, want %v", f.steps, want)
	}
}

// Rule: a charge allocates nothing.
func TestChargeAllocatesNothing(t *testing.T) {
	f := newFake(t, 10)
	f.modelled.step = func(int64) int64 { return engine.Never }
	if n := testing.AllocsPerRun(100, func() {
		f.page.Store(funi.RQSQHead, f.page.Load(funi.RQSQHead)+1)
		f.until(f.modelled.at + 1000)
		f.drive()
	}); n != 0 {
		t.Errorf("%v allocations for each charge", n)
	}
}
