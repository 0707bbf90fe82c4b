package wait_test

// This file tests what a thread asks of the kernel.

import (
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/wait"
)

// Rule: what comes ends a sleep, however long it was to be; without it the sleep ends with its
// time.
func TestSleep(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	x := wait.New(wait.Client)
	fds := []unix.PollFd{{Fd: int32(r.Fd()), Events: unix.POLLIN}}
	if x.Sleep(fds, int64(time.Millisecond)) {
		t.Error("an empty pipe is ready")
	}
	if _, err := w.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	for !x.Sleep(fds, int64(time.Hour)) { // a signal may end it
		continue
	}
	if fds[0].Revents != unix.POLLIN {
		t.Errorf("events %#x", fds[0].Revents)
	}
}

// Rule: who waits asks for a short time slice when it first sleeps, and the kernel's own answer is
// that it has it, or that it knows none; its policy and priority stay.
func TestShortSlice(t *testing.T) {
	runtime.LockOSThread()
	before, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	x := wait.New(wait.Client)
	x.Sleep(nil, 0)
	after, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if after.Policy != before.Policy || after.Nice != before.Nice || after.Runtime > max(before.Runtime, 100_000) {
		t.Errorf("%+v became %+v", before, after)
	}
}
