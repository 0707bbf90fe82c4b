package daemon

// This file is how the bytes of a configuration file become a Config: the YAML tree is
// walked by hand, so that every complaint has its line and nothing that the format does
// not have is let through. doc.go shows the format.

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/ctl/cluster"
	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/hwprofiles/yamldepth"
	"github.com/funet/funet/uspace/port/encap"
	"github.com/funet/funet/xdp"
)

const (
	// MaxBytes is the longest configuration file.
	MaxBytes = 256 << 10
	// maxDepth is how deep it may be nested; the format needs four levels.
	maxDepth = 32
)

// Load reads the configuration file at path, and the peers file that it names. Errors of
// what they say wrap ErrConfig and begin with file and line.
func Load(path string) (Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return Config{}, fmt.Errorf("reading funid's configuration: %w; `funid --help` shows one", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxBytes+1)) // one byte more than is allowed shows that there is more
	if err != nil {
		return Config{}, fmt.Errorf("reading funid's configuration: %w", err)
	}
	c, peers, err := Parse(path, data)
	if err != nil || peers == "" {
		return c, err
	}
	if !filepath.IsAbs(peers) {
		peers = filepath.Join(filepath.Dir(path), peers)
	}
	c.Peers, err = cluster.Load(peers)
	c.PeersPath = peers
	return c, err
}

// Parse reads a configuration from data; name stands for it in errors. It returns the
// path of the peers file beside it, which it does not read. Any bytes are safe to give.
// What concerns the configuration as a whole is checked by Open.
func Parse(name string, data []byte) (c Config, peers string, err error) {
	t := text{name}
	if len(data) > MaxBytes {
		return c, "", fmt.Errorf("%s: more than %d bytes: %w", name, MaxBytes, ErrConfig)
	}
	if line, _ := yamldepth.Exceeds(data, maxDepth); line != 0 {
		return c, "", fmt.Errorf("%s:%d: nested deeper than a configuration can be: %w", name, line, ErrConfig)
	}
	top, err := t.tree(data)
	if err != nil {
		return c, "", err
	}
	return t.config(top)
}

// text makes errors that name the file and the line of a node.
type text struct{ name string }

func (t text) bad(n ast.Node, format string, args ...any) error {
	where := t.name
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 {
		n = m.Values[0].Key
	}
	if tk := n.GetToken(); tk != nil && tk.Position != nil {
		where = fmt.Sprintf("%s:%d", t.name, tk.Position.Line)
	}
	return fmt.Errorf("%s: %s: %w", where, fmt.Sprintf(format, args...), ErrConfig)
}

// tree parses data and returns the root of its only document, nil if there is none.
func (t text) tree(data []byte) (top ast.Node, err error) {
	defer func() {
		// A fault in the YAML parser is an error about the bytes that brought it about.
		if r := recover(); r != nil {
			top, err = nil, fmt.Errorf("%s: the YAML parser failed (%q): %w", t.name, fmt.Sprint(r), ErrConfig)
		}
	}()
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		where, why := t.name, err.Error()
		var at yaml.Error
		if errors.As(err, &at) && at.GetToken() != nil && at.GetToken().Position != nil {
			where, why = fmt.Sprintf("%s:%d", t.name, at.GetToken().Position.Line), at.GetMessage()
		}
		why, _, _ = strings.Cut(why, "\n")
		return nil, fmt.Errorf("%s: %s: %w", where, why, ErrConfig)
	}
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil:
		case top != nil:
			return nil, t.bad(doc.Body, "a second YAML document; a configuration is one")
		default:
			top = doc.Body
		}
	}
	return top, nil
}

// field is a key and how its value is read.
type field struct {
	key  string
	read func(ast.Node) error
}

// config reads the top of the tree. An empty file is all defaults.
func (t text) config(top ast.Node) (c Config, peers string, err error) {
	c.CPU, c.FindCard = -1, true
	if top == nil {
		return c, "", nil
	}
	err = t.mapping(top, []field{
		{"socket", t.text(&c.Socket)},
		{"card", func(n ast.Node) error {
			v, err := t.number(n, 0, cluster.MaxNodes-1)
			c.Card, c.FindCard = uint16(v), false
			return err
		}},
		{"peers", t.text(&peers)},
		{"discover", t.text(&c.Discover)},
		{"interfaces", func(n ast.Node) error {
			return t.each(n, func(n ast.Node) error {
				s, err := t.line(n)
				c.Interfaces = append(c.Interfaces, s)
				return err
			})
		}},
		{"encap", func(n ast.Node) error {
			c.Encap = new(cluster.Encap)
			return choice(t, c.Encap, cluster.Encaps...)(n)
		}},
		{"port", func(n ast.Node) error {
			v, err := t.number(n, 1, encap.MaxPort)
			c.Port = uint16(v)
			return err
		}},
		{"xdp", choice(t, &c.Attach, xdp.AttachAuto, xdp.AttachNative, xdp.AttachGeneric)},
		{"bind", choice(t, &c.Bind, xdp.BindAuto, xdp.BindCopy, xdp.BindZeroCopy)},
		{"huge_pages", t.truth(&c.HugePages)},
		{"jumbo", t.truth(&c.Jumbo)},
		{"vlan", func(n ast.Node) error {
			v, err := t.number(n, 1, bpf.MaxVLAN)
			c.VLAN = uint16(v)
			return err
		}},
		{"queue", func(n ast.Node) error {
			c.Queue = new(int)
			return t.count(c.Queue, 0, bpf.MaxQueues-1)(n)
		}},
		{"cpu", t.count(&c.CPU, 0, 1<<12)},
		{"profile", func(n ast.Node) error {
			s, err := t.line(n)
			if err != nil {
				return err
			}
			if c.Profile, err = hwprofiles.Load(s); err != nil {
				return t.bad(n, "%v", err)
			}
			return nil
		}},
		{"memory", choice(t, &c.Memory, AnyMemory, ImmutableMemory, WatchedMemory)},
		{"polling", choice(t, &c.Polling, Adaptive, Spin, Sleep)},
		{"slots", t.count(&c.Slots, 2, 1<<16)},
		{"peer_timeout", t.duration(&c.PeerTimeout)},
		{"connect_timeout", t.duration(&c.ConnectTimeout)},
		{"drain", t.duration(&c.Drain)},
		{"metrics", t.text(&c.Metrics)},
		{"log_format", choice(t, &c.LogFormat, LogText, LogJSON)},
		{"log_level", choice(t, &c.LogLevel, LogDebug, LogInfo, LogWarn, LogError)},
		{"administrators", func(n ast.Node) error {
			root := true
			defer func() { c.NotRoot = !root }()
			return t.mapping(n, append(t.who(&c.Administrators), field{"root", t.truth(&root)}))
		}},
		{"subuid", t.text(&c.Subordinates)},
		{"most_memory", t.size(&c.MostMemory)},
		{"rules", func(n ast.Node) error {
			return t.each(n, func(n ast.Node) error {
				r, err := t.rule(n)
				c.Rules = append(c.Rules, r)
				return err
			})
		}},
	})
	return c, peers, err
}

// rule reads one entry of rules.
func (t text) rule(n ast.Node) (r Rule, err error) {
	fields := append(t.who(&r.Who), field{"gids", func(n ast.Node) error {
		return t.each(n, func(n ast.Node) error {
			g, err := t.gids(n)
			r.GIDs = append(r.GIDs, g)
			return err
		})
	}})
	var each Amounts
	fields = append(fields, t.amounts(&each)...)
	fields = append(fields, field{"total", func(n ast.Node) error {
		return t.mapping(n, t.amounts(&r.Total))
	}})
	err = t.mapping(n, fields)
	r.Contexts, r.Jobs, r.Connections, r.Bytes = each.Contexts, each.Jobs, each.Connections, each.Bytes
	return r, err
}

// amounts reads how much may be used.
func (t text) amounts(a *Amounts) []field {
	return []field{
		{"contexts", t.count(&a.Contexts, 1, mostAmount)},
		{"jobs", t.count(&a.Jobs, 1, mostAmount)},
		{"connections", t.count(&a.Connections, 1, mostAmount)},
		{"bytes", t.size(&a.Bytes)},
	}
}

// who reads users and groups, by name or number.
func (t text) who(w *Who) []field {
	ids := func(kind string, to *[]uint32, find func(string) (string, error)) func(ast.Node) error {
		return func(n ast.Node) error {
			return t.each(n, func(n ast.Node) error {
				s, err := t.line(n)
				if err != nil {
					return err
				}
				id, err := strconv.ParseUint(s, 10, 32)
				if err != nil {
					if s, err = find(s); err != nil {
						return t.bad(n, "no such %s: %v; write a name that this host knows, or a number", kind, err)
					}
					if id, err = strconv.ParseUint(s, 10, 32); err != nil {
						return t.bad(n, "%s has the number %q", kind, s)
					}
				}
				*to = append(*to, uint32(id))
				return nil
			})
		}
	}
	return []field{
		{"users", ids("user", &w.Users, func(s string) (string, error) {
			u, err := user.Lookup(s)
			if err != nil {
				return "", err
			}
			return u.Uid, nil
		})},
		{"groups", ids("group", &w.Groups, func(s string) (string, error) {
			g, err := user.LookupGroup(s)
			if err != nil {
				return "", err
			}
			return g.Gid, nil
		})},
	}
}

// gids reads a GID or a range of them, such as 10-20.
func (t text) gids(n ast.Node) (r Range, err error) {
	s, err := t.line(n)
	if err != nil {
		return r, err
	}
	if r, err = cluster.ParseRange(s); err != nil {
		return r, t.bad(n, "gids has %v", err)
	}
	return r, nil
}

// mapping reads the values of a mapping that may have the fields, each once.
func (t text) mapping(n ast.Node, fields []field) error {
	m, ok := n.(*ast.MappingNode)
	var names []string
	for _, f := range fields {
		names = append(names, f.key)
	}
	if !ok {
		return t.bad(n, "%s, want the keys %s", strings.ToLower(n.Type().String()), strings.Join(names, ", "))
	}
	seen := map[string]bool{}
	for _, v := range m.Values {
		key := v.Key.GetToken().Value
		i := slices.Index(names, key)
		switch {
		case i < 0:
			return t.bad(v.Key, "unknown key %q, want %s", key, strings.Join(names, ", "))
		case seen[key]:
			return t.bad(v.Key, "key %q is given twice; keep one", key)
		}
		seen[key] = true
		if err := fields[i].read(v.Value); err != nil {
			return fmt.Errorf("%w (%s)", err, key)
		}
	}
	return nil
}

// each reads the values of a list, which must not be empty.
func (t text) each(n ast.Node, read func(ast.Node) error) error {
	list, ok := n.(*ast.SequenceNode)
	if !ok || len(list.Values) == 0 {
		return t.bad(n, "want a list in brackets with at least one value, or leave the key out")
	}
	for _, v := range list.Values {
		if err := read(v); err != nil {
			return err
		}
	}
	return nil
}

// line reads one value as it was written.
func (t text) line(n ast.Node) (string, error) {
	switch n.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode:
		return n.GetToken().Value, nil
	}
	return "", t.bad(n, "%s, want one value", strings.ToLower(n.Type().String()))
}

func (t text) text(to *string) func(ast.Node) error {
	return func(n ast.Node) (err error) {
		if *to, err = t.line(n); err == nil && *to == "" {
			err = t.bad(n, "it is empty; leave the key out for the default")
		}
		return err
	}
}

func (t text) truth(to *bool) func(ast.Node) error {
	return func(n ast.Node) error {
		b, ok := n.(*ast.BoolNode)
		if !ok {
			return t.bad(n, "want true or false")
		}
		*to = b.Value
		return nil
	}
}

func (t text) number(n ast.Node, low, high int64) (int64, error) {
	s, err := t.line(n)
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || v < low || v > high {
		return 0, t.bad(n, "%q, want a number from %d to %d", s, low, high)
	}
	return v, nil
}

func (t text) count(to *int, low, high int64) func(ast.Node) error {
	return func(n ast.Node) error {
		v, err := t.number(n, low, high)
		*to = int(v)
		return err
	}
}

func (t text) duration(to *time.Duration) func(ast.Node) error {
	return func(n ast.Node) error {
		s, err := t.line(n)
		if err != nil {
			return err
		}
		if *to, err = time.ParseDuration(s); err != nil || *to <= 0 {
			return t.bad(n, "%q, want a time such as 500ms or 5s", s)
		}
		return nil
	}
}

// size reads a number of bytes, such as 4096 or 256MiB.
func (t text) size(to *int64) func(ast.Node) error {
	return func(n ast.Node) error {
		s, err := t.line(n)
		if err != nil {
			return err
		}
		digits, shift := s, 0
		for i, unit := range []string{"KiB", "MiB", "GiB", "TiB"} {
			if d, ok := strings.CutSuffix(s, unit); ok {
				digits, shift = strings.TrimSpace(d), 10*(i+1)
			}
		}
		v, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || v < 1 || v > mostBytes>>shift {
			return t.bad(n, "%q, want bytes from 1 to 64TiB, such as 256MiB", s)
		}
		*to = v << shift
		return nil
	}
}

// choice reads one of several names.
func choice[T fmt.Stringer](t text, to *T, of ...T) func(ast.Node) error {
	return func(n ast.Node) error {
		s, err := t.line(n)
		if err != nil {
			return err
		}
		var names []string
		for _, v := range of {
			if s == v.String() {
				*to = v
				return nil
			}
			names = append(names, v.String())
		}
		return t.bad(n, "%q, want %s", s, strings.Join(names, ", "))
	}
}
