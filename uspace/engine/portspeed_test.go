package engine_test

// This file is what ports of package virtni cost beside package rma and blocks of package funi, on
// the couple of direct_test.go.

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
	"github.com/funet/funet/uspace/virtni"
)

// ended is a remote couple whose process 0 has an endpoint or a port, and whose process 1 has a
// window.
type ended struct {
	*remoteCouple
	end    *rma.Endpoint
	port   *virtni.Port
	window rma.Target
	steps  int
	word   [8]byte
	v      virtni.VCI
}

func newEnded(t testing.TB, trigger bool) *ended {
	t.Helper()
	e := &ended{remoteCouple: &remoteCouple{couple: newSizedCouple(t, 1024,
		funi.RemoteSizes{KeySlots: 2, Areas: 1, Notifications: 1024})}}
	for i := range e.proc {
		e.memory[i] = make([]byte, 1<<16)
		if err := e.ctx[i].Register(funi.Segment{Base: keyedAt, Memory: e.memory[i],
			Rights: funi.Keyed | funi.Source}); err != nil {
			t.Fatal(err)
		}
	}
	random := rand.NewChaCha8([32]byte{1})
	drive := func() error { e.steps++; e.step(); return nil }
	far, err := rma.New(e.proc[1], random, drive)
	if err != nil {
		t.Fatal(err)
	}
	if err := far.Use(funi.Segment{Base: keyedAt, Memory: e.memory[1], Rights: funi.Keyed | funi.Source}); err != nil {
		t.Fatal(err)
	}
	w, err := far.Expose(e.memory[1], rma.Options{Rights: allRights})
	if err != nil {
		t.Fatal(err)
	}
	e.window = w.Target(1)
	if trigger {
		ports, err := virtni.Open(random, drive, e.proc[0])
		if err != nil {
			t.Fatal(err)
		}
		e.port = ports[0]
		e.v = virtni.VCI{Target: virtni.Target{VPID: 1, Window: uint16(w.Key), Capability: uint64(w.Key) >> 16},
			Words: make([]uint64, 1)}
		return e
	}
	if e.end, err = rma.New(e.proc[0], random, drive); err != nil {
		t.Fatal(err)
	}
	return e
}

// rate puts n words, as `funet bench rma` does.
func (e *ended) rate(t testing.TB, n int) {
	for i := range n {
		at := uint64(8 * (i % 1024))
		var err error
		if e.port == nil {
			binary.NativeEndian.PutUint64(e.word[:], uint64(i))
			_, err = e.end.PutNow(e.window.At(at), e.word[:], rma.With{})
		} else {
			v := e.v
			v.Address, v.Words[0] = e.v.Address+at, uint64(i)
			if err = e.port.FastPut(&v); err == nil && e.port.Unissued() >= funi.MaxIssue {
				_, _, err = e.port.Issue(funi.MaxIssue)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if e.port == nil {
		err = e.end.Quiet()
	} else {
		err = e.port.Quiet()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// BenchmarkPortRate is words put by a port; BenchmarkEndRate by an endpoint.
func BenchmarkPortRate(b *testing.B) { benchmarkRate(b, true) }
func BenchmarkEndRate(b *testing.B)  { benchmarkRate(b, false) }

func benchmarkRate(b *testing.B, trigger bool) {
	e := newEnded(b, trigger)
	e.rate(b, 10000)
	b.ReportAllocs()
	e.steps = 0
	b.ResetTimer()
	e.rate(b, b.N)
	b.ReportMetric(float64(e.steps)/float64(b.N), "steps/op")
}

// BenchmarkPutRate is the same by blocks of package funi.
func BenchmarkPutRate(b *testing.B) {
	c := newRemoteCouple(b)
	var n funi.Notification
	p := funi.Put{Key: theKey, Counted: true, Count: 1, Data: make([]byte, 8)}
	steps := 0
	b.ResetTimer()
	for i := range b.N {
		p.Offset = uint32(8 * (i % 1024))
		if p.Count = 1; i == b.N-1 {
			p.Count = -uint32(i)
		}
		s := c.proc[0].Reserve(funi.Request)
		for s == nil {
			c.step()
			steps++
			s = c.proc[0].Reserve(funi.Request)
		}
		s.SetPut(1, &p)
		c.proc[0].Commit(funi.Request)
	}
	for !c.proc[1].NextNotification(&n) {
		c.step()
		steps++
	}
	b.ReportMetric(float64(steps)/float64(b.N), "steps/op")
}

// Rule: endpoints and ports do not allocate on their data path, as the engine does not (doc.go).
func TestPortsDoNotAllocate(t *testing.T) {
	for _, trigger := range []bool{false, true} {
		e := newEnded(t, trigger)
		e.rate(t, 2000)
		if n := testing.AllocsPerRun(10, func() { e.rate(t, 1000) }); n != 0 {
			t.Errorf("1,000 puts allocate %v times; by triggers: %v", n, trigger)
		}
		e.add(t)
		if n := testing.AllocsPerRun(100, func() { e.add(t) }); n != 0 {
			t.Errorf("an addition allocates %v times; by triggers: %v", n, trigger)
		}
	}
}

// add adds to a word, and waits for the result.
func (e *ended) add(t testing.TB) {
	var err error
	if e.port == nil {
		var id rma.ID
		if id, err = e.end.Add(e.window, 1); err == nil {
			_, err = e.end.Wait(id)
		}
	} else {
		v := e.v
		v.Addend = 1
		var n virtni.Notification
		if err = e.port.FetchAndAdd(&v); err == nil {
			if _, _, err = e.port.Issue(1); err == nil {
				err = e.port.Wait(&n)
			}
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// BenchmarkPortAdd is a fetch-and-add by a port, BenchmarkEndAdd by an endpoint.
func BenchmarkPortAdd(b *testing.B) { benchmarkAdd(b, true) }
func BenchmarkEndAdd(b *testing.B)  { benchmarkAdd(b, false) }

func benchmarkAdd(b *testing.B, trigger bool) {
	e := newEnded(b, trigger)
	e.add(b)
	b.ReportAllocs()
	e.steps = 0
	b.ResetTimer()
	for range b.N {
		e.add(b)
	}
	b.ReportMetric(float64(e.steps)/float64(b.N), "steps/op")
}
