package daemon_test

// This file tests how a daemon finds out which node it is.

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/uspace/cluster"
)

// Rule: a daemon whose configuration has no card is the node whose address an interface of its host
// has. That interface is the daemon's own if no other is named. Where no node or several are this
// host, the daemon says so.
func TestOwnCardIsFound(t *testing.T) {
	for _, encap := range cluster.Encaps {
		t.Run(encap.String(), func(t *testing.T) {
			o := lab.Options{Hosts: 2}
			if encap == cluster.UDP {
				o.Topology = lab.Router
			}
			b := newBedOf(t, o)
			bare := *b.lab.Peers(0)
			bare.Peers = slices.Clone(bare.Peers)
			for i := range bare.Peers {
				bare.Peers[i].Iface = ""
			}
			alike := func(c *daemon.Config) { c.Card, c.FindCard, c.Peers, c.Interfaces = 0, true, &bare, nil }
			daemons := []*running{b.start(0, alike), b.start(1, alike)}
			for i, d := range daemons {
				if s := d.status(t); int(s.Card) != i || len(s.Interfaces) != 1 ||
					s.Interfaces[0] != b.lab.Hosts()[i].Interfaces[0].Name {
					t.Errorf("the daemon of host %d is card %d with %v", i, s.Card, s.Interfaces)
				}
			}
			_, nodes := group(t, daemons, 0, 1)
			nodes[0].send(1, 77)
			if from, word := nodes[1].receive(); from != 0 || word != 77 {
				t.Errorf("node %d sent %d", from, word)
			}
			for _, d := range daemons {
				d.stop(t)
			}

			refused := func(says string, change func(c *daemon.Config)) {
				t.Helper()
				c := b.config(0)
				alike(&c)
				peers := *c.Peers
				peers.Peers = slices.Clone(peers.Peers)
				c.Peers = &peers
				change(&c)
				var err error
				if doErr := b.lab.Do(0, func() error { err = c.Check(); return nil }); doErr != nil {
					t.Fatal(doErr)
				}
				if !errors.Is(err, config.ErrConfig) || !strings.Contains(err.Error(), says) ||
					strings.Contains(err.Error(), "\n") {
					t.Errorf("%v, want %q", err, says)
				}
			}
			move := func(c *daemon.Config) {
				c.Peers.Peers[0].MAC, c.Peers.Peers[0].Address = net.HardwareAddr{2, 0, 0, 0, 0, 9}, netip.Addr{}
				if encap == cluster.UDP {
					c.Peers.Peers[0].MAC, c.Peers.Peers[0].Address = nil, netip.MustParseAddr("192.0.2.9")
				}
			}
			refused("none of its 2 nodes is this host", move)
			refused("none here has", func(c *daemon.Config) { move(c); c.FindCard = false })
			refused("card 0 is this host, and absent", func(c *daemon.Config) {
				c.Peers.Peers[0] = cluster.Peer{Absent: true}
				c.FindCard = false
			})
		})
	}
}
