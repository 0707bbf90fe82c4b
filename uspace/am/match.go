package am

// This file is the receiving side of messages with tags: it keeps their order, and matches them
// with receives.

// envelope is a message that has arrived and was not received yet.
type envelope struct {
	links[envelope]
	pair    *pair
	form    uint32
	channel uint16 // narrow: none
	origin  uint8
	flags   WideFlags
	tag     uint64
	data    uint64
	number  uint32
	theirs  uint32 // the sender's send, for a long message
	offer   uint32 // the message of bytes that it can travel as; 0: none
	length  int
	entries *entry // in the classes of receives
	parted  bool   // it comes in parts (parts.go)
	missing uint32 // bit set of its parts that have yet to arrive
	block   *block // of a message in parts
	short   [ShortTagged]byte
}

// Forms of envelopes, bits 17:16 of the third word.
const (
	formShort = 0 // the bytes follow
	formLong  = 1 // these follow: the send, its number of bytes, and its offer if any (fetch.go)
	formVoid  = 2 // the envelope of that number has come back, and will not arrive
	formPart  = 3 // not an envelope, but a part of a message (parts.go)
)

// arrived handles an envelope. The first word is the message's number, 30 bits, and the space of
// its tag, 2 bits.
func (t *tags) arrived(m *Message, first uint32) {
	tag, third := m.Words[0], m.Words[1]
	form := third >> 16 & 3
	if !t.mayRun(m, typeTagged, third) {
		return
	}
	if first&3 >= wideSpace {
		t.wideArrived(m, first)
		return
	}
	data, ok := content(third, m.Words[2:])
	if !ok || tag >= GroupTag|1<<30 || tag>>31 != first&3 || form > formVoid ||
		form == formLong && len(m.Words) != 4 && len(m.Words) != 5 {
		t.unknown++
		return
	}
	p := t.pair(first&3, uint16(m.Source))
	ahead, ok := p.distance(first >> 2)
	if !ok || p.early.at(first>>2, ahead) != nil {
		t.unknown++
		return
	}
	n := t.envelope(p, first>>2)
	n.form, n.channel, n.origin, n.tag = form, narrow, 0, uint64(tag)
	n.fill(data, m.Words[2:])
	t.order(n, ahead, m)
}

// numberMask masks the numbers of messages, which wrap to 0 after it.
const numberMask = 1<<30 - 1

// distance returns how far a number is ahead of the next one, and whether the sender may have sent
// it: what was not received, up to the window.
func (p *pair) distance(number uint32) (ahead uint32, ok bool) {
	ahead = (number - p.next) & numberMask
	return ahead, ahead < (p.taken+p.window-p.next)&numberMask
}

// fill sets what follows an envelope's tag: the bytes of a short message, as content returns them,
// or the words of a long one.
func (n *envelope) fill(data []byte, words []uint32) {
	switch n.form {
	case formShort:
		n.length = copy(n.short[:], data)
	case formLong:
		n.theirs, n.length = words[0], int(words[1])
		if n.length > MaxTaggedBytes {
			n.length = MaxTaggedBytes // no sender says so
		}
		if len(words) == 3 {
			n.offer = words[2]
		}
	}
}

// order accepts a message that is the next of its sender, and those after it that arrived early. It
// puts one whose turn has not come among those. m is a message of its sender.
func (t *tags) order(n *envelope, ahead uint32, m *Message) {
	p := n.pair
	if ahead > 0 {
		p.early.add(n, ahead)
		return
	}
	for n != nil {
		p.next = (p.next + 1) & numberMask
		t.accept(n, m)
		n = p.turn()
	}
}

// accept gives the next envelope to a receive that waits for it, or keeps it. m is a message of its
// sender.
func (t *tags) accept(n *envelope, m *Message) {
	if n.form == formVoid {
		t.received(n)
		t.free(n)
		return
	}
	if r := t.receiver(n); r != nil {
		taker := t.taker(r, n)
		if taker == r {
			t.unpost(r)
		}
		t.match(taker, n, m)
		return
	}
	t.keep(n)
}

// taker returns the receive that gets a message that another one takes: a part of that one, which
// goes on behind the part, or that one itself.
func (t *tags) taker(r *tagReceive, n *envelope) *tagReceive {
	bytes := min(n.length, len(r.b))
	if r.many == nil || len(r.b)-bytes < max(r.many.Least, 1) || !t.receives.room() || !r.many.More() {
		return r
	}
	part, ticket := t.receives.take()
	part.ticket, part.pattern, part.b, part.at, part.done, part.many = ticket, r.pattern, r.b[:bytes:bytes], r.at, r.done, r.many
	r.many.left++
	r.b, r.at = r.b[bytes:], r.at+bytes
	return part
}

// match gives a message to a receive; neither is in a list. It ends the receive, or tells the
// sender what the receive wants. m is a message of the sender that is being handled, or nil.
func (t *tags) match(r *tagReceive, n *envelope, m *Message) {
	p := n.pair
	t.received(n)
	r.received = n.describe()
	r.want = min(n.length, len(r.b))
	if n.form != formLong {
		copy(r.b, n.bytes())
		t.free(n)
		t.endReceive(r, truncated(r))
		return
	}
	r.state, r.theirs, r.got, r.offer = opMoving, n.theirs, 0, 0
	t.expect(r, p)
	offer := n.offer
	t.free(n)
	switch {
	case offer != 0 && t.fetch(r, offer, m):
	case r.want == 0:
		t.takeNothing(p, r.ticket, r.theirs)
		t.endReceive(r, truncated(r))
	default:
		t.tell(p, telling{toldGrant, r.ticket, r.theirs, uint32(r.want)})
	}
}

// takeNothing tells the sender of a long message that a receive has taken it and wants no bytes.
func (t *tags) takeNothing(p *pair, receive, send uint32) {
	if p.space == wideSpace {
		t.tell(p, telling{form: toldDone, theirs: send})
		return
	}
	t.tell(p, telling{toldGrant, receive, send, 0})
}

// confirm tells the sender of a message that came in pieces that its receive has ended, if the
// sender waits for that.
func (t *tags) confirm(r *tagReceive) {
	if r.offer == 0 && r.received.Wide.Flags&WideConfirm != 0 {
		t.tell(r.pair, telling{form: toldDone, theirs: r.theirs})
	}
}

// describe returns what a receive is told of a message.
func (n *envelope) describe() Received {
	if n.channel == narrow {
		return Received{Source: int(n.pair.node), Tag: uint32(n.tag), Bytes: n.length}
	}
	return Received{Source: int(n.pair.node), Bytes: n.length,
		Wide: Wide{Channel: uint8(n.channel), Origin: n.origin, Tag: n.tag, Data: n.data, Flags: n.flags}}
}

// bytes returns the bytes of a message that is not long.
func (n *envelope) bytes() []byte {
	if n.block != nil {
		return n.block[:n.length]
	}
	return n.short[:n.length]
}

// truncated returns the error for a message that is longer than the memory of its receive.
func truncated(r *tagReceive) error {
	if r.received.Bytes > r.want {
		return ErrTruncate
	}
	return nil
}

// received notes that a message was received, or will not come.
func (t *tags) received(n *envelope) {
	p := n.pair
	p.taken = (p.taken + 1) & numberMask
	if n.parted {
		p.merged++
	}
	if p.due() {
		t.hurry(p)
	}
}

// envelope returns an unused envelope, of a pair.
func (t *tags) envelope(p *pair, number uint32) *envelope {
	n := t.spare.first
	if n == nil {
		n = new(envelope)
	} else {
		t.spare.remove(n)
	}
	n.pair, n.number, n.offer = p, number, 0
	return n
}

// free frees an envelope.
func (t *tags) free(n *envelope) {
	if n.parted {
		t.freeBlock(n)
	}
	n.pair = nil
	t.spare.add(n)
}
