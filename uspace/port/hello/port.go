package hello

// This file has the ports of a Station. The port of an interface inside may be taken out, and
// another put in, so that a card runs on while its interface goes away and comes back. A Port looks
// at one byte of each frame that has arrived, which the engine is about to read anyway. It keeps
// hellos back until the Station is stepped.

import "github.com/funet/funet/uspace/port"

// kept is the most hellos that wait between two steps; further ones are dropped.
const kept = 64

// Port is a port that hands its hellos to a Station; it implements port.Port. It belongs to the
// goroutine of its card, which also calls Plug.
type Port struct {
	port.Port        // the port inside, or nowhere
	queues    Queues // of the port inside; nil: they cannot be told apart
	nowhere   nowhere
	waiting   [kept]waiting
	n         int
	due       *int64 // of the Station
	dropped   uint64
	arrived   uint64 // all hellos, dropped ones too
}

// nowhere is the port inside while there is no other. Its frames are lost, and none arrive. The
// card can live with that, and waits neither for the port nor for room. Packets to peers that stay
// silent end with an error, as always.
type nowhere struct {
	frame []byte
	lost  uint64
}

func (n *nowhere) FrameSize() int       { return len(n.frame) }
func (n *nowhere) Receive([][]byte) int { return 0 }
func (n *nowhere) Release()             {}
func (n *nowhere) Reserve() []byte      { return n.frame }
func (n *nowhere) Commit(int)           { n.lost++ }
func (n *nowhere) Flush()               {}

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

// NewPort makes a port around another. No port that replaces it may send longer frames.
func NewPort(inner port.Port) *Port {
	p := &Port{nowhere: nowhere{frame: make([]byte, inner.FrameSize())}, due: new(int64)}
	p.Plug(inner)
	return p
}

// Plug replaces the port inside; nil leaves none. The port that was inside before may be closed
// once the card has taken another step. Until then the card may read frames that it was lent.
func (p *Port) Plug(inner port.Port) {
	if inner == nil {
		p.nowhere.frame = p.nowhere.frame[:p.FrameSize()]
		inner = &p.nowhere
	}
	p.Port = inner
	p.queues, _ = inner.(Queues)
}

// Lost returns how many frames were sent while there was no port inside.
func (p *Port) Lost() uint64 { return p.nowhere.lost }

// Receive lends the frames of the port inside that are not hellos. It may return 0 although more
// frames wait.
func (p *Port) Receive(frames [][]byte) int {
	n := p.Port.Receive(frames)
	k := 0
	for i, b := range frames[:n] {
		if len(b) > versionAt && b[versionAt] == Version {
			p.keep(b)
			continue
		}
		if k != i {
			frames[k] = b
		}
		k++
	}
	return k
}

// keep keeps a hello for the next step of the Station.
func (p *Port) keep(b []byte) {
	p.arrived++
	if p.n == kept || len(b) < Size {
		p.dropped++
		return
	}
	w := &p.waiting[p.n]
	p.n++
	*p.due = 0
	w.n, w.queue = copy(w.frame[:], b), NoQueue
	if p.queues != nil {
		if n := p.queues.LentBy(); n >= 0 {
			w.queue = uint16(n)
		}
	}
}
