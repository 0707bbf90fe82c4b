package hello

// This file is a segment in memory and its hosts, in virtual time, for the tests of stations.

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
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
	in       [][]byte
	reserved [1514]byte
	off      bool
	// queues is how many it has; dead are those on which frames are lost, and out those that are
	// left out.
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
	h.port = NewPort(h)
	h.queues, h.out = 4, map[int]bool{}
	c := Config{Self: Said{Card: card, Incarnation: s.random.Uint32() | 1, Frames: 3, Cluster: "one",
		Host: fmt.Sprintf("host-%d", number)}, Discover: true,
		Ports: []*Port{h.port}, Addresses: [][6]byte{h.mac}}
	c.Seed[0], c.Seed[1] = number, byte(s.random.Uint32())
	if change != nil {
		change(&c)
	}
	h.Station = New(c)
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
			next = min(next, h.Due)
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
				h.Step(s.now)
			}
			if h.Due <= s.now {
				if h.Step(s.now); h.Due <= s.now {
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

// lines returns the new faults as text.
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

func (h *host) macString() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", h.mac[0], h.mac[1], h.mac[2], h.mac[3], h.mac[4], h.mac[5])
}

// forge sends a hello of a host that does not exist.
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
