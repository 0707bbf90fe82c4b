package hub

import (
	"errors"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/uspace/topology"
)

// absent stands for the station of a terminal that has none.
var absent [6]byte

// Forward tells the program of a router how it forwards, and the ways to all stations from its own,
// around the ports that have failed. Station i is at terminal i, and stations may be fewer than
// terminals. A router that has no station needs no way, because the first router of a frame names
// the ports of all.
func Forward(h *bpf.Hub, n *topology.Network, failed func(router, port int) bool, router int, hashed bool,
	stations [][6]byte) error {
	m := n.Without(failed)
	r := bpf.HubRouter{Width: n.Width(), Up: m.Up(router), Hashed: hashed}
	for p := range n.Radix() {
		if n.End(router, p) != topology.Unwired && m.End(router, p) == topology.Unwired {
			r.Down |= 1 << p
		}
	}
	if err := h.SetRouter(r); err != nil {
		return err
	}
	for from := range stations {
		if at, p := m.Home(from); at != router || m.End(at, p) == topology.Unwired {
			continue
		}
		return ways(h, m, from, stations) // those of the router's other stations are the same
	}
	return ways(h, m, -1, stations)
}

// ways tells the ways from a terminal; -1: there are none.
func ways(h *bpf.Hub, n *topology.Network, from int, stations [][6]byte) error {
	var errs []error
	for to, s := range stations {
		if s == absent {
			continue
		}
		var w topology.Way
		if from >= 0 {
			w = n.Way(from, to)
		}
		if w.Hops > 0 {
			errs = append(errs, h.SetRoute(s, bpf.HubRoute{Bits: w.Bits, Left: w.Hops}))
		} else {
			errs = append(errs, h.RemoveRoute(s))
		}
	}
	return errors.Join(errs...)
}
