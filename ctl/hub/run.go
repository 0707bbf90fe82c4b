package hub

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

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
	Hashed   bool           // of ports up one is chosen by both ends of a way
	Mode     xdp.AttachMode // auto: generic on a veth, otherwise native if the driver can
	Tell     func(line string)
}

// check refuses ports that the network does not have, and a lack of those that it has.
func (c *Config) check() error {
	if c.Router < 0 || c.Router >= c.Network.Routers() {
		return fmt.Errorf("router %d: %w: there are 0 to %d", c.Router, ErrPorts, c.Network.Routers()-1)
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
	hub     *bpf.Hub
	network uint64
	at      map[int]int  // ports, by interface index
	cut     map[int]bool // ports whose link is down
	links   map[int]*link
	states  []state // of all routers
	held    []interface{ Close() error }
}

// Run makes the calling thread's network namespace the router until the context ends. Then it
// returns the counters. It needs the privileges of bpf.LoadHub, and CAP_NET_RAW. Errors: ErrPorts,
// and those of the kernel.
func Run(ctx context.Context, c Config) (counters bpf.HubCounters, err error) {
	if err := c.check(); err != nil {
		return counters, err
	}
	ctx, end := context.WithCancel(ctx)
	var readers sync.WaitGroup
	defer readers.Wait()
	defer end()
	changes, err := follow(ctx)
	if err != nil {
		return counters, err
	}
	r := &router{Config: &c, network: identity(c.Network, c.Stations), at: map[int]int{}, cut: map[int]bool{},
		links: map[int]*link{}, states: make([]state, c.Network.Routers())}
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
	// What an earlier life of this router said has a lower number, unless the clock was set back.
	r.say(uint64(time.Now().UnixNano()))
	if err := r.forward(); err != nil {
		return counters, err
	}
	heard := make(chan message, 64) // readers wait where it is full, and the kernel drops
	for p, l := range r.links {
		readers.Go(func() { l.read(ctx, p, heard) })
	}
	tick := time.NewTicker(newsPeriod)
	defer tick.Stop()
	for {
		changed := false
		select {
		case <-ctx.Done():
			return r.hub.Counters()
		case u, ok := <-changes:
			if p, ours := r.at[int(u.Index)]; ok && ours {
				changed = r.setLink(p, u.Header.Type == unix.RTM_DELLINK || !Carries(u.Attrs()))
			}
			if !ok && ctx.Err() == nil { // more has changed at once than the kernel keeps
				if changes, err = follow(ctx); err != nil {
					return counters, err
				}
				changed = r.lookAtLinks()
			}
		case m := <-heard:
			changed = r.take(m, time.Now())
		case now := <-tick.C:
			changed = r.look(now)
			r.send(func(int) bool { return true }, -1)
		}
		if changed {
			if err := r.forward(); err != nil {
				return counters, err
			}
		}
	}
}

// follow returns a channel of the changes of links, which is closed when some were lost.
func follow(ctx context.Context) (<-chan netlink.LinkUpdate, error) {
	changes := make(chan netlink.LinkUpdate, 64) // the subscription waits where it is full
	if err := netlink.LinkSubscribe(changes, ctx.Done()); err != nil {
		return nil, fmt.Errorf("following the state of links: %w", err)
	}
	return changes, nil
}

// lookAtLinks looks at the links of all ports.
func (r *router) lookAtLinks() (changed bool) {
	for index, p := range r.at {
		l, err := netlink.LinkByIndex(index) // it may be gone
		changed = r.setLink(p, err != nil || !Carries(l.Attrs())) || changed
	}
	return changed
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
	_, _, toRouter := r.Network.Wire(r.Router, p)
	protocol := 0 // receives nothing
	if toRouter {
		protocol = newsEtherType
	}
	socket, err := listen(index, protocol)
	if err != nil {
		return fmt.Errorf("port %d: having %s receive all frames: %w", p, name, err)
	}
	r.held = append(r.held, socket)
	if toRouter {
		r.links[p] = &link{socket: socket, mac: l.Attrs().HardwareAddr, silent: true}
	}
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
		r.setLink(p, true)
	}
	return nil
}

// setLink notes whether a port's link is down, and reports whether that is new.
func (r *router) setLink(p int, down bool) bool {
	if down == r.cut[p] {
		return false
	}
	r.cut[p] = down
	word := "up"
	if down {
		word = "down"
	}
	r.Tell(fmt.Sprintf("port %d: %s is %s", p, r.Ports[p], word))
	return r.say(r.states[r.Router].number + 1)
}

// forward computes the ways around what has failed, as far as this router knows.
func (r *router) forward() error {
	return Forward(r.hub, r.Network, func(router, p int) bool {
		return router == r.Router && r.down(p) || r.states[router].down>>p&1 != 0
	}, r.Router, r.Hashed, r.Stations)
}
