package chaos

// This file has the messages that processes send to where their receivers have said, while all
// other faults happen (engine/send.go, receive.go): short and long ones, into receive rings and
// posted buffers. A receiver keeps some messages before it gives their room back, in another order
// than that of the ring; closes its ring now and then, and opens another; and posts a buffer that
// is no memory of its own.
//
// A message arrives at most once, with its tags, at the life that it was for. Its bytes are those
// that were sent, when the receiver hears of it and when it gives the room back: so no room is
// given out twice. A sender's source is overwritten as soon as its slot is retired. A message that
// is complete without a failure has arrived. One that is cut is so for both ends. At the end each
// message between two lives that go on has arrived, or its sender was told; and all room is free.

import (
	"math/rand/v2"
	"slices"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/sim"
)

const (
	letterBase = 0x6000_0000
	// The ring, or the queue and the buffers; then the memory that messages are sent from.
	letterRing    = 16 << 10
	letterQueue   = 8 * funi.PostedBytes
	letterBuffers = 4
	letterBuffer  = 3 << 10
	letterFirst   = 1 << 10 // where the first buffer begins
	letterStages  = 4
	letterStage   = 8 << 10
	letterSegment = letterRing + letterStages*letterStage
	letterCredit  = 16
)

// letter is the record of a message.
type letter struct {
	number   uint32
	from, to *inbox
	job      uint32
	size     int
	userTag  uint64
	asked    bool
	silent   bool
	arrived  bool // all that the receiver takes
	broken   bool // the receiver was told that it will not come
	cut      bool
	ended    bool // the sender was told the outcome, or that it came back
	reason   arctic.Reason
}

// held is a message whose room the receiver keeps.
type held struct {
	letter *letter
	note   funi.Message
	bytes  []byte
	posted bool
	until  int64
}

// staged is memory of a sender that its card reads.
type staged struct {
	busy bool
	upTo uint64 // slots of the request queue that are retired when the card has read it
}

// inboxPhase is the phase of where a life of a member receives.
type inboxPhase uint8

const (
	inboxOpening inboxPhase = iota
	inboxOpen
	inboxClosing
	inboxShut
)

// inbox is where a life of a member receives, and what it sends from.
type inbox struct {
	m       *member
	random  *rand.Rand
	memory  []byte
	phase   inboxPhase
	mode    funi.ReceiveMode
	upTo    uint64 // slots of the reply queue that are retired when the phase ends
	changes int64
	closes  int // how often it was closed
	reader  *funi.RingReader
	units   uint32 // of the ring
	owed    uint32 // units, or buffers, that the card has not been told of
	held    []held
	posted  uint32            // number of the next descriptor
	buffers map[uint32]uint32 // by descriptor: the buffer; letterBuffers: none
	free    []uint32
	stages  [letterStages]staged
	settles bool
}

func (m *member) newInbox() {
	b := &inbox{m: m, memory: make([]byte, letterSegment), buffers: map[uint32]uint32{},
		random: rand.New(rand.NewPCG(m.run.scenario.Seed, streamLetters+uint64(m.life())))}
	succeed(m.process.Context().Register(funi.Segment{Base: letterBase, Memory: b.memory,
		Rights: funi.Keyed | funi.Source}))
	m.inbox = b
	b.phase = inboxShut
	b.opens()
}

// opens opens a ring, posted buffers, or neither.
func (b *inbox) opens() {
	o := funi.Receive{Mode: funi.ReceiveMode(b.random.IntN(8)), Base: letterBase,
		Credit: 1 + uint32(b.random.IntN(letterCredit))}
	switch o.Mode {
	case funi.ReceiveFast:
		o.Base = 0
	case funi.ReceivePosted, 5, 6, 7:
		o.Mode, o.Bytes = funi.ReceivePosted, letterQueue
	default:
		o.Mode, o.Bytes = funi.ReceiveRing, letterRing>>b.random.IntN(3)
	}
	// at the reply level, where it waits behind no message
	if !b.m.command(funi.Reply, &b.upTo, func(s *funi.Slot) { s.SetOpenReceive(&o, commandBit) }) {
		return
	}
	b.mode, b.phase, b.reader, b.owed, b.held, b.posted = o.Mode, inboxOpening, nil, 0, nil, 0
	b.free = b.free[:0]
	clear(b.buffers)
	switch o.Mode {
	case funi.ReceiveRing:
		b.reader, b.units = funi.NewRingReader(o.Bytes), o.Bytes/funi.ReceiveUnit
	case funi.ReceivePosted:
		for n := range uint32(letterBuffers) {
			b.free = append(b.free, n)
		}
	}
}

// step gives back room, posts buffers, and opens and closes.
func (b *inbox) step() {
	now, done := b.m.run.world.Now(), b.m.carriedOut(funi.Reply) >= b.upTo
	switch {
	case b.phase == inboxOpening && done:
		b.phase, b.changes = inboxOpen, now+int64(1+b.random.IntN(60))*b.m.idle()
	case b.phase == inboxOpen && !b.settles && now >= b.changes && b.m.run.quota() && b.random.IntN(4) == 0:
		if b.m.command(funi.Reply, &b.upTo, func(s *funi.Slot) { s.SetCloseReceive(commandBit) }) {
			b.phase = inboxClosing
			b.closes++
		}
	case b.phase == inboxClosing && done:
		b.phase, b.changes, b.held = inboxShut, now+b.m.idle(), nil
	case b.phase == inboxShut && (now >= b.changes || b.settles):
		b.opens()
	}
	for n := range b.stages {
		if s := &b.stages[n]; s.busy && b.m.carriedOut(funi.Request) >= s.upTo {
			s.busy = false
			fill(b.stage(n), ^b.m.life(), n)
		}
	}
	b.gives(now)
}

// gives gives back the room of messages that were held long enough, the newest first.
func (b *inbox) gives(now int64) {
	if b.phase != inboxOpen {
		return
	}
	for n := len(b.held) - 1; n >= 0; n-- {
		h := &b.held[n]
		if now < h.until && !b.settles {
			continue
		}
		if !holds(h.bytes, h.letter.number, h.letter.size) {
			b.m.run.damaged("%d bytes of message %d to member %d have changed before their room was given back",
				len(h.bytes), h.letter.number, b.m.number)
		}
		if h.posted {
			b.free = append(b.free, b.buffers[h.note.Descriptor])
			delete(b.buffers, h.note.Descriptor)
		} else {
			b.owed += b.reader.Done(&h.note)
		}
		b.held = slices.Delete(b.held, n, n+1)
	}
	for len(b.free) > 0 && !b.settles {
		n := b.free[0]
		at, size := uint32(letterBase+letterFirst)+n*letterBuffer, uint32(1+b.random.IntN(letterBuffer))
		if b.buffers[b.posted] = n; b.random.IntN(32) == 0 {
			at, b.buffers[b.posted] = 64, letterBuffers // which is no memory of its own
		} else {
			b.free = b.free[1:]
		}
		if len(b.buffers) > letterQueue/funi.PostedBytes {
			delete(b.buffers, b.posted)
			break // wrong ones have taken the queue's room
		}
		funi.PutPosted(b.memory[:letterQueue], b.posted, at, size)
		b.posted++
		b.owed++
	}
	if b.owed > 0 && b.m.command(funi.Reply, &b.upTo, func(s *funi.Slot) { s.SetGiveReceive(b.owed, commandBit) }) {
		b.owed = 0
	}
}

func (b *inbox) stage(n int) []byte {
	at := letterRing + n*letterStage
	return b.memory[at : at+letterStage]
}

// due returns when the inbox has something to do.
func (b *inbox) due() int64 {
	now := b.m.run.world.Now()
	at := b.m.run.world.Now() + b.m.run.pause + 1
	for _, h := range b.held {
		at = min(at, max(h.until, now+1))
	}
	if len(b.held) == 0 && b.owed == 0 && b.phase == inboxOpen && (b.settles || !b.m.run.quota()) {
		return sim.Never
	}
	return at
}

// writes sends some messages to a member of the group.
func (m *member) writes() {
	b := m.inbox
	to := m.run.members[m.choose()]
	if b == nil || to.process == nil || to.inbox == nil {
		return
	}
	for range 1 + m.random.IntN(12) {
		l := &letter{from: b, to: to.inbox, job: m.job, userTag: m.random.Uint64(), asked: m.random.IntN(4) != 0}
		l.silent = l.asked && m.random.IntN(4) == 0
		switch m.random.IntN(4) {
		case 0, 1:
			l.size = m.random.IntN(arctic.MaxFastSend + 1)
		case 2:
			l.size = m.random.IntN(600)
		default:
			l.size = m.random.IntN(letterStage)
		}
		n := slices.IndexFunc(b.stages[:], func(s staged) bool { return !s.busy })
		if l.size > arctic.MaxFastSend && n < 0 {
			return
		}
		s := m.slot(m.process, funi.Request)
		if s == nil || m.inbox != b {
			return
		}
		l.number = uint32(len(m.run.letters))
		o := funi.SendRequest{UserTag: l.userTag, APITag: l.number, Cookie: l.number, Ack: l.asked, Silent: l.silent}
		data := make([]byte, l.size)
		fill(data, l.number, l.size)
		if l.size > arctic.MaxFastSend {
			shift := m.random.IntN(letterStage - l.size + 1)
			at := b.stage(n)[shift:]
			copy(at, data)
			o.Source, o.Length = uint32(letterBase+letterRing+n*letterStage+shift), l.size
			b.stages[n].busy = true
		} else {
			o.Data = data
		}
		s.SetSend(to.node, &o)
		m.run.letters = append(m.run.letters, l)
		m.commit(funi.Request)
		if o.Source != 0 {
			b.stages[n].upTo = m.process.Interface().Committed(funi.Request)
		}
	}
}

// lettered takes a notification of a message, or of its completion, and reports whether it is one.
func (m *member) lettered(n *funi.Notification) bool {
	r := m.run
	switch {
	case n.Kind == funi.NoteCompletion && n.Operation == arctic.RemoteSend:
		m.posted(n.Cookie, n.Reason)
		return true
	case n.Kind < funi.NoteFastReceive || n.Kind > funi.NotePostedReceive || m.inbox == nil:
		return false
	}
	r.oracle.progress = r.world.Now()
	b, c := m.inbox, &n.Message
	if n.Reason == arctic.ReasonWindow {
		if b.phase < inboxClosing && b.buffers[c.Descriptor] != letterBuffers {
			r.damaged("member %d: descriptor %d is said to be wrong", m.number, c.Descriptor)
		}
		delete(b.buffers, c.Descriptor)
		return true
	}
	if int(c.APITag) >= len(r.letters) {
		r.damaged("member %d has a message that nobody sent: %+v", m.number, n)
		return true
	}
	l := r.letters[c.APITag]
	switch {
	case l.to.m != m || n.Source != l.from.m.node || l.job != m.job:
		r.misdelivered("message %d of member %d in job %d for member %d has come to member %d in job %d, from node %d",
			l.number, l.from.m.number, l.job, l.to.m.number, m.number, m.job, n.Source)
		return true
	case n.Tag != l.userTag || int(c.Bytes) != l.size:
		r.damaged("message %d of %d bytes has come with %d bytes and user tag %#x", l.number, l.size, c.Bytes, n.Tag)
	case l.arrived || l.broken:
		r.duplicated("message %d of member %d has come to member %d again: %v", l.number, l.from.m.number, m.number,
			n.Reason)
	}
	m.received(b, l, n)
	return true
}

// received checks where a message is, and holds its room.
func (m *member) received(b *inbox, l *letter, n *funi.Notification) {
	r, c := m.run, &n.Message
	h := held{letter: l, note: *c, until: r.world.Now() + b.random.Int64N(4*r.pause+1)}
	switch n.Kind {
	case funi.NoteFastReceive:
		h.bytes = c.Data[:c.Bytes]
	case funi.NoteReceive:
		h.bytes = b.memory[c.Offset*funi.ReceiveUnit:][:c.Bytes]
	default:
		h.posted, h.bytes = true, b.memory[c.Address-letterBase:][:c.Stored]
	}
	switch {
	case n.Reason == arctic.ReasonBroken:
		l.broken = true
		h.bytes = nil
	case n.Reason == arctic.ReasonTruncated && h.posted && int(c.Stored) < l.size:
		l.arrived, l.cut = true, true
	case n.Reason != arctic.ReasonNone || len(h.bytes) != l.size:
		r.damaged("message %d of %d bytes has come with %d to member %d: %v", l.number, l.size, len(h.bytes), m.number,
			n.Reason)
		return
	default:
		l.arrived = true
	}
	if b.phase >= inboxClosing && n.Kind != funi.NoteFastReceive {
		return // another may have its room by now
	}
	if !holds(h.bytes, l.number, l.size) {
		r.damaged("message %d of %d bytes has come to member %d with other bytes", l.number, l.size, m.number)
	}
	r.received++
	if n.Kind == funi.NoteFastReceive {
		return
	}
	for _, o := range b.held {
		mask := b.units - 1
		if !h.posted && ((c.First-o.note.First)&mask < (o.note.Next-o.note.First)&mask ||
			(o.note.First-c.First)&mask < (c.Next-c.First)&mask) {
			r.damaged("message %d has room of message %d, which member %d keeps", l.number, o.letter.number, m.number)
		}
	}
	b.held = append(b.held, h)
}

// posted takes the outcome of a message of the member's own.
func (m *member) posted(number uint32, reason arctic.Reason) {
	r := m.run
	r.oracle.progress = r.world.Now()
	if int(number) >= len(r.letters) {
		r.damaged("member %d has a completion of no message", m.number)
		return
	}
	l := r.letters[number]
	if l.from != m.inbox || l.ended {
		r.duplicated("message %d is complete twice, or for another: member %d", number, m.number)
		return
	}
	l.ended, l.reason = true, reason
	switch reason {
	case arctic.ReasonNone:
		if l.silent {
			r.damaged("message %d, which is silent, has an entry", number)
		}
	case arctic.ReasonTruncated: // see settleLetters
	case arctic.ReasonNoBuffer: // of this card, or the receiver takes none of that length
	case arctic.ReasonBroken:
		if r.scenario.Faults&^(calm&^(Switch|Moves|Resize)) == 0 && l.to.closes == 0 {
			r.lost("message %d failed, and nothing was wrong: %v", number, reason)
		}
	case arctic.ReasonNoContext, arctic.ReasonSilent, arctic.ReasonRestarted, arctic.ReasonDeparted, arctic.ReasonJob,
		arctic.ReasonResynchronised, arctic.ReasonReplaced, arctic.ReasonSourceNode, arctic.ReasonNoRoute,
		arctic.ReasonKey:
		if r.scenario.Faults&^calm == 0 {
			r.lost("message %d failed, and nothing was wrong: %v", number, reason)
		}
	default:
		r.damaged("message %d of member %d: %v", number, m.number, reason)
	}
}

// unsent takes a block of messages that the card gave back, and reports whether it is one.
func (m *member) unsent(b funi.Returned) bool {
	if m.inbox == nil || !b.Header.Remote() {
		return false
	}
	switch b.Header.Operation() {
	case funi.Send:
		if int(b.Word) < len(m.run.letters) && m.run.letters[b.Word].asked && b.Reason != arctic.ReasonNoBuffer {
			m.run.damaged("message %d came back instead of being completed: %v", b.Word, b.Reason)
		}
		m.posted(b.Word, b.Reason)
	case funi.OpenReceive: // while something is unread
		m.inbox.phase = inboxShut
	case funi.CloseReceive, funi.GiveReceive:
		m.run.damaged("member %d: a block of its ring came back: %d, %v", m.number, b.Header.Operation(), b.Reason)
	default:
		return false
	}
	return true
}

// settleLetters checks the outcomes of messages, when nothing is under way any more.
func (r *run) settleLetters() {
	missing := map[*member]int{}
	for _, l := range r.letters {
		from, to := l.from.m, l.to.m
		alive, there := from.process != nil && from.inbox == l.from, to.process != nil && to.inbox == l.to
		told := l.ended && l.reason != arctic.ReasonNone
		switch {
		case alive && l.asked && !l.silent && !l.ended:
			missing[from]++
		case there && l.asked && l.ended && !told && !l.arrived:
			r.lost("message %d of member %d is complete, and has not come to member %d", l.number, from.number,
				to.number)
		case there && alive && !told && !l.arrived && l.to.closes == 0:
			missing[from]++
		case there && l.arrived && l.cut && alive && !told:
			missing[from]++
		case there && l.ended && l.reason == arctic.ReasonTruncated && !l.cut:
			r.damaged("message %d is cut for its sender only", l.number)
		}
	}
	for _, m := range r.members {
		if m.process == nil {
			continue
		}
		if lost := int(m.returnsLost()); missing[m] > lost {
			r.lost("member %d misses the outcome of %d messages, and the card counted %d returns", m.number,
				missing[m], lost)
		}
		b := m.inbox
		use, _ := m.process.Context().Remote()
		posted := 0
		if b.mode == funi.ReceivePosted {
			posted = len(b.buffers)
		}
		if use.Receiving != 0 || use.ReceiveRoom != posted {
			r.stuck("member %d: %d messages are on their way, and %d of the room is in use; it has posted %d", m.number,
				use.Receiving, use.ReceiveRoom, posted)
		}
	}
}
