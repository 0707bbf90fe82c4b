package engine_test

// This file holds the rules of ULTRA (ultra.go, ultrapath.go, funi/path.go; Froening's thesis,
// section 3.5).

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// testEnd is an end of a path, and the words of its memory.
type testEnd struct {
	*funi.Path
	words   []uint64
	address uint32
}

// pathPair is the two ends of a path.
type pathPair struct {
	from, to         testEnd
	sender           funi.PathSender
	receiver         funi.PathReceiver
	received         [][]uint64
	stored, answered int
}

// ultraSizes let a context have 64 ends.
var ultraSizes = funi.RemoteSizes{KeySlots: 64, Areas: 1, Notifications: 32}

func ultraBed(t testing.TB, cards int, faults wire.Faults) *bed {
	return newBed(t, setup{cards: cards, slots: 16, net: wire.Config{Seed: 5, Delay: 5 * time.Microsecond, Faults: faults},
		remote: ultraSizes})
}

// run steps the cards each microsecond of virtual time until done, for at most the given time.
func (b *bed) run(limit time.Duration, what string, done func() bool) {
	b.t.Helper()
	for end := b.now + int64(limit); !done(); b.step(max(b.now+1000, min(b.next(), b.now+int64(time.Millisecond)))) {
		if b.now > end {
			b.t.Fatalf("not within %v of virtual time: %s\n%s", limit, what, b.counters())
		}
		for i, c := range b.cards {
			if c != nil {
				if err := c.Check(); err != nil {
					b.t.Fatalf("card %d: %v", i, err)
				}
			}
		}
	}
}

// endOf registers the memory of an end with a context.
func endOf(t testing.TB, x *engine.Context, slices int) testEnd {
	t.Helper()
	n, err := funi.PathBytes(slices)
	if err != nil {
		t.Fatal(err)
	}
	words := make([]uint64, n/8)
	e := testEnd{words: words, address: 0x6000_0000 + 0x10000*uint32(len(x.Segments()))}
	memory := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), n)
	if e.Path, err = funi.MapPath(memory, slices); err != nil {
		t.Fatal(err)
	}
	if err := x.Register(funi.Segment{Base: e.address, Memory: memory, Rights: funi.Keyed}); err != nil {
		t.Fatal(err)
	}
	return e
}

// command commits a request block, and returns why the card did not carry it out.
func (b *bed) command(p *funi.Interface, compose func(s *funi.Slot)) (why arctic.Reason) {
	b.t.Helper()
	compose(p.Reserve(funi.Request))
	p.Commit(funi.Request)
	b.run(time.Second, "a block is carried out", func() bool { return p.Unsent(funi.Request) == 0 })
	if r, ok := p.NextReturn(); ok {
		return r.Reason
	}
	return arctic.ReasonNone
}

func (b *bed) openAt(p *funi.Interface, x *engine.Context, node, slices int) testEnd {
	b.t.Helper()
	e := endOf(b.t, x, slices)
	if why := b.command(p, func(s *funi.Slot) { s.SetOpenPath(uint16(node), e.address, slices, pathCookie) }); why != 0 {
		b.t.Fatalf("opening an end: %v", why)
	}
	return e
}

const pathCookie = 0xc00c1e

func (b *bed) openEnd(at, node, slices int) testEnd {
	b.t.Helper()
	return b.openAt(b.proc[at], b.ctx[at], node, slices)
}

// scribble writes any values into any words, and now and then a line of the next turn.
func (e testEnd) scribble(r *rand.Rand) {
	e.words[r.IntN(len(e.words))] = r.Uint64()
	if r.IntN(2) == 0 {
		e.words[7] = (e.words[8]>>32+uint64(r.IntN(3)))<<32 | uint64(r.IntN(9)) | uint64(r.IntN(9))<<8
	}
}

// pathTo opens a path from one node to another, and waits until it is open.
func (b *bed) pathTo(from, to, slices int) *pathPair {
	b.t.Helper()
	p := new(pathPair)
	p.to, p.from = b.openEnd(to, from, slices), b.openEnd(from, to, 0)
	p.sender, p.receiver = b.proc[from].SendsOn(p.from.Path), b.proc[to].ReceivesOn(p.to.Path)
	b.run(time.Second, "the path is open", func() bool {
		return stateOf(p.from) == funi.PathOpen && stateOf(p.to) == funi.PathOpen
	})
	return p
}

func stateOf(p testEnd) funi.PathState {
	s, _ := p.State()
	return s
}

// line returns the words of the n-th line of a test: 0 to 7, the first of them n.
func lineOf(n int) []uint64 {
	w := make([]uint64, 1+n%7)
	for i := range w {
		w[i] = uint64(n) + uint64(i)<<32
	}
	return w
}

// push stores the next line if the last was answered, and takes what has arrived.
func (p *pathPair) push(t testing.TB, most int) {
	t.Helper()
	s, ok := p.sender.Answer()
	if ok && p.answered < p.stored {
		if s == funi.PathTaken {
			p.answered++
		} else if p.stored--; s != funi.PathFull {
			t.Fatalf("line %d: %v", p.stored, s)
		}
	}
	if ok && p.stored < most {
		p.sender.Send(0, lineOf(p.stored))
		p.stored++
	}
}

func (p *pathPair) pull() {
	var w [arctic.MaxPathWords]uint64
	for {
		n, ok := p.receiver.Receive(&w)
		if !ok {
			return
		}
		p.received = append(p.received, slices.Clone(w[:n]))
	}
}

func (p *pathPair) check(t testing.TB) {
	t.Helper()
	for i, w := range p.received {
		if !slices.Equal(w, lineOf(i)) {
			t.Fatalf("packet %d has %x, want %x", i, w, lineOf(i))
		}
	}
}

// Rule: each line is received once, whole and in order, over any network, with no wait for those
// before it (3.5.4, 3.5.5), and in both directions at once.
func TestPathDelivers(t *testing.T) {
	for name, faults := range wire.Networks {
		t.Run(name, func(t *testing.T) {
			const most = 500
			b := ultraBed(t, 2, faults)
			paths := []*pathPair{b.pathTo(0, 1, 32), b.pathTo(1, 0, 64)}
			b.run(10*time.Second, "all is received", func() bool {
				done := true
				for _, p := range paths {
					p.push(t, most)
					p.pull()
					done = done && len(p.received) == most && p.sender.Read() == most
				}
				return done
			})
			for _, p := range paths {
				p.check(t)
			}
		})
	}
}

// Rule: the origin is enabled after the target (3.5.6 step 7): what its process sends as soon as it
// may is taken, whatever the network does with the set-up.
func TestPathIsEnabledAtItsTargetFirst(t *testing.T) {
	b := ultraBed(t, 2, wire.Networks["all"])
	for range 30 {
		to, from := b.openEnd(1, 0, 32), b.openEnd(0, 1, 0)
		p := &pathPair{from: from, to: to, sender: b.proc[0].SendsOn(from.Path), receiver: b.proc[1].ReceivesOn(to.Path)}
		b.run(time.Second, "the origin is enabled", func() bool { return stateOf(from) == funi.PathOpen })
		b.run(time.Second, "its lines arrive", func() bool {
			p.push(t, 10)
			p.pull()
			return len(p.received) == 10
		})
		p.check(t)
		for i, e := range []testEnd{from, to} {
			b.command(b.proc[i], func(s *funi.Slot) { s.SetClosePath(e.address, 0) })
			if err := b.ctx[i].Unregister(e.address); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Rule: a path between two contexts of one card is a path as any other.
func TestPathOnOneCard(t *testing.T) {
	b := newBed(t, setup{cards: 1, slots: 16, route: []uint32{0, 0}, remote: ultraSizes})
	proc, ctx := b.join(0, gid, 1)
	to, from := b.openEnd(0, 1, 32), b.openAt(proc, ctx, 0, 0)
	p := &pathPair{from: from, to: to, sender: proc.SendsOn(from.Path), receiver: b.proc[0].ReceivesOn(to.Path)}
	b.run(time.Second, "the path is open", func() bool { return stateOf(from) == funi.PathOpen })
	b.run(time.Second, "all is received", func() bool {
		p.push(t, 100)
		p.pull()
		return len(p.received) == 100
	})
	p.check(t)
}

// Rule: beyond the ring nothing is stored: the packets wait at the sender, whose process is told
// that the path is full (3.5.4 step 5-a), and no message waits with them. Then all goes on.
func TestPathFull(t *testing.T) {
	b := ultraBed(t, 2, wire.Faults{})
	p := b.pathTo(0, 1, 32)
	full := 0
	b.run(time.Second, "the path is full", func() bool {
		if s, ok := p.sender.Answer(); ok && s == funi.PathFull {
			full++
		}
		p.push(t, 200)
		return full > 10
	})
	if n := p.answered; n != 32+16 {
		t.Errorf("%d lines were taken, of a ring of 32 and 16 in flight", n)
	}
	b.mustSend(0, funi.Request, 1, 77)
	b.run(time.Second, "a message passes", func() bool { _, ok := take(b.proc[1], funi.Request); return ok })
	b.run(time.Second, "all is received", func() bool {
		p.push(t, 200)
		p.pull()
		return len(p.received) == 200
	})
	p.check(t)
}

// Rule: a malformed line is answered so and sends nothing: more than seven words, reserved bits, a
// turn that was skipped (3.5.4).
func TestPathLineRefused(t *testing.T) {
	b := ultraBed(t, 2, wire.Faults{})
	p := b.pathTo(0, 1, 32)
	answer := func(what string, want funi.PathStatus) {
		t.Helper()
		b.run(time.Second, what, func() bool { _, ok := p.sender.Answer(); return ok })
		if s, _ := p.sender.Answer(); s != want {
			t.Errorf("%s: %v, want %v", what, s, want)
		}
	}
	p.sender.Send(8, []uint64{1})
	answer("a reserved flag", funi.PathInvalid)
	for _, low := range []uint64{8, 1 << 16} {
		p.from.words[7] = (p.from.words[8]>>32+1)<<32 | low
		b.run(time.Second, "an answer", func() bool { return p.from.words[8]>>32 == p.from.words[7]>>32 })
		if s := funi.PathStatus(p.from.words[8]); s != funi.PathInvalid {
			t.Errorf("control word %#x: %v", low, s)
		}
	}
	p.sender = b.proc[0].SendsOn(p.from.Path)
	p.sender.Send(0, []uint64{1})
	p.sender.Send(0, []uint64{2})
	answer("a turn was skipped", funi.PathInvalid)
	p.sender.Send(0, lineOf(0))
	answer("a good line", funi.PathTaken)
	b.run(time.Second, "one line arrives", func() bool { p.pull(); return len(p.received) == 1 })
	p.check(t)
	if n := b.cards[0].Counters().PathLines; n != 1 {
		t.Errorf("%d lines were sent, want 1", n)
	}
}

// Rule: who asks for an acknowledgment hears once of each line, by its tag, when the target has it,
// or why it has not (3.5.4). Without an entry in the ring the line is not taken.
func TestPathAcknowledges(t *testing.T) {
	b := ultraBed(t, 2, wire.Networks["all"])
	p := b.pathTo(0, 1, 64)
	var tags []uint64
	stored, taken := 0, 0
	b.run(10*time.Second, "all lines are acknowledged", func() bool {
		var n funi.Notification
		for b.proc[0].NextNotification(&n) {
			if n.Kind != funi.NotePath || n.Cookie != pathCookie || n.Reason != arctic.ReasonNone {
				t.Fatalf("notification %+v", n)
			}
			tags = append(tags, n.Tag)
		}
		if s, ok := p.sender.Answer(); ok {
			if stored > taken && s == funi.PathTaken {
				taken++
			} else if stored > taken {
				stored--
			}
			if stored < 100 {
				p.sender.Send(funi.PathAck|funi.PathNotify, lineOf(stored))
				stored++
			}
		}
		p.pull()
		return len(tags) == 200
	})
	slices.Sort(tags)
	for i, tag := range tags {
		if tag != uint64(i/2) {
			t.Fatalf("tag %d is told at place %d, want each twice: taken, and there", tag, i)
		}
	}
	b.cards[1].Detach(b.ctx[1])
	p.sender.Send(funi.PathAck, []uint64{4711})
	var n funi.Notification
	b.run(time.Second, "the failure is told", func() bool { return b.proc[0].NextNotification(&n) })
	if n.Tag != 4711 || n.Reason == arctic.ReasonNone {
		t.Errorf("of a line to a process that is gone is told %+v", n)
	}
	b.run(time.Second, "the path has ended", func() bool { return stateOf(p.from) == funi.PathEnded })
}

// Rule: an end takes packets of its origin alone: its number, node and generation (3.5.5 step 3),
// and an answer to a request only once and only from the node that was asked. All others are
// rejected, and change nothing.
func TestPathTakesItsOriginAlone(t *testing.T) {
	b := ultraBed(t, 3, wire.Faults{})
	waiting := b.openEnd(1, 0, 32) // node 0 does not open its end
	p := b.pathTo(2, 1, 32)
	say := func(from int, d arctic.PathPacket) {
		b.cards[from].Say(b.ctx[from], 1, 1, arctic.Request, arctic.KindExtended, uint16(d.Kind),
			func(w []byte) int { return arctic.PutPath(w, &d) })
	}
	data := make([]byte, 8)
	good := arctic.PathPacket{Origin: 0, Target: 1, Generation: 2, Data: data}
	forged := good
	say(0, forged) // another node
	forged.Origin++
	say(2, forged)
	forged = good
	forged.Generation--
	say(2, forged)
	forged = good
	forged.Target = 2000
	say(2, forged)
	forged.Target = 0 // which is not open
	say(2, forged)
	say(2, arctic.PathPacket{Kind: arctic.PathResponse, Origin: 9, Target: 0, Generation: 1})
	say(2, arctic.PathPacket{Kind: arctic.PathResponse, Origin: 9, Target: 1, Generation: 2})
	say(0, arctic.PathPacket{Kind: arctic.PathResponse, Origin: 9, Target: 0, Generation: 2})
	returned := func() (n int) { return returns(b.proc[0]) + returns(b.proc[2]) }
	got := 0
	b.run(time.Second, "all that is forged comes back", func() bool { got += returned(); return got == 8 })
	if n := b.cards[1].Counters(); n.PathPackets != 0 || n.PathsRefused != 8 {
		t.Errorf("%d packets were stored and %d refused, want 0 and 8", n.PathPackets, n.PathsRefused)
	}
	say(2, good)
	b.run(time.Second, "the origin's own packet arrives", func() bool { return p.receiver.Arrived() })
	if stateOf(waiting) != funi.PathOpening {
		t.Error("an end was opened by a node that was not asked")
	}
}

// Rule: every state of the set-up ends (3.5.6): without the other end within five seconds, and at
// the end of the other process or card. Then the number is free, and the process knows why.
func TestPathEnds(t *testing.T) {
	free := func(b *bed) func() bool {
		return func() bool {
			n := 0
			for _, c := range b.cards {
				if c != nil {
					n += c.PathEnds(true) + c.PathEnds(false)
				}
			}
			return n == 0
		}
	}
	t.Run("nobody opens the other end", func(t *testing.T) {
		b := ultraBed(t, 2, wire.Faults{})
		to, from := b.openEnd(1, 0, 32), b.openEnd(1, 0, 0)
		b.run(6*time.Second, "both ends are free", free(b))
		for _, p := range []testEnd{to, from} {
			if s, why := p.State(); s != funi.PathEnded || why != arctic.ReasonSilent {
				t.Errorf("state %d, %v", s, why)
			}
		}
		b.openEnd(0, 1, 0) // finds a request that nobody waits for any more
		b.run(6*time.Second, "the late end is free", free(b))
	})
	t.Run("the origin ends", func(t *testing.T) {
		b := ultraBed(t, 2, wire.Faults{})
		p := b.pathTo(0, 1, 32)
		b.cards[0].Detach(b.ctx[0])
		b.run(15*time.Second, "both ends are free", free(b))
		if s, why := p.to.State(); s != funi.PathEnded || why == arctic.ReasonNone {
			t.Errorf("state %d, %v", s, why)
		}
	})
	t.Run("the target ends", func(t *testing.T) {
		b := ultraBed(t, 2, wire.Faults{})
		p := b.pathTo(0, 1, 32)
		b.cards[1].Detach(b.ctx[1])
		b.run(15*time.Second, "both ends are free", free(b))
		if s, _ := p.from.State(); s != funi.PathEnded {
			t.Errorf("state %d", s)
		}
	})
	t.Run("the target closes", func(t *testing.T) {
		b := ultraBed(t, 2, wire.Faults{})
		p := b.pathTo(0, 1, 32)
		shut := func(s *funi.Slot) { s.SetClosePath(p.to.address, 1) }
		if why := b.command(b.proc[1], shut); why != arctic.ReasonNone || stateOf(p.to) != funi.PathEnded {
			t.Errorf("closing an end: %v, state %d", why, stateOf(p.to))
		}
		if why := b.command(b.proc[1], shut); why != arctic.ReasonNotOpened {
			t.Errorf("closing it again: %v", why)
		}
		b.run(time.Second, "its end is free", func() bool { return b.cards[1].PathEnds(true) == 0 })
		p.sender.Send(0, lineOf(0))
		b.run(time.Second, "the next line ends the other", free(b))
	})
	t.Run("the other card is gone", func(t *testing.T) {
		b := ultraBed(t, 2, wire.Faults{})
		p := b.pathTo(0, 1, 32)
		b.cards[0] = nil
		b.run(time.Minute, "the end is free", free(b))
		if s, why := p.to.State(); s != funi.PathEnded || why != arctic.ReasonSilent {
			t.Errorf("state %d, %v", s, why)
		}
	})
	t.Run("with lines under way", func(t *testing.T) {
		b := ultraBed(t, 2, wire.Networks["all"])
		p := b.pathTo(0, 1, 32)
		for range 1000 {
			p.push(t, 1<<20)
			b.step(b.now + 1000)
		}
		b.cards[0].Detach(b.ctx[0])
		b.run(time.Minute, "both ends are free", free(b))
	})
}

// Rule: an open path stays open while nobody sends, and while nobody receives.
func TestPathStaysOpen(t *testing.T) {
	b := ultraBed(t, 2, wire.Faults{})
	p := b.pathTo(0, 1, 32)
	b.pass(time.Minute)
	if stateOf(p.from) != funi.PathOpen || stateOf(p.to) != funi.PathOpen {
		t.Fatal("a path ended while it was quiet")
	}
	b.run(time.Second, "a line arrives", func() bool { p.push(t, 1); p.pull(); return len(p.received) == 1 })
}

// Rule: an account has as many ends as are free, so another always finds some (Choudhury and Hahne,
// 1998), and a context has 64, and no more than it has key slots.
func TestPathsAreShared(t *testing.T) {
	b := ultraBed(t, 1, wire.Faults{})
	memory := make([]uint64, 65*32)
	open := func(node, n int) (opened int) {
		proc, x := b.join(0, gid, uint16(node))
		b.cards[0].Account(x, 1)
		if err := x.Register(funi.Segment{Base: 64, Memory: unsafe.Slice((*byte)(unsafe.Pointer(&memory[0])),
			len(memory)*8), Rights: funi.Keyed}); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			switch why := b.command(proc, func(s *funi.Slot) { s.SetOpenPath(9, uint32(64+256*i), 0, 0) }); why {
			case arctic.ReasonNone:
				opened++
			case arctic.ReasonNotOpened:
			default:
				t.Fatal(why)
			}
		}
		return opened
	}
	opened := 0
	for node := range 16 {
		opened += open(10+node, 64)
	}
	if opened != arctic.MaxPathEnds/2 {
		t.Errorf("an account opened %d ends", opened)
	}
	if n := open(30, 1); n != 0 {
		t.Error("it opened more ends than were free")
	}
	b.openEnd(0, 9, 0)
	b = newBed(t, setup{cards: 1, slots: 16, remote: funi.RemoteSizes{KeySlots: 4, Areas: 1, Notifications: 1}})
	if n := open(1, 65); n != 4 {
		t.Errorf("a context with 4 key slots opened %d ends", n)
	}
	b = ultraBed(t, 1, wire.Faults{})
	if n := open(1, 65); n != 64 {
		t.Errorf("a context opened %d ends", n)
	}
}

// Rule: a block that opens no end is refused and changes nothing: memory that is not aligned, not
// in a segment with the right Keyed, or another end's; a number of slices that no ring has.
func TestPathNotOpened(t *testing.T) {
	b := ultraBed(t, 2, wire.Faults{})
	good, other := endOf(t, b.ctx[0], 32), endOf(t, b.ctx[0], 0)
	b.openEnd(0, 1, 0)
	if err := b.ctx[0].Unregister(other.address); err != nil {
		t.Fatal(err)
	}
	if err := b.ctx[0].Register(funi.Segment{Base: other.address, Memory: make([]byte, 4096),
		Rights: funi.Source | funi.Destination}); err != nil {
		t.Fatal(err)
	}
	for what, d := range map[string]struct {
		address uint32
		slices  int
	}{"not aligned": {good.address + 16, 0}, "too long for it": {good.address, 64}, "another right": {other.address, 0},
		"no segment": {0x7000_0000, 0}, "another end's": {0x6002_0000, 0}, "no such ring": {good.address, 31},
		"too many slices": {good.address, 1 << 15}, "more than an int": {good.address, 1 << 31}} {
		if why := b.command(b.proc[0], func(s *funi.Slot) { s.SetOpenPath(1, d.address, d.slices, 0) }); why !=
			arctic.ReasonNotOpened {
			t.Errorf("%s: %v", what, why)
		}
	}
	if n := b.cards[0].PathEnds(true) + b.cards[0].PathEnds(false); n != 1 {
		t.Errorf("%d ends are open, want 1", n)
	}
}

// Rule: when a segment is unregistered, or an end closed, the card uses the memory no more.
func TestPathMemoryIsGivenBack(t *testing.T) {
	for _, closes := range []bool{false, true} {
		b := ultraBed(t, 2, wire.Faults{})
		p := b.pathTo(0, 1, 32)
		for range 3 {
			p.push(t, 3)
			b.step(b.now + 1)
		}
		for i, e := range []testEnd{p.from, p.to} {
			if closes {
				b.command(b.proc[i], func(s *funi.Slot) { s.SetClosePath(e.address, 0) })
			}
			if err := b.ctx[i].Unregister(e.address); err != nil {
				t.Fatal(err)
			}
			clear(e.words)
		}
		b.pass(20 * time.Second)
		for _, e := range []testEnd{p.from, p.to} {
			if slices.ContainsFunc(e.words, func(w uint64) bool { return w != 0 }) {
				t.Error("the card has written memory that was given back")
			}
		}
	}
}

// Rule: whatever the two processes write into the memory of their ends, the card goes on, and
// frees all at their end (design idea 3).
func TestPathScribbled(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	b := ultraBed(t, 2, wire.Networks["reorder"])
	paths := []*pathPair{b.pathTo(0, 1, 32), b.pathTo(1, 0, 32), b.pathTo(0, 1, 64)}
	for range 20_000 {
		p := paths[random.IntN(len(paths))]
		p.from.scribble(random)
		p.to.scribble(random)
		b.step(b.now + random.Int64N(5000))
	}
	b.mustSend(0, funi.Request, 1, 5)
	b.run(time.Second, "a message passes", func() bool { _, ok := take(b.proc[1], funi.Request); return ok })
	for i := range 2 {
		b.cards[i].Detach(b.ctx[i])
	}
	b.run(time.Minute, "all is free", func() bool {
		return b.cards[0].Quiet() && b.cards[1].Quiet() && b.cards[0].PathEnds(true)+b.cards[1].PathEnds(true) == 0
	})
}
