package card

// This file is a card on a direct port: a daemon admits the process, and its helper made the socket. The job's cards are its
// nodes. There is no interface to mind, nobody to say hello to, and no address: the switch of each host knows where
// nodes are.

import (
	"context"

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
}

// direct tells the engine of the job.
func (c *Config) direct(cfg *engine.Config) {
	if c.Direct == nil {
		return
	}
	tag := arctic.JobTag(c.Token[:], c.GID)
	cfg.Direct = &tag
}

// plugDirect opens the port. The socket is the card's from then on.
func (k *Card) plugDirect(d *Direct, cfg *engine.Config) error {
	k.place = d.Close
	p, err := afxdp.OpenDirect(d.Direct)
	if err != nil {
		return err
	}
	in := plug.New(p.FrameSize())
	in.Plug(p)
	k.ports, k.sockets, cfg.Ports = []*afxdp.Port{p}, []socket{{plug: in}}, []port.Port{in}
	return nil
}

// unminded is a minder without a thread.
func (k *Card) unminded() {
	m := &minder{card: k, ended: make(chan struct{}), faults: make([]error, len(k.ports))}
	close(m.ended)
	m.until, m.end = context.WithCancel(context.Background())
	k.minder = m
}

// Direct reports whether the card is on a direct port.
func (k *Card) Direct() bool { return k.place != nil }

// Lose tells the card that the place in the job, which it has from a daemon, is the process's no more, and why: calls of the program fail
// from then on (funi.ErrDetached). Any goroutine may call it, once.
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
