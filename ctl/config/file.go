package config

// This file is what a configuration says.

import (
	"errors"
	"time"

	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/xdp"
)

// DefaultSlots is the size of a process's queues in slots, if it does not say.
const DefaultSlots = 1024

// ErrConfig is wrapped by every error about what a configuration says.
var ErrConfig = errors.New("invalid configuration")

// File is what a configuration file says. The zero value of a field stands for its default, unless
// the field is said to be needed.
type File struct {
	Socket string // path; DefaultSocket
	// Card is the number of this host's card, its node in Peers, which is needed. With FindCard it
	// is the node whose address an interface of this host has (own.go).
	Card     uint16
	FindCard bool
	Peers    *cluster.File
	// PeersPath is the file that Peers is from. The daemon looks at it each second, and follows
	// hosts that have joined, left or moved (members.go); "": Peers never changes.
	PeersPath string
	// Etcd is where the cluster keeps its table, in place of a peers file; nil: there is none.
	Etcd *Etcd
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

	// Queue is the queue that frames leave on, and are steered to where the NIC can (afxdp.Config);
	// nil: all.
	Queue   *int
	CPU     int // processor of the card's thread; negative: it is not pinned
	Polling Polling
	// Profile limits the card; nil: native. It must not model time.
	Profile *hwprofiles.Profile
	// Turns says whether groups take turns at the same time on all hosts (share.go). It trusts
	// everybody on the segment with the time of turns, within bounds (package turns).
	Turns Turns
	Slots int // per queue, for a process that does not say; DefaultSlots
	// Accesses says what is done about refused accesses to windows (accesses.go). With
	// SuspendWindows, RefusedLimit refused accesses of one node suspend a window: 1 to 1,000,000;
	// 0: DefaultRefusedLimit.
	Accesses     Accesses
	RefusedLimit int
	// PeerTimeout and ConnectTimeout are the engine's.
	PeerTimeout, ConnectTimeout time.Duration
	// Drain is how long a stop waits for packets under way, at most; DefaultDrain.
	Drain time.Duration

	// Memory is the kind of memory that processes share with the card.
	Memory MemoryKind
	// Rules say who may use the card; the first rule that matches a user counts. Without rules
	// everybody may use it, as DefaultRule says.
	Rules          []Rule
	Administrators Who // besides uid 0
	// NotRoot says that uid 0 is not an administrator. In a container without a user namespace root
	// is uid 0, too.
	NotRoot bool
	// Subordinates is the file of subordinate numbers, DefaultSubordinates.
	Subordinates string
	// MostMemory is the bytes of contexts and segments of all users together; 0: three quarters of
	// the machine's memory, or what the daemon's memory cgroups leave beside it (memory_limit.go).
	MostMemory int64
	// Metrics is the address of the metrics: "unix:" and a path, or a loopback address with
	// port; "": nowhere.
	Metrics string
	// LogFormat and LogLevel are for the caller who makes Logger (NewLog).
	LogFormat LogFormat
	LogLevel  LogLevel
	// Carriage says whether jobs may have direct ports. Direct ports need frames with FUNet's own
	// EtherType, without VLAN, and not Jumbo.
	Carriage Carriage
	// Helper is the path of the socket of a helper that runs as a service (funid unit --ports); "":
	// the daemon starts one beside its socket.
	Helper string
}
