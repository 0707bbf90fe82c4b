package engine_test

// This file tests the time of remote writes on a card whose times are known for each kind and step
// (writetime.go; HPL-95-86, tables 3 to 5), and the blocks that such a card sends and takes.

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
	"github.com/funet/funet/uspace/timing"
)

// cycle is one of the LANai's and of GSC+, in ns (4.2).
const cycle = 25

// blockSize is what a packet of table 5 has in bytes.
const blockSize = 512

// stepped is a card with the steps of tables 3 and 4, whose frames carry blocks of 512 bytes.
func stepped(c *engine.Config) {
	thesis(c)
	span := func(base, dataByte float64) timing.Span {
		return timing.Span{Base: int64(base * cycle * 1000), DataByte: int64(dataByte * cycle * 1000),
			MetadataByte: int64(dataByte * cycle * 1000)}
	}
	c.Blocks, c.BlockBytes = true, blockSize
	c.Timing = &engine.Timing{Bus: timing.NewBus(10*cycle, cycle), Bursts: []int{1, 4, 8}, Card: &timing.Card{
		Direct: timing.Sends{Send: span(81, 0.5), Notify: span(102, 0)},
		DMA:    timing.Sends{Start: span(106, 0), Send: span(21, 0.5), Notify: span(102, 0)},
		Arrive: span(71, 0.25), Write: span(59, 0), Notify: span(89, 0),
	}}
}

// steppedBed is two such cards that know each other, with no unit busy, and when each of node 0's
// frames with packets has left. Node 1 has opened its keyed segment, and areas 0 and 1.
func steppedBed(t *testing.T, change func(*engine.Config)) (r *remoteBed, left func() []int64) {
	var times []int64
	r = newRemoteBed(t, setup{cards: 2, net: near, tune: func(c *engine.Config) {
		stepped(c)
		c.Lines, c.FirstWindow = 64, 32
		if change != nil {
			change(c)
		}
	}, wrap: func(card int, p *wire.Port) port.Port {
		return &tap{Port: p, see: func(b []byte) bool {
			if f, err := arctic.Parse(b); err == nil && f.Packets() > 0 && card == 0 {
				times = append(times, r.now)
			}
			return true
		}}
	}})
	r.opens(1, theKey, 0, keyedSize, 0, 1)
	r.put(0, 1, funi.Request, funi.Put{Key: theKey, Counted: true})
	r.notified(1)
	r.pass(time.Millisecond)
	times = nil
	return r, func() []int64 { return times }
}

// Rule: what a write takes is what the steps of its kind add up to (tables 3 and 4). Of direct I/O
// the card fetches nothing, and DMA is started once. Sending and arriving count metadata as data.
// Over the receiver's bus go data alone where a record carries the metadata, which is at a packet
// that completes its area, and both elsewhere.
func TestWritesTakeTheStepsOfTheirKind(t *testing.T) {
	data := make([]byte, 64)
	four := []uint32{1, 2, 3, 4}
	const notify = 89
	for name, c := range map[string]struct {
		put           funi.Put
		send, receive float64 // cycles
	}{
		"16 bytes in the slot": {funi.Put{Data: data[:16]}, 81 + 8, 71 + 4 + 14},
		"64 bytes in the slot": {funi.Put{Data: data}, 81 + 32, 71 + 16 + 2*18},
		"16 bytes with notice": {funi.Put{Data: data[:16], Counted: true}, 81 + 8, 71 + 4 + 14 + notify},
		"metadata and 16 bytes": {funi.Put{Data: data[:16], Counted: true, Metadata: four}, 81 + 16,
			71 + 8 + 14 + notify},
		"metadata of what is not all": {funi.Put{Data: data[:16], Counted: true, Count: 5, Metadata: four},
			81 + 16, 71 + 8 + 18},
		"16 bytes in memory": {funi.Put{Source: sources, Length: 16, Counted: true}, 106 + 14 + 21 + 8,
			71 + 4 + 14 + notify},
		"64 bytes in memory": {funi.Put{Source: sources, Length: 64, Counted: true}, 106 + 36 + 21 + 32,
			71 + 16 + 36 + notify},
		"a block": {funi.Put{Source: sources, Length: 512, Counted: true},
			106 + 288 + 21 + 256, 71 + 71 + 59 + 288 + notify},
		"a block that nobody hears of": {funi.Put{Source: sources, Length: 512}, 106 + 288 + 21 + 256,
			71 + 71 + 59 + 288},
		"a block of what is not all": {funi.Put{Source: sources, Length: 512, Counted: true, Count: 5},
			106 + 288 + 21 + 256, 71 + 71 + 59 + 288},
		"a short block": {funi.Put{Source: sources, Length: 128, Counted: true},
			106 + 72 + 21 + 64, 71 + 32 + 59 + 72 + notify},
		"a block that the DMA does not slow": {funi.Put{Source: sources, Length: 256, Counted: true},
			106 + 144 + 21 + 128, 71 + 64 + 59 + 144 + notify},
	} {
		t.Run(name, func(t *testing.T) {
			r, left := steppedBed(t, nil)
			c.put.Key, c.put.Offset = theKey, 100
			fill(data, 7)
			r.source[0][0] = ^r.keyed[1][100]
			r.put(0, 1, funi.Request, c.put)
			begin := r.now + 1
			r.step(begin)
			r.when("the frame leaves", func() bool { return len(left()) == 1 })
			if took := float64(left()[0]-begin) / cycle; took != c.send {
				t.Errorf("sending took %v cycles, want %v", took, c.send)
			}
			arrival, _ := r.net.Next()
			before := bytes.Clone(r.keyed[1])
			seen := r.when("the data", func() bool { return !bytes.Equal(before, r.keyed[1]) })
			if took := float64(seen-arrival) / cycle; took != c.receive {
				t.Errorf("receiving took %v cycles, want %v", took, c.receive)
			}
			var n funi.Notification
			if notified := r.proc[1].NextNotification(&n); notified != (c.put.Counted && c.put.Count == 0) {
				t.Errorf("with the last burst: notified %v", notified)
			}
			if c.put.Count == 0 && n.Words != len(c.put.Metadata) {
				t.Errorf("%d words of metadata", n.Words)
			}
			r.ends()
		})
	}
}

// Rule: for a message of many packets DMA is started once. Each packet is loaded while the one
// before is sent, and arrives while the one before is written. So the bus is the narrowest way, and
// what its ends take counts once (table 5).
func TestMessageOfManyBlocks(t *testing.T) {
	const n = 20
	r, left := steppedBed(t, nil)
	r.put(0, 1, funi.Request, funi.Put{Key: theKey, Counted: true, Source: sources, Length: n * blockSize})
	begin := r.now + 1
	r.step(begin)
	r.when("all have left", func() bool { return len(left()) == n })
	for i, at := range left() {
		if took, want := int(at-begin)/cycle, 106+(i+1)*288+277; took != want {
			t.Errorf("packet %d left after %d cycles, want %d", i, took, want)
		}
	}
	end := r.when("the notification", func() bool { return r.proc[1].Brought(0) })
	if took, want := int(end-left()[n-1]-int64(near.Delay))/cycle, 71+71+59+288+89; took != want {
		t.Errorf("the last packet took %d cycles at the receiver, want %d", took, want)
	}
	r.notified(1)
	if !bytes.Equal(r.keyed[1][:n*blockSize], r.source[0][:n*blockSize]) {
		t.Error("not all is there")
	}
	r.ends()
}

// Rule: telling the host that a message was sent is behind its last packet: nobody waits for that
// but the next packet (tables 3 and 4, in brackets).
func TestNoticeOfSendingIsBehind(t *testing.T) {
	for name, c := range map[string]struct {
		put   funi.Put
		leave []int // cycles from the request to each packet
	}{
		"direct": {funi.Put{Data: make([]byte, 16)}, []int{89, 89 + 102 + 89}},
		// The third packet is loaded while the second is sent and its notice made.
		"two blocks": {funi.Put{Source: sources, Length: 2 * blockSize},
			[]int{106 + 288 + 277, 106 + 2*288 + 277, 106 + 2*288 + 106 + 288 + 277}},
		// The card is busy with the notice of one when the next is loaded: 64 bytes take 36 cycles
		// over the bus, and starting 106.
		"from memory": {funi.Put{Source: sources, Length: 64}, []int{106 + 36 + 53, 106 + 36 + 53 + 102 + 53}},
	} {
		t.Run(name, func(t *testing.T) {
			r, left := steppedBed(t, nil)
			c.put.Key = theKey
			for range 2 {
				r.put(0, 1, funi.Request, c.put)
			}
			begin := r.now + 1
			r.step(begin)
			r.when("they have left", func() bool { return len(left()) == len(c.leave) })
			for i, want := range c.leave {
				if took := int(left()[i]-begin) / cycle; took != want {
					t.Errorf("packet %d left after %d cycles, want %d", i, took, want)
				}
			}
			r.ends()
		})
	}
}

// Rule: what a write takes is the write's: a message behind it in the same line takes what every
// packet does.
func TestMessagesTakeNothingOfWrites(t *testing.T) {
	r, left := steppedBed(t, func(c *engine.Config) { c.Lines, c.ReplyLines = 2, 1 })
	r.put(0, 1, funi.Request, funi.Put{Key: theKey, Data: make([]byte, 64)})
	r.pass(time.Millisecond)
	r.mustSend(0, funi.Request, 1, 1)
	begin := r.now + 1
	r.step(begin)
	r.when("the message leaves", func() bool { return len(left()) == 2 })
	if took := (left()[1] - begin) / cycle; took != 14 { // its four words over the bus
		t.Errorf("a message left after %d cycles", took)
	}
	r.pass(time.Millisecond)
	take(r.proc[1], funi.Request)
	r.ends()
}

// Rule: frames without packets take no time: the answer to one direct write leaves when that is
// accepted, and both cards' lines are free when it has arrived (HPL-95-86, 2.1: Hamlyn had no
// acknowledgments).
func TestAnswersTakeNoTime(t *testing.T) {
	r, left := steppedBed(t, nil)
	r.put(0, 1, funi.Request, funi.Put{Key: theKey, Data: make([]byte, 16)})
	r.step(r.now + 1)
	r.when("the frame leaves", func() bool { return len(left()) == 1 })
	end := r.when("it is answered", func() bool { return r.ctx[0].Idle() })
	// What a frame calls for leaves in the next step, which is a nanosecond later here.
	if took, want := end-left()[0], 2*int64(near.Delay)+(71+4)*cycle+1; took != want {
		t.Errorf("answered after %d ns, want %d", took, want)
	}
	r.ends()
}

// Rule: nothing of a block is seen before its last burst has ended, and then all; it counts then,
// and with its share of the sum.
func TestBlocksWaitForTheirTime(t *testing.T) {
	r, _ := steppedBed(t, nil)
	before := bytes.Clone(r.keyed[1])
	r.put(0, 1, funi.Request, funi.Put{Key: theKey, Counted: true, Source: sources, Length: blockSize})
	written := 0
	for end := r.now + int64(time.Millisecond); r.now < end && written <
		2; r.step(min(max(r.next(), r.now+1), r.now+100)) {
		switch got := r.keyed[1][:blockSize]; {
		case bytes.Equal(got, before[:blockSize]):
			if r.proc[1].Brought(0) {
				t.Fatal("notified before the data are there")
			}
		case bytes.Equal(got, r.source[0][:blockSize]):
			written++
		default:
			t.Fatal("a part of the block is there")
		}
	}
	r.notified(1)
	r.silent(1)
	r.ends()
}

// Rule: a FIFO that is full of blocks rejects the next for now; it comes again, and all are there
// once.
func TestFIFOOfBlocks(t *testing.T) {
	r, _ := steppedBed(t, func(c *engine.Config) {
		c.FIFO = 2
		c.Timing.Delivery = 100 * time.Microsecond
	})
	const n = 12
	rejected := false
	r.put(0, 1, funi.Request, funi.Put{Key: theKey, Counted: true, Source: sources, Length: n * blockSize})
	r.step(r.now + 1) // the cards look
	r.when("the notification", func() bool {
		rejected = rejected || r.cards[0].Counters().RejectsReceived > 0
		return r.proc[1].Brought(0)
	})
	if !rejected {
		t.Error("the FIFO was never full: nothing was tested")
	}
	r.notified(1)
	if !bytes.Equal(r.keyed[1][:n*blockSize], r.source[0][:n*blockSize]) {
		t.Error("not all is there")
	}
	r.silent(1)
	r.ends()
}

// Rule: a card takes a block that is longer than an entry of its FIFOs, of a card that is tuned
// otherwise, at once and behind all that waits there.
func TestBlockThatNoEntryHolds(t *testing.T) {
	for _, short := range []int{64, 128} {
		t.Run(fmt.Sprint(short), func(t *testing.T) {
			cards := 0
			r, _ := steppedBed(t, func(c *engine.Config) {
				if cards++; cards == 2 {
					c.BlockBytes = short
				}
				c.Timing.Delivery = 100 * time.Microsecond
			})
			data := r.source[0]
			r.put(0, 1, funi.Request, funi.Put{Key: theKey, Area: 1, Counted: true, Count: 1, Data: data[:64]})
			r.put(0, 1, funi.Request, funi.Put{Key: theKey, Area: 1, Offset: 64, Counted: true, Count: 1<<32 - 1,
				Source: sources + 64, Length: blockSize})
			r.when("the notification", func() bool { return r.proc[1].Brought(0) })
			if !bytes.Equal(r.keyed[1][:64+blockSize], data[:64+blockSize]) {
				t.Error("notified before all is there")
			}
			r.notified(1)
			r.silent(1)
			r.ends()
		})
	}
}

// Rule: a message of any length and metadata is all there when its one notification comes, whatever
// of it are blocks.
func TestMessagesOfAnyLength(t *testing.T) {
	r, _ := steppedBed(t, nil)
	for _, size := range []int{65, 79, 80, 81, 496, 512, 513, 527, 528, 1024, 1030, 5000} {
		for _, words := range []int{0, 1, 11} {
			clear(r.keyed[1])
			p := funi.Put{Key: theKey, Offset: 3, Counted: true, Source: sources + 5, Length: size}
			for w := range words {
				p.Metadata = append(p.Metadata, uint32(w))
			}
			r.put(0, 1, funi.Request, p)
			n := r.notified(1)
			if !bytes.Equal(r.keyed[1][3:3+size], r.source[0][5:5+size]) {
				t.Errorf("%d bytes, %d words: not all is there", size, words)
			}
			if got := n.Metadata[:n.Words]; len(got) != words {
				t.Errorf("%d bytes: metadata %v, want %d words", size, got, words)
			}
			r.silent(1)
		}
	}
	r.ends()
}
