package sim

// This file is the event queue: what happens when, in virtual time. Events of the
// same time happen in the order in which they were put in.

// Never is a time that does not come.
const Never = 1<<63 - 1

// actor is what an event happens to.
type actor interface {
	// happen lets the event happen that push announced with the argument. It returns
	// false when the actor no longer wants it, so that it does not count.
	happen(token, arg uint64) bool
}

const (
	slotBits = 22
	// maxPending is the most events that wait at a time; one more panics, because a
	// world that has so many is not what anybody meant.
	maxPending = 1 << slotBits
	slotMask   = maxPending - 1
)

// node is one event in the heap. Order is the serial number of the event in its
// upper bits, which keeps events of the same time in order and tells two events
// apart for ever, and the index of its slot in its lower ones.
type node struct {
	at    int64
	order uint64
}

func (a node) before(b node) bool { return a.at < b.at || a.at == b.at && a.order < b.order }

// queue is a heap of events, four children to a node. The heap itself holds no
// pointers, so that moving events about costs the garbage collector nothing.
type queue struct {
	heap   []node
	slots  []slot
	free   []uint32
	serial uint64
}

// slot is to whom an event happens, and what else there is to say.
type slot struct {
	actor actor
	arg   uint64
}

// push lets an event happen to the actor and returns its token. Events are not
// taken back: an actor that has changed its mind remembers the token it wants.
func (q *queue) push(at int64, a actor, arg uint64) uint64 {
	var i uint32
	if n := len(q.free); n > 0 {
		i = q.free[n-1]
		q.free = q.free[:n-1]
		q.slots[i] = slot{a, arg}
	} else {
		if len(q.slots) == maxPending {
			panic("sim: more than 4 million events wait")
		}
		i = uint32(len(q.slots))
		q.slots = append(q.slots, slot{a, arg})
	}
	q.serial++
	n := node{at, q.serial<<slotBits | uint64(i)}
	q.heap = append(q.heap, n)
	q.up(n, len(q.heap)-1)
	return n.order
}

// up puts n in at leaf i.
func (q *queue) up(n node, i int) {
	for i > 0 {
		parent := (i - 1) / 4
		if !n.before(q.heap[parent]) {
			break
		}
		q.heap[i] = q.heap[parent]
		i = parent
	}
	q.heap[i] = n
}

// pop takes out the first event; there must be one.
func (q *queue) pop() (node, slot) {
	first := q.heap[0]
	last := len(q.heap) - 1
	n := q.heap[last]
	q.heap = q.heap[:last]
	if last > 0 {
		q.down(n)
	}
	i := uint32(first.order & slotMask)
	s := q.slots[i]
	q.slots[i] = slot{}
	q.free = append(q.free, i)
	return first, s
}

// down puts n in at the root.
func (q *queue) down(n node) {
	h, i := q.heap, 0
	for {
		child := 4*i + 1
		if child >= len(h) {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, len(h)); c++ {
			if h[c].before(h[least]) {
				least = c
			}
		}
		if !h[least].before(n) {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = n
}

// next returns when the first event happens, or Never.
func (q *queue) next() int64 {
	if len(q.heap) == 0 {
		return Never
	}
	return q.heap[0].at
}

// action is an event that is a function; see World.At.
type action func()

func (a action) happen(uint64, uint64) bool { a(); return true }
