// This file has the options of a lab, their limits, and the errors that callers decide on.

package lab

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// Limits of a lab.
const (
	MinHosts = 2
	MaxHosts = 8
	// MaxHubHosts is the most hosts that are joined by routers in the kernel (Topology.IsHub).
	MaxHubHosts = 16
	MinMTU      = 68    // of IPv4 (RFC 791)
	MaxMTU      = 65535 // of veth
	DefaultMTU  = 1500
	MaxQueues   = 64
	MaxName     = 15 // characters in a lab's name
)

// Errors for errors.Is. The text of an error says what was refused and what to do.
var (
	ErrOptions = errors.New("option out of range") // Hosts, Topology, MTU or Queues
	ErrName    = errors.New("bad name")            // not 1..15 letters, digits and '-'
	// ErrExists reports Up of a name that is up or being built.
	ErrExists   = errors.New("already exists")
	ErrNotFound = errors.New("no such lab") // reports Open or Down of a name without a state file
	// ErrBusy reports Open or Down while another process builds the lab, or a lock held too long.
	ErrBusy = errors.New("in use")
	// ErrDamaged reports Open of a lab whose namespaces are gone.
	ErrDamaged    = errors.New("damaged")
	ErrPermission = errors.New("not permitted")             // needs root
	ErrNoHost     = errors.New("no such host")              // host index out of range
	ErrClosed     = errors.New("lab is closed")             // use after Close
	ErrLinkDown   = errors.New("link did not come up")      // not operational within 10 s
	ErrSteer      = errors.New("kernel has no RPS")         // Steer needs CONFIG_RPS
	ErrKill       = errors.New("child would not be killed") // still there 10 s after SIGKILL
)

// Topology says how the hosts are joined.
type Topology string

const (
	Pair   Topology = "pair"   // one veth pair between two hosts
	Bridge Topology = "bridge" // a hub namespace with a Linux bridge, one veth pair to each host
	Mesh   Topology = "mesh"   // a veth pair for every two hosts
	// Router is a hub namespace that routes IP, with one veth pair and network to each host.
	Router Topology = "router"
	// Star is a router in a namespace of its own, for up to 8 hosts. Hypercube, FatTree and
	// Butterfly are networks of such routers. These forward FUNet's frames in the kernel (package
	// topology).
	Star      Topology = "star"
	Hypercube Topology = "hypercube"
	FatTree   Topology = "fat-tree"
	Butterfly Topology = "butterfly"
)

// MostHosts returns the most hosts of a lab with the topology.
func (t Topology) MostHosts() int {
	if t.IsHub() && t != Star {
		return MaxHubHosts
	}
	return MaxHosts
}

// Options describe a lab. Zero values of all fields but Hosts stand for the defaults.
type Options struct {
	Hosts    int      // 2..8, with routers in the kernel 2..16
	Topology Topology // default: Pair for 2 hosts, Bridge for more
	IPv6     bool     // topology Router: the peers files have the IPv6 addresses
	// Hashed, with topology FatTree, has both ends of a way choose its ports up, not the receiver
	// alone.
	Hashed bool
	MTU    int // bytes, 68..65535, default 1500; of every interface and of the bridge
	Queues int // receive and transmit queues of every interface, 1..64, default 1
	// Steer makes processor i receive host i's frames, modulo the number of processors (Receive
	// Packet Steering, Documentation/networking/scaling.rst). Otherwise a veth receives on the
	// sender's processor, within the sender's system call.
	Steer bool
	Name  string // "" makes an anonymous lab; else 1..15 letters, digits and '-'
	// Prepare, if not nil, is called with the lab when its links work, before others can use it. If
	// it fails, Up returns its error and removes the lab again.
	Prepare func(*Lab) error
}

// complete fills in defaults and refuses options that no lab can have.
func (o Options) complete() (Options, error) {
	if most := o.Topology.MostHosts(); o.Hosts < MinHosts || o.Hosts > most {
		return o, fmt.Errorf("%w: %d hosts, want %d to %d", ErrOptions, o.Hosts, MinHosts, most)
	}
	if o.Topology == "" {
		o.Topology = Bridge
		if o.Hosts == 2 {
			o.Topology = Pair
		}
	}
	switch o.Topology {
	case Bridge, Mesh, Router, Star, Hypercube, FatTree, Butterfly:
	case Pair:
		if o.Hosts != 2 {
			return o, fmt.Errorf("%w: topology pair joins 2 hosts, not %d; want bridge or mesh", ErrOptions, o.Hosts)
		}
	default:
		return o, fmt.Errorf("%w: topology %q, want pair, bridge, mesh, router, star, hypercube, fat-tree or butterfly",
			ErrOptions, o.Topology)
	}
	if o.IPv6 && o.Topology != Router {
		return o, fmt.Errorf("%w: IPv6 with topology %s, want router; IPv6 is off in other labs",
			ErrOptions, o.Topology)
	}
	if o.Hashed && o.Topology != FatTree {
		return o, fmt.Errorf("%w: hashed ways with topology %s, want fat-tree; others have one way", ErrOptions,
			o.Topology)
	}
	if o.Topology == Router && o.MTU != 0 && o.MTU < minIPv6MTU {
		return o, fmt.Errorf("%w: MTU %d with topology router, want %d to %d: its hosts have IPv6", ErrOptions, o.MTU,
			minIPv6MTU, MaxMTU)
	}
	if o.MTU = cmp.Or(o.MTU, DefaultMTU); o.MTU < MinMTU || o.MTU > MaxMTU {
		return o, fmt.Errorf("%w: MTU %d, want %d to %d", ErrOptions, o.MTU, MinMTU, MaxMTU)
	}
	if o.Queues = cmp.Or(o.Queues, 1); o.Queues < 1 || o.Queues > MaxQueues {
		return o, fmt.Errorf("%w: %d queues, want 1 to %d", ErrOptions, o.Queues, MaxQueues)
	}
	if o.Name != "" {
		if err := checkName(o.Name); err != nil {
			return o, err
		}
	}
	return o, nil
}

// minIPv6MTU is the smallest MTU for IPv6 (RFC 8200, 5).
const minIPv6MTU = 1280

// hubs returns the names of the namespaces besides those of the hosts.
func (o Options) hubs() (names []string) {
	switch {
	case o.Topology == Bridge, o.Topology == Router:
		names = append(names, hubNamespace(o.Name))
	case o.Topology.IsHub():
		n, err := o.Topology.Network(o.Hosts)
		for r := 0; err == nil && r < n.Routers(); r++ {
			names = append(names, fmt.Sprint(hubNamespace(o.Name), r))
		}
	}
	return names
}

// checkName refuses names that could leave the state directory or confuse a shell.
func checkName(name string) error {
	ok := len(name) >= 1 && len(name) <= MaxName
	for _, c := range []byte(name) {
		ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-')
	}
	if !ok || name[0] == '-' {
		return fmt.Errorf("%w: %q, want 1 to %d letters, digits and '-', not beginning with '-'",
			ErrName, name, MaxName)
	}
	return nil
}

// permission turns the kernel's refusal into ErrPermission, and says what to do. Other errors pass.
func permission(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: run as root or with CAP_SYS_ADMIN and CAP_NET_ADMIN (%w)", ErrPermission, err)
	}
	return err
}

// join is errors.Join with the texts on one line.
func join(errs ...error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return fmt.Errorf("%w; also: %w", errs[0], join(errs[1:]...))
}
