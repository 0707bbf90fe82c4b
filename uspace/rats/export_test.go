package rats

// This file lets tests see what is in use.

import "github.com/funet/funet/uspace/funi"

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

// Unsent is how many requests the card has not retired.
func (m *Manager) Unsent() int { return m.iface.Unsent(funi.Request) }
