package sim

// This file has a card's port on the Ethernet model. It implements port.Port.

import "github.com/funet/funet/uspace/arctic"

// none is the number of no frame.
const none = ^uint32(0)

// EthernetPort is one card's port on an Ethernet.
type EthernetPort struct {
	longest  int // frame in bytes that it carries; 0: as the network
	net      *Ethernet
	number   uint16
	card     *Card  // nil: nobody receives
	held     uint32 // reserved frame, or none
	out      fifo   // committed, not flushed
	in       fifo   // receive ring
	lent     int
	up, down int64 // the times until which the links are busy
}

// Number returns the port's number, which Address turns into its address.
func (p *EthernetPort) Number() int { return int(p.number) }

// FrameSize returns the longest frame that the port sends.
func (p *EthernetPort) FrameSize() int {
	if p.longest != 0 {
		return p.longest
	}
	return p.net.pool.size
}

// Limit makes the port carry only frames of at most the given number of bytes, fewer than the
// network carries. It sends no longer frames, and loses those that it receives.
func (p *EthernetPort) Limit(bytes int) { p.longest = bytes }

// Receive lends frames that have arrived.
func (p *EthernetPort) Receive(frames [][]byte) int {
	p.lent = min(len(frames), p.in.n)
	for k := range p.lent {
		f := &p.net.pool.frames[p.in.at(k)]
		frames[k] = f.bytes()
		if t := p.net.world.trace; t != nil {
			t.received(p.card, f)
		}
		if p.net.arrives != nil {
			p.net.arrives(p.card.number, frames[k])
		}
	}
	return p.lent
}

// Release takes lent frames back.
func (p *EthernetPort) Release() {
	for k := range p.lent {
		p.net.pool.give(p.in.at(k))
	}
	p.in.drop(p.lent)
	p.lent = 0
}

// Reserve returns a buffer for one frame, or nil while the transmit ring is full.
func (p *EthernetPort) Reserve() []byte {
	e := p.net
	if p.held == none {
		if p.up-e.world.now > e.backlog || p.out.n >= e.cfg.Transmit {
			return nil
		}
		p.held = e.pool.take(e.pool.size)
	}
	return e.pool.frames[p.held].data[:p.FrameSize()]
}

// Commit queues a frame until Flush.
func (p *EthernetPort) Commit(n int) {
	e := p.net
	i := p.held
	e.pool.frames[i].n = n
	if n <= smallFrame { // keep the large buffer for the next one
		i = e.pool.clone(i)
	} else {
		p.held = none
	}
	p.out.push(i)
}

// Flush puts committed frames on the link.
func (p *EthernetPort) Flush() {
	for k := range p.out.n {
		p.net.send(p, p.out.at(k))
	}
	p.out.drop(p.out.n)
}

// attach changes the card, and discards what was received and not sent for the old one.
func (p *EthernetPort) attach(c *Card) {
	p.card = c
	for _, q := range []*fifo{&p.in, &p.out} {
		for k := range q.n {
			p.net.pool.give(q.at(k))
		}
		q.drop(q.n)
	}
	p.lent = 0
	if p.held != none {
		p.net.pool.give(p.held)
		p.held = none
	}
}

// happen handles a frame of this port at the switch, or a frame for it at its end.
func (p *EthernetPort) happen(_, arg uint64) bool {
	e, i := p.net, uint32(arg>>1)
	e.world.mix(arg)
	if arg&1 == atSwitch {
		e.forward(p, i)
		return true
	}
	if e.between != nil {
		if p = e.between.in(p, e.pool.frames[i].bytes()); p == nil {
			e.pool.give(i)
			return true
		}
	}
	if e.absent != nil {
		frame := &e.pool.frames[i]
		if f, ok := arctic.Peek(frame.bytes()); ok && f.MayDefer() && e.absent(int(p.number), f.Header().GID) {
			e.Deferred++
			frame.n = arctic.Defer(frame.bytes())
			e.send(p, i)
			return true
		}
	}
	switch {
	case p.card == nil:
		e.lose(i, &e.Lost.Down)
	case e.pool.frames[i].n > p.FrameSize():
		e.lose(i, &e.Lost.Fault)
	// a card sleeps with frames lent, and a ring that is full of them would never wake it
	case p.in.n-p.lent >= e.cfg.Receive:
		e.lose(i, &e.Lost.Receive)
	default:
		e.Carried++
		p.in.push(i)
		p.card.wake(e.world.now)
	}
	return true
}
