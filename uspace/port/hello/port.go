package hello

// This file is the ports: they look at one byte of each frame that has arrived, which the engine is about to read
// anyway, and keep hellos back until the Station is stepped.

import "github.com/funet/funet/uspace/port"

// kept is how many hellos wait between two steps; more are dropped.
const kept = 64

// Port is a port whose hellos a Station gets; it implements port.Port. It belongs to the goroutine of
// its card.
type Port struct {
	port.Port
	queues  func() Queues
	waiting [kept]waiting
	n       int
	dropped uint64
	arrived uint64 // all of them
}

// waiting is a hello that has arrived.
type waiting struct {
	frame [longest]byte
	n     int
	queue uint16
}

// longest is how many bytes of a hello are kept: one of a later version may be longer than Size.
const longest = 256

// Queues are those of an interface, as package afxdp has them.
type Queues interface {
	// QueueCount returns how many there are.
	QueueCount() int
	// LentBy returns which one the frames of the last Receive came in on, -1 if none.
	LentBy() int
	// SendOn sends a frame on one, or reports that it could not.
	SendOn(queue int, frame []byte) bool
	// Answered notes that a peer got a frame that left on one.
	Answered(queue int)
	// LeaveOut has other frames leave on the others, unless there are none; TakeIn ends that. They report whether
	// that was otherwise before.
	LeaveOut(queue int) bool
	TakeIn(queue int) bool
}

// NewPort makes a port around another. queues returns the queues of the interface that it is on, nil if it is on none
// at the moment; without the function it has no queues that anybody could tell apart.
func NewPort(inner port.Port, queues func() Queues) *Port {
	if queues == nil {
		queues = func() Queues { return nil }
	}
	return &Port{Port: inner, queues: queues}
}

// lentBy is the queue of the frames that were lent last.
func (p *Port) lentBy() uint16 {
	if q := p.queues(); q != nil {
		if n := q.LentBy(); n >= 0 {
			return uint16(n)
		}
	}
	return NoQueue
}

// Receive lends frames of the port inside that are no hellos. There may be more where it returns none.
func (p *Port) Receive(frames [][]byte) int {
	n := p.Port.Receive(frames)
	for i, b := range frames[:n] {
		if Is(b) {
			return p.sift(frames[:n], i)
		}
	}
	return n
}

// sift keeps the hellos among the frames, from index from on, where the first is, and returns how many other frames there are.
func (p *Port) sift(frames [][]byte, from int) int {
	n := from
	for _, b := range frames[from:] {
		switch {
		case !Is(b):
			frames[n] = b
			n++
		case p.n == kept || len(b) < Size:
			p.dropped++
			p.arrived++
		default:
			w := &p.waiting[p.n]
			w.n, w.queue = copy(w.frame[:], b), p.lentBy()
			p.n++
			p.arrived++
		}
	}
	return n
}
