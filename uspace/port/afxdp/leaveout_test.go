package afxdp

// This file tests queues that are left out.

import (
	"testing"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/xdp"
)

// Rule: no frame leaves on a queue that is left out, but those that name it; the last one is never
// left out; and a queue that is taken in again carries what it did before.
func TestLeaveOut(t *testing.T) {
	a, b := pair(t, lab.Options{Queues: 3}, Config{Attach: xdp.AttachNative})
	if a.QueueCount() != 3 {
		t.Fatalf("%d queues", a.QueueCount())
	}
	send := func() (sent [3]uint64) {
		t.Helper()
		before := a.Queues()
		exchange(t, a, b, mixture(a, 60), 20)
		frame := make([]byte, 100)
		for flow := range uint32(12) {
			flowFrame(frame, b, a, 0, flow, 0)
			copy(a.Reserve(), frame)
			a.Commit(len(frame))
			a.Flush()
		}
		for i, q := range a.Queues() {
			sent[i] = q.Sent - before[i].Sent
		}
		list := make([][]byte, maxLent)
		for n := 0; n < 12; {
			n += b.Receive(list)
			b.Release()
		}
		return sent
	}
	if n := send(); n[0] == 0 || n[1] == 0 || n[2] == 0 {
		t.Fatalf("at first: %v", n)
	}
	if !a.LeaveOut(1) || a.LeaveOut(1) || a.LeaveOut(3) || a.LeaveOut(-1) {
		t.Error("left out what is not there, or twice")
	}
	if n := send(); n[0] == 0 || n[1] != 0 || n[2] == 0 {
		t.Errorf("without queue 1: %v", n)
	}
	if s := a.Queues()[1]; s.Sends != LeftOut {
		t.Errorf("%+v", s)
	}
	frame := make([]byte, 100)
	compose(frame, b, a, 7)
	before := a.Queues()[1].Sent
	if !a.SendOn(1, frame) || a.Queues()[1].Sent != before+1 {
		t.Error("a frame that names the queue did not leave on it")
	}
	list := make([][]byte, maxLent)
	for b.Receive(list) == 0 {
		b.Release()
	}
	b.Release()
	if !a.LeaveOut(0) || a.LeaveOut(2) {
		t.Error("the last queue is left out")
	}
	if n := send(); n[0] != 0 || n[1] != 0 || n[2] == 0 {
		t.Errorf("on queue 2 alone: %v", n)
	}
	if !a.TakeIn(1) || a.TakeIn(1) || !a.TakeIn(0) || a.TakeIn(2) || a.TakeIn(3) || a.TakeIn(-1) {
		t.Error("taken in what was not left out, or not what was")
	}
	for i, q := range a.sends {
		if q.number != i {
			t.Errorf("place %d has queue %d", i, q.number)
		}
	}
	if n := send(); n[0] == 0 || n[1] == 0 || n[2] == 0 || a.Queues()[1].Sends == LeftOut {
		t.Errorf("again: %v", n)
	}
}
