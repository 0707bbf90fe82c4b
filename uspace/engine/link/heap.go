package link

// This file is a binary heap by time: of the timers of peers, and of the holds of streams.

// seated is what a heap holds. It says when it is due, and where in the heap it is.
type seated interface {
	comparable
	when() int64
	place() *int32
}

// notTimed is the place of a peer that is in no heap.
const notTimed = -1

type heap[T seated] struct {
	of    []T
	first int64 // when the first is due, or Never
}

func (h *heap[T]) push(x T) {
	h.of = append(h.of, x)
	h.put(x, len(h.of)-1)
}

// put moves x, whose time is new, from place i to where it belongs.
func (h *heap[T]) put(x T, i int) {
	at := x.when()
	for i > 0 && h.of[(i-1)/2].when() > at {
		parent := h.of[(i-1)/2]
		h.of[i], *parent.place() = parent, int32(i)
		i = (i - 1) / 2
	}
	for {
		c := 2*i + 1
		if c+1 < len(h.of) && h.of[c+1].when() < h.of[c].when() {
			c++
		}
		if c >= len(h.of) || at <= h.of[c].when() {
			break
		}
		h.of[i], *h.of[c].place() = h.of[c], int32(i)
		i = c
	}
	h.of[i], *x.place() = x, int32(i)
	h.first = h.of[0].when()
}

func (h *heap[T]) remove(x T) {
	i, n := *x.place(), len(h.of)-1
	last := h.of[n]
	clear(h.of[n:])
	h.of, *x.place() = h.of[:n], notTimed
	if last != x {
		h.put(last, int(i))
	} else if n == 0 {
		h.first = Never
	}
}
