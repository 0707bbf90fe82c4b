package funi_test

// This file holds the rules of the return ring.

import (
	"testing"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

func returned(n int) funi.Returned {
	return funi.Returned{Reason: arctic.Reason(1 + n%200), Level: funi.Level(n % 2),
		Header: funi.NewHeader(uint16(n), 1, n%22), Word: uint32(n)}
}

// Rule: the ring holds 64 returns in order; further ones are only counted, and
// once there is room again it goes on (doc.go).
func TestReturnRing(t *testing.T) {
	i, c, _ := pair(t, 2)
	if r, ok := i.NextReturn(); ok {
		t.Fatalf("a fresh ring holds %+v", r)
	}
	serial, lost := 0, uint32(0)
	for lap := range 5 {
		first := serial
		for range funi.ReturnSlots + lap {
			c.Return(returned(serial))
			serial++
		}
		lost += uint32(lap)
		if i.ReturnsLost() != lost {
			t.Fatalf("%d returns lost, want %d", i.ReturnsLost(), lost)
		}
		for n := range funi.ReturnSlots {
			r, ok := i.NextReturn()
			if !ok || r != returned(first+n) {
				t.Fatalf("return %d is %+v (%v), want %+v", n, r, ok, returned(first+n))
			}
		}
		if r, ok := i.NextReturn(); ok {
			t.Fatalf("an emptied ring holds %+v", r)
		}
	}
}

// Rule: start-up begins with empty queues (thesis 3.1.2: writing a BASE zeroes
// its indices), and so with an empty return ring: memory that an earlier context
// used shows none of its returns and takes new ones.
func TestReturnRingAfterSecondStart(t *testing.T) {
	_, c, m := pair(t, 2)
	for n := range funi.ReturnSlots + 3 {
		c.Return(returned(n))
	}
	i, err := funi.Initialize(m)
	if err != nil {
		t.Fatal(err)
	}
	if r, ok := i.NextReturn(); ok {
		t.Fatalf("a return of the earlier life before the card attached: %+v", r)
	}
	if c, err = funi.Attach(m); err != nil {
		t.Fatal(err)
	}
	if n := i.ReturnsLost(); n != 0 {
		t.Fatalf("%d returns of the earlier life count as lost", n)
	}
	c.Return(returned(9))
	if r, ok := i.NextReturn(); !ok || r != returned(9) {
		t.Fatalf("first return of the second life is %+v (%v), want %+v", r, ok, returned(9))
	}
}

// Rule: the same holds for the start-up of a context that its card has powered up, also
// one that was reset and starts again (thesis 3.1.2 RESET, 3.2.1).
func TestReturnRingAfterPowerUp(t *testing.T) {
	_, c, m := pair(t, 2)
	for n := range funi.ReturnSlots + 3 {
		c.Return(returned(n))
	}
	for _, power := range []func(){func() { c = funi.NewCard(m) }, func() {}} {
		power()
		i, err := funi.Start(m, 2, func() error {
			c.PutControl(m.Page.Load(funi.Control), funi.UserModes|funi.CSQR|funi.CRQR)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if r, ok := i.NextReturn(); ok {
			t.Fatalf("a return of the earlier life: %+v", r)
		}
		if n := i.ReturnsLost(); n != 0 {
			t.Fatalf("%d returns of the earlier life count as lost", n)
		}
		for n := range funi.ReturnSlots {
			c.Return(returned(n))
		}
		for n := range funi.ReturnSlots {
			if r, ok := i.NextReturn(); !ok || r != returned(n) {
				t.Fatalf("return %d of the second life is %+v (%v), want %+v", n, r, ok, returned(n))
			}
		}
		for n := range 5 { // not taken before the next life
			c.Return(returned(n))
		}
	}
}
