package link

// This file is the lone message: one packet for a node to which nothing else is on its way out, as
// in a dialogue. It leaves at once in a frame of its own, past the lists of dispatch.go, because it
// would be alone on them. In any less common case Lone refuses the line, which then goes there.

import "github.com/funet/funet/uspace/arctic"

// Lone sends a line as Queue and Send would, if nothing else waits to be sent and nothing keeps its
// stream or flow from sending. Otherwise it does nothing and returns false. Its caller passes no
// line with a block.
func (e *End) Lone(card uint16, l arctic.Level, ln *Line) bool {
	p := e.byCard.at(card)
	f := p.flows[l]
	if f == nil || !p.established || e.ackNow != nil || e.ready[arctic.Reply].head != nil ||
		e.ready[arctic.Request].head != nil {
		return false // acknowledgments, and what waits already, go first
	}
	s := f.recent
	if s == nil || !s.met && p.defers || f.held > 0 ||
		s.owner != ln.Owner || s.node != ln.Node || s.sort != ln.sort() || s.waiting.head != nil ||
		s.hold > e.now || s.flying >= s.limit ||
		f.lost > 0 || f.flying >= f.window || f.sndNext-f.sndUna >= Window || p.timer == notTimed ||
		ln.Owner.Follower != nil {
		return false
	}
	payer := s.payer
	if a := payer.account; a.round != e.round && a.spent || !e.solvent(a) || payer.full ||
		payer.flight >= contendedFlight && e.Contended() {
		return false
	}
	b := e.reserve(p)
	if len(b) < arctic.HeaderSize+int(ln.Size) {
		return false // the transmit ring is full
	}
	if int(f.sndNext-f.sndUna) == len(f.frames) {
		e.widen(f)
	}
	seq := f.sndNext
	fr := f.frame(seq)
	*fr = frame{train: ln, size: ln.Size, state: flying, sentAt: e.now}
	ln.next, ln.stream = nil, s
	f.sndNext++
	f.flying++
	s.flying++
	payer.flight += int(ln.Size)
	payer.account.dispatch -= int(ln.Size) + frameBytes
	e.Uses(payer.account, int(ln.Size)+FrameTime)
	n := e.head(p, b, l, ln.Owner.GID, ln.Owner.Tag, seq, len(b)-int(ln.Size))
	n = arctic.PutPacket(b, n, ln.Data[:ln.Size])
	filled := n
	if p.raiseAt != 0 {
		filled = e.tryLonger(p, fr, n)
	}
	e.send(p, b, n, filled)
	e.Counters.PacketsSent++
	e.Counters.TrainsSent++
	if p.silentSince == 0 {
		p.silentSince = e.now
	}
	e.watchOver(f)
	return true
}
