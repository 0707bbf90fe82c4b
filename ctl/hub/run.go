package hub

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/uspace/topology"
	"github.com/funet/funet/xdp"
)

// ErrPorts reports ports that the router does not have, or that lack an interface.
var ErrPorts = errors.New("the ports do not fit the network")

// Config describes a router.
type Config struct {
	Network  *topology.Network
	Router   int            // which one of the network's
	Stations [][6]byte      // the address of each terminal's station; zero: there is none
	Ports    map[int]string // the interface of each port that has a wire
	Failed   [][2]int       // routers and ports that are known to have failed elsewhere
	Hashed   bool           // of ports up one is chosen by both ends of a way
	Mode     xdp.AttachMode // auto: generic on a veth, otherwise native if the driver can
	Tell     func(line string)
}

// check refuses ports that the network does not have, and a lack of those that it has.
func (c *Config) check() error {
	if c.Router < 0 || c.Router >= c.Network.Routers() {
		return fmt.Errorf("router %d: %w: there are 0 to %d", c.Router, ErrPorts, c.Network.Routers()-1)
	}
	for _, f := range c.Failed {
		if f[0] < 0 || f[0] >= c.Network.Routers() || f[1] < 0 || f[1] >= c.Network.Radix() {
			return fmt.Errorf("port %d:%d has failed: %w: there are %d routers of %d ports", f[0], f[1], ErrPorts,
				c.Network.Routers(), c.Network.Radix())
		}
	}
	for p := range c.Network.Radix() {
		name, to := c.Ports[p], c.leadsTo(p)
		if name == "" && to != "" {
			return fmt.Errorf("port %d leads to %s: %w: name its interface", p, to, ErrPorts)
		}
		if name != "" && to == "" {
			return fmt.Errorf("port %d (%s): %w: it leads nowhere in this network", p, name, ErrPorts)
		}
	}
	for p, name := range c.Ports {
		if p < 0 || p >= c.Network.Radix() {
			return fmt.Errorf("port %d (%s): %w: a router has ports 0 to %d", p, name, ErrPorts, c.Network.Radix()-1)
		}
		for q, other := range c.Ports {
			if q != p && other == name {
				return fmt.Errorf("port %d (%s): %w: port %d has that interface", max(p, q), name, ErrPorts, min(p, q))
			}
		}
	}
	return nil
}

// leadsTo describes what a port leads to; "": nothing.
func (c *Config) leadsTo(port int) string {
	e := c.Network.End(c.Router, port)
	if terminal, ok := e.Terminal(); ok && terminal < len(c.Stations) && c.Stations[terminal] != absent {
		return fmt.Sprintf("host %d, %s", terminal, net.HardwareAddr(c.Stations[terminal][:]))
	}
	if router, far, ok := c.Network.Wire(c.Router, port); ok {
		return fmt.Sprintf("port %d of router %d", far, router)
	}
	return ""
}

// router is a router that runs.
type router struct {
	*Config
	hub  *bpf.Hub
	at   map[int]int // ports, by interface index
	down map[int]bool
	held []interface{ Close() error }
}

// Run makes the calling thread's network namespace the router until the context ends. Then it
// returns the counters. It needs the privileges of bpf.LoadHub, and CAP_NET_RAW. Errors: ErrPorts,
// and those of the kernel.
func Run(ctx context.Context, c Config) (counters bpf.HubCounters, err error) {
	if err := c.check(); err != nil {
		return counters, err
	}
	news := make(chan netlink.LinkUpdate, 64) // the subscription waits where it is full
	if err := netlink.LinkSubscribe(news, ctx.Done()); err != nil {
		return counters, fmt.Errorf("following the state of links: %w", err)
	}
	r := &router{Config: &c, at: map[int]int{}, down: map[int]bool{}}
	if r.hub, err = bpf.LoadHub(); err != nil {
		return counters, err
	}
	r.held = append(r.held, r.hub)
	defer func() {
		for _, h := range slices.Backward(r.held) {
			err = errors.Join(err, h.Close())
		}
	}()
	for _, p := range slices.Sorted(maps.Keys(c.Ports)) {
		if err := r.plug(p); err != nil {
			return counters, err
		}
	}
	if err := r.forward(); err != nil {
		return counters, err
	}
	for {
		select {
		case <-ctx.Done():
			return r.hub.Counters()
		case u, ok := <-news:
			if !ok {
				if ctx.Err() == nil {
					return counters, errors.New("following the state of links: the kernel ended it; start the router again")
				}
				return r.hub.Counters()
			}
			gone := u.Header.Type == unix.RTM_DELLINK || !Carries(u.Attrs())
			if p, ours := r.at[int(u.Index)]; ours && r.hear(p, gone) {
				if err := r.forward(); err != nil {
					return counters, err
				}
			}
		}
	}
}

// Carries reports whether both ends of a link are up.
func Carries(a *netlink.LinkAttrs) bool { return a.RawFlags&unix.IFF_LOWER_UP != 0 }

// plug attaches the program to a port's interface, which receives whatever comes from then on.
func (r *router) plug(p int) error {
	name := r.Ports[p]
	l, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("port %d: interface %s: %w", p, name, err)
	}
	index := l.Attrs().Index
	every, err := promiscuous(index)
	if err != nil {
		return fmt.Errorf("port %d: having %s receive all frames: %w", p, name, err)
	}
	r.held = append(r.held, every)
	mode := r.Mode
	if mode == xdp.AttachAuto && l.Type() == "veth" {
		// The native mode of a veth forwards only to ends with a program of their own.
		mode = xdp.AttachGeneric
	}
	a, err := xdp.Attach(r.hub.Program(), index, mode)
	if err != nil {
		return fmt.Errorf("port %d: %w", p, err)
	}
	r.held = append(r.held, a)
	port := bpf.HubPort{Interface: uint32(index)}
	if terminal, ok := r.Network.End(r.Router, p).Terminal(); ok {
		port.IsStation, port.Station = true, r.Stations[terminal]
	}
	if _, far, ok := r.Network.Wire(r.Router, p); ok {
		port.Far = far
	}
	if err := r.hub.SetPort(p, port); err != nil {
		return err
	}
	r.at[index] = p
	r.Tell(fmt.Sprintf("port %d: %s to %s, %s", p, name, r.leadsTo(p), a.Mode()))
	if !Carries(l.Attrs()) {
		r.hear(p, true)
	}
	return nil
}

// hear notes whether a port's link is down, and reports whether that is new.
func (r *router) hear(p int, down bool) bool {
	if down == r.down[p] {
		return false
	}
	r.down[p] = down
	word := "up"
	if down {
		word = "down"
	}
	r.Tell(fmt.Sprintf("port %d: %s is %s", p, r.Ports[p], word))
	return true
}

// forward computes the ways around what has failed, as far as this router knows.
func (r *router) forward() error {
	return Forward(r.hub, r.Network, func(router, p int) bool {
		return router == r.Router && r.down[p] || slices.Contains(r.Failed, [2]int{router, p})
	}, r.Router, r.Hashed, r.Stations)
}

// membership has an interface receive all frames while its socket is open (packet(7)).
type membership int

func promiscuous(index int) (membership, error) {
	// Protocol 0 receives nothing.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	err = unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP,
		&unix.PacketMreq{Ifindex: int32(index), Type: unix.PACKET_MR_PROMISC})
	if err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return membership(fd), nil
}

func (m membership) Close() error { return unix.Close(int(m)) }
