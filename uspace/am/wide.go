package am

// This file is wide messages: messages with tags of 64 bits, as MPI libraries and libfabric have
// them, in channels, and with 64 bits of data beside their bytes.
//
// The journey is that of other messages with tags (tags.go). The envelope has more words:
//
//	number 31:2, space 1:0
//	lower half of the tag
//	origin 7:0, padding 9:8, lives 14:10 and 31:27, confirm 15, form 17:16, channel 25:18, data
//	follow 26
//	upper half of the tag
//	two words of data, if bit 26 is set
//	the bytes of a short message, or send, length, and maybe the offer
//
// A short message leaves at once, and one of up to PartedWide bytes in several packets (parts.go).
// For a longer one the receive that takes it asks. A send with WideConfirm waits for its receive,
// whatever its length: it ends when the bytes are in the memory of the receive, which says so by
// toldDone.

import (
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/funi"
)

const (
	// ShortWide is how many bytes travel with the envelope of a wide message. They are 8 fewer if
	// it has data.
	ShortWide = 4 * (funi.MaxPayloadWords - wideWords)
	// MaxClaims is how many messages may be claimed at a time.
	MaxClaims = 1 << wideTicketBits

	wideWords     = 4
	wideDataWords = 2
	originMask    = 1<<8 - 1
	channelShift  = 18
	dataBit       = 1 << 26
	confirmBit    = 1 << 15
)

// WideFlags say more about a wide message.
type WideFlags uint8

const (
	// WideData says that Wide.Data travels with the message.
	WideData WideFlags = 1 << iota
	// WideConfirm makes the send end only when a receive has got the message: FI_DELIVERY_COMPLETE
	// of libfabric, MPI_Ssend.
	WideConfirm
)

// Wide describes a wide message, beside its bytes.
type Wide struct {
	Tag     uint64
	Data    uint64 // of the receiver's completion; not 0 only with WideData
	Channel uint8  // only receives of the same channel take the message
	Origin  uint8  // which part of the sender's program it is from
	Flags   WideFlags
}

// Want describes the wide messages that a receive takes. Bits of the tag that are set in Ignore do
// not matter. With AnySource Origin does not matter either. Many is for StartRecvWide only.
type Want struct {
	Source  int // a node, or AnySource
	Origin  uint8
	Channel uint8
	Tag     uint64
	Ignore  uint64
	Many    *Many // nil: one message
}

// Many makes a receive store one message behind the other in its memory, while Least or more bytes
// of it are left (FI_MULTI_RECV). Meanwhile it keeps its place among the receives. Its function is
// called for each message, and Received.At says where that is. The calls for long messages may come
// late. Received.More is false in the last call; memory and Many are then the program's again.
//
// A message longer than what is left is the last one, and truncated. Also the last one is a message
// for which More, called before, returns false, and one that comes while MaxTagged receives are in
// flight. Cancel ends the receives of all messages that are on their way into the memory.
type Many struct {
	Least int         // 1 or more
	More  func() bool // any context

	ticket uint32 // of the receive that goes on
	left   int    // receives
}

// Claim is a message that a later receive is to get. The zero Claim has none.
type Claim struct {
	tags   *tags
	ticket uint32
}

// ErrClaim reports a claim of no message, or one that was used.
var ErrClaim = errors.New("am: no message is claimed by that name")

// claim is a message that was claimed.
type claim struct {
	*envelope       // nil: its sender is gone
	err       error // why
}

// words returns how many words of the envelope precede the bytes.
func (w *Wide) words() int {
	if w.Flags&WideData != 0 {
		return wideWords + wideDataWords
	}
	return wideWords
}

// fill puts the words of the envelope into a slot that follow the third, and returns what belongs
// into that.
func (w *Wide) fill(slot *funi.Slot) (third uint32) {
	third = uint32(w.Channel)<<channelShift | uint32(w.Origin)
	slot[4] = uint32(w.Tag >> 32)
	if w.Flags&WideConfirm != 0 {
		third |= confirmBit
	}
	if w.Flags&WideData != 0 {
		third |= dataBit
		slot[5], slot[6] = uint32(w.Data), uint32(w.Data>>32)
	}
	return third
}

// StartSendWide sends b, 0 to MaxTaggedBytes (ErrLong), to a node as a wide message. It is
// otherwise as StartSendTag. Messages to a node arrive in the order of sending, over all channels
// and tags. done is called when b may be changed. With WideConfirm that is when a receive has got
// the message, or was cancelled after it had taken the message. Beyond WideWindow unreceived
// messages the next ones wait. Main program only.
func (e *Endpoint) StartSendWide(node int, w Wide, b []byte, done func(error)) (ID, error) {
	if len(b) > MaxTaggedBytes {
		return 0, fmt.Errorf("sending %d bytes to node %d: %w", len(b), node, ErrLong)
	}
	if err := e.refusal(node, 0); err != nil {
		return 0, err
	}
	if e.member != nil {
		if err := e.member.admit(node); err != nil {
			return 0, err
		}
	}
	t := &e.tags
	if err := e.wait(t.sends.room, e.ProbeCalled); err != nil {
		return 0, err
	}
	p := t.pair(wideSpace, uint16(node))
	s, ticket := t.sends.take()
	s.ticket, s.pair, s.tag, s.wide, s.b, s.done = ticket, p, uint32(w.Tag), w, b, done
	return t.start(p, s), nil
}

// StartRecvWide receives into b the next wide message that w describes, or with w.Many the next
// messages. It is otherwise as StartRecv. Received tells the whole tag, the data and the origin.
// Main program only.
func (e *Endpoint) StartRecvWide(w Want, b []byte, done func(Received, error)) (ID, error) {
	want, err := e.tags.wanted("receiving", w)
	if err == nil && e.inHandler() {
		err = fmt.Errorf("receiving from node %d: %w", w.Source, ErrHandler)
	}
	if err != nil {
		return 0, err
	}
	return e.tags.receive(want, b, w.Many, done)
}

// wanted returns the pattern of a receive of wide messages.
func (t *tags) wanted(doing string, w Want) (pattern, error) {
	if w.Source != AnySource && uint(w.Source) >= uint(t.nodes) {
		return pattern{}, fmt.Errorf("%s from node %d of %d: %w", doing, w.Source, t.nodes, ErrNode)
	}
	return pattern{source: w.Source, origin: w.Origin, channel: uint16(w.Channel), tag: w.Tag &^ w.Ignore,
		ignore: w.Ignore}, nil
}

// PeekWide describes the message that StartRecvWide would take at once; false: it would wait
// (MPI_Iprobe, FI_PEEK). It does not poll. Any context.
func (e *Endpoint) PeekWide(w Want) (Received, bool) {
	n := e.tags.peek(w)
	if n == nil {
		return Received{}, false
	}
	return n.describe(), true
}

// peek returns the first message that matches, or nil.
func (t *tags) peek(w Want) *envelope {
	want, err := t.wanted("looking for a message", w)
	if err != nil {
		return nil
	}
	return t.first(t.class(&want), &want)
}

// ClaimWide is PeekWide that takes the message away from other receives (MPI_Mprobe, FI_CLAIM). It
// counts as unreceived until the claim is received or discarded. While MaxClaims messages are
// claimed it finds none. Any context.
func (e *Endpoint) ClaimWide(w Want) (Received, Claim, bool) {
	t := &e.tags
	n := t.peek(w)
	if n == nil || !t.claims.room() {
		return Received{}, Claim{}, false
	}
	t.unkeep(n)
	if n.form == formLong {
		n.pair.long++
	}
	c, ticket := t.claims.take()
	c.envelope, c.err = n, nil
	return n.describe(), Claim{t, ticket}, true
}

// end ends a claim, and returns its message; nil: the sender is gone.
func (c Claim) end() (*envelope, error) {
	if c.tags == nil {
		return nil, ErrClaim
	}
	t := c.tags
	found := t.claims.find(c.ticket)
	if found == nil {
		return nil, ErrClaim
	}
	n, err := found.envelope, found.err
	found.envelope, found.err = nil, nil
	t.claims.give(c.ticket)
	if n != nil && n.form == formLong {
		n.pair.long--
	}
	return n, err
}

// StartRecv receives the message into b, and ends the claim. It is otherwise as
// Endpoint.StartRecvWide. ErrClaim reports a claim that has no message or was used. Another error
// reports that the sender of a long message is gone. Main program only.
func (c Claim) StartRecv(b []byte, done func(Received, error)) (ID, error) {
	const doing = "receiving a claimed message"
	t := c.tags
	switch {
	case t == nil:
		return 0, fmt.Errorf("%s: %w", doing, ErrClaim)
	case t.inHandler():
		return 0, fmt.Errorf("%s: %w", doing, ErrHandler)
	}
	if err := t.wait(t.receives.room, t.e.ProbeCalled); err != nil {
		return 0, err
	}
	n, err := c.end()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", doing, err)
	}
	r, ticket := t.receives.take()
	r.ticket, r.b, r.done, r.at, r.many = ticket, b, done, 0, nil
	r.pattern = pattern{source: int(n.pair.node), origin: n.origin, channel: n.channel, tag: n.tag}
	t.match(r, n, nil)
	t.sayNow()
	return recvID | ID(ticket), nil
}

// Discard drops the message, and ends the claim (FI_DISCARD). The sender goes on as if the message
// had been received. ErrClaim is as in StartRecv. Any context.
func (c Claim) Discard() error {
	n, err := c.end()
	switch {
	case errors.Is(err, ErrClaim):
		return fmt.Errorf("discarding a message: %w", err)
	case n == nil:
		return nil
	}
	t := c.tags
	t.received(n)
	if n.form == formLong {
		t.takeNothing(n.pair, 0, n.theirs)
	}
	t.free(n)
	return nil
}

// wideArrived handles an envelope or a part of a wide message, which may be of this life.
func (t *tags) wideArrived(m *Message, first uint32) {
	number := first >> 2
	p := t.pair(wideSpace, uint16(m.Source))
	ahead, ok := p.distance(number)
	var n *envelope
	switch parted, form := first&3 == partsSpace, m.Words[1]>>16&3; {
	case !ok:
	case form == formVoid:
		n = t.voidArrived(p, number, ahead, parted)
	case form == formPart && parted:
		if data, ok := content(m.Words[1], m.Words[2:]); ok {
			n = t.partArrived(p, number, ahead, int(m.Words[0]&(1<<partIndexShift-1)),
				int(m.Words[0]>>partIndexShift), data)
		}
	case form != formPart && (parted || p.early.at(number, ahead) == nil):
		n = t.readWide(m, p, number, ahead, parted)
	}
	switch {
	case n == nil:
		t.unknown++
	case n.missing != 0: // in its place
	default:
		if p.early.at(number, ahead) == n {
			if ahead > 0 {
				return
			}
			n = p.turn()
		}
		t.order(n, ahead, m)
	}
}

// readWide reads an envelope, which may be the first part of a message, and returns the message. It
// returns nil for one of another form.
func (t *tags) readWide(m *Message, p *pair, number, ahead uint32, parted bool) *envelope {
	tag, third, words := uint64(m.Words[0]), m.Words[1], m.Words[2:]
	head := wideWords - taggedWords
	if third&dataBit != 0 {
		head += wideDataWords
	}
	if len(words) < head {
		return nil
	}
	w := Wide{Tag: tag | uint64(words[0])<<32, Channel: uint8(third >> channelShift), Origin: uint8(third & originMask)}
	if third&dataBit != 0 {
		w.Flags, w.Data = WideData, uint64(words[1])|uint64(words[2])<<32
	}
	if third&confirmBit != 0 {
		w.Flags |= WideConfirm
	}
	form, rest := third>>16&3, words[head:]
	data, ok := content(third, rest)
	long := form == formLong
	if !ok || !long && w.Flags&WideConfirm != 0 || long && (parted || len(rest) != 2 && len(rest) != 3) {
		return nil
	}
	var n *envelope
	switch {
	case !parted:
		n = t.envelope(p, number)
		n.form = form
		n.fill(data, rest)
	case len(rest) < 1+headPart/4:
		return nil
	default:
		if n = t.partArrived(p, number, ahead, int(min(rest[0], PartedWide+1)), 0, data[4:4+headPart]); n == nil {
			return nil
		}
	}
	n.channel, n.origin, n.tag, n.data, n.flags = uint16(w.Channel), w.Origin, w.Tag, w.Data, w.Flags
	return n
}

// voidArrived makes the message of a number one that will not come, and returns it. Parts that have
// arrived are dropped.
func (t *tags) voidArrived(p *pair, number, ahead uint32, parted bool) *envelope {
	n := p.early.at(number, ahead)
	switch {
	case n == nil:
		n = t.envelope(p, number)
	case n.missing == 0:
		return nil // it has come all the same
	default:
		t.freeBlock(n)
	}
	n.form, n.parted = formVoid, parted
	return n
}
