package daemon_test

// This file tests that a card on which groups take turns does not switch for nothing.

import (
	"testing"
	"time"

	"github.com/funet/funet/ctl/daemon"
)

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
