package daemon

// This file is the configuration of a daemon, its defaults and its limits.

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/ports"
	"github.com/funet/funet/ctl/registry"
	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/keyfile"
	"github.com/funet/funet/uspace/port/afxdp"
	"github.com/funet/funet/uspace/port/encap"
)

// Defaults of a configuration.
const (
	DefaultSocket = attach.DefaultSocket
	DefaultDrain  = time.Second
)

// Errors that callers can tell apart.
var (
	// ErrSocket reports that another daemon, or something else, has the socket's path.
	ErrSocket = errors.New("the socket's path is in use")
	ErrEnded  = errors.New("the daemon has ended") // reports that the card's thread has ended
)

// Config configures a daemon: a configuration file, and what the caller adds.
type Config struct {
	config.File
	// Logger is the daemon's log. Log can be set instead: it gets only the sentences of lines, of
	// level info and above, from any goroutine. Without either there is no log.
	Logger *slog.Logger      `json:"-"`
	Log    func(line string) `json:"-"`
	// MakeSocket makes AF_XDP sockets (SocketMaker); nil: the daemon, while it has CAP_NET_RAW.
	MakeSocket func() (int, error) `json:"-"`
	// Ports makes direct ports, the daemon's from Open on; nil: there are none. CarriageWhy says
	// how they were proven, or why there are none. ChooseCarriage sets both.
	Ports       *ports.Client `json:"-"`
	CarriageWhy string        `json:"-"`

	// Table is this host's part in the cluster's table in etcd; nil: there is none. JoinTable sets
	// it, and the daemon leaves the table at its end.
	Table *registry.Member `json:"-"`

	keys *keyfile.Ring // the keys that have been read
	// rerouted holds one event: the ways to other hosts have changed, and the switch must be told.
	rerouted chan struct{}
}

// complete fills in defaults and refuses contradictions. Errors wrap ErrConfig.
func (c Config) complete() (_ Config, err error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), config.ErrConfig)
	}
	c.defaults()
	alone := c.Peers == nil && c.Discover != "" && !c.FindCard
	if alone {
		c.Peers = lonely(c.Card)
	}
	switch {
	case c.Peers == nil && c.Discover != "":
		return c, bad("discover %q without peers and card; say which card this host is, such as card: 0", c.Discover)
	case c.Peers == nil:
		return c, bad("no peers; `funet lab peers` prints what a peers file looks like")
	}
	if err := c.findSelf(); err != nil {
		return c, err
	}
	if err := c.limits(bad); err != nil {
		return c, err
	}
	peers := *c.Peers
	if c.Encap != nil {
		peers.Encap = *c.Encap
	}
	peers.Port = cmp.Or(c.Port, peers.Port)
	if err := badCluster(c.Discover); err != nil {
		return c, bad("discover %q: %v", c.Discover, err)
	}
	if c.Discover != "" && peers.Encap == cluster.UDP {
		return c,
			bad("discover %q with encap: udp; hosts are found on a segment only: list them in the peers file instead",
				c.Discover)
	}
	if err := peers.Validate(); err != nil && !alone {
		return c, fmt.Errorf("%w: %w", err, config.ErrConfig)
	}
	if peers.Port != 0 && peers.Encap != cluster.UDP {
		return c, bad("port %d without encap: udp; leave it out, or add that", peers.Port)
	}
	c.Peers = &peers
	c.keyRing()
	for _, p := range peers.Peers {
		if p.Node == c.Card || p.Absent {
			continue
		}
		if _, err := c.keys.Load(c.keyOf(&peers, &p)); err != nil {
			return c, fmt.Errorf("%w: %w", err, config.ErrConfig)
		}
	}
	if _, err := c.keys.Load(cmp.Or(peers.Key, c.Key)); err != nil {
		// of hosts that are found, and of those to come
		return c, fmt.Errorf("%w: %w", err, config.ErrConfig)
	}
	if _, err := funi.SharedSize(c.Slots); err != nil {
		return c, bad("slots %d; use a power of two from 2 to 65536", c.Slots)
	}
	if c.Profile == nil {
		if c.Profile, err = hwprofiles.Load("native"); err != nil {
			return c, err
		}
	}
	if err := runnable(c.Profile); err != nil {
		return c, bad("%v", err)
	}
	if err := c.interfaces(bad); err != nil {
		return c, err
	}
	if len(c.Rules) == 0 {
		c.Rules = []config.Rule{config.DefaultRule()}
	}
	c.Rules = slices.Clone(c.Rules)
	for i := range c.Rules {
		if err := c.Rules[i].Complete(); err != nil {
			return c, bad("rule %d: %v", i+1, err)
		}
	}
	if c.Metrics != "" {
		if _, _, err := metricsAddress(c.Metrics); err != nil {
			return c, bad("metrics %q: %v", c.Metrics, err)
		}
	}
	return c, nil
}

// keyRing returns the keys that have been read.
func (c *Config) keyRing() *keyfile.Ring {
	c.keys = cmp.Or(c.keys, new(keyfile.Ring))
	return c.keys
}

// defaults fills in fields that are left out and do not depend on others.
func (c *Config) defaults() {
	native := engine.Native()
	c.Socket = cmp.Or(c.Socket, DefaultSocket)
	c.Slots = cmp.Or(c.Slots, config.DefaultSlots)
	c.RefusedLimit = cmp.Or(c.RefusedLimit, config.DefaultRefusedLimit)
	c.Subordinates = cmp.Or(c.Subordinates, DefaultSubordinates)
	c.Drain = cmp.Or(c.Drain, DefaultDrain)
	c.PeerTimeout = cmp.Or(c.PeerTimeout, native.PeerTimeout)
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, native.ConnectTimeout)
	c.completeLog()
	c.rerouted = make(chan struct{}, 1)
}

func (c *Config) limits(bad func(string, ...any) error) error {
	switch {
	case int(c.Card) >= len(c.Peers.Peers):
		return bad("card %d is not in the peers file, which has nodes 0 to %d", c.Card, len(c.Peers.Peers)-1)
	case c.Peers.Peers[c.Card].Absent:
		return bad("card %d is this host, and absent in the peers file", c.Card)
	case len(c.Socket) > 107: // unix(7): sun_path
		return bad("socket %q is longer than 107 bytes, more than the kernel has for one's name; choose a shorter path",
			c.Socket)
	case !filepath.IsAbs(c.Socket):
		return bad("socket %q is not an absolute path", c.Socket)
	case c.Drain < 0 || c.Drain > time.Minute:
		return bad("drain %v; use 0s to 1m", c.Drain)
	case c.PeerTimeout < 100*time.Millisecond || c.PeerTimeout > time.Hour || c.ConnectTimeout < 100*time.Millisecond ||
		c.ConnectTimeout > time.Hour:
		return bad("timeouts %v and %v; use 100ms to 1h", c.PeerTimeout, c.ConnectTimeout)
	case c.MostMemory < 0 || c.MostMemory > config.MostBytes:
		return bad("most_memory %d; use 1 to 64 TiB", c.MostMemory)
	case c.RefusedLimit < 1 || c.RefusedLimit > config.MostRefused:
		return bad("refused_limit %d; use 1 to %d", c.RefusedLimit, config.MostRefused)
	case c.Turns != config.TurnsAlone && c.Turns != config.TurnsTogether:
		return bad("turns %d; use alone or together", c.Turns)
	case c.Polling > config.Sleep:
		return bad("polling %d; use adaptive, spin or sleep", c.Polling)
	case c.Helper != "" && c.Carriage == config.DaemonCarriage:
		return bad("carriage %s: helper %s is for direct ports only; add carriage: auto, or leave it out",
			c.Carriage, c.Helper)
	case c.Helper != "" && !filepath.IsAbs(c.Helper):
		return bad("carriage %s: helper %q is not an absolute path", c.Carriage, c.Helper)
	}
	return nil
}

// interfaces finds the interfaces that the card uses, from the peers if it names none.
func (c *Config) interfaces(bad func(string, ...any) error) error {
	var named []string
	for _, p := range c.Peers.Peers {
		// absent nodes have none
		if p.Iface != "" && !slices.Contains(named, p.Iface) && p.Node != c.Card {
			named = append(named, p.Iface)
		}
	}
	if len(c.Interfaces) == 0 {
		c.Interfaces = named
	}
	if len(c.Interfaces) == 0 {
		own, err := interfaceOf(c.Peers, &c.Peers.Peers[c.Card])
		if err != nil {
			return bad("no interface: %v; name those that lead to the peers, such as interfaces: [eth1]", err)
		}
		c.Interfaces = own
	}
	switch {
	case len(c.Interfaces) == 0:
		return bad("no interface, and none here has %s, which the peers file gives node %d; name those that lead to the peers, such as interfaces: [eth1]",
			where(c.Peers, &c.Peers.Peers[c.Card]), c.Card)
	case len(c.Interfaces) == 1:
		return nil
	}
	for _, p := range c.Peers.Peers { // hosts that are found are behind any interface
		if p.Node != c.Card && !p.Absent && !slices.Contains(c.Interfaces, p.Iface) {
			return bad("node %d of the peers file is behind interface %q, which is none of %s", p.Node, p.Iface,
				strings.Join(c.Interfaces, ", "))
		}
	}
	return nil
}

// metricsAddress splits an address into network and address of package net.
func metricsAddress(s string) (network, address string, err error) {
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		if !filepath.IsAbs(path) || len(path) > 107 {
			return "", "", errors.New("use unix: and an absolute path of at most 107 bytes")
		}
		return "unix", path, nil
	}
	a, err := netip.ParseAddrPort(s)
	if err != nil || !a.Addr().IsLoopback() {
		return "", "", errors.New("use a loopback address with port, such as 127.0.0.1:9464, or unix: and a path")
	}
	return "tcp", s, nil
}

// engine returns the engine's configuration, without its ports.
func (c *Config) engine() engine.Config {
	e := engine.Native()
	e.Card = c.Card
	e.PeerTimeout, e.ConnectTimeout = c.PeerTimeout, c.ConnectTimeout
	e.AnyGroup, e.Defers, e.Readable = true, true, c.Readable
	limit(&e, c.Profile)
	for _, p := range c.Peers.Peers {
		if p.Node != c.Card && !p.Absent {
			e.Peers = append(e.Peers, c.peer(c.Peers, &p))
		}
	}
	return e
}

// keyOf returns the file of the key that this host shares with a peer; "": they share none. The
// peers file may have changed since the start.
func (c *Config) keyOf(in *cluster.File, p *cluster.Peer) string {
	return cmp.Or(p.Key, in.Key, c.Key)
}

// peer returns the engine's description of a peer in a peers file, without this host's address.
func (c *Config) peer(in *cluster.File, p *cluster.Peer) engine.Peer {
	// one interface leads everywhere
	e := engine.Peer{Card: p.Node, Port: max(0, slices.Index(c.Interfaces, p.Iface))}
	if c.Peers.Encap == cluster.UDP {
		e.Address = encap.Address(p.Node)
	} else {
		e.Address = [6]byte(p.MAC)
	}
	e.Key, _ = c.keys.Load(c.keyOf(in, p)) // complete has read it
	return e
}

// datagrams returns the configuration of an interface's port when frames travel in UDP datagrams,
// and nil when they do not. The peers may have changed since the start.
func (c *Config) datagrams(peers *cluster.File, at int) *afxdp.UDP {
	if c.Peers.Encap != cluster.UDP {
		return nil
	}
	u := &afxdp.UDP{Port: c.udpPort(), Tell: func(line string) { c.Logger.Warn(line, "interface", c.Interfaces[at]) }}
	if c.Ports != nil {
		u.Changed = func() { announce(c.rerouted) }
	}
	for _, p := range peers.Peers {
		switch {
		case p.Absent:
		case p.Node == c.Card:
			u.Local = p.Address
		case c.peer(peers, &p).Port == at:
			u.Peers = append(u.Peers, encap.Peer{Card: p.Node, Address: p.Address})
		}
	}
	return u
}

func hostName() string {
	h, _ := os.Hostname()
	return cmp.Or(h, "unknown")
}

// Check returns an error if something is wrong with the configuration, as Open does before it
// touches anything. Errors wrap ErrConfig.
func (c Config) Check() error {
	_, err := c.complete()
	return err
}

// udpPort returns the UDP port of datagrams; 0: there are none.
func (c *Config) udpPort() uint16 {
	if c.Peers == nil || c.Peers.Encap != cluster.UDP {
		return 0
	}
	return cmp.Or(c.Peers.Port, encap.DefaultPort)
}
