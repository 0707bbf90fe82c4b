// This file is the switch of ports: the guard, which is attached to the outer end of each port, and
// the table that it shares with the NIC program (switch.h).

package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
)

// MostPorts is the largest number of ports of a switch.
const MostPorts = 1 << 16

// PlaceSize is the kernel memory, in bytes, for each node of a job (AddJob).
const PlaceSize = 112

// Switch is the guard, loaded into the kernel, and its table. One goroutine at a time uses it.
type Switch struct {
	guards guardPrograms
	maps   guardMaps
	links  *ebpf.Map
	ring   *ebpf.Map // of the capture that is under way; nil: none (capture.go)
	// places maps each job to its places. Finding a map by its number takes CAP_SYS_ADMIN (bpf(2),
	// BPF_MAP_GET_FD_BY_ID).
	places map[Job]*ebpf.Map
}

// LoadSwitch loads the guard, with room for the given number of ports. It has neither ports nor
// jobs yet, and drops everything. It needs Linux 6.4, and the privileges that LoadNIC needs.
func LoadSwitch(ports int) (*Switch, error) {
	s, err := loadGuards(ports, nil)
	if err != nil {
		return nil, err
	}
	if s.links, err = ebpf.NewMap(&ebpf.MapSpec{Name: "funet_links", Type: ebpf.DevMap, KeySize: 4, ValueSize: 4,
		MaxEntries: uint32(ports)}); err != nil {
		return nil, errors.Join(loadError("make the map of the ports' links", false, err), s.Close())
	}
	return s, nil
}

// TakeSwitch is LoadSwitch with the maps of a switch whose process has ended. The maps come from
// Shared.FDs, and those of its jobs from PlacesFD. Ports and jobs are as before, except that
// TakeSwitch removes those that it is not given. A capture goes on until StopCapture. TakeSwitch
// takes over the descriptors, even if it fails.
func TakeSwitch(ports int, shared [SharedMaps]int, jobs map[Job]int,
	known func(outer uint32) bool) (_ *Switch, err error) {
	places, errs := map[Job]*ebpf.Map{}, []error(nil)
	for j, fd := range jobs {
		m, err := ebpf.NewMapFromFD(fd)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		places[j] = m
	}
	maps, err := OpenShared(shared)
	if err = errors.Join(append(errs, err)...); err != nil {
		for _, m := range places {
			err = errors.Join(err, m.Close())
		}
		return nil, err
	}
	defer func() { err = errors.Join(err, maps.Close()) }()
	s, err := loadGuards(ports, maps)
	if err != nil {
		for _, m := range places {
			err = errors.Join(err, m.Close())
		}
		return nil, err
	}
	s.places = places
	if s.links, err = maps.links.Clone(); err == nil {
		err = errors.Join(s.forgetJobs(), s.forgetPorts(known))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("take the maps of a switch over: %w", err), s.Close())
	}
	return s, nil
}

// loadGuards loads the programs, with maps of their own or with those of a former switch.
func loadGuards(ports int, with *Shared) (*Switch, error) {
	if ports < 1 || ports > MostPorts {
		return nil, fmt.Errorf("load the guard of ports for %d ports: %w: give 1 to %d", ports, ErrRange, MostPorts)
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, loadError("lift the limit on locked memory for the guard of ports", false, err)
	}
	spec, err := loadGuard()
	if err != nil {
		return nil, fmt.Errorf("read the built-in guard of ports: %w: rebuild it with go generate", err)
	}
	spec.Maps["funet_ports"].MaxEntries = uint32(ports)
	// Else kernels such as 6.1 take a map without types (AddJob) for one of another kind
	// (bpf_map_meta_equal, kernel/bpf/map_in_map.c).
	inner := spec.Maps["funet_jobs"].InnerMap
	inner.Key, inner.Value = nil, nil
	var options ebpf.CollectionOptions
	if with != nil {
		options.MapReplacements = with.named()
		delete(options.MapReplacements, "funet_links") // which the guard has not
	}
	var objects guardObjects
	if err := spec.LoadAndAssign(&objects, &options); err != nil {
		if !errors.Is(err, os.ErrPermission) {
			return nil, fmt.Errorf("load the guard of ports: %w: Linux 6.4 or later is needed for direct ports", err)
		}
		return nil, loadError("load the guard of ports", false, err)
	}
	return &Switch{guards: objects.guardPrograms, maps: objects.guardMaps, places: map[Job]*ebpf.Map{}}, nil
}

// forgetJobs removes jobs whose places the switch does not have, and places of ended jobs.
func (s *Switch) forgetJobs() error {
	there := map[Job]bool{}
	for _, k := range keysOf[guardFunetJob](s.maps.FunetJobs) {
		j := Job{Tag: k.Tag, GID: uint16(k.Gid)}
		if there[j] = s.places[j] != nil; !there[j] {
			if err := s.RemoveJob(j); err != nil {
				return err
			}
		}
	}
	for j := range s.places {
		if !there[j] {
			if err := s.RemoveJob(j); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Switch) forgetPorts(known func(outer uint32) bool) error {
	var errs []error
	for _, outer := range keysOf[uint32](s.maps.FunetPorts) {
		if !known(outer) {
			errs = append(errs, s.maps.FunetPorts.Delete(outer))
		}
	}
	for link := range s.links.MaxEntries() {
		var outer uint32
		if err := s.links.Lookup(link, &outer); err == nil && !known(outer) {
			errs = append(errs, s.links.Delete(link))
		}
	}
	return errors.Join(errs...)
}

// keysOf lists the keys of a map that nobody changes meanwhile.
func keysOf[K any](m *ebpf.Map) (keys []K) {
	var key K
	for err := m.NextKey(nil, &key); err == nil; err = m.NextKey(key, &key) {
		keys = append(keys, key)
	}
	return keys
}

// PlacesFD returns the descriptor of a job's places, for TakeSwitch, or -1 if there is no such job.
// It stays the switch's.
func (s *Switch) PlacesFD(j Job) int {
	if m := s.places[j]; m != nil {
		return m.FD()
	}
	return -1
}

// HasPort reports whether the switch has a port.
func (s *Switch) HasPort(outer uint32) bool {
	var p guardFunetPort
	return s.maps.FunetPorts.Lookup(outer, &p) == nil
}

// Guard returns the program to attach to the ingress of a port's outer end. It is a tc program, or,
// if generic is true, an XDP program for generic mode (doc.go, Ports). It belongs to the switch.
func (s *Switch) Guard(generic bool) *ebpf.Program {
	if generic {
		return s.guards.FunetGuardXdp
	}
	return s.guards.FunetGuard
}

// SharedMaps is the number of maps that a NIC program shares with a switch.
const SharedMaps = 6

// Shared holds the maps that a NIC program shares with a switch (Load.Switch). The switch may be
// another process's.
type Shared struct{ ports, jobs, links, credits, rings, capture *ebpf.Map }

// Shared returns the switch's maps, which it keeps: they are of no use after its Close.
func (s *Switch) Shared() *Shared {
	m := &s.maps
	return &Shared{m.FunetPorts, m.FunetJobs, s.links, m.FunetCredits, m.FunetRings, m.FunetCapture}
}

// FDs returns the descriptors of the maps. A process that receives them gives them to OpenShared.
func (s *Shared) FDs() [SharedMaps]int {
	return [...]int{s.ports.FD(), s.jobs.FD(), s.links.FD(), s.credits.FD(), s.rings.FD(), s.capture.FD()}
}

// OpenShared returns the maps of another process's switch. It takes over the descriptors, even if
// it fails.
func OpenShared(fds [SharedMaps]int) (*Shared, error) {
	s, errs := new(Shared), []error(nil)
	for i, m := range []**ebpf.Map{&s.ports, &s.jobs, &s.links, &s.credits, &s.rings, &s.capture} {
		var err error
		if *m, err = ebpf.NewMapFromFD(fds[i]); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(fmt.Errorf("open the maps of a switch of ports: %w", err), s.Close())
	}
	return s, nil
}

// Close gives back what OpenShared opened. A program that was loaded with the maps keeps them.
func (s *Shared) Close() error {
	var errs []error
	for _, m := range []*ebpf.Map{s.ports, s.jobs, s.links, s.credits, s.rings, s.capture} {
		errs = append(errs, m.Close()) // nil: nothing to close
	}
	return errors.Join(errs...)
}

func (s *Shared) named() map[string]*ebpf.Map {
	return map[string]*ebpf.Map{"funet_ports": s.ports, "funet_jobs": s.jobs, "funet_links": s.links,
		"funet_credits": s.credits,
		"funet_rings":   s.rings, "funet_capture": s.capture}
}

// Job names a job.
type Job struct {
	Tag uint64
	GID uint16
}

func (j Job) key() guardFunetJob { return guardFunetJob{Tag: j.Tag, Gid: uint32(j.GID)} }

// Port names the owner of a port.
type Port struct {
	Job  Job
	Node uint16 // and the number of its card
	// Account is the number, from 1 on, of the account that pays. Its ports share the credit with a
	// host that sends them nothing (NoCredit), and a NIC that is full. 0 means no account; the port
	// then needs no credit.
	Account uint32
}

// Place says where a node is: behind a port of this host, or behind another host.
type Place struct {
	Port uint32 // index of the port's outer end, in the NIC's namespace; 0: it is behind a host
	// place of the port among the switch's links, below the number that LoadSwitch was given
	Link uint32
	NIC  uint32 // index of the interface that leads to the host
	// bytes of the longest frame that goes there, with its Ethernet header, as the process sends it
	Longest int
	Host    uint16 // the host's number, whichever way leads there
	// Bundles says that routers on the way take bundles apart. Such a way has an Ethernet header
	// and nothing else.
	Bundles bool `json:",omitempty"`
	Way
}

// Way describes how frames go to a host, and how they come from there.
type Way struct {
	// From is the source address of frames from that host. An Ethernet address fills the first 6
	// bytes; an IPv4 address is mapped into IPv6.
	From [16]byte
	// Head holds the bytes in front of the version on the wire there. They are an Ethernet header,
	// perhaps with a VLAN tag, and perhaps IP and UDP headers. The guard writes the lengths,
	// checksums and source port of the latter.
	Head []byte
	// IPSum is the sum (RFC 1071) of the words of an IPv4 header, and UDPSum that of pseudo-header
	// and UDP header. Both leave out what the guard writes, and are as they lie in memory.
	IPSum, UDPSum [2]byte
}

// EthernetWay returns the way from an interface with the Ethernet address own to a host with the
// address to. vlan is the number of the VLAN; 0: frames have no tag.
func EthernetWay(to, own [6]byte, vlan uint16) (w Way) {
	copy(w.From[:], to[:])
	w.Head = append(to[:], own[:]...)
	if vlan != 0 {
		w.Head = binary.BigEndian.AppendUint16(w.Head, 0x8100) // IEEE 802.1Q 9.6
		w.Head = binary.BigEndian.AppendUint16(w.Head, vlan)
	}
	w.Head = binary.BigEndian.AppendUint16(w.Head, EtherType)
	return w
}

// AddPort lets the process of a port send and receive frames of its node of the job. outer is the
// index of the port's outer end, and link its place among the links.
func (s *Switch) AddPort(outer, link uint32, p Port) error {
	err := s.maps.FunetPorts.Update(outer, guardFunetPort{Tag: p.Job.Tag, Gid: p.Job.GID, Card: p.Node,
		Account: p.Account}, ebpf.UpdateNoExist)
	if err == nil {
		if err = s.links.Update(link, outer, ebpf.UpdateAny); err != nil {
			err = errors.Join(err, s.RemovePort(outer, link))
		}
	}
	if err != nil {
		return fmt.Errorf("add the port of node %d of group %d to the switch: %w", p.Node, p.Job.GID, err)
	}
	return nil
}

// RemovePort ends a port: no frame from it or for it passes any more. The caller first takes its
// node out of the job (SetPlace).
func (s *Switch) RemovePort(outer, link uint32) error {
	var errs []error
	for _, err := range []error{s.maps.FunetPorts.Delete(outer), s.links.Delete(link)} {
		if !errors.Is(err, ebpf.ErrKeyNotExist) { // the kernel takes out links that are gone
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove the port with the link %d from the switch: %w", outer, err)
	}
	return nil
}

// AddJob makes room for a job with the given number of nodes, which have no place yet.
func (s *Switch) AddJob(j Job, nodes int) error {
	if nodes < 1 || nodes > 1<<16 || j.GID >= Groups {
		return fmt.Errorf("add group %d of %d nodes to the switch: %w: a GID is 1 to %d, and a group has 1 to 65536 nodes", j.GID, nodes, ErrRange, Groups-1)
	}
	spec := &ebpf.MapSpec{Name: "funet_places", Type: ebpf.Array, KeySize: 4, ValueSize: PlaceSize,
		MaxEntries: uint32(nodes), Flags: innerMap}
	places, err := ebpf.NewMap(spec)
	if err == nil {
		if err = s.maps.FunetJobs.Update(j.key(), uint32(places.FD()), ebpf.UpdateNoExist); err != nil {
			err = errors.Join(err, places.Close())
		}
	}
	if err != nil {
		return fmt.Errorf("add group %d to the switch: %w", j.GID, err)
	}
	s.places[j] = places
	return nil
}

// HasJob reports whether there is such a job.
func (s *Switch) HasJob(j Job) bool { return s.places[j] != nil }

// RemoveJob removes a job, with all its places.
func (s *Switch) RemoveJob(j Job) error {
	err := s.maps.FunetJobs.Delete(j.key())
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		err = nil
	}
	err = errors.Join(err, s.places[j].Close()) // nil: there is no such job
	delete(s.places, j)
	if err != nil {
		return fmt.Errorf("remove group %d from the switch: %w", j.GID, err)
	}
	return nil
}

// SetPlace sets the place of a node of a job; nil means that it has none.
func (s *Switch) SetPlace(j Job, node uint16, p *Place) error {
	return s.SetPlaces(j, []uint32{uint32(node)}, []*Place{p})
}

// SetPlaces is SetPlace for several nodes, each with its own place. After an error some of them may
// be where they were before.
func (s *Switch) SetPlaces(j Job, nodes []uint32, at []*Place) error {
	values := make([]guardFunetPlace, len(nodes))
	for i, p := range at {
		if err := values[i].set(p); err != nil {
			return fmt.Errorf("set the place of node %d of group %d: %w", nodes[i], j.GID, err)
		}
	}
	err := ebpf.ErrKeyNotExist
	if places := s.places[j]; places != nil {
		// a node that the job has not is one beyond its array
		_, err = places.BatchUpdate(nodes, values, nil)
	}
	if err != nil {
		return fmt.Errorf("set the places of %d nodes of group %d, from node %d on: %w", len(nodes),
			j.GID, nodes[0], err)
	}
	return nil
}

// set converts a place into the form that the programs read.
func (v *guardFunetPlace) set(p *Place) error {
	if p == nil {
		return nil
	}
	if p.Port != 0 {
		*v = guardFunetPlace{Kind: kindPort, Ifindex: p.Port, Link: p.Link, Longest: uint32(p.Longest)}
		return nil
	}
	ne := binary.NativeEndian
	*v = guardFunetPlace{Kind: kindHost, Ifindex: p.NIC, Longest: uint32(p.Longest), Size: uint16(len(p.Head)),
		Host: p.Host, IpSum: ne.Uint16(p.IPSum[:]), UdpSum: ne.Uint16(p.UDPSum[:])}
	for i := range v.From.Word {
		v.From.Word[i] = ne.Uint32(p.From[4*i:])
	}
	if p.Bundles {
		v.Kind = kindRouted
	}
	if p.Bundles && len(p.Head) != ethernetHead {
		return fmt.Errorf("%w: headers of %d bytes on a way of bundles, which has %d", ErrRange, len(p.Head),
			ethernetHead)
	}
	if copy(v.Head[:], p.Head) < len(p.Head) {
		return fmt.Errorf("%w: headers of %d bytes, and there is room for %d", ErrRange, len(p.Head), len(v.Head))
	}
	return nil
}

// Close closes the programs and maps of the switch. Programs that are attached hold what they need.
func (s *Switch) Close() error {
	var errs []error
	if s.links != nil {
		errs = append(errs, s.links.Close())
	}
	for _, places := range s.places {
		errs = append(errs, places.Close())
	}
	errs = append(errs, s.ring.Close()) // nil: nobody captures
	if err := errors.Join(append(errs, s.guards.Close(), s.maps.Close())...); err != nil {
		return fmt.Errorf("close the switch of ports: %w", err)
	}
	return nil
}

// PortCounters counts the outcomes of the frames that a port's process sent. Each frame is in
// exactly one counter. The order is that of enum funet_port_counter in switch.h.
type PortCounters struct {
	Short      uint64 `json:"short"`       // it ended inside the header: dropped
	BadVersion uint64 `json:"bad_version"` // no direct frame: dropped
	Forged     uint64 `json:"forged"`      // in another's name: dropped
	// its length is below the header's or beyond the frame: dropped
	BadLength uint64 `json:"bad_length"`
	NoNode    uint64 `json:"no_node"`  // for a node that has no place, or takes no bundles: dropped
	TooLong   uint64 `json:"too_long"` // longer than the way takes: dropped
	// beyond the credit with a host that does not answer: dropped
	NoCredit uint64 `json:"no_credit"`
	Sent     uint64 `json:"sent"`  // to another host
	Local    uint64 `json:"local"` // to another port of this host
}

// fields lists the counters in the order of enum funet_port_counter.
func (c *PortCounters) fields() [9]*uint64 {
	return [...]*uint64{&c.Short, &c.BadVersion, &c.Forged, &c.BadLength, &c.NoNode, &c.TooLong, &c.NoCredit,
		&c.Sent, &c.Local}
}

// Add adds the counters of another port.
func (c *PortCounters) Add(o *PortCounters) {
	from := o.fields()
	for i, n := range c.fields() {
		*n += *from[i]
	}
}

// Dropped returns how many of the frames were dropped.
func (c *PortCounters) Dropped() uint64 {
	return c.Short + c.BadVersion + c.Forged + c.BadLength + c.NoNode + c.TooLong + c.NoCredit
}

// PortCounters reads the counters of a port.
func (s *Switch) PortCounters(outer uint32) (c PortCounters, err error) {
	var p guardFunetPort
	if err := s.maps.FunetPorts.Lookup(outer, &p); err != nil {
		return c, fmt.Errorf("read the counters of the port with the link %d: %w", outer, err)
	}
	for i, n := range c.fields() {
		*n = p.N[i]
	}
	return c, nil
}

// These constants are as in switch.h; a test compares them.
const (
	kindPort   = 1
	kindHost   = 2
	kindRouted = 3
	innerMap   = 1 << 12 // BPF_F_INNER_MAP of linux/bpf.h

	ethernetHead = 14 // bytes of an Ethernet header without tags
)
