package engine_test

// This file is what remote writes cost the engine, on the couple of direct_test.go.

import (
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// remoteCouple is a couple in which each process has a key slot and an area, and memory to send
// from.
type remoteCouple struct {
	*couple
	memory [2][]byte
}

func newRemoteCouple(t testing.TB) *remoteCouple {
	t.Helper()
	c := &remoteCouple{couple: newCouple(t, 1024)}
	for i := range c.proc {
		c.memory[i] = make([]byte, 1<<16)
		if err := c.ctx[i].Register(funi.Segment{Base: keyedAt, Memory: c.memory[i],
			Rights: funi.Keyed | funi.Source}); err != nil {
			t.Fatal(err)
		}
		c.commit(i, func(s *funi.Slot) { s.SetOpenKeySlot(theKey, keyedAt, 1<<16, 0) })
		c.commit(i, func(s *funi.Slot) { s.SetOpenArea(0, theKey, 1, false, 0) })
	}
	c.step()
	return c
}

func (c *remoteCouple) commit(node int, compose func(*funi.Slot)) {
	compose(c.proc[node].Reserve(funi.Request))
	c.proc[node].Commit(funi.Request)
}

// roundTrip writes to process 1, which writes back as much when it is notified.
func (c *remoteCouple) roundTrip(put *funi.Put) {
	var n funi.Notification
	for from := range 2 {
		s := c.proc[from].Reserve(funi.Request)
		s.SetPut(uint16(1-from), put)
		c.proc[from].Commit(funi.Request)
		for !c.proc[1-from].NextNotification(&n) {
			c.step()
		}
	}
}

var (
	shortPut = &funi.Put{Key: theKey, Counted: true, Data: make([]byte, 16)}
	longPut  = &funi.Put{Key: theKey, Counted: true, Source: keyedAt, Length: 16 << 10, Metadata: []uint32{1, 2}}
)

// Rule: nothing on the data path allocates (doc.go): a write of a packet, and one of many.
func TestPutsDoNotAllocate(t *testing.T) {
	c := newRemoteCouple(t)
	for range 200 {
		c.roundTrip(shortPut)
		c.roundTrip(longPut)
	}
	if n := testing.AllocsPerRun(100, func() { c.roundTrip(shortPut) }); n != 0 {
		t.Errorf("a round trip of 16 bytes allocates %v times", n)
	}
	if n := testing.AllocsPerRun(100, func() { c.roundTrip(longPut) }); n != 0 {
		t.Errorf("a round trip of 16 KiB allocates %v times", n)
	}
}

// BenchmarkPutStep is BenchmarkPingPongStep with 16 bytes written each way and a notification of
// each.
func BenchmarkPutStep(b *testing.B) {
	c := newRemoteCouple(b)
	b.ReportAllocs()
	for b.Loop() {
		c.roundTrip(shortPut)
	}
}

// BenchmarkLongPutStep is the same with 16 KiB.
func BenchmarkLongPutStep(b *testing.B) {
	c := newRemoteCouple(b)
	b.ReportAllocs()
	for b.Loop() {
		c.roundTrip(longPut)
	}
}

// perform sends an operation from process 0 to a window of process 1, and waits until it is
// complete.
func (c *remoteCouple) perform(o *funi.Operation) {
	s := c.proc[0].Reserve(funi.Request)
	s.SetOperation(1, o)
	c.proc[0].Commit(funi.Request)
	var n funi.Notification
	for !c.proc[0].NextNotification(&n) {
		c.step()
	}
	if n.Reason != arctic.ReasonNone {
		panic(n.Reason)
	}
}

// newWindowCouple is a remote couple in which process 1 has a window.
func newWindowCouple(t testing.TB) *remoteCouple {
	c := newRemoteCouple(t)
	c.commit(1, func(s *funi.Slot) {
		s.SetOpenWindow(&funi.Window{Key: otherKey, Base: keyedAt, Bytes: 1 << 16, Rights: allRights}, 0)
	})
	c.step()
	return c
}

var operations = map[string]*funi.Operation{
	"put": {WindowRequest: arctic.WindowRequest{Key: otherKey, Bytes: 8, Operands: make([]byte, 8), Ack: true}},
	"get": {WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteGet, Key: otherKey}, Length: 8},
	"add": {WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteAdd, Element: arctic.Uint64, Key: otherKey,
		Bytes: 8, Operands: make([]byte, 8), Fetch: true}},
	"get 64k": {WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteGet, Key: otherKey}, Source: keyedAt,
		Length: 1 << 16},
	"put 64k": {WindowRequest: arctic.WindowRequest{Key: otherKey, Ack: true,
		Trailer: arctic.Trailer{Set: true, Key: otherKey}}, Source: keyedAt, Length: 1 << 16},
}

// Rule: nothing on the data path of operations allocates (doc.go).
func TestOperationsDoNotAllocate(t *testing.T) {
	c := newWindowCouple(t)
	for name, o := range operations {
		for range 200 {
			c.perform(o)
		}
		if n := testing.AllocsPerRun(100, func() { c.perform(o) }); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

// BenchmarkOperationStep is what operations cost both engines, to the completion. Compare with
// BenchmarkPingPongStep.
func BenchmarkOperationStep(b *testing.B) {
	for name, o := range operations {
		b.Run(name, func(b *testing.B) {
			c := newWindowCouple(b)
			b.ReportAllocs()
			for b.Loop() {
				c.perform(o)
			}
		})
	}
}

// BenchmarkAccept measures the receiving card alone, for each frame: of remote writes of 64 KiB,
// and of transfers of as much. ns/frame is what counts; the time of an operation has both cards in
// it.
func BenchmarkAccept(b *testing.B) {
	for _, remote := range []bool{true, false} {
		name := map[bool]string{true: "write", false: "transfer"}[remote]
		b.Run(name, func(b *testing.B) {
			c := newRemoteCouple(b)
			for i, x := range c.ctx {
				if err := x.Register(funi.Segment{Base: 0x4000_0000, Memory: make([]byte, 1<<16),
					Rights: funi.Destination | funi.Source}); err != nil {
					b.Fatal(i, err)
				}
			}
			var n funi.Notification
			frames, took := uint64(0), time.Duration(0)
			for b.Loop() {
				c.commit(0, func(s *funi.Slot) {
					if remote {
						s.SetPut(1, &funi.Put{Key: theKey, Counted: true, Source: keyedAt, Length: 1 << 16})
					} else {
						s.SetTransfer(1, 1, funi.Transfer{Source: 0x4000_0000, Destination: 0x4000_0000, Argument: 9,
							Words: 1 << 14})
					}
				})
				for done := false; !done; {
					c.now += int64(time.Microsecond)
					c.cards[0].Step(c.now)
					before := c.cards[1].Counters().FramesReceived
					begin := time.Now()
					c.cards[1].Step(c.now)
					spent := time.Since(begin)
					if got := c.cards[1].Counters().FramesReceived - before; got > 0 {
						frames, took = frames+got, took+spent
					}
					if remote {
						done = c.proc[1].NextNotification(&n)
					} else if done = c.proc[1].Receive(funi.Request) != nil; done {
						c.proc[1].Release(funi.Request)
					}
				}
			}
			b.ReportMetric(float64(took.Nanoseconds())/float64(frames), "ns/frame")
		})
	}
}
