package afxdp

// This file reports the state of each queue: whether frames have come through it, and whether a
// peer has received a frame that left on it. Acknowledgments show the latter (acknowledged.go), as
// do answers to hellos (Answered; package hello). A queue to which the interface steers no frames
// cannot be proven, which is not an error.

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/funet/funet/bpf"
)

// Proof says how far one direction of a queue is known to work.
type Proof string

const (
	// Proven: a frame came through the queue, or a peer received one that left on it.
	Proven Proof = "proven"
	// Untried: the interface steered no frames to the queue, or none was sent on it.
	Untried Proof = "untried"
	// Unanswered: frames left on the queue, and no peer has said yet that it received one.
	Unanswered Proof = "unanswered"
	// Lost: the NIC program handed frames to the queue's socket, and none came (Watch).
	Lost  Proof = "lost"
	Stuck Proof = "stuck" // frames to be sent on the queue did not leave (Watch)
)

// QueueState is the known state of a queue.
type QueueState struct {
	Queue    int   `json:"queue"`
	Receives Proof `json:"receives"`
	Sends    Proof `json:"sends"`
	// frames, or parts of them, that came since the port was opened
	Received uint64 `json:"received"`
	Sent     uint64 `json:"sent"` // frames or parts that were handed to the kernel
}

// Describe returns a sentence about the state of queues, such as "frames came on 0, 1; none were
// steered to 2, 3; peers got what left on 0 to 3". It is at most some 300 bytes long, however many
// queues there are.
func Describe(all []QueueState) string {
	var parts []string
	say := func(words string, with func(QueueState) bool) {
		var those []int
		for _, s := range all {
			if with(s) {
				those = append(those, s.Queue)
			}
		}
		if len(those) > 0 {
			parts = append(parts, fmt.Sprintf(words, numbers(those)))
		}
	}
	for _, d := range []struct {
		is    Proof
		words string
	}{{Proven, "frames came on queue %s"}, {Untried, "none were steered to %s"}, {Lost, "those for %s were lost"}} {
		say(d.words, func(s QueueState) bool { return s.Receives == d.is })
	}
	for _, d := range []struct {
		is    Proof
		words string
	}{{Proven, "peers got what left on %s"}, {Unanswered, "no peer has acknowledged what left on %s yet"},
		{Untried, "nothing was sent on %s"}, {Stuck, "nothing leaves on %s"},
		{LeftOut, "hellos that left on %s were not answered, so frames leave on others"}} {
		say(d.words, func(s QueueState) bool { return s.Sends == d.is })
	}
	return strings.Join(parts, "; ")
}

// numbers returns ascending numbers as text: runs as ranges, and of too many numbers only the
// first.
func numbers(all []int) string {
	var parts []string
	for i := 0; i < len(all); {
		end := i
		for end+1 < len(all) && all[end+1] == all[end]+1 {
			end++
		}
		switch {
		case len(parts) == 4:
			return strings.Join(parts, ", ") + " and others"
		case end == i:
			parts = append(parts, fmt.Sprint(all[i]))
		default:
			parts = append(parts, fmt.Sprintf("%d to %d", all[i], all[end]))
		}
		i = end + 1
	}
	return strings.Join(parts, ", ")
}

// proof is the state of a queue's proof. The port's mutex guards all but the atomic fields.
type proof struct {
	answered atomic.Bool // a peer got a frame that left on the queue
	leftOut  atomic.Bool // leaveout.go
	received tally
	sent     tally
	base     uint64 // received when the program was attached, or the queue was doubted
	lost     bool
	stuck    bool
	left     uint32 // frames that had left when stuck was set
}

// tally extends a ring's index to 64 bits. Call look before the index has run through 2^32.
type tally struct {
	last  uint32
	total uint64
}

func (t *tally) look(index uint32) uint64 {
	t.total += uint64(index - t.last)
	t.last = index
	return t.total
}

// Queues returns the state of each queue. Any goroutine may call it until Close.
func (p *Port) Queues() []QueueState {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]QueueState, 0, len(p.queues))
	for _, q := range p.queues {
		s := QueueState{Queue: q.number, Receives: Untried, Sends: Untried,
			Received: q.proof.received.look(q.rx.Filled()), Sent: q.proof.sent.look(q.tx.Submitted())}
		switch {
		case s.Received != q.proof.base:
			s.Receives = Proven
		case q.proof.lost:
			s.Receives = Lost
		}
		switch {
		case q.proof.stuck && q.done.Filled() == q.proof.left:
			s.Sends = Stuck
		case q.proof.leftOut.Load():
			s.Sends = LeftOut
		case q.proof.answered.Load():
			s.Sends = Proven
		case s.Sent > 0:
			s.Sends = Unanswered
		}
		all = append(all, s)
	}
	return all
}

func (p *Port) doubt(v verdict, lane int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.queues {
		if q.number%bpf.CountedQueues != lane {
			continue
		}
		switch v {
		case lost:
			q.proof.lost, q.proof.base = true, q.proof.received.look(q.rx.Filled())
		case stuck:
			q.proof.stuck, q.proof.left = true, q.done.Filled()
		}
	}
}

// SendOn sends a frame, to the address in its header, on a queue (QueueCount) that the caller
// chooses, and reports whether it could. The queue must exist, and there must be memory for the
// frame and, with datagrams, a path. A reserved frame stays reserved. SendOn is for the port's
// goroutine.
func (p *Port) SendOn(queue int, frame []byte) bool {
	if queue < 0 || queue >= len(p.offered) || len(frame) > p.frameMax {
		return false
	}
	held, slab, at, sends := p.reserved, p.slab, p.at, p.sends
	p.reserved, p.sends = nil, p.offered[queue:][:1]
	b := p.Reserve()
	if b != nil {
		p.Commit(copy(b, frame))
	}
	ok := b != nil && p.reserved == nil
	if p.reserved != nil { // it cannot be sent
		p.slabs.free = append(p.slabs.free, p.slab)
	}
	p.reserved, p.slab, p.at, p.sends = held, slab, at, sends
	p.Flush()
	return ok
}

// LentBy returns the queue on which the frames of the last Receive came in, until Release. It
// returns -1 if no frames are lent. It is for the port's goroutine.
func (p *Port) LentBy() int {
	if p.lent == nil {
		return -1
	}
	return p.lent.number
}

// Answered notes that a peer has received a frame that left on a queue. Any goroutine may call it
// until Close.
func (p *Port) Answered(queue int) {
	if queue >= 0 && queue < len(p.offered) {
		p.offered[queue].proof.answered.Store(true)
	}
}
