package daemon_test

// This file tests what a daemon does about misses of windows and about accesses that they forbid
// (accesses.go; Tokyo, sections 2.1, 3.1 and 3.3).

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
)

// windowEnd is a process with windows.
type windowEnd struct {
	*rma.Endpoint
	t      *testing.T
	node   uint16
	client *attach.Client
	memory []byte
}

func newWindowEnd(t *testing.T, d *running, gid, node uint16, token attach.Token) *windowEnd {
	t.Helper()
	c, err := attach.Open(attach.Config{Socket: d.socket, GID: gid, Node: node, Slots: 64, Token: token,
		Remote: funi.RemoteSizes{KeySlots: 4, Areas: 1, Notifications: 64}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(0) })
	e := &windowEnd{t: t, node: node, client: c}
	end := time.Now().Add(patience)
	if e.Endpoint, err = rma.New(c.Interface(), rand.Reader, func() error {
		if c.Drive(); c.Err() == nil && time.Now().After(end) {
			return errors.New("not in time")
		}
		return c.Err()
	}); err != nil {
		t.Fatal(err)
	}
	s := funi.Segment{Base: 0x10000, Rights: funi.Keyed | funi.Source}
	if s.Memory, err = c.Segment(s.Base, 1<<16, s.Rights); err == nil {
		err = e.Use(s)
	}
	if err != nil {
		t.Fatal(err)
	}
	e.memory = s.Memory
	return e
}

func (e *windowEnd) exposes(o rma.Options) *rma.Window {
	e.t.Helper()
	w, err := e.Expose(e.memory[:64], o)
	if err != nil {
		e.t.Fatal(err)
	}
	return w
}

// adds adds 1 to a word, and waits for the answer.
func (e *windowEnd) adds(to rma.Target) error {
	e.t.Helper()
	id, err := e.Add(to, 1)
	if err == nil {
		_, err = e.Wait(id)
	}
	return err
}

// refused has operations refused, each for a reason.
func (e *windowEnd) refused(to rma.Target, times int, want arctic.Reason) {
	e.t.Helper()
	for range times {
		var r *rma.Error
		if err := e.adds(to); !errors.As(err, &r) || r.Reason != want {
			e.t.Fatalf("refused with %v, want %v", err, want)
		}
	}
}

// job makes a job on all daemons.
func windowJob(t *testing.T, cards []uint16, daemons ...*running) (gid uint16, token attach.Token) {
	t.Helper()
	token = attach.NewToken()
	for _, d := range daemons {
		got, err := dial(t, d.socket).Job(attach.JobRequest{GID: gid, Token: token, Cards: cards})
		if err != nil {
			t.Fatal(err)
		}
		gid = got
	}
	return gid, token
}

// faults waits until a daemon has counted so for a job.
func (r *running) faults(t *testing.T, gid uint16, want report.Faults) {
	t.Helper()
	var got report.Faults
	for end := time.Now().Add(patience); ; {
		for _, j := range r.status(t).Jobs {
			if j.GID == gid {
				got = j.Faults
			}
		}
		if got == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("counted for job %d: %+v, want %+v", gid, got, want)
		}
	}
}

// Rule: by default a daemon counts, for the job whose process it is, and suspends nothing, however
// much is refused; another job's counts stay 0. A packet for a node that the job does not have
// comes back at once. What a job has missed and was refused remains when its processes have ended.
func TestMissesAndRefusalsAreCounted(t *testing.T) {
	b := newBed(t)
	daemons := []*running{b.start(0, nil), b.start(1, nil)}
	gid, token := windowJob(t, []uint16{0, 1}, daemons...)
	other, otherToken := windowJob(t, []uint16{0, 1}, daemons...)
	owner, user, bystander := newWindowEnd(t, daemons[1], gid, 1, token), newWindowEnd(t, daemons[0], gid, 0, token),
		newWindowEnd(t, daemons[1], other, 1, otherToken)
	bystander.exposes(rma.Options{})
	w := owner.exposes(rma.Options{Rights: funi.RightRead | funi.RightAtomic | funi.RightNotify,
		Notifications: 1, Absent: true})
	to := w.Target(1)
	id, err := user.Add(to, 1)
	if err != nil {
		t.Fatal(err)
	}
	var n rma.Notification
	for end, ok := time.Now().Add(patience), false; !ok; owner.Poll() {
		user.client.Drive()
		owner.client.Drive()
		if ok = owner.Notification(&n); time.Now().After(end) {
			t.Fatal("the owner is not told")
		}
	}
	if !n.Absent || n.Node != 0 || n.Address != 0 {
		t.Errorf("the owner is told %+v", n)
	}
	daemons[1].faults(t, gid, report.Faults{Faults: engine.Faults{Missed: 1}})
	if err := owner.Resume(w); err != nil {
		t.Fatal(err)
	}
	if _, err := user.Wait(id); err != nil || binary.LittleEndian.Uint64(owner.memory) != 1 {
		t.Fatalf("when the window is back: %v, and there is %d", err, binary.LittleEndian.Uint64(owner.memory))
	}
	user.refused(to.At(64), 2000, arctic.ReasonRange)
	user.refused(rma.Target{Node: 1, Key: to.Key ^ 1<<40}, 3, arctic.ReasonKeySlot)
	user.refused(rma.Target{Node: 7, Key: to.Key}, 2, arctic.ReasonNoRoute)
	if err := user.adds(to); err != nil {
		t.Errorf("after refusals: %v", err)
	}
	want := report.Faults{Faults: engine.Faults{Missed: 1, Refused: 2003}}
	daemons[1].faults(t, gid, want)
	daemons[0].faults(t, gid, report.Faults{Faults: engine.Faults{NoRoute: 2}})
	daemons[1].faults(t, other, report.Faults{})
	if err := owner.client.Close(0); err != nil {
		t.Fatal(err)
	}
	daemons[1].faults(t, gid, want)
}

// Rule: with refused_accesses: suspend a window is suspended when one node's forbidden accesses to
// it were refused refused_limit times. Guessed keys do not count. The owner is told of the next
// node that wants the window. It brings the window back, and has it for connect_timeout without
// another suspension. An offender that goes on is refused, and holds up no other node.
func TestWindowIsSuspendedAfterRefusals(t *testing.T) {
	const limit = 5
	b := newBed(t)
	suspends := func(c *daemon.Config) { c.Accesses, c.RefusedLimit = config.SuspendWindows, limit }
	daemons := []*running{b.start(0, suspends), b.start(1, suspends)}
	gid, token := windowJob(t, []uint16{0, 1, 0}, daemons...)
	owner, offender, user := newWindowEnd(t, daemons[1], gid, 1, token), newWindowEnd(t, daemons[0], gid, 0, token),
		newWindowEnd(t, daemons[0], gid, 2, token)
	w := owner.exposes(rma.Options{Rights: funi.RightRead | funi.RightAtomic | funi.RightNotify, Notifications: 2})
	to := w.Target(1)
	offender.refused(rma.Target{Node: 1, Key: to.Key ^ 1<<40}, 4*limit, arctic.ReasonKeySlot)
	offender.refused(to.At(64), limit-1, arctic.ReasonRange)
	user.refused(to.At(64), limit-1, arctic.ReasonRange)
	if err := user.adds(to); err != nil {
		t.Fatalf("before one node has reached the limit: %v", err)
	}
	offender.refused(to.At(64), 1, arctic.ReasonRange)
	id, err := user.Add(to, 1)
	if err != nil {
		t.Fatal(err)
	}
	for end, told := time.Now().Add(patience), false; !told; owner.Poll() {
		user.client.Drive()
		owner.client.Drive()
		var n rma.Notification
		if told = owner.Notification(&n) && n.Absent && n.Node == 2; time.Now().After(end) {
			t.Fatal("the owner is not told of who wants the suspended window")
		}
	}
	if err := owner.Resume(w); err != nil {
		t.Fatal(err)
	}
	if _, err := user.Wait(id); err != nil {
		t.Fatal(err)
	}
	offender.refused(to.At(64), 3*limit, arctic.ReasonRange)
	if err := user.adds(to); err != nil {
		t.Errorf("beside an offender who goes on: %v", err)
	}
	daemons[1].faults(t, gid, report.Faults{Faults: engine.Faults{Missed: 1, Refused: 9*limit - 1}, Suspended: 1})
}
