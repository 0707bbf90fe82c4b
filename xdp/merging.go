// This file finds the interfaces whose GRO merges UDP datagrams before a generic program sees them.

package xdp

import (
	"errors"
	"slices"
	"strings"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
)

// Merger is an interface whose GRO merges UDP datagrams.
type Merger struct {
	Name     string
	Features []string // of ethtool(8), that are on
}

// Cure returns the command that has the interface merge no datagrams.
func (m Merger) Cure() string {
	return "ethtool -K " + m.Name + " " + strings.Join(m.Features, " off ") + " off"
}

// Merging has the ethtool(8) features with which GRO merges datagrams that no socket asked to be
// merged (udp_gro_receive of the kernel).
var Merging = []string{"rx-udp-gro-forwarding", "rx-gro-list"}

// Mergers returns the interfaces below this one that merge datagrams: those of a VLAN, macvlan,
// bond or bridge in the network namespace of the calling thread. A generic program runs above them
// and sees what they merged. On the interface itself the kernel leaves GRO out for the program
// (netif_elide_gro). Errors: ErrNoInterface, or the kernel's.
func Mergers(ifname string) ([]Merger, error) {
	dev, err := findInterface(ifname, 0)
	if err != nil {
		return nil, err
	}
	links, err := netlink.LinkList()
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) { // others come and go
		return nil, sysFault("find the interfaces below "+ifname, err)
	}
	e, err := ethtool.NewEthtool()
	if err != nil {
		return nil, sysFault("ask for the offloads below "+ifname, err)
	}
	defer e.Close()
	var all []Merger
	for _, l := range below(links, dev.Index) {
		name := l.Attrs().Name
		on, err := e.Features(name)
		if err != nil || !on["rx-gro"] {
			continue // a driver that does not tell, or an interface without GRO
		}
		m := Merger{Name: name}
		for _, f := range Merging {
			if on[f] {
				m.Features = append(m.Features, f)
			}
		}
		if m.Features != nil {
			all = append(all, m)
		}
	}
	return all, nil
}

// below returns the links that frames of a link come through, from the nearest down.
func below(links []netlink.Link, index int) (found []netlink.Link) {
	indexes := []int{index}
	for i := 0; i < len(indexes); i++ {
		parent := 0
		for _, l := range links {
			if a := l.Attrs(); a.Index == indexes[i] && a.NetNsID < 0 && stacked(l.Type()) {
				parent = a.ParentIndex
			}
		}
		for _, l := range links {
			if a := l.Attrs(); (a.Index == parent || a.MasterIndex == indexes[i]) &&
				!slices.Contains(indexes, a.Index) {
				indexes, found = append(indexes, a.Index), append(found, l)
			}
		}
	}
	return found
}

// stacked reports whether a link of this kind receives through its parent. The parent of a veth is
// its other end.
func stacked(kind string) bool {
	return slices.Contains([]string{"vlan", "macvlan", "macvtap", "ipvlan"}, kind)
}
