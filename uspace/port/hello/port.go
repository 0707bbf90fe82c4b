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
	// Queue returns the receive queue of the frames that were lent last; nil: it is not known.
	queue   func() uint16
	waiting [kept]waiting
	n       int
	dropped uint64
}

// waiting is a hello that has arrived.
type waiting struct {
	frame [longest]byte
	n     int
	queue uint16
}

// longest is what is kept of a hello: a later version's may be longer than Size.
const longest = 256

// NewPort makes a port around another. queue says which receive queue the frames that were lent last are of; nil: nobody
// knows.
func NewPort(inner port.Port, queue func() uint16) *Port {
	if queue == nil {
		queue = func() uint16 { return NoQueue }
	}
	return &Port{Port: inner, queue: queue}
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

// sift keeps the hellos among the frames, the first of which is at from, and returns how many others there are.
func (p *Port) sift(frames [][]byte, from int) int {
	n := from
	for _, b := range frames[from:] {
		switch {
		case !Is(b):
			frames[n] = b
			n++
		case p.n == kept || len(b) < Size:
			p.dropped++
		default:
			w := &p.waiting[p.n]
			w.n, w.queue = copy(w.frame[:], b), p.queue()
			p.n++
		}
	}
	return n
}
