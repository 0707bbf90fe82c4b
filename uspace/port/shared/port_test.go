package shared_test

// This file tests the port: which way frames go, what of a neighbour's is believed, and that sleep
// loses nothing.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/port/shared"
)

const (
	gid       = 5
	tag       = 0x1122334455667788
	frameSize = 1514
	patience  = 60 * time.Second
	// Where the reader's word of the lower node's ring lies, and the data (ring.go); the other ring
	// follows half of the memory later.
	readerAt = 0
	tailAt   = 64
	dataAt   = 4096
)

// inner is the port inside, whose other end is the test.
type inner struct {
	buffer  []byte
	sent    [][]byte
	arrived chan []byte
}

func newInner() *inner {
	return &inner{buffer: make([]byte, frameSize), arrived: make(chan []byte, 1024)}
}

func (i *inner) FrameSize() int  { return frameSize }
func (i *inner) Reserve() []byte { return i.buffer }
func (i *inner) Commit(n int)    { i.sent = append(i.sent, bytes.Clone(i.buffer[:n])) }
func (i *inner) Flush()          {}
func (i *inner) Release()        {}
func (i *inner) Receive(frames [][]byte) int {
	if len(frames) == 0 {
		return 0
	}
	select {
	case frames[0] = <-i.arrived:
		return 1
	default:
		return 0
	}
}

// end is a node's port.
type end struct {
	*shared.Port
	inner *inner
	node  uint16
	wants []uint16
}

// newEnd returns the port of a node of four.
func newEnd(node uint16) *end {
	e := &end{inner: newInner(), node: node}
	e.Port = shared.New(e.inner, shared.Config{Node: node, GID: gid, Tag: tag, Want: func(n uint16) bool {
		e.wants = append(e.wants, n)
		return true
	}})
	e.Neighbours([]uint16{0, 1, 2, 3})
	return e
}

// memory returns that of two neighbours.
func memory() []byte { return make([]byte, shared.Size) }

// join joins two ports.
func join(a, b *end) (m []byte) {
	m = memory()
	a.Join(b.node, shared.Memory{Bytes: m, Close: func() {}})
	b.Join(a.node, shared.Memory{Bytes: m, Close: func() {}})
	return m
}

// compose makes a right frame of n bytes.
func compose(b []byte, from, to uint16, n int, fill byte) {
	for i := arctic.HeaderSize; i < n; i++ {
		b[i] = fill
	}
	h := arctic.Header{Direct: true, GID: gid, Tag: tag, SourceCard: from, DestinationCard: to}
	h.Encode(b)
	arctic.Seal(b, n)
}

// send sends a right frame of n bytes, and returns it.
func (e *end) send(to uint16, n int, fill byte) []byte {
	b := e.Reserve()
	compose(b, e.node, to, n, fill)
	e.Commit(n)
	return bytes.Clone(b[:n])
}

// take receives frames until there are none.
func (e *end) take() (all [][]byte) {
	var frames [8][]byte
	for {
		n := e.Receive(frames[:])
		if n == 0 {
			return all
		}
		for _, b := range frames[:n] {
			all = append(all, bytes.Clone(b))
		}
		e.Release()
	}
}

func word(m []byte, at int) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&m[at])) }

// Rule: frames go through memory to a neighbour that reads there, and by the port inside to
// everybody else.
func TestWays(t *testing.T) {
	a, b := newEnd(0), newEnd(1)
	for range 100 {
		a.send(1, 200, 1)
		a.send(9, 200, 1)
	}
	if len(a.inner.sent) != 200 || len(a.wants) != 1 || a.wants[0] != 1 {
		t.Fatalf("without memory %d frames went by the port inside, and memory was asked for with %v",
			len(a.inner.sent), a.wants)
	}
	m := memory()
	a.Join(1, shared.Memory{Bytes: m, Close: func() {}})
	a.send(1, 200, 2)
	if c := a.Counters(); c.Unread != 1 || c.Sent != 0 || len(a.inner.sent) != 201 {
		t.Fatalf("nobody reads: %+v, %d frames by the port inside", c, len(a.inner.sent))
	}
	b.Join(0, shared.Memory{Bytes: m, Close: func() {}})
	var want [][]byte
	for i := range 2000 { // several laps
		f := a.send(1, arctic.HeaderSize+i%1400, byte(i))
		if want = append(want, f); i%50 == 49 {
			got := b.take()
			if len(got) != len(want) {
				t.Fatalf("%d of %d frames came", len(got), len(want))
			}
			for k := range got {
				if !bytes.Equal(got[k], want[k]) {
					t.Fatalf("frame %d of %d bytes is another, of %d", k, len(want[k]), len(got[k]))
				}
			}
			want = nil
		}
	}
	if c := a.Counters(); c.Sent != 2000 || c.Full != 0 || len(a.inner.sent) != 201 {
		t.Errorf("%+v, %d frames by the port inside", c, len(a.inner.sent))
	}
	if c := b.Counters(); c.Received != 2000 {
		t.Errorf("%+v", c)
	}
	b.inner.arrived <- []byte("from elsewhere")
	a.send(1, 100, 0)
	if got := b.take(); len(got) != 2 {
		t.Errorf("of both ways %d frames came", len(got))
	}
	a.Depart()
	a.send(1, 100, 0)
	if len(a.inner.sent) != 202 {
		t.Error("what is sent last does not go by the port inside")
	}
}

// Rule: a ring is bounded; what it has no room for goes by the port inside, and it has room again
// when the reader has taken some.
func TestFull(t *testing.T) {
	a, b := newEnd(2), newEnd(1)
	join(a, b)
	for range 1000 {
		a.send(1, 1500, 0)
	}
	c := a.Counters()
	if c.Sent < 100 || c.Full == 0 || c.Sent+c.Full != 1000 || len(a.inner.sent) != int(c.Full) {
		t.Fatalf("%+v, %d frames by the port inside", c, len(a.inner.sent))
	}
	if got := b.take(); len(got) != int(c.Sent) {
		t.Fatalf("%d of %d frames came", len(got), c.Sent)
	}
	a.send(1, 1500, 0)
	if len(b.take()) != 1 {
		t.Error("there is no room again")
	}
}

// Rule: neighbours of a port take turns, and the port inside is not kept waiting by them.
func TestTurns(t *testing.T) {
	a, b, c := newEnd(0), newEnd(1), newEnd(2)
	join(a, c)
	join(b, c)
	var from [3]int
	var one [1][]byte
	for range 300 {
		a.send(2, 100, 0)
		b.send(2, 100, 0)
		select {
		case c.inner.arrived <- []byte("from elsewhere"):
		default:
		}
		if c.Receive(one[:]) == 1 {
			if len(one[0]) != 100 {
				from[2]++
			} else {
				from[binary.LittleEndian.Uint16(one[0][24:])]++
			}
		}
		c.Release()
	}
	if from[0] != 75 || from[1] != 75 || from[2] != 150 {
		t.Errorf("of 300 frames %v came from each", from)
	}
}

// Rule (guard.c): what a neighbour may not send is dropped and counted by reason, and the ring goes
// on.
func TestForged(t *testing.T) {
	a, b := newEnd(0), newEnd(1)
	join(a, b)
	u16 := func(at int, v uint16) func([]byte) {
		return func(f []byte) { binary.LittleEndian.PutUint16(f[at:], v) }
	}
	for _, c := range []struct {
		name    string
		change  func(f []byte)
		counted func(c *shared.Counters) *uint64
	}{
		{"another EtherType", func(f []byte) { f[12] = 8 }, func(c *shared.Counters) *uint64 { return &c.BadVersion }},
		{"the version of daemons", func(f []byte) { f[14] = arctic.Version }, func(c *shared.Counters) *uint64 {
			return &c.BadVersion
		}},
		{"shorter than it says", u16(16, 1400), func(c *shared.Counters) *uint64 { return &c.BadLength }},
		{"no length", u16(16, 0), func(c *shared.Counters) *uint64 { return &c.BadLength }},
		{"another group", u16(18, gid+1), func(c *shared.Counters) *uint64 { return &c.Forged }},
		{"another node's name", u16(24, 2), func(c *shared.Counters) *uint64 { return &c.Forged }},
		{"this node's name", u16(24, 1), func(c *shared.Counters) *uint64 { return &c.Forged }},
		{"another job", u16(68, 1), func(c *shared.Counters) *uint64 { return &c.Forged }},
	} {
		f := a.Reserve()
		compose(f, 0, 1, 100, 0)
		c.change(f)
		before := b.Counters()
		a.Commit(100)
		if got := b.take(); len(got) != 0 {
			t.Errorf("%s: it came", c.name)
		}
		after := b.Counters()
		*c.counted(&before)++
		if after != before {
			t.Errorf("%s: %+v, want %+v", c.name, after, before)
		}
	}
	// For another node: the port itself would send that elsewhere.
	m := memory()
	b.Join(2, shared.Memory{Bytes: m, Close: func() {}})
	compose(m[shared.Size/2+dataAt+8:], 2, 3, 100, 0)
	word(m, shared.Size/2+dataAt).Store(100)
	if got := b.take(); len(got) != 0 || b.Counters().Misrouted != 1 {
		t.Errorf("for another node: %d came, %+v", len(got), b.Counters())
	}
	a.send(1, 100, 7)
	if got := b.take(); len(got) != 1 {
		t.Errorf("then %d right ones came", len(got))
	}
}

// Rule: memory whose words contradict each other, or that was erased, is let go of, which the
// counters tell; frames go by the port inside, and other neighbours notice nothing. Memory is asked
// for again, more rarely each time.
func TestEnds(t *testing.T) {
	for _, c := range []struct {
		name   string
		writes func(m []byte) // as node 1 to node 0, or as whoever erases
		ended  uint64
		broken uint64
	}{
		{"erased", func(m []byte) { clear(m) }, 1, 0},
		{"a frame longer than frames are", func(m []byte) { word(m, shared.Size/2+dataAt).Store(frameSize + 1) }, 0, 1},
		{"a frame without a header", func(m []byte) {
			word(m, shared.Size/2+dataAt).Store(arctic.HeaderSize - 1)
		}, 0, 1},
		{"around at the beginning", func(m []byte) { word(m, shared.Size/2+dataAt).Store(^uint32(0)) }, 0, 1},
		{"more was taken than there was", func(m []byte) { word(m, tailAt).Store(1 << 20) }, 0, 1},
		{"another reads its ring", func(m []byte) { word(m, shared.Size/2+readerAt).Store(77) }, 0, 1},
	} {
		a, b, other := newEnd(0), newEnd(1), newEnd(2)
		m := join(a, b)
		join(a, other)
		c.writes(m)
		for range 300 { // the tail is looked at when the ring seems full
			a.send(1, 1500, 0)
		}
		if got := a.take(); len(got) != 0 {
			t.Errorf("%s: %d frames came", c.name, len(got))
		}
		a.Attend()
		if n := a.Counters(); n.Ended != c.ended || n.Broken != c.broken || a.Shared() != 1 {
			t.Errorf("%s: %+v, memory with %d", c.name, n, a.Shared())
		}
		wants, before := len(a.wants), len(a.inner.sent)
		for range 40 {
			a.send(1, 100, 0)
		}
		if len(a.wants) != wants+1 || len(a.inner.sent) != before+40 {
			t.Errorf("%s: it was asked for %d times more, and %d of 40 frames went by the port inside", c.name,
				len(a.wants)-wants, len(a.inner.sent)-before)
		}
		a.Refused(1)
		for range 40 {
			a.send(1, 100, 0)
		}
		if len(a.wants) != wants+1 {
			t.Errorf("%s: it is asked for as often as before", c.name)
		}
		if a.send(2, 100, 3); len(other.take()) != 1 {
			t.Errorf("%s: another neighbour gets nothing", c.name)
		}
	}
}

// Rule: memory serves once. A process that is given memory which it, or a process before it, has
// read already refuses it.
func TestMemoryServesOnce(t *testing.T) {
	a, b := newEnd(0), newEnd(1)
	m := join(a, b)
	closed := 0
	again := newEnd(1)
	again.Join(0, shared.Memory{Bytes: m, Close: func() { closed++ }})
	b.Join(0, shared.Memory{Bytes: memory(), Close: func() { closed++ }}) // it has some
	if closed != 2 || again.Shared() != 0 || again.Counters().Refused != 1 || b.Shared() != 1 {
		t.Errorf("closed %d times; %+v", closed, again.Counters())
	}
	b.Close()
	a.send(1, 100, 0)
	if len(a.inner.sent) != 1 || a.Counters().Unread != 1 {
		t.Errorf("a neighbour that has left is sent %d frames by the port inside: %+v", len(a.inner.sent), a.Counters())
	}
}

// Rule: who is about to sleep and has a frame does not sleep; who says that he sleeps is sent
// frames by the port inside, and reads on when he is awake.
func TestDoze(t *testing.T) {
	a, b := newEnd(0), newEnd(1)
	join(a, b)
	a.send(1, 100, 0)
	if b.Doze() {
		t.Error("it sleeps on a frame")
	}
	b.Wake()
	b.take()
	if !b.Doze() {
		t.Error("it does not sleep")
	}
	a.send(1, 100, 0)
	if c := a.Counters(); len(a.inner.sent) != 1 || c.Asleep != 1 || b.Ready() {
		t.Errorf("%d frames went by the port inside: %+v", len(a.inner.sent), c)
	}
	b.Attend() // the card runs again
	a.send(1, 100, 0)
	if len(b.take()) != 1 || b.Shared() != 1 {
		t.Error("it does not read again")
	}
}

// Rule (ring.go): no frame waits in a ring for a reader that sleeps. Two threads exchange frames,
// and each often sleeps when it has found nothing; a sleep ends only by the port inside.
func TestNoFrameWaitsForASleeper(t *testing.T) {
	const exchanges = 20_000
	a, b := newEnd(0), newEnd(1)
	join(a, b)
	until := time.Now().Add(patience)
	play := func(e, to *end, first bool) error {
		var frames [4][]byte
		random := rand.New(rand.NewPCG(1, uint64(e.node)))
		// numbers of this end's last exchanges, as a frame may come both ways
		seen := map[byte]bool{}
		send := func(i int) {
			e.send(to.node, 100, byte(i))
			for _, f := range e.inner.sent {
				to.inner.arrived <- f
			}
			e.inner.sent = nil
		}
		if first {
			send(0)
		}
		for i := 0; i < exchanges; {
			n := e.Receive(frames[:])
			for _, f := range frames[:n] {
				if k := f[99]; k == byte(i) && !seen[k] {
					seen[k] = true
					delete(seen, k-100)
					if first {
						i++
					}
					if i < exchanges {
						send(i)
					}
					if !first {
						i++
					}
				}
			}
			e.Release()
			// whoever takes turns with the other is about to be answered
			if n > 0 || random.IntN(8) > 0 {
				runtime.Gosched()
				continue
			}
			if !e.Doze() {
				e.Wake()
				continue
			}
			select {
			case f := <-e.inner.arrived:
				e.inner.arrived <- f // the next look takes it
			case <-time.After(time.Until(until)):
				if i < exchanges {
					return fmt.Errorf("node %d sleeps for ever in exchange %d: %+v", e.node, i, e.Counters())
				}
			}
			e.Wake()
		}
		return nil
	}
	done := make(chan error, 2)
	go func() { done <- play(a, b, true) }()
	go func() { done <- play(b, a, false) }()
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	c, d := a.Counters(), b.Counters()
	if c.Sent+d.Sent == 0 || c.Asleep+d.Asleep == 0 {
		t.Errorf("only one way was used: %+v, %+v", c, d)
	}
}
