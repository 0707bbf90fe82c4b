package engine_test

// This file is what remote writes cost the engine, on the couple of direct_test.go.

import (
	"testing"

	"github.com/funet/funet/uspace/funi"
)

// remoteCouple is a couple in which each process has a key slot and an area, and memory to send from.
type remoteCouple struct {
	*couple
	memory [2][]byte
}

func newRemoteCouple(t testing.TB) *remoteCouple {
	t.Helper()
	c := &remoteCouple{couple: newCouple(t, 1024)}
	for i := range c.proc {
		c.memory[i] = make([]byte, 1<<16)
		if err := c.ctx[i].Register(funi.Segment{Base: keyedAt, Memory: c.memory[i], Rights: funi.Keyed | funi.Source}); err != nil {
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

// BenchmarkPutStep is BenchmarkPingPongStep with 16 bytes written each way and a notification of each.
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
