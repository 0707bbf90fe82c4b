package sim

// This file is the switch of direct ports between the cards of an Ethernet: what bpf/guard.c does
// where a frame leaves a port, and bpf/nic.c where it comes to a host. Each host has a table of
// places of its own, which may be behind the truth.

import (
	"fmt"

	"github.com/funet/funet/uspace/arctic"
)

// Job names a job.
type Job struct {
	Tag uint64
	GID uint16
}

// seat is a node of a job.
type seat struct {
	Job
	node uint16
}

// gate is a port of the network as the switch has it.
type gate struct {
	seat
	host int
	open bool
}

// Switch is the switch. Its hosts are numbered from 0 and have the Address of their number.
type Switch struct {
	net   *Ethernet
	gates []gate
	// tables are those of the hosts: where a node is. behind is the port that a node has, or had
	// last.
	tables []map[seat]int
	behind map[seat]int

	// Guard counts what became of frames that left ports, and NIC of frames that came to hosts.
	// Refused are those that no card may send, whatever the tables are.
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

// Open makes a port that of a node of a job, on a host, whose table has it at once. It is an error
// that one of the two is open.
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

// Close ends a port: what comes for it from now on is lost.
func (s *Switch) Close(port int) {
	if port < len(s.gates) && s.gates[port].open {
		g := &s.gates[port]
		g.open = false
		delete(s.tables[g.host], g.seat)
	}
}

// Hear tells a host where a node is now, if anywhere.
func (s *Switch) Hear(host int, job Job, node uint16) {
	n := seat{job, node}
	if port, ok := s.behind[n]; ok && s.gates[port].open && s.gates[port].seat == n {
		s.tables[host][n] = s.gates[port].host
	} else {
		delete(s.tables[host], n)
	}
}

// direct reads the source and the destination of a frame that a switch lets pass: a direct frame at
// least as long as it says. A frame may be longer, because a card fills frames up to find out how
// long they may be (RFC 4821). The switch carries the filling, too.
func direct(b []byte) (source, destination seat, ok bool) {
	f, err := arctic.Look(b)
	if err != nil || !f.Direct() {
		return
	}
	h := f.Header()
	job := Job{h.Tag, h.GID}
	return seat{job, h.SourceCard}, seat{job, h.DestinationCard}, true
}

// out is the guard: it returns the port of the node that a frame from a port is for, wherever the
// table says that it is. What goes to another host has addresses then.
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

// in is the NIC program: it returns the port that a frame goes to which has come to the host of its
// address, or nil. A frame from another port of the host goes where it was sent, if that is open
// yet.
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

// towards returns the port on whose link a frame with addresses is that no port sent, or nil.
func (s *Switch) towards(b []byte) *EthernetPort {
	_, destination, ok := direct(b)
	port, is := s.behind[destination]
	if host := int(b[4])<<8 | int(b[5]); !ok || !is || local(b) || host >= len(s.tables) {
		return nil
	}
	return s.net.ports[port]
}
