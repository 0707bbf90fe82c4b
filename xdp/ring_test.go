// Index arithmetic of the rings on memory of our own: the model is a slice, the
// kernel's part is played by the opposite ring type on the same memory.

package xdp

import (
	"math"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// fakeOffsets lays a ring out as struct xdp_ring does: indices on lines of their
// own, then the slots (net/xdp/xsk_queue.h).
var fakeOffsets = unix.XDPRingOffset{Producer: 0, Consumer: 64, Flags: 68, Desc: 128}

// fakeRing is the memory of a ring whose indices both stand at start.
func fakeRing[T any](slots, start uint32) ring[T] {
	var slot T
	words := make([]uint64, (128+uintptr(slots)*unsafe.Sizeof(slot))/8)
	r := newRing[T](unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8), fakeOffsets, slots)
	r.producer.Store(start)
	r.consumer.Store(start)
	r.prod, r.cons = start, start
	return r
}

// fakePair is a fill ring, as we see it, and the same memory as the kernel sees it.
func fakePair(slots, start uint32) (*FillRing, *CompletionRing) {
	r := fakeRing[uint64](slots, start)
	return &FillRing{r}, &CompletionRing{r}
}

// start draws an index, often one that is about to pass 2^32.
func start(t *rapid.T) uint32 {
	return rapid.OneOf(rapid.Uint32(), rapid.Uint32Range(math.MaxUint32-200, math.MaxUint32)).Draw(t, "start")
}

// Whatever the order and the sizes of the calls, the ring is a FIFO that never
// holds more than its slots, also when the indices pass 2^32 (af_xdp.rst, "Rings";
// xsk_queue.h: index arithmetic is modulo 2^32).
func TestRingIsBoundedFIFO(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := uint32(1) << rapid.IntRange(0, 6).Draw(t, "log2 slots")
		in, out := fakePair(slots, start(t))
		var model []uint64
		next := uint64(1)
		amount := rapid.Uint32Range(0, 2*slots+1)
		t.Repeat(map[string]func(*rapid.T){
			"produce": func(t *rapid.T) {
				n := amount.Draw(t, "n")
				got := in.Reserve(n)
				if want := min(n, slots-uint32(len(model))); got != want {
					t.Fatalf("Reserve(%d) = %d with %d of %d used, want %d", n, got, len(model), slots, want)
				}
				use := rapid.Uint32Range(0, got).Draw(t, "use")
				for i := range use {
					in.Set(i, next)
					model = append(model, next)
					next++
				}
				in.Submit(use)
			},
			"consume": func(t *rapid.T) {
				n := amount.Draw(t, "n")
				got := out.Peek(n)
				if got > n || int(got) > len(model) || got == 0 && n > 0 && len(model) > 0 {
					t.Fatalf("Peek(%d) = %d with %d used", n, got, len(model))
				}
				for i := range got {
					if out.At(i) != model[i] {
						t.Fatalf("entry %d is %d, want %d", i, out.At(i), model[i])
					}
				}
				use := rapid.Uint32Range(0, got).Draw(t, "use")
				out.Release(use)
				model = model[use:]
			},
			"look again": func(t *rapid.T) {
				n := amount.Draw(t, "n")
				if got := out.PeekMore(n); got != min(n, uint32(len(model))) {
					t.Fatalf("PeekMore(%d) = %d with %d used", n, got, len(model))
				}
			},
			"": func(t *rapid.T) {
				if int(in.Len()) != len(model) || int(out.Len()) != len(model) || in.Cap() != slots {
					t.Fatalf("Len %d and %d, Cap %d; want %d of %d", in.Len(), out.Len(), in.Cap(), len(model), slots)
				}
			},
		})
	})
}

// Descriptors pass through the rx and tx rings whole, in slots of 16 bytes (struct xdp_desc).
func TestDescriptorRings(t *testing.T) {
	if size := unsafe.Sizeof(Desc{}); size != 16 {
		t.Fatalf("Desc has %d bytes, struct xdp_desc has 16", size)
	}
	rapid.Check(t, func(t *rapid.T) {
		from := start(t)
		r := fakeRing[Desc](8, from)
		tx, rx := TxRing{r}, RxRing{r}
		for range 5 {
			want := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Desc {
				return Desc{rapid.Uint64().Draw(t, "addr"), rapid.Uint32().Draw(t, "len"),
					rapid.Uint32().Draw(t, "options")}
			}), 0, 8).Draw(t, "descs")
			n := tx.Reserve(uint32(len(want)))
			for i, d := range want {
				tx.Set(uint32(i), d)
			}
			tx.Submit(n)
			if got := rx.Peek(8); got != n || int(n) != len(want) {
				t.Fatalf("reserved %d, peeked %d of %d", n, got, len(want))
			}
			for i, d := range want {
				if got := rx.At(uint32(i)); got != d {
					t.Fatalf("descriptor %d is %+v, want %+v", i, got, d)
				}
			}
			rx.Release(n)
		}
	})
}

// A ring hands out nothing that is not there, whatever it is asked for and whatever the other side
// writes into its index: no panic, never more entries than slots.
func TestRingAgainstHostileIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const slots = 16
		from := start(t)
		in, out := fakePair(slots, from)
		for range 20 {
			in.consumer.Store(rapid.Uint32().Draw(t, "consumer"))
			out.producer.Store(rapid.Uint32().Draw(t, "producer"))
			n := rapid.Uint32().Draw(t, "n")
			if got := in.Reserve(n); got > slots {
				t.Fatalf("Reserve(%d) = %d of %d slots", n, got, slots)
			}
			if got := out.Peek(n); got > slots {
				t.Fatalf("Peek(%d) = %d of %d slots", n, got, slots)
			}
			i := rapid.Uint32().Draw(t, "i")
			in.Set(i, 1)
			out.At(i)
			in.Submit(n)
			out.Release(n)
			if in.prod-in.cons > slots || out.prod-out.cons > slots {
				t.Fatalf("indices %d-%d and %d-%d", in.prod, in.cons, out.prod, out.cons)
			}
			if in.Len() > slots || out.Len() > slots {
				t.Fatalf("Len %d and %d of %d", in.Len(), out.Len(), slots)
			}
		}
	})
}

// Submit and Release are cut to what was there, as their comments say.
func TestRingCutsExcess(t *testing.T) {
	in, out := fakePair(8, math.MaxUint32-2)
	in.Submit(100)
	if in.Len() != 8 {
		t.Fatalf("Submit(100) into 8 slots left Len %d", in.Len())
	}
	if n := in.Reserve(1); n != 0 {
		t.Fatalf("Reserve on a full ring = %d", n)
	}
	if n := out.Peek(100); n != 8 {
		t.Fatalf("Peek(100) = %d", n)
	}
	out.Release(100)
	if out.Len() != 0 || out.Peek(1) != 0 {
		t.Fatalf("Release(100) left Len %d", out.Len())
	}
}

// NeedWakeup is bit 0 of the flags word (XDP_RING_NEED_WAKEUP).
func TestRingNeedWakeup(t *testing.T) {
	in, _ := fakePair(8, 0)
	for flags, want := range map[uint32]bool{0: false, 1: true, 2: false, 3: true} {
		in.flags.Store(flags)
		if in.NeedWakeup() != want {
			t.Errorf("flags %#x: %v", flags, !want)
		}
	}
}

// BenchmarkRings is the cost of one frame through our side of two rings, in
// batches of 32: peek, read, release, reserve, write, submit.
func BenchmarkRings(b *testing.B) {
	in, out := fakePair(256, 0)
	var sum uint64
	for n := 0; n < b.N; n += 32 {
		got := in.Reserve(32)
		for i := range got {
			in.Set(i, uint64(i))
		}
		in.Submit(got)
		got = out.Peek(32)
		for i := range got {
			sum += out.At(i)
		}
		out.Release(got)
	}
	if sum == 1 {
		b.Fatal("unreachable: keeps the reads alive")
	}
}
