// Package paced is a port around another one that makes it as slow as the links of a
// modelled network: a frame leaves when the link is idle, and keeps the link for as long
// as its words take. No frame is received sooner than it could have arrived.
//
// The journey of a frame out: Commit puts it among the waiting frames. When the link is idle Flush
// or Advance gives it to the port inside, which sends it with Send. High priority goes first, as on
// Arctic (thesis 5.6.1): replies, and frames that only acknowledge. At most Waiting frames wait;
// then Reserve returns nil and the card waits. In: Pull copies what the port inside has received,
// and Receive lends it from the time on at which its tail would have arrived. When Held frames are
// kept back, further ones stay with the port inside, whose ring drops what it cannot hold. Frames
// keep their order.
//
// Only the packets of a frame take time on the link. On the papers' network a packet was its own
// frame, and had no header like ours (design idea 7, uspace/DESIGN.md).
//
// Frames carry no time, and the real wire takes some itself, which is measured (measure.go). A
// frame is held for as long as the wire takes less than the model. When the wire takes longer, the
// frame is said to have arrived earlier than it did, by at most Config.Back. That changes no
// result, as a card works that long on a frame before anybody can see one. Nothing can make up for
// a wire that is slower still, and Wire reports it.
//
// A port belongs to the goroutine of its card. Times are nanoseconds: those of the model,
// with which the card is stepped, and those of the host's clock, by which the wire is
// measured. Both are passed in with Advance and do not run backwards.
package paced

import (
	"math"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/port"
)

const (
	// Waiting is how many frames may wait for the link.
	Waiting = 16
	// Held is how many received frames may be kept back.
	Held = 64
	// never is when nothing will happen unasked.
	never = math.MaxInt64
)

// Config says how fast the network is. All are from 0 to a day.
type Config struct {
	Word    time.Duration // that a link takes for 32 bits
	Latency time.Duration // of the head of a frame, from card to card
	Wire    time.Duration // of the real wire, one way, as long as nothing was measured
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
	told   int // of what is held, the first: it had arrived when the card was stepped last
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

// in is a frame that has been received.
type in struct {
	data []byte
	n    int
	at   int64 // it can be lent
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

// words returns what of a frame of n bytes would travel: its packets, or one packet
// header if it has none.
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

// Send has the port inside send what the link took. It costs next to nothing when nothing
// waits.
func (p *Port) Send() { p.inner.Flush() }

// Advance says what time it is in the model and on the host, and lets the link take what it
// is now idle for.
func (p *Port) Advance(now, host int64) {
	p.now, p.host = max(p.now, now), host
	for p.told < p.held && p.ring[(p.first+p.told)%Held].at <= p.now {
		p.told++
	}
	p.transmit(p.now)
}

// Next returns when a frame can leave or be received, as far as is known, which may be past; the
// end of int64 if none is. A frame that had arrived at the last Advance is not told of again: a
// card that works on another takes it when that is done.
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

// Drain sends all that waits, as far as the port inside takes it, whatever time it is.
func (p *Port) Drain() {
	p.busy = math.MinInt64
	p.transmit(never)
	p.Send()
}

// transmit gives frames to the port inside for which the link is idle by then. When that
// port is full they go on waiting.
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

// Pull takes what the port inside has received, at the given times of the model and of the
// host. Next tells when the first of it arrives.
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
