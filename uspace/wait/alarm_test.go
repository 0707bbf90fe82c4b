package wait_test

// This file tests what ends a sleep from outside.

import (
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/wait"
)

// sleeper is somebody who sleeps for an hour at a time, on nothing but an alarm.
type sleeper struct {
	*wait.Alarm
	w   wait.Waiter
	fds []unix.PollFd
}

func newSleeper(t *testing.T) *sleeper {
	a, err := wait.NewAlarm()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return &sleeper{Alarm: a, w: wait.New(wait.Client), fds: []unix.PollFd{{Fd: int32(a.FD()), Events: unix.POLLIN}}}
}

func (s *sleeper) sleep() { s.Sleep(&s.w, s.fds, int64(time.Hour)) }

// readable reports whether a descriptor is.
func readable(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 0)
		if err != unix.EINTR {
			return n > 0
		}
	}
}

// Rule 6: a call ends the sleep that is under way, or the next one, and no other.
func TestAlarmEndsOneSleep(t *testing.T) {
	s := newSleeper(t)
	s.Call()
	s.Call()
	s.sleep() // else the test hangs
	if s.Sleep(&s.w, s.fds, 0) {
		t.Error("two calls before one sleep are left for the next one")
	}
	for range 200 {
		begun := make(chan struct{})
		go func() {
			<-begun
			s.Call()
		}()
		close(begun)
		s.sleep()
	}
	if readable(s.FD()) {
		s.Sleep(&s.w, s.fds, 0) // a call that was seen before it wrote
	}
	if readable(s.FD()) {
		t.Error("the descriptor stays readable")
	}
}

// Rule: calls from many goroutines, also while and after the alarm is closed, write no descriptor
// of somebody else.
func TestAlarmAfterClose(t *testing.T) {
	s := newSleeper(t)
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			for range 1000 {
				s.Call()
			}
		})
	}
	s.sleep()
	if !s.Arm() {
		s.Arm()
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	other, err := unix.Eventfd(0, unix.EFD_NONBLOCK) // which likely has the number now
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(other)
	calls.Wait()
	s.Call()
	if readable(other) {
		t.Error("a call wrote a descriptor that is another's")
	}
	if err := s.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
}

// Rule: Arm is refused once after a call; while it is in force a call makes the descriptor
// readable, and Disarm ends that.
func TestAlarmOfAnEventLoop(t *testing.T) {
	s := newSleeper(t)
	s.Call()
	if s.Arm() {
		t.Error("it was armed although somebody had called")
	}
	if !s.Arm() {
		t.Fatal("it was not armed")
	}
	if readable(s.FD()) {
		t.Error("it is readable before anybody calls")
	}
	s.Call()
	if !readable(s.FD()) {
		t.Error("it is not readable after a call")
	}
	s.Disarm()
	if readable(s.FD()) {
		t.Error("it is readable after Disarm")
	}
}

// Rule: a call ends a sleep that has begun, which alone would last an hour.
func TestAlarmEndsALongSleep(t *testing.T) {
	s := newSleeper(t)
	for range 20 {
		// most likely it sleeps by then; the rule holds if it does not, too
		time.AfterFunc(5*time.Millisecond, s.Call)
		s.sleep()
	}
}
