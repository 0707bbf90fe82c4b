package sim

// This file tests clusters of modelled machines against thesis chapter 6.

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/apps"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/topology"
)

// profile loads an embedded profile.
func profile(t *testing.T, name string) *hwprofiles.Profile {
	t.Helper()
	p, err := hwprofiles.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// paced runs a program on all nodes of a modelled cluster.
func paced(t *testing.T, nodes, slots int, program func(p *Process, e *am.Endpoint) error) *Cluster {
	t.Helper()
	k, err := NewPacedCluster(profile(t, "sbus-arctic"), nodes, slots, func(p *Process) error {
		e, err := p.Endpoint(nodes)
		if err != nil {
			return err
		}
		return program(p, e)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	if err := k.Finish(time.Second); err != nil {
		t.Fatal(err)
	}
	return k
}

// Rule: a message of four words takes what row cmam_4 of Table 6.1 says, within 6 %: that
// is the row with which the model's choices were made. Two runs are the same run.
func TestPacedCMAM4(t *testing.T) {
	var hashes [2]uint64
	for i := range hashes {
		var rows []apps.CMAMRow
		k := paced(t, 32, 256, func(p *Process, e *am.Endpoint) error {
			r, err := apps.CMAM(e, p.Segment, p.Now, apps.CMAMOptions{Messages: 200})
			if e.Node() == 0 {
				rows = r
			}
			return err
		})
		hashes[i] = k.Hash()
		want := map[string]float64{"send_tp": 219.4, "send_ovhd": 113.2, "recv_tp": 348.2, "recv_ovhd": 221.3,
			"round_trip": 1160.8}
		for _, r := range rows {
			if cycles := r.Nanoseconds / 25; r.Name == "cmam_4" && math.Abs(cycles/want[r.Measure]-1) > 0.06 {
				t.Errorf("%s takes %.1f cycles, Table 6.1 says %.1f", r.Measure, cycles, want[r.Measure])
			}
		}
		if len(rows) != 53 {
			t.Errorf("%d rows, Table 6.1 has 53", len(rows))
		}
	}
	if hashes[0] != hashes[1] {
		t.Error("two runs of the same program differ")
	}
}

// Rule: the processor's time passes for the program (6.1.1). A send queue that is full makes it
// wait. It cannot send faster than the bus moves a message: two bursts of four words, three stores
// of two and one of one.
func TestPacedFullQueue(t *testing.T) {
	const messages, slots = 300, 8
	const bus = 2*920 + 3*760 + 680
	paced(t, 2, slots, func(p *Process, e *am.Endpoint) error {
		got := 0
		if err := e.Handle(0, func(*am.Message) { got++ }); err != nil {
			return err
		}
		begin := p.Now()
		if e.Node() == 0 {
			for range messages {
				if err := e.Post4(1, 0, 1, 2, 3, 4); err != nil {
					return err
				}
			}
			if took := p.Now() - begin; took < (messages-slots)*bus {
				t.Errorf("%d messages left in %d ns, in which the bus moves %d", messages-slots, took, took/bus)
			}
			return nil
		}
		return e.Wait(func() bool { return got == messages })
	})
}

// Rule: a receiver that handles nothing fills its queue and its card's FIFO, and the
// others' packets wait in their caches (thesis 2.9): rejects, and every message arrives
// once when it goes on.
func TestPacedRejects(t *testing.T) {
	const nodes, each, slots = 8, 40, 16
	k := paced(t, nodes, slots, func(p *Process, e *am.Endpoint) error {
		var got [nodes][each]int
		if err := e.Handle(0, func(m *am.Message) { got[m.Source][m.Words[0]]++ }); err != nil {
			return err
		}
		if e.Node() != 0 {
			for i := range uint32(each) {
				if err := e.Post4(0, 0, i, 0, 0, 0); err != nil {
					return err
				}
			}
			for !e.Retrieved(funi.Request) {
				if _, err := e.Poll(); err != nil {
					return err
				}
			}
			return nil
		}
		p.Sleep(1_000_000)
		left := 0
		if err := e.Wait(func() bool {
			left = 0
			for _, from := range got[1:] {
				for _, n := range from {
					if n == 0 {
						left++
					}
				}
			}
			return left == 0
		}); err != nil {
			return err
		}
		for source, from := range got[1:] {
			for i, n := range from {
				if n != 1 {
					t.Errorf("message %d of node %d arrived %d times", i, source+1, n)
				}
			}
		}
		return nil
	})
	if n := k.Cards()[0].Engine().Counters().RejectsSent; n == 0 {
		t.Error("a full FIFO rejected nothing")
	}
}

// Rule: each figure of the profile's units takes effect (thesis chapter 5). The unit is busy that
// much longer with each packet, twice in a round trip. That is exact to within the time that card
// and processor otherwise wait for each other on the bus.
func TestPacedUnits(t *testing.T) {
	roundTrip := func(change func(*hwprofiles.Units)) (ns int64) {
		p := *profile(t, "sbus-arctic")
		change(&p.Units)
		k, err := NewPacedCluster(&p, 2, 16, func(p *Process) error {
			e, err := p.Endpoint(2)
			if err != nil {
				return err
			}
			got := 0
			if err := e.Handle(0, func(*am.Message) { got++ }); err != nil {
				return err
			}
			if e.Node() == 1 {
				for n := 1; n <= 2; n++ {
					if err := errors.Join(e.Wait(func() bool { return got == n }),
						e.Post4(0, 0, 1, 2, 3, 4)); err != nil {
						return err
					}
				}
				return nil
			}
			for n := 1; n <= 2; n++ { // in the first the cards meet
				begin := p.Now()
				if err := errors.Join(e.Post4(1, 0, 1, 2, 3, 4), e.Wait(func() bool { return got == n })); err != nil {
					return err
				}
				ns = p.Now() - begin
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		if err := k.Finish(time.Second); err != nil {
			t.Fatal(err)
		}
		return ns
	}
	const cycles, look = 500, 6000 // of 40 ns; ns
	plain := roundTrip(func(*hwprofiles.Units) {})
	for name, change := range map[string]func(*hwprofiles.Units){
		"retrieval":  func(u *hwprofiles.Units) { u.RetrievalCycles = cycles * hwprofiles.Cycle },
		"dispatch":   func(u *hwprofiles.Units) { u.DispatchCycles = cycles * hwprofiles.Cycle },
		"delivery":   func(u *hwprofiles.Units) { u.DeliveryCycles = cycles * hwprofiles.Cycle },
		"transmit":   func(u *hwprofiles.Units) { u.TransmitCycles = cycles * hwprofiles.Cycle },
		"preprocess": func(u *hwprofiles.Units) { u.PreprocessCycles = cycles * hwprofiles.Cycle },
	} {
		more := roundTrip(change) - plain
		if want := int64(2 * cycles * 40); name != "transmit" && (more < want-look || more > want+look) {
			t.Errorf("%s: a round trip takes %d ns longer, want %d", name, more, want)
			// acknowledgments, too, occupy the transmitter
		} else if more < want-look || more > 2*want+look {
			t.Errorf("%s: a round trip takes %d ns longer, want %d to %d", name, more, want, 2*want)
		}
	}
}

// Rule: acknowledgments and packets take the words that they had on Arctic (Bare): a
// packet of six words is nine with its network header, and its acknowledgment three.
func TestBareFrames(t *testing.T) {
	top, err := topology.Hypercube(8, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	for bare, want := range map[bool]int32{false: 20 + 9, true: 9} {
		w := NewWorld(Options{})
		a, err := w.NewArctic(top, ArcticConfig{Bare: bare})
		if err != nil {
			t.Fatal(err)
		}
		p := a.Port(0)
		b := p.Reserve()
		(&arctic.Header{Route: 1}).Encode(b)
		p.Commit(arctic.HeaderSize + 9*4)
		if got := a.flits[0].words; got != want {
			t.Errorf("bare %v: the packet has %d words, want %d", bare, got, want)
		}
	}
}

// Rule: a profile without a machine to model is refused, and so are more nodes than the
// network has places for.
func TestPacedRefused(t *testing.T) {
	if _, err := NewPacedCluster(profile(t, "native"), 2, 16, nil); err == nil {
		t.Error("the native profile was simulated as a machine")
	}
	if _, err := NewPacedCluster(profile(t, "sbus-arctic"), 1<<12, 16, nil); err == nil {
		t.Error("a network for 4096 nodes was made of routers of 8 ports")
	}
}
