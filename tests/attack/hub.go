package attack

// This file attacks a network of routers (bpf/hub.c) as a foreign host does, whose root may send
// any frame.

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/uspace/arctic"
)

// Hub lists the attacks of foreign hosts on a network of routers. They have no groups, and need the
// right to open raw sockets.
func Hub() []Attack {
	return []Attack{
		{Name: "hub_routes", Does: "frames of a foreign host with routes of any length and digits, half in others' names",
			Foreign: true, begin: (*player).openRaw, round: func(p *player) int { return p.pour(p.misroute) }},
		{Name: "hub_forged", Does: "frames of a foreign host in all groups' names, to all hosts",
			Foreign: true, begin: (*player).openRaw, round: func(p *player) int { return p.pour(p.pose) }},
		{Name: "hub_rejects", Does: "storms of deferrals, rejects and frames to be deferred, of a foreign host",
			Foreign: true, begin: (*player).openRaw, round: func(p *player) int { return p.pour(p.reject) }},
		lies(),
	}
}

// raw is the state of a foreign host.
type raw struct {
	fd    int
	frame [floodFrame]byte
	own   net.HardwareAddr
	macs  []net.HardwareAddr // of the other hosts
	cards []uint16           // of the other hosts
	to    int                // index of the frame's host
}

// openRaw opens a raw socket on the first interface of the lab's host.
func (p *player) openRaw() error {
	r := &raw{}
	for host, place := range p.c.Places {
		mac, err := net.ParseMAC(place.MAC)
		if err != nil {
			return fmt.Errorf("the address of host %d: %w", host, err)
		}
		if host == p.c.Host {
			r.own = mac
			continue
		}
		r.macs, r.cards = append(r.macs, mac), append(r.cards, uint16(host))
	}
	link, err := net.InterfaceByName("fu0")
	if err != nil {
		return err
	}
	protocol := binary.NativeEndian.Uint16([]byte{bpf.EtherType >> 8, bpf.EtherType & 0xff})
	// Protocol 0 receives nothing.
	if r.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		return fmt.Errorf("opening a raw socket: %w", err)
	}
	p.raw = r
	return unix.Bind(r.fd, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: link.Index})
}

// pour sends a burst of frames. change modifies each frame, which is well formed and in the host's
// own name, to a host at random, and returns its length. Those that find no room are lost.
func (p *player) pour(change func(b []byte) int) (sent int) {
	r := p.raw
	le := binary.LittleEndian
	b := r.frame[:]
	for range burst {
		clear(b[:bpf.FrameMin])
		r.to = rand.IntN(len(r.macs))
		copy(b, r.macs[r.to])
		copy(b[6:], r.own)
		binary.BigEndian.PutUint16(b[12:], bpf.EtherType)
		b[versionAt] = bpf.Version
		le.PutUint16(b[lengthAt:], floodFrame-14)
		if _, err := unix.Write(r.fd, b[:change(b)]); err == nil {
			sent++
		}
	}
	return sent
}

// misroute puts a route in place of the destination address.
func (p *player) misroute(b []byte) int {
	to := bpf.HubRoute{Bits: rand.Uint32() >> rand.IntN(32), Left: int(rand.Uint32() >> rand.IntN(32))}.Address()
	copy(b, to[:])
	if rand.IntN(2) == 0 {
		copy(b[6:], p.raw.macs[rand.IntN(len(p.raw.macs))])
	}
	return floodFrame
}

// pose makes a frame of a group and node at random, often the victim's, to another card. It does
// not know the group's token.
func (p *player) pose(b []byte) int {
	le := binary.LittleEndian
	b[versionAt] = []byte{bpf.Version, bpf.VersionDirect, bpf.VersionHello, byte(rand.Uint32())}[rand.IntN(4)]
	gid := uint16(1 + rand.IntN(4)) // the victim's is among the first
	if rand.IntN(2) == 0 {
		gid = uint16(rand.IntN(2048))
	}
	le.PutUint16(b[gidAt:], gid)
	le.PutUint32(b[gidAt+2:], rand.Uint32())
	le.PutUint16(b[sourceAt:], uint16(rand.IntN(4)))
	le.PutUint16(b[destinationAt:], uint16(rand.IntN(4)))
	le.PutUint64(b[tagAt:], rand.Uint64())
	return floodFrame
}

// reject makes a frame with the checksum of a card's: a deferral of any frame in flight, rejects of
// any, a greeting, or a frame that the switch of the other host is to answer. It does not know the
// epoch of two cards.
func (p *player) reject(b []byte) int {
	le := binary.LittleEndian
	b[versionAt+1] = []byte{deferFlag, deferFlag, 0, helloFlag}[rand.IntN(4)]
	le.PutUint16(b[lengthAt:], bpf.FrameMin-arctic.EthernetSize)
	le.PutUint16(b[gidAt:], uint16(1+rand.IntN(4)))
	le.PutUint16(b[sourceAt:], uint16(p.c.Host))
	le.PutUint16(b[destinationAt:], p.raw.cards[p.raw.to])
	b[countsAt], b[countsAt+1] = byte(rand.IntN(3)), byte(rand.IntN(3))
	for i := countsAt + 2; i < checksumAt; i++ { // numbers, acknowledgments, epoch, tag
		b[i] = byte(rand.Uint32())
	}
	le.PutUint32(b[checksumAt:], crc32.Checksum(b[arctic.EthernetSize:checksumAt], crc32.MakeTable(crc32.Castagnoli)))
	return bpf.FrameMin
}

const (
	countsAt   = 28 // of packets, and of rejects
	checksumAt = 76
	helloFlag  = 0x02
	deferFlag  = 0x40
)
