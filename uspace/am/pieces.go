package am

// This file sends the messages that two nodes exchange about messages with tags, and the pieces of
// long ones. It sends as many as the send queue has room for, at once or at the end of a later
// Poll.

import (
	"github.com/funet/funet/uspace/funi"
)

// Forms of a typeTold, bits 17:16 of its second word. Each form also says how many messages were
// received.
const (
	toldReceived = 0
	toldGrant    = 1 // the receive requests the given number of bytes of the send
	toldAbort    = 2 // the send of the receive has been given up
	toldDone     = 3 // a receive has got the message of the send; only of wide messages
	// doneBit in the first word, which has the send, tells a toldDone that comes back from others.
	doneBit = 1 << 31
)

const (
	// pieceBytes is how many bytes each piece but the last has.
	pieceBytes = 4 * (funi.MaxPayloadWords - 2)
	// turnPieces is how many pieces of a message are sent before those of the next message.
	turnPieces = 32
	// pollPieces is about how many pieces a Poll sends at its end.
	pollPieces = 512
)

// tell queues a message to the other node of a pair.
func (t *tags) tell(p *pair, w telling) {
	p.tell.add(w)
	t.hurry(p)
}

// hurry marks a pair as having something to send.
func (t *tags) hurry(p *pair) {
	if !p.busy && !p.gone {
		p.busy = true
		t.busy = append(t.busy, p)
	}
}

// say sends queued messages and pieces, and reports whether there were any. It does not wait.
func (t *tags) say() bool {
	if len(t.busy) == 0 && t.granted.first == nil {
		return false
	}
	t.busy, t.closing = t.closing[:0], t.busy
	for _, p := range t.closing {
		if p.busy = false; p.gone {
			continue
		}
		t.sayTo(p)
		t.flush(p)
	}
	t.pieces()
	return true
}

// sayTo sends the queued messages of a pair.
func (t *tags) sayTo(p *pair) {
	for p.tell.len() > 0 || p.due() {
		s := t.iface.Reserve(funi.Request)
		if s == nil {
			t.hurry(p)
			return
		}
		var w telling
		if p.tell.len() > 0 {
			w = p.tell.take()
		}
		first := w.mine
		switch w.form {
		case toldAbort:
			first = w.theirs
		case toldDone:
			first = w.theirs | doneBit
		}
		p.told, p.merges = p.taken, p.merged
		words := 5
		if p.space == wideSpace {
			words, s[6] = 6, p.merged
		}
		s.SetHeader(funi.NewHeader(p.node, typeTold, words))
		s[1], s[2], s[3], s[4], s[5] = first, t.stamp(int(p.node), w.form<<16|p.space<<18), w.theirs, w.want, p.taken
		t.commit(funi.Request, s)
	}
}

// flush sends the envelopes that a node has room for, in their order.
func (t *tags) flush(p *pair) {
	for p.void.len() > 0 || p.waiting.first != nil {
		if p.void.len() == 0 && (p.sent-p.matched)&numberMask >= p.window {
			return // what the node tells goes on with it
		}
		slot := t.iface.Reserve(funi.Request)
		if slot == nil {
			t.hurry(p)
			return
		}
		if p.void.len() > 0 {
			slot.SetHeader(funi.NewHeader(p.node, typeTagged, 3))
			slot[1], slot[2], slot[3] = p.void.take(), p.space<<31, t.stamp(int(p.node), formVoid<<16)
			t.commit(funi.Request, slot)
			continue
		}
		s := p.waiting.first
		head := taggedWords
		if p.space == wideSpace {
			head = s.wide.words()
		}
		parted := len(s.b) > 4*(funi.MaxPayloadWords-head) && t.inParts(p, s)
		if parted && t.iface.Slots()-1-t.iface.Unsent(funi.Request) < parts(len(s.b)) {
			t.hurry(p)
			return
		}
		p.waiting.remove(s)
		s.seq = p.sent
		p.sent = (p.sent + 1) & numberMask
		if parted {
			t.sendParts(p, s)
			t.endSend(s, nil)
			continue
		}
		t.sendEnvelope(p, s, slot, head)
	}
}

// sendEnvelope sends the envelope of a send, with the bytes of a short message or the offer of a
// long one. head is the number of words before those.
func (t *tags) sendEnvelope(p *pair, s *tagSend, slot *funi.Slot, head int) {
	slot[1], slot[2] = s.seq<<2|p.space, s.tag
	third := uint32(0)
	if p.space == wideSpace {
		third = s.wide.fill(slot)
	}
	rest := slot[1+head:]
	if len(s.b) > 4*(funi.MaxPayloadWords-head) || s.wide.Flags&WideConfirm != 0 {
		words := head + 2
		rest[0], rest[1] = s.ticket, uint32(len(s.b))
		if t.makeOffer(s); s.offer != 0 {
			words, rest[2] = words+1, s.offer
		}
		slot[3] = t.stamp(int(p.node), formLong<<16|third)
		slot.SetHeader(funi.NewHeader(p.node, typeTagged, words))
		s.state = opOffered
		p.offered.add(s)
		t.commit(funi.Request, slot)
		return
	}
	words, padding := pack(rest, s.b)
	slot.SetHeader(funi.NewHeader(p.node, typeTagged, head+words))
	slot[3] = t.stamp(int(p.node), formShort<<16|padding|third)
	t.commit(funi.Request, slot)
	t.endSend(s, nil)
}

// pieces sends pieces of the requested messages, in turns. It uses at most half of the send queue,
// so that the program's own messages find room.
func (t *tags) pieces() {
	for left := pollPieces; left > 0 && t.granted.first != nil; left -= turnPieces {
		room := t.iface.Slots()/2 - t.iface.Unsent(funi.Request)
		if room <= 0 {
			return
		}
		s := t.granted.first
		t.granted.remove(s)
		for range min(room, turnPieces) {
			slot := t.iface.Reserve(funi.Request)
			if slot == nil {
				break
			}
			n := min(len(s.b)-s.at, pieceBytes)
			words, _ := pack(slot[3:], s.b[s.at:s.at+n])
			slot.SetHeader(funi.NewHeader(s.pair.node, typePiece, 2+words))
			slot[1], slot[2] = s.theirs, uint32(s.at)
			s.at += n
			t.commit(funi.Request, slot)
			if s.at == len(s.b) {
				break
			}
		}
		switch {
		case s.at < len(s.b):
			t.granted.add(s)
		case s.wide.Flags&WideConfirm != 0:
			s.state = opMoved
			s.pair.offered.add(s)
		default:
			t.endSend(s, nil)
		}
	}
}

// toldArrived handles a typeTold.
func (t *tags) toldArrived(m *Message, first uint32) {
	second, theirs, want, taken := m.Words[0], m.Words[1], m.Words[2], m.Words[3]
	space, form := second>>18&3, second>>16&3
	if space > wideSpace || (space == wideSpace) != (len(m.Words) == 5) || form == toldDone && space != wideSpace {
		t.unknown++
		return
	}
	if !t.mayRun(m, typeTold, second) {
		return
	}
	p := t.pair(space, uint16(m.Source))
	if (taken-p.matched)&numberMask <= (p.sent-p.matched)&numberMask {
		p.matched = taken & numberMask
		if p.waiting.first != nil {
			t.hurry(p)
		}
	}
	if space == wideSpace && m.Words[4]-p.freed <= p.parted-p.freed {
		p.freed = m.Words[4]
	}
	switch form {
	case toldGrant, toldDone:
		t.asked(p, form, first, theirs, want)
	case toldAbort:
		if r := t.receives.find(first); r != nil && r.state == opMoving && r.pair.node == p.node {
			t.endReceive(r, ErrAborted)
		}
	}
}

// asked handles what a receive says of a send: that it wants bytes, or that it has them.
func (t *tags) asked(p *pair, form, receive, send, want uint32) {
	s := t.sends.find(send)
	switch {
	case form == toldDone:
		if s != nil && s.pair == p && s.state != opWaiting {
			t.unlist(s)
			t.endSend(s, nil)
		}
	case s == nil || s.pair != p || s.state == opWaiting || want > uint32(len(s.b)):
		t.e.bytes.dropOffer(p.node, send)
		t.tell(p, telling{form: toldAbort, theirs: receive})
	case s.state != opOffered: // said twice, because the first came back
	case want == 0:
		t.unlist(s)
		t.endSend(s, nil)
	default:
		t.unlist(s)
		t.endOffer(s, false)
		s.state, s.theirs, s.b = opMoving, receive, s.b[:want]
		t.granted.add(s)
	}
}

// pieceArrived takes a piece of a message.
func (t *tags) pieceArrived(m *Message, first uint32) {
	r := t.receives.find(first)
	if r == nil || r.state != opMoving || r.offer != 0 || r.received.Source != m.Source {
		return // cancelled, or not asked for
	}
	at := m.Words[0]
	data := bytesOf(m.Words[1:])
	if at >= uint32(r.want) || at%pieceBytes != 0 || len(data) < min(r.want-int(at), pieceBytes) {
		t.unknown++
		return
	}
	r.got += copy(r.b[at:r.want], data)
	if r.got >= r.want {
		t.confirm(r)
		t.endReceive(r, truncated(r))
	}
}

// cameBack handles a returned message of this protocol. It reports whether that is
// sufficient, so that the program need not know. Messages about messages concern only the library,
// and the other node may have received all that it wanted and have ended.
func (t *tags) cameBack(r *funi.Returned, err error) (own bool) {
	if r.Level != funi.Request || r.Header.Transfer() {
		return false
	}
	own = r.Header.Type() == typeTold
	node := r.Header.Node()
	if t.member != nil && gone(r.Reason) {
		return own // what waits for a member ends when it has left (depart)
	}
	switch r.Header.Type() {
	case typeTagged:
		t.envelopeBack(node, r, err)
	case typeTold:
		t.toldBack(node, r)
	case typePiece:
		t.pieceBack(node, r, err)
	}
	if gone(r.Reason) {
		t.failNode(int(node), err)
	}
	return own
}

// envelopeBack ends the send of an envelope that has come back, and makes the receiver not wait for
// it.
func (t *tags) envelopeBack(node uint16, r *funi.Returned, err error) {
	space := r.Word & 3
	p := t.pair(min(space, wideSpace), node)
	if p.void.len() < int(p.window) && (p.void.len() == 0 || p.voided != r.Word) {
		p.void.add(r.Word)
		p.voided = r.Word
	}
	for s := p.offered.first; s != nil; s = s.next {
		if s.state == opOffered && s.seq == r.Word>>2 {
			t.unlist(s)
			t.endSend(s, err)
			break
		}
	}
	if !gone(r.Reason) {
		t.hurry(p)
	}
}

// toldBack says again what a node was told, if it is there.
func (t *tags) toldBack(node uint16, r *funi.Returned) {
	if gone(r.Reason) {
		return
	}
	for _, pairs := range t.pairs {
		if pairs != nil && pairs[node] != nil {
			p := pairs[node]
			p.told = (p.taken - p.lag) & numberMask
			t.hurry(p)
		}
	}
	if r.Word&doneBit != 0 {
		t.tell(t.pair(wideSpace, node), telling{form: toldDone, theirs: r.Word &^ doneBit})
		return
	}
	if w := t.receives.find(r.Word); w != nil && w.state == opMoving && w.got == 0 && w.offer == 0 &&
		w.pair.node == node {
		t.tell(w.pair, telling{toldGrant, r.Word, w.theirs, uint32(w.want)})
	}
}

// pieceBack ends the send of a piece that has come back, and its receive.
func (t *tags) pieceBack(node uint16, r *funi.Returned, err error) {
	space := uint32(programSpace)
	if s := t.moving(node, r.Word); s != nil {
		space = s.pair.space
		t.unlist(s)
		t.endSend(s, err)
	}
	if !gone(r.Reason) {
		t.tell(t.pair(space, node), telling{form: toldAbort, theirs: r.Word})
	}
}

// moving returns the send whose pieces a receive of a node gets, or nil.
func (t *tags) moving(node uint16, receive uint32) *tagSend {
	for s := t.granted.first; s != nil; s = s.next {
		if s.pair.node == node && s.theirs == receive {
			return s
		}
	}
	if t.pairs[wideSpace] == nil || t.pairs[wideSpace][node] == nil {
		return nil
	}
	for s := t.pairs[wideSpace][node].offered.first; s != nil; s = s.next {
		if s.state == opMoved && s.theirs == receive {
			return s
		}
	}
	return nil
}
