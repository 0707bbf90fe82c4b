package paced

// This file tests the pacing port with a clock and a port of its own.

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
)

// plug is a port that keeps what is sent and lends what a test puts in.
type plug struct {
	sent   [][]byte
	flush  int
	full   bool
	buffer [256]byte
	in     [][]byte
	lent   int
}

func (p *plug) FrameSize() int { return len(p.buffer) }
func (p *plug) Receive(frames [][]byte) int {
	p.lent = copy(frames, p.in)
	return p.lent
}
func (p *plug) Release() { p.in, p.lent = p.in[p.lent:], 0 }
func (p *plug) Reserve() []byte {
	if p.full {
		return nil
	}
	return p.buffer[:]
}
func (p *plug) Commit(n int) { p.sent = append(p.sent, append([]byte(nil), p.buffer[:n]...)) }
func (p *plug) Flush()       { p.flush++ }

// frame makes a frame of a level with one packet of the given number of words, header included.
func frame(l arctic.Level, seq uint32, words int) []byte {
	return encode(arctic.Header{Level: l, Sequence: seq}, words)
}

// encode makes a frame with a header and one packet of the given number of words.
func encode(h arctic.Header, words int) []byte {
	b := make([]byte, arctic.HeaderSize+4*words)
	h.Encode(b)
	if words > 0 {
		arctic.PutPacket(b, arctic.HeaderSize, make([]byte, 4*words))
	}
	return b
}

// sequence is that of a frame.
func sequence(b []byte) uint32 {
	f, _ := arctic.Peek(b)
	return f.Sequence()
}

// send commits a frame and reports whether there was room for it.
func send(p *Port, b []byte) bool {
	to := p.Reserve()
	if to == nil {
		return false
	}
	p.Commit(copy(to, b))
	return true
}

// sequences returns the sequence numbers of the frames that left.
func (p *plug) sequences() (s []uint32) {
	for _, b := range p.sent {
		s = append(s, sequence(b))
	}
	return s
}

// Rule: a link carries one frame at a time, for as long as its packets' words take (thesis
// 6.1.4), from when it was committed or the link is idle.
func TestLinkSerialises(t *testing.T) {
	in := new(plug)
	p := New(in, Config{Word: 40})
	p.Advance(1000, 1000)
	for i := range 3 {
		send(p, frame(arctic.Request, uint32(i), 10))
	}
	p.Flush()
	for i, at := range []int64{1400, 1800} {
		if got := len(in.sent); got != i+1 {
			t.Fatalf("%d frames left before %d", got, at)
		}
		if got := p.Next(); got != at {
			t.Fatalf("the next frame leaves at %d, want %d", got, at)
		}
		p.Advance(at-1, at)
		if got := len(in.sent); got != i+1 {
			t.Fatalf("%d frames left before %d", got, at)
		}
		p.Advance(at, at)
	}
	if got := len(in.sent); got != 3 || p.Next() != never {
		t.Fatalf("%d frames left, the next at %d", got, p.Next())
	}
	// The link is idle from 2200 on: what comes later leaves at once.
	p.Advance(5000, 5000)
	send(p, frame(arctic.Request, 3, 10))
	p.Flush()
	if got := len(in.sent); got != 4 {
		t.Fatalf("an idle link did not take a frame")
	}
	if in.flush != 0 {
		t.Error("frames were sent before Send")
	}
	if p.Send(); in.flush != 1 {
		t.Error("Send did not send")
	}
}

// Rule: replies, and frames of acknowledgments only, leave before requests that wait
// (thesis 5.6.1), each kind in its order.
func TestHighPriorityFirst(t *testing.T) {
	in := new(plug)
	p := New(in, Config{Word: 40})
	for i, b := range [][]byte{frame(arctic.Request, 0, 5), frame(arctic.Request, 1, 5), frame(arctic.Reply, 2, 5),
		frame(arctic.Request, 3, 0), frame(arctic.Reply, 4, 5)} {
		if send(p, b); i == 0 {
			p.Flush() // it has left
		}
	}
	p.Advance(1<<40, 0)
	for p.Next() != never {
		p.Advance(p.Next(), 0)
	}
	p.Drain()
	want := []uint32{0, 2, 3, 4, 1}
	got := in.sequences()
	if len(got) != len(want) {
		t.Fatalf("%v left, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%v left, want %v", got, want)
		}
	}
}

// Rule: the queue of the link is bounded, and says so; what the port inside does not take
// goes on waiting.
func TestBounded(t *testing.T) {
	in := &plug{full: true}
	p := New(in, Config{Word: 40})
	n := 0
	for send(p, frame(arctic.Request, uint32(n), 5)) {
		n++
	}
	if n != Waiting {
		t.Fatalf("%d frames wait, want %d", n, Waiting)
	}
	p.Advance(1<<30, 0)
	if len(in.sent) != 0 || p.Next() > 1<<30 {
		t.Fatalf("%d frames left, the next at %d", len(in.sent), p.Next())
	}
	in.full = false
	p.Drain()
	if len(in.sent) != Waiting || p.Reserve() == nil {
		t.Fatalf("%d frames left of %d", len(in.sent), Waiting)
	}
}

// receive lends everything that has arrived and takes it back.
func receive(p *Port) int {
	var frames [Held][]byte
	p.Release()
	n := p.Receive(frames[:])
	p.Release()
	return n
}

// Rule: a frame arrives no sooner than the model has it: the latency of its head and the time of
// its words, less what the wire takes itself; and earlier than it was received by Back at most.
func TestArrival(t *testing.T) {
	for _, c := range []struct {
		latency, wire, back, want int64
	}{{520, 0, 0, 10_800}, {520, 500, 0, 10_300}, {520, 1000, 0, 10_000}, {520, 1000, 1000, 9800},
		{520, 5000, 1360, 8640}, {1_000_000, 1000, 0, 1_009_280}} {
		in := new(plug)
		p := New(in, Config{Word: 40, Latency: time.Duration(c.latency), Wire: time.Duration(c.wire),
			Back: time.Duration(c.back)})
		in.in = [][]byte{frame(arctic.Request, 0, 7)}
		p.Pull(10_000, 10_000)
		if got := p.Next(); got != c.want {
			t.Errorf("%+v: it arrives at %d", c, got)
		}
		p.Advance(c.want-1, 0)
		if n := receive(p); n != 0 {
			t.Errorf("%+v: it was received too early", c)
		}
		p.Advance(c.want, 0)
		if n := receive(p); n != 1 {
			t.Errorf("%+v: it was not received", c)
		}
	}
}

// Rule: frames keep their order, whatever their lengths, none is lost or lent twice, and no
// more than Held are kept back: the others stay with the port inside.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := new(plug)
		p := New(in, Config{Word: 40, Latency: 520, Wire: 100, Back: 50})
		put, got, now := uint32(0), uint32(0), int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "moments") {
			for range rapid.IntRange(0, 40).Draw(t, "frames") {
				in.in = append(in.in, frame(arctic.Request, put, rapid.IntRange(1, 24).Draw(t, "words")))
				put++
			}
			now += rapid.Int64Range(0, 3000).Draw(t, "time")
			p.Pull(now, now)
			p.Advance(now, now)
			var frames [16][]byte
			for _, b := range frames[:p.Receive(frames[:])] {
				if s := sequence(b); s != got {
					t.Fatalf("frame %d came instead of %d", s, got)
				}
				got++
			}
			p.Release()
			if p.held > Held || uint32(len(in.in)+p.held) != put-got {
				t.Fatalf("%d are held, %d inside, of %d", p.held, len(in.in), put-got)
			}
		}
	})
}

// Rule: the wire is the median of half the time from a frame to its acknowledgment; a frame
// that is sent again, or is not answered, is not measured.
func TestMeasure(t *testing.T) {
	in := new(plug)
	p := New(in, Config{Latency: 520, Word: 40, Back: 200})
	now, seq := int64(0), uint32(0)
	exchange := func(took int64, again bool) {
		now += 100_000
		p.Advance(now, now)
		send(p, frame(arctic.Reply, seq, 8))
		p.Flush()
		if again {
			send(p, frame(arctic.Reply, seq, 8))
			p.Flush()
			p.Drain()
		}
		seq++
		b := encode(arctic.Header{Acks: [arctic.Levels]uint32{arctic.Reply: seq}}, 0)
		in.in = append(in.in, b)
		now += took
		p.Pull(now, now)
		p.Advance(now+1000, now)
		receive(p)
	}
	if way, _ := p.Wire(); way != 0 {
		t.Fatalf("%v was measured on a wire that carried nothing", way)
	}
	exchange(9000, true)
	if way, _ := p.Wire(); way != 0 {
		t.Fatalf("%v was measured of a frame that was sent twice", way)
	}
	exchange(4000, false)
	if way, excess := p.Wire(); way != 2000 || excess != 2000-(520+arctic.PacketHeaderSize/4*40)-200 {
		t.Errorf("the wire takes %v, %v too long", way, excess)
	}
	for i := range 1000 {
		exchange([]int64{2500, 3000, 50_000}[i%3], false)
	}
	if way, _ := p.Wire(); way < 1480 || way > 1520 {
		t.Errorf("the wire takes %v, want the median of 1.25, 1.5 and 25 us", way)
	}
}

// Rule: frames that make no sense do not panic, and one that is too long is dropped.
func TestHostile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := new(plug)
		p := New(in, Config{Word: 40, Latency: 520})
		send(p, frame(arctic.Request, 1, 3))
		p.Flush()
		b := make([]byte, rapid.SampledFrom([]int{0, 1, 14, 47, 60, 255, 256, 257, 300}).Draw(t, "bytes"))
		for i := range b {
			b[i] = rapid.Byte().Draw(t, "byte")
		}
		in.in = append(in.in, b)
		p.Pull(0, 10)
		p.Advance(1<<20, 1<<20)
		if n := receive(p); n != map[bool]int{true: 1}[len(b) <= in.FrameSize()] {
			t.Fatalf("%d of a frame of %d bytes", n, len(b))
		}
	})
}

// Rule: nothing is allocated on the way of a frame.
func TestNoAllocation(t *testing.T) {
	in := new(quiet)
	p := New(in, Config{Word: 40, Latency: 520})
	b := frame(arctic.Request, 1, 8)
	var frames [Held][]byte
	now := int64(0)
	if n := testing.AllocsPerRun(100, func() {
		now += 10_000
		send(p, b)
		in.frame = b
		p.Pull(now, now)
		p.Advance(now+5000, now)
		p.Flush()
		p.Send()
		if p.Receive(frames[:]) != 1 {
			t.Fatal("nothing arrived")
		}
		p.Release()
	}); n != 0 {
		t.Errorf("%v allocations for each frame", n)
	}
}

// quiet is a port that allocates nothing.
type quiet struct {
	plug
	frame []byte
}

func (q *quiet) Commit(int) {}
func (q *quiet) Receive(frames [][]byte) int {
	if q.frame == nil {
		return 0
	}
	frames[0] = q.frame
	return 1
}
func (q *quiet) Release() { q.frame = nil }

// Rule: a card that works on a frame is not told again and again of the next, which has arrived
// meanwhile: it would be stepped for ever at one time. It is told of each once, and takes the next
// when it is free.
func TestBusyCardIsToldOnce(t *testing.T) {
	in := new(plug)
	p := New(in, Config{Wire: 1})
	for i := range 3 {
		in.in = append(in.in, frame(arctic.Request, uint32(i), 10))
	}
	p.Advance(1000, 1000)
	p.Pull(1000, 1000)
	if next := p.Next(); next > 1000 {
		t.Fatalf("three frames have arrived, and the card is told to look at %d", next)
	}
	var one [1][]byte
	p.Advance(1000, 1000)
	if n := p.Receive(one[:]); n != 1 {
		t.Fatalf("%d frames", n)
	}
	if next := p.Next(); next != never {
		t.Errorf("a card that works on the first is told to look at %d", next)
	}
	for i := range 3 {
		if got := sequence(one[0]); got != uint32(i) {
			t.Errorf("frame %d came instead of %d", got, i)
		}
		p.Release()
		if n := p.Receive(one[:]); n != 1 && i < 2 {
			t.Fatalf("%d frames when the card is free", n)
		}
	}
	in.in = append(in.in, frame(arctic.Request, 3, 10))
	p.Pull(1100, 1100)
	if next := p.Next(); next > 1100 {
		t.Errorf("the card is told of a new frame at %d", next)
	}
}
