package engine_test

// This file tests the rules of a modelled card that profiles switch: which bursts words of slots
// take, the hypotheses about the thesis's simulator, and packets of 20 words without an argument.

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// Rule: with QueueBurst words of slots move in bursts of at most as many, rounded up, and only the
// data of XFER in longer ones (3.2.4). With GroupWords a message moves as one whose arguments fill
// groups. With HeadUnwritten no word of the head follows a message, and one follows XFER. Each
// burst into a receive queue is noted on the bus, and none of data.
func TestModelledBursts(t *testing.T) {
	for _, c := range []struct {
		words             int // of the message; -n: of an XFER
		queue, group      int
		unwritten         bool
		retrieve, deliver int64
		noted             uint32
	}{
		{words: 21, queue: 4, retrieve: 6 * four, deliver: 6*four + one, noted: 6},
		{words: 11, queue: 4, retrieve: 3 * four, deliver: 3*four + one, noted: 3},
		{words: 21, retrieve: 2*four + 2*eight, deliver: 2*four + 2*eight + one, noted: 4},
		{words: -20, queue: 4, retrieve: 2*four + 2*eight, deliver: 2*four + 2*eight + one, noted: 1},
		{words: 2, queue: 4, retrieve: four, deliver: four + one, noted: 1},
		{words: 2, queue: 4, group: 4, retrieve: 2 * four, deliver: 2*four + one, noted: 2},
		{words: 5, queue: 4, group: 4, retrieve: 2 * four, deliver: 2*four + one, noted: 2},
		{words: 1, queue: 4, group: 4, retrieve: four, deliver: four + one, noted: 1},
		// no more than a packet has
		{words: 21, queue: 4, group: 8, retrieve: 6 * four, deliver: 6*four + one, noted: 6},
		{words: 5, queue: 4, unwritten: true, retrieve: 2 * four, deliver: 2 * four, noted: 2},
		{words: -16, queue: 4, unwritten: true, retrieve: four + 2*eight, deliver: four + 2*eight + one, noted: 1},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			var cards []*engine.Timing
			b, _, _ := timedBed(t, func(cfg *engine.Config) {
				cfg.TransferWords = arctic.MaxPartWords
				cfg.Timing.QueueBurst, cfg.Timing.GroupWords, cfg.Timing.HeadUnwritten = c.queue, c.group, c.unwritten
				cards = append(cards, cfg.Timing)
			})
			before := cards[1].Bus.Deliveries(int(funi.Request))
			if c.words >= 0 {
				b.mustSend(0, funi.Request, 1, make([]uint32, c.words)...)
			} else {
				s := b.proc[0].Reserve(funi.Request)
				s.SetUnnamed(1, 5, funi.Transfer{Source: area, Destination: area, Words: -c.words})
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
			if noted := cards[1].Bus.Deliveries(int(funi.Request)) - before; noted != c.noted {
				t.Errorf("%d bursts into the queue, want %d", noted, c.noted)
			}
		})
	}
}

// Rule: a card whose limit is 20 words sends them in one packet if there is no argument, and the
// receiver's notice has argument 0, whatever that one's limit is (conference paper 4.1.4; arctic).
// With an argument, and on a card of 16 words, it comes back.
func TestUnnamedTransfer(t *testing.T) {
	for _, limit := range []int{0, 16, 20} {
		for _, words := range []int{4, 16, 20} {
			for _, argument := range []uint32{0, 7} {
				t.Run(fmt.Sprint(limit, words, argument), func(t *testing.T) {
					b, m := transferBed(t, setup{cards: 2, slots: 16, net: near, tune: func(c *engine.Config) {
						c.TransferWords = limit
					}})
					fill(m[1].area, 99)
					s := b.proc[0].Reserve(funi.Request)
					s.SetUnnamed(1, 5, funi.Transfer{Source: area, Destination: area + 32, Words: words})
					s[funi.ArgumentWord] = argument
					h := s.Header()
					b.proc[0].Commit(funi.Request)
					if words > 16 && (limit != 20 || argument != 0) {
						b.comesBack(5*time.Second, b.proc[0],
							funi.Returned{Reason: arctic.ReasonTransferLength, Level: funi.Request, Header: h,
								Word: argument})
						return
					}
					got := b.receives(1, funi.Request)
					if want := (funi.Notice{Address: area + 32, Argument: argument, Words: words}); got.Notice() !=
						want {
						t.Errorf("the notice is %+v, want %+v", got.Notice(), want)
					}
					if !bytes.Equal(m[1].area[32:32+4*words], m[0].area[:4*words]) ||
						bytes.Equal(m[1].area[32+4*words:][:16], m[0].area[4*words:][:16]) {
						t.Error("other bytes arrived")
					}
				})
			}
		}
	}
}
