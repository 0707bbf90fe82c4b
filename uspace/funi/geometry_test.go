package funi_test

// This file holds the rules of queue geometry: what is accepted, what is refused.

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/funi"
)

const (
	queueCount = 4
	slotBytes  = funi.SlotWords * 4
)

var (
	bases   = []funi.Register{funi.RPSQBase, funi.RQSQBase, funi.RPRQBase, funi.RQRQBase}
	indices = []funi.Register{funi.RPSQHead, funi.RPSQTail, funi.RQSQHead, funi.RQSQTail, funi.RPRQHead, funi.RPRQTail,
		funi.RQRQHead, funi.RQRQTail}
)

func memory(t testing.TB, slots int) *funi.Memory {
	t.Helper()
	m, err := funi.NewMemory(slots)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// pair returns both ends of a fresh context.
func pair(t testing.TB, slots int) (*funi.Interface, *funi.Card, *funi.Memory) {
	t.Helper()
	m := memory(t, slots)
	i, err := funi.Initialize(m)
	if err != nil {
		t.Fatal(err)
	}
	c, err := funi.Attach(m)
	if err != nil {
		t.Fatal(err)
	}
	return i, c, m
}

// Rule: a queue has 2 to 64K slots, in powers of two (thesis 3.1.1).
func TestSlotsArePowersOfTwo(t *testing.T) {
	for n := 1; n <= 16; n++ {
		i, _, m := pair(t, 1<<n)
		if i.Slots() != 1<<n || m.Page.Load(funi.QMask) != 1<<n-1 {
			t.Errorf("asked for %d slots, got %d with Q_MASK %#x", 1<<n, i.Slots(), m.Page.Load(funi.QMask))
		}
	}
	for _, n := range []int{-1 << 63, -2, -1, 0, 1, 3, 5, 6, 7, 1<<16 - 1, 1<<16 + 1, 1 << 17, 1<<63 - 1} {
		if _, err := funi.NewMemory(n); !errors.Is(err, funi.ErrSlots) {
			t.Errorf("NewMemory(%d): %v, want ErrSlots", n, err)
		}
	}
}

// Rule: start-up divides the memory evenly and zeroes heads and tails (thesis
// 3.2.1, 3.1.2); memory that does not divide into four legal queues is refused.
func TestInitialize(t *testing.T) {
	m := memory(t, 8)
	for _, r := range indices {
		m.Page.Store(r, 5)
	}
	if _, err := funi.Initialize(m); err != nil {
		t.Fatal(err)
	}
	for _, r := range indices {
		if v := m.Page.Load(r); v != 0 {
			t.Errorf("index register %d is %d after start-up", r, v)
		}
	}
	for i, r := range bases {
		if v := m.Page.Load(r); v != uint32(i*8*slotBytes) {
			t.Errorf("base register %d is %#x, want %#x", r, v, i*8*slotBytes)
		}
	}
	for _, words := range []int{0, 1, queueCount*funi.SlotWords - 1, queueCount * funi.SlotWords,
		3 * queueCount * funi.SlotWords, 1 << 17 * queueCount * funi.SlotWords} {
		if _, err := funi.Initialize(&funi.Memory{Page: new(funi.Page), Queues: make([]uint32, words)}); !errors.Is(err,
			funi.ErrSlots) {
			t.Errorf("start-up in %d words of queue memory: %v, want ErrSlots", words, err)
		}
	}
}

// Rule: the card refuses every Q_MASK that is not one less than a power of two
// from 2 to 64K, and every queue that does not lie in the memory (Attach).
func TestAttachRefusesGeometry(t *testing.T) {
	const slots = 4
	fresh := func() *funi.Memory {
		m := memory(t, slots)
		if _, err := funi.Initialize(m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	for _, mask := range []uint32{0, 2, 4, 5, 6, 8, 0xfffe, 0x10000, 0x1ffff, 0x7fffffff, 0x80000000,
		0xfffffffe, 0xffffffff} {
		m := fresh()
		m.Page.Store(funi.QMask, mask)
		if _, err := funi.Attach(m); !errors.Is(err, funi.ErrSlots) {
			t.Errorf("Q_MASK %#x: %v, want ErrSlots", mask, err)
		}
	}
	// legal, but four of them are longer than the memory
	for _, mask := range []uint32{7, 0xff, 0xffff} {
		m := fresh()
		m.Page.Store(funi.QMask, mask)
		if _, err := funi.Attach(m); !errors.Is(err, funi.ErrLayout) {
			t.Errorf("Q_MASK %#x: %v, want ErrLayout", mask, err)
		}
	}
	last := uint32((queueCount - 1) * slots * slotBytes) // where the last queue that fits starts
	for _, r := range bases {
		for _, base := range []uint32{last + slotBytes, last + slotBytes*slots, 0x7fffff80, 0x80000000,
			0xffffff80, 0xffffffff} {
			m := fresh()
			m.Page.Store(r, base)
			if _, err := funi.Attach(m); !errors.Is(err, funi.ErrLayout) {
				t.Errorf("base register %d at %#x: %v, want ErrLayout", r, base, err)
			}
		}
		m := fresh()
		m.Page.Store(r, last+slotBytes-1) // truncated for alignment (thesis 3.1.2)
		if _, err := funi.Attach(m); err != nil {
			t.Errorf("base register %d at %#x: %v, want it truncated to 32 words", r, last+slotBytes-1, err)
		}
	}
}

// Rule: any geometry is either refused with a sentinel error or lies in the
// memory (Attach); nothing panics.
func TestAnyGeometry(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &funi.Memory{Page: new(funi.Page), Queues: make([]uint32, rapid.IntRange(0, 4096).Draw(t, "words"))}
		mask := rapid.OneOf(rapid.SampledFrom([]uint32{0, 1, 3, 7, 15, 31}), rapid.Uint32())
		base := rapid.OneOf(rapid.Uint32Range(0, 17000), rapid.Uint32())
		m.Page.Store(funi.QMask, mask.Draw(t, "mask"))
		for _, r := range bases {
			m.Page.Store(r, base.Draw(t, "base"))
		}
		c, err := funi.Attach(m)
		if err != nil {
			if !errors.Is(err, funi.ErrSlots) && !errors.Is(err, funi.ErrLayout) {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		for l := range funi.Level(2) {
			for i := range 64 {
				c.Slot(l, i)[funi.SlotWords-1]++
			}
		}
	})
}
