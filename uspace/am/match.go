package am

// This file is the receiving side of messages with tags: it keeps their order, and matches them
// with receives.

// envelope is a message that has arrived and was not received yet.
type envelope struct {
	links[envelope]
	pair   *pair
	source uint16
	form   uint32
	tag    uint32
	number uint32
	theirs uint32 // the sender's send, for a long message
	offer  uint32 // the message of bytes that it can travel as; 0: none
	length int
	short  [ShortTagged]byte
}

// Forms of envelopes, bits 17:16 of the third word.
const (
	formShort = 0 // the bytes follow
	formLong  = 1 // these follow: the send, its number of bytes, and its offer if any (fetch.go)
	formVoid  = 2 // the envelope of that number has come back, and will not arrive
)

// arrived handles an envelope. The first word is the message's number, 30 bits, and the space of
// its tag, 2 bits.
func (t *tags) arrived(m *Message, first uint32) {
	if first&3 > 1 {
		t.unknown++
		return
	}
	tag, third := m.Words[0], m.Words[1]
	form := third >> 16 & 3
	if !t.mayRun(m, typeTagged, third) {
		return
	}
	data, ok := content(third, m.Words[2:])
	if !ok || tag >= GroupTag|1<<30 || tag>>31 != first&3 || form > formVoid ||
		form == formLong && len(m.Words) != 4 && len(m.Words) != 5 {
		t.unknown++
		return
	}
	p := t.pair(tag, uint16(m.Source))
	// What the sender may have sent: what was not received, up to the window.
	ahead := (first>>2 - p.next) & numberMask
	if ahead >= (p.taken+TagWindow-p.next)&numberMask || ahead > 0 && p.has(first>>2) {
		t.unknown++
		return
	}
	n := t.envelope()
	n.pair, n.source, n.form, n.tag, n.number, n.offer = p, p.node, form, tag, first>>2, 0
	switch form {
	case formShort:
		n.length = copy(n.short[:], data)
	case formLong:
		n.theirs, n.length = m.Words[2], int(m.Words[3])
		if n.length > MaxTaggedBytes {
			n.length = MaxTaggedBytes // no sender says so
		}
		if len(m.Words) == 5 {
			n.offer = m.Words[4]
		}
	}
	if ahead > 0 {
		p.early.add(n)
		return
	}
	for n != nil {
		p.next = (p.next + 1) & numberMask
		t.accept(p, n, m)
		n = p.turn()
	}
}

// numberMask masks the numbers of messages, which wrap to 0 after it.
const numberMask = 1<<30 - 1

// has reports whether the envelope of a number has arrived early.
func (p *pair) has(number uint32) bool {
	for n := p.early.first; n != nil; n = n.next {
		if n.number == number {
			return true
		}
	}
	return false
}

// turn returns the next envelope in order, if it arrived early.
func (p *pair) turn() *envelope {
	for n := p.early.first; n != nil; n = n.next {
		if n.number == p.next {
			p.early.remove(n)
			return n
		}
	}
	return nil
}

// accept gives the next envelope to a receive that waits for it, or keeps it. m is a message of its
// sender.
func (t *tags) accept(p *pair, n *envelope, m *Message) {
	if n.form == formVoid {
		t.received(p)
		t.spare.add(n)
		return
	}
	for r := t.posted.first; r != nil; r = r.next {
		if r.takes(int(n.source), n.tag) {
			t.posted.remove(r)
			t.match(r, n, m)
			return
		}
	}
	t.kept.add(n)
}

// match gives a message to a receive; neither is in a list. It ends the receive, or tells the
// sender what the receive wants. m is a message of the sender that is being handled, or nil.
func (t *tags) match(r *tagReceive, n *envelope, m *Message) {
	p := n.pair
	t.received(p)
	r.received = Received{Source: int(n.source), Tag: n.tag, Bytes: n.length}
	r.theirs, r.want = n.theirs, min(n.length, len(r.b))
	long, offer := n.form == formLong, n.offer
	if !long {
		copy(r.b, n.short[:n.length])
	}
	t.spare.add(n)
	if !long {
		t.endReceive(r, truncated(r))
		return
	}
	r.state = opMoving
	if offer != 0 && t.fetch(r, offer, m) {
		return
	}
	t.tell(p, telling{toldGrant, r.ticket, r.theirs, uint32(r.want)})
	if r.want == 0 {
		t.endReceive(r, truncated(r))
	}
}

// truncated returns the error for a message that is longer than the memory of its receive.
func truncated(r *tagReceive) error {
	if r.received.Bytes > r.want {
		return ErrTruncate
	}
	return nil
}

// received notes that a message of the node was received.
func (t *tags) received(p *pair) {
	p.taken = (p.taken + 1) & numberMask
	if (p.taken-p.told)&numberMask >= TagWindow/2 {
		t.hurry(p)
	}
}

// envelope returns an unused envelope.
func (t *tags) envelope() *envelope {
	n := t.spare.first
	if n == nil {
		return new(envelope)
	}
	t.spare.remove(n)
	return n
}
