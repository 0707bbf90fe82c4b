package funi_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// Rule: a process may write any word of its register page and of the doorbells at any
// time, while the card runs (design idea 3). The card loads and stores each of them
// whole, so that the race detector has nothing to say, does not panic, and serves the
// others on it. The return ring, whose entries are the card's until it has stored the
// head, and the slots are memory like any other and are left out.
func TestScribblersRaceTheCard(t *testing.T) {
	cfg := engine.Native()
	cfg.Incarnation, cfg.Routes = 1, []uint32{0, 0}
	cfg.Doorbells = new(funi.Doorbells)
	card, err := engine.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	join := func(gid, node uint16) (*funi.Memory, *funi.Interface) {
		t.Helper()
		m, err := funi.NewMemory(16)
		if err != nil {
			t.Fatal(err)
		}
		i, err := funi.Initialize(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := card.Attach(m, gid, node, 0); err != nil {
			t.Fatal(err)
		}
		return m, i
	}
	hostile, _ := join(1, 0)
	_, from := join(2, 0)
	_, to := join(2, 1)
	var stop atomic.Bool
	var scribbler sync.WaitGroup
	scribbler.Go(func() {
		r := rand.New(rand.NewPCG(1, 2))
		value := func() uint32 {
			return []uint32{r.Uint32(), uint32(r.IntN(64)), 0, funi.UserModes, ^uint32(0)}[r.IntN(5)]
		}
		for !stop.Load() {
			atomic.StoreUint32(&hostile.Page[r.IntN(0x800/4)], value())
			switch d := hostile.Doorbells; r.IntN(4) {
			case 0:
				atomic.StoreUint64(&d.Summary, uint64(value())<<r.IntN(33))
			case 1:
				atomic.StoreUint64(&d.Bells[r.IntN(len(d.Bells))], 0)
			}
		}
	})
	defer scribbler.Wait()
	defer stop.Store(true)
	now := int64(0)
	step := func() {
		if now++; now%64 == 0 {
			card.Doze()
		}
		card.Step(now)
		card.Rouse()
	}
	const messages = 3000
	sent := 0
	for got, tries := 0, 0; got < messages; tries++ {
		if tries > 100*messages {
			t.Fatalf("%d of %d messages of another group", got, messages)
		}
		if s := from.Reserve(funi.Request); s != nil && sent < messages {
			s.SetHeader(funi.NewHeader(1, 5, 1))
			s[funi.PayloadWord] = uint32(sent)
			from.Commit(funi.Request)
			sent++
		}
		step()
		for s := to.Receive(funi.Request); s != nil; s = to.Receive(funi.Request) {
			// Within a card they keep their order.
			if s.Source() != 0 || s.Payload()[0] != uint32(got) {
				t.Fatalf("message %d: %#x from node %d", got, s.Payload(), s.Source())
			}
			to.Release(funi.Request)
			got++
		}
	}
}
