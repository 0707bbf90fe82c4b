package daemon_test

// This file tests that a card on which groups take turns does not switch for nothing.

import (
	"strings"
	"testing"
	"time"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/ctl/lab"
)

// Rule: hosts that take turns together agree on whose time counts, and the next card's counts when
// that card's daemon ends. Jobs that have no room beside each other go on all the while.
func TestTurnsTogether(t *testing.T) {
	b := newBedOf(t, lab.Options{Hosts: 3})
	var daemons []*running
	for host := range 3 {
		daemons = append(daemons, b.start(host, func(c *daemon.Config) {
			c.Profile, c.Turns = few(t, 1), config.TurnsTogether
		}))
	}
	var groups [][]*client
	for range 2 {
		_, nodes := group(t, daemons, 1, 2)
		groups = append(groups, nodes)
	}
	coordinated := func(by uint16) {
		t.Helper()
		for _, d := range daemons[1:] {
			eventually(t, "turns are coordinated", func() bool {
				for _, nodes := range groups {
					pingPong(t, nodes, 3)
				}
				s := d.status(t)
				if s.Turns == nil || s.Turns.Room != 1 || !s.Turns.Together {
					t.Fatalf("turns %+v", s.Turns)
				}
				return s.Turns.Card == by && s.Turns.Coordinated &&
					strings.Contains(s.Turns.String(), "1 at once, coordinated by card ")
			})
		}
	}
	coordinated(0)
	daemons[0].stop(t)
	coordinated(1)
	s := b.start(0, func(c *daemon.Config) { c.Profile = few(t, 1) }).status(t)
	if s.Turns == nil || s.Turns.Together ||
		s.Turns.String() != "groups take turns on the card, 1 at once, on this host alone" {
		t.Errorf("a host that takes its turns alone: %+v", s.Turns)
	}
}

// Rule: groups that do nothing are not switched in for a turn, and one that is out comes in
// for what its process sends, and for what comes for it (thesis 4.2).
func TestIdleGroupsTakeNoTurns(t *testing.T) {
	b := newBed(t)
	var daemons []*running
	for host := range 2 {
		daemons = append(daemons, b.start(host, func(c *daemon.Config) { c.Profile = few(t, 1) }))
	}
	var groups [][]*client
	for range 3 {
		_, nodes := group(t, daemons, 0, 1)
		groups = append(groups, nodes)
	}
	active := func() (gid uint16) {
		for _, x := range daemons[0].status(t).Contexts {
			if x.Active {
				gid = x.GID
			}
		}
		return gid
	}
	for round, nodes := range groups {
		nodes[0].send(1, uint32(round))
		if from, word := nodes[1].receive(); from != 0 || word != uint32(round) {
			t.Fatalf("got %d from node %d", word, from)
		}
		nodes[1].send(0, uint32(round))
		if from, word := nodes[0].receive(); from != 1 || word != uint32(round) {
			t.Fatalf("got %d from node %d", word, from)
		}
		// What is on the way settles: acknowledgments, and turns that began before. Groups that
		// are switched for nothing are every 10 ms, and never stay so long.
		until(t, "one group stays on the card", func() bool {
			on := active()
			for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); {
				if active() != on {
					return false
				}
			}
			return on != 0
		})
	}
}
