package link_test

// This file holds the rules of who sends next: accounts take turns, in bytes.

import (
	"fmt"
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
)

// crowd is a card that two accounts use: a victim with one owner, the card's own, and others with
// many owners of several groups, who always have something to send.
type crowd struct {
	*bed
	level  arctic.Level
	others []*owner
	nodes  int
	block  int
	next   int
	// By owners' account, of frames with packets since they were cleared.
	before, victims int // bytes before the victim's first frame, of the victim
	found           bool
}

func newCrowd(t *testing.T, level arctic.Level, owners, groups, nodes, block int) *crowd {
	t.Helper()
	c := &crowd{level: level, nodes: nodes, block: block}
	c.bed = newBed(t, setup{cards: 2, net: wire.Config{Delay: 10 * time.Microsecond}, tune: func(c *link.Config) {
		c.AnyGroup = true
	},
		wrap: tapped(func(card int, f arctic.Frame) bool {
			switch h := f.Header(); {
			case card != 0 || f.Packets() == 0:
			case h.GID == gid:
				c.found = true
				c.victims += len(f)
			case !c.found:
				c.before += len(f)
			}
			return true
		})})
	account := new(link.Account)
	for i := range owners {
		o := c.join(0, account)
		o.GID = uint16(8 + i%groups)
		c.others = append(c.others, o)
	}
	return c
}

// stuff lets the others have something to send.
func (c *crowd) stuff() {
	for i, o := range c.others {
		c.cards[0].Uses(o.Account, 0)
		var data []byte
		if c.block > 0 {
			data = pattern(c.block, 1)
		}
		for len(c.blocks) < 1<<16-1 && o.out < 1000/len(c.others)+2 {
			c.next++
			if c.put(o, 1, uint16(100+(i+c.next)%c.nodes), c.level, 20, data) == nil {
				break
			}
		}
	}
	c.cards[0].Uses(c.own[0].Account, 0)
}

// exchange sends a message of the victim and waits until it is delivered.
func (c *crowd) exchange() {
	c.t.Helper()
	c.before, c.found = 0, false
	m := c.send(0, arctic.Request, 1)
	// as long as a step takes
	for end := c.now + int64(time.Second); m.at == 0; c.step(c.now + 500) {
		c.stuff()
		if c.now > end {
			c.t.Fatal("the victim's message does not arrive")
		}
	}
}

// Rule (doc.go, who sends pays; turn.go, account.go): what an account sends waits for at most a few
// kilobytes of another account's frames. That holds however many owners, groups, nodes and streams
// the other account has. It also holds if its frames are replies, blocks, or for nodes that take
// nothing.
func TestAccountsShareDispatch(t *testing.T) {
	for _, k := range []struct {
		level                 arctic.Level
		owners, groups, nodes int
		block                 int
		full                  bool
	}{
		{arctic.Request, 1, 1, 1, 0, false},
		{arctic.Request, 64, 1, 1, 0, false},
		{arctic.Request, 1, 1, 200, 0, false},
		{arctic.Reply, 64, 1, 10, 0, false},
		{arctic.Request, 64, 16, 10, 0, false},
		{arctic.Request, 8, 2, 4, 32 << 10, false},
		{arctic.Request, 64, 4, 3, 0, true},
		{arctic.Reply, 64, 4, 3, 0, true},
	} {
		t.Run(fmt.Sprintf("%+v", k), func(t *testing.T) {
			c := newCrowd(t, k.level, k.owners, k.groups, k.nodes, k.block)
			c.judge = func(_ int, m *message) arctic.Reason {
				if k.full && m.owner.GID != gid {
					return arctic.ReasonQueueFull
				}
				return arctic.ReasonNone
			}
			c.exchange()
			for i := range 20 {
				if c.exchange(); c.before > 2*link.BesideBytes+2*1514 {
					t.Fatalf("message %d waited for %d bytes of another account", i, c.before)
				}
			}
			c.checked()
		})
	}
}

// Rule (account.go): an account for which the card has worked sends nothing new for twice as long,
// and the card has nothing to do until then; another's messages leave.
func TestRestingAccount(t *testing.T) {
	c := newCrowd(t, arctic.Request, 4, 2, 3, 0)
	c.exchange()
	c.pass(5 * time.Millisecond)
	c.exchange() // so both use the card
	c.pass(5 * time.Millisecond)
	card, took := c.cards[0], int64(50*time.Microsecond)
	card.Charge(c.now, 0)
	card.Uses(c.others[0].Account, 100)
	if over := card.Charge(c.now, took); over != 0 {
		t.Errorf("%d ns of a first charge are too much", over)
	}
	ends := c.now + 2*took
	c.before, c.found = 0, false
	c.stuff()
	c.step(c.now + 1)
	if next := card.Next(); next <= c.now || next > ends {
		t.Errorf("a card whose account rests wants to go on at %d, now is %d, and the rest ends at %d", next, c.now, ends)
	}
	m := c.send(0, arctic.Request, 1)
	for c.now < ends-5000 {
		c.step(c.now + 1000)
	}
	if c.before != 0 || m.at == 0 {
		t.Errorf("an account sent %d bytes while it rested; another's message came: %v", c.before, m.at != 0)
	}
	sent := card.Counters.PacketsSent
	for range 3 {
		c.step(max(ends, c.now+1))
	}
	if card.Counters.PacketsSent == sent {
		t.Error("an account does not go on after its rest")
	}
	c.checked()
}

// Rule (account.go; Shreedhar and Varghese): two accounts that always have something to send get
// about the same in bytes. One of them may have many owners, many nodes, or blocks where the other
// has messages. An account that has the card to itself sends all.
func TestAccountsGetTheSameBytes(t *testing.T) {
	for _, k := range []struct{ owners, groups, nodes, block int }{{1, 1, 1, 0}, {32, 1, 1, 0}, {32, 8, 10, 0},
		{4, 4, 10, 16 << 10}} {
		c := newCrowd(t, arctic.Request, k.owners, k.groups, k.nodes, k.block)
		c.exchange()
		feed := func(d time.Duration) {
			for end := c.now + int64(d); c.now < end; c.step(c.now + 500) {
				c.stuff()
				for c.own[0].out < 500 {
					c.put(c.own[0], 1, 1, arctic.Request, 20, nil)
				}
			}
		}
		feed(500 * time.Microsecond)
		c.victims, c.before, c.found = 0, 0, false
		all := c.cards[0].Counters.FrameBytesSent
		feed(time.Millisecond)
		all = c.cards[0].Counters.FrameBytesSent - all
		if part := float64(c.victims) / float64(all); part < 0.35 || part > 0.65 {
			t.Errorf("%+v: one of two accounts got %.2f of %d bytes", k, part, all)
		}
	}
}

// Rule (turn.go): the jobs of an account share what it has, and the streams of a job share what
// that has: a job of one stream gets as much as one of forty.
func TestJobsOfAnAccountShare(t *testing.T) {
	sent := map[uint16]int{}
	b := newBed(t, setup{cards: 2, net: near, tune: func(c *link.Config) {
		c.AnyGroup, c.FirstWindow = true, 4
	}, wrap: tapped(func(card int, f arctic.Frame) bool {
		if card == 0 && f.Packets() > 0 {
			sent[f.Header().GID] += len(f)
		}
		return true
	})})
	small, big := b.own[0], b.join(0, b.own[0].Account)
	big.GID = 9
	feed := func(d time.Duration) {
		for end := b.now + int64(d); b.now < end; b.step(b.now + 500) {
			for small.out < 900 {
				b.put(small, 1, 1, arctic.Request, 20, nil)
			}
			for i := uint16(0); big.out < 900; i++ {
				b.put(big, 1, 100+i%40, arctic.Request, 20, nil)
			}
		}
	}
	feed(500 * time.Microsecond)
	clear(sent)
	feed(time.Millisecond)
	if part := float64(sent[gid]) / float64(sent[gid]+sent[9]); part < 0.35 || part > 0.65 {
		t.Errorf("a job of one stream got %.2f beside one of 40", part)
	}
	if b.cards[0].Contended() || b.cards[0].Quantum != link.AloneBytes {
		t.Error("one account counts as two")
	}
}
