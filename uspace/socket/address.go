package socket

// This file parses and picks addresses.

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
)

// Network is the name of the network.
const Network = "funet"

// firstPort is the first of the ports that are picked if none is named (RFC 6335, section 6:
// dynamic ports).
const firstPort = 49152

// Addr is the address of one end of a connection, or of a listener.
type Addr struct{ Node, Port uint16 }

// Network returns "funet".
func (a Addr) Network() string { return Network }

// String returns NODE:PORT.
func (a Addr) String() string { return fmt.Sprintf("%d:%d", a.Node, a.Port) }

// parse reads an address; without a node it means this node.
func (s *Stack) parse(network, address string) (Addr, error) {
	if network != Network {
		return Addr{}, net.UnknownNetworkError(network)
	}
	node, port, err := net.SplitHostPort(address)
	if err != nil {
		return Addr{}, err
	}
	a := Addr{Node: s.node}
	if node = strings.TrimSpace(node); node != "" {
		n, err := strconv.ParseUint(node, 10, 16)
		if err != nil || int(n) >= s.nodes {
			return Addr{}, &net.AddrError{Err: fmt.Sprintf("no such node; the job has nodes 0 to %d", s.nodes-1),
				Addr: address}
		}
		a.Node = uint16(n)
	}
	p, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return Addr{}, &net.AddrError{Err: "a port is a number from 0 to 65535", Addr: address}
	}
	a.Port = uint16(p)
	return a, nil
}

// bind parses the address of an object to be opened on this node. The lock is held. Port 0 picks a
// port. taken reports whether a port is in use.
func (s *Stack) bind(network, address string, taken func(port uint16) bool) (Addr, error) {
	a, err := s.parse(network, address)
	if err != nil {
		return a, wrong("listen", nil, nil, err)
	}
	switch {
	case s.err != nil:
		err = s.err
	case a.Node != s.node:
		err = fmt.Errorf("%w: this is node %d", syscall.EADDRNOTAVAIL, s.node)
	case a.Port == 0:
		var ok bool
		if a.Port, ok = s.pick(taken); !ok {
			err = errPorts
		}
	case taken(a.Port):
		err = syscall.EADDRINUSE
	}
	return a, wrong("listen", nil, a, err)
}
