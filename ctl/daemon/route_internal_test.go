package daemon

import (
	"errors"
	"runtime"
	"testing"

	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/port"
)

// Rule: a route changes in the daemon's list when it changes on the card, and not before: a user
// who changes another one meanwhile does not put the old one back, and what the card refuses
// changes nothing.
func TestRouteChangesWithTheCard(t *testing.T) {
	cfg := engine.Native()
	cfg.AnyGroup, cfg.Incarnation = true, 1
	cfg.Ports = []port.Port{wire.New(wire.Config{}).Plug([6]byte{2})}
	// none has card 2
	cfg.Peers = []engine.Peer{{Card: 1, Address: [6]byte{2, 1}, Local: [6]byte{2}}}
	card, err := engine.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	d := &Daemon{jobs: map[uint16]*job{}}
	d.peers.Store(&cluster.File{Peers: make([]cluster.Peer, 3)})
	d.loop = &loop{card: card, ended: make(chan struct{})}
	j := &job{gid: 7, made: true, cards: []uint16{0, 0, 0}, members: map[uint16]*connection{}}
	d.jobs[7] = j
	var asked []chan error
	take := func() (c *command) { // the next command
		for c == nil {
			c, _ = d.loop.mailbox.take(0)
			runtime.Gosched()
		}
		return c
	}
	ask := func(node, to uint16) {
		answer := make(chan error, 1)
		go func() { answer <- d.setRoute(j, &report.Command{Node: &node, Card: &to}) }()
		asked = append(asked, answer)
	}
	ask(0, 1)
	first := take()
	ask(1, 1)
	second := take()
	ask(2, 2)
	refused := take()
	if list := d.routes(j); list.Cards[0] != 0 || list.Cards[1] != 0 || list.Cards[2] != 0 {
		t.Errorf("the list is %v before the card has changed", list.Cards)
	}
	// in another order than they were asked for
	for _, c := range []*command{refused, second, first} {
		c.do()
		close(c.done)
	}
	for i, answer := range asked {
		if err := <-answer; i < 2 && err != nil || i == 2 && !errors.Is(err, engine.ErrRoute) {
			t.Errorf("change %d: %v", i, err)
		}
	}
	if list := d.routes(j); list.Cards[0] != 1 || list.Cards[1] != 1 || list.Cards[2] != 0 {
		t.Errorf("the list is %v", list.Cards)
	}
	j.members[0] = &connection{}
	ask(0, 0)
	c := take()
	c.do()
	close(c.done)
	if err := <-asked[3]; !errors.Is(err, attach.ErrCommand) {
		t.Errorf("moving a node that is attached: %v", err)
	}
}
