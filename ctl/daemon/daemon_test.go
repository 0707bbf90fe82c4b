package daemon_test

// This file tests that processes talk through daemons.

import (
	"testing"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
)

// pingPong exchanges messages between two nodes.
func pingPong(t *testing.T, nodes []*client, n uint32) {
	t.Helper()
	for i := range n {
		for from, to := range []uint16{1, 0} {
			nodes[from].send(to, 2*i+uint32(from))
			if source, word := nodes[to].receive(); source != uint16(from) || word != 2*i+uint32(from) {
				t.Fatalf("message %d of node %d: got %d from node %d", i, from, word, source)
			}
		}
	}
}

// Rule: two processes on one host exchange messages through its daemon, in every way of
// polling, and the card's number of a message's sender is the daemon's word.
func TestTwoProcessesOfOneHost(t *testing.T) {
	b := newBed(t)
	d := b.start(0, nil)
	_, nodes := group(t, []*running{d}, 0, 0)
	pingPong(t, nodes, 200)
}

// Rule: the same between two hosts, over AF_XDP.
func TestTwoHosts(t *testing.T) {
	for _, p := range []config.Polling{config.Adaptive, config.Spin, config.Sleep} {
		t.Run(p.String(), func(t *testing.T) {
			b := newBed(t)
			tune := func(c *daemon.Config) { c.Polling = p }
			daemons := []*running{b.start(0, tune), b.start(1, tune)}
			_, nodes := group(t, daemons, 0, 1)
			// threads that spin may have to wait for a time slice
			pingPong(t, nodes, map[config.Polling]uint32{config.Adaptive: 200, config.Spin: 10, config.Sleep: 200}[p])
		})
	}
}
