// Package pin binds threads to a processor (sched_setaffinity(2)), and checks which processors can
// be used.
//
// Nothing here keeps state; every function may be called from any goroutine.
package pin

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Thread binds the calling thread to a processor, counted from 0. The caller's goroutine stays on
// its thread only if it has called runtime.LockOSThread. Errors are those of the kernel: EINVAL if
// there is no such processor or this process may not use it.
func Thread(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pinning to processor %d: %w", cpu, err)
	}
	return nil
}

// Process binds all threads of this process, and those that they start later, to a processor.
// Errors are those of Thread.
func Process(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	kept := make(map[string]bool)
	// a thread that was free yet may have started another meanwhile
	for before := -1; before < len(kept); {
		before = len(kept)
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("listing this process's threads: %w", err)
		}
		for _, t := range threads {
			kept[t.Name()] = true
			id, err := strconv.Atoi(t.Name())
			if err == nil {
				err = unix.SchedSetaffinity(id, &set)
			}
			if err != nil && !errors.Is(err, unix.ESRCH) { // it has ended
				return fmt.Errorf("pinning thread %s to processor %d: %w", t.Name(), cpu, err)
			}
		}
	}
	return nil
}

// Check returns the error that Thread would return. It binds a thread, and restores it. The error
// says how to find the processors of the machine.
func Check(cpu int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var was unix.CPUSet
	if err := unix.SchedGetaffinity(0, &was); err != nil {
		return fmt.Errorf("reading the processors of a thread: %w", err)
	}
	if err := Thread(cpu); err != nil {
		return fmt.Errorf("%w; `nproc` tells how many there are", err)
	}
	return unix.SchedSetaffinity(0, &was)
}
