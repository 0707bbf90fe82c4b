package link_test

// This file is the test bed: ends of links on a network in memory, in virtual time, without
// contexts. A card of the bed is an end, its ports, and what the engine does for it: it hands over
// the lines of owners, judges the packets that arrive, and takes lines back. Each message is
// accounted for: what is delivered was accepted once and whole, what comes back has a reason that
// the receiver gave or the test expects, and each line comes back once. Cards are stepped only when
// a frame arrived, when one asked for it, or when something was handed over; so each test that
// completes also says that the time which Next returns is honest.

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
	"github.com/funet/funet/uspace/port"
)

const (
	gid = 7
	tag = 0x8877665544332211
	// maxBlocks is how many blocks a bed has addresses for: each has 64 KiB of 4 GiB, but the first
	// of them.
	maxBlocks = 1<<16 - 1
)

// setup holds what a bed is made from.
type setup struct {
	cards int
	net   wire.Config
	tune  func(*link.Config)
	// alone says that cards are made without peers.
	alone bool
	// wrap puts something between a card and its port.
	wrap func(card int, p *wire.Port) port.Port
}

type bed struct {
	setup
	t        testing.TB
	now      int64
	net      *wire.Network
	cards    []*card  // nil: switched off
	own      []*owner // one of each card
	owners   []*owner // by link.Owner.Number
	messages []*message
	blocks   []*message // those with a block
	lives    uint32
	alarm    int64 // one more time to stop at; 0: none
	touched  bool  // something was handed over since the last step

	// judge says why a packet is rejected; nil: none is.
	judge func(to int, m *message) arctic.Reason
	// reasons are those for which lines may come back beside those that judge gave.
	reasons []arctic.Reason
	// atOnce is the argument of Answer.
	atOnce bool
	// liar is a card in whose name anybody may have sent anything; -1: none.
	liar int
}

// card is one end, and what the engine is to it.
type card struct {
	*link.End
	cfg       link.Config
	wake      int64
	pending   []handed // lines that the next step hands over
	received  [][]byte
	restarted []uint16 // by NextAnew
	resynced  []uint16 // the same, of those that were not restarted
}

type handed struct {
	to   uint16
	l    arctic.Level
	line *link.Line
}

// owner is a link.Owner with its lines.
type owner struct {
	link.Owner
	card     int
	free     []*link.Line
	messages []*message // by link.Line.Index; nil: the line is free
	out      int        // lines that the link has
}

// message is a line's journey.
type message struct {
	id, from, to int
	node         uint16
	level        arctic.Level
	owner        *owner
	words        int
	block        []byte
	place        uint32 // of the block
	taken        []bool // of a block, for each unit of arctic.TransferAlign; of a message, one
	rejected     int    // for now
	failed       arctic.Reason
	back         bool // the line has come back
	settled      link.Settled
	reason       arctic.Reason
	at           int64 // when it was first accepted; 0: it was not
}

// accepted reports whether all of it has been.
func (m *message) accepted() bool { return !slices.Contains(m.taken, false) }

// native is as engine.Native.
func native() link.Config {
	return link.Config{
		Lines: 1024, Train: arctic.MaxTrain, FirstWindow: 32, AckDelay: 50 * time.Microsecond, AckEvery: 16,
		FirstRTO: 10 * time.Millisecond, MinRTO: 5 * time.Millisecond, MaxRTO: 100 * time.Millisecond,
		MinHold: 10 * time.Microsecond, MaxHold: 100 * time.Millisecond,
		PeerTimeout: 5 * time.Second, ConnectTimeout: 30 * time.Second, RaiseAfter: 10 * time.Second,
	}
}

// thesis is the card of thesis 5.2.4: each packet its own frame with its own acknowledgment.
func thesis(c *link.Config) { c.Lines, c.Train, c.FirstWindow, c.AckEvery = 8, 1, 1, 1 }

// timed is the same, whose units take time.
func timed(c *link.Config) {
	thesis(c)
	c.Dispatch, c.Transmit = 500*time.Nanosecond, 300*time.Nanosecond
}

// quick shortens the time after which a peer counts as gone.
func quick(c *link.Config) {
	c.PeerTimeout, c.ConnectTimeout, c.MaxRTO = 200*time.Millisecond, 500*time.Millisecond, 20*time.Millisecond
}

func single(c *link.Config) { c.Train = 1 }

// The cards.
var cardConfigs = map[string]func(*link.Config){
	"native":  nil,
	"thesis":  thesis,
	"timed":   timed,
	"train 1": single,
	"tiny":    func(c *link.Config) { c.Lines, c.FirstWindow = 2, 1 },
}

// The faults of a network, alone and together.
var networks = wire.Networks

var near = wire.Config{Delay: 10 * time.Microsecond}

func address(card int) [6]byte { return [6]byte{2, 0, 0, 0, byte(card >> 8), byte(card)} }

// peerOf is where card j is for card i.
func peerOf(i, j int) link.Peer {
	return link.Peer{Card: uint16(j), Address: address(j), Local: address(i)}
}

func newBed(t testing.TB, s setup) *bed {
	t.Helper()
	b := &bed{setup: s, t: t, net: wire.New(s.net), now: 1, liar: -1}
	b.cards = make([]*card, s.cards)
	b.own = make([]*owner, s.cards)
	for i := range s.cards {
		b.start(i)
	}
	return b
}

// start makes card i anew, with a new incarnation and an owner of group gid.
func (b *bed) start(i int) {
	b.t.Helper()
	b.stop(i)
	b.lives++
	cfg := native()
	cfg.Card, cfg.Incarnation, cfg.Seed = uint16(i), b.lives, uint64(i)
	p := b.net.Plug(address(i))
	cfg.Ports = []port.Port{p}
	if b.wrap != nil {
		cfg.Ports[0] = b.wrap(i, p)
	}
	for j := range b.cards {
		if j != i && !b.alone {
			cfg.Peers = append(cfg.Peers, peerOf(i, j))
		}
	}
	if b.tune != nil {
		b.tune(&cfg)
	}
	b.cards[i] = &card{End: link.New(cfg), cfg: cfg, received: make([][]byte, 64)}
	b.cards[i].SetGroup(gid, true, true)
	b.own[i] = b.join(i, new(link.Account))
	b.touched = true
}

// stop switches card i off: nobody hears of its lines any more.
func (b *bed) stop(i int) {
	b.cards[i] = nil
	for _, o := range b.owners {
		if o.card == i {
			o.card = -1
		}
	}
}

// join makes one more owner of group gid on a card.
func (b *bed) join(card int, a *link.Account) *owner {
	n := b.cards[card].cfg.Lines
	o := &owner{card: card, messages: make([]*message, n)}
	o.Number, o.GID, o.Tag, o.Account = uint32(len(b.owners)), gid, tag, a
	room := make([]link.Line, n)
	for i := range room {
		ln := &room[n-1-i]
		ln.Index = uint16(n - 1 - i)
		ln.Owner = &o.Owner
		o.free = append(o.free, ln)
	}
	b.owners = append(b.owners, o)
	return o
}

// put hands over a message of some words for a node behind a card, or with a block behind it; it
// returns nil if the owner has no line.
func (b *bed) put(o *owner, to int, node uint16, l arctic.Level, words int, block []byte) *message {
	if len(o.free) == 0 {
		return nil
	}
	m := &message{id: len(b.messages), from: o.card, to: to, node: node, level: l, owner: o, words: words, block: block,
		taken: make([]bool, 1)}
	if block != nil {
		m.taken = make([]bool, len(block)/arctic.TransferAlign)
		m.place = uint32(len(b.blocks)+1) << 16
		b.blocks = append(b.blocks, m)
	}
	b.messages = append(b.messages, m)
	ln := o.free[len(o.free)-1]
	o.free = o.free[:len(o.free)-1]
	o.messages[ln.Index] = m
	o.out++
	ln.Size = uint16(m.encode(ln.Data[:]))
	ln.Node, ln.Part, ln.Block = node, block != nil, block
	c := b.cards[o.card]
	c.pending = append(c.pending, handed{uint16(to), l, ln})
	b.touched = true
	return m
}

// encode writes the packet of a message, and returns how long it is.
func (m *message) encode(b []byte) int {
	h := arctic.PacketHeader{Level: m.level, Route: uint32(m.to), GID: m.owner.GID, Type: 5, Destination: m.node,
		Source: uint16(m.from)}
	payload := b[arctic.PacketHeaderSize:]
	if m.block != nil {
		h.Kind = arctic.KindTransfer
		h.Length = uint8(arctic.PutTransfer(payload, &arctic.Transfer{Form: arctic.Block, Address: m.place}))
	} else {
		h.Length = uint8(m.words)
		for i := range m.words {
			binary.LittleEndian.PutUint32(payload[i*arctic.WordSize:], uint32(m.id)+uint32(i)*2654435761)
		}
	}
	h.Encode(b)
	return arctic.PacketHeaderSize + int(h.Length)*arctic.WordSize
}

// send is put of two words for the node that is a card's, by a card's own owner, where there is a
// line.
func (b *bed) send(from int, l arctic.Level, to int) *message {
	b.t.Helper()
	m := b.put(b.own[from], to, uint16(to), l, 2, nil)
	if m == nil {
		b.t.Fatalf("card %d has no line", from)
	}
	return m
}

// step sets the time to at, or to just after now, and steps every card.
func (b *bed) step(at int64) {
	b.t.Helper()
	b.now = max(at, b.now+1)
	b.net.Advance(b.now)
	b.touched = false
	for i, c := range b.cards {
		if c != nil {
			b.run(i, c)
		}
	}
}

// run is a step of a card, as engine.Card.Step.
func (b *bed) run(i int, c *card) {
	b.t.Helper()
	c.Begin(b.now)
	for _, h := range c.pending {
		c.Queue(h.to, h.l, h.line)
	}
	c.pending = c.pending[:0]
	c.Send()
	more := false
	for at, p := range c.cfg.Ports {
		p.Release()
		n := p.Receive(c.received)
		for _, f := range c.received[:n] {
			if t := c.Arrive(at, f); t != nil {
				b.answer(i, c, t)
			}
			b.settle(c)
			if c.See != nil {
				c.See(at, f, c.Fate)
			}
		}
		more = more || n == len(c.received)
	}
	c.Expire()
	b.settle(c)
	if c.wake = c.Next(); more {
		c.wake = b.now
	}
}

// answer judges a train.
func (b *bed) answer(i int, c *card, t *link.Train) {
	b.t.Helper()
	var v link.Verdict
	packets := t.Packets
	for k := 0; len(packets) > 0; k++ {
		var p arctic.Packet
		p, packets = arctic.Next(packets)
		m, place := b.find(i, t, p)
		if m == nil {
			v.Note(k, arctic.ReasonNoContext)
			continue
		}
		reason := arctic.ReasonNone
		if b.judge != nil {
			reason = b.judge(i, m)
		}
		v.Note(k, reason)
		switch bit := uint64(1) << k; {
		case v.Fail&bit != 0:
			m.failed = v.FailReason
		case v.Retry&bit != 0:
			m.rejected++
		default:
			b.accept(i, m, t, place)
		}
	}
	c.Answer(&v, b.atOnce)
}

// find returns the message of a packet, and where in its block that belongs; nil for what nobody
// has sent.
func (b *bed) find(i int, t *link.Train, p arctic.Packet) (m *message, place int) {
	b.t.Helper()
	h := p.Header()
	var transfer arctic.Transfer
	switch {
	case h.Kind == arctic.KindMessage && h.Length > 0 && int(p.Word(0)) < len(b.messages):
		m = b.messages[p.Word(0)]
	case h.Kind == arctic.KindTransfer && p.Transfer(&transfer) && transfer.Form == arctic.Block && transfer.Address >=
		1<<16 && int(transfer.Address>>16) <= len(b.blocks):
		m = b.blocks[transfer.Address>>16-1]
		place = int(transfer.Address - m.place)
	}
	if m == nil || m.to != i {
		if int(t.Header.SourceCard) != b.liar {
			b.t.Fatalf("card %d got from card %d what nobody has sent it: %+v", i, t.Header.SourceCard, h)
		}
		return nil, 0
	}
	want := make([]byte, arctic.MaxPacketSize)
	n := m.encode(want)
	if place > 0 {
		arctic.Packet(want[:n]).Advance(place)
	}
	if int(t.Header.SourceCard) != b.liar && (m.from != int(t.Header.SourceCard) || string(p) != string(want[:n]) || t.Header.Level != m.level ||
		t.Header.Tag != m.owner.Tag || t.Header.GID != m.owner.GID || t.Header.SourceCard != uint16(m.from)) {
		b.t.Fatalf("message %d arrived at card %d damaged: %x, want %x", m.id, i, p, want[:n])
	}
	return m, place
}

// accept notes that a packet was accepted.
func (b *bed) accept(i int, m *message, t *link.Train, place int) {
	b.t.Helper()
	if b.liar >= 0 && (int(t.Header.SourceCard) == b.liar || m.to == b.liar) {
		return // a forged reject may have had it sent again
	}
	first, n := 0, 1
	if m.block != nil {
		first, n = place/arctic.TransferAlign, len(t.Block)/arctic.TransferAlign
		if place+len(t.Block) > len(m.block) || string(t.Block) != string(m.block[place:place+len(t.Block)]) {
			b.t.Fatalf("block %d arrived damaged at place %d", m.id, place)
		}
	}
	for k := first; k < first+n; k++ {
		if m.taken[k] {
			b.t.Fatalf("at %v message %d from card %d came to card %d again\n%s", time.Duration(b.now), m.id, m.from,
				i, b.counters())
		}
		m.taken[k] = true
	}
	if m.at == 0 {
		m.at = b.now
	}
}

// settle takes back what the link is done with.
func (b *bed) settle(c *card) {
	b.t.Helper()
	for ln := c.NextSettled(); ln != nil; ln = c.NextSettled() {
		b.takeBack(ln)
	}
	for c.Settles {
		switch n, why := c.NextAnew(); why {
		case arctic.ReasonRestarted:
			c.restarted = append(c.restarted, n)
		case arctic.ReasonResynchronised:
			c.resynced = append(c.resynced, n)
		default:
			b.t.Fatalf("card %d counts anew: %v", n, why)
		}
	}
}

// takeBack takes a line back, and checks what the link says of it.
func (b *bed) takeBack(ln *link.Line) {
	b.t.Helper()
	o := b.owners[ln.Owner.Number]
	m := o.messages[ln.Index]
	if m == nil {
		b.t.Fatalf("a line came back that was free")
	}
	m.back, m.settled, m.reason = true, ln.Settled, ln.Reason
	lies := b.liar >= 0 && (m.from == b.liar || m.to == b.liar)
	switch {
	case lies:
	case ln.Settled == link.Delivered && !m.accepted():
		b.t.Fatalf("message %d is settled as delivered, and was not accepted\n%s", m.id, b.counters())
	case ln.Settled == link.Delivered:
	case ln.Settled == link.Discarded && (!o.Ended || m.rejected == 0):
		b.t.Fatalf("message %d was discarded", m.id)
	case ln.Settled == link.Discarded:
	case ln.Reason == m.failed && m.failed != arctic.ReasonNone && (m.block != nil || !m.accepted()):
	case !slices.Contains(b.reasons, ln.Reason):
		b.t.Fatalf("at %v message %d from card %d to card %d came back: %v\n%s", time.Duration(b.now), m.id, m.from,
			m.to, ln.Reason, b.counters())
	}
	o.messages[ln.Index] = nil
	o.out--
	ln.Clear()
	o.free = append(o.free, ln)
}

// next returns when something happens next: a frame arrives or a card wants to run.
func (b *bed) next() int64 {
	at := int64(link.Never)
	if n, ok := b.net.Next(); ok {
		at = n
	}
	for _, c := range b.cards {
		if c != nil {
			at = min(at, c.wake)
		}
	}
	if b.alarm > b.now {
		at = min(at, b.alarm)
	}
	return at
}

// until runs the owners, which are in done, and the cards until done, and fails the test after the
// given virtual time or when nothing can happen any more.
func (b *bed) until(limit time.Duration, what string, done func() bool) {
	b.t.Helper()
	end := b.now + int64(limit)
	for !done() {
		at := b.now + 1
		if !b.touched {
			at = b.next()
		}
		if at > end {
			b.t.Fatalf("not within %v of virtual time, at %v with the next event at %v: %s\n%s", limit,
				time.Duration(b.now), time.Duration(at), what, b.counters())
		}
		b.step(at)
	}
}

// pass lets the given virtual time pass.
func (b *bed) pass(d time.Duration) {
	b.t.Helper()
	end := b.now + int64(d)
	was := b.alarm
	b.alarm = end
	b.until(d+1, "time passes", func() bool { return b.now >= end })
	b.alarm = was
}

// idle lets the cards run until the link has no line.
func (b *bed) idle(limit time.Duration) {
	b.t.Helper()
	b.until(limit, "all lines come back", func() bool {
		for _, o := range b.owners {
			if o.card >= 0 && o.out > 0 {
				return false
			}
		}
		return true
	})
}

// resting lets the cards run until none asks to be stepped again, and returns how often they asked.
func (b *bed) resting() (wakes int) {
	b.t.Helper()
	b.step(b.now)
	for at := b.next(); at != link.Never; at = b.next() {
		for _, c := range b.cards {
			if c != nil && c.wake <= at {
				wakes++
			}
		}
		b.step(at)
		if wakes > 1e6 {
			b.t.Fatal("quiet cards wake up for ever")
		}
	}
	return wakes
}

// checked checks the books of all cards.
func (b *bed) checked() {
	b.t.Helper()
	lines := map[uint32]int{}
	for i, c := range b.cards {
		if c == nil {
			continue
		}
		if err := c.Check(lines); err != nil {
			b.t.Fatalf("card %d: %v\n%s", i, err, b.counters())
		}
		for _, h := range c.pending {
			lines[h.line.Owner.Number]++
		}
	}
	for n, o := range b.owners {
		if o.card >= 0 && o.out != lines[uint32(n)] {
			b.t.Fatalf("owner %d of card %d: the link has %d lines, %d were handed over and did not come back", n,
				o.card, lines[uint32(n)], o.out)
		}
	}
}

// counters prints what all cards have counted, but for zeros.
func (b *bed) counters() string {
	var s strings.Builder
	for i, c := range b.cards {
		if c == nil {
			continue
		}
		fmt.Fprintf(&s, "card %d:", i)
		v := reflect.ValueOf(c.Counters)
		for _, f := range reflect.VisibleFields(v.Type()) {
			if n := v.FieldByIndex(f.Index).Uint(); n != 0 {
				fmt.Fprintf(&s, " %s=%d", f.Name, n)
			}
		}
		s.WriteString("\n")
	}
	return s.String()
}
