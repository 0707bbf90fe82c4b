package attack

// This file floods without FUNet: any user can open a socket. What others keep beside it says how
// much of a loss beside a flood is the kernel's, its scheduler's above all, and not the card's.

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

const (
	udpPort  = 9000
	udpBytes = 256 // of a datagram, as of a message of ofi_flood
)

// UDP lists the attacks by sockets. They have no groups.
func UDP() []Attack {
	return []Attack{{Name: "udp_flood", Does: "UDP without end between two sockets of the kernel, to compare with",
		Yardstick: true, begin: (*player).openSocket, round: (*player).datagrams}}
}

// openSocket connects a socket to the one of the other host's process.
func (p *player) openSocket() error {
	var at [2]unix.SockaddrInet4
	for host, place := range p.c.Places {
		a, err := netip.ParseAddr(place.Address)
		if err != nil || !a.Is4() || len(p.c.Places) != len(at) {
			return fmt.Errorf("hosts %v: want two with IPv4", p.c.Places)
		}
		at[host] = unix.SockaddrInet4{Port: udpPort, Addr: a.As4()}
	}
	var err error
	if p.socket, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		return fmt.Errorf("opening a UDP socket: %w", err)
	}
	if err := unix.Bind(p.socket, &at[p.c.Host]); err != nil {
		return fmt.Errorf("binding to %s: %w", p.c.Places[p.c.Host].Address, err)
	}
	p.peer = &at[1-p.c.Host]
	return nil
}

// datagrams sends a burst to the other process, and takes as much as has come. The other may not
// have its socket yet, or no room.
func (p *player) datagrams() (sent int) {
	var b [udpBytes]byte
	for range burst {
		if unix.Sendto(p.socket, b[:], 0, p.peer) == nil {
			sent++
		}
	}
	for range burst {
		if _, _, err := unix.Recvfrom(p.socket, b[:], 0); err != nil {
			break
		}
	}
	return sent
}
