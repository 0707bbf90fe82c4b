package doctor

// This file is the facts.

import (
	"net"
	"net/netip"

	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/ctl/doctor/probe"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/xdp"
)

// Facts are the facts that were gathered. What was not looked at is nil.
type Facts struct {
	Host      Host
	Interface *Interface
	Daemon    *Daemon
	Keys      []Key // files, of funid's configuration, of the peers file, and those that funid has
	Peer      *Peer
}

// Host is the machine, and the process that looks.
type Host struct {
	Kernel       string
	Major, Minor int
	AFXDP        error    // why no AF_XDP socket can be had; nil: it can
	Missing      []string // capabilities that making a card needs
	Memlock      uint64   // bytes, RLIMIT_MEMLOCK; the greatest number is no limit
	MayLock      bool     // CAP_IPC_LOCK: the limit does not matter
	WantHuge     bool     // the user wants huge pages
	HugeBytes    int      // of one
	HugeFree     int
	Processors   int
	Governors    []string // each that is in use; nil: no frequency scaling
	Isolated     string   // processors, as the kernel lists them
	Clock        string   // source
	Clocks       []string // sources there are
	Synchronised bool
	Autogroup    bool
	Kubernetes   bool // it is a node
}

// Interface is a network interface.
type Interface struct {
	Name     string
	There    bool
	Others   []string // interfaces there are, if this one is not
	Up       bool
	Carrier  bool
	MTU      int // bytes
	MAC      net.HardwareAddr
	Loopback bool
	Kind     string // of netlink: device, veth, bond, vlan, bridge, macvlan, ...
	Driver   string
	Master   string // bond or bridge that it belongs to
	// MasterKind is the master's Kind.
	MasterKind string
	Slaves     []string // that belong to it
	VLANs      []string // interfaces of VLANs on it
	Parent     string   // of a VLAN or macvlan
	Program    uint32   // XDP program that is attached; 0: none
	Ours       bool     // it is FUNet's
	Link       uint32   // the bpf_link that holds the program; 0: none is known
	Holders    []string // processes that hold the link, as far as this user may see
	Rx, Tx     int      // queues
	Modes      *Modes   // nil: not tried
	ModesErr   error
	Features   map[string]bool // of ethtool that are on
	Mergers    []xdp.Merger    // interfaces below whose GRO merges datagrams
	RPS        []string        // queues with Receive Packet Steering
	Processors int
	HasDaemon  bool // the daemon that answers has it
}

// Modes says what the driver was found to do.
type Modes struct {
	Native, NativeFrags, Generic, Copy, ZeroCopy Tried
}

// Tried is an answer of xdp.Probe.
type Tried struct {
	Yes, Known bool
	Why        string // it is not
}

// State is how a daemon's socket answers.
type State string

// The states.
const (
	Answers   State = "answers"
	NoSocket  State = "no socket"
	Deaf      State = "nobody listens"
	Forbidden State = "forbidden"
	Silent    State = "silent"
	Foreign   State = "another version"
	Odd       State = "odd"
)

// Daemon is funid on this host.
type Daemon struct {
	Socket string
	State  State
	Err    string
	Info   attach.Info // of one that answers
	Keys   []daemon.KeyStatus
	// direct ports of all users; nil: there are none, or the helper did not say
	Direct *daemon.DirectStatus
	ABI    uint32 // of this program
	Wanted bool   // the user expects one
}

// Key is a key file of this host.
type Key struct {
	File string
	// Err is the file's fault; nil: none, as far as this user may see.
	Err error
	// Holds says which key is in the file, "" if this user may not see that; and Has which key
	// funid has from there, "" if it has none.
	Holds, Has string
	// Handed: systemd hands the file to funid (LoadCredential=), whenever funid starts.
	Handed bool
	// Service: the file is in funid's configuration, no funid answers, and the unit is installed,
	// which runs as a user of its own.
	Service bool
}

// Hello says what the daemon of this host found out about a peer's card.
type Hello struct {
	Err string // why it could not be asked; "": it was
	daemon.HelloAnswer
}

// Peer is another host, and what is between.
type Peer struct {
	Given string // by the user
	Node  int    // of the peers file; negative: not given so
	// Problem says why the peer could not be looked for: for instance a name that does not resolve.
	Problem string
	Cure    string
	MAC     net.HardwareAddr // as given, in the peers file too; nil: by address
	Addr    netip.Addr       // the zero Addr: none is known
	// Datagrams is whether the peers file has frames travel in UDP datagrams, which routers pass
	// on.
	Datagrams bool
	// OwnListed is whether the peers file has the interface's own address; true without one.
	OwnListed bool
	OwnNode   int // in the peers file; negative: none
	// Neighbour is the kernel's entry for Addr, and NeighbourState how the kernel got it.
	Neighbour      net.HardwareAddr
	NeighbourState string // of ip-neighbour(8): reachable, stale, failed, permanent, ...
	Gateway        netip.Addr
	RouteVia       string // interface
	RouteErr       string
	Own            bool // it is this host itself
	Result         *probe.Result
	// Hello is the result of asking the peer's card through the daemon of this host; nil: that was
	// not tried. The result without is in Result.
	Hello    *Hello
	ProbeErr string
	Port     uint16
}
