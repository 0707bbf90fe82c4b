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
	p.tell = append(p.tell, w)
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
	for len(p.tell) > 0 || (p.taken-p.told)&numberMask >= TagWindow/2 {
		s := t.iface.Reserve(funi.Request)
		if s == nil {
			t.hurry(p)
			return
		}
		var w telling
		if len(p.tell) > 0 {
			w = p.tell[0]
			p.tell = append(p.tell[:0], p.tell[1:]...)
		}
		first := w.mine
		if w.form == toldAbort {
			first = w.theirs
		}
		p.told = p.taken
		s.SetHeader(funi.NewHeader(p.node, typeTold, 5))
		s[1], s[2], s[3], s[4], s[5] = first, t.stamp(int(p.node), w.form<<16|p.space<<18), w.theirs, w.want, p.taken
		t.commit(funi.Request, s)
	}
}

// flush sends the envelopes that a node has room for, in their order.
func (t *tags) flush(p *pair) {
	for len(p.void) > 0 || p.waiting.first != nil {
		if len(p.void) == 0 && (p.sent-p.matched)&numberMask >= TagWindow {
			return // what the node tells goes on with it
		}
		slot := t.iface.Reserve(funi.Request)
		if slot == nil {
			t.hurry(p)
			return
		}
		if len(p.void) > 0 {
			compose(slot, p.node, typeTagged, p.void[0]<<2|p.space, p.space<<31, nil)
			slot.SetHeader(funi.NewHeader(p.node, typeTagged, 3))
			slot[3] = t.stamp(int(p.node), formVoid<<16)
			p.void = append(p.void[:0], p.void[1:]...)
			t.commit(funi.Request, slot)
			continue
		}
		s := p.waiting.first
		p.waiting.remove(s)
		s.seq = p.sent
		p.sent = (p.sent + 1) & numberMask
		slot[1], slot[2] = s.seq<<2|p.space, s.tag
		if len(s.b) > ShortTagged {
			words := 5
			slot[3], slot[4], slot[5] = t.stamp(int(p.node), formLong<<16), s.ticket, uint32(len(s.b))
			if t.makeOffer(s); s.offer != 0 {
				words, slot[6] = 6, s.offer
			}
			slot.SetHeader(funi.NewHeader(p.node, typeTagged, words))
			s.state = opOffered
			t.commit(funi.Request, slot)
			continue
		}
		words, padding := pack(slot[4:], s.b)
		slot.SetHeader(funi.NewHeader(p.node, typeTagged, taggedWords+words))
		slot[3] = t.stamp(int(p.node), formShort<<16|padding)
		t.commit(funi.Request, slot)
		t.endSend(s, nil)
	}
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
			slot.SetHeader(funi.NewHeader(s.node, typePiece, 2+words))
			slot[1], slot[2] = s.theirs, uint32(s.at)
			s.at += n
			t.commit(funi.Request, slot)
			if s.at == len(s.b) {
				break
			}
		}
		if s.at == len(s.b) {
			t.endSend(s, nil)
		} else {
			t.granted.add(s)
		}
	}
}

// toldArrived handles a typeTold.
func (t *tags) toldArrived(m *Message, first uint32) {
	if m.Words[0]>>18&3 > 1 {
		t.unknown++
		return
	}
	if !t.mayRun(m, typeTold, m.Words[0]) {
		return
	}
	second, theirs, want, taken := m.Words[0], m.Words[1], m.Words[2], m.Words[3]
	p := t.pair(second>>18&1<<31, uint16(m.Source))
	if (taken-p.matched)&numberMask <= (p.sent-p.matched)&numberMask {
		p.matched = taken & numberMask
		if p.waiting.first != nil {
			t.hurry(p)
		}
	}
	switch second >> 16 & 3 {
	case toldGrant:
		s := t.sends.find(theirs)
		switch {
		case s == nil || s.node != p.node || s.state == opWaiting || want > uint32(len(s.b)):
			t.e.bytes.dropOffer(p.node, theirs)
			t.tell(p, telling{form: toldAbort, theirs: first})
		case s.state == opMoving: // said twice, because the first came back
		case want == 0:
			t.endSend(s, nil)
		default:
			t.endOffer(s, false)
			s.state, s.theirs, s.b = opMoving, first, s.b[:want]
			t.granted.add(s)
		}
	case toldAbort:
		if r := t.receives.find(first); r != nil && r.state == opMoving && r.received.Source == m.Source {
			t.endReceive(r, ErrAborted)
		}
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
		p := t.pair(r.Word&1<<31, node)
		if len(p.void) < TagWindow {
			p.void = append(p.void, r.Word>>2)
		}
		for s := range t.sends.used {
			if s.state == opOffered && s.node == node && s.seq == r.Word>>2 && s.tag>>31 == r.Word&1 {
				t.endSend(s, err)
			}
		}
		if !gone(r.Reason) {
			t.hurry(p)
		}
	case typeTold:
		for space := range t.pairs {
			if t.pairs[space] != nil && t.pairs[space][node] != nil && !gone(r.Reason) {
				p := t.pairs[space][node]
				p.told = (p.taken - TagWindow/2) & numberMask
				t.hurry(p)
			}
		}
		if w := t.receives.find(r.Word); w != nil && w.state == opMoving && w.got == 0 && w.offer == 0 &&
			w.received.Source == int(node) && !gone(r.Reason) {
			t.tell(t.pair(w.received.Tag, node), telling{toldGrant, r.Word, w.theirs, uint32(w.want)})
		}
	case typePiece:
		space := uint32(0)
		for s := t.granted.first; s != nil; s = s.next {
			if s.node == node && s.theirs == r.Word {
				space = s.tag
				t.granted.remove(s)
				t.endSend(s, err)
				break
			}
		}
		if !gone(r.Reason) {
			t.tell(t.pair(space, node), telling{form: toldAbort, theirs: r.Word})
		}
	}
	if gone(r.Reason) {
		t.failAll(err, func(of int) bool { return of == int(node) })
	}
	return own
}

// failAll ends sends to selected nodes, and receives from them. Receives from any node continue.
func (t *tags) failAll(err error, which func(node int) bool) {
	for s := range t.sends.used {
		if which(int(s.node)) {
			t.dropSend(s, err)
		}
	}
	for r := range t.receives.used {
		if r.from() != AnySource && which(r.from()) {
			t.dropReceive(r, err)
		}
	}
	for m := t.kept.first; m != nil; {
		next := m.next
		if m.form == formLong && which(int(m.source)) { // its sender would not send it
			t.kept.remove(m)
			t.received(m.pair)
			t.spare.add(m)
		}
		m = next
	}
}
