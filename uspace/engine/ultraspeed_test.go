package engine_test

// This file measures lines on paths, and checks that they allocate nothing.

import (
	"testing"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// pathCouple is a couple with a path each way.
type pathCouple struct {
	*couple
	to   [2]funi.PathSender
	from [2]funi.PathReceiver
}

func newPathCouple(t testing.TB) *pathCouple {
	t.Helper()
	c := &pathCouple{couple: newCouple(t, 64)}
	var ends []testEnd
	for i := range 2 {
		to, from := endOf(t, c.ctx[i], 0), endOf(t, c.ctx[i], 64)
		c.proc[i].Reserve(funi.Request).SetOpenPath(uint16(1-i), to.address, 0, 0)
		c.proc[i].Commit(funi.Request)
		c.proc[i].Reserve(funi.Request).SetOpenPath(uint16(1-i), from.address, 64, 0)
		c.proc[i].Commit(funi.Request)
		ends = append(ends, to, from)
		c.to[i], c.from[i] = c.proc[i].SendsOn(to.Path), c.proc[i].ReceivesOn(from.Path)
	}
	for i := range ends {
		for n := 0; stateOf(ends[i]) != funi.PathOpen; n++ {
			if c.step(); n > 1000 {
				t.Fatal("a path was not opened")
			}
		}
	}
	return c
}

// roundTrip sends a line of seven words to process 1 and waits for its answer.
func (c *pathCouple) roundTrip() {
	line := [arctic.MaxPathWords]uint64{1, 2, 3, 4, 5, 6, 7}
	var got [arctic.MaxPathWords]uint64
	c.to[0].Send(0, line[:])
	for {
		c.step()
		if _, ok := c.from[1].Receive(&got); ok {
			c.to[1].Send(0, got[:])
		}
		if _, ok := c.from[0].Receive(&got); ok {
			if _, answered := c.to[0].Answer(); got != line || !answered {
				panic("a line is damaged, or was not answered")
			}
			return
		}
	}
}

// Rule: nothing on the data path of ULTRA allocates (doc.go).
func TestPathsDoNotAllocate(t *testing.T) {
	c := newPathCouple(t)
	for range 200 {
		c.roundTrip()
	}
	if n := testing.AllocsPerRun(100, c.roundTrip); n != 0 {
		t.Errorf("a round trip allocates %v times", n)
	}
}

// BenchmarkPathStep is BenchmarkPingPongStep with a line of 56 bytes each way.
func BenchmarkPathStep(b *testing.B) {
	c := newPathCouple(b)
	b.ReportAllocs()
	for b.Loop() {
		c.roundTrip()
	}
}
