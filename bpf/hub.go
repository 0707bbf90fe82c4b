// This file is the hub program of one router, and the handle on its maps.

package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
)

const (
	// HubPorts is the most ports of a router.
	HubPorts = 8
	// hubRoute is the first byte of a destination address that is a route (doc.go, Hubs).
	hubRoute = 0x0e
	// MaxHubBits is how many route bits a frame has at most (thesis 5.4).
	MaxHubBits = 30
)

// ErrHub reports a program that is no hub program of this release.
var ErrHub = errors.New("no hub program of this release")

// Hub is the hub program of one router, loaded into the kernel, and its maps. The program goes on
// without the Hub while it is attached. One goroutine at a time uses a Hub.
type Hub struct{ objects hubObjects }

// HubPort is what a port of a router leads to.
type HubPort struct {
	Interface uint32  // its index in the router's network namespace
	IsStation bool    // the port leads to a station, else to another router
	Station   [6]byte // the station's address
	Far       int     // of a port that leads to a router: the number of its port there
}

// HubRouter is how a router forwards.
type HubRouter struct {
	Width  int   // route bits that it takes: 2 or 3
	Up     uint8 // ports that all lead to the same stations, as bits
	Hashed bool  // of Up ports one is chosen by the two ends of a way, else the named one is taken
	Down   uint8 // ports that are down, as bits; for an Up port another is taken
}

// HubRoute is a way from a router to a station.
type HubRoute struct {
	Bits uint32 // ports, one for each router; the lowest bits are the first
	Left int    // how many
}

// Address returns the destination address of a frame with this route.
func (r HubRoute) Address() (a [6]byte) {
	a[0], a[1] = hubRoute, byte(r.Left)
	binary.BigEndian.PutUint32(a[2:], r.Bits)
	return a
}

// LoadHub loads the hub program. It has no ports yet, and drops every frame of FUNet. It needs the
// privileges that [LoadNIC] needs.
func LoadHub() (*Hub, error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, loadError("lift the limit on locked memory for the hub program", false, err)
	}
	h := new(Hub)
	if err := loadHubObjects(&h.objects, nil); err != nil {
		return nil, loadError("load the hub program", false, err)
	}
	return h, nil
}

// TakeHub returns a handle on a hub program that is loaded, by its number (bpf_prog_info.id). It
// takes CAP_SYS_ADMIN. It returns ErrHub if the program is another.
func TakeHub(number uint32) (_ *Hub, err error) {
	h := new(Hub)
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}()
	if h.objects.FunetHub, err = ebpf.NewProgramFromID(ebpf.ProgramID(number)); err != nil {
		return nil, fmt.Errorf("open the hub program %d: %w", number, err)
	}
	info, err := h.objects.FunetHub.Info()
	if err != nil {
		return nil, fmt.Errorf("look at the hub program %d: %w", number, err)
	}
	ids, _ := info.MapIDs()
	for _, id := range ids {
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			return nil, fmt.Errorf("open map %d of the hub program %d: %w", id, number, err)
		}
		slot := h.slot(m)
		if slot == nil || *slot != nil {
			return nil, errors.Join(fmt.Errorf("program %d: %w", number, ErrHub), m.Close())
		}
		*slot = m
	}
	if slices.Contains(h.maps(), nil) {
		return nil, fmt.Errorf("program %d: %w", number, ErrHub)
	}
	return h, nil
}

// slot returns where the map belongs, or nil if a hub has no such map. Each is of another type or
// size.
func (h *Hub) slot(m *ebpf.Map) **ebpf.Map {
	o := &h.objects
	switch {
	case m.Type() == ebpf.PerCPUArray && m.ValueSize() == 8*hubCounters:
		return &o.FunetHubCounters
	case m.Type() == ebpf.Hash && m.KeySize() == 4 && m.ValueSize() == 4:
		return &o.FunetHubInputs
	case m.Type() == ebpf.DevMap && m.ValueSize() == 4:
		return &o.FunetHubLinks
	case m.Type() == ebpf.DevMap:
		return &o.FunetHubCopies
	case m.Type() == ebpf.Array && m.ValueSize() == 8 && m.MaxEntries() == HubPorts:
		return &o.FunetHubPorts
	case m.Type() == ebpf.Hash && m.KeySize() == 8 && m.ValueSize() == 8:
		return &o.FunetHubRoutes
	case m.Type() == ebpf.Array && m.ValueSize() == 4 && m.MaxEntries() == 1:
		return &o.FunetRouter
	}
	return nil
}

// Program returns the program, for attaching it to the interfaces of all ports.
func (h *Hub) Program() *ebpf.Program { return h.objects.FunetHub }

// SetRouter says how the router forwards. Frames are dropped before the first call.
func (h *Hub) SetRouter(r HubRouter) error {
	if r.Width != 2 && r.Width != 3 {
		return fmt.Errorf("set the route bits of a router: %d: %w: give 2 or 3", r.Width, ErrRange)
	}
	v := hubFunetHubRouter{Width: uint8(r.Width), Up: r.Up, Down: r.Down}
	if r.Hashed {
		v.Hashed = 1
	}
	if err := h.objects.FunetRouter.Put(uint32(0), v); err != nil {
		return fmt.Errorf("set how a router forwards: %w", err)
	}
	return nil
}

// SetPort wires a port to an interface of the calling thread's network namespace.
func (h *Hub) SetPort(port int, p HubPort) error {
	if port < 0 || port >= HubPorts {
		return fmt.Errorf("wire port %d of a router: %w: it has %d", port, ErrRange, HubPorts)
	}
	const router, station = 1, 2
	if p.Far < 0 || p.Far >= HubPorts {
		return fmt.Errorf("wire port %d of a router to port %d of another: %w: it has %d", port, p.Far, ErrRange,
			HubPorts)
	}
	v := hubFunetHubPort{Kind: router, Far: uint8(p.Far)}
	if p.IsStation {
		v.Kind, v.Station = station, p.Station
	}
	copies := hubBpfDevmapVal{Ifindex: p.Interface}
	copies.BpfProg.Fd = int32(h.objects.FunetHubCopy.FD())
	for _, err := range []error{
		h.objects.FunetHubLinks.Put(uint32(port), p.Interface),
		h.objects.FunetHubCopies.Put(uint32(port), copies),
		h.objects.FunetHubInputs.Put(p.Interface, uint32(port)),
		h.objects.FunetHubPorts.Put(uint32(port), v),
	} {
		if err != nil {
			return fmt.Errorf("wire port %d of a router to interface %d: %w", port, p.Interface, err)
		}
	}
	return nil
}

// SetRoute says the way from the router to a station.
func (h *Hub) SetRoute(station [6]byte, r HubRoute) error {
	if r.Left < 1 || r.Left > MaxHubBits/2 || r.Bits>>MaxHubBits != 0 {
		return fmt.Errorf("set the way to station %x: %d ports, bits %#x: %w", station, r.Left, r.Bits, ErrRange)
	}
	if err := h.objects.FunetHubRoutes.Put(hubFunetHubStation{Address: station},
		hubFunetHubRoute{Bits: r.Bits, Left: uint8(r.Left)}); err != nil {
		return fmt.Errorf("set the way to station %x: %w", station, err)
	}
	return nil
}

// RemoveRoute forgets the way to a station, whether or not there is one.
func (h *Hub) RemoveRoute(station [6]byte) error {
	err := h.objects.FunetHubRoutes.Delete(hubFunetHubStation{Address: station})
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("forget the way to station %x: %w", station, err)
	}
	return nil
}

// hubCounters is how many counters the program has.
const hubCounters = 11 + HubPorts

// HubCounters counts frames by what became of them, since the program was loaded.
type HubCounters struct {
	Passed    uint64 `json:"frames_passed"`          // not FUNet: left to the kernel
	Stranger  uint64 `json:"frames_of_no_port"`      // in by an interface that is no port
	Unrouted  uint64 `json:"frames_unrouted"`        // from a router without a route, or for many
	Unknown   uint64 `json:"frames_to_unknown"`      // for a station that no way is known to
	Exhausted uint64 `json:"frames_exhausted"`       // the route has ended before a station
	Long      uint64 `json:"frames_too_long_routed"` // it goes on behind a station, or is too long
	Nowhere   uint64 `json:"frames_nowhere"`         // the route names a port that leads nowhere
	Down      uint64 `json:"frames_down"`            // the route names a port that is down
	Forged    uint64 `json:"frames_forged"`          // from a station in another's name
	Unbundled uint64 `json:"frames_no_bundle"`       // for many stations, and no bundle
	Bundles   uint64 `json:"bundles"`                // came in; their frames count besides
	// Forwarded counts by port. A bundle that leaves by several ports counts at each.
	Forwarded [HubPorts]uint64 `json:"frames_forwarded"`
}

// Counters returns the sums over all processors.
func (h *Hub) Counters() (c HubCounters, err error) {
	var all []hubFunetHubCounts
	if err := h.objects.FunetHubCounters.Lookup(uint32(0), &all); err != nil {
		return c, fmt.Errorf("read the counters of a router: %w", err)
	}
	for _, one := range all {
		for i, n := range []*uint64{&c.Passed, &c.Stranger, &c.Unrouted, &c.Unknown, &c.Exhausted, &c.Long, &c.Nowhere,
			&c.Down, &c.Forged, &c.Unbundled,
			&c.Bundles} {
			*n += one.N[i]
		}
		for i := range c.Forwarded {
			c.Forwarded[i] += one.N[hubCounters-HubPorts+i]
		}
	}
	return c, nil
}

// maps returns all maps.
func (h *Hub) maps() []*ebpf.Map {
	o := &h.objects
	return []*ebpf.Map{o.FunetHubCopies, o.FunetHubCounters, o.FunetHubInputs, o.FunetHubLinks, o.FunetHubPorts,
		o.FunetHubRoutes, o.FunetRouter}
}

// Close gives the handle back.
func (h *Hub) Close() error {
	var errs []error
	for _, m := range h.maps() {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	for _, p := range []*ebpf.Program{h.objects.FunetHub, h.objects.FunetHubCopy} {
		if p != nil {
			errs = append(errs, p.Close())
		}
	}
	return errors.Join(errs...)
}
