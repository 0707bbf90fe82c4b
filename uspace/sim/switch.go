package sim

// This file has the switch of direct ports between the cards of an Ethernet. It does the work of
// bpf/guard.c where a frame leaves a port, and of bpf/nic.c where a frame comes to a host. Each
// host has a table of its own with the places of nodes, which may be out of date.

import (
	"fmt"

	"github.com/funet/funet/uspace/arctic"
)

// Job names a job.
type Job struct {
	Tag uint64
	GID uint16
}

type seat struct {
	Job
	node uint16
}

// gate is a port of the network as the switch sees it.
type gate struct {
	seat
	host int
	open bool
}

// Switch connects hosts, numbered from 0. A host has the Address of its number.
type Switch struct {
	net   *Ethernet
	gates []gate
	// tables has the table of each host: on which host a node is. behind has the port of a node, or
	// the last one it had.
	tables []map[seat]int
	behind map[seat]int

	// Guard counts the fates of frames that left ports, and NIC those of frames that came to hosts.
	// Refused counts frames that no card may send, whatever the tables say.
	Guard struct{ Refused, Closed, NoNode, Sent, Local uint64 }
	NIC   struct{ Refused, Stranger, NoPort, Direct uint64 }
}

// Switch puts a switch between the ports of the network, which are closed at first.
func (e *Ethernet) Switch(hosts int) *Switch {
	s := &Switch{net: e, tables: make([]map[seat]int, hosts), behind: map[seat]int{}}
	for i := range s.tables {
		s.tables[i] = map[seat]int{}
	}
	e.between = s
	return s
}

// Open gives a port to a node of a job, on a host, whose table has it at once. It returns an error
// if the port is open already, or the node has an open port.
func (s *Switch) Open(port, host int, job Job, node uint16) error {
	for port >= len(s.gates) {
		s.gates = append(s.gates, gate{})
	}
	n := seat{job, node}
	if other, ok := s.behind[n]; s.gates[port].open || ok && s.gates[other].open && s.gates[other].seat == n {
		return fmt.Errorf("sim: opening port %d for node %d of GID %d: it is open, or the node has one",
			port, node, job.GID)
	}
	s.gates[port] = gate{n, host, true}
	s.behind[n], s.tables[host][n] = port, host
	return nil
}

// Close ends a port: frames for it are lost from now on.
func (s *Switch) Close(port int) {
	if port < len(s.gates) && s.gates[port].open {
		g := &s.gates[port]
		g.open = false
		delete(s.tables[g.host], g.seat)
	}
}

// Hear tells a host where a node is now, if it is anywhere.
func (s *Switch) Hear(host int, job Job, node uint16) {
	n := seat{job, node}
	if port, ok := s.behind[n]; ok && s.gates[port].open && s.gates[port].seat == n {
		s.tables[host][n] = s.gates[port].host
	} else {
		delete(s.tables[host], n)
	}
}

// direct reads the source and the destination of a frame that a switch lets pass. That is a direct
// frame at least as long as it says. A frame may be longer, because a card pads frames to find out
// how long they may be (RFC 4821). The switch carries the padding, too.
func direct(b []byte) (source, destination seat, ok bool) {
	f, err := arctic.Look(b)
	if err != nil || !f.Direct() {
		return
	}
	h := f.Header()
	job := Job{h.Tag, h.GID}
	return seat{job, h.SourceCard}, seat{job, h.DestinationCard}, true
}

// out is the guard. It returns the port of the node that a frame from a port is for, on the host
// that the table says. It writes addresses into a frame for another host.
func (s *Switch) out(from uint16, b []byte) (to *EthernetPort) {
	if int(from) >= len(s.gates) || !s.gates[from].open {
		s.Guard.Closed++
		return nil
	}
	g := &s.gates[from]
	source, destination, ok := direct(b)
	if !ok || source != g.seat {
		s.Guard.Refused++
		return nil
	}
	host, ok := s.tables[g.host][destination]
	if !ok {
		s.Guard.NoNode++
		return nil
	}
	clear(b[:12])
	if host == g.host {
		s.Guard.Local++
	} else {
		s.Guard.Sent++
		to, own := Address(host), Address(g.host)
		copy(b[0:], to[:])
		copy(b[6:], own[:])
	}
	return s.net.ports[s.behind[destination]]
}

// local reports whether a frame is between two ports of a host: it has no addresses.
func local(b []byte) bool { return [12]byte(b) == [12]byte{} }

// in is the NIC program. It returns the port for a frame that has come to the host of its address,
// or nil. A frame from another port of the same host goes to the port that it was sent to, if that
// is still open.
func (s *Switch) in(to *EthernetPort, b []byte) *EthernetPort {
	if local(b) {
		if !s.gates[to.number].open {
			s.NIC.NoPort++
			return nil
		}
		return to
	}
	host, peer := int(b[4])<<8|int(b[5]), int(b[10])<<8|int(b[11])
	source, destination, ok := direct(b)
	if !ok {
		s.NIC.Refused++
		return nil
	}
	if at, ok := s.tables[host][source]; !ok || at != peer || at == host {
		s.NIC.Stranger++
		return nil
	}
	if at, ok := s.tables[host][destination]; !ok || at != host {
		s.NIC.NoPort++
		return nil
	}
	s.NIC.Direct++
	clear(b[:12])
	return s.net.ports[s.behind[destination]]
}

// towards returns the port to whose link a frame with addresses goes that no port sent, or nil.
func (s *Switch) towards(b []byte) *EthernetPort {
	_, destination, ok := direct(b)
	port, is := s.behind[destination]
	if host := int(b[4])<<8 | int(b[5]); !ok || !is || local(b) || host >= len(s.tables) {
		return nil
	}
	return s.net.ports[port]
}
