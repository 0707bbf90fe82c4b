package sim

// This file has a card's port on the Arctic model: the Input Port Buffer and the Transmitter of
// thesis 5.6.1. It implements port.Port.
//
// A frame has high priority if it carries replies, or nothing but acknowledgments: both must never
// wait for requests.

import "github.com/funet/funet/uspace/arctic"

// ArcticPort is one card's port on an Arctic network.
type ArcticPort struct {
	net    *Arctic
	number int
	card   *Card  // nil: what arrives is absorbed
	wake   func() // called when something arrives or has left; for tests of the network
	up     channel
	// waiting is how many frames wait for the link.
	waiting int
	held    uint32  // reserved frame, or none
	in      [2]fifo // received, by level
	lent    int
	loan    [2]int // of each level
}

// FrameSize returns the longest frame that the port sends.
func (p *ArcticPort) FrameSize() int { return p.net.pool.size }

// Receive lends frames that have arrived, high priority first. Their buffers are free at once.
// Otherwise a card with nothing more to do would sleep with the frames still lent, and frames that
// wait behind those would never wake the card.
func (p *ArcticPort) Receive(frames [][]byte) int {
	p.lent, p.loan = 0, [2]int{}
	for level := 1; level >= 0; level-- {
		for k := 0; k < p.in[level].n && p.lent < len(frames); k++ {
			i := p.in[level].at(k)
			f := &p.net.pool.frames[i]
			frames[p.lent] = f.bytes()
			p.net.credit(i)
			if t := p.net.world.trace; t != nil {
				t.received(p.card, f)
			}
			p.lent++
			p.loan[level]++
		}
	}
	return p.lent
}

// Release takes lent frames back.
func (p *ArcticPort) Release() {
	for level, n := range p.loan {
		for k := range n {
			p.net.pool.give(p.in[level].at(k))
		}
		p.in[level].drop(n)
	}
	p.lent, p.loan = 0, [2]int{}
}

// Reserve returns a buffer for a frame, or nil while as many frames wait as the Transmitter holds.
func (p *ArcticPort) Reserve() []byte {
	a := p.net
	if p.held == none {
		if p.waiting >= a.cfg.Transmit {
			return nil
		}
		p.held = a.pool.take(a.pool.size)
	}
	return a.pool.frames[p.held].data
}

// Commit puts a frame into the queue for the link. The frame's route field names the destination
// card, whose route bits Commit looks up. Those of a bundle name each its own.
func (p *ArcticPort) Commit(n int) {
	a, i := p.net, p.held
	p.held = none
	f := &a.pool.frames[i]
	f.n = n
	a.world.sent(f, p.card)
	if frames, ok := arctic.Bundled(a.bundled[:0], f.bytes()); ok {
		if !a.injectBundle(p, i, frames) {
			a.pool.give(i) // no such place
		}
		return
	}
	h, ok := arctic.Peek(f.bytes())
	if !ok || int(h.Route()) >= len(a.ports) {
		a.pool.give(i) // no such place
		return
	}
	a.inject(p, i, int(h.Route()), h.Packets(), h.Urgent())
}

// Flush does nothing: committed frames leave when they can.
func (p *ArcticPort) Flush() {}

// arrived takes a packet into the input section.
func (p *ArcticPort) arrived(i uint32) {
	p.in[p.net.flits[i].level].push(i)
	switch {
	case p.wake != nil:
		p.wake()
	case p.card != nil:
		p.card.wake(p.net.world.now)
	default:
		p.drop() // a card that is down does not stop the network
	}
}

// left notes that the tail of a packet has left.
func (p *ArcticPort) left() {
	if p.wake != nil {
		p.wake()
	}
}

// drop discards everything that has arrived.
func (p *ArcticPort) drop() {
	p.Release()
	for l := range p.in {
		for k := range p.in[l].n {
			p.net.release(p.in[l].at(k))
		}
		p.in[l].drop(p.in[l].n)
	}
}

// attach changes the card, and discards what was received for the old one. Frames that wait for the
// link still leave.
func (p *ArcticPort) attach(c *Card) {
	p.card = c
	p.drop()
	if p.held != none {
		p.net.pool.give(p.held)
		p.held = none
	}
}
