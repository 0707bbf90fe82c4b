package rats_test

import (
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/rats"
)

// Rule (heap.go): blocks that are handed out lie in the memory, apart from each other, and have
// room for what was asked for; when all are free again, all memory lies together, as at the
// beginning.
func TestHeap(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		memory := make([]byte, rapid.IntRange(0, 1<<16).Draw(r, "memory"))
		h := rats.NewHeap(memory)
		all := h.Unused()
		if want := len(memory) &^ 255; all != want {
			r.Fatalf("%d bytes of %d are free", all, want)
		}
		base := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
		var held [][]byte
		owner := make([]int, len(memory))
		for step := 1; step < 200; step++ {
			if len(held) > 0 && rapid.Bool().Draw(r, "free") {
				i := rapid.IntRange(0, len(held)-1).Draw(r, "which")
				b := held[i]
				at := int(uintptr(unsafe.Pointer(unsafe.SliceData(b))) - base)
				clear(owner[at : at+cap(b)])
				h.Release(b)
				held = append(held[:i], held[i+1:]...)
				continue
			}
			n := rapid.IntRange(1, 1<<14).Draw(r, "bytes")
			b := h.Alloc(n)
			if b == nil {
				continue
			}
			at := int(uintptr(unsafe.Pointer(unsafe.SliceData(b))) - base)
			if len(b) != n || at < 0 || at+cap(b) > len(memory) {
				r.Fatalf("%d bytes at %d of %d, for %d", len(b), at, len(memory), n)
			}
			for i := at; i < at+cap(b); i++ {
				if owner[i] != 0 {
					r.Fatalf("byte %d belongs to block %d as well", i, owner[i])
				}
				owner[i] = step
			}
			held = append(held, b)
		}
		for _, b := range held {
			h.Release(b)
		}
		if h.Unused() != all {
			r.Fatalf("%d bytes of %d are free at the end", h.Unused(), all)
		}
		for most := 1 << 16; most >= 256; most /= 2 {
			if all&most != 0 && len(memory)&^255 >= most {
				if h.Alloc(most) == nil {
					r.Fatalf("no block of %d bytes is free at the end, of %d", most, all)
				}
				break
			}
		}
	})
}

// Rule: memory that was not handed out cannot be freed; that would give it to two.
func TestHeapRefuses(t *testing.T) {
	h := rats.NewHeap(make([]byte, 4096))
	part, b := h.Alloc(600)[256:], h.Alloc(300)
	h.Release(b)
	for name, wrong := range map[string][]byte{"twice": b, "a part": part, "another's": make([]byte, 256)} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("memory was freed: %s", name)
				}
			}()
			h.Release(wrong)
		}()
	}
}
