package engine_test

// This file tests the time that the units take (thesis 5.2, 6.1.5): how long, in which
// order, and that nothing is seen before its time.

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/timing"
)

// How long a transaction of one, four or eight words keeps the bus, in ns.
const (
	one, four, eight = 680, 920, 1240
)

// timedBed is two cards that know each other, with no unit busy. The bus of card 0 is
// returned.
func timedBed(t *testing.T, change func(*engine.Config)) (*bed, []memory, *timing.Bus) {
	var first *timing.Bus
	b, m := transferBed(t, setup{cards: 2, slots: 16, net: near, tune: func(c *engine.Config) {
		timed(c)
		c.Timing.Retrieval, c.Timing.Delivery = 0, 0
		if first == nil {
			first = c.Timing.Bus
		}
		if change != nil {
			change(c)
		}
	}})
	for l := range arctic.Levels {
		b.mustSend(0, funi.Level(l), 1, 1)
		b.mustSend(1, funi.Level(l), 0, 1)
	}
	b.pass(time.Millisecond)
	for _, p := range b.proc {
		for l := range arctic.Levels {
			take(p, funi.Level(l))
		}
	}
	b.pass(time.Millisecond)
	return b, m, first
}

// watch steps the bed from event to event and returns when a register of a node next
// changes.
func (b *bed) watch(node int, r funi.Register) int64 {
	b.t.Helper()
	before := b.mem[node].Page.Load(r)
	b.step(b.now + 1)
	for end := b.now + int64(time.Second); b.mem[node].Page.Load(r) == before; b.step(b.next()) {
		if b.next() > end {
			b.t.Fatalf("register %d of node %d does not change", r, node)
		}
	}
	return b.now
}

// Rule: a packet is retrieved by a burst of its first four words and the longest bursts that do not
// exceed the rest (5.2.2). The tail shows it when the last burst has ended. A packet is delivered
// by the same bursts and one more of the head register (5.2.3). So it takes as long as its
// transactions on an idle bus, whatever there is to see in between.
func TestUnitsTakeTheirTime(t *testing.T) {
	for _, c := range []struct {
		words    int // of the message; -n: of an XFER
		retrieve int64
		deliver  int64
	}{
		{0, one, one + one},
		{1, four, four + one}, // two words are one burst
		{3, four, four + one},
		{4, four + one, four + 2*one},
		{5, 2 * four, 2*four + one},
		{8, four + four + one, 2*four + 2*one},
		{11, four + eight, four + eight + one},
		{21, four + 2*eight + four, four + 2*eight + four + one},
		{-4, 2 * four, 2*four + one},
		{-16, four + 2*eight, four + 2*eight + one},
	} {
		t.Run(fmt.Sprint(c.words), func(t *testing.T) {
			b, _, _ := timedBed(t, nil)
			if c.words >= 0 {
				b.mustSend(0, funi.Request, 1, make([]uint32, c.words)...)
			} else {
				s := b.proc[0].Reserve(funi.Request)
				s.SetTransfer(1, 5, funi.Transfer{Source: area, Destination: area, Words: -c.words})
				b.proc[0].Commit(funi.Request)
			}
			begin := b.now + 1
			if took := b.watch(0, funi.RQSQTail) - begin; took != c.retrieve {
				t.Errorf("retrieval took %d ns, want %d", took, c.retrieve)
			}
			arrival, _ := b.net.Next()
			if took := b.watch(1, funi.RQRQHead) - arrival; took != c.deliver {
				t.Errorf("delivery took %d ns, want %d", took, c.deliver)
			}
		})
	}
}

// Rule: before its last burst has ended nothing of a packet is to be seen: no slot is
// retired, no frame sent, no word written to the receiver's memory.
func TestNothingBeforeItsTime(t *testing.T) {
	b, m, _ := timedBed(t, nil)
	fill(m[1].area, 99)
	want := [2]byte{m[1].area[0], m[0].area[0]}
	s := b.proc[0].Reserve(funi.Request)
	s.SetTransfer(1, 5, funi.Transfer{Source: area, Destination: area, Words: 16})
	b.proc[0].Commit(funi.Request)
	begin := b.now + 1
	for at := begin; at < begin+four+2*eight; at += 10 {
		b.step(at)
		if _, sent := b.net.Next(); sent || b.proc[0].Unsent(funi.Request) == 0 {
			t.Fatalf("after %d ns the packet has left", at-begin)
		}
	}
	b.step(begin + four + 2*eight)
	arrival, sent := b.net.Next()
	if !sent || b.proc[0].Unsent(funi.Request) != 0 {
		t.Fatal("the packet has not left when its last burst has ended")
	}
	for at := arrival; at < arrival+four+2*eight+one; at += 10 {
		b.step(at)
		if m[1].area[0] != want[0] || b.proc[1].Receive(funi.Request) != nil {
			t.Fatalf("after %d ns the packet is there", at-arrival)
		}
	}
	b.step(arrival + four + 2*eight + one)
	if m[1].area[0] != want[1] || b.proc[1].Receive(funi.Request) == nil {
		t.Fatal("the packet is not there when its last burst has ended")
	}
}

// Rule: replies go before requests (5.2.2), and a reply waits for at most the packet that
// a unit works on.
func TestUnitsPreferReplies(t *testing.T) {
	b, _, _ := timedBed(t, nil)
	for range 3 {
		b.mustSend(0, funi.Request, 1, 1)
	}
	begin := b.now + 1
	b.step(begin)
	b.mustSend(0, funi.Reply, 1, 1)
	if at := b.watch(0, funi.RPSQTail); at != begin+2*four {
		t.Errorf("the reply left after %d ns, want %d: behind one request", at-begin, 2*four)
	}
}

// Rule: the processor goes first (6.1.1): a store that is issued while a burst is under
// way delays the next burst, not this one.
func TestUnitsWaitForTheProcessor(t *testing.T) {
	b, _, bus := timedBed(t, nil)
	clock := timing.Clock{Now: func() int64 { return b.now }, Until: func(int64) {}}
	cpu := timing.NewCPU(timing.CPUConfig{Cycle: 25, Store: 50}, bus, clock)
	b.mustSend(0, funi.Request, 1, 1, 2, 3, 4, 5)
	begin := b.now + 1
	b.step(begin)
	cpu.Store(1)
	if at := b.watch(0, funi.RQSQTail); at != begin+2*four+one {
		t.Errorf("two bursts and a store took %d ns, want %d", at-begin, 2*four+one)
	}
}

// Rule: a packet for the own card waits for its node: when that is back on the card, it is
// delivered, although no unit has anything else to do (3.1.2 CTXM, 4.2).
func TestOwnCardWaitsForTheNode(t *testing.T) {
	b, _, _ := timedBed(t, nil)
	far, x := b.join(0, gid, 5)
	if err := b.cards[0].SetGroupRoutes(gid, []uint32{0, 1, engine.NoRoute, engine.NoRoute, engine.NoRoute, 0}); err !=
		nil {
		t.Fatal(err)
	}
	s, err := b.cards[0].SwitchOut(x, false)
	if err != nil {
		t.Fatal(err)
	}
	b.mustSend(0, funi.Request, 5, 1)
	b.pass(time.Millisecond)
	b.switchIn(0, s)
	b.until(time.Second, "the packet arrives", func() bool { _, ok := take(far, funi.Request); return ok })
	// In the mode nothing of the sender's is dispatched either.
	if s, err = b.cards[0].SwitchOut(x, false); err != nil {
		t.Fatal(err)
	}
	b.mustSend(0, funi.Request, 5, 1)
	b.pass(time.Millisecond)
	if err := b.ctx[0].Store(funi.Control, funi.CTXM); err != nil {
		t.Fatal(err)
	}
	b.switchIn(0, s)
	b.pass(time.Millisecond)
	if _, ok := take(far, funi.Request); ok {
		t.Error("a packet was dispatched in context-switch mode")
	}
	if err := b.ctx[0].Store(funi.Control, 0); err != nil {
		t.Fatal(err)
	}
	b.wake[0] = 0
	b.until(time.Second, "the packet arrives", func() bool { _, ok := take(far, funi.Request); return ok })
}

// Rule: parts of long transfers need no room in the receive queue (link/stream.go). They pass
// messages that wait for room, also when the receive FIFO is full of such messages. A transfer
// whose end the process waits for has a line when others hold all of them. So two processes that
// change their queues within long transfers, and take nothing, do not wait for each other. The
// notice comes behind the messages that came before it.
func TestPartsPassWhatWaitsForRoom(t *testing.T) {
	b, m, _ := timedBed(t, nil)
	const words = 4000
	for node := range 2 {
		b.mem[node].Page.Store(funi.Control, funi.CRQM)
		b.wake[node] = 0
	}
	b.pass(time.Millisecond)
	for node := range 2 { // the FIFO holds ten, and the cache six requests
		for i := range uint32(15) {
			b.mustSend(node, funi.Request, 1-node, i)
			b.pass(50 * time.Microsecond)
		}
	}
	want := [2][]byte{slices.Clone(m[0].area[:4*words]), slices.Clone(m[1].area[:4*words])}
	was := [2][]byte{slices.Clone(m[0].area[areaSize/2:][:4*words]), slices.Clone(m[1].area[areaSize/2:][:4*words])}
	for node := range 2 {
		if !request(b.proc[node], funi.Request, 1-node,
			funi.Transfer{Source: area, Destination: area + areaSize/2, Argument: 77, Words: words}) {
			t.Fatal("the send queue is full")
		}
		b.pass(20 * time.Microsecond)
		for range 14 { // they fill FIFO and cache
			b.mustSend(node, funi.Reply, 1-node, 5)
		}
	}
	b.pass(time.Millisecond)
	for node := range 2 {
		if free := b.ctx[node].Load(funi.Ticket); free != 0 || b.proc[node].Unsent(funi.Request) != 1 ||
			bytes.Equal(m[1-node].area[areaSize/2:][:4*words], was[1-node]) {
			t.Fatalf("node %d: TICKET is %#x, %d requests are in the send queue, or the transfer has not begun", node,
				free, b.proc[node].Unsent(funi.Request))
		}
	}
	for node := range 2 {
		b.mem[node].Page.Store(funi.Control, funi.UserModes)
		b.wake[node] = 0
	}
	for node := range 2 {
		page := b.mem[node].Page
		b.until(10*time.Second, "CSQR", func() bool { return page.Load(funi.Control)&funi.CSQR != 0 })
	}
	for node := range 2 {
		b.mem[node].Page.Store(funi.Control, 0)
		b.wake[node] = 0
	}
	for node := range 2 {
		got := uint32(0)
		b.until(time.Minute, "messages, then the notice", func() bool {
			for n := range 2 {
				take(b.proc[n], funi.Reply)
			}
			for s, ok := take(b.proc[node], funi.Request); ok; s, ok = take(b.proc[node], funi.Request) {
				if s.Header().Transfer() {
					if got != 15 || s.Notice() !=
						(funi.Notice{Address: area + areaSize/2, Argument: 77, Words: words}) {
						t.Errorf("node %d: notice %+v after %d messages", node, s.Notice(), got)
					}
					return true
				}
				got++
			}
			return false
		})
	}
	b.idle(time.Second)
	for node := range 2 {
		if !bytes.Equal(m[node].area[areaSize/2:][:4*words], want[1-node]) {
			t.Errorf("node %d: the memories differ", node)
		}
	}
}

// Rule: a part that was accepted beyond the FIFO's packets, and that DRAIN mode catches
// there, is drained and returned like they are (5.2.3 DRAIN, appendix B).
func TestDrainedPartReturns(t *testing.T) {
	b, m, _ := timedBed(t, func(c *engine.Config) { c.Timing.Delivery = 2 * time.Microsecond })
	b.mem[1].Page.Store(funi.Control, funi.CRQM)
	b.wake[1] = 0
	for i := range uint32(10) {
		b.mustSend(0, funi.Request, 1, i)
		b.pass(50 * time.Microsecond)
	}
	received := b.cards[1].Counters().FramesReceived
	request(b.proc[0], funi.Request, 1, funi.Transfer{Source: area, Destination: area, Words: 200})
	b.until(time.Second, "a part arrives", func() bool { return b.cards[1].Counters().FramesReceived > received })
	if err := b.ctx[1].Store(funi.Control, funi.CTXM|funi.DRAIN|funi.CRQM); err != nil {
		t.Fatal(err)
	}
	b.wake[1] = 0
	s := b.switchOut(1)
	if n := len(s.Drained[funi.Request]); n != 11 {
		t.Fatalf("%d packets were drained, want ten and a part", n)
	}
	b.switchIn(1, s)
	if err := b.ctx[1].Store(funi.Control, 0); err != nil {
		t.Fatal(err)
	}
	got := uint32(0)
	b.until(time.Second, "ten messages and the notice", func() bool {
		r, ok := take(b.proc[1], funi.Request)
		if ok && !r.Header().Transfer() {
			if r.Payload()[0] != got {
				t.Fatalf("message %d came as number %d", r.Payload()[0], got)
			}
			got++
			return false
		}
		return ok && got == 10
	})
	b.idle(time.Second)
	if !bytes.Equal(m[0].area[:800], m[1].area[:800]) {
		t.Error("the memories differ")
	}
}

// Rule: a timing that no unit could work with is refused, as is one for blocks.
func TestTimingRefused(t *testing.T) {
	for name, change := range map[string]func(*engine.Config){
		"no bus":          func(c *engine.Config) { c.Timing.Bus = nil },
		"no bursts":       func(c *engine.Config) { c.Timing.Bursts = nil },
		"no single words": func(c *engine.Config) { c.Timing.Bursts = []int{4} },
		"falling bursts":  func(c *engine.Config) { c.Timing.Bursts = []int{1, 8, 4} },
		"long bursts":     func(c *engine.Config) { c.Timing.Bursts = []int{1, 32} },
		"negative":        func(c *engine.Config) { c.Timing.Delivery = -1 },
		"dispatch":        func(c *engine.Config) { c.Timing.Dispatch = -1 },
		"transmit":        func(c *engine.Config) { c.Timing.Transmit = -1 },
		"preprocess":      func(c *engine.Config) { c.Timing.Preprocess = -1 },
		"too long":        func(c *engine.Config) { c.Timing.Preprocess = 25 * time.Hour },
		"blocks":          func(c *engine.Config) { c.Blocks = true },
	} {
		cfg := goodConfig()
		timed(&cfg)
		change(&cfg)
		if _, err := engine.New(cfg); !errors.Is(err, engine.ErrConfig) {
			t.Errorf("%s: %v, want ErrConfig", name, err)
		}
	}
}
