package funet

// This file makes the configuration of a card from a peers file.

import (
	"fmt"

	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/uspace/keyfile"
)

// Group returns the configuration of a card in this process, as a node of the group that a peers
// file describes, on the given interfaces. The file names the interface that leads to each node; a
// single given interface leads to all nodes. The group is that of the file, or 1. Keys are read
// from the files that it names. Any goroutine may drive the card (card.Config.AnyThread).
//
// Errors are those of cluster.Load and of keyfile, and card.ErrNode for a node that is not in the
// file, or is absent there.
func Group(path string, node int, interfaces []string) (card.Config, error) {
	file, err := cluster.Load(path)
	if err != nil {
		return card.Config{}, err
	}
	cfg, err := Members(file, node, interfaces, file.Key)
	if err != nil {
		return card.Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return cfg, nil
}

// Members is Group for a file that has been read. The key is read from keyPath instead of the
// file's own key file; "" means no key.
func Members(file *cluster.File, node int, interfaces []string, keyPath string) (cfg card.Config, err error) {
	if node < 0 || node >= len(file.Peers) {
		return cfg, fmt.Errorf("node %d: %w: the file lists nodes 0 to %d", node, card.ErrNode, len(file.Peers)-1)
	}
	cfg = card.Config{Interfaces: interfaces, GID: max(file.GID, 1), Token: file.Token, Node: uint16(node), CPU: -1,
		AnyThread: true}
	var keys keyfile.Ring
	if cfg.Key, err = keys.Load(keyPath); err != nil {
		return cfg, err
	}
	for _, p := range file.Peers {
		if p.Absent {
			return cfg,
				fmt.Errorf("node %d is absent: %w; a group of embedded cards wants all its nodes, daemons do not (funid)", p.Node, card.ErrNode)
		}
		peer := card.Peer{Node: p.Node, Address: p.Address, Interface: p.Iface}
		if len(interfaces) == 1 {
			peer.Interface = interfaces[0]
		}
		copy(peer.MAC[:], p.MAC)
		if int(p.Node) != node {
			if peer.Key, err = keys.Load(p.Key); err != nil {
				return cfg, err
			}
		}
		cfg.Peers = append(cfg.Peers, peer)
	}
	if file.Encap == cluster.UDP {
		cfg.UDP = &card.UDP{Port: file.Port}
	}
	cfg.Bundles = file.Encap == cluster.Hub
	return cfg, nil
}
