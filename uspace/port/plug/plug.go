// Package plug is the port of a card that keeps running while its interface goes away and comes
// back: the port inside can be taken out, and another put in.
//
// The journey of a frame is that of the port inside. While there is none, frames that the card
// sends are lost and none arrive. The card can live with that, and waits neither for the port nor
// for room. Packets to peers that stay silent end with an error, as always.
//
// A Port belongs to the goroutine of its card, which also calls Plug. The port that was inside
// before may be closed once the card has taken another step. Until then the card may read frames
// that it was lent.
package plug

import "github.com/funet/funet/uspace/port"

// Port is a port that may be empty; it implements port.Port.
type Port struct {
	inner port.Port // nil: none
	size  int
	spare []byte // for a frame that is lost
	lost  uint64
}

// New returns an empty port for frames of at most size bytes.
func New(size int) *Port { return &Port{size: size, spare: make([]byte, size)} }

// Plug replaces the port inside; nil leaves none. FrameSize is then that of the port inside, but
// never more than at first.
func (p *Port) Plug(inner port.Port) {
	if p.inner = inner; inner != nil {
		p.size = min(inner.FrameSize(), len(p.spare))
	}
}

// Plugged reports whether there is a port inside.
func (p *Port) Plugged() bool { return p.inner != nil }

// Lost returns how many frames were sent while there was none.
func (p *Port) Lost() uint64 { return p.lost }

// FrameSize returns the length of the longest frame in bytes: of the port inside, or of the last
// one.
func (p *Port) FrameSize() int { return p.size }

// Receive lends frames of the port inside.
func (p *Port) Receive(frames [][]byte) int {
	if p.inner == nil {
		return 0
	}
	return p.inner.Receive(frames)
}

// Release gives the frames of the last Receive back.
func (p *Port) Release() {
	if p.inner != nil {
		p.inner.Release()
	}
}

// Reserve returns a buffer for one frame.
func (p *Port) Reserve() []byte {
	if p.inner == nil {
		return p.spare[:p.size]
	}
	if b := p.inner.Reserve(); b != nil {
		return b[:p.size]
	}
	return nil
}

// Commit queues the reserved frame, or loses it if there is no port inside.
func (p *Port) Commit(n int) {
	if p.inner == nil {
		p.lost++
		return
	}
	p.inner.Commit(n)
}

// Flush has the port inside send the queued frames.
func (p *Port) Flush() {
	if p.inner != nil {
		p.inner.Flush()
	}
}
