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

// fields reads the values of a mapping. After an error it reads no more.
type fields struct {
	keys map[string]*strictyaml.Node
	err  error
}

// text calls read with the text of a key, if the mapping has the key.
func (f *fields) text(key string, read func(n *strictyaml.Node, s string) error) {
	n, s := f.keys[key], ""
	if n == nil || f.err != nil {
		return
	}
	if s, f.err = n.Text(); f.err == nil {
		f.err = read(n, s)
	}
}

func (f *fields) file(key string, to *string) {
	f.text(key, func(_ *strictyaml.Node, s string) error {
		*to = s
		return nil
	})
}

// number reads a decimal number; why is the error of one outside the range.
func (f *fields) number(key string, to *uint16, low, high int64, why error) {
	f.text(key, func(n *strictyaml.Node, s string) error {
		// Of a number far outside every range the sign is told, which says on which side.
		v, err := strconv.ParseInt(s, 10, 64)
		switch {
		case err != nil && !errors.Is(err, strconv.ErrRange):
			return n.Errorf("%s is %q, want a decimal number", key, s)
		case v < low || v > high:
			return n.Refuse(why, "%s %d, want %d..%d", key, v, low, high)
		}
		*to = uint16(v)
		return nil
	})
}

// parse reads the tree of a file from its top node. Errors call the file name.
func parse(name string, top *strictyaml.Node) (*File, error) {
	keys, err := top.Keys("gid", "token", "key", "encap", "port", "peers")
	if err != nil {
		return nil, err
	}
	f, r := &File{}, fields{keys: keys}
	r.number("gid", &f.GID, 1, MaxGID, ErrGIDRange) // 0 is the system group
	r.text("token", func(n *strictyaml.Node, s string) (err error) {
		// What it is instead is not said: it may be nearly a secret.
		if f.Token, err = attach.ParseToken(s); err != nil || f.Token.Zero() {
			err = n.Refuse(ErrToken,
				"token of %d characters, want 64 hexadecimal digits that nobody guesses, such as `openssl rand -hex 32` prints", len(s))
		}
		return err
	})
	r.file("key", &f.Key)
	r.text("encap", func(n *strictyaml.Node, s string) (err error) {
		if f.Encap, err = ParseEncap(s); err != nil {
			err = fmt.Errorf("%s: %w", n.Where(), err)
		}
		return err
	})
	r.number("port", &f.Port, 1, encap.MaxPort, ErrPort)
	if r.err != nil {
		return nil, r.err
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
	r := fields{keys: keys}
	r.number("node", &p.Node, 0, math.MaxUint16, ErrNodeRange)
	r.text("mac", func(n *strictyaml.Node, s string) (err error) {
		// net.ParseMAC also takes the 8- and 20-byte addresses of other links; check refuses those.
		if p.MAC, err = net.ParseMAC(s); err != nil {
			err = n.Refuse(ErrMAC, "node %d has mac %q, want six bytes such as 02:46:55:00:00:01", p.Node, s)
		}
		return err
	})
	r.text("address", func(n *strictyaml.Node, s string) (err error) {
		if p.Address, err = netip.ParseAddr(s); err != nil {
			err = n.Refuse(ErrAddress, "node %d has address %q, want one such as 192.0.2.1 or 2001:db8::1", p.Node, s)
		}
		return err
	})
	r.text("iface", func(n *strictyaml.Node, s string) error {
		p.Iface = s
		if err := checkIface(s); err != nil {
			return fmt.Errorf("%s: node %d has iface %q, %w", n.Where(), p.Node, s, err)
		}
		return nil
	})
	r.file("key", &p.Key)
	if r.err != nil {
		return p, r.err
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
