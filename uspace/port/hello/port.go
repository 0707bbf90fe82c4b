package hello

// This file has the ports of a Station. They look at one byte of each frame that has arrived, which
// the engine is about to read anyway. They keep hellos back until the Station is stepped.

import "github.com/funet/funet/uspace/port"

// kept is the most hellos that wait between two steps; further ones are dropped.
const kept = 64

// Port is a port that hands its hellos to a Station; it implements port.Port. It belongs to the
// goroutine of its card.
type Port struct {
	port.Port
	queues  func() Queues
	waiting [kept]waiting
	n       int
	dropped uint64
	arrived uint64 // all hellos, dropped ones too
}

type waiting struct {
	frame [longest]byte
	n     int
	queue uint16
}

// longest is the most bytes of a hello that are kept. A hello of a later version may be longer than
// Size.
const longest = 256

// Queues are the queues of an interface. Package afxdp implements them.
type Queues interface {
	QueueCount() int // returns the number of queues
	// LentBy returns the queue on which the frames of the last Receive arrived, or -1 if there were
	// none.
	LentBy() int
	// SendOn sends a frame on a queue, or reports that it could not.
	SendOn(queue int, frame []byte) bool
	Answered(queue int) // notes that a peer has answered a frame that left on the queue
	// LeaveOut has other frames leave on the other queues, if there are any. TakeIn ends that. Both
	// report whether they changed anything.
	LeaveOut(queue int) bool
	TakeIn(queue int) bool
}

// NewPort makes a port around another. queues returns the queues of the port's interface, or nil
// while the port has no interface. If queues itself is nil, the port's queues cannot be told apart.
func NewPort(inner port.Port, queues func() Queues) *Port {
	if queues == nil {
		queues = func() Queues { return nil }
	}
	return &Port{Port: inner, queues: queues}
}

// lentBy returns the queue of the frames that were lent last, or NoQueue.
func (p *Port) lentBy() uint16 {
	if q := p.queues(); q != nil {
		if n := q.LentBy(); n >= 0 {
			return uint16(n)
		}
	}
	return NoQueue
}

// Receive lends the frames of the port inside that are not hellos. It may return 0 although more
// frames wait.
func (p *Port) Receive(frames [][]byte) int {
	n := p.Port.Receive(frames)
	for i, b := range frames[:n] {
		if Is(b) {
			return p.sift(frames[:n], i)
		}
	}
	return n
}

// sift keeps the hellos among the frames and returns the number of other frames. from is the index
// of the first hello.
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
