package engine

// This file is the Transmit Scheduler (thesis 5.6.3): frame header, rejects and
// train go into a buffer of the port. Every frame carries the acknowledgments of
// both levels.

import "github.com/funet/funet/uspace/arctic"

// reserve returns a buffer of the port that leads to the peer, as long as a frame may be, or nil.
func (c *Card) reserve(p *peer) []byte {
	b := c.cfg.Ports[p.Port].Reserve()
	return b[:min(len(b), p.longest())]
}

// send finishes a frame of n bytes.
func (c *Card) send(p *peer, b []byte, n int) { c.sendFilled(p, b, n, n) }

// sendFilled finishes a frame of n bytes that is filled up to a longer one.
func (c *Card) sendFilled(p *peer, b []byte, n, filled int) {
	arctic.Seal(b, n)
	if c.see != nil {
		c.see(p.Port, b[:n], Fate{Outcome: Sent})
	}
	c.cfg.Ports[p.Port].Commit(filled)
	c.counters.FramesSent++
}

// transmit sends frame seq of the flow, for the first time or again. It returns
// false when the transmit ring is full.
func (c *Card) transmit(f *flow, seq uint32, fr *frame) bool {
	p := f.peer
	b := c.reserve(p)
	if b == nil {
		return false
	}
	size := 0
	for ln := fr.train; ln != nil; ln = ln.next {
		size += int(ln.size) + len(ln.inFrame())
	}
	x := fr.train.ctx
	if fr.tooLong(b, arctic.HeaderSize+size) {
		n := c.head(p, b, f.level, x.gid, x.tag, seq, len(b)-arctic.PacketHeaderSize)
		c.send(p, b, arctic.PutVoid(b, n, fr.train.data[:]))
		fr.void = true
	} else {
		n := c.head(p, b, f.level, x.gid, x.tag, seq, len(b)-size)
		for ln := fr.train; ln != nil; ln = ln.next {
			n = arctic.PutPacket(b, n, ln.data[:ln.size])
			if ln.block != nil {
				n = arctic.PutBlock(b, n, ln.inFrame())
			}
		}
		c.sendFilled(p, b, n, c.tryLonger(p, fr, n))
	}
	fr.state = flying
	fr.sentAt = c.now
	f.flying++
	if p.silentSince == 0 {
		p.silentSince = c.now
	}
	c.watchOver(f)
	return true
}

// watchOver sets the retransmission timer of a flow that has a frame to be answered.
func (c *Card) watchOver(f *flow) {
	p := f.peer
	if f.deadline == 0 {
		f.movedAt = c.now
		f.deadline = c.now + f.rto(&c.cfg)
		c.timers.set(p, f.deadline)
	}
}

// noJob is the tag of frames without packets, which belong to no job.
const noJob = 0

// head writes the frame header and as many of the waiting rejects as end before
// limit, and returns where packets start. The peer is owed nothing after it.
func (c *Card) head(p *peer, b []byte, l arctic.Level, gid uint16, tag uint64, seq uint32, limit int) int {
	h := &c.out
	// Field by field, because a composite would be built elsewhere and copied.
	*h = arctic.Header{}
	h.To, h.From, h.Level, h.GID, h.Route = p.Address, p.Local, l, gid, uint32(p.Card)
	h.SourceCard, h.DestinationCard = c.cfg.Card, p.Card
	h.SourceIncarnation, h.DestinationIncarnation = c.cfg.Incarnation, p.incarnation
	h.Sequence, h.Tag = seq, tag
	if f := p.flows[l]; f != nil {
		h.Age = uint16(seq - f.oldest)
	}
	p.ackAt = 0
	for i, f := range &p.flows {
		if f != nil {
			h.Acks[i] = f.expect
			h.Selective[i] = f.selective()
			f.unacked = 0
		} else {
			h.Acks[i] = uint32(p.kept[i].reached)
		}
	}
	h.Encode(b)
	n := arctic.HeaderSize
	for l := arctic.Reply; l <= arctic.Reply; l-- {
		if f := p.flows[l]; f != nil && f.answers > 0 {
			n = c.putRejects(f, b, n, limit)
			if f.answers > 0 {
				c.oweNow(p) // the rest follows in this step
			}
		}
	}
	return n
}

// putRejects writes waiting rejects of the flow. Both kinds of reject of one
// frame travel together: the sender settles a frame when it sees the first.
func (c *Card) putRejects(f *flow, b []byte, n, limit int) int {
	for r := f.rejects.head; f.answers > 0 && n+2*arctic.RejectSize <= limit && b[rejectCount] <= arctic.MaxRejects-2; r = r.next {
		if !r.asked {
			continue
		}
		r.asked = false
		f.answers--
		if r.retry != 0 {
			n = arctic.PutReject(b, n, arctic.Reject{Sequence: r.sequence, Level: f.level, Reason: r.retryReason, Bits: r.retry})
		}
		if r.fail != 0 {
			n = arctic.PutReject(b, n, arctic.Reject{Sequence: r.sequence, Level: f.level, Reason: r.failReason, Bits: r.fail})
		}
	}
	return n
}

// rejectCount is the offset of the number of rejects in a frame header.
const rejectCount = 29

// owe makes sure that the peer gets an acknowledgment within AckDelay, on data or
// on a frame of its own.
func (c *Card) owe(p *peer) {
	if p.ackAt == 0 {
		p.ackAt = c.now + int64(c.cfg.AckDelay)
		c.timers.set(p, p.ackAt)
	}
}

// oweNow makes sure that the peer gets an acknowledgment in this step.
func (c *Card) oweNow(p *peer) {
	p.ackAt = c.now
	if p.ackAt == 0 {
		p.ackAt = 1 // zero means nothing owed
	}
	if !p.inAckNow {
		p.inAckNow = true
		p.nextAckNow = c.ackNow
		c.ackNow = p
	}
}

// acknowledge sends the acknowledgments that are due. Before data has been
// dispatched it leaves out peers for which data is about to leave, which will
// carry them; after, it sends what is still owed because data did not leave.
func (c *Card) acknowledge(dispatched bool) {
	p := c.ackNow
	c.ackNow = nil
	for p != nil {
		next := p.nextAckNow
		p.inAckNow, p.nextAckNow = false, nil
		if !dispatched && p.aboutToSend() {
			c.oweNow(p)
		} else if !c.acknowledgePeer(p) {
			c.blocked = true
			c.counters.TransmitRingFull++
			c.oweNow(p)
		}
		p = next
	}
}

// aboutToSend reports whether dispatch has a frame for the peer.
func (p *peer) aboutToSend() bool {
	if !p.established || p.ackAt == 0 {
		return false
	}
	for _, f := range p.flows {
		if f != nil && f.flying < f.window && (f.lost > 0 || f.turns.first != nil && f.next-f.oldest < Window) {
			return true
		}
	}
	return false
}

// acknowledgePeer sends frames without packets until the peer is owed nothing.
// It returns false when the transmit ring is full.
func (c *Card) acknowledgePeer(p *peer) bool {
	for p.ackAt != 0 && p.established {
		if !c.acknowledgeOnce(p) {
			return false
		}
	}
	return true
}

// acknowledgeOnce sends one such frame.
func (c *Card) acknowledgeOnce(p *peer) bool {
	b := c.reserve(p)
	if b == nil {
		return false
	}
	l := arctic.Request
	if p.flows[l] == nil {
		l = arctic.Reply
	}
	f := p.flows[l]
	if f == nil {
		p.ackAt = 0 // nothing was ever received
		return true
	}
	c.send(p, b, c.head(p, b, l, p.gid, noJob, f.next, len(b)))
	c.counters.AcksSent++
	return true
}
