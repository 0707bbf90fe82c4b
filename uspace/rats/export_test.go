package rats

// This file lets tests see what is in use.

// InUse returns how many bytes of memory, areas, their credit, key slots and instances are in use.
func (m *Manager) InUse() [5]int {
	whole := len(m.heap.order)*leastBlock - leastBlock // but for what nobody writes to
	return [5]int{whole - m.heap.unused, len(m.owners) - m.areas.n, m.credit, len(m.keys) - m.keySlots.n, len(m.places) - len(m.vacant)}
}

// Heap is a heap, for tests.
type Heap struct{ heap }

// NewHeap makes all of memory free.
func NewHeap(memory []byte) *Heap {
	h := &Heap{}
	h.fill(memory)
	return h
}

func (h *Heap) Alloc(n int) []byte { return h.alloc(n) }
func (h *Heap) Release(b []byte)   { h.release(b) }
func (h *Heap) Unused() int        { return h.unused }

// Heard reports whether the sender's end is known.
func (r *Receiver) Heard() bool { return r.peer.Key != 0 }
