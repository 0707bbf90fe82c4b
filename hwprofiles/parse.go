package hwprofiles

// This file is how the bytes of a file become a Profile: the YAML tree is walked by hand, so
// that every complaint has line and column and nothing that the format does not have is let
// through.

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/funet/funet/hwprofiles/yamldepth"
)

// MaxBytes is the longest file.
const MaxBytes = 64 << 10

// maxDepth is how many brackets, or list and key signs that begin a line, may be open at
// once. The format needs three levels; the YAML parser descends once for each.
const maxDepth = 32

// Parse reads a profile from data; file stands for it in errors, which are one line and wrap
// ErrInvalid. Any bytes are safe to give.
func Parse(file string, data []byte) (*Profile, error) {
	t := text{file: file, at: make(map[string]ast.Node)}
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("%s: more than %d bytes, which no profile needs: %w", file, MaxBytes, ErrInvalid)
	}
	if line, column := yamldepth.Exceeds(data, maxDepth); line != 0 {
		return nil, fmt.Errorf("%s:%d:%d: nested deeper than a profile can be: %w", file, line, column, ErrInvalid)
	}
	top, err := t.tree(data)
	if err != nil {
		return nil, err
	}
	p, err := t.profile(top)
	if err != nil {
		return nil, err
	}
	if err := p.check(t.where); err != nil {
		return nil, err
	}
	return p, nil
}

// text is a file while it is read: its name, and where each key's value stands.
type text struct {
	file string
	at   map[string]ast.Node
}

// where names file, line and column of a key, or the file if it has no such key.
func (t *text) where(key string) string {
	if n := t.at[key]; n != nil {
		return t.place(n)
	}
	return t.file
}

// place names file, line and column of a node.
func (t *text) place(n ast.Node) string {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) != 0 {
		n = m.Values[0].Key // its own token is the first colon
	}
	return t.position(n.GetToken())
}

func (t *text) position(tk *token.Token) string {
	if tk == nil || tk.Position == nil {
		return t.file
	}
	return fmt.Sprintf("%s:%d:%d", t.file, tk.Position.Line, tk.Position.Column)
}

// bad is an error about a node.
func (t *text) bad(n ast.Node, format string, args ...any) error {
	return fmt.Errorf("%s: %s: %w", t.place(n), fmt.Sprintf(format, args...), ErrInvalid)
}

// tree parses data and returns the root of its only document.
func (t *text) tree(data []byte) (top ast.Node, err error) {
	defer func() {
		// A fault in the YAML parser is an error about the bytes that brought it about.
		if r := recover(); r != nil {
			top, err = nil, fmt.Errorf("%s: the YAML parser failed (%s): %w", t.file, clip(strconv.Quote(fmt.Sprint(r))), ErrInvalid)
		}
	}()
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		place, why := t.file, err.Error()
		var at yaml.Error
		if errors.As(err, &at) {
			place, why = t.position(at.GetToken()), at.GetMessage()
		}
		why, _, _ = strings.Cut(why, "\n")
		return nil, fmt.Errorf("%s: %s: %w", place, why, ErrInvalid)
	}
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil:
		case top != nil:
			return nil, t.bad(doc.Body, "a second YAML document; a profile is one")
		default:
			top = doc.Body
		}
	}
	if top == nil {
		return nil, fmt.Errorf("%s: empty; `funet profile show native --yaml` prints a profile to start from: %w", t.file, ErrInvalid)
	}
	return top, nil
}

// profile reads the top of the tree.
func (t *text) profile(top ast.Node) (*Profile, error) {
	keys, err := t.mapping(top, "", append([]string{"name", "about", "costs", "sources"}, sections...)...)
	if err != nil {
		return nil, err
	}
	p := new(Profile)
	for _, of := range []struct {
		key string
		to  *string
	}{{"name", &p.Name}, {"about", &p.About}} {
		n := keys[of.key]
		if n == nil {
			return nil, t.bad(top, "no %s; add %s: and a line of text", of.key, of.key)
		}
		if *of.to, err = t.line(n, of.key); err != nil {
			return nil, err
		}
	}
	for _, section := range sections {
		if n := keys[section]; n != nil {
			if err := t.section(p, n, section); err != nil {
				return nil, err
			}
		}
	}
	if n := keys["costs"]; n != nil {
		if err := t.costs(p, n); err != nil {
			return nil, err
		}
	}
	if n := keys["sources"]; n != nil {
		if err := t.sources(p, n); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// section reads the figures of a section. All must be there.
func (t *text) section(p *Profile, n ast.Node, section string) error {
	var mine []*figure
	var names []string
	for i := range figures {
		if s, name := figures[i].parts(); s == section {
			mine, names = append(mine, &figures[i]), append(names, name)
		}
	}
	keys, err := t.mapping(n, section+".", names...)
	if err != nil {
		return err
	}
	for i, f := range mine {
		v := keys[names[i]]
		if v == nil {
			return t.bad(n, "%s has no %s; add it (%s), or leave the whole section out", section, names[i], f.want())
		}
		if !t.set(f.at(p), v) {
			return t.bad(v, "%s is %s, want %s", f.key, what(v), f.want())
		}
	}
	return nil
}

// set reads a value; it reports false if the value is not of the type.
func (t *text) set(to any, n ast.Node) (ok bool) {
	var v int64
	switch to := to.(type) {
	case *Clock:
		v, ok = number(n, 3)
		*to = Clock(v)
	case *Cycles:
		v, ok = number(n, 1)
		*to = Cycles(v)
	case *int:
		v, ok = number(n, 0)
		*to = int(v)
	case *bool:
		var b *ast.BoolNode
		if b, ok = n.(*ast.BoolNode); ok {
			*to = b.Value
		}
	case *[]int:
		var list *ast.SequenceNode
		if list, ok = n.(*ast.SequenceNode); !ok || len(list.Values) > maxBursts {
			return false
		}
		for _, n := range list.Values {
			if v, ok = number(n, 0); !ok {
				return false
			}
			*to = append(*to, int(v))
		}
	case *Topology:
		s, isText := n.(*ast.StringNode)
		if ok = isText && (s.Value == "any" || s.Value == string(Hypercube)); ok && s.Value != "any" {
			*to = Topology(s.Value)
		}
	}
	return ok
}

// costs reads the table of costs.
func (t *text) costs(p *Profile, n ast.Node) error {
	t.at["costs"] = n
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		return t.bad(n, "costs is %s, want a list of {call: NAME, measure: NAME, cycles: 50.7, bytes: 0}", what(n))
	}
	for i, n := range list.Values {
		key := costKey(i)
		t.at[key] = n
		keys, err := t.mapping(n, key+".", "call", "measure", "cycles", "bytes")
		if err != nil {
			return err
		}
		for _, name := range []string{"call", "measure", "cycles", "bytes"} {
			if keys[name] == nil {
				return t.bad(n, "a cost has no %s; each has call, measure, cycles and bytes (0: of a call)", name)
			}
		}
		var c Cost
		if c.Call, err = t.line(keys["call"], "call"); err != nil {
			return err
		}
		if c.Measure, err = t.line(keys["measure"], "measure"); err != nil {
			return err
		}
		if !t.set(&c.Cycles, keys["cycles"]) {
			return t.bad(keys["cycles"], "cycles is %s, want %v to %v with at most 1 decimal", what(keys["cycles"]), Cycles(1), maxCycles)
		}
		if !t.set(&c.Bytes, keys["bytes"]) {
			return t.bad(keys["bytes"], "bytes is %s, want a whole number, 0 for the cost of a call", what(keys["bytes"]))
		}
		p.Costs = append(p.Costs, c)
	}
	return nil
}

// sources reads where the figures are from.
func (t *text) sources(p *Profile, n ast.Node) error {
	keys, err := t.mapping(n, "sources.")
	if err != nil {
		return err
	}
	p.Sources = make(map[string]string, len(keys))
	for key, n := range keys {
		if p.Sources[key], err = t.line(n, "the source of "+key); err != nil {
			return err
		}
	}
	return nil
}

// mapping returns the values of a mapping by its keys. Each key may be there once, and
// notes their places under a prefix. Without names any key may be there that has a place
// among the figures.
func (t *text) mapping(n ast.Node, prefix string, names ...string) (map[string]ast.Node, error) {
	m, ok := n.(*ast.MappingNode)
	if !ok && names == nil {
		return nil, t.bad(n, "%s, want the keys of figures, such as cpu.clock_mhz", what(n))
	}
	if !ok {
		return nil, t.bad(n, "%s, want the keys %s", what(n), strings.Join(names, ", "))
	}
	keys := make(map[string]ast.Node, len(m.Values))
	for _, v := range m.Values {
		key := v.Key.GetToken().Value
		switch {
		case names == nil && !known(key):
			return nil, t.bad(v.Key, "a source for %q, want the key of a figure, such as cpu.clock_mhz, or costs", clip(key))
		case names != nil && !slices.Contains(names, key):
			return nil, t.bad(v.Key, "unknown key %q, want %s", clip(key), strings.Join(names, ", "))
		}
		if before, ok := keys[key]; ok {
			return nil, t.bad(v.Key, "key %q is given twice, before at %s; keep one", key, t.place(before))
		}
		keys[key] = v.Value
		t.at[prefix+key] = v.Value
	}
	return keys, nil
}

// number reads a decimal number that is not negative, as it was written and not as YAML
// understands it: 0x10, 1e3 and 010 are none.
func number(n ast.Node, places int) (int64, bool) {
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		s := n.GetToken().Value
		if len(s) > 1 && s[0] == '0' && s[1] != '.' {
			return 0, false
		}
		return parseDecimal(s, places)
	}
	return 0, false
}

// line reads a text, also one that looks like a number to YAML.
func (t *text) line(n ast.Node, key string) (string, error) {
	switch n.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode:
		return n.GetToken().Value, nil
	}
	return "", t.bad(n, "%s is %s, want a line of text", key, what(n))
}

// what names a value in an error.
func what(n ast.Node) string {
	switch n := n.(type) {
	case *ast.StringNode:
		return "the text " + strconv.Quote(clip(n.Value))
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return clip(n.GetToken().Value)
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
	return "a " + strings.ToLower(n.Type().String())
}
