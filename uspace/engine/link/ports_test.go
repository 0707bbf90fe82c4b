package link_test

// This file holds the rule of a card with several ports: a peer is where its port leads, and
// nowhere else.

import (
	"bytes"
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
	"github.com/funet/funet/uspace/port"
)

// twoPorts are the ports of a card at which the frames of one come in at the other.
type twoPorts struct {
	port.Port
	elsewhere bool
	frames    [][]byte
}

func (p *twoPorts) Receive(frames [][]byte) int {
	n := p.Port.Receive(frames)
	if !p.elsewhere {
		return n
	}
	for _, f := range frames[:n] {
		p.frames = append(p.frames, bytes.Clone(f))
	}
	return 0
}

// otherPort is the second of them.
type otherPort struct {
	port.Port
	of *twoPorts
}

func (p otherPort) Receive(frames [][]byte) int {
	n := copy(frames, p.of.frames)
	p.of.frames = p.of.frames[n:]
	return n
}

// Rule (arrive.go): a frame in a peer's name is taken at the port that leads to the peer, and at no
// other: neither a greeting, nor packets, foreseen or not, nor acknowledgments. It is counted
// (Counters.DroppedPort).
func TestFramesAtAnotherPort(t *testing.T) {
	ports := &twoPorts{elsewhere: true}
	b := newBed(t, setup{cards: 2, net: near, wrap: func(card int, p *wire.Port) port.Port {
		if card == 1 {
			return p
		}
		ports.Port = p
		return ports
	}, tune: func(c *link.Config) {
		quick(c)
		if c.Card == 0 {
			c.Ports = append(c.Ports, otherPort{ports, ports})
		}
	}})
	refused := func(what string) {
		t.Helper()
		c := &b.cards[0].Counters
		if c.DroppedPort == 0 || c.DroppedStranger != 0 {
			t.Errorf("%s: %d frames dropped as of another port, %d as a stranger's", what, c.DroppedPort,
				c.DroppedStranger)
		}
		c.DroppedPort = 0
	}
	m := b.send(1, arctic.Request, 0)
	b.pass(20 * time.Millisecond)
	if refused("greetings"); b.cards[0].Established(1) {
		t.Error("the peer is believed")
	}
	ports.elsewhere = false
	b.arrives(time.Second, m)
	b.dialogue()
	for _, what := range []string{"the frame after a dialogue", "another"} {
		ports.elsewhere = true
		m = b.send(1, arctic.Reply, 0)
		b.pass(10 * time.Millisecond)
		if refused(what); m.accepted() {
			t.Errorf("%s: it was taken", what)
		}
		ports.elsewhere = false
		b.arrives(time.Second, m)
	}
	m = b.send(0, arctic.Request, 1)
	ports.elsewhere = true
	b.pass(10 * time.Millisecond)
	if refused("acknowledgments"); m.back || !m.accepted() {
		t.Errorf("the message was taken there: %v; an acknowledgment was taken: %v", m.accepted(), m.back)
	}
	ports.elsewhere = false
	b.idle(time.Second)
}
