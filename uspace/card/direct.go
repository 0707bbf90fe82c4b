package card

// This file is a card on a direct port: a daemon admits the process, and its helper made the
// socket. The job's cards are its nodes. There are no interfaces to watch, no hellos and no
// addresses: the switch of each host knows the places of the nodes. fate.go takes the daemon's news
// of them.

import (
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/port"
	"github.com/funet/funet/uspace/port/afxdp"
)

// Direct is a port that a daemon's helper made for this process.
type Direct struct {
	afxdp.Direct // the socket becomes the card's, and the memory stays the caller's
	// Close gives back the place in the job that the port is for, when the card is closed.
	Close       func() error
	Incarnation uint32 // the card's; the daemon knows the process by it
	// Doubt asks the daemon whether the process of a node lives that was silent for half of
	// PeerTimeout. life is the incarnation of the node's card. Ended or Lives may answer. The
	// goroutine that drives the card calls Doubt, which does not wait. nil: no daemon can be asked.
	Doubt func(node uint16, life uint32)
	// PeerTimeout and ConnectTimeout are those of engine.Config; 0: the defaults.
	PeerTimeout, ConnectTimeout time.Duration
	// Neighbours has frames to nodes of the same host go through memory; nil: they go by the port.
	Neighbours *Neighbours
}

// direct sets the parts of the engine's configuration that a direct port needs.
func (c *Config) direct(cfg *engine.Config) {
	if c.Direct == nil {
		return
	}
	tag := arctic.JobTag(c.Token[:], c.GID)
	cfg.Direct, cfg.Doubt = &tag, c.Direct.Doubt
	if c.Direct.Incarnation != 0 {
		cfg.Incarnation = c.Direct.Incarnation
	}
	if c.Direct.PeerTimeout != 0 {
		cfg.PeerTimeout = c.Direct.PeerTimeout
	}
	if c.Direct.ConnectTimeout != 0 {
		cfg.ConnectTimeout = c.Direct.ConnectTimeout
	}
}

// plugDirect opens the port. The socket is the card's from then on.
func (k *Card) plugDirect(c *Config, cfg *engine.Config) error {
	d := c.Direct
	k.place = d.Close
	p, err := afxdp.OpenDirect(d.Direct)
	if err != nil {
		return err
	}
	k.ports, k.sockets, cfg.Ports = []*afxdp.Port{p}, make([]socket, 1), []port.Port{p}
	if d.Neighbours != nil {
		cfg.Ports[0] = k.neighbour(p, c)
	}
	return nil
}

// relieve is a step of the relief while the program computes. It returns the time in nanoseconds
// until there is work again; 0: there is more work now.
func (k *Card) relieve() (rest int64) {
	if k.neighbours != nil {
		k.neighbours.attend()
	}
	k.engine.Retime()
	k.now = k.wall()
	before := k.engine.Progress()
	next := k.engine.Step(k.now)
	asked := k.asked.Load()
	if asked {
		k.attend()
	}
	if asked || k.engine.Progress() != before || !k.neighbours.doze() {
		return 0
	}
	return max(next-k.now, 0)
}

// Direct reports whether the card is on a direct port.
func (k *Card) Direct() bool { return k.place != nil }

// Lose tells the card that it has lost its place in the daemon's job, and why. Calls of the program
// fail from then on (funi.ErrDetached). Any goroutine may call Lose, once.
func (k *Card) Lose(why error) {
	k.loss.Store(&why)
	k.ask()
}
