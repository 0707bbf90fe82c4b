package engine_test

// This file tests that a step is bounded whatever a process, or a user with many of
// them, puts into the send queues (design idea 3: never a stall for another group).

import (
	"testing"

	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// retrievedInStep steps a card of its own once and returns how many packets of the
// processes it has retrieved.
func retrievedInStep(c *engine.Card, unsent func() int) int {
	before := unsent()
	c.Step(1)
	return before - unsent()
}

// Rule: a request that is refused counts like a packet: a queue full of them does not make
// a step longer than a queue full of messages (retrieveBatch).
func TestRefusedRequestsAreBounded(t *testing.T) {
	c, err := engine.New(soleCard())
	if err != nil {
		t.Fatal(err)
	}
	const slots = 4096
	mem, err := funi.NewMemory(slots)
	if err != nil {
		t.Fatal(err)
	}
	proc, err := funi.Initialize(mem)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = c.Attach(mem, 1, 0, jobTag); err != nil {
		t.Fatal(err)
	}
	for range slots - 1 {
		proc.Reserve(funi.Request).SetTransfer(0, 0, funi.Transfer{Source: 16, Destination: 16, Words: 20}) // of no segment
		proc.Commit(funi.Request)
	}
	if n := retrievedInStep(c, func() int { return proc.Unsent(funi.Request) }); n != 256 {
		t.Errorf("a step looked at %d of %d refused requests, not at 256", n, slots-1)
	}
	for now := int64(2); proc.Unsent(funi.Request) > 0; now++ {
		if next := c.Step(now); proc.Unsent(funi.Request) > 0 && next > now {
			t.Fatalf("the card waits until %d with %d requests unseen", next, proc.Unsent(funi.Request))
		}
	}
}

// Rule: contexts of one account share a batch, those of another have one of their own, and
// all that they send is delivered.
func TestAccountsShareABatch(t *testing.T) {
	for _, k := range []struct{ many, each int }{{1, 256}, {2, 256}, {4, 128}, {16, 32}, {64, 8}, {200, 8}} {
		cfg := soleCard()
		cfg.Routes = make([]uint32, k.many+1)
		c, err := engine.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		const slots = 512
		var procs []*funi.Interface
		for n := range k.many + 1 {
			mem, err := funi.NewMemory(slots)
			if err != nil {
				t.Fatal(err)
			}
			proc, err := funi.Initialize(mem)
			if err != nil {
				t.Fatal(err)
			}
			x, err := c.Attach(mem, 1, uint16(n), jobTag)
			if err != nil {
				t.Fatal(err)
			}
			id := uint32(7)
			if n == k.many {
				id = 8
			}
			c.Account(x, id)
			procs = append(procs, proc)
		}
		for n, proc := range procs {
			for range slots - 1 {
				s := proc.Reserve(funi.Request)
				s.SetHeader(funi.NewHeader(uint16(n), 5, 1)) // to itself
				proc.Commit(funi.Request)
			}
		}
		c.Step(1)
		for n, proc := range procs {
			want := k.each
			if n == k.many {
				want = 256
			}
			if got := slots - 1 - proc.Unsent(funi.Request); got != want {
				t.Errorf("%d contexts: context %d sent %d in the first step, not %d", k.many, n, got, want)
			}
			if got := proc.Arrived(funi.Request); got != want {
				t.Errorf("%d contexts: context %d received %d in the first step, not %d", k.many, n, got, want)
			}
		}
		for now := int64(2); now < 10000 && procs[0].Arrived(funi.Request) < slots-1; now++ {
			c.Step(now)
		}
		for n, proc := range procs {
			if got := proc.Arrived(funi.Request); got != slots-1 {
				t.Errorf("%d contexts: %d messages of %d arrived at context %d", k.many, got, slots-1, n)
			}
		}
	}
}

// soleCard is the configuration of a card without peers, on which node 0 is.
func soleCard() engine.Config {
	cfg := engine.Native()
	cfg.Incarnation, cfg.Routes = 1, []uint32{0}
	return cfg
}
