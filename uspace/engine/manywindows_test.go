package engine_test

// This file holds the rule of the largest table of windows.

import (
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// Rule: a context may ask for 65,536 windows when it is attached, and use the first, the last and
// those between. The card has a bounded number of bytes for each. It takes them when the context is
// attached, and none when operations come.
func TestMostWindows(t *testing.T) {
	const most, each = funi.MaxRemote, 96 // each: the most bytes of the card's for a window
	sizes := funi.RemoteSizes{KeySlots: most, Areas: 1, Notifications: 8}
	if (funi.RemoteSizes{KeySlots: 2 * most, Areas: 1, Notifications: 8}).Check() == nil {
		t.Error("a context may ask for 131,072 windows")
	}
	c := newCouple(t, 1024)
	c.cards[1].Detach(c.ctx[1])
	for range 100 {
		c.step()
	}
	mem, err := funi.NewMemory(1024)
	if err != nil {
		t.Fatal(err)
	}
	if err := mem.AddRemote(sizes); err != nil {
		t.Fatal(err)
	}
	if c.proc[1], err = funi.Initialize(mem); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if c.ctx[1], err = c.cards[1].Attach(mem, gid, 1, jobTag); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	took := after.TotalAlloc - before.TotalAlloc
	t.Logf("the card takes %d bytes for the context, %d for each window", took, took/most)
	if took > most*each {
		t.Errorf("the card takes %d bytes for the context, want at most %d", took, most*each)
	}
	r := &remoteCouple{couple: c}
	memory := make([]byte, 8*most)
	if err := c.ctx[1].Register(funi.Segment{Base: keyedAt, Memory: memory, Rights: funi.Keyed}); err != nil {
		t.Fatal(err)
	}
	const secret = 0x1234_5678_9abc_0000
	for _, n := range []uint32{0, 1, 1023, 1024, 32767, 32768, 65534, 65535} {
		r.commit(1, func(s *funi.Slot) {
			s.SetOpenWindow(&funi.Window{Key: secret | uint64(n), Base: keyedAt + 8*n, Bytes: 8, Address: windowAt,
				Rights: allRights}, 0)
		})
		for i := 0; c.proc[1].Unsent(funi.Request) > 0; i++ {
			if c.step(); i == 1000 {
				t.Fatal("the card does not take the block")
			}
		}
		if back, ok := c.proc[1].NextReturn(); ok {
			t.Fatalf("window %d is not opened: %v", n, back.Reason)
		}
		add := &funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteAdd, Element: arctic.Uint64,
			Key: secret | uint64(n), Address: windowAt, Bytes: 8, Operands: word(1), Fetch: true}}
		const warm = 200
		for range warm {
			r.perform(add)
		}
		if a := testing.AllocsPerRun(100, func() { r.perform(add) }); a != 0 {
			t.Errorf("an operation on window %d allocates %v times", n, a)
		}
		// AllocsPerRun does it once before it counts
		if v := binary.LittleEndian.Uint64(memory[8*n:]); v != warm+101 {
			t.Errorf("window %d has %d, want %d", n, v, warm+101)
		}
		clear(memory[8*n : 8*n+8])
	}
	for n, b := range memory {
		if b != 0 {
			t.Fatalf("byte %d has changed", n)
		}
	}
	if use, _ := c.ctx[1].Remote(); use.KeySlots != most || use.KeySlotsOpen != 8 {
		t.Errorf("%d of %d windows are open, want 8 of %d", use.KeySlotsOpen, use.KeySlots, most)
	}
}
