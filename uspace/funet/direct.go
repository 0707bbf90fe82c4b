package funet

// This file opens a place in a job with direct ports. The daemon admits the process, which then has
// a card of its own.

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/engine/link"
	"github.com/funet/funet/uspace/port/afxdp"
	"github.com/funet/funet/uspace/port/shared"
)

// direct opens a card on a port that the daemon provides. As with a daemon's card, the program may
// use it from different threads.
func (o *Options) direct(until context.Context, cfg attach.Config) (Carrier, Place, error) {
	p, err := attach.OpenPort(cfg)
	if err != nil {
		return nil, Place{}, err
	}
	defer p.Memory.Close() // the port has mapped it
	a := p.Answer
	c := card.Config{GID: cfg.GID, Token: cfg.Token, Node: cfg.Node, Slots: cfg.Slots, Remote: cfg.Remote, CPU: -1,
		AnyThread: true, Context: until,
		Direct: &card.Direct{Direct: afxdp.Direct{FD: p.Socket, Memory: p.Memory, Geometry: a.Geometry, MTU: int(a.MTU),
			Generic: a.Generic, Sums: a.Sums}, Close: p.Close,
			Incarnation: a.Ticket.Incarnation(), Doubt: p.Doubt, PeerTimeout: a.PeerTimeout,
			ConnectTimeout: a.ConnectTimeout,
			Neighbours: &card.Neighbours{List: p.Neighbours, Join: func(node uint16) (*shared.Memory, error) {
				return shareWith(p, node)
			}, Stations: p.Stations, NoStation: attach.NoStation}}}
	for node := range a.Nodes {
		c.Peers = append(c.Peers, card.Peer{Node: uint16(node)})
	}
	var k *card.Card
	if a.Key != nil {
		c.Key, err = link.NewKey(a.Key)
		clear(a.Key)
		c.Readable = a.Readable
		if err != nil {
			_ = unix.Close(p.Socket)
		}
	}
	if err == nil {
		k, err = card.Open(c)
	}
	if err != nil {
		return nil, Place{}, errors.Join(fmt.Errorf("opening a card on a direct port: %w", err), p.Close())
	}
	go p.Watch(k.Lose, func(f attach.Fate) {
		if f.Lives {
			k.Lives(f.Node, f.Life)
		} else {
			k.Ended(f.Node, f.Life)
		}
	})
	return k, Place{Node: int(cfg.Node), Nodes: int(a.Nodes), Life: cfg.Life, GID: cfg.GID, Token: cfg.Token}, nil
}

// shareWith maps the memory that this node shares with a neighbour.
func shareWith(p *attach.Port, node uint16) (*shared.Memory, error) {
	f, err := p.Share(node, shared.Size)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := attach.MapMemory(int(f.Fd()), shared.Size)
	if err != nil {
		return nil, err
	}
	return &shared.Memory{Bytes: b, Close: func() { attach.Unmap(b) }}, nil
}
