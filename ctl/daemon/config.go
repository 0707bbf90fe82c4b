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

	"github.com/funet/funet/ctl/ports"
	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/keyfile"
	"github.com/funet/funet/uspace/port/afxdp"
	"github.com/funet/funet/uspace/port/encap"
	"github.com/funet/funet/xdp"
)

// Defaults of a configuration.
const (
	DefaultSocket      = attach.DefaultSocket
	DefaultSlots       = 1024
	DefaultDrain       = time.Second
	DefaultContexts    = 64
	DefaultJobs        = 64
	DefaultConnections = 256
	DefaultBytes       = 256 << 20
	// DefaultTotal is how often all users of a rule that names groups may use what one may.
	DefaultTotal = 16
)

// Errors that callers can tell apart.
var (
	// ErrConfig is wrapped by every error about what a configuration says.
	ErrConfig = errors.New("invalid configuration")
	// ErrSocket reports that another daemon, or something else, has the socket's path.
	ErrSocket = errors.New("the socket's path is in use")
	ErrEnded  = errors.New("the daemon has ended") // reports that the card's thread has ended
)

// Config configures a daemon. The zero value of a field stands for its default, unless the field is
// said to be needed.
type Config struct {
	Socket string // path; DefaultSocket
	// Card is the number of this host's card, its node in Peers, which is needed. With FindCard it
	// is the node whose address an interface of this host has (own.go).
	Card     uint16
	FindCard bool
	Peers    *cluster.File
	// PeersPath is the file that Peers is from. The daemon looks at it each second, and follows
	// hosts that have joined, left or moved (members.go); "": Peers never changes.
	PeersPath string
	// Interfaces are by default those that Peers names, or the one with this host's address in
	// Peers. An interface that Peers does not name leads to all peers.
	Interfaces []string
	// Discover is the name of a cluster. Its hosts on the segments of the interfaces are found, and
	// find this one (hello.go), besides those in Peers, which may then be nil; "": discovery is
	// off. It has 1 to hello.MaxName letters, digits or marks. Everybody on the segment is trusted.
	Discover string
	// Key is the file of the key that all hosts share, where Peers names none; "": there is none.
	// Without a key, anyone who can send frames on the network can be any host. It is read once.
	Key string
	// Readable permits frames that are authenticated but not encrypted. Frames to hosts that want
	// encryption are still encrypted.
	Readable bool
	keys     *keyfile.Ring // the keys that have been read
	// rerouted holds one event: the ways to other hosts have changed, and the switch must be told.
	rerouted chan struct{}
	// Encap and Port replace those of Peers if they are set.
	Encap *cluster.Encap
	Port  uint16

	Attach    xdp.AttachMode
	Bind      xdp.BindMode
	HugePages bool
	Jumbo     bool
	// VLAN is the number of the VLAN that frames on the interfaces are tagged with, 1 to 4094; 0:
	// none. It cannot be combined with datagrams.
	VLAN uint16

	// Queue is where frames leave, and are steered to if the NIC can (afxdp.Config); nil: all.
	Queue   *int
	CPU     int // processor of the card's thread; negative: it is not pinned
	Polling Polling
	Profile *hwprofiles.Profile // limits the card; nil: native. It must not model time.
	Slots   int                 // per queue, for a process that does not say; DefaultSlots
	// Accesses says what is done about refused accesses to windows (accesses.go). With
	// SuspendWindows, RefusedLimit refused accesses of one node suspend a window: 1 to 1,000,000;
	// 0: DefaultRefusedLimit.
	Accesses     Accesses
	RefusedLimit int
	// PeerTimeout and ConnectTimeout are the engine's.
	PeerTimeout, ConnectTimeout time.Duration
	// Drain is how long a stop waits for packets under way, at most; DefaultDrain.
	Drain time.Duration

	Memory MemoryKind // the kind of memory that processes share with the card
	// Rules say who may use the card; the first rule that matches a user counts. Without rules
	// everybody may use it, as DefaultRule says.
	Rules          []Rule
	Administrators Who // besides uid 0
	// NotRoot says that uid 0 is not an administrator. In a container without a user namespace root
	// is uid 0, too.
	NotRoot      bool
	Subordinates string // the file of subordinate numbers, DefaultSubordinates
	// MostMemory is the bytes of contexts and segments of all users together; 0: three quarters of
	// the machine's memory, or what the daemon's memory cgroups leave beside it (memory_limit.go).
	MostMemory int64
	// Metrics is the address of the metrics: "unix:" and a path, or a loopback address with
	// port; "": nowhere.
	Metrics string
	// LogFormat and LogLevel are for the caller who makes Logger (NewLog).
	LogFormat LogFormat
	LogLevel  LogLevel
	// Logger is the daemon's log. Log can be set instead: it gets only the sentences of lines, of
	// level info and above, from any goroutine. Without either there is no log.
	Logger *slog.Logger      `json:"-"`
	Log    func(line string) `json:"-"`
	// MakeSocket makes AF_XDP sockets (SocketMaker); nil: the daemon, while it has CAP_NET_RAW.
	MakeSocket func() (int, error) `json:"-"`
	// Carriage says whether jobs may have direct ports, which Ports then makes. Direct ports need
	// frames with FUNet's own EtherType, without VLAN, and not Jumbo. ChooseCarriage sets the next
	// two fields.
	Carriage    Carriage
	Ports       *ports.Client `json:"-"` // the daemon's from Open on; nil: no direct ports
	CarriageWhy string        `json:"-"` // how ports were proven, or why there are none
	// Helper is the path of the socket of a helper that runs as a service (funid unit --ports); "":
	// the daemon starts one beside its socket.
	Helper string
}

// Who names users and groups, by number.
type Who struct{ Users, Groups []uint32 }

// Rule limits what users may use. Zeros stand for the defaults.
type Rule struct {
	Who  // empty: every user
	GIDs []Range
	// What each user may use, subordinate numbers included.
	Contexts    int
	Jobs        int
	Connections int
	Bytes       int64 // of contexts and segments
	// Total limits the use of all these users together. The default is DefaultTotal times the limit
	// of one user for a rule that names groups, and no limit for other rules.
	Total Amounts
}

// Amounts are limits of use.
type Amounts struct {
	Contexts, Jobs, Connections int
	Bytes                       int64 // of contexts and segments
}

func (r *Rule) each() Amounts { return Amounts{r.Contexts, r.Jobs, r.Connections, r.Bytes} }

// Range is a range of GIDs, both ends included.
type Range = cluster.Range

// DefaultRule is the rule of a configuration without rules.
func DefaultRule() Rule {
	return Rule{GIDs: []Range{{First: 1, Last: arctic.MaxGID}}, Contexts: DefaultContexts, Jobs: DefaultJobs,
		Connections: DefaultConnections, Bytes: DefaultBytes}
}

// complete fills in defaults and refuses contradictions. Errors wrap ErrConfig.
func (c Config) complete() (_ Config, err error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), ErrConfig)
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
	if c.Port != 0 {
		peers.Port = c.Port
	}
	if err := badCluster(c.Discover); err != nil {
		return c, bad("discover %q: %v", c.Discover, err)
	}
	if c.Discover != "" && peers.Encap == cluster.UDP {
		return c,
			bad("discover %q with encap: udp; hosts are found on a segment only: list them in the peers file instead",
				c.Discover)
	}
	if err := peers.Validate(); err != nil && !alone {
		return c, fmt.Errorf("%w: %w", err, ErrConfig)
	}
	if peers.Port != 0 && peers.Encap != cluster.UDP {
		return c, bad("port %d without encap: udp; leave it out, or add that", peers.Port)
	}
	c.Peers = &peers
	if c.keys == nil {
		c.keys = new(keyfile.Ring)
	}
	for _, p := range peers.Peers {
		if p.Node == c.Card || p.Absent {
			continue
		}
		if _, err := c.keys.Load(c.keyOf(&peers, &p)); err != nil {
			return c, fmt.Errorf("%w: %w", err, ErrConfig)
		}
	}
	if _, err := c.keys.Load(cmp.Or(peers.Key, c.Key)); err != nil {
		// of hosts that are found, and of those to come
		return c, fmt.Errorf("%w: %w", err, ErrConfig)
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
		c.Rules = []Rule{DefaultRule()}
	}
	c.Rules = slices.Clone(c.Rules)
	for i := range c.Rules {
		if err := c.Rules[i].complete(); err != nil {
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

// defaults fills in fields that are left out and do not depend on others.
func (c *Config) defaults() {
	if c.Socket == "" {
		c.Socket = DefaultSocket
	}
	if c.Slots == 0 {
		c.Slots = DefaultSlots
	}
	if c.RefusedLimit == 0 {
		c.RefusedLimit = DefaultRefusedLimit
	}
	if c.Subordinates == "" {
		c.Subordinates = DefaultSubordinates
	}
	c.completeLog()
	c.rerouted = make(chan struct{}, 1)
	if c.Drain == 0 {
		c.Drain = DefaultDrain
	}
	native := engine.Native()
	if c.PeerTimeout == 0 {
		c.PeerTimeout = native.PeerTimeout
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = native.ConnectTimeout
	}
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
	case c.MostMemory < 0 || c.MostMemory > mostBytes:
		return bad("most_memory %d; use 1 to 64 TiB", c.MostMemory)
	case c.RefusedLimit < 1 || c.RefusedLimit > mostRefused:
		return bad("refused_limit %d; use 1 to %d", c.RefusedLimit, mostRefused)
	case pollings[c.Polling] == "":
		return bad("polling %d; use adaptive, spin or sleep", c.Polling)
	}
	if err := c.Carriage.check(c); err != nil {
		return bad("carriage %s: %v", c.Carriage, err)
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

func (r *Rule) complete() error {
	d := DefaultRule()
	if len(r.GIDs) == 0 {
		r.GIDs = d.GIDs
	}
	for _, g := range r.GIDs {
		if g.First < 1 || g.First > g.Last || g.Last > arctic.MaxGID {
			return fmt.Errorf("gids %d to %d; use 1 to %d (0 is the system group)", g.First, g.Last, arctic.MaxGID)
		}
	}
	each := r.each()
	if err := each.complete(d.each()); err != nil {
		return err
	}
	r.Contexts, r.Jobs, r.Connections, r.Bytes = each.Contexts, each.Jobs, each.Connections, each.Bytes
	if len(r.Groups) == 0 && r.Total == (Amounts{}) {
		return nil
	}
	if err := r.Total.complete(each.times(DefaultTotal)); err != nil {
		return fmt.Errorf("total: %w", err)
	}
	return nil
}

const (
	mostAmount = 1 << 20 // of contexts, jobs and connections
	mostBytes  = 1 << 46
)

// complete replaces zeros by d.
func (a *Amounts) complete(d Amounts) error {
	for _, v := range []struct {
		name string
		n    *int
		d    int
	}{{"contexts", &a.Contexts, d.Contexts}, {"jobs", &a.Jobs, d.Jobs},
		{"connections", &a.Connections, d.Connections}} {
		if *v.n == 0 {
			*v.n = v.d
		}
		if *v.n < 0 || *v.n > mostAmount {
			return fmt.Errorf("%s %d; use 1 to %d", v.name, *v.n, mostAmount)
		}
	}
	if a.Bytes == 0 {
		a.Bytes = d.Bytes
	}
	if a.Bytes < 0 || a.Bytes > mostBytes {
		return fmt.Errorf("bytes %d; use 1 to 64 TiB", a.Bytes)
	}
	return nil
}

// times returns n times as much, without overflow.
func (a Amounts) times(n int) Amounts {
	return Amounts{min(n*a.Contexts, mostAmount), min(n*a.Jobs, mostAmount), min(n*a.Connections, mostAmount),
		min(int64(n)*a.Bytes, mostBytes)}
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
	e.AnyGroup, e.Readable = true, c.Readable
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
		u.Changed = func() {
			select {
			case c.rerouted <- struct{}{}:
			default: // the switch is told soon
			}
		}
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
	h, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return h
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
