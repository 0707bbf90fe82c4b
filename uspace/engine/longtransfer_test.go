package engine_test

// This file holds the rules of transfers of many packets: byte-exact with one notice
// each, whatever the network does; one return if not; replies never wait.

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// quietTransfers checks that no card has anything left of a transfer.
func quietTransfers(t rapid.TB, b *bed) {
	for i, c := range b.cards {
		if c == nil {
			continue
		}
		if err := c.Check(); err != nil {
			t.Fatalf("card %d: %v", i, err)
		}
		if !b.ctx[i].Idle() {
			t.Fatalf("card %d is not idle", i)
		}
	}
}

// Rule: exactly once and byte-exact (design idea 4): transfers of any length, mode and level
// arrive, between any nodes and beside messages, on cards of any size. The network loses,
// duplicates, reorders and damages frames. Each transfer gives one notice, and none before all of
// its data is there.
func TestTransfersUnderFaults(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		net := rapid.SampledFrom([]string{"clean", "loss", "duplicate", "reorder", "corrupt", "all"}).Draw(rt,
			"network")
		card := rapid.SampledFrom([]string{"native", "thesis", "train 1", "tiny"}).Draw(rt, "card")
		b, m := transferBed(t, setup{cards: 2, slots: rapid.SampledFrom([]int{2, 16}).Draw(rt, "slots"),
			tune: cardConfigs[card],
			net: wire.Config{Seed: rapid.Uint64().Draw(rt, "seed"), Delay: 10 * time.Microsecond,
				Faults: networks[net]}})
		const cell = areaSize / 32 // of each transfer: 2048 bytes
		type transfer struct {
			from, to int
			level    funi.Level
			x        funi.Transfer
			source   []byte
			done     bool
		}
		all := make([]transfer, rapid.IntRange(1, 16).Draw(rt, "transfers"))
		for i := range all {
			x := transfer{from: rapid.IntRange(0, 1).Draw(rt, "from"), to: rapid.IntRange(0, 1).Draw(rt, "to"),
				level: funi.Level(rapid.IntRange(0, 1).Draw(rt, "level"))}
			words := 4 * rapid.IntRange(1, cell/16).Draw(rt, "quads")
			from := uint32(i * cell) // sources below, destinations above the middle
			at := from + areaSize/2
			x.x = funi.Transfer{Source: area + from, Destination: area + at, Argument: uint32(i), Words: words}
			x.source = bytes.Clone(m[x.from].area[from : from+uint32(4*words)])
			all[i] = x
		}
		want := [][]byte{bytes.Clone(m[0].area), bytes.Clone(m[1].area)}
		queues := [2][2][]int{}
		for i, x := range all {
			copy(want[x.to][x.x.Destination-area:], x.source)
			queues[x.from][x.level] = append(queues[x.from][x.level], i)
		}
		left := len(all)
		b.until(5*time.Minute, "a notice of every transfer", func() bool {
			for n := range 2 {
				for l := range funi.Level(2) {
					q := &queues[n][l]
					for len(*q) > 0 && request(b.proc[n], l, all[(*q)[0]].to, all[(*q)[0]].x) {
						*q = (*q)[1:]
					}
					for s, ok := take(b.proc[n], l); ok; s, ok = take(b.proc[n], l) {
						x := &all[s.Notice().Argument]
						notice(t, &s, x.from, n, x.x.Words > arctic.MaxSingleWords,
							funi.Notice{Address: x.x.Destination, Argument: x.x.Argument, Words: x.x.Words})
						at := x.x.Destination - area
						if x.done || x.to != n || x.level != l ||
							!bytes.Equal(m[n].area[at:at+uint32(4*x.x.Words)], x.source) {
							rt.Fatalf("notice of %+v again, or before its data", *x)
						}
						x.done = true
						left--
					}
				}
				if r, ok := b.proc[n].NextReturn(); ok {
					rt.Fatalf("came back: %+v", r)
				}
			}
			return left == 0
		})
		b.idle(time.Minute)
		b.pass(200 * time.Millisecond)
		quietTransfers(rt, b)
		for n := range 2 {
			if !bytes.Equal(m[n].area, want[n]) {
				rt.Fatalf("memory of node %d differs", n)
			}
			for l := range funi.Level(2) {
				if s, ok := take(b.proc[n], l); ok {
					rt.Fatalf("one more: %#x", s[:])
				}
			}
		}
	})
}

// Rule: the slot is retired when the card needs the source no more and not before, so
// the process may then change it (thesis 3.2.4): whether the card copied the source or
// sent it in blocks, and whatever was lost.
func TestSourceIsFreeWhenRetired(t *testing.T) {
	for _, blocks := range []bool{false, true} {
		for name, faults := range networks {
			t.Run(fmt.Sprintf("blocks %v, %s", blocks, name), func(t *testing.T) {
				b, m := transferBed(t, setup{cards: 2, slots: 16,
					net:  wire.Config{Seed: 3, Delay: 10 * time.Microsecond, Faults: faults},
					tune: func(c *engine.Config) { c.Lines, c.ReplyLines, c.Blocks = 16, 4, blocks }})
				want := bytes.Clone(m[0].area[:areaSize/2])
				request(b.proc[0], funi.Request, 1, funi.Transfer{Source: area, Destination: area + areaSize/2,
					Words: areaSize / 8})
				b.until(time.Minute, "retired", func() bool { return b.proc[0].Unsent(funi.Request) == 0 })
				if c := b.cards[0].Counters(); !blocks && c.PacketsRetrieved < areaSize/2/80 {
					t.Fatal("retired before it was retrieved")
				}
				clear(m[0].area)
				b.receives(1, funi.Request)
				if !bytes.Equal(m[1].area[areaSize/2:], want) {
					t.Error("memory differs")
				}
			})
		}
	}
}

// Rule: slots behind a transfer are retrieved while it is under way, and retired in
// order behind it (transfer.go).
func TestSlotsBehindALongTransfer(t *testing.T) {
	b, m := transferBed(t, setup{cards: 3, slots: 64, net: near})
	exactlyOnce(b, newTraffic(b, 3, 3))
	b.cards[2] = nil // it never answers
	request(b.proc[0], funi.Request, 2, funi.Transfer{Source: area, Destination: area, Words: areaSize / 8})
	b.mustSend(0, funi.Request, 1, 11)
	request(b.proc[0], funi.Request, 1, funi.Transfer{Source: area, Destination: area, Argument: 5,
		Words: areaSize / 8})
	b.mustSend(0, funi.Request, 1, 12)
	for range 3 {
		b.receives(1, funi.Request)
		if n := b.proc[0].Unsent(funi.Request); n != 4 {
			t.Fatalf("%d slots of 4 are not retired, though the first transfer is under way", n)
		}
	}
	if !bytes.Equal(m[1].area[:areaSize/2], m[0].area[:areaSize/2]) {
		t.Error("memory differs")
	}
	b.until(time.Minute, "the transfer comes back", func() (ok bool) { _, ok = b.proc[0].NextReturn(); return ok })
	b.until(time.Second, "all retired", func() bool { return b.proc[0].Unsent(funi.Request) == 0 })
	quietTransfers(t, b)
}

// Rule: a long transfer at request level holds up neither replies nor the other
// direction (design idea 5): messages go through while the transfer waits for
// a node that does not answer.
func TestLongTransferBlocksNoReply(t *testing.T) {
	b, _ := transferBed(t, setup{cards: 3, slots: 16, net: near, tune: func(c *engine.Config) {
		c.Lines, c.ReplyLines = 16, 4
	}})
	exactlyOnce(b, newTraffic(b, 3, 3))
	b.cards[2] = nil
	request(b.proc[0], funi.Request, 2, funi.Transfer{Source: area, Destination: area, Argument: 3,
		Words: areaSize / 4})
	b.pass(time.Millisecond)
	for i := range uint32(50) {
		b.mustSend(0, funi.Reply, 1, i)
		if s := b.receives(1, funi.Reply); s.Payload()[0] != i {
			t.Fatalf("got %#x", s[:])
		}
	}
	if b.proc[0].Unsent(funi.Request) != 1 {
		t.Fatal("the transfer does not wait, so nothing was tested")
	}
	// One transfer, one return, with the reason for which its packets came back.
	var r funi.Returned
	b.until(time.Minute, "the transfer comes back", func() (ok bool) { r, ok = b.proc[0].NextReturn(); return ok })
	if r.Reason != arctic.ReasonSilent || !r.Header.Many() || r.Word != 3 {
		t.Fatalf("came back as %+v", r)
	}
	b.pass(time.Second)
	if r, ok := b.proc[0].NextReturn(); ok {
		t.Fatalf("a second return %+v", r)
	}
	b.cards[2] = nil
	quietTransfers(t, b)
}

// Rule: more long transfers than records wait in the send queue, and all arrive.
func TestManyLongTransfers(t *testing.T) {
	b, m := transferBed(t, setup{cards: 2, slots: 64, net: near})
	const n = 60
	for i := range uint32(n) {
		if !request(b.proc[0], funi.Request, 1, funi.Transfer{Source: area + 1024*i, Destination: area + 1024*i,
			Argument: i, Words: 256}) {
			t.Fatal("no room")
		}
	}
	for i := range uint32(n) {
		s := b.receives(1, funi.Request)
		if i == 0 && b.proc[0].Unsent(funi.Request) == 0 {
			t.Error("all retrieved at once: the records do not bound anything")
		}
		notice(t, &s, 0, 1, true, funi.Notice{Address: area + 1024*s.Notice().Argument,
			Argument: s.Notice().Argument, Words: 256})
	}
	b.idle(time.Second)
	quietTransfers(t, b)
	if !bytes.Equal(m[0].area[:n*1024], m[1].area[:n*1024]) {
		t.Error("memory differs")
	}
}

// Rule: a long transfer fills frames (design idea 7): with blocks, and without with
// packets of 24 words, as many as fit.
func TestLongTransferFillsFrames(t *testing.T) {
	for _, mtu := range []int{1500, 3498, 9000} {
		for _, blocks := range []bool{false, true} {
			b, _ := transferBed(t, setup{cards: 2, slots: 16, net: wire.Config{Delay: 10 * time.Microsecond, MTU: mtu},
				tune: func(c *engine.Config) { c.Blocks = blocks }})
			request(b.proc[0], funi.Request, 1, funi.Transfer{Source: area, Destination: area, Words: areaSize / 4})
			b.receives(1, funi.Request)
			b.idle(time.Second)
			room := arctic.MaxPartWords * arctic.WordSize * min(arctic.MaxTrain,
				(mtu+arctic.EthernetSize-arctic.HeaderSize)/arctic.MaxPacketSize)
			most := uint64(8)
			if blocks {
				room, most = arctic.MaxBlock(mtu+arctic.EthernetSize), 1
			}
			c := b.cards[0].Counters()
			if data, least := c.FramesSent-c.Greetings-c.AcksSent, uint64((areaSize+room-1)/room); data < least ||
				data > least+most {
				t.Errorf("MTU %d, blocks %v: %d frames, want about %d", mtu, blocks, data, least)
			}
		}
	}
}

// Rule: nothing on the data path allocates.
func TestTransferAllocatesNothing(t *testing.T) {
	b, _ := transferBed(t, setup{cards: 1, slots: 16})
	go1 := func() {
		for l := range funi.Level(2) {
			request(b.proc[0], l, 0, funi.Transfer{Source: readOnly, Destination: writeOnly, Words: 16})
			request(b.proc[0], l, 0, funi.Transfer{Source: readOnly, Words: 16})
			request(b.proc[0], l, 0, funi.Transfer{Destination: writeOnly, Words: 8})
			request(b.proc[0], l, 0, funi.Transfer{Source: area, Destination: area + areaSize/2, Words: 1000})
			request(b.proc[0], l, 0, funi.Transfer{Source: 0x100, Destination: area, Words: 1000})
		}
		for range 8 {
			b.now++
			b.cards[0].Step(b.now)
		}
		for l := range funi.Level(2) {
			for b.proc[0].Receive(l) != nil {
				b.proc[0].Release(l)
			}
		}
		for _, ok := b.proc[0].NextReturn(); ok; _, ok = b.proc[0].NextReturn() {
		}
	}
	go1()
	if n := testing.AllocsPerRun(100, go1); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if c := b.cards[0].Counters(); c.PacketsDelivered < 100*2*7 {
		t.Errorf("only %d packets delivered", c.PacketsDelivered)
	}
}

// FuzzHostileTransfer: whatever a process writes into its slots as XFER requests, the
// card does not panic, its books balance, only memory that is open to it changes, and
// a neighbour's transfer arrives (design idea 3).
func FuzzHostileTransfer(f *testing.F) {
	seed := func(w ...uint32) {
		b := make([]byte, 4*len(w))
		arctic.PutWords(b, w)
		f.Add(b)
	}
	seed(3<<30|1, 0xfffffff0, 0xfffffff0, 1, 1<<24)
	seed(3<<30|1, area, 0xffffff00, 1, 0x40)
	seed(3<<30|1, area, area, 1, 0xfffffffc, 3<<30|20<<16|1, 0, area, 1, 2)
	seed(1<<31|31<<16|1, area, area, 1, 0, 1<<31|16<<16|1, 0xffffffff, 0xffffffff, 0, 0)
	seed(3<<30|16<<16|1, readOnly, readOnly, 1, 0, 1<<31, 0, 0, 0, 0)
	long := []uint32{3<<30 | 1, area, area, 1, areaSize / 4, 3 << 30, area, area + 0x4000, 2, 2000}
	seed(long...)
	drained := make([]byte, 4*len(long)+1) // the extra byte asks for DRAIN mode
	arctic.PutWords(drained, long)
	f.Add(drained)
	f.Fuzz(func(t *testing.T, script []byte) {
		b, m := transferBed(t, setup{cards: 2, slots: 32, net: near, tune: followedIf(len(script)/20%2 == 1)})
		before := [2][]byte{bytes.Clone(m[0].readOnly), bytes.Clone(m[1].readOnly)}
		if len(script)%20 == 1 {
			b.ctx[0].SetDrain(true)
			b.ctx[1].SetDrain(true)
		}
		for ; len(script) >= 20; script = script[20:] {
			w := words(script[:20])
			for l := range funi.Level(2) {
				if s := b.proc[0].Reserve(l); s != nil {
					copy(s[:5], w)
					s[funi.TotalWord] = w[4]
					s[0] = s[0]&^0xffff | s[0]&1
					b.proc[0].Commit(l)
				}
			}
			b.step(b.now)
			busyDrain(b)
			for i, c := range b.cards {
				if err := c.Check(); err != nil {
					t.Fatalf("card %d: %v", i, err)
				}
			}
		}
		b.ctx[0].SetDrain(false)
		b.ctx[1].SetDrain(false)
		b.until(10*time.Minute, "quiet", func() bool { busyDrain(b); return b.ctx[0].Idle() && b.ctx[1].Idle() })
		if !bytes.Equal(m[0].readOnly, before[0]) || !bytes.Equal(m[1].readOnly, before[1]) {
			t.Fatal("memory without the right was written")
		}
		request(b.proc[1], funi.Request, 0, funi.Transfer{Source: readOnly, Destination: writeOnly, Words: 16})
		b.until(time.Second, "the neighbour's transfer", func() bool {
			_, ok := take(b.proc[0], funi.Request)
			return ok
		})
		if !bytes.Equal(m[0].writeOnly, before[1]) {
			t.Fatal("the neighbour's data differs")
		}
	})
}
