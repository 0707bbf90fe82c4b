package config

// This file turns the tree of a configuration file into a File. doc.go shows the format.

import (
	"fmt"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/hwprofiles/strictyaml"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/uspace/keyfile"
	"github.com/funet/funet/uspace/port/encap"
	"github.com/funet/funet/xdp"
)

// MaxBytes is the longest configuration file.
const MaxBytes = 256 << 10

// format is the YAML format of a configuration. A configuration needs four levels of nesting.
var format = strictyaml.Format{Noun: "configuration", MaxBytes: MaxBytes, MaxDepth: 32, Invalid: ErrConfig}

// Load reads the configuration file at path, and the peers file that it names. A table in etcd it
// does not read: Peers is then nil, and Etcd says where the table is. Errors in their contents wrap
// ErrConfig and begin with file, line and column.
func Load(path string) (File, error) {
	data, err := format.ReadFile(path)
	if err != nil {
		return File{}, fmt.Errorf("reading funid's configuration: %w; `funid --help` shows one", err)
	}
	c, peers, err := Parse(path, data)
	c.Key = keyfile.Resolve(filepath.Dir(path), c.Key)
	switch {
	case err != nil:
		return c, err
	case strings.HasPrefix(peers, EtcdScheme):
		if c.Etcd != nil {
			c.Etcd.beside(filepath.Dir(path))
		}
		if err := c.At(peers); err != nil {
			return c, fmt.Errorf("%s: %w", path, err)
		}
		return c, nil
	case c.Etcd != nil:
		return c, fmt.Errorf("%s: %w: %w", path, errNoTable, ErrConfig)
	case peers == "":
		return c, nil
	}
	if !filepath.IsAbs(peers) {
		peers = filepath.Join(filepath.Dir(path), peers)
	}
	c.Peers, err = cluster.Load(peers)
	c.PeersPath = peers
	return c, err
}

// Parse reads a configuration from data; name stands for it in errors. It returns the path of the
// peers file beside it, and does not read that file. Any bytes are safe input, and an empty file
// gives all defaults. Open checks the configuration as a whole.
func Parse(name string, data []byte) (c File, peers string, err error) {
	c.CPU, c.FindCard = -1, true
	top, err := format.Parse(name, data)
	if err != nil || top == nil {
		return c, "", err
	}
	err = top.Fields(
		strictyaml.Text("socket", &c.Socket),
		strictyaml.Value("card", func(n *strictyaml.Node) (err error) {
			c.Card, err = strictyaml.Int[uint16](n, 0, cluster.MaxNodes-1)
			c.FindCard = false
			return err
		}),
		strictyaml.Text("peers", &peers),
		strictyaml.Value("etcd", func(n *strictyaml.Node) error {
			c.Etcd = &Etcd{Lease: DefaultLease}
			return c.Etcd.access(n)
		}),
		strictyaml.Text("discover", &c.Discover),
		strictyaml.Each("interfaces", func(n *strictyaml.Node) error {
			s, err := n.Text()
			c.Interfaces = append(c.Interfaces, s)
			return err
		}),
		strictyaml.Text("key", &c.Key),
		strictyaml.Value("encrypt", func(n *strictyaml.Node) error {
			encrypt, ok := n.Bool()
			if !ok {
				return n.Errorf("encrypt is %s, want true or false", n.What())
			}
			c.Readable = !encrypt
			return nil
		}),
		strictyaml.Value("encap", func(n *strictyaml.Node) error {
			c.Encap = new(cluster.Encap)
			return strictyaml.OneOf(n, c.Encap, cluster.Encaps...)
		}),
		strictyaml.Number("port", &c.Port, 1, encap.MaxPort),
		strictyaml.Choice("xdp", &c.Attach, xdp.AttachAuto, xdp.AttachNative, xdp.AttachGeneric),
		strictyaml.Choice("bind", &c.Bind, xdp.BindAuto, xdp.BindCopy, xdp.BindZeroCopy),
		strictyaml.Bool("huge_pages", &c.HugePages),
		strictyaml.Bool("jumbo", &c.Jumbo),
		strictyaml.Number("vlan", &c.VLAN, 1, bpf.MaxVLAN),
		strictyaml.Value("queue", func(n *strictyaml.Node) error {
			queue, err := strictyaml.Int(n, 0, bpf.MaxQueues-1)
			c.Queue = &queue
			return err
		}),
		strictyaml.Number("cpu", &c.CPU, 0, 1<<12),
		strictyaml.Value("profile", func(n *strictyaml.Node) error {
			s, err := n.Text()
			if err != nil {
				return err
			}
			if c.Profile, err = hwprofiles.Load(s); err != nil {
				return n.Errorf("profile: %w", err)
			}
			return nil
		}),
		strictyaml.Choice("memory", &c.Memory, AnyMemory, ImmutableMemory, WatchedMemory),
		strictyaml.Choice("carriage", &c.Carriage, DaemonCarriage, DirectCarriage, AutoCarriage),
		strictyaml.Text("helper", &c.Helper),
		strictyaml.Choice("polling", &c.Polling, Adaptive, Spin, Sleep),
		strictyaml.Choice("turns", &c.Turns, TurnsAlone, TurnsTogether),
		strictyaml.Number("slots", &c.Slots, 2, 1<<16),
		strictyaml.Choice("refused_accesses", &c.Accesses, CountAccesses, SuspendWindows),
		strictyaml.Number("refused_limit", &c.RefusedLimit, 1, MostRefused),
		strictyaml.Duration("peer_timeout", &c.PeerTimeout),
		strictyaml.Duration("connect_timeout", &c.ConnectTimeout),
		strictyaml.Duration("drain", &c.Drain),
		strictyaml.Text("metrics", &c.Metrics),
		strictyaml.Choice("log_format", &c.LogFormat, LogText, LogJSON),
		strictyaml.Choice("log_level", &c.LogLevel, LogDebug, LogInfo, LogWarn, LogError),
		strictyaml.Value("administrators", func(n *strictyaml.Node) error {
			root := true
			defer func() { c.NotRoot = !root }()
			return n.Fields(append(who(&c.Administrators), strictyaml.Bool("root", &root))...)
		}),
		strictyaml.Text("subuid", &c.Subordinates),
		size("most_memory", &c.MostMemory),
		strictyaml.Each("rules", func(n *strictyaml.Node) error {
			r, err := rule(n)
			c.Rules = append(c.Rules, r)
			return err
		}),
	)
	return c, peers, err
}

func rule(n *strictyaml.Node) (r Rule, err error) {
	var each Amounts
	fields := append(who(&r.Who), strictyaml.Each("gids", func(n *strictyaml.Node) error {
		g, err := gids(n)
		r.GIDs = append(r.GIDs, g)
		return err
	}))
	fields = append(fields, amounts(&each)...)
	fields = append(fields, strictyaml.Value("total", func(n *strictyaml.Node) error {
		return n.Fields(amounts(&r.Total)...)
	}))
	err = n.Fields(fields...)
	r.Contexts, r.Jobs, r.Connections, r.Bytes = each.Contexts, each.Jobs, each.Connections, each.Bytes
	return r, err
}

func amounts(a *Amounts) []strictyaml.Field {
	return []strictyaml.Field{
		strictyaml.Number("contexts", &a.Contexts, 1, mostAmount),
		strictyaml.Number("jobs", &a.Jobs, 1, mostAmount),
		strictyaml.Number("connections", &a.Connections, 1, mostAmount),
		size("bytes", &a.Bytes),
	}
}

// who reads users and groups, by name or number.
func who(w *Who) []strictyaml.Field {
	return []strictyaml.Field{
		ids("users", "user", &w.Users, func(s string) (string, error) {
			u, err := user.Lookup(s)
			if err != nil {
				return "", err
			}
			return u.Uid, nil
		}),
		ids("groups", "group", &w.Groups, func(s string) (string, error) {
			g, err := user.LookupGroup(s)
			if err != nil {
				return "", err
			}
			return g.Gid, nil
		}),
	}
}

// ids reads a list of users or groups; find returns the number of a name.
func ids(key, kind string, to *[]uint32, find func(string) (string, error)) strictyaml.Field {
	return strictyaml.Each(key, func(n *strictyaml.Node) error {
		s, err := n.Text()
		if err != nil {
			return err
		}
		id, err := strconv.ParseUint(s, 10, 32)
		if err != nil {
			if s, err = find(s); err != nil {
				return n.Errorf("no such %s: %w; write a name that this host knows, or a number", kind, err)
			}
			if id, err = strconv.ParseUint(s, 10, 32); err != nil {
				return n.Errorf("%s has the number %q", kind, s)
			}
		}
		*to = append(*to, uint32(id))
		return nil
	})
}

// gids reads a GID or a range of them, such as 10-20.
func gids(n *strictyaml.Node) (r Range, err error) {
	s, err := n.Text()
	if err != nil {
		return r, err
	}
	if r, err = cluster.ParseRange(s); err != nil {
		return r, n.Errorf("gids has %w", err)
	}
	return r, nil
}

// size reads a number of bytes, such as 4096 or 256MiB.
func size(key string, to *int64) strictyaml.Field {
	return strictyaml.Value(key, func(n *strictyaml.Node) error {
		s, err := n.Text()
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
		if err != nil || v < 1 || v > MostBytes>>shift {
			return n.Errorf("%s is %q, want bytes from 1 to 64TiB, such as 256MiB", key, s)
		}
		*to = v << shift
		return nil
	})
}
