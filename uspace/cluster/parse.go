// This file turns the tree of a peers file into a File.

package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/funet/funet/hwprofiles/strictyaml"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/keyfile"
	"github.com/funet/funet/uspace/port/encap"
)

// format is the format of a peers file, which needs three levels.
var format = strictyaml.Format{Noun: "peers file", MaxBytes: MaxBytes, MaxDepth: 64, Invalid: ErrSyntax}

// Load reads the peers file at path. Peers in the result are sorted by node. Names of key files
// become paths, beside the peers file unless absolute; Load does not read those files.
func Load(path string) (*File, error) {
	data, err := format.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read peers file: %w", err)
	}
	f, err := Parse(path, data)
	if err != nil {
		return nil, err
	}
	folder := filepath.Dir(path)
	f.Key = keyfile.Resolve(folder, f.Key)
	for i := range f.Peers {
		f.Peers[i].Key = keyfile.Resolve(folder, f.Peers[i].Key)
	}
	return f, nil
}

// Parse reads a peers file from data; errors call it name. Peers in the result are sorted by node.
// Any data are safe to give.
func Parse(name string, data []byte) (*File, error) {
	top, err := format.Parse(name, data)
	if err != nil {
		return nil, err
	}
	if top == nil {
		return nil, fmt.Errorf("%s: empty, want peers: with at least %d entries: %w", name, MinNodes, ErrPeerCount)
	}
	return parse(name, top)
}

// parse reads the tree of a file from its top node. Errors call the file name.
func parse(name string, top *strictyaml.Node) (*File, error) {
	keys, err := top.Keys("gid", "token", "key", "encap", "port", "peers")
	if err != nil {
		return nil, err
	}
	f := &File{}
	if n := keys["gid"]; n != nil {
		gid, err := integer(n, "gid")
		if err != nil {
			return nil, err
		}
		if gid < 1 || gid > MaxGID {
			return nil, n.Refuse(ErrGIDRange, "gid %d, want 1..%d (0 is the system group)", gid, MaxGID)
		}
		f.GID = uint16(gid)
	}
	if n := keys["token"]; n != nil {
		s, err := n.Text()
		if err != nil {
			return nil, err
		}
		// What it is instead is not said: it may be nearly a secret.
		if f.Token, err = attach.ParseToken(s); err != nil || f.Token.Zero() {
			return nil, n.Refuse(ErrToken,
				"token of %d characters, want 64 hexadecimal digits that nobody guesses, such as `openssl rand -hex 32` prints", len(s))
		}
	}
	if n := keys["key"]; n != nil {
		if f.Key, err = n.Text(); err != nil {
			return nil, err
		}
	}
	if n := keys["encap"]; n != nil {
		s, err := n.Text()
		if err != nil {
			return nil, err
		}
		if f.Encap, err = ParseEncap(s); err != nil {
			return nil, fmt.Errorf("%s: %w", n.Where(), err)
		}
	}
	if n := keys["port"]; n != nil {
		port, err := integer(n, "port")
		if err != nil {
			return nil, err
		}
		if port < 1 || port > encap.MaxPort {
			return nil, n.Refuse(ErrPort, "port %d, want 1..%d", port, encap.MaxPort)
		}
		f.Port = uint16(port)
	}
	n := keys["peers"]
	if n == nil {
		return nil, fmt.Errorf("%s: no peers, want at least %d: %w", name, MinNodes, ErrPeerCount)
	}
	if n.Null() {
		return nil, n.Refuse(ErrPeerCount, "peers is empty, want at least %d", MinNodes)
	}
	list, ok := n.List()
	if !ok {
		return nil, n.Errorf("peers is %s, want a list", n.What())
	}
	for _, n := range list {
		p, err := parsePeer(n)
		if err != nil {
			return nil, err
		}
		f.Peers = append(f.Peers, p)
	}
	// Nodes that all have nothing but IP addresses can only be meant to be sent datagrams.
	has := func(what func(Peer) bool) bool { return slices.ContainsFunc(f.Peers, what) }
	if keys["encap"] == nil && has(func(p Peer) bool { return p.Address.IsValid() }) &&
		!has(func(p Peer) bool { return p.MAC != nil }) {
		f.Encap = UDP
	}
	// The rules are applied in the file's order, so that of two duplicates the second is blamed.
	err = f.check(func(i int) string {
		if i < 0 {
			return n.Where()
		}
		return list[i].Where()
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(f.Peers, func(a, b Peer) int { return cmp.Compare(a.Node, b.Node) })
	return f, nil
}

func parsePeer(n *strictyaml.Node) (p Peer, err error) {
	keys, err := n.Keys("node", "mac", "address", "iface", "groups", "key", "absent")
	if err != nil {
		return p, err
	}
	if n := keys["absent"]; n != nil {
		if p.Absent, _ = n.Bool(); !p.Absent {
			return p, n.Errorf("absent is %s, want true, or leave it out", n.What())
		}
	}
	switch {
	case keys["node"] == nil:
		return p, n.Errorf("a peer without node; each needs node and mac, or node and address")
	case keys["mac"] == nil && keys["address"] == nil && !p.Absent:
		return p, n.Errorf("a peer without mac; each needs node and mac, or node and address")
	}
	node, err := integer(keys["node"], "node")
	if err != nil {
		return p, err
	}
	if node < 0 || node > math.MaxUint16 {
		return p, keys["node"].Refuse(ErrNodeRange, "node %d, want 0..%d", node, math.MaxUint16)
	}
	p.Node = uint16(node)

	if n := keys["mac"]; n != nil {
		mac, err := n.Text()
		if err != nil {
			return p, err
		}
		// net.ParseMAC also takes the 8- and 20-byte addresses of other links; check refuses those.
		if p.MAC, err = net.ParseMAC(mac); err != nil {
			return p, n.Refuse(ErrMAC, "node %d has mac %q, want six bytes such as 02:46:55:00:00:01", p.Node, mac)
		}
	}
	if n := keys["address"]; n != nil {
		a, err := n.Text()
		if err != nil {
			return p, err
		}
		if p.Address, err = netip.ParseAddr(a); err != nil {
			return p, n.Refuse(ErrAddress, "node %d has address %q, want one such as 192.0.2.1 or 2001:db8::1",
				p.Node, a)
		}
	}
	if n := keys["iface"]; n != nil {
		if p.Iface, err = n.Text(); err != nil {
			return p, err
		}
		if err := checkIface(p.Iface); err != nil {
			return p, fmt.Errorf("%s: node %d has iface %q, %w", n.Where(), p.Node, p.Iface, err)
		}
	}
	if n := keys["key"]; n != nil {
		if p.Key, err = n.Text(); err != nil {
			return p, err
		}
	}
	if n := keys["groups"]; n != nil {
		list, ok := n.List()
		if !ok || len(list) == 0 {
			return p,
				n.Errorf("groups of node %d: want a list of GIDs in brackets, such as [1-100, 200], or leave it out for all", p.Node)
		}
		for _, n := range list {
			s, err := n.Text()
			if err != nil {
				return p, err
			}
			r, err := ParseRange(s)
			if err != nil {
				return p, fmt.Errorf("%s: groups of node %d: %w", n.Where(), p.Node, err)
			}
			p.Groups = append(p.Groups, r)
		}
	}
	return p, nil
}

func integer(n *strictyaml.Node, key string) (int64, error) {
	s, err := n.Text()
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		// Far outside every range of the format; the sign says on which side. The caller's
		// range check reports it.
		return v, nil
	}
	if err != nil {
		return 0, n.Errorf("%s is %q, want a decimal number", key, s)
	}
	return v, nil
}
