// How the bytes of a peers file become a File: the YAML tree is walked by hand, so that every
// complaint has the line it is about and nothing that the format does not have is let through.

package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/funet/funet/hwprofiles/yamldepth"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/port/encap"
)

// Load reads the peers file at path. Peers in the result are sorted by node.
func Load(path string) (*File, error) {
	r, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read peers file: %w", err)
	}
	defer r.Close()
	// One byte more than is allowed shows that there is more.
	data, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read peers file: %w", err)
	}
	return Parse(path, data)
}

// Parse reads a peers file from data; name stands for it in errors. Peers in the result are sorted
// by node. Any bytes are safe to give.
func Parse(name string, data []byte) (f *File, err error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("%s: %d bytes, at most %d: %w", name, len(data), MaxBytes, ErrTooLarge)
	}
	if line, _ := yamldepth.Exceeds(data, maxDepth); line != 0 {
		return nil, fmt.Errorf("%s:%d: nested deeper than a peers file can be: %w", name, line, ErrSyntax)
	}
	t := text{name}
	top, err := t.tree(data)
	if err != nil {
		return nil, err
	}
	return t.file(top)
}

// maxDepth is how deep a file may be nested; the format needs three levels.
const maxDepth = 64

// text makes errors that name the file and the line of a node.
type text struct{ name string }

func (t text) at(n ast.Node) string {
	if tk := n.GetToken(); tk != nil && tk.Position != nil {
		return fmt.Sprintf("%s:%d", t.name, tk.Position.Line)
	}
	return t.name
}

// tree parses data and returns the root of its only document.
func (t text) tree(data []byte) (top ast.Node, err error) {
	defer func() {
		// A fault in the YAML parser is an error about the bytes that brought it about.
		if r := recover(); r != nil {
			top, err = nil, fmt.Errorf("%s: the YAML parser failed (%v): %w", t.name, r, ErrSyntax)
		}
	}()
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		var at yaml.Error
		if errors.As(err, &at) && at.GetToken() != nil && at.GetToken().Position != nil {
			return nil, fmt.Errorf("%s:%d: %s: %w", t.name, at.GetToken().Position.Line, at.GetMessage(), ErrSyntax)
		}
		return nil, fmt.Errorf("%s: %v: %w", t.name, err, ErrSyntax)
	}
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil:
		case top != nil:
			return nil, fmt.Errorf("%s: a second YAML document; a peers file is one: %w", t.at(doc.Body), ErrSyntax)
		default:
			top = doc.Body
		}
	}
	if top == nil {
		return nil, fmt.Errorf("%s: empty, want peers: with at least %d entries: %w", t.name, MinNodes, ErrPeerCount)
	}
	return top, nil
}

// file reads the top of the tree.
func (t text) file(top ast.Node) (*File, error) {
	keys, err := t.mapping(top, "gid", "token", "encap", "port", "peers")
	if err != nil {
		return nil, err
	}
	f := &File{}
	if n := keys["gid"]; n != nil {
		gid, err := t.integer(n, "gid")
		if err != nil {
			return nil, err
		}
		if gid < 1 || gid > MaxGID {
			return nil, fmt.Errorf("%s: gid %d, want 1..%d (0 is the system group): %w", t.at(n), gid, MaxGID, ErrGIDRange)
		}
		f.GID = uint16(gid)
	}
	if n := keys["token"]; n != nil {
		s, err := t.scalar(n, "token")
		if err != nil {
			return nil, err
		}
		// What it is instead is not said: it may be nearly a secret.
		if f.Token, err = attach.ParseToken(s); err != nil || f.Token.Zero() {
			return nil, fmt.Errorf("%s: token of %d characters, want 64 hexadecimal digits that nobody guesses, such as `openssl rand -hex 32` prints: %w", t.at(n), len(s), ErrToken)
		}
	}
	if n := keys["encap"]; n != nil {
		s, err := t.scalar(n, "encap")
		if err == nil {
			f.Encap, err = ParseEncap(s)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.at(n), err)
		}
	}
	if n := keys["port"]; n != nil {
		port, err := t.integer(n, "port")
		if err != nil {
			return nil, err
		}
		if port < 1 || port > encap.MaxPort {
			return nil, fmt.Errorf("%s: port %d, want 1..%d: %w", t.at(n), port, encap.MaxPort, ErrPort)
		}
		f.Port = uint16(port)
	}
	n := keys["peers"]
	if n == nil {
		return nil, fmt.Errorf("%s: no peers, want at least %d: %w", t.name, MinNodes, ErrPeerCount)
	}
	if _, null := n.(*ast.NullNode); null {
		return nil, fmt.Errorf("%s: peers is empty, want at least %d: %w", t.at(n), MinNodes, ErrPeerCount)
	}
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		return nil, fmt.Errorf("%s: peers is %s, want a list: %w", t.at(n), n.Type(), ErrSyntax)
	}

	type entry struct {
		Peer
		at string
	}
	entries := make([]entry, 0, len(list.Values))
	for _, n := range list.Values {
		p, err := t.peer(n)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{p, t.at(n)})
		f.Peers = append(f.Peers, p)
	}
	// Nodes that all have nothing but IP addresses can only be meant to be sent datagrams.
	has := func(what func(Peer) bool) bool { return slices.ContainsFunc(f.Peers, what) }
	if keys["encap"] == nil && has(func(p Peer) bool { return p.Address.IsValid() }) && !has(func(p Peer) bool { return p.MAC != nil }) {
		f.Encap = UDP
	}
	// The rules are applied in the order of the file, so that of two duplicates the second is blamed.
	err = f.check(func(i int) string {
		if i < 0 {
			return t.at(n)
		}
		return entries[i].at
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(f.Peers, func(a, b Peer) int { return cmp.Compare(a.Node, b.Node) })
	return f, nil
}

// peer reads one entry of the list.
func (t text) peer(n ast.Node) (p Peer, err error) {
	keys, err := t.mapping(n, "node", "mac", "address", "iface", "groups", "absent")
	if err != nil {
		return p, err
	}
	if n := keys["absent"]; n != nil {
		if p.Absent = n.GetToken().Value == "true"; !p.Absent {
			return p, fmt.Errorf("%s: absent is %q, want true, or leave it out: %w", t.at(n), n.GetToken().Value, ErrSyntax)
		}
	}
	switch {
	case keys["node"] == nil:
		return p, fmt.Errorf("%s: a peer without node; each needs node and mac, or node and address: %w", t.at(n), ErrSyntax)
	case keys["mac"] == nil && keys["address"] == nil && !p.Absent:
		return p, fmt.Errorf("%s: a peer without mac; each needs node and mac, or node and address: %w", t.at(n), ErrSyntax)
	}
	node, err := t.integer(keys["node"], "node")
	if err != nil {
		return p, err
	}
	if node < 0 || node > math.MaxUint16 {
		return p, fmt.Errorf("%s: node %d, want 0..%d: %w", t.at(keys["node"]), node, math.MaxUint16, ErrNodeRange)
	}
	p.Node = uint16(node)

	if n := keys["mac"]; n != nil {
		mac, err := t.scalar(n, "mac")
		if err != nil {
			return p, err
		}
		// net.ParseMAC also takes the 8- and 20-byte addresses of other links; check refuses those.
		if p.MAC, err = net.ParseMAC(mac); err != nil {
			return p, fmt.Errorf("%s: node %d has mac %q, want six bytes such as 02:46:55:00:00:01: %w",
				t.at(n), p.Node, mac, ErrMAC)
		}
	}
	if n := keys["address"]; n != nil {
		a, err := t.scalar(n, "address")
		if err != nil {
			return p, err
		}
		if p.Address, err = netip.ParseAddr(a); err != nil {
			return p, fmt.Errorf("%s: node %d has address %q, want one such as 192.0.2.1 or 2001:db8::1: %w",
				t.at(n), p.Node, a, ErrAddress)
		}
	}
	if n := keys["iface"]; n != nil {
		if p.Iface, err = t.scalar(n, "iface"); err != nil {
			return p, err
		}
		if err := checkIface(p.Iface); err != nil {
			return p, fmt.Errorf("%s: node %d has iface %q, %w", t.at(n), p.Node, p.Iface, err)
		}
	}
	if n := keys["groups"]; n != nil {
		list, ok := n.(*ast.SequenceNode)
		if !ok || len(list.Values) == 0 {
			return p, fmt.Errorf("%s: groups of node %d: want a list of GIDs in brackets, such as [1-100, 200], or leave it out for all: %w", t.at(n), p.Node, ErrSyntax)
		}
		for _, n := range list.Values {
			s, err := t.scalar(n, "groups")
			if err != nil {
				return p, err
			}
			r, err := ParseRange(s)
			if err != nil {
				return p, fmt.Errorf("%s: groups of node %d: %w", t.at(n), p.Node, err)
			}
			p.Groups = append(p.Groups, r)
		}
	}
	return p, nil
}

// mapping returns the values of a mapping that may have the given keys, each once.
func (t text) mapping(n ast.Node, allowed ...string) (map[string]ast.Node, error) {
	var values []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	default:
		return nil, fmt.Errorf("%s: %s, want the keys %s: %w", t.at(n), n.Type(), strings.Join(allowed, ", "), ErrSyntax)
	}
	keys := make(map[string]ast.Node, len(values))
	for _, v := range values {
		key := v.Key.GetToken().Value
		if !slices.Contains(allowed, key) {
			return nil, fmt.Errorf("%s: key %q, want %s: %w", t.at(v.Key), key, strings.Join(allowed, ", "), ErrUnknownKey)
		}
		if before, ok := keys[key]; ok {
			return nil, fmt.Errorf("%s: key %q is already at %s: %w", t.at(v.Key), key, t.at(before), ErrDuplicateKey)
		}
		keys[key] = v.Value
	}
	return keys, nil
}

// integer returns the value of a decimal integer.
func (t text) integer(n ast.Node, key string) (int64, error) {
	s, err := t.scalar(n, key)
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
		return 0, fmt.Errorf("%s: %s is %q, want a decimal number: %w", t.at(n), key, s, ErrSyntax)
	}
	return v, nil
}

// scalar returns the text of a plain or quoted value. A mac without quotes may look like a number
// to YAML, so what was written counts, not what YAML made of it.
func (t text) scalar(n ast.Node, key string) (string, error) {
	switch n.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode:
		return n.GetToken().Value, nil
	}
	return "", fmt.Errorf("%s: %s is %s, want one value: %w", t.at(n), key, n.Type(), ErrSyntax)
}
