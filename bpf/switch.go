// This file is the switch of ports: the guard, which is attached to the outer end of each port, and the table that it shares with
// the NIC program (switch.h).

package bpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
)

// MostPorts is how many ports a switch can have.
const MostPorts = 1 << 16

// Switch is the guard, loaded into the kernel, and its table. One goroutine at a time calls its methods.
type Switch struct {
	guard *ebpf.Program
	maps  guardMaps
	links *ebpf.Map
	// places are those of each job. To find a map by its number takes CAP_SYS_ADMIN (bpf(2), BPF_MAP_GET_FD_BY_ID).
	places map[Job]*ebpf.Map
}

// LoadSwitch loads the guard, with room for so many ports. It has neither ports nor jobs, and drops everything. It
// needs Linux 5.10, and what LoadNIC needs.
func LoadSwitch(ports int) (*Switch, error) {
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
	for _, name := range []string{"funet_ports", "funet_port_counters"} {
		spec.Maps[name].MaxEntries = uint32(ports)
	}
	var objects guardObjects
	if err := spec.LoadAndAssign(&objects, nil); err != nil {
		return nil, loadError("load the guard of ports", false, err)
	}
	s := &Switch{guard: objects.FunetGuard, maps: objects.guardMaps, places: map[Job]*ebpf.Map{}}
	if s.links, err = ebpf.NewMap(&ebpf.MapSpec{Name: "funet_links", Type: ebpf.DevMap, KeySize: 4, ValueSize: 4, MaxEntries: uint32(ports)}); err != nil {
		return nil, errors.Join(loadError("make the map of the ports' links", false, err), s.Close())
	}
	return s, nil
}

// Guard is the program to attach to the ingress of a port's outer end (tc). It belongs to the switch.
func (s *Switch) Guard() *ebpf.Program { return s.guard }

// SharedMaps is how many maps a NIC program has of a switch.
const SharedMaps = 3

// Shared is the maps that a NIC program has of a switch (Load.Switch). They may be another process's.
type Shared struct{ ports, jobs, links *ebpf.Map }

// Shared returns the switch's maps, which it keeps: they are of no use after its Close.
func (s *Switch) Shared() *Shared { return &Shared{s.maps.FunetPorts, s.maps.FunetJobs, s.links} }

// FDs returns the descriptors of the maps, for OpenShared in a process that they are sent to.
func (s *Shared) FDs() [SharedMaps]int {
	return [SharedMaps]int{s.ports.FD(), s.jobs.FD(), s.links.FD()}
}

// OpenShared returns the maps of a switch of another process. The descriptors are its, also if it fails.
func OpenShared(fds [SharedMaps]int) (*Shared, error) {
	s, errs := new(Shared), []error(nil)
	for i, m := range []**ebpf.Map{&s.ports, &s.jobs, &s.links} {
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
	for _, m := range []*ebpf.Map{s.ports, s.jobs, s.links} {
		errs = append(errs, m.Close()) // nil: nothing to close
	}
	return errors.Join(errs...)
}

// named returns the maps by their names in the program.
func (s *Shared) named() map[string]*ebpf.Map {
	return map[string]*ebpf.Map{"funet_ports": s.ports, "funet_jobs": s.jobs, "funet_links": s.links}
}

// Job names a job.
type Job struct {
	Tag uint64
	GID uint16
}

func (j Job) key() guardFunetJob { return guardFunetJob{Tag: j.Tag, Gid: uint32(j.GID)} }

// Port says whose a port is.
type Port struct {
	Job  Job
	Node uint16 // and the number of its card
}

// Place says where a node is: behind a port of this host, or behind another host.
type Place struct {
	Port    uint32 // index of the port's outer end, in the NIC's namespace; 0: it is behind a host
	Link    uint32 // place of the port among the switch's links, below the number that LoadSwitch was given
	NIC     uint32 // index of the interface that leads to the host
	MAC     [6]byte
	Own     [6]byte // of that interface
	Longest int     // bytes of the longest frame that goes there, with its Ethernet header
}

// AddPort lets the process of a port send and receive: frames of the node of the job, from the outer end with that index. link is its place among the links.
func (s *Switch) AddPort(outer, link uint32, p Port) error {
	err := s.maps.FunetPorts.Update(outer, guardFunetPort{Tag: p.Job.Tag, Gid: p.Job.GID, Card: p.Node}, ebpf.UpdateNoExist)
	if err == nil {
		err = s.maps.FunetPortCounters.Update(outer, make([]guardFunetPortCounts, ebpf.MustPossibleCPU()), ebpf.UpdateAny)
		if err == nil {
			err = s.links.Update(link, outer, ebpf.UpdateAny)
		}
		if err != nil {
			err = errors.Join(err, s.RemovePort(outer, link))
		}
	}
	if err != nil {
		return fmt.Errorf("add the port of node %d of group %d to the switch: %w", p.Node, p.Job.GID, err)
	}
	return nil
}

// RemovePort ends a port: nothing that comes from it or for it passes any more. Whoever ends it takes its node out of the job first (SetPlace).
func (s *Switch) RemovePort(outer, link uint32) error {
	var errs []error
	for _, err := range []error{s.maps.FunetPorts.Delete(outer), s.maps.FunetPortCounters.Delete(outer), s.links.Delete(link)} {
		if !errors.Is(err, ebpf.ErrKeyNotExist) { // the kernel takes out links that are gone
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove the port with the link %d from the switch: %w", outer, err)
	}
	return nil
}

// AddJob makes room for a job of so many nodes. They are nowhere yet.
func (s *Switch) AddJob(j Job, nodes int) error {
	if nodes < 1 || nodes > 1<<16 || j.GID >= Groups {
		return fmt.Errorf("add group %d of %d nodes to the switch: %w: a GID is 1 to %d, and a group has 1 to 65536 nodes", j.GID, nodes, ErrRange, Groups-1)
	}
	spec := &ebpf.MapSpec{Name: "funet_places", Type: ebpf.Array, KeySize: 4, ValueSize: placeSize, MaxEntries: uint32(nodes), Flags: innerMap}
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

// RemoveJob takes a job out, with all its places.
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

// SetPlace says where a node of a job is; nil: nowhere.
func (s *Switch) SetPlace(j Job, node uint16, p *Place) error {
	var v guardFunetPlace
	if p != nil {
		v = guardFunetPlace{Kind: kindHost, Ifindex: p.NIC, Longest: uint32(p.Longest), Mac: p.MAC, Own: p.Own}
		if p.Port != 0 {
			v = guardFunetPlace{Kind: kindPort, Ifindex: p.Port, Link: p.Link, Longest: uint32(p.Longest)}
		}
	}
	err := ebpf.ErrKeyNotExist
	if places := s.places[j]; places != nil {
		err = places.Update(uint32(node), v, ebpf.UpdateExist)
	}
	if err != nil {
		return fmt.Errorf("set the place of node %d of group %d: %w", node, j.GID, err)
	}
	return nil
}

// Close gives the switch back. What is attached holds what it needs.
func (s *Switch) Close() error {
	var errs []error
	if s.links != nil {
		errs = append(errs, s.links.Close())
	}
	for _, places := range s.places {
		errs = append(errs, places.Close())
	}
	if err := errors.Join(append(errs, s.guard.Close(), s.maps.Close())...); err != nil {
		return fmt.Errorf("close the switch of ports: %w", err)
	}
	return nil
}

// PortCounters says what became of the frames that a port's process sent. Each frame is in exactly one of them. The order is that of
// enum funet_port_counter in switch.h.
type PortCounters struct {
	Short      uint64 `json:"short"`       // it ended inside the header: dropped
	BadVersion uint64 `json:"bad_version"` // no direct frame: dropped
	Forged     uint64 `json:"forged"`      // in another's name: dropped
	BadLength  uint64 `json:"bad_length"`  // its length is not the frame's: dropped
	NoNode     uint64 `json:"no_node"`     // for a node that nobody is: dropped
	TooLong    uint64 `json:"too_long"`    // longer than what goes there: dropped
	Sent       uint64 `json:"sent"`        // to another host
	Local      uint64 `json:"local"`       // to another port of this host
}

// PortCounters reads the counters of a port.
func (s *Switch) PortCounters(outer uint32) (c PortCounters, err error) {
	var perCPU []guardFunetPortCounts
	if err := s.maps.FunetPortCounters.Lookup(outer, &perCPU); err != nil {
		return c, fmt.Errorf("read the counters of the port with the link %d: %w", outer, err)
	}
	fields := []*uint64{&c.Short, &c.BadVersion, &c.Forged, &c.BadLength, &c.NoNode, &c.TooLong, &c.Sent, &c.Local}
	for i := range perCPU {
		for place, n := range perCPU[i].N {
			*fields[place] += n
		}
	}
	return c, nil
}

// As in switch.h; a test compares them.
const (
	kindPort  = 1
	kindHost  = 2
	placeSize = 32
	innerMap  = 1 << 12 // BPF_F_INNER_MAP of linux/bpf.h
)
