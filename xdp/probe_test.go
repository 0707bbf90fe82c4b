// Probe on interfaces whose answers are known, and that it leaves no trace.

package xdp

import (
	"errors"
	"testing"
)

func (l *lab) probe(host int) (c Capabilities) {
	l.t.Helper()
	l.in(host, func() {
		var err error
		c, err = Probe(labInterface)
		must(l.t, err)
	})
	return c
}

func wantTrials(t *testing.T, want Trial, got map[string]Trial) {
	t.Helper()
	for name, trial := range got {
		if trial.Answer != want.Answer || !errors.Is(trial.Err, want.Err) ||
			(trial.Err == nil) != (trial.Answer == Yes) {
			t.Errorf("%s: %s, %v; want %s, %v", name, trial.Answer, trial.Err, want.Answer, want.Err)
		}
	}
}

// A veth has everything but zero-copy.
func TestProbeVeth(t *testing.T) {
	l := newLab(t, labOptions{queues: 3, mtu: 1400})
	for range 2 { // a second time, to see that the first left nothing
		c := l.probe(0)
		if c.Interface != labInterface || c.Index != l.index[0] || c.MTU != 1400 || !c.Up || c.RxQueues != 3 ||
			c.TxQueues != 3 || c.Program != 0 {
			t.Errorf("%+v", c)
		}
		wantTrials(t, Trial{Answer: Yes}, map[string]Trial{"native": c.Native, "native with frags": c.NativeFrags,
			"generic": c.Generic, "copy": c.Copy,
			"need-wakeup": c.NeedWakeup, "multi-buffer": c.MultiBuffer, "busy-poll": c.BusyPoll})
		wantTrials(t, Trial{No, ErrNotSupported}, map[string]Trial{"zero-copy": c.ZeroCopy})
		if id, _ := l.attached(0); id != 0 {
			t.Fatalf("Probe left program %d", id)
		}
	}
	l.openPort(0, portConfig{}) // the queue is free
	l.in(0, func() {
		if n, err := Queues(labInterface); n != 3 || err != nil {
			t.Errorf("Queues: %d, %v", n, err)
		}
		_, err := Queues("nosuch0")
		wantError(t, err, ErrNoInterface)
	})
}

// With an MTU above a page only a program with frags attaches natively.
func TestProbeJumbo(t *testing.T) {
	c := newLab(t, labOptions{mtu: 9000}).probe(0)
	wantTrials(t, Trial{Answer: Yes}, map[string]Trial{"native with frags": c.NativeFrags, "generic": c.Generic})
	wantTrials(t, Trial{No, ErrNotSupported}, map[string]Trial{"native": c.Native})
}

// An interface with a program is left alone: traffic goes on, nothing is tried.
func TestProbeLeavesProgramAlone(t *testing.T) {
	l, src, dst := oneWay(t, labOptions{}, portConfig{}, portConfig{}, AttachNative)
	dst.fill(64)
	before, _ := l.attached(1)
	c := l.probe(1)
	if after, mode := l.attached(1); before != after || mode != AttachNative || c.Program != before || before == 0 {
		t.Fatalf("program %d before, %d found, %d (%s) after", before, c.Program, after, mode)
	}
	wantTrials(t, Trial{Unknown, ErrProgramAttached},
		map[string]Trial{"native": c.Native, "native with frags": c.NativeFrags, "generic": c.Generic,
			"copy": c.Copy, "zero-copy": c.ZeroCopy, "need-wakeup": c.NeedWakeup, "multi-buffer": c.MultiBuffer,
			"busy-poll": c.BusyPoll})
	must(t, src.send(testFrame(0, 1, 64)))
	dst.receive(1)
}

// What could not be tried is not answered: binding needs a link that is up, and a
// queue that is free.
func TestProbeUnknown(t *testing.T) {
	c := newLab(t, labOptions{down: true}).probe(0)
	if c.Up {
		t.Fatal("up")
	}
	wantTrials(t, Trial{Answer: Yes}, map[string]Trial{"native": c.Native, "generic": c.Generic})
	wantTrials(t, Trial{Unknown, ErrNetDown}, map[string]Trial{"copy": c.Copy, "zero-copy": c.ZeroCopy,
		"need-wakeup":  c.NeedWakeup,
		"multi-buffer": c.MultiBuffer, "busy-poll": c.BusyPoll})

	l := newLab(t, labOptions{})
	l.openPort(0, portConfig{})
	impatient(t)
	c = l.probe(0)
	wantTrials(t, Trial{Unknown, ErrBusy}, map[string]Trial{"copy": c.Copy, "zero-copy": c.ZeroCopy,
		"need-wakeup":  c.NeedWakeup,
		"multi-buffer": c.MultiBuffer, "busy-poll": c.BusyPoll})

	_, err := Probe("nosuch0")
	wantError(t, err, ErrNoInterface)
}
