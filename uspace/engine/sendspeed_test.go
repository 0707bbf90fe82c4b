package engine_test

// This file has what messages into receive rings cost the engines of both ends.

import (
	"testing"

	"github.com/funet/funet/uspace/funi"
)

// sendCouple is a couple whose processes send each other messages into rings.
type sendCouple struct {
	*remoteCouple
	ring [2]*funi.RingReader
}

const (
	coupleRing   = 1 << 15 // bytes at the end of the memory
	coupleMemory = 1 << 16
)

func newSendCouple(t testing.TB) *sendCouple {
	t.Helper()
	c := &sendCouple{remoteCouple: newRemoteCouple(t)}
	for i := range c.proc {
		c.commit(i, func(s *funi.Slot) {
			s.SetOpenReceive(&funi.Receive{Mode: funi.ReceiveRing, Base: keyedAt + coupleMemory - coupleRing,
				Bytes: coupleRing, Credit: 4}, 0)
		})
		c.ring[i] = funi.NewRingReader(coupleRing)
	}
	c.step()
	return c
}

// roundTrip sends a message to process 1, which sends as much back when it has it.
func (c *sendCouple) roundTrip(m *funi.SendRequest) {
	var n funi.Notification
	for from := range 2 {
		c.commit(from, func(s *funi.Slot) { s.SetSend(uint16(1-from), m) })
		for !c.proc[1-from].NextNotification(&n) {
			c.step()
		}
		if n.Kind != funi.NoteReceive {
			continue
		}
		if units := c.ring[1-from].Done(&n.Message); units > 0 {
			c.proc[1-from].Reserve(funi.Reply).SetGiveReceive(units, 0)
			c.proc[1-from].Commit(funi.Reply)
		}
	}
}

var messages = map[string]*funi.SendRequest{
	"fast":  {Data: make([]byte, 40)},
	"block": {Source: keyedAt, Length: 1000},
	"long":  {Source: keyedAt, Length: 12 << 10},
}

// Rule: nothing on the data path allocates (doc.go): a message in its entry, one of a block, and
// one of many packets.
func TestSendsDoNotAllocate(t *testing.T) {
	c := newSendCouple(t)
	for name, m := range messages {
		for range 200 {
			c.roundTrip(m)
		}
		if n := testing.AllocsPerRun(100, func() { c.roundTrip(m) }); n != 0 {
			t.Errorf("%s: a round trip allocates %v times", name, n)
		}
	}
}

// BenchmarkSendStep is BenchmarkPutStep with messages.
func BenchmarkSendStep(b *testing.B) {
	for name, m := range messages {
		b.Run(name, func(b *testing.B) {
			c := newSendCouple(b)
			b.ReportAllocs()
			for b.Loop() {
				c.roundTrip(m)
			}
		})
	}
}
