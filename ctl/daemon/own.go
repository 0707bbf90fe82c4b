package daemon

// This file finds which node of the peers file the daemon is, unless its configuration says so. It
// compares the addresses of the interfaces in its network namespace. So all hosts can have the same
// configuration.

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/uspace/cluster"
)

// local is an interface of this network namespace.
type local struct {
	name      string
	mac       net.HardwareAddr
	addresses []netip.Addr
}

// locals lists the interfaces, without those that carry only packets within this host.
func locals() (all []local, err error) {
	list, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("listing the interfaces: %w", err)
	}
	for _, i := range list {
		if i.Flags&net.FlagLoopback != 0 {
			continue
		}
		addresses, err := i.Addrs()
		if err != nil {
			continue // it went away
		}
		l := local{name: i.Name, mac: i.HardwareAddr}
		for _, a := range addresses {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				l.addresses = append(l.addresses, p.Addr().Unmap())
			}
		}
		all = append(all, l)
	}
	return all, nil
}

// has reports whether the interface has a node's address, of the kind that the peers file uses.
func (l *local) has(f *cluster.File, p *cluster.Peer) bool {
	if p.Absent {
		return false
	}
	if f.Encap == cluster.UDP {
		return slices.Contains(l.addresses, p.Address)
	}
	return len(p.MAC) > 0 && slices.Equal(l.mac, p.MAC)
}

// findSelf sets Card, if FindCard says so.
func (c *Config) findSelf() error {
	if !c.FindCard {
		return nil
	}
	all, err := locals()
	if err != nil {
		return err
	}
	f := *c.Peers
	if c.Encap != nil {
		f.Encap = *c.Encap
	}
	var mine []uint16
	for _, p := range f.Peers {
		if slices.ContainsFunc(all, func(l local) bool { return l.has(&f, &p) }) {
			mine = append(mine, p.Node)
		}
	}
	switch len(mine) {
	case 0:
		return fmt.Errorf("no interface of this host has an address of the peers file, so none of its %d nodes is this host; `funid peer` prints what to write there: %w", len(f.Peers), config.ErrConfig)
	case 1:
		c.Card, c.FindCard = mine[0], false
		return nil
	}
	return fmt.Errorf("this host has the addresses of nodes %v of the peers file; say which it is, such as card: %d: %w", mine, mine[0], config.ErrConfig)
}

// interfaceOf returns the interface of this host that has a node's address, if there is one. It is
// an error if several have the same MAC address, as a bond and its members have.
func interfaceOf(f *cluster.File, p *cluster.Peer) ([]string, error) {
	if p.Iface != "" {
		return []string{p.Iface}, nil
	}
	all, err := locals()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, l := range all {
		if l.has(f, p) {
			names = append(names, l.name)
		}
	}
	if len(names) > 1 {
		return nil, fmt.Errorf("%s all have %s", strings.Join(names, ", "), where(f, p))
	}
	return names, nil
}

// ReachedAt chooses the address by which another host reaches the interface: its first global IPv4
// address, or else its first global address.
func ReachedAt(addresses []net.Addr) (found netip.Addr) {
	for _, a := range addresses {
		p, err := netip.ParsePrefix(a.String())
		if err != nil || !p.Addr().IsGlobalUnicast() {
			continue
		}
		if p.Addr().Is4() {
			return p.Addr()
		}
		if !found.IsValid() {
			found = p.Addr()
		}
	}
	return found
}
