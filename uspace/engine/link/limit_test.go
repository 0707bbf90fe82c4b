package link_test

// This file holds the rules of ways that carry less than the port sends (limit.go; RFC 4821, RFC
// 8899).

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
	"github.com/funet/funet/uspace/port"
)

// least is the longest frame that every path takes.
const least = arctic.EthernetSize + arctic.MinMTU

// narrowBed is two cards whose frames get lost without a word when they are longer than the way of
// the card that sends them.
type narrowBed struct {
	*bed
	ways    [2]int // bytes of a frame
	lost    int    // frames that were longer
	longest [2]int // of each card since it was set to 0, without what it was filled up with
}

func newNarrowBed(t testing.TB, net wire.Config, tune func(*link.Config)) *narrowBed {
	n := &narrowBed{ways: [2]int{1 << 17, 1 << 17}}
	n.bed = newBed(t, setup{cards: 2, net: net, tune: tune, wrap: func(card int, p *wire.Port) port.Port {
		return &tap{Port: p, see: func(b []byte) bool {
			f, err := arctic.Parse(b)
			if err != nil {
				t.Fatal(err)
			}
			n.longest[card] = max(n.longest[card], len(f))
			if len(b) > n.ways[card] {
				n.lost++
			}
			return len(b) <= n.ways[card]
		}}
	}})
	return n
}

// transfer sends a long block, and waits until it is delivered.
func (n *narrowBed) transfer(from int) {
	n.t.Helper()
	for range 4 {
		n.put(n.own[from], 1-from, uint16(1-from), arctic.Request, 0, pattern(48<<10, len(n.messages)))
	}
	n.idle(10 * time.Second)
}

// Rule (limit.go): messages and blocks are delivered once and whole while the length that a way
// carries changes at any time. It changes in each direction, to any length that FUNet works with.
// The cards are told of the change or not, and what they are told is true or not.
func TestWaysThatChange(t *testing.T) {
	voids := uint64(0)
	for seed := range uint64(15) {
		x := rand.New(rand.NewPCG(seed, 1))
		net := wire.Config{Seed: seed, Delay: 10 * time.Microsecond, MTU: []int{1500, 9000, 65535}[seed%3]}
		if seed%2 == 1 {
			net.Faults = networks["all"]
		}
		n := newNarrowBed(t, net, func(c *link.Config) {
			c.RaiseAfter, c.MaxRTO = time.Duration(1+x.IntN(20))*time.Millisecond, 20*time.Millisecond
			if seed%5 == 0 {
				c.Lines = 8
			}
		})
		n.judge = someRejected(x, 50, 0)
		tr := newTraffic(n.bed, 150)
		tr.block, tr.words = 6<<10, 21
		change := int64(0)
		n.until(time.Minute, "all arrives", func() bool {
			if n.now >= change {
				change = n.now + x.Int64N(int64(4*time.Millisecond))
				card := x.IntN(2)
				n.ways[card] = least + x.IntN(10000)
				if n.alarm = change; x.IntN(3) > 0 {
					n.cards[card].SetLimit(uint16(1-card), []int{n.ways[card], x.IntN(12000)}[x.IntN(2)])
					n.touched = true
				}
			}
			return tr.pump()
		})
		n.alarm = 0
		if got, _ := tr.totals(); got != 4*150 {
			t.Errorf("seed %d: %d delivered", seed, got)
		}
		n.checked()
		for _, c := range n.cards {
			voids += c.Counters.TooLong
		}
	}
	if voids < 50 {
		t.Errorf("%d frames were too long: nothing was tested", voids)
	}
}

// Rule (limit.go): a card finds out that a way has become narrow without a word while the card's
// window is full of long frames. The way then carries everything, long before peers count as
// silent. When the way is wide again, frames become as long as before.
func TestNarrowWayIsFoundOut(t *testing.T) {
	n := newNarrowBed(t, wire.Config{Delay: 10 * time.Microsecond, MTU: 9000}, nil)
	n.transfer(0)
	whole := n.cards[0].Limit(1)
	for _, way := range []int{1514, 9014, 700, 1514} {
		n.ways[0], n.ways[1] = way, way
		before := n.now
		n.transfer(0)
		n.transfer(1)
		if took := time.Duration(n.now - before); took > time.Second {
			t.Errorf("a way of %d bytes: two transfers took %v", way, took)
		}
		n.pass(2 * native().RaiseAfter)
		for range 20 { // each frame tries one length
			n.transfer(0)
		}
		got := n.cards[0].Limit(1)
		// until the next length has been tried in vain
		for n.lost = 0; n.lost == 0 && got != whole; {
			n.pass(native().RaiseAfter)
			n.transfer(0)
		}
		switch {
		case way >= whole && got != whole:
			t.Errorf("a way of %d bytes: frames have at most %d", way, got)
		case way < whole && (got > way || got < min(way, 1514)*2/3):
			t.Errorf("a way of %d bytes: frames have at most %d", way, got)
		}
		if n.cards[0].Counters.PeersLost != 0 {
			t.Fatalf("a way of %d bytes: the peer was lost", way)
		}
	}
}

// Rule (SetLimit): what somebody says about a way makes no frame longer than he said, but those
// filled up to find out whether he is right, and none shorter than every path takes.
func TestSetLimit(t *testing.T) {
	n := newNarrowBed(t, wire.Config{Delay: 10 * time.Microsecond, MTU: 9000}, nil)
	n.transfer(0)
	for _, c := range []struct{ said, want int }{{3000, 3000}, {least, least}, {0, least}, {-5, least}, {1466, 1466},
		{20000, 9014}} {
		n.pass(time.Second)
		n.cards[0].SetLimit(1, c.said)
		n.touched = true
		n.step(n.now)
		if got, to := n.cards[0].Limit(1), n.cards[0].SizeTo(1); got != c.want || to != c.want {
			t.Fatalf("told %d bytes, frames have at most %d or %d, want %d", c.said, got, to, c.want)
		}
		n.longest[0] = 0
		n.put(n.own[0], 1, 1, arctic.Request, 0, pattern(48<<10, 1))
		n.step(n.now) // one frame leaves; when it has arrived the next may be longer
		if n.longest[0] > c.want || n.longest[0] < c.want-2*arctic.TransferAlign {
			t.Errorf("told %d bytes, the longest frame had %d", c.said, n.longest[0])
		}
		n.idle(time.Second)
	}
	n.cards[0].SetLimit(0, 5)
	n.cards[0].SetLimit(77, 5) // nobody
	if n.cards[0].Limit(77) != 0 || n.cards[1].Limit(0) != 9014 {
		t.Error("a limit of one peer is another's")
	}
}

// Rule (limit.go): a forged word that a way is narrow costs some of the frames' length for a while
// and nothing else.
func TestForgedLimit(t *testing.T) {
	n := newNarrowBed(t, near, nil)
	n.transfer(0)
	n.cards[0].SetLimit(1, 68) // RFC 791's least
	n.transfer(0)
	n.pass(native().RaiseAfter + time.Second)
	for range 4 {
		n.transfer(0)
	}
	if got := n.cards[0].Limit(1); got != 1514 {
		t.Errorf("frames have at most %d bytes for ever", got)
	}
	if c := n.cards[0].Counters; c.Timeouts+c.Retransmitted != 0 {
		t.Errorf("%d timeouts, %d frames sent again", c.Timeouts, c.Retransmitted)
	}
}

// Rule (doc.go): what a frame carries is settled when it is first sent. If it has become too long
// its number is answered before its packets go elsewhere: a receiver that has had it answers as it
// did, and one that has not will take that number no more.
func TestFrameThatHasBecomeTooLong(t *testing.T) {
	for _, had := range []bool{false, true} {
		var frames []arctic.Frame
		lose := func(int, arctic.Frame) bool { return false }
		b := newBed(t, setup{cards: 2, net: wire.Config{Delay: 10 * time.Microsecond, MTU: 9000},
			wrap: tapped(func(card int, f arctic.Frame) bool {
				if card == 0 && f.Packets() > 0 {
					frames = append(frames, bytes.Clone(f))
				}
				return !lose(card, f)
			})})
		exactlyOnce(b, newTraffic(b, 5))
		frames = nil
		lose = func(card int, f arctic.Frame) bool { return (card == 1) == had }
		var sent []*message
		for range 60 {
			sent = append(sent, b.put(b.own[0], 1, 1, arctic.Request, arctic.MaxPayloadWords, nil))
		}
		b.pass(time.Millisecond)
		if len(frames) != 1 || len(frames[0]) < 5000 || (sent[0].at != 0) != had {
			t.Fatalf("%d frames left, the first arrived: %v", len(frames), sent[0].at != 0)
		}
		long := frames[0]
		b.cards[0].SetLimit(1, 1514)
		b.touched = true
		b.pass(10 * time.Microsecond)
		lose = func(int, arctic.Frame) bool { return false }
		b.idle(time.Second)
		numbers := map[uint32]int{}
		for _, f := range frames[1:] {
			if len(f) > 1514 {
				t.Errorf("a frame of %d bytes left", len(f))
			}
			numbers[f.Header().Sequence] += f.Packets()
		}
		if again := len(numbers) > 1; again == had || numbers[long.Header().Sequence] == 0 {
			t.Errorf("had it: %v; then frames left with these numbers of packets: %v", had, numbers)
		}
		b.inject(long) // the bed fails if it is taken
		b.pass(time.Millisecond)
	}
}

// shrinking is a port whose frames may become shorter.
type shrinking struct {
	port.Port
	size int
}

func (p *shrinking) FrameSize() int { return min(p.size, p.Port.FrameSize()) }
func (p *shrinking) Reserve() []byte {
	b := p.Port.Reserve()
	return b[:min(p.size, len(b))]
}

// Rule (limit.go): frames become shorter when the port lends shorter buffers than before, and
// longer again; nothing is lost or comes twice.
func TestPortLendsShorterBuffers(t *testing.T) {
	var ports []*shrinking
	b := newBed(t, setup{cards: 2, net: wire.Config{Delay: 10 * time.Microsecond, MTU: 9000, Faults: networks["all"]},
		wrap: func(_ int, p *wire.Port) port.Port {
			ports = append(ports, &shrinking{p, 1 << 17})
			return ports[len(ports)-1]
		}})
	x := rand.New(rand.NewPCG(1, 2))
	tr := newTraffic(b, 300)
	tr.block = 8 << 10
	b.until(time.Minute, "all arrives", func() bool {
		if x.IntN(20) == 0 {
			ports[x.IntN(2)].size = least + x.IntN(9000)
		}
		return tr.pump()
	})
	exactlyOnce(b, tr)
	if b.cards[0].Counters.TooLong == 0 {
		t.Error("no frame had become too long")
	}
}

// Rule (limit.go): what a probe is filled up with is zeros and nobody's data.
func TestProbesAreFilledWithZeros(t *testing.T) {
	probes := 0
	b := newBed(t, setup{cards: 2, net: near, wrap: func(_ int, p *wire.Port) port.Port {
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
			rest := b[len(b):cap(b)]
			for i := range rest { // what an earlier frame left there
				rest[i] = 0xaa
			}
			return true
		}}
	}})
	b.arrives(time.Second, b.send(0, arctic.Request, 1))
	b.cards[0].SetLimit(1, 700)
	b.pass(native().RaiseAfter)
	for range 5 {
		b.arrives(time.Second, b.send(0, arctic.Request, 1))
	}
	if probes < 4 {
		t.Errorf("%d probes", probes)
	}
}
