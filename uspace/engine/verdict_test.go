package engine_test

// This file holds the rules of verdicts: what a receiver answers to a frame, and
// that it answers a repeated frame in the same way.

import (
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
)

// Rule: an answer to a frame is final (doc.go). A frame of ten packets finds room
// for some; the reject names the others, it is lost, the frame comes again when
// there is room for all, and gets the same reject: nothing is delivered twice.
func TestRepeatedFrameGetsTheSameVerdict(t *testing.T) {
	var rejects []arctic.Reject
	lose := 3 // rejects that the network loses
	b := newBed(t, setup{cards: 2, slots: 4, net: near, tune: func(c *engine.Config) { c.FIFO = 2 },
		wrap: func(card int, p *wire.Port) port.Port {
			return &tap{Port: p, see: func(raw []byte) bool {
				f, err := arctic.Parse(raw)
				if err != nil || card != 1 || f.Rejects() == 0 {
					return true
				}
				rejects = append(rejects, f.Reject(0))
				lose--
				return lose < 0
			}}
		}})
	b.slots = 64
	b.proc[0], b.ctx[0], b.mem[0] = attachAgain(b, 0)
	b.mustSend(0, funi.Request, 1, 100)
	b.pass(10 * time.Millisecond)
	if _, ok := take(b.proc[1], funi.Request); !ok {
		t.Fatal("the first message did not arrive")
	}
	for i := range uint32(10) {
		b.mustSend(0, funi.Request, 1, i)
	}
	var got []uint32
	b.until(time.Second, "the first reject is lost", func() bool { return len(rejects) == 1 })
	// 4 slots hold 3 packets. The process has not yet given back one of them that
	// it received (funi: Release stores once for each half); the FIFO holds 2.
	want := arctic.Reject{Sequence: 1, Level: arctic.Request, Reason: arctic.ReasonQueueFull, Bits: 0b1111110000}
	b.until(time.Second, "all arrive", func() bool {
		for s, ok := take(b.proc[1], funi.Request); ok; s, ok = take(b.proc[1], funi.Request) {
			got = append(got, s.Payload()[0])
		}
		return len(got) >= 10
	})
	b.idle(time.Second)
	b.pass(100 * time.Millisecond)
	if s, ok := take(b.proc[1], funi.Request); ok {
		t.Fatalf("message %d came again", s.Payload()[0])
	}
	for i := range 4 {
		if i >= len(rejects) || rejects[i] != want {
			t.Fatalf("rejects %+v, want the first four to be %+v", rejects, want)
		}
	}
	seen := map[uint32]bool{}
	for _, id := range got {
		if seen[id] {
			t.Fatalf("message %d came twice: %v", id, got)
		}
		seen[id] = true
	}
	if n := b.cards[1].Counters().RepeatedRejects; n != 3 {
		t.Errorf("%d repeated rejects counted, want 3", n)
	}
}

// attachAgain starts card i again with queues of the bed's present size.
func attachAgain(b *bed, i int) (*funi.Interface, *engine.Context, *funi.Memory) {
	b.start(i)
	return b.proc[i], b.ctx[i], b.mem[i]
}

// verdicts sends one forged frame from card 1 to card 0 and returns the rejects.
func verdicts(t *testing.T, slots, fifo int, packets []arctic.PacketHeader) []arctic.Reject {
	t.Helper()
	var rejects []arctic.Reject
	b := newBed(t, setup{cards: 2, slots: slots, net: near, tune: func(c *engine.Config) {
		c.FIFO = fifo
	}, wrap: watchRejects(0, &rejects)})
	exactlyOnce(b, newTraffic(b, 1, 2))
	b.inject(forge(packets, func(h *arctic.Header) { h.Sequence = 1 }))
	b.pass(time.Millisecond)
	return rejects
}

// Rule: accepting or rejecting is a decision per packet (design idea 4): one train
// can hold accepted packets, transient and permanent rejects at once, and both
// rejects of a frame travel together.
func TestMixedVerdicts(t *testing.T) {
	message := arctic.PacketHeader{Kind: arctic.KindMessage, Source: 1}
	unknown := arctic.PacketHeader{Kind: arctic.KindExtended, Type: arctic.MaxType, Source: 1}
	// A queue of 2 slots and a FIFO of 1 take two packets.
	rejects := verdicts(t, 2, 1, []arctic.PacketHeader{message, unknown, message, message, unknown, message})
	want := []arctic.Reject{
		{Sequence: 1, Reason: arctic.ReasonQueueFull, Bits: 0b101000},
		{Sequence: 1, Reason: arctic.ReasonUnknownKind, Bits: 0b010010},
	}
	if len(rejects) != 2 || rejects[0] != want[0] || rejects[1] != want[1] {
		t.Fatalf("rejects %+v, want %+v", rejects, want)
	}
}

// Rule: the sender settles each packet of a rejected frame by its own verdict:
// accepted ones are free, transient ones go again, permanent ones return (doc.go).
func TestSenderSettlesMixedVerdicts(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 16, net: near, tune: func(c *engine.Config) { c.FIFO = 1 }})
	for i := range uint32(150) {
		b.until(time.Second, "room", func() bool {
			s := b.proc[0].Reserve(funi.Request)
			if s == nil {
				return false
			}
			s.SetHeader(funi.NewHeader(1, 5, 1))
			s[funi.PayloadWord] = i
			if i%3 == 1 { // to memory that is not there
				s.SetTransfer(1, 5, funi.Transfer{Destination: 0x1000, Argument: i, Words: 4})
			}
			b.proc[0].Commit(funi.Request)
			return true
		})
	}
	var got, back [150]int
	left := 150
	b.until(10*time.Second, "each delivered or back", func() bool {
		for s, ok := take(b.proc[1], funi.Request); ok; s, ok = take(b.proc[1], funi.Request) {
			got[s.Payload()[0]]++
			left--
		}
		for r, ok := b.proc[0].NextReturn(); ok; r, ok = b.proc[0].NextReturn() {
			if r.Reason != arctic.ReasonDestination {
				t.Fatalf("packet %d came back: %v", r.Word, r.Reason)
			}
			back[r.Word]++
			left--
		}
		return left == 0
	})
	b.idle(time.Second)
	for i := range 150 {
		if refused := i%3 == 1; (back[i] == 1) != refused || (got[i] == 1) == refused || got[i]+back[i] != 1 {
			t.Fatalf("packet %d: delivered %d times, came back %d times", i, got[i], back[i])
		}
	}
	if b.cards[0].Counters().RejectsReceived == 0 {
		t.Error("the queue was never full, so nothing was tested")
	}
}

// Rule: a frame's reject tells one permanent reason. Frames of one train go to one
// node, so a second one can only be forged; it is sent back as transient and gets
// its own verdict when it comes again (note). A train for a node that is not there
// is rejected as a whole, with that reason, whatever its kinds.
func TestOnePermanentReasonPerFrame(t *testing.T) {
	absent := arctic.PacketHeader{Kind: arctic.KindExtended, Type: arctic.MaxType, Source: 1, Destination: 9}
	other := absent
	other.Kind = arctic.KindMessage
	rejects := verdicts(t, 16, 10, []arctic.PacketHeader{absent, other, absent})
	if want := (arctic.Reject{Sequence: 1, Reason: arctic.ReasonNoContext, Bits: 0b111}); len(rejects) != 1 ||
		rejects[0] != want {
		t.Fatalf("rejects %+v, want %+v", rejects, want)
	}
}

// Rule: the last packet of the longest train has a verdict too.
func TestVerdictOnEveryPacketOfTheLongestTrain(t *testing.T) {
	packets := make([]arctic.PacketHeader, arctic.MaxTrain)
	for i := range packets {
		packets[i] = arctic.PacketHeader{Kind: arctic.KindExtended, Type: arctic.MaxType, Source: 1}
	}
	rejects := verdicts(t, 16, 10, packets)
	if want := (arctic.Reject{Sequence: 1, Reason: arctic.ReasonUnknownKind, Bits: ^uint64(0)}); len(rejects) != 1 ||
		rejects[0] != want {
		t.Fatalf("rejects %+v, want %+v", rejects, want)
	}
}
