package card

// This file is a card on a direct port: a daemon admits the process, and its helper made the
// socket. The job's cards are its nodes. There is no interface to mind, nobody to say hello to, and
// no address: the switch of each host knows where nodes are. fate.go is what the daemon tells of
// them.

import (
	"context"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/port"
	"github.com/funet/funet/uspace/port/afxdp"
	"github.com/funet/funet/uspace/port/plug"
)

// Direct is a port that a daemon's helper made for this process.
type Direct struct {
	afxdp.Direct // the socket becomes the card's, and the memory stays the caller's
	// Close gives back the place in the job that the port is for, when the card is closed.
	Close func() error
	// Incarnation is the card's, by which the daemon knows the process.
	Incarnation uint32
	// Doubt asks whether the process of a node lives, which was silent for half of PeerTimeout, by
	// the incarnation of its card: Ended or Lives may answer. Whoever drives the card calls it, and
	// it does not wait. nil: nobody knows.
	Doubt func(node uint16, life uint32)
	// PeerTimeout and ConnectTimeout are those of engine.Config; 0: the defaults.
	PeerTimeout, ConnectTimeout time.Duration
	// Neighbours has frames to nodes of the same host go through memory; nil: they go by the port.
	Neighbours *Neighbours
}

// direct tells the engine of the job.
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
	in := plug.New(p.FrameSize())
	in.Plug(p)
	k.ports, k.sockets, cfg.Ports = []*afxdp.Port{p}, []socket{{plug: in}}, []port.Port{in}
	if d.Neighbours != nil {
		cfg.Ports[0] = k.neighbour(in, c)
	}
	return nil
}

// unminded is a minder without a thread.
func (k *Card) unminded() {
	m := &minder{card: k, ended: make(chan struct{}), faults: make([]error, len(k.ports))}
	close(m.ended)
	m.until, m.end = context.WithCancel(context.Background())
	k.minder = m
}

// relieve is a step while the program computes. It returns for how many nanoseconds there is
// nothing to do; 0: there is more.
func (k *Card) relieve() (rest int64) {
	k.neighbours.attend()
	k.engine.Retime()
	k.now = k.wall()
	before := k.engine.Progress()
	next := k.engine.Step(k.now)
	if k.attendNews() || k.engine.Progress() != before || !k.neighbours.doze() {
		return 0
	}
	return max(next-k.now, 0)
}

// Direct reports whether the card is on a direct port.
func (k *Card) Direct() bool { return k.place != nil }

// Lose tells the card that the place in the job, which it has from a daemon, is the process's no
// more, and why: calls of the program fail from then on (funi.ErrDetached). Any goroutine may call
// it, once.
func (k *Card) Lose(why error) {
	k.loss.Store(&why)
	k.Interrupt()
}

// attendLoss says so to the program.
func (k *Card) attendLoss() {
	if why := k.loss.Load(); why != nil && k.lost == nil {
		k.lost = *why
		k.page.PutWhy(k.lost.Error())
		k.page.PutGone()
	}
}
