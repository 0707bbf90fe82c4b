package program

// This file is one node of a group: the card with its endpoint.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"time"

	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/apps"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/keyfile"
)

// linger is how long a node that is done waits for its last packets to arrive.
const linger = 2 * time.Second

// carrier is the part of a card that a program uses. The card is in this process (card.Card) or in a
// daemon (attach.Client).
type carrier interface {
	Interface() *funi.Interface
	Drive()
	Now() int64
	// Segment returns new memory that the card may use.
	Segment(base uint32, bytes int, rights funi.Rights) ([]byte, error)
	Err() error
	Close(linger time.Duration) error
}

// Node is an open card with an endpoint on it.
type Node struct {
	carrier
	Endpoint *am.Endpoint
	ctx      context.Context // of the command; the endpoint is bound to it
	// Own is the card if it is in this process, with is the daemon's if it is not.
	Own     *card.Card
	with    *attach.Info
	socket  string              // the daemon's
	Profile *hwprofiles.Profile // of the own card
	// leads returns the interface that leads to a node, with an own card; peers is its peers file.
	leads func(node uint16) string
	peers string
	udp   bool // its frames travel in datagrams
	// Progress is told how far the program has come.
	Progress apps.Progress
}

// open makes the card that the flags describe, or attaches to the daemon's.
func (f *Flags) open(ctx context.Context) (*Node, error) {
	if f.attached() {
		return f.attach(ctx)
	}
	file, err := cluster.Load(f.peers)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("--peers: %w; `funet lab peers` prints what a peers file looks like", err)
	}
	if err != nil {
		return nil, err
	}
	if file, err = f.encapsulated(file); err != nil {
		return nil, err
	}
	gid := f.gid
	if gid == 0 {
		gid = int(file.GID)
	}
	if gid == 0 {
		gid = 1
	}
	if f.Node >= len(file.Peers) {
		return nil, fmt.Errorf("--node %d: %w: %s lists nodes 0 to %d", f.Node, card.ErrNode, f.peers, len(file.Peers)-1)
	}
	attach, err := ParseAttach(f.Mode)
	if err != nil {
		return nil, err
	}
	bind, err := ParseBind(f.Bind)
	if err != nil {
		return nil, err
	}
	cfg := card.Config{
		Interfaces: f.ifaces, GID: uint16(gid), Token: file.Token, Node: uint16(f.Node), Slots: f.Slots,
		Attach: attach, Bind: bind, HugePages: f.hugePages, CPU: f.CPU,
		Jumbo: f.Jumbo, VLAN: uint16(f.vlan), RxRing: f.rxRing, FillFrames: f.fillFrames, Queue: f.chosenQueue(), Profile: f.machine,
		Readable: f.readable, Tune: func(c *engine.Config) { c.ConnectTimeout = f.Wait }, Context: ctx,
		Tell: func(line string) { fmt.Fprintln(os.Stderr, "funet: "+line) },
	}
	var keys keyfile.Ring
	if cfg.Key, err = keys.Load(cmp.Or(f.key, file.Key)); err != nil {
		return nil, err
	}
	for _, p := range file.Peers {
		iface := p.Iface
		if len(f.ifaces) == 1 {
			iface = f.ifaces[0]
		}
		if p.Absent {
			return nil, fmt.Errorf("--peers: node %d of %s is absent: %w; a group of embedded cards wants all its nodes, daemons do not (`funid`)", p.Node, f.peers, card.ErrNode)
		}
		peer := card.Peer{Node: p.Node, Address: p.Address, Interface: iface}
		copy(peer.MAC[:], p.MAC)
		if int(p.Node) != f.Node {
			if peer.Key, err = keys.Load(p.Key); err != nil {
				return nil, err
			}
		}
		cfg.Peers = append(cfg.Peers, peer)
	}
	if file.Encap == cluster.UDP {
		cfg.UDP = &card.UDP{Port: file.Port}
	}
	// What a node allocates it allocates at the start; a collection in the middle
	// of a measurement would only be noise.
	debug.SetGCPercent(400)
	k, err := card.Open(cfg)
	if err != nil {
		return nil, err
	}
	nodes := len(file.Peers)
	if f.Alone {
		nodes = 1
	}
	e, err := am.New(k.Interface(), f.Node, nodes, k.Drive, rand.Uint64())
	if err != nil {
		return nil, errors.Join(err, k.Close(0))
	}
	if cpu := k.CPU(); cpu != nil {
		e.Pace(cpu)
	}
	e.Bind(ctx)
	leads := func(node uint16) string {
		if i := int(node); i < len(cfg.Peers) && cfg.Peers[i].Interface != "" {
			return cfg.Peers[i].Interface
		}
		return f.ifaces[0]
	}
	return &Node{carrier: k, Endpoint: e, ctx: ctx, Own: k, Profile: f.machine, leads: leads, peers: f.peers, udp: cfg.UDP != nil}, nil
}
