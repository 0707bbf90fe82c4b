package scoreboard

// This file has requests, and the queues that hold them.

// Type is what a request does. It belongs to the ordering key, and decides the request's way.
type Type uint8

// The types (thesis 2.3.1, 2.4.1).
const (
	Send Type = iota
	Put
	Get
	Atomic
)

// ThreeStaged reports whether a responder answers the request: the work flow of figure 2.5. Send
// and Put end in a completer of the target (figure 2.4).
func (t Type) ThreeStaged() bool { return t >= Get }

// Key is an ordering key (thesis 3.2.6). Requests with equal keys are processed in order.
type Key struct {
	Context     uint16 // the VPID that the unit switches to
	Destination uint16 // the other card
	Type        Type
}

// Request is work for a unit: a process's request, or a packet that came over the network. Serial
// is its owner's.
type Request struct {
	Key
	Serial uint32
}

// ring is a queue of requests with a bound.
type ring struct {
	of    []Request
	first int
	n     int
}

func newRing(size int) ring { return ring{of: make([]Request, size)} }

// at returns the place of the request that has i requests before it.
func (r *ring) at(i int) *Request {
	if i += r.first; i >= len(r.of) {
		i -= len(r.of)
	}
	return &r.of[i]
}

// push adds a request at the end. It returns false if the ring is full.
func (r *ring) push(q Request) bool {
	if r.n == len(r.of) {
		return false
	}
	*r.at(r.n) = q
	r.n++
	return true
}

// remove takes out the request that has i requests before it, at the cost of moving these.
func (r *ring) remove(i int) (q Request) {
	q = *r.at(i)
	for ; i > 0; i-- {
		*r.at(i) = *r.at(i - 1)
	}
	if r.first++; r.first == len(r.of) {
		r.first = 0
	}
	r.n--
	return q
}

// has reports whether one of the requests has the key.
func (r *ring) has(k Key) bool {
	for i := range r.n {
		if r.at(i).Key == k {
			return true
		}
	}
	return false
}
