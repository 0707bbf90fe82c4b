// This file has the tree of a file: the place of a value, its kind, and its parts.

package strictyaml

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Node is a value in a file: a mapping, a list or a scalar.
type Node struct {
	format *Format
	file   string
	key    string // under which it or its list stands; "" at the root
	ast    ast.Node
}

// Where names file, line and column, such as "peers.yaml:7:12".
func (n *Node) Where() string {
	at := n.ast
	if m, ok := at.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) != 0 {
		at = m.Values[0].Key // its own token is the first colon
	}
	return position(n.file, at.GetToken())
}

// Errorf returns an error about the value: where it is, and what fmt.Errorf makes of the arguments.
// It wraps the format's error.
func (n *Node) Errorf(format string, args ...any) error {
	return n.Refuse(n.format.Invalid, format, args...)
}

// Refuse is Errorf with a more exact error to wrap instead of the format's.
func (n *Node) Refuse(why error, format string, args ...any) error {
	return fmt.Errorf("%s: %w: %w", n.Where(), fmt.Errorf(format, args...), why)
}

// What describes the value in an error, such as `the text "fast"`, `40` or `a list`.
func (n *Node) What() string {
	switch v := n.ast.(type) {
	case *ast.StringNode:
		return "the text " + strconv.Quote(clip(v.Value))
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return clip(v.GetToken().Value)
	case *ast.NullNode:
		return "nothing"
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode:
		return "a mapping"
	case *ast.AnchorNode, *ast.AliasNode:
		return "an anchor or alias"
	case *ast.TagNode:
		return "a tag"
	}
	return "a " + strings.ToLower(n.ast.Type().String())
}

// Null reports whether a key has no value.
func (n *Node) Null() bool {
	_, null := n.ast.(*ast.NullNode)
	return null
}

// Keys returns the values of a mapping by key. The mapping may have the named keys, each once.
func (n *Node) Keys(names ...string) (map[string]*Node, error) {
	return byKey(n.values(names))
}

// KeysOf is Keys for names that are too many to list. known reports whether a name is one of them,
// and want describes them in an error, such as "the keys of figures".
func (n *Node) KeysOf(want string, known func(key string) bool) (map[string]*Node, error) {
	return byKey(n.pairs(want, want, known))
}

func byKey(values []*Node, err error) (map[string]*Node, error) {
	keys := make(map[string]*Node, len(values))
	for _, v := range values {
		keys[v.key] = v
	}
	return keys, err
}

// values returns the values of a mapping with the named keys, in the order of the file.
func (n *Node) values(names []string) ([]*Node, error) {
	want := strings.Join(names, ", ")
	return n.pairs("the keys "+want, want, func(key string) bool { return slices.Contains(names, key) })
}

// pairs returns the values of a mapping in the order of the file. In an error, mapping says what is
// wanted instead of another value, and keys what is wanted instead of another key.
func (n *Node) pairs(mapping, keys string, known func(string) bool) ([]*Node, error) {
	m, ok := n.ast.(*ast.MappingNode)
	if !ok {
		return nil, n.Errorf("%s, want %s", n.What(), mapping)
	}
	values := make([]*Node, 0, len(m.Values))
	before := make(map[string]*Node, len(m.Values))
	for _, v := range m.Values {
		key := v.Key.GetToken().Value
		at := &Node{n.format, n.file, key, v.Key}
		if !known(key) {
			return nil, at.Errorf("%w %q, want %s", ErrUnknownKey, clip(key), keys)
		}
		if first := before[key]; first != nil {
			return nil, at.Errorf("%w: %q is at %s already; keep one", ErrDuplicateKey, clip(key), first.Where())
		}
		before[key] = at
		values = append(values, &Node{n.format, n.file, key, v.Value})
	}
	return values, nil
}

// List returns the values of a list; it reports false for any other value.
func (n *Node) List() (values []*Node, ok bool) {
	list, ok := n.ast.(*ast.SequenceNode)
	if !ok {
		return nil, false
	}
	values = make([]*Node, 0, len(list.Values))
	for _, v := range list.Values {
		values = append(values, &Node{n.format, n.file, n.key, v})
	}
	return values, true
}

// Text returns a plain or quoted scalar as it was written, even if YAML would take it for a number.
func (n *Node) Text() (string, error) {
	switch n.ast.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode:
		return n.ast.GetToken().Value, nil
	}
	return "", n.Errorf("%s is %s, want one value", n.key, n.What())
}

// Number returns a number without quotes as it was written; it reports false for any
// other value, and for a number with a leading zero, which YAML takes for octal.
func (n *Node) Number() (string, bool) {
	switch n.ast.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		s := n.ast.GetToken().Value
		return s, len(s) < 2 || s[0] != '0' || s[1] == '.'
	}
	return "", false
}

// Bool returns true or false, without quotes; it reports false for what is neither.
func (n *Node) Bool() (value, ok bool) {
	b, ok := n.ast.(*ast.BoolNode)
	return ok && b.Value, ok
}
