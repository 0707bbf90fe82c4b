package pin

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// allowed are the processors of the calling thread.
func allowed(t *testing.T) unix.CPUSet {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	return set
}

// Rule: a check leaves the thread where it may run, and says so of a processor that is there.
func TestCheckLeavesTheThread(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	was := allowed(t)
	for cpu := range 1024 {
		if !was.IsSet(cpu) {
			continue
		}
		if err := Check(cpu); err != nil {
			t.Errorf("processor %d: %v", cpu, err)
		}
	}
	if now := allowed(t); now != was {
		t.Errorf("the thread may run on %v, before on %v", now, was)
	}
}

// Rule: a processor that is not there is refused by its number, with what tells the others, and the
// thread is left.
func TestNoSuchProcessor(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	was := allowed(t)
	for _, cpu := range []int{1023, 100_000} {
		if was.IsSet(cpu) {
			continue
		}
		err := Check(cpu)
		if !errors.Is(err, unix.EINVAL) || !strings.Contains(err.Error(), "processor") ||
			!strings.Contains(err.Error(), "nproc") {
			t.Errorf("processor %d: %v", cpu, err)
		}
	}
	if now := allowed(t); now != was {
		t.Errorf("the thread may run on %v, before on %v", now, was)
	}
}

// Rule: Thread pins the calling thread alone.
func TestThread(t *testing.T) {
	was := allowed(t)
	pinned := make(chan unix.CPUSet)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		for cpu := range 1024 {
			if was.IsSet(cpu) {
				if err := Thread(cpu); err != nil {
					t.Error(err)
				}
				break
			}
		}
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(0, &set); err != nil {
			t.Error(err)
		}
		pinned <- set
	}()
	if set := <-pinned; set.Count() != 1 {
		t.Errorf("the thread may run on %d processors", set.Count())
	}
	if now := allowed(t); now != was {
		t.Errorf("another thread may run on %v, before on %v", now, was)
	}
}

// Rule: Process pins all threads, and those that they start.
func TestProcess(t *testing.T) {
	was := allowed(t)
	t.Cleanup(func() { restore(t, was) })
	cpu := 0
	for !was.IsSet(cpu) {
		cpu++
	}
	if err := Process(cpu); err != nil {
		t.Fatal(err)
	}
	locked := make(chan unix.CPUSet)
	for range 4 { // each on a thread of its own, more than there were
		go func() {
			runtime.LockOSThread()
			set := allowed(t)
			locked <- set
		}()
	}
	for range 4 {
		if set := <-locked; set.Count() != 1 || !set.IsSet(cpu) {
			t.Errorf("a thread may run on %d processors", set.Count())
		}
	}
}

// restore lets all threads run where they might.
func restore(t *testing.T, on unix.CPUSet) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.SchedSetaffinity(id, &on); err != nil && !errors.Is(err, unix.ESRCH) {
			t.Error(err)
		}
	}
}
