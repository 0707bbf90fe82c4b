package hello

// This file tests stations on a segment in virtual time: who finds whom, what is answered, and what is
// believed.

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const millisecond = second / 1000

// tester is a test, or a draw of one.
type tester interface {
	Helper()
	Fatalf(string, ...any)
	Fatal(...any)
	Errorf(string, ...any)
}

// segment is an Ethernet in memory: a frame takes from 10 to 40 us, or is lost.
type segment struct {
	t       tester
	now     int64
	random  *rand.Rand
	loss    float64
	hosts   []*host
	flying  []flying
	carried int // frames
	// see is shown every frame; nil: nobody looks.
	see func(b []byte)
}

type flying struct {
	at    int64
	frame []byte
	from  *host
}

// host is a station with one port.
type host struct {
	*Station
	s        *segment
	mac      [6]byte
	port     *Port
	next     int64
	in       [][]byte
	reserved [1514]byte
	off      bool
	// queues is how many it has; dead are those on which frames are lost, and out those that are left out.
	queues    int
	dead, out map[int]bool
	answers   [mostQueues]int
	sent      [mostQueues]int
}

func (h *host) QueueCount() int     { return h.queues }
func (h *host) LentBy() int         { return 3 }
func (h *host) Answered(queue int)  { h.answers[queue]++ }
func (h *host) LeaveOut(q int) bool { was := h.out[q]; h.out[q] = true; return !was }
func (h *host) TakeIn(q int) bool   { was := h.out[q]; h.out[q] = false; return was }
func (h *host) SendOn(queue int, b []byte) bool {
	if queue >= h.queues {
		h.s.t.Errorf("queue %d of %d", queue, h.queues)
	}
	h.sent[queue]++
	if !h.dead[queue] {
		h.s.carry(h, b)
	}
	return true
}

func newSegment(t tester, seed uint64) *segment {
	return &segment{t: t, random: rand.New(rand.NewPCG(seed, 1))}
}

// add puts a station on the segment.
func (s *segment) add(card uint16, number byte, change func(*Config)) *host {
	h := &host{s: s, mac: [6]byte{2, 0, 0, 0, 0, number}}
	h.port = NewPort(h, func() Queues { return h })
	h.queues, h.out = 4, map[int]bool{}
	c := Config{Self: Said{Card: card, Incarnation: s.random.Uint32() | 1, Frames: 3, Cluster: "one", Host: fmt.Sprintf("host-%d", number)}, Discover: true,
		Ports: []*Port{h.port}, Addresses: [][6]byte{h.mac}}
	c.Seed[0], c.Seed[1] = number, byte(s.random.Uint32())
	if change != nil {
		change(&c)
	}
	h.Station = New(c)
	h.next = s.now
	s.hosts = append(s.hosts, h)
	return h
}

func (h *host) FrameSize() int { return len(h.reserved) }
func (h *host) Release()       {}
func (h *host) Flush()         {}
func (h *host) Reserve() []byte {
	return h.reserved[:]
}
func (h *host) Commit(n int) { h.sent[0]++; h.s.carry(h, h.reserved[:n]) }
func (h *host) Receive(frames [][]byte) int {
	n := copy(frames, h.in)
	h.in = h.in[n:]
	return n
}

// carry takes a frame.
func (s *segment) carry(from *host, b []byte) {
	s.carried++
	if s.see != nil {
		s.see(b)
	}
	if s.random.Float64() < s.loss || from != nil && from.off {
		return
	}
	s.flying = append(s.flying, flying{s.now + 10_000 + s.random.Int64N(30_000), slices.Clone(b), from})
}

// run lets time pass, until something is so if that is asked.
func (s *segment) run(d int64, so func() bool) {
	s.t.Helper()
	end := s.now + d
	for s.now < end {
		if so != nil && so() {
			return
		}
		next := end
		for _, h := range s.hosts {
			next = min(next, h.next)
		}
		for _, f := range s.flying {
			next = min(next, f.at)
		}
		s.now = max(s.now, next)
		s.flying = slices.DeleteFunc(s.flying, func(f flying) bool {
			if f.at > s.now {
				return false
			}
			for _, h := range s.hosts {
				if h != f.from && !h.off && ([6]byte(f.frame) == h.mac || [6]byte(f.frame) == broadcast) {
					h.in = append(h.in, f.frame)
				}
			}
			return true
		})
		for _, h := range s.hosts {
			for len(h.in) > 0 {
				var frames [64][]byte
				if n := h.port.Receive(frames[:]); n != 0 {
					s.t.Fatalf("%d frames are no hellos", n)
				}
				h.next = h.Step(s.now)
			}
			if h.next <= s.now {
				if h.next = h.Step(s.now); h.next <= s.now {
					s.t.Fatal("a step wants another at once")
				}
			}
		}
	}
	if so != nil && !so() {
		s.t.Fatalf("not so after %d ms", d/millisecond)
	}
}

// knows reports whether the station has the card at the address.
func (h *host) knows(card uint16, at *host) bool {
	p, ok := h.Peer(card)
	return ok && p.Address == at.mac && p.Heard != Never
}

// lines are the faults that are new, in words.
func (h *host) lines() (all []string) {
	for _, f := range h.TakeFaults(h.s.now) {
		all = append(all, f.String())
	}
	return all
}

func wantLine(t *testing.T, lines []string, words ...string) {
	t.Helper()
	for _, l := range lines {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(l, w) }) {
			return
		}
	}
	t.Errorf("no line says %q: %q", words, lines)
}

// Rule: cards of one cluster find each other within seconds, also where a third of the frames is lost, and the news
// say each once.
func TestDiscovery(t *testing.T) {
	for seed := range uint64(50) {
		s := newSegment(t, seed)
		s.loss = []float64{0, 0.3}[seed%2]
		for i := range 5 {
			s.add(uint16(10*i), byte(i), nil)
		}
		all := func() bool {
			for _, h := range s.hosts {
				for _, o := range s.hosts {
					if h != o && !h.knows(o.c.Self.Card, o) {
						return false
					}
				}
			}
			return true
		}
		s.run(20*second, all)
		if s.now > 3*second && s.loss == 0 {
			t.Errorf("seed %d: it took %d ms", seed, s.now/millisecond)
		}
		s.run(20*second, nil)
		for _, h := range s.hosts {
			var cards []int
			for _, c := range h.TakeNews(100) {
				if c.Gone || !c.Found {
					t.Errorf("%+v", c)
				}
				cards = append(cards, int(c.Card))
			}
			slices.Sort(cards)
			if len(cards) != 4 || len(slices.Compact(cards)) != 4 {
				t.Errorf("seed %d: news of %v", seed, cards)
			}
			if f := h.lines(); len(f) > 0 {
				t.Errorf("%q", f)
			}
		}
	}
}

// Rule: a station that does not discover neither announces itself nor finds or is found by anybody, and answers.
func TestWithoutDiscovery(t *testing.T) {
	s := newSegment(t, 1)
	a, b := s.add(0, 1, nil), s.add(1, 2, func(c *Config) { c.Discover = false })
	s.run(10*second, nil)
	if _, ok := a.Peer(1); ok {
		t.Error("it was found")
	}
	if b.Counters().Questions != 0 {
		t.Error("it has asked")
	}
	a.SetPeer(1, 0, b.mac)
	a.next = s.now
	s.run(5*second, func() bool { return a.knows(1, b) })
	if p, _ := a.Peer(1); p.Host != "host-2" || p.RoundTrip < 20_000 || p.RoundTrip > 80_000 || p.Found || p.Incarnation != b.c.Self.Incarnation {
		t.Errorf("%+v", p)
	}
}

// Rule: a peer that falls silent stays; one that says goodbye and is silent is gone, and one in whose name another
// says it stays.
func TestGoodbye(t *testing.T) {
	s := newSegment(t, 2)
	a, b := s.add(0, 1, nil), s.add(1, 2, nil)
	s.run(10*second, func() bool { return a.knows(1, b) && b.knows(0, a) })
	a.TakeNews(10)
	forged := make([]byte, Size)
	(&Message{Kind: Goodbye, Said: Said{Card: 1, IsCard: true, Cluster: "one", Frames: 3, FrameSize: 1514}}).Put(forged, broadcast, b.mac)
	s.carry(nil, forged)
	s.run(5*second, nil)
	if !a.knows(1, b) || a.News() {
		t.Fatal("a goodbye in another's name is believed")
	}
	b.off = true
	s.run(100*second, nil)
	if p, ok := a.Peer(1); !ok || p.Silent < 5 || a.News() {
		t.Fatalf("a silent peer: %+v, %v", p, ok)
	}
	b.off = false
	s.run(20*second, func() bool { p, _ := a.Peer(1); return p.Silent == 0 })
	b.Leave() // and answers no more, though it is stepped once or twice
	s.run(5*second, func() bool { return a.News() })
	if n := a.TakeNews(10); len(n) != 1 || !n[0].Gone || n[0].Card != 1 {
		t.Fatalf("%+v", n)
	}
}

// Rule: a number passes on to another host when its owner does not answer any more, and not before: then both are
// named, once.
func TestNumberPassesOn(t *testing.T) {
	s := newSegment(t, 3)
	a, b := s.add(0, 1, nil), s.add(1, 2, nil)
	s.run(10*second, func() bool { return a.knows(1, b) })
	c := s.add(1, 3, nil)
	s.run(20*second, nil)
	if !a.knows(1, b) {
		t.Error("the number passed on while its owner was there")
	}
	lines := a.lines()
	wantLine(t, lines, "card 1 is", b.macString(), "host-3 ("+c.macString()+")")
	if len(lines) != 1 || a.News() && len(a.lines()) > 0 {
		t.Errorf("%q", lines)
	}
	wantLine(t, b.lines(), "card 1 is this host", c.macString())
	wantLine(t, c.lines(), "card 1 is this host", b.macString())
	b.off = true
	s.run(20*second, func() bool { return a.knows(1, c) })
	a.TakeNews(10)
	// A host that comes back with another NIC and number of life.
	c.off = true
	d := s.add(1, 4, nil)
	s.run(20*second, func() bool { return a.knows(1, d) })
	if n := a.TakeNews(10); len(n) != 1 || n[0].Gone || n[0].Address != d.mac {
		t.Errorf("%+v", n)
	}
}

func (h *host) macString() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", h.mac[0], h.mac[1], h.mac[2], h.mac[3], h.mac[4], h.mac[5])
}

// Rule: who was listed is never replaced by who was heard; that somebody else says to be it is named.
func TestListedPeersStay(t *testing.T) {
	s := newSegment(t, 4)
	a := s.add(0, 1, nil)
	listed := &host{mac: [6]byte{2, 0, 0, 0, 0, 77}}
	a.SetPeer(1, 0, listed.mac)
	b := s.add(1, 2, nil)
	s.run(30*second, nil)
	if p, _ := a.Peer(1); p.Address != listed.mac || p.Found || p.Heard != Never {
		t.Fatalf("%+v", p)
	}
	wantLine(t, a.lines(), "card 1 is listed at "+listed.macString(), "nobody answers", b.macString())
	// The wrong number at a listed address.
	a.RemovePeer(1)
	a.SetPeer(5, 0, b.mac)
	s.run(30*second, nil)
	wantLine(t, a.lines(), "is listed as card 5 and says that it is card 1")
	if p, ok := a.Peer(1); ok {
		t.Errorf("%+v", p)
	}
}

// Rule: other clusters, other versions and other lengths of frames are named, once, and are no peers.
func TestFaults(t *testing.T) {
	s := newSegment(t, 5)
	a := s.add(0, 1, nil)
	s.add(1, 2, func(c *Config) { c.Self.Cluster = "two" })
	s.add(2, 3, func(c *Config) { c.Self.Frames = 4 })
	long := s.add(3, 4, nil)
	s.see = func(b []byte) { // the fourth has longer frames
		if [6]byte(b[6:12]) == long.mac && b[versionAt] == Version {
			m, from, _ := Parse(b)
			m.FrameSize = 9014
			m.Put(b, [6]byte(b), from)
		}
	}
	s.run(30*second, nil)
	lines := a.lines()
	wantLine(t, lines, "host-2", `of cluster "two", this host of "one"`)
	wantLine(t, lines, "host-3", "version 4, this host of version 3")
	wantLine(t, lines, "host-4", "up to 9014 bytes, this host of up to 1514")
	if len(lines) != 3 || len(a.order) > 0 {
		t.Errorf("%q, %d peers", lines, len(a.order))
	}
	s.run(60*second, nil)
	if l := a.lines(); len(l) > 0 {
		t.Errorf("named again: %q", l)
	}
	if f := a.Faults(s.now); len(f) != 3 {
		t.Errorf("%v", f)
	}
	s.see = nil // mended
	s.run(10*second, func() bool { return a.knows(3, long) })
	if f := a.Faults(s.now); len(f) != 2 {
		t.Errorf("%v", f)
	}
}

// forge is a hello of whom there is not.
func (s *segment) forge(m Message, to [6]byte) {
	b := make([]byte, Size)
	m.IsCard, m.Discovers, m.Frames, m.FrameSize = true, true, 3, 1514
	from := [6]byte{2, 9}
	for i := 2; i < 6; i++ {
		from[i] = byte(s.random.Uint32())
	}
	m.Put(b, to, from)
	s.carry(nil, b)
}

// Rule: a flood of forged announcements, of other numbers, clusters and versions, makes nobody a peer, and is
// named within bounds; questions to those that do not exist are bounded, and peers stay.
func TestForgedAnnouncements(t *testing.T) {
	s := newSegment(t, 6)
	a, b := s.add(0, 1, nil), s.add(1, 2, nil)
	s.run(10*second, func() bool { return a.knows(1, b) })
	a.TakeNews(10)
	before, lines := a.Counters().Questions, 0
	const seconds = 20
	for i := range seconds * 1000 {
		m := Message{Kind: Announcement, Said: Said{Card: uint16(s.random.Uint32()), Cluster: "one", Host: "nobody", Incarnation: 1}}
		switch i % 4 {
		case 1:
			m.Card = 1
		case 2:
			m.Cluster = fmt.Sprint(i)
		case 3:
			m.Card = 0
		}
		s.forge(m, broadcast)
		s.run(millisecond, nil)
		lines += len(a.lines())
	}
	if n := a.Counters().Questions - before; n > seconds*(32+16+16)*6 {
		t.Errorf("%d questions in %d s", n, seconds)
	}
	if len(a.order) != 1 || !a.knows(1, b) || a.TakeNews(10) != nil {
		t.Errorf("%d peers", len(a.order))
	}
	if lines > mostFaults+seconds/20+1 {
		t.Errorf("%d lines", lines)
	}
	if a.Counters().Crowded == 0 {
		t.Error("nothing was too much")
	}
	c := s.add(2, 3, nil)
	s.run(20*second, func() bool { return a.knows(2, c) })
}

// Rule: of a flood of questions few are answered, none with more bytes than it has, and a peer gets its answers all
// the while; one stranger takes no other's.
func TestForgedQuestions(t *testing.T) {
	s := newSegment(t, 7)
	a, b := s.add(0, 1, nil), s.add(1, 2, nil)
	s.run(10*second, func() bool { return a.knows(1, b) && b.knows(0, a) })
	before := a.Counters()
	const seconds = 10
	asked, answered := 0, 0
	for i := range seconds * 2000 {
		s.forge(Message{Kind: Question, Nonce: uint64(i), Said: Said{Card: uint16(s.random.Uint32()), Cluster: "one"}}, a.mac)
		if i%100 == 0 {
			asked++
			if err := b.Ask(s.now, 0, a.mac, 0, func(r Reply) {
				if r.Answered && r.Tries == 1 {
					answered++
				}
			}); err != nil {
				t.Fatal(err)
			}
			b.next = s.now
		}
		s.run(millisecond/2, nil)
	}
	s.run(second, nil)
	if answered != asked {
		t.Errorf("of %d questions of a peer %d were answered at once", asked, answered)
	}
	n := a.Counters()
	if sent := n.Answers - before.Answers; sent > uint64(asked)+seconds*450+200 {
		t.Errorf("%d answers in %d s", sent, seconds)
	}
	if n.Refused == before.Refused {
		t.Error("none was refused")
	}
}

// Rule: who is asked by somebody is known within a second whether it answers or not, and too many questions are
// refused.
func TestAsk(t *testing.T) {
	s := newSegment(t, 8)
	a, b := s.add(0, 1, func(c *Config) { c.Discover = false }), s.add(1, 2, func(c *Config) { c.Discover = false })
	var got []Reply
	take := func(r Reply) { got = append(got, r) }
	if err := a.Ask(s.now, 0, b.mac, 1, take); err != nil {
		t.Fatal(err)
	}
	a.next = s.now
	s.run(second, func() bool { return len(got) == 1 })
	if r := got[0]; !r.Answered || r.Said.Host != "host-2" || r.Arrived != 3 || r.Queue != 3 || r.From != b.mac || r.Tries != 1 {
		t.Errorf("%+v", r)
	}
	b.off = true
	for i := range most[asked] {
		if err := a.Ask(s.now, 0, b.mac, uint16(i), take); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Ask(s.now, 0, b.mac, 1, take); err != ErrBusy {
		t.Error(err)
	}
	a.next = s.now
	s.run(second, func() bool { return len(got) == 1+most[asked] })
	if r := got[1]; r.Answered || r.Tries != mostTries {
		t.Errorf("%+v", r)
	}
}

// Rule: questions by turns cost the same however many peers there are, and each peer has its turn.
func TestTurns(t *testing.T) {
	s := newSegment(t, 9)
	a := s.add(0, 1, func(c *Config) { c.Discover = false })
	const peers = 2000
	asked := map[[6]byte]int{}
	s.see = func(b []byte) { asked[[6]byte(b)]++ }
	for i := range peers {
		a.SetPeer(uint16(i+1), 0, [6]byte{2, 8, 0, 0, byte(i >> 8), byte(i)})
	}
	a.next = s.now
	s.run(peers*second/turnsPerSecond+5*second, nil)
	if len(asked) != peers {
		t.Errorf("%d of %d peers were asked", len(asked), peers)
	}
	if n := a.Counters().Questions; n > 3*peers+3*turnsPerSecond*5 {
		t.Errorf("%d questions", n)
	}
	for i := range peers {
		a.RemovePeer(uint16(i + 1))
	}
	if len(a.order) != 0 || len(a.byCard) != 0 {
		t.Error("some are left")
	}
	s.run(20*second, nil)
}

// Rule: nothing that arrives makes the station allocate, once it is known.
func TestNoAllocation(t *testing.T) {
	s := newSegment(t, 10)
	a, b := s.add(0, 1, nil), s.add(1, 2, nil)
	s.run(10*second, func() bool { return a.knows(1, b) })
	s.run(5*second, nil)
	frames := [4][Size]byte{}
	for i := range frames {
		m := Message{Kind: Kind(i + 1), Said: b.c.Self}
		m.FrameSize = 1514
		if i == 1 {
			m.Cluster = "other" // an answer that nobody waits for
		}
		m.Put(frames[i][:], a.mac, b.mac)
	}
	sink := &sink{}
	a.port.Port, a.port.queues = sink, func() Queues { return nil }
	var list [8][]byte
	now := s.now
	if n := testing.AllocsPerRun(1000, func() {
		for i := range frames[:3] {
			sink.in = frames[i][:]
			a.port.Receive(list[:])
			now += millisecond
			a.Step(now)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// sink is a port that sends nowhere and receives one frame.
type sink struct {
	in  []byte
	out [1514]byte
}

func (p *sink) FrameSize() int  { return len(p.out) }
func (p *sink) Release()        {}
func (p *sink) Flush()          {}
func (p *sink) Reserve() []byte { return p.out[:] }
func (p *sink) Commit(int)      {}
func (p *sink) Receive(frames [][]byte) int {
	if p.in == nil {
		return 0
	}
	frames[0], p.in = p.in, nil
	return 1
}

// Rule: frames that are no hellos pass in their order, hellos among them are kept, and what is too much or too short
// is dropped.
func TestSift(t *testing.T) {
	var in [][]byte
	other, short := make([]byte, 80), make([]byte, 40)
	short[versionAt] = Version
	good := make([]byte, Size)
	(&Message{Kind: Question}).Put(good, broadcast, [6]byte{2})
	for i := range 100 {
		o := slices.Clone(other)
		o[20] = byte(i)
		in = append(in, o, good)
	}
	in = append(in, short)
	p := NewPort(&frames{in: in}, nil)
	list := make([][]byte, len(in))
	if n := p.Receive(list); n != 100 {
		t.Fatalf("%d frames", n)
	}
	for i, b := range list[:100] {
		if b[20] != byte(i) {
			t.Fatalf("frame %d is %d", i, b[20])
		}
	}
	if p.n != kept || p.dropped != 100-kept+1 {
		t.Errorf("%d kept, %d dropped", p.n, p.dropped)
	}
}

type frames struct {
	sink
	in [][]byte
}

func (f *frames) Receive(frames [][]byte) int { return copy(frames, f.in) }

// Rule: when a port was opened, a hello leaves on each of its queues and its answer proves it; a queue on which all are
// lost is left out, once, and taken in again when one is answered; losses of the network, and a peer that dies meanwhile, leave
// none out.
func TestQueuesAreProven(t *testing.T) {
	for seed := range uint64(40) {
		s := newSegment(t, seed)
		s.loss = []float64{0, 0.2}[seed%2]
		a, b := s.add(0, 1, func(c *Config) { c.Discover = false }), s.add(1, 2, func(c *Config) { c.Discover = false })
		a.SetPeer(1, 0, b.mac)
		b.SetPeer(0, 0, a.mac)
		a.queues, b.queues = 8, []int{1, 8}[seed/2%2]
		a.dead = map[int]bool{5: true}
		if b.queues > 1 { // where answers are lost, no question is
			b.dead = map[int]bool{2: true}
			b.proofs[0].rounds = 0
		}
		a.Prove(0)
		a.next = s.now
		s.run(20*second, func() bool { return a.out[5] })
		if b.queues == 1 && b.sent[0] == 0 || b.queues > 1 && b.sent[2] == 0 {
			t.Errorf("seed %d: b has sent %v", seed, b.sent)
		}
		for q := range a.queues {
			if a.out[q] != (q == 5) || (a.answers[q] > 0) == (q == 5) {
				t.Errorf("seed %d: queue %d: left out %v, %d answers", seed, q, a.out[q], a.answers[q])
			}
		}
		if n := a.TakeQueueNews(); len(n) != 1 || n[0].Queue != 5 || !n[0].Left || n[0].Asked < proofRounds {
			t.Errorf("%+v", n)
		}
		a.dead = nil
		s.run(10*second, func() bool { return !a.out[5] })
		if n := a.TakeQueueNews(); len(n) != 1 || n[0].Queue != 5 || n[0].Left {
			t.Errorf("%+v", n)
		}
		a.Prove(0)
		s.run(int64(seed)*50*millisecond, nil)
		b.off = true
		s.run(20*second, nil)
		if n := a.TakeQueueNews(); len(n) > 0 {
			t.Errorf("seed %d: a peer that died: %+v", seed, n)
		}
	}
}

// Rule: only the answer with the nonce of a question, from the address that it went to, is one.
func TestForgedAnswers(t *testing.T) {
	s := newSegment(t, 11)
	a, b := s.add(0, 1, func(c *Config) { c.Discover = false }), s.add(1, 2, nil)
	b.off = true
	var nonces []uint64
	s.see = func(f []byte) {
		if m, _, err := Parse(f); err == nil && m.Kind == Question {
			nonces = append(nonces, m.Nonce)
		}
	}
	forge := func(nonce uint64, from [6]byte) {
		f := make([]byte, Size)
		(&Message{Kind: Answer, Nonce: nonce, Said: b.c.Self}).Put(f, a.mac, from)
		s.carry(nil, f)
	}
	ask := func(forge func(nonce uint64)) (got Reply) {
		t.Helper()
		nonces = nil
		done := false
		if err := a.Ask(s.now, 0, b.mac, 1, func(r Reply) { got, done = r, true }); err != nil {
			t.Fatal(err)
		}
		forge(nonces[0])
		a.next = s.now
		s.run(2*second, func() bool { return done })
		return got
	}
	for what, f := range map[string]func(uint64){
		"another nonce":         func(n uint64) { forge(n^1<<40, b.mac) },
		"a try that was not":    func(n uint64) { forge(n|3, b.mac) },
		"another address":       func(n uint64) { forge(n, [6]byte{2, 7}) },
		"an answer from itself": func(n uint64) { forge(n, a.mac) },
	} {
		if r := ask(f); r.Answered {
			t.Errorf("%s: %+v", what, r)
		}
	}
	if r := ask(func(n uint64) { forge(n, b.mac) }); !r.Answered {
		t.Error("nor is the right one")
	}
}

// Rule: what finds no room is not put into words either: a flood of strangers makes the station allocate nothing.
func TestFloodAllocatesNothing(t *testing.T) {
	s := newSegment(t, 12)
	a := s.add(0, 1, nil)
	sink := &sink{}
	a.port.Port, a.port.queues = sink, func() Queues { return nil }
	now := s.now
	var f [Size]byte
	var list [8][]byte
	n := uint32(0)
	one := func() {
		n++
		m := Message{Kind: Announcement, Said: Said{IsCard: true, Card: uint16(n), Cluster: "elsewhere", Host: "stranger", Frames: 3}}
		m.Put(f[:], broadcast, [6]byte{2, 9, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
		sink.in = f[:]
		a.port.Receive(list[:])
		now += millisecond
		a.Step(now)
	}
	for range 2 * mostFaults {
		one()
	}
	if n := testing.AllocsPerRun(1000, one); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// consistent says what contradicts itself in a station.
func (h *host) consistent() error {
	var waits [purposes]int
	for i := range h.questions {
		if q := &h.questions[i]; q.open {
			waits[q.why]++
		}
	}
	silent, found := 0, 0
	for i, p := range h.order {
		if p.at != i || p.gone || h.byCard[p.Card] != p {
			return fmt.Errorf("place %d has peer %+v", i, p.Peer)
		}
		if p.Silent > 0 {
			silent++
		}
		if p.Found {
			found++
		}
	}
	if waits != h.waits || silent != h.silent || found != h.found || len(h.order) != len(h.byCard) || h.nFaults > mostFaults {
		return fmt.Errorf("%v questions and %v; %d silent and %d; %d found and %d; %d peers and %d; %d faults", waits, h.waits, silent, h.silent, found, h.found, len(h.order), len(h.byCard), h.nFaults)
	}
	for why, n := range waits {
		if n > most[why] {
			return fmt.Errorf("%d questions for purpose %d", n, why)
		}
	}
	return nil
}

// Rule: whatever comes, by whomever it says to be from, the station stays consistent and bounded; and afterwards two
// honest hosts still find each other.
func TestAnythingFromAnybody(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSegment(t, rapid.Uint64().Draw(t, "seed"))
		a := s.add(0, 1, nil)
		var last Message
		s.see = func(f []byte) {
			if m, _, err := Parse(f); err == nil && m.Kind == Question {
				last = m
			}
		}
		for range rapid.IntRange(1, 120).Draw(t, "frames") {
			m := drawMessage(t)
			m.Card, m.To = rapid.Uint16Range(0, 3).Draw(t, "number"), 0
			m.IsCard, m.Discovers = true, rapid.Bool().Draw(t, "finds")
			m.Incarnation = rapid.Uint32Range(1, 3).Draw(t, "life")
			if rapid.IntRange(0, 3).Draw(t, "ours") > 0 {
				m.Cluster, m.Frames, m.FrameSize = "one", 3, 1514
			}
			from := [6]byte{2, 5, 0, 0, 0, rapid.Byte().Draw(t, "from") % 5}
			if m.Kind == Answer && rapid.Bool().Draw(t, "to a question") {
				m.Nonce = last.Nonce
			}
			f := make([]byte, Size)
			m.Put(f, a.mac, from)
			s.carry(nil, f)
			switch rapid.IntRange(0, 9).Draw(t, "besides") {
			case 0:
				a.SetPeer(m.Card+1, 0, from)
			case 1:
				a.RemovePeer(m.Card)
			case 2:
				a.TakeNews(2)
			case 3:
				a.Prove(0)
			case 4:
				_ = a.Ask(s.now, 0, from, m.Card, func(Reply) {})
			}
			a.next = s.now
			s.run(rapid.Int64Range(1, 400).Draw(t, "ms")*millisecond, nil)
			if err := a.consistent(); err != nil {
				t.Fatal(err)
			}
		}
		for card := range uint16(6) {
			a.RemovePeer(card)
		}
		b := s.add(9, 99, nil)
		s.run(20*second, func() bool { return a.knows(9, b) && b.knows(0, a) })
	})
}
