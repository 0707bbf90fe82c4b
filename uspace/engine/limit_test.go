package engine_test

// This file holds the rules of ways that carry less than the port sends (link/limit.go; RFC 4821, RFC 8899).

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
)

// narrowBed is two cards whose frames get lost without a word when they are longer than the way of the card that sends them.
type narrowBed struct {
	*bed
	memory []memory
	ways   [2]int // bytes of a frame
	longer int    // frames that got lost
	last   [2]int // the longest of each card since it was set to 0, without what it was filled up with
}

func newNarrowBed(t testing.TB, net wire.Config, tune func(*engine.Config)) *narrowBed {
	n := &narrowBed{ways: [2]int{1 << 17, 1 << 17}}
	n.bed, n.memory = transferBed(t, setup{cards: 2, slots: 64, net: net, tune: tune,
		wrap: func(card int, p *wire.Port) port.Port {
			return &tap{Port: p, see: func(b []byte) bool {
				f, err := arctic.Parse(b)
				if err != nil {
					t.Fatal(err)
				}
				n.last[card] = max(n.last[card], len(f))
				if len(b) > n.ways[card] {
					n.longer++
				}
				return len(b) <= n.ways[card]
			}}
		}})
	return n
}

// transfer moves an area from one node to the other's, checks what arrived, and makes other data of it.
func (n *narrowBed) transfer(from int, argument uint32) {
	n.t.Helper()
	to := 1 - from
	clear(n.memory[to].area)
	if !request(n.proc[from], funi.Request, to, funi.Transfer{Source: area, Destination: area, Argument: argument, Words: areaSize / 4}) {
		n.t.Fatal("the send queue is full")
	}
	s := n.receives(to, funi.Request)
	notice(n.t, &s, from, to, true, funi.Notice{Address: area, Argument: argument, Words: areaSize / 4})
	if !bytes.Equal(n.memory[0].area, n.memory[1].area) {
		n.t.Fatal("other data arrived than was sent")
	}
	fill(n.memory[from].area, argument*7+3)
}

// Rule: messages and blocks arrive once and whole while what the ways carry changes at any time and to any length that FUNet
// works with, in each direction, with or without a word to the cards, true or not.
func TestWaysThatChange(t *testing.T) {
	voids := uint64(0)
	for seed := range uint64(40) {
		x := rand.New(rand.NewPCG(seed, 1))
		net := wire.Config{Seed: seed, Delay: 10 * time.Microsecond, MTU: []int{1500, 9000, 65535}[seed%3]}
		if seed%2 == 1 {
			net.Faults = networks["all"]
		}
		n := newNarrowBed(t, net, func(c *engine.Config) {
			c.RaiseAfter, c.MaxRTO = time.Duration(1+x.IntN(20))*time.Millisecond, 20*time.Millisecond
			if seed%5 == 0 {
				c.Lines, c.ReplyLines = 8, 2
			}
		})
		tr := newTraffic(n.bed, 3000, 21)
		change, sent, noticed := int64(0), [2]uint32{}, [2]uint32{}
		const transfers = 20
		reset := [2]bool{true, true}
		n.until(20*time.Second, "all arrives", func() bool {
			if n.now >= change {
				change = n.now + x.Int64N(int64(4*time.Millisecond))
				card := x.IntN(2)
				n.ways[card] = 688 + x.IntN(10000)
				if n.alarm = change; x.IntN(3) > 0 {
					n.cards[card].SetLimit(uint16(1-card), []int{n.ways[card], x.IntN(12000)}[x.IntN(2)])
					n.wake[card] = n.now
				}
			}
			done := true
			for from := range 2 {
				to := 1 - from
				if reset[from] && sent[from] < transfers {
					// Half of an area goes one way and half the other.
					if request(n.proc[from], funi.Reply, to, funi.Transfer{Source: area + uint32(from)*areaSize/2, Destination: area + uint32(from)*areaSize/2,
						Argument: sent[from], Words: areaSize / 8}) {
						sent[from]++
						reset[from] = false
					}
				}
				done = done && noticed[from] == transfers
			}
			for node, p := range n.proc {
				for l := range funi.Level(2) {
					for s, ok := take(p, l); ok; s, ok = take(p, l) {
						if !s.Header().Transfer() {
							tr.delivered(node, l, &s)
							continue
						}
						from := 1 - node
						a, b := from*areaSize/2, (from+1)*areaSize/2
						if s.Notice().Argument != noticed[from] || !bytes.Equal(n.memory[node].area[a:b], n.memory[from].area[a:b]) {
							t.Fatalf("seed %d: transfer %d arrived as %+v, or with other data", seed, noticed[from], s.Notice())
						}
						noticed[from]++
						reset[from] = true
						fill(n.memory[from].area[a:b], uint32(n.now))
					}
				}
			}
			return tr.pump() && done
		})
		n.alarm = 0
		n.idle(20 * time.Second)
		n.checked()
		for _, c := range n.cards {
			voids += c.Counters().TooLong
		}
	}
	if voids < 300 {
		t.Errorf("%d frames were too long: nothing was tested", voids)
	}
}

// Rule: a way that becomes narrow without a word while its window is full of long frames is found out, and carries all, long before
// peers count as silent; and when it is wide again, frames become as long as before.
func TestNarrowWayIsFoundOut(t *testing.T) {
	n := newNarrowBed(t, wire.Config{Delay: 10 * time.Microsecond, MTU: 9000}, nil)
	n.transfer(0, 1)
	whole := n.cards[0].Limit(1)
	for _, way := range []int{1514, 9014, 700, 1514} {
		n.ways[0], n.ways[1] = way, way
		before := n.now
		n.transfer(0, uint32(way))
		n.transfer(1, uint32(way)+1)
		if took := time.Duration(n.now - before); took > time.Second {
			t.Errorf("a way of %d bytes: two transfers took %v", way, took)
		}
		n.idle(time.Second)
		n.pass(2 * engine.Native().RaiseAfter)
		for i := range uint32(20) { // each frame tries one length
			n.transfer(0, i)
		}
		got := n.cards[0].Limit(1)
		for n.longer = 0; n.longer == 0 && got != whole; { // until the next length has been tried in vain
			n.pass(engine.Native().RaiseAfter)
			n.transfer(0, 7)
		}
		switch {
		case way >= whole && got != whole:
			t.Errorf("a way of %d bytes: frames have at most %d", way, got)
		case way < whole && (got > way || got < min(way, 1514)*2/3):
			t.Errorf("a way of %d bytes: frames have at most %d", way, got)
		}
		if lost := n.cards[0].Counters().PeersLost + n.cards[0].Counters().Returned; lost != 0 {
			t.Fatalf("a way of %d bytes: %d peers lost or packets returned", way, lost)
		}
	}
}

// Rule: what somebody says about a way makes no frame longer than he said, but those filled up to find out whether he is
// right, and none shorter than every path takes; blocks are made to fill them.
func TestSetLimit(t *testing.T) {
	n := newNarrowBed(t, wire.Config{Delay: 10 * time.Microsecond, MTU: 9000}, nil)
	const least = arctic.EthernetSize + arctic.MinMTU
	n.transfer(0, 1)
	for _, c := range []struct{ said, want int }{{3000, 3000}, {least, least}, {0, least}, {-5, least}, {1466, 1466}, {20000, 9014}} {
		n.cards[0].SetLimit(1, c.said)
		n.step(n.now)
		if got := n.cards[0].Limit(1); got != c.want {
			t.Fatalf("told %d bytes, frames have at most %d, want %d", c.said, got, c.want)
		}
		n.last[0] = 0
		sent := n.cards[0].Counters().FramesSent
		n.transfer(0, 2)
		if n.last[0] > c.want || n.last[0] < c.want-2*arctic.TransferAlign {
			t.Errorf("told %d bytes, the longest frame had %d", c.said, n.last[0])
		}
		block := arctic.MaxBlock(c.want)
		if most := uint64(areaSize/block + 8); n.cards[0].Counters().FramesSent-sent > most {
			t.Errorf("told %d bytes, a transfer took %d frames, want at most %d", c.said, n.cards[0].Counters().FramesSent-sent, most)
		}
	}
	n.cards[0].SetLimit(0, 5)
	n.cards[0].SetLimit(77, 5) // nobody
	if n.cards[0].Limit(77) != 0 || n.cards[1].Limit(0) != 9014 {
		t.Error("a limit of one peer is another's")
	}
}

// Rule: a forged word that a way is narrow costs some of the frames' length for a while and nothing else.
func TestForgedLimit(t *testing.T) {
	n := newNarrowBed(t, wire.Config{Delay: 10 * time.Microsecond}, nil)
	n.transfer(0, 1)
	n.cards[0].SetLimit(1, 68) // RFC 791's least
	n.transfer(0, 2)
	n.pass(engine.Native().RaiseAfter + time.Second)
	for i := range uint32(4) {
		n.transfer(0, i)
	}
	if got := n.cards[0].Limit(1); got != 1514 {
		t.Errorf("frames have at most %d bytes for ever", got)
	}
	if c := n.cards[0].Counters(); c.Timeouts+c.Retransmitted != 0 {
		t.Errorf("%d timeouts, %d frames sent again", c.Timeouts, c.Retransmitted)
	}
}

// Rule: what a probe is filled up with is zeros and nobody's data.
func TestProbesAreFilledWithZeros(t *testing.T) {
	probes := 0
	var last []byte // of the buffer
	b, _ := transferBed(t, setup{cards: 2, slots: 16, net: near, wrap: func(_ int, p *wire.Port) port.Port {
		return &tap{Port: p, see: func(b []byte) bool {
			f, err := arctic.Parse(b)
			if err != nil {
				t.Fatal(err)
			}
			if len(f) < len(b) {
				probes++
				if !bytes.Equal(b[len(f):], make([]byte, len(b)-len(f))) {
					t.Fatalf("a frame of %d bytes, filled up to %d, is followed by data", len(f), len(b))
				}
			}
			last = b[:cap(b)]
			for i := range last[len(b):] { // what an earlier frame left there
				last[len(b)+i] = 0xaa
			}
			return true
		}}
	}})
	b.mustSend(0, funi.Request, 1, 1)
	b.receives(1, funi.Request)
	b.cards[0].SetLimit(1, 700)
	b.pass(engine.Native().RaiseAfter)
	for range 5 {
		b.mustSend(0, funi.Request, 1, 1)
		b.receives(1, funi.Request)
		b.idle(time.Second)
	}
	if probes < 4 {
		t.Errorf("%d probes", probes)
	}
}
