// Package paced is a port around another one that makes it as slow as the links of a modelled
// network. A frame leaves when the link is idle, and occupies the link for as long as its words
// take. No frame is received sooner than it could have arrived.
//
// The journey of a frame out: Commit puts it among the waiting frames. When the link is idle Flush
// or Advance gives it to the port inside, which sends it with Send. High priority goes first, as on
// Arctic (thesis 5.6.1): replies, and frames that only acknowledge. At most Waiting frames wait;
// then Reserve returns nil and the card waits. In: Pull copies the frames that the port inside has
// received. Receive lends a frame from the time on at which its tail would have arrived. When Held
// frames are kept back, further ones stay with the port inside, whose ring drops those that it
// cannot hold. Frames keep their order.
//
// Only the packets of a frame take time on the link. On the network of the papers a packet was its
// own frame and had no such header (design idea 7, uspace/DESIGN.md).
//
// Frames carry no time. The real wire takes time itself, which is measured (measure.go). A frame is
// held for as long as the wire takes less than the model. When the wire takes longer, the frame
// counts as having arrived earlier than it did, by at most Config.Back. That changes no result,
// because a card works that long on a frame before anybody can see one. Nothing can make up for a
// wire that is slower still, and Wire reports it.
//
// A port belongs to the goroutine of its card. Times are nanoseconds of two clocks: the model's,
// with which the card is stepped, and the host's, by which the wire is measured. Both are passed in
// with Advance and do not run backwards.
package paced

import (
	"math"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/port"
)

const (
	Waiting = 16            // the most frames that wait for the link
	Held    = 64            // the most received frames that are kept back
	never   = math.MaxInt64 // the time of an event that will not happen by itself
)

// Config gives the times of the network. All are from 0 to a day.
type Config struct {
	Word    time.Duration // that a link takes for 32 bits
	Latency time.Duration // of the head of a frame, from card to card
	Wire    time.Duration // of the real wire, one way, until it is measured
	Back    time.Duration // that a frame may have arrived before it was received
}

// Port is a paced port; it implements port.Port.
type Port struct {
	inner port.Port
	c     Config
	now   int64 // of the model
	host  int64 // of the host
	probe probe

	busy     int64 // the link carries a frame until then
	spare    []out // buffers of frames that do not wait
	reserved bool  // the last of them is
	waiting  [2]queue

	ring   []in
	first  int // of what is held
	held   int
	lent   int
	told   int // of what is held, frames that had arrived when the card was stepped last
	pulled [Held][]byte
}

// out is a frame that waits for the link.
type out struct {
	data []byte
	n    int
	at   int64 // since when
}

// queue holds the frames of one priority, oldest first.
type queue struct {
	frames [Waiting]out
	first  int
	n      int
}

type in struct {
	data []byte
	n    int
	at   int64 // when it can be lent
}

// New makes a port around another one, which nobody else may use.
func New(inner port.Port, c Config) *Port {
	p := &Port{inner: inner, c: c, ring: make([]in, Held)}
	size := inner.FrameSize()
	slab := make([]byte, (Waiting+Held)*size)
	for i := range Waiting + Held {
		b := slab[i*size : (i+1)*size : (i+1)*size]
		if i < Waiting {
			p.spare = append(p.spare, out{data: b})
		} else {
			p.ring[i-Waiting].data = b
		}
	}
	return p
}

// FrameSize returns the length of the longest frame that the port inside sends.
func (p *Port) FrameSize() int { return p.inner.FrameSize() }

// words returns the number of words of a frame of n bytes that travel in the model: its packets, or
// one packet header if it has none.
func words(n int) int64 {
	return int64(max(n-arctic.HeaderSize, arctic.PacketHeaderSize)+3) / 4
}

// Reserve returns a buffer for a frame, or nil while Waiting frames wait for the link.
func (p *Port) Reserve() []byte {
	if len(p.spare) == 0 {
		return nil
	}
	p.reserved = true
	return p.spare[len(p.spare)-1].data
}

// Commit lets the reserved frame wait for the link.
func (p *Port) Commit(n int) {
	if !p.reserved {
		return
	}
	p.reserved = false
	last := len(p.spare) - 1
	f := p.spare[last]
	p.spare = p.spare[:last]
	f.n, f.at = n, p.now
	level := 0
	if h, ok := arctic.Peek(f.data[:n]); ok && h.Urgent() {
		level = 1
	}
	q := &p.waiting[level]
	q.frames[(q.first+q.n)%Waiting] = f
	q.n++
}

// Flush lets the link take what it can; Send sends it.
func (p *Port) Flush() { p.transmit(p.now) }

// Send has the port inside send what the link took. It costs next to nothing when nothing waits.
func (p *Port) Send() { p.inner.Flush() }

// Advance sets the times of the model and of the host, and lets the link take the frames that it is
// now idle for.
func (p *Port) Advance(now, host int64) {
	p.now, p.host = max(p.now, now), host
	for p.told < p.held && p.ring[(p.first+p.told)%Held].at <= p.now {
		p.told++
	}
	p.transmit(p.now)
}

// Next returns the earliest known time at which a frame can leave or be received. It may be past,
// and is the end of int64 if there is none. A frame that had arrived at the last Advance does not
// count again: a card that works on another takes it when that is done.
func (p *Port) Next() int64 {
	next := int64(never)
	if p.waiting[0].n+p.waiting[1].n > 0 {
		next = p.busy
	}
	if at := max(p.lent, p.told); p.held > at {
		next = min(next, p.ring[(p.first+at)%Held].at)
	}
	return next
}

// Drain sends all waiting frames at once, as far as the port inside takes them, whatever the time.
func (p *Port) Drain() {
	p.busy = math.MinInt64
	p.transmit(never)
	p.Send()
}

// transmit gives waiting frames to the port inside, as long as the link is idle by the given time.
// When that port is full, frames go on waiting.
func (p *Port) transmit(until int64) {
	for p.busy <= until {
		q := &p.waiting[1]
		if q.n == 0 {
			q = &p.waiting[0]
		}
		if q.n == 0 {
			return
		}
		b := p.inner.Reserve()
		if b == nil {
			return
		}
		f := q.frames[q.first]
		q.first, q.n = (q.first+1)%Waiting, q.n-1
		p.spare = append(p.spare, f)
		if p.reserved { // the frame being composed keeps its place at the end
			last := len(p.spare) - 1
			p.spare[last], p.spare[last-1] = p.spare[last-1], p.spare[last]
		}
		p.probe.sent(f.data[:f.n], p.host)
		p.inner.Commit(copy(b, f.data[:f.n]))
		p.busy = max(p.busy, f.at) + words(f.n)*int64(p.c.Word)
	}
}

// latency is how long a frame of n bytes takes in the model.
func (p *Port) latency(n int) int64 { return int64(p.c.Latency) + words(n)*int64(p.c.Word) }

// Receive lends frames that have arrived by now.
func (p *Port) Receive(frames [][]byte) int {
	for p.lent < min(p.held, len(frames)) {
		f := &p.ring[(p.first+p.lent)%Held]
		if f.at > p.now {
			break
		}
		frames[p.lent] = f.data[:f.n]
		p.lent++
	}
	return p.lent
}

// Pull takes the frames that the port inside has received, at the given times of the model and of
// the host. Next returns when the first of them arrives.
func (p *Port) Pull(now, host int64) {
	p.host = host
	room := Held - p.held
	if room == 0 {
		return
	}
	n := p.inner.Receive(p.pulled[:room])
	for _, b := range p.pulled[:n] {
		f := &p.ring[(p.first+p.held)%Held]
		if f.n = copy(f.data, b); f.n < len(b) {
			continue // longer than any of ours
		}
		p.probe.received(f.data[:f.n], p.host)
		f.at = now + max(p.latency(f.n)-p.wire(), -int64(p.c.Back))
		p.held++
	}
	p.inner.Release()
}

// Release takes lent frames back.
func (p *Port) Release() {
	p.first, p.held = (p.first+p.lent)%Held, p.held-p.lent
	p.lent, p.told = 0, max(p.told-p.lent, 0)
}
