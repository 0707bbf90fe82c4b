package engine_test

// This file holds the rules of moves (move.go, image.go, forward.go; Tokyo, section 2.2.1). What
// was promised exactly once stays so, whichever node sends meanwhile and whatever the network does.
// Other rules say which card may tell where a node is, and what an image may say.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// move is the move of a node of a bed. Its process stops meanwhile.
type move struct {
	r        *remoteBed
	node     int
	from, to int
	begun    bool
	image    []byte
	page     funi.Page
	next     *engine.Context
	sign     *engine.Context
}

// leaves has the old card go as far as it can, and reports whether it is done.
func (m *move) leaves() bool {
	m.r.t.Helper()
	image, err := m.r.cards[m.from].Export(m.r.ctx[m.node], uint16(m.to))
	if !m.begun || err == nil {
		m.r.wake[m.from], m.begun = 0, true
	}
	if errors.Is(err, engine.ErrNotReady) {
		return false
	}
	if err != nil {
		m.r.t.Fatal(err)
	}
	m.image, m.page, m.sign = image, *m.r.mem[m.node].Page, m.r.ctx[m.node]
	return true
}

// arrives makes room at the new card.
func (m *move) arrives() {
	m.r.t.Helper()
	x, err := m.r.cards[m.to].Arrive(m.r.mem[m.node], gid, uint16(m.node), jobTag)
	if err != nil {
		m.r.t.Fatal(err)
	}
	m.next = x
	for _, s := range m.r.segmentsOf(m.node) {
		if err := x.Register(s); err != nil {
			m.r.t.Fatal(err)
		}
	}
}

// goesOn has the new card take the image if it can, and reports whether it has.
func (m *move) goesOn() bool {
	m.r.t.Helper()
	left, home := m.sign.Told()
	if home != m.r.cards[m.to].Home(m.next) && home {
		m.r.t.Fatal("the new card has been told and does not know")
	}
	if left > 0 || !home {
		return false
	}
	*m.r.mem[m.node].Page = m.page // the copy that the process's owner makes
	if err := m.r.cards[m.to].Import(m.next, m.image); err != nil {
		m.r.t.Fatal(err)
	}
	m.r.ctx[m.node], m.r.wake[m.to] = m.next, 0
	return true
}

// moves moves a node while nothing else happens.
func (r *remoteBed) moves(node, from, to int) {
	r.t.Helper()
	m := &move{r: r, node: node, from: from, to: to}
	r.until(time.Second, "the old card lets go", m.leaves)
	m.arrives()
	r.until(time.Second, "the new card goes on", m.goesOn)
}

func (r *remoteBed) segmentsOf(i int) []funi.Segment {
	return []funi.Segment{{Base: sources, Memory: r.source[i], Rights: funi.Source},
		{Base: keyedAt, Memory: r.keyed[i], Rights: funi.Keyed},
		{Base: landing, Memory: r.landing[i], Rights: funi.Destination}}
}

const landing = 0x80000

// newMoveBed is a remote bed whose nodes also have a segment that others' transfers may write.
func newMoveBed(t testing.TB, s setup) *remoteBed {
	r := newRemoteBed(t, s)
	for i := range s.cards {
		r.landing = append(r.landing, make([]byte, keyedSize))
		if err := r.ctx[i].Register(funi.Segment{Base: landing, Memory: r.landing[i], Rights: funi.Destination}); err !=
			nil {
			t.Fatal(err)
		}
	}
	return r
}

// Rule: windows, keys, areas, locks, notifications that are not read and messages that are not
// received go along, and so do counts.
func TestMoveTakesAll(t *testing.T) {
	r := newMoveBed(t, setup{cards: 3, remote: moreRemote, net: near})
	r.exposes(1, funi.Window{Key: theKey, Base: 128, Bytes: 64, Address: windowAt, Rights: allRights, Credit: 4,
		Counts: keyedAt + countsAt})
	clear(r.keyed[1][countsAt:])
	r.exposes(1, funi.Window{Key: otherKey, Base: 1024, Bytes: 64, Address: windowAt, Rights: allRights})
	r.block(1, funi.Request, func(s *funi.Slot) { s.SetOpenArea(2, theKey, 3, false, 0) })
	r.block(1, funi.Request, func(s *funi.Slot) { s.SetSuspendWindow(otherKey, 0) })
	r.retired(1)
	add := func(n uint64) funi.Notification {
		return r.completes(0, 1, counting(operation(arctic.RemoteAdd, windowAt+8, n)))
	}
	copy(r.keyed[1][136:], word(1000))
	add(1)
	r.put(0, 1, funi.Request, funi.Put{Key: theKey, Area: 2, Counted: true, Data: []byte("early")})
	for i := range uint32(20) {
		r.mustSend(0, funi.Request, 1, i, 7)
		r.pass(50 * time.Microsecond)
	}
	o := funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteLock, Key: theKey, Ack: true,
		Operands: []byte{77, 0, 0, 0}}, Cookie: 9}
	if n := r.completes(0, 1, o); n.Reason != arctic.ReasonNone {
		t.Fatalf("locking: %v", n.Reason)
	}
	before, _ := r.ctx[1].Remote()
	r.moves(1, 1, 2)
	after, _ := r.ctx[1].Remote()
	before.Refused = engine.RemoteRefusals{}
	if before != after {
		t.Errorf("remote memory was\n%+v and is\n%+v", before, after)
	}
	if n := r.notified(1); n.Kind != funi.NoteArea || n.Area != 2 {
		t.Errorf("the notification of before the move is %+v", n)
	}
	if n := add(10); n.Reason != arctic.ReasonNone || binary.LittleEndian.Uint64(n.Answer[:]) != 1001 {
		t.Errorf("add answers %v, %d", n.Reason, binary.LittleEndian.Uint64(n.Answer[:]))
	}
	if n := r.completes(2, 1, operation(arctic.RemoteAdd, windowAt+8, 1)); n.Reason != arctic.ReasonLocked {
		t.Errorf("the lock is gone: %v", n.Reason)
	}
	r.put(2, 1, funi.Request, funi.Put{Key: theKey, Area: 2, Counted: true, Data: []byte("late")})
	if back := r.comesBackOf(2); back.Reason != arctic.ReasonLocked {
		t.Errorf("a write past the lock: %v", back.Reason)
	}
	for i := range uint32(20) {
		s, ok := take(r.proc[1], funi.Request)
		if !ok || s[funi.PayloadWord] != i {
			r.until(time.Second, "the messages of before the move", func() bool {
				s, ok = take(r.proc[1], funi.Request)
				return ok
			})
			if s[funi.PayloadWord] != i {
				t.Fatalf("message %d is %d", i, s[funi.PayloadWord])
			}
		}
	}
	r.asks(0, 1, func() funi.Operation {
		o := operation(arctic.RemoteAdd, windowAt+8, 5)
		o.Key = otherKey
		return o
	}())
	r.silent(0) // suspended, also here
	r.block(1, funi.Request, func(s *funi.Slot) { s.SetResumeWindow(otherKey, 0) })
	r.notified(0)
	if c := r.counted(1); c != [3]uint64{1: 2} {
		t.Errorf("the counts are %v", c)
	}
	if err := r.ctx[1].Unregister(keyedAt); err != nil {
		t.Fatal(err)
	}
	for _, key := range []uint64{theKey, otherKey} {
		o := operation(arctic.RemoteAdd, windowAt+8, 1)
		if o.Key = key; r.completes(2, 1, o).Reason != arctic.ReasonKeySlot {
			t.Errorf("the window with key %#x is open, and its segment is withdrawn", key)
		}
	}
	r.ends()
}

// comesBackOf waits for what comes back to a node.
func (r *remoteBed) comesBackOf(node int) (back funi.Returned) {
	r.t.Helper()
	r.until(time.Second, "a packet comes back", func() (ok bool) { back, ok = r.proc[node].NextReturn(); return ok })
	return back
}

// Rule: exactly once (design idea 4), also while the receiver, and the sender, move from card to
// card: messages of both levels, transfers of many packets, additions, gets and their counts. The
// network loses, duplicates, reorders and damages frames. None is lost, none comes twice, and none
// comes back.
func TestMovesUnderFaults(t *testing.T) {
	for i := range 300 {
		network := []string{"clean", "loss", "duplicate", "reorder", "all"}[i%5]
		random := rand.New(rand.NewPCG(uint64(i), 16))
		draw := func(low, high int) int { return low + random.IntN(high-low+1) }
		rt, faults := t, wire.Networks[network]
		r := newMoveBed(t, setup{cards: 4, slots: 16, remote: moreRemote,
			net:  wire.Config{Seed: random.Uint64(), Delay: 10 * time.Microsecond, Faults: faults},
			tune: windowCards[[]string{"blocks", "packets"}[i%2]]})
		home := []int{0, 1, 2, 3}
		for node := range 4 {
			r.exposes(node, funi.Window{Key: theKey, Base: 0, Bytes: 4096, Address: windowAt, Rights: allRights,
				Counts: keyedAt + countsAt})
			clear(r.keyed[node][:8])
			clear(r.keyed[node][countsAt:][:funi.CountsBytes])
		}
		tr := newTraffic(r.bed, draw(1, 60), 3)
		type loader struct {
			adds, gets, transfers int
			open                  int
		}
		load := make([]loader, 4)
		adds, gets, transfers := draw(1, 40), draw(0, 10), draw(0, 4)
		notices := make([]map[uint32]bool, 4)
		for i := range notices {
			notices[i] = map[uint32]bool{}
		}
		tr.transfers = func(node int, s *funi.Slot) {
			n := s.Notice()
			from := int(s.Source())
			at := n.Address - landing
			if notices[node][n.Argument] {
				rt.Fatalf("transfer %#x twice", n.Argument)
			}
			notices[node][n.Argument] = true
			if !bytes.Equal(r.landing[node][at:at+1920], r.source[from][:1920]) {
				rt.Fatalf("transfer %#x to node %d from %d: the notice is before the data", n.Argument, node, from)
			}
			clear(r.landing[node][at : at+1920])
		}
		sums, counts := make([]uint64, 4), make([][3]uint64, 4)
		moves := draw(1, 5)
		var m *move
		moving := -1
		pump := func() bool {
			done := true
			tr.asleep = func(node int) bool { return node == moving }
			if !tr.pump() {
				done = false
			}
			for node := range 4 {
				if node == moving {
					done = false
					continue
				}
				n, l := r.proc[node], &load[node]
				for note := (funi.Notification{}); n.NextNotification(&note); {
					if note.Kind != funi.NoteCompletion || note.Reason != arctic.ReasonNone {
						rt.Fatalf("node %d: %+v", node, note)
					}
					l.open--
					if note.Operation == arctic.RemoteGet &&
						!bytes.Equal(r.keyed[node][keyedSize-3000:], r.keyed[note.Source][16:3016]) {
						rt.Fatalf("node %d got other bytes", node)
					}
				}
				if l.adds < adds && l.open < 4 {
					to := (node + 1 + l.adds%3) % 4
					if s := n.Reserve(funi.Request); s != nil {
						o := counting(operation(arctic.RemoteAdd, windowAt, uint64(l.adds*7+node+1)))
						s.SetOperation(uint16(to), &o)
						n.Commit(funi.Request)
						counts[to][funi.CountFetches]++
						sums[to] += uint64(l.adds*7 + node + 1)
						l.adds++
						l.open++
					}
				}
				if l.gets < gets && l.open < 1 {
					if s := n.Reserve(funi.Request); s != nil {
						o := funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteGet,
							Key: theKey, Address: windowAt + 16}, Source: keyedAt + keyedSize - 3000, Length: 3000}
						if o.Counts = true; !o.Valid() {
							rt.Fatal("not valid")
						}
						counts[(node+2)%4][funi.CountReads]++
						s.SetOperation(uint16((node+2)%4), &o)
						n.Commit(funi.Request)
						l.gets++
						l.open++
					}
				}
				if l.transfers < transfers {
					x := funi.Transfer{Source: sources,
						Destination: landing + uint32(node)*8192 + uint32(l.transfers%4)*1920,
						Argument:    uint32(node)<<16 | uint32(l.transfers), Words: 480}
					if l.transfers < 4 && request(n, funi.Level(l.transfers%2), (node+1)%4, x) || l.transfers >= 4 {
						l.transfers++
					}
				}
				done = done && l.adds == adds && l.gets == gets && l.open == 0 && l.transfers == transfers
			}
			for node := range 4 {
				done = done && len(notices[node]) == min(transfers, 4)
			}
			return done
		}
		left := 0
		r.until(20*time.Second, "all traffic has come, and all moves are done", func() bool {
			done := pump()
			switch {
			case m == nil && moves > 0 && (left == 0 || done):
				node := draw(0, 3)
				to := draw(0, 3)
				moves--
				left = draw(1, 200)
				if to != home[node] {
					m = &move{r: r, node: node, from: home[node], to: to}
				}
			case m == nil:
				left = max(left-1, 0)
			case m.image == nil:
				if m.leaves() {
					moving = m.node
				}
			case m.next == nil:
				m.arrives()
			case m.goesOn():
				home[m.node], m, moving = m.to, nil, -1
			}
			return done && m == nil && moves == 0
		})
		for node := range 4 {
			if got := binary.LittleEndian.Uint64(r.keyed[node][:8]); got != sums[node] {
				rt.Fatalf("node %d has %d, not %d", node, got, sums[node])
			}
			if got := r.counted(node); got != counts[node] {
				rt.Fatalf("node %d has counted %v, not %v", node, got, counts[node])
			}
		}
		r.ends()
	}
}

// Rule: a transfer that began while its receiver was on another card comes to it when the receiver
// has returned to a card that it had been on. That holds also if the sender has sent that card
// nothing meanwhile, or nothing ever (life.go).
func TestTransferToOneWhoComesBack(t *testing.T) {
	for _, l := range []funi.Level{funi.Request, funi.Reply} {
		// who has sent that card something: nobody, the sender, another
		for _, before := range []int{-1, 0, 2} {
			r := newMoveBed(t, setup{cards: 3, remote: moreRemote, net: near})
			if before >= 0 {
				r.mustSend(before, l, 1, 5, 6)
				r.until(time.Second, "a message of before", func() bool { _, ok := take(r.proc[1], l); return ok })
			}
			r.moves(1, 1, 2)
			out := &move{r: r, node: 1, from: 2, to: 1}
			const words = 2000
			x := funi.Transfer{Source: sources, Destination: landing, Argument: 7, Words: words}
			if !request(r.proc[0], l, 1, x) {
				t.Fatal("no room in the send queue")
			}
			r.until(time.Second, "some of it is there", func() bool {
				return !bytes.Equal(r.landing[1][:1024], make([]byte, 1024))
			})
			r.until(time.Second, "the card lets go", out.leaves)
			out.arrives()
			r.until(time.Second, "it is back", out.goesOn)
			if s, ok := take(r.proc[1], l); ok {
				t.Fatalf("the transfer was over before: %x", s.Notice())
			}
			var s funi.Slot
			r.until(time.Second, "the notice", func() (ok bool) {
				if back, lost := r.proc[0].NextReturn(); lost {
					t.Fatalf("level %v, a message of node %d before: it came back: %v", l, before, back.Reason)
				}
				s, ok = take(r.proc[1], l)
				return ok
			})
			if n := s.Notice(); n.Argument != 7 || !bytes.Equal(r.landing[1][:4*words], r.source[0][:4*words]) {
				t.Errorf("level %v: %+v, or the data is not there", l, n)
			}
			r.ends()
		}
	}
}

// Rule: the block of a counted write counts once. That holds also for one whose frame had become
// too long when its receiver had left for the sender's own card. It went in pieces to the old card,
// and goes as a whole to the new home (link.Line.Whole).
func TestBlocksFollowInOnePiece(t *testing.T) {
	for _, to := range []int{0, 2} {
		r := newMoveBed(t, setup{cards: 3, remote: moreRemote,
			net: wire.Config{Delay: 10 * time.Microsecond, MTU: 9000}, tune: quick})
		size := r.narrows()
		m := &move{r: r, node: 1, from: 1, to: to}
		r.until(time.Second, "the old card lets go", m.leaves)
		m.arrives()
		r.net.Cut(nil)
		r.until(time.Second, "the new card goes on", m.goesOn)
		r.notified(1)
		if !bytes.Equal(r.keyed[1][:size], r.source[0][:size]) {
			t.Fatalf("to card %d: not all is there when the notification comes", to)
		}
		r.silent(1)
		r.ends()
	}
}

// Rule: a context stays where it is if what it has sent is not taken; it goes on as if nothing had
// been (Stay).
func TestStay(t *testing.T) {
	r := newMoveBed(t, setup{cards: 3, slots: 4, remote: moreRemote, net: near})
	for i := 0; r.ctx[1].Idle(); i++ { // until the receiver is full
		for r.send(1, funi.Request, 0, uint32(i), 1) {
			r.pass(time.Millisecond)
		}
		r.pass(time.Millisecond)
	}
	m := &move{r: r, node: 1, from: 1, to: 2}
	for range 50 {
		if m.leaves() {
			t.Fatal("it leaves with packets that nobody has taken")
		}
		r.pass(time.Millisecond)
	}
	r.cards[1].Stay(r.ctx[1])
	got := 0
	for r.until(time.Second, "a message", func() bool {
		_, ok := take(r.proc[0], funi.Request)
		return ok
	}); r.ctx[1].Idle() == false; got++ {
		r.until(time.Second, "a message", func() bool {
			_, ok := take(r.proc[0], funi.Request)
			return ok || r.ctx[1].Idle()
		})
	}
	r.mustSend(0, funi.Request, 1, 5, 6)
	r.until(time.Second, "it receives", func() bool { _, ok := take(r.proc[1], funi.Request); return ok })
	r.moves(1, 1, 2)
	r.ends()
}

// Rule: only the card where a node is can say that it has moved; a word from another changes
// nothing (forward.go).
func TestForwardsOfOthersAreRefused(t *testing.T) {
	r := newMoveBed(t, setup{cards: 4, remote: moreRemote, net: near})
	// Card 3 says, in the name of its own node, that node 1 is on card 3; and that node 3 is on a
	// card that nobody knows.
	for _, f := range []arctic.Forward{{Node: 1, Card: 3}, {Node: 3, Card: 77}, {Node: 3, Card: 0},
		{Node: 0, Card: 0}} {
		r.cards[3].SayForward(r.ctx[3], 0, 0, f)
		r.pass(10 * time.Millisecond)
		if n := r.cards[0].Counters(); n.ForwardsRefused == 0 || n.Redirected != 0 {
			t.Fatalf("%+v: %d refused, %d believed", f, n.ForwardsRefused, n.Redirected)
		}
	}
	for node := range 3 {
		r.mustSend(0, funi.Request, node+1, 1, 2)
		r.until(time.Second, "it is where it was", func() bool {
			_, ok := take(r.proc[node+1], funi.Request)
			return ok
		})
	}
}

// Rule: what a card that a node leaves says about other nodes may be old. A node that is about to
// arrive at the new home as well is where its own home has said that it is. A node that has left a
// sign at the new home is not there. The new home may not have heard where else that node is
// (forward.go).
func TestOldNewsOfOtherNodes(t *testing.T) {
	r := newMoveBed(t, setup{cards: 5, remote: moreRemote, net: near})
	r.moves(2, 2, 4) // leaves a sign
	third, first := &move{r: r, node: 3, from: 3, to: 2}, &move{r: r, node: 1, from: 1, to: 2}
	r.until(time.Second, "node 3 leaves", third.leaves)
	third.arrives()
	r.until(time.Second, "its new card has been told", func() bool { return r.cards[2].Home(third.next) })
	first.arrives()
	for _, old := range []arctic.Forward{{Node: 3, Card: 0}, {Node: 2, Card: 2}} {
		redirected := r.cards[2].Counters().Redirected
		r.cards[1].SayForward(r.ctx[1], 2, 1, old)
		r.pass(time.Millisecond)
		if n := r.cards[2].Counters().Redirected; n != redirected {
			t.Errorf("%+v is believed", old)
		}
	}
	r.cards[1].SayForward(r.ctx[1], 2, 1, arctic.Forward{Node: 2, Card: 0})
	r.cards[1].SayForward(r.ctx[1], 2, 1, arctic.Forward{Node: 2, Card: 4})
	redirected := r.cards[2].Counters().Redirected
	r.pass(time.Millisecond)
	if n := r.cards[2].Counters().Redirected; n != redirected+2 {
		t.Error("a node that has left a sign is not believed to have gone on")
	}
	r.until(time.Second, "node 3 goes on", third.goesOn)
	r.until(time.Second, "node 1 leaves", first.leaves)
	r.until(time.Second, "node 1 goes on", first.goesOn)
	for _, to := range []int{2, 3} {
		r.mustSend(1, funi.Request, to, 5, 6)
		r.until(time.Second, "a message", func() bool { _, ok := take(r.proc[to], funi.Request); return ok })
	}
	r.ends()
}

// Rule: a card that has missed several moves of a node, and asks where it was first, is told once
// where it is now (forward.go).
func TestMissedMoves(t *testing.T) {
	r := newMoveBed(t, setup{cards: 5, remote: moreRemote, net: near})
	r.moves(1, 1, 2)
	r.moves(1, 2, 4)
	r.pass(10 * time.Millisecond) // the others hear of it
	if err := r.cards[3].SetGroupRoutes(gid, []uint32{0, 1, 2, 3, 4}); err != nil {
		t.Fatal(err)
	}
	before := r.cards[3].Counters().Redirected
	r.mustSend(3, funi.Request, 1, 5, 6)
	r.until(time.Second, "a message", func() bool { _, ok := take(r.proc[1], funi.Request); return ok })
	if n := r.cards[3].Counters().Redirected - before; n != 1 {
		t.Errorf("told %d times", n)
	}
	r.ends()
}

// Rule: a move to no card, of what is away, or on a modelled machine, is refused; so are images
// that are none, and those of contexts that are other than the one that takes them.
func TestMoveRefusals(t *testing.T) {
	r := newMoveBed(t, setup{cards: 3, remote: moreRemote, net: near})
	for _, to := range []uint16{1, 9} {
		if _, err := r.cards[1].Export(r.ctx[1], to); !errors.Is(err, engine.ErrRoute) {
			t.Errorf("to card %d: %v", to, err)
		}
	}
	if _, err := r.cards[2].Arrive(r.mem[2], gid, 2, jobTag); !errors.Is(err, engine.ErrAttached) {
		t.Errorf("arriving where the node is: %v", err)
	}
	if err := r.cards[1].Import(r.ctx[1], nil); !errors.Is(err, engine.ErrAway) {
		t.Errorf("an image for one that is here: %v", err)
	}
	m := &move{r: r, node: 1, from: 1, to: 2}
	r.until(time.Second, "it leaves", m.leaves)
	if _, err := r.cards[1].Export(r.ctx[1], 2); !errors.Is(err, engine.ErrAway) {
		t.Errorf("moving what has left: %v", err)
	}
	m.arrives()
	if err := r.cards[2].Import(m.next, m.image); !errors.Is(err, engine.ErrNotReady) {
		t.Errorf("before the old card has said so: %v", err)
	}
	r.until(time.Second, "the new card has been told", func() bool { return r.cards[2].Home(m.next) })
	*r.mem[1].Page = m.page
	for i := range m.image {
		if err := r.cards[2].Import(m.next, m.image[:i]); !errors.Is(err, engine.ErrImage) {
			t.Fatalf("%d of %d bytes: %v", i, len(m.image), err)
		}
	}
	if err := r.cards[2].Import(m.next, append(bytes.Clone(m.image), 0)); !errors.Is(err, engine.ErrImage) {
		t.Errorf("more than an image: %v", err)
	}
	r.until(time.Second, "it goes on", m.goesOn)
	r.ends()

	b := newBed(t, setup{cards: 2, slots: 4, tune: timed})
	if _, err := b.cards[0].Export(b.ctx[0], 1); !errors.Is(err, engine.ErrModelled) {
		t.Errorf("on a modelled machine: %v", err)
	}
}

// Rule: a context that arrives has its set of the cache from the beginning, and keeps it (takeSet):
// its image is never taken in vain.
func TestArrivingContextsKeepTheirSets(t *testing.T) {
	r := newMoveBed(t, setup{cards: 3, remote: moreRemote, net: near, tune: func(c *engine.Config) { c.Sets = 2 }})
	m := &move{r: r, node: 1, from: 1, to: 2}
	r.until(time.Second, "it leaves", m.leaves)
	m.arrives()
	mem, err := funi.NewMemory(16)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := funi.Initialize(mem); err != nil {
		t.Fatal(err)
	}
	if _, err := r.cards[2].Attach(mem, gid+1, 9, jobTag); !errors.Is(err, engine.ErrNoSet) {
		t.Errorf("a third context of a card with 2 sets: %v", err)
	}
	r.until(time.Second, "it goes on", m.goesOn)
	r.mustSend(0, funi.Request, 1, 5, 6)
	r.until(time.Second, "a message", func() bool { _, ok := take(r.proc[1], funi.Request); return ok })
	r.ends()
}
