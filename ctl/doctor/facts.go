package doctor

// This file defines the facts that the doctor gathers.

import (
	"net"
	"net/netip"

	"github.com/funet/funet/ctl/doctor/probe"
	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/xdp"
)

// Facts are the facts that were gathered. A subject that was not looked at is nil.
type Facts struct {
	Host      Host
	Interface *Interface
	Daemon    *Daemon
	Keys      []Key // files named in funid's configuration and the peers file, and those funid has
	Peer      *Peer
}

// Host describes the machine, and the process that looks.
type Host struct {
	Kernel       string
	Major, Minor int
	AFXDP        error    // why the kernel gives no AF_XDP socket; nil: it gives one
	Missing      []string // capabilities that making a card needs
	Memlock      uint64   // bytes, RLIMIT_MEMLOCK; the greatest number is no limit
	MayLock      bool     // CAP_IPC_LOCK: the limit does not apply
	WantHuge     bool     // the user wants huge pages
	HugeBytes    int      // of one huge page
	HugeFree     int
	Processors   int
	Governors    []string // those in use; nil: no frequency scaling
	Isolated     string   // processors, in the kernel's notation
	Clock        string   // clock source in use
	Clocks       []string // available clock sources
	Synchronised bool
	Autogroup    bool
	Kubernetes   bool // the host is a Kubernetes node
}

// Interface is a network interface.
type Interface struct {
	Name       string
	There      bool
	Others     []string // the interfaces that exist, if this one does not
	Up         bool
	Carrier    bool
	MTU        int // bytes
	MAC        net.HardwareAddr
	Loopback   bool
	Kind       string // netlink's: device, veth, bond, vlan, bridge, macvlan, ...
	Driver     string
	Master     string   // bond or bridge that it belongs to
	MasterKind string   // the master's Kind
	Slaves     []string // interfaces that belong to this one
	VLANs      []string // interfaces of VLANs on it
	Parent     string   // of a VLAN or macvlan
	Program    uint32   // XDP program that is attached; 0: none
	Ours       bool     // the program is FUNet's
	Link       uint32   // the bpf_link that holds the program; 0: none is known
	Holders    []string // processes that hold the link, as far as this user may see
	Rx, Tx     int      // queues
	Modes      *Modes   // nil: not tried
	ModesErr   error
	Features   map[string]bool // of ethtool: which are on
	Mergers    []xdp.Merger    // lower interfaces whose GRO merges datagrams
	RPS        []string        // queues with Receive Packet Steering
	Processors int
	HasDaemon  bool // the daemon that answers uses this interface
}

// Modes are the driver's modes, each with the result of trying it.
type Modes struct {
	Native, NativeFrags, Generic, Copy, ZeroCopy Tried
}

// Tried is an answer of xdp.Probe.
type Tried struct {
	Yes, Known bool
	Why        string // why not
}

// State says how a daemon's socket answers.
type State string

// The states of a daemon's socket.
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
	Info   attach.Info // of a daemon that answers
	Keys   []report.KeyStatus
	// direct ports of all users; nil: none exist, or the helper did not say
	Direct *report.DirectStatus
	ABI    uint32 // of this program
	Wanted bool   // the user expects a daemon
}

// Key is a key file of this host.
type Key struct {
	File string
	Err  error // the file's fault; nil if this user can see none
	// Holds names the key in the file, "" if this user may not read it. Has names the key that
	// funid loaded from the file, "" if it loaded none.
	Holds, Has string
	Handed     bool // means that systemd hands the file to funid at each start (LoadCredential=)
	// Service means that funid's configuration names the file, no funid answers, and funid's unit
	// is installed, which runs as a user of its own.
	Service bool
}

// Hello is the result of asking a peer's card through the daemon of this host.
type Hello struct {
	Err string // why the card could not be asked; "": it was asked
	report.HelloAnswer
}

// Peer describes another host, and the network between it and this one.
type Peer struct {
	Given string // the peer as the user named it
	Node  int    // in the peers file, or a card of the daemon; negative: none named
	// Problem says why the peer could not be looked for: for instance, its name does not resolve.
	Problem string
	Cure    string
	MAC     net.HardwareAddr // as given, or from the peers file; nil: known by IP address only
	Addr    netip.Addr       // the zero Addr: none is known
	// Datagrams means that frames to the peer travel in UDP datagrams, which routers pass on.
	Datagrams bool
	// OwnListed means that the peers file has the interface's own address, or no file.
	OwnListed bool
	OwnNode   int // this host's node in the peers file; negative: none
	// Neighbour is the kernel's entry for Addr. NeighbourState is the state of that entry.
	Neighbour      net.HardwareAddr
	NeighbourState string // of ip-neighbour(8): reachable, stale, failed, permanent, ...
	Gateway        netip.Addr
	RouteVia       string // interface of the route
	RouteErr       string
	Own            bool // the peer is this host itself
	Result         *probe.Result
	// Hello is the result of asking the peer's card through the daemon of this host; nil: that was
	// not tried. Result has the answer to hellos that were sent without the daemon.
	Hello    *Hello
	ProbeErr string
	Port     uint16
}
