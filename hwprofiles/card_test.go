package hwprofiles_test

// This file tests that the limits of a profile's card are those of the engine and of packets.

import (
	"testing"

	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// config is a card's configuration with the limits of a profile. None of them is zero.
func config(c hwprofiles.Card) engine.Config {
	e := engine.Native()
	e.Incarnation = 1
	e.Lines, e.ReplyLines, e.Sets, e.FIFO = c.Lines, c.ReplyLines, c.Contexts, c.FIFOPackets
	e.Train, e.Blocks, e.AckEvery = c.TrainPackets, c.Blocks, c.AcknowledgeEveryFrames
	return e
}

// The engine takes the cards of the papers, and each limit up to the profile's range and not
// beyond it.
func TestEngineTakesTheCard(t *testing.T) {
	p, err := hwprofiles.Load("sbus-arctic")
	if err != nil {
		t.Fatal(err)
	}
	paper, err := hwprofiles.Load("sbus-arctic-paper")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []hwprofiles.Card{p.Card, paper.Card} {
		if _, err := engine.New(config(c)); err != nil {
			t.Error(err)
		}
	}
	for what, limit := range map[string]struct {
		of   func(*hwprofiles.Card) *int
		most int
	}{
		"lines":      {func(c *hwprofiles.Card) *int { return &c.Lines }, 4096},
		"contexts":   {func(c *hwprofiles.Card) *int { return &c.Contexts }, funi.MaxContexts},
		"train":      {func(c *hwprofiles.Card) *int { return &c.TrainPackets }, arctic.MaxTrain},
		"ack frames": {func(c *hwprofiles.Card) *int { return &c.AcknowledgeEveryFrames }, 32},
	} {
		for _, n := range []int{limit.most, limit.most + 1} {
			q := *p
			*limit.of(&q.Card) = n
			good := n == limit.most
			if err := q.Check(); (err == nil) != good {
				t.Errorf("%d %s: Check says %v", n, what, err)
			}
			if _, err := engine.New(config(q.Card)); (err == nil) != good {
				t.Errorf("%d %s: the engine says %v", n, what, err)
			}
		}
	}
	virtual, err := hwprofiles.Load("virt-ni")
	if err != nil {
		t.Fatal(err)
	}
	if v := virtual.Card; v.VPIDs != funi.MaxContexts || v.TriggerCountMax != funi.MaxIssue {
		t.Errorf("%d virtual ports, triggers of %d requests; the card has %d and %d", v.VPIDs, v.TriggerCountMax,
			funi.MaxContexts, funi.MaxIssue)
	}
	if n := paper.Card.TransferWords; n != arctic.MaxPartWords {
		t.Errorf("the paper's XFER packets carry %d words, a part %d", n, arctic.MaxPartWords)
	}
	if n := p.Card.TransferWords; n != arctic.MaxPartWords {
		t.Errorf("the packets of Table 6.1 carry %d words, a single without an argument %d", n, arctic.MaxPartWords)
	}
	if n := p.Card.FIFOPackets; n != 256/arctic.MaxPacketWords {
		t.Errorf("a FIFO of 256 words holds %d packets of the longest form, not %d", 256/arctic.MaxPacketWords, n)
	}
}
