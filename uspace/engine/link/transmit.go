package link

// This file is the Transmit Scheduler (thesis 5.6.3): frame header, rejects and train go into a
// buffer of the port. Every frame carries the acknowledgments of both levels.

import "github.com/funet/funet/uspace/arctic"

// reserve returns a buffer of the port that leads to the peer, as long as a frame may be, or nil.
// Behind its end there is room for what sealing adds.
func (e *End) reserve(p *peer) []byte {
	b := e.cfg.Ports[p.Port].Reserve()
	if b == nil {
		return nil
	}
	return b[:min(len(b), p.longest())-int(p.seal)]
}

// send finishes a frame of n bytes, which is filled up to a longer one, and sends it.
func (e *End) send(p *peer, b []byte, n, filled int) {
	if p.Key == nil {
		arctic.Seal(b, n)
		e.commit(p, b[:n], filled)
		return
	}
	if e.See != nil {
		e.plain = append(e.plain[:0], b[:n]...)
	}
	b = b[:n+arctic.SealSize]
	sealed := p.secured.session.Seal(b, n, p.readable)
	if sealed == 0 {
		e.resynchronise(p) // the key is used up; the frame is sent again with another, or returns
		return
	}
	if e.See != nil {
		e.plain = arctic.Reveal(b, e.plain)
	}
	e.commit(p, e.plain, max(filled, sealed))
}

// commit gives a frame to the port, filled up to a longer one. See is shown it unsealed.
func (e *End) commit(p *peer, frame []byte, filled int) {
	if e.See != nil {
		e.See(p.Port, frame, Fate{Outcome: Sent})
	}
	e.cfg.Ports[p.Port].Commit(filled)
	e.Counters.FramesSent++
	e.Counters.FrameBytesSent += uint64(filled)
}

// transmit sends frame seq of the flow, for the first time or again. It returns
// false when the transmit ring is full.
func (e *End) transmit(f *flow, seq uint32, fr *frame) bool {
	p := f.peer
	st := fr.train.stream
	defers := !fr.void && !st.owner.Halted && e.defers(p, st)
	if defers && !e.settleDebts(p) {
		return false
	}
	b := e.reserve(p)
	if b == nil {
		return false
	}
	size := 0
	for ln := fr.train; ln != nil; ln = ln.next {
		size += int(ln.Size) + len(ln.inFrame())
	}
	ln, o, limit := fr.train, fr.train.Owner, len(b)-size
	if fr.void = fr.tooLong(b, arctic.HeaderSize+size); fr.void {
		limit = len(b) - arctic.PacketHeaderSize
	}
	n := e.head(p, b, f.level, o.GID, o.Tag, seq, limit)
	if defers && !fr.void {
		arctic.SetDefer(b)
	}
	if fr.void {
		n = arctic.PutVoid(b, n, ln.Data[:])
		e.send(p, b, n, n)
	} else if n = arctic.PutPacket(b, n, ln.Data[:ln.Size]); ln.Block != nil && p.Key == nil {
		n = arctic.SealBlock(b, n, ln.inFrame()) // copied and summed at once
		e.commit(p, b[:n], e.tryLonger(p, fr, n))
	} else {
		if ln.Block != nil { // which is alone in its frame
			n = arctic.PutBlock(b, n, ln.inFrame())
		}
		for ln = ln.next; ln != nil; ln = ln.next {
			n = arctic.PutPacket(b, n, ln.Data[:ln.Size])
		}
		e.send(p, b, n, e.tryLonger(p, fr, n))
	}
	if o.Follower != nil && !fr.void {
		o.Follower.Sent(fr.train)
	}
	fr.state = flying
	fr.sentAt = e.now
	f.flying++
	if p.silentSince == 0 {
		p.silentSince = e.now
	}
	e.watchOver(f)
	return true
}

// watchOver sets the retransmission timer of a flow that has a frame to be answered.
func (e *End) watchOver(f *flow) {
	p := f.peer
	if f.deadline == 0 {
		f.movedAt = e.now
		f.deadline = e.now + f.rto(&e.cfg)
		e.timers.set(p, f.deadline)
	}
}

// noJob returns the tag of frames without packets. They belong to no job, unless all cards are of
// one job (Config.Direct).
func (e *End) noJob() uint64 {
	if e.cfg.Direct != nil {
		return *e.cfg.Direct
	}
	return 0
}

// head writes the frame header and as many of the waiting rejects as end before limit, and returns
// where packets start. The peer is then owed nothing but rejects that had no room.
func (e *End) head(p *peer, b []byte, l arctic.Level, gid uint16, tag uint64, seq uint32, limit int) int {
	h := &e.out
	h.Sequence, h.Age = seq, 0
	f := p.flows[l]
	if f != nil {
		h.Age = uint16(seq - f.sndUna)
	}
	p.ackAt = 0
	answers := 0
	for i, f := range &p.flows {
		if f != nil {
			h.Acks[i] = f.rcvNext
			if h.Selective[i] = 0; f.ahead > 0 {
				h.Selective[i] = f.selective()
			}
			f.unacked = 0
			answers += int(f.answers)
		} else {
			h.Acks[i], h.Selective[i] = uint32(p.parked[i].reached), 0
		}
	}
	if f == nil {
		e.address(p, h, l, gid, tag)
		h.Encode(b)
	} else {
		o := &f.out
		if o.view != e.view || o.epoch != p.epoch || o.tag != tag || o.gid != gid {
			o.view, o.epoch, o.tag, o.gid = e.view, p.epoch, tag, gid
			e.address(p, h, l, gid, tag)
			o.template.Set(h)
		}
		o.template.Put(b, h)
	}
	if answers == 0 {
		return arctic.HeaderSize
	}
	n := arctic.HeaderSize
	for _, l := range arctic.ByPriority {
		if f := p.flows[l]; f != nil && f.answers > 0 {
			n = e.putRejects(f, b, n, limit)
			if f.answers > 0 {
				e.oweNow(p) // the rest follows in this step
			}
		}
	}
	return n
}

// address sets the fields of a header that say from where to where the frame goes, for which job.
func (e *End) address(p *peer, h *arctic.Header, l arctic.Level, gid uint16, tag uint64) {
	h.To, h.From, h.Level, h.GID, h.Route, h.Tag = p.Address, p.Local, l, gid, uint32(p.Card), tag
	h.SourceCard, h.DestinationCard, h.Epoch = e.cfg.Card, p.Card, p.epoch
	h.Hello, h.Bye, h.Direct = false, false, e.cfg.Direct != nil
}

// putRejects writes waiting rejects of the flow and returns where they end. Both kinds of reject of
// one frame travel together, because the sender settles a frame when it sees the first.
func (e *End) putRejects(f *flow, b []byte, n, limit int) int {
	for r := f.rejects.head; f.answers > 0 && n+2*arctic.RejectSize <= limit && arctic.Rejects(b) <=
		arctic.MaxRejects-2; r = r.next {
		if !r.asked {
			continue
		}
		r.asked = false
		f.answers--
		if r.Retry != 0 {
			n = arctic.PutReject(b, n, arctic.Reject{Sequence: r.sequence, Level: f.level, Reason: r.RetryReason,
				Bits: r.Retry})
		}
		if r.Fail != 0 {
			n = arctic.PutReject(b, n, arctic.Reject{Sequence: r.sequence, Level: f.level,
				Reason: r.FailReason, Bits: r.Fail})
		}
	}
	return n
}

// oweNow makes sure that the peer gets an acknowledgment in this step.
func (e *End) oweNow(p *peer) {
	p.ackAt = e.now
	if p.ackAt == 0 {
		p.ackAt = 1 // zero means nothing owed
	}
	if !p.inAckNow {
		p.inAckNow = true
		p.nextAckNow = e.ackNow
		e.ackNow = p
	}
}

// acknowledge sends the acknowledgments that are due. Before data has been dispatched it leaves out
// peers to which data is about to leave, because the data carries them. Afterwards it sends what is
// still owed because data did not leave.
func (e *End) acknowledge(dispatched bool) {
	p := e.ackNow
	e.ackNow = nil
	for p != nil {
		next := p.nextAckNow
		p.inAckNow, p.nextAckNow = false, nil
		waits := !dispatched && p.aboutToSend()
		for p.ackAt != 0 && p.established && !waits {
			if waits = !e.acknowledgeOnce(p); waits {
				e.blocked = true
				e.Counters.TransmitRingFull++
			}
		}
		if waits {
			e.oweNow(p)
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
		if f != nil && f.flying < f.window && (f.lost > 0 || f.turns.first != nil && f.sndNext-f.sndUna < Window) {
			return true
		}
	}
	return false
}

// answeredFor returns the account whose train the peer is owed an answer for, the reply level's
// first. nil: no account's, or the train was a repeat.
func (p *peer) answeredFor() *Account {
	for _, l := range arctic.ByPriority {
		if f := p.flows[l]; f != nil && (f.unacked > 0 || f.answers > 0) {
			return f.payer
		}
	}
	return nil
}

// acknowledgeOnce sends one frame without packets to a peer.
func (e *End) acknowledgeOnce(p *peer) bool {
	b := e.reserve(p)
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
	e.spendsFrame(p.answeredFor())
	n := e.head(p, b, l, p.gid, e.noJob(), f.sndNext, len(b))
	e.send(p, b, n, n)
	e.Counters.AcksSent++
	return true
}
