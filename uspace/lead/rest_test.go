package lead

// This file tests what ends a sleep, with an eventfd in place of the card's descriptor.

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func restForTest(t *testing.T) (*rest, int) {
	t.Helper()
	card, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRest(card)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
		_ = unix.Close(card)
	})
	return r, card
}

// Each of the three ends a sleep, whatever ended the one before: time, the card, a call.
func TestWhatEndsASleep(t *testing.T) {
	r, card := restForTest(t)
	for range 3 {
		if !r.ready() {
			t.Fatal("nobody has called")
		}
		r.sleep(2 * ringsAlike)
		if !r.ready() {
			t.Fatal("nobody has called")
		}
		if _, err := unix.Write(card, []byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
			t.Fatal(err)
		}
		r.sleep(0)
		if _, err := unix.Read(card, make([]byte, 8)); err != nil {
			t.Fatal(err)
		}
		if !r.ready() {
			t.Fatal("nobody has called")
		}
		called := make(chan struct{})
		go func() { r.call(); close(called) }()
		r.sleep(time.Hour)
		<-called
		r.alarm.Disarm() // the call may have come after the end of the sleep that it ended
	}
}

// A timer that has rung ends no sleep that has another time or none, also if it rang soon after the
// start; one that is to ring at the same time is left as it is.
func TestTimerOfASleep(t *testing.T) {
	r, _ := restForTest(t)
	rung := func() bool {
		fds := []unix.PollFd{{Fd: int32(r.timer), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return err == nil && n > 0
	}
	for _, most := range []time.Duration{0, time.Hour} {
		r.start = time.Now() // so that it rings within ringsAlike of it
		r.rings = 0
		r.sleep(1)
		if !rung() {
			t.Fatal("the sleep ended before its time")
		}
		if err := r.ring(most); err != nil || rung() {
			t.Errorf("ring(%v) after a sleep that has ended: %v, rung %v", most, err, rung())
		}
	}
	at := r.rings
	if err := r.ring(at - time.Since(r.start)); err != nil || r.rings != at {
		t.Errorf("the timer was set to %v anew, %v from then: %v", r.rings, r.rings-at, err)
	}
	if err := r.ring(time.Minute); err != nil || r.rings >= at {
		t.Errorf("the timer rings at %v, not sooner than %v: %v", r.rings, at, err)
	}
}
