package attack

// This file attacks with direct ports. Users with direct ports share the links, the guard, the NIC,
// and the helper that makes ports.

import (
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/port/afxdp"
)

const (
	// portsEach is the number of ports of a process.
	portsEach = 2
	// floodFrame is the length of a flood's frames in bytes.
	floodFrame = 1000
	// burst is how many frames leave before a flush.
	burst = 64
)

// Direct lists the attacks with direct ports. Their groups are direct.
func Direct() []Attack {
	return []Attack{
		{Name: "ports_flood", Does: "frames without end from two ports to two that nobody reads", Groups: 1,
			Contexts: portsEach, Direct: true, take: (*player).openGate,
			round: func(p *player) int { return p.flood(func([]byte) int { return floodFrame }) }},
		{Name: "ports_forged",
			Does: "frames in others' names, of other groups, jobs, versions and lengths, and for nobody", Groups: 1,
			Contexts: portsEach, Direct: true, take: (*player).openGate,
			round: func(p *player) int { return p.flood(p.forge) }},
		{Name: "ports_greets", Does: "greetings that nobody answers, with as large a send buffer as there is",
			Groups: 1, Contexts: portsEach, Direct: true, take: (*player).openLarge,
			round: func(p *player) int { return p.flood(p.greet) }},
		{Name: "ports_scribbled", Does: "rings and frames of ports, written over at random", Groups: 1,
			Contexts: portsEach, Direct: true, take: (*player).openRings, round: (*player).scribble},
		{Name: "ports_loop", Does: "ports, made and ended", Groups: 1, Contexts: 1, Direct: true,
			// it takes them all the time
			take: func(*player, *seat) error { return nil }, round: (*player).remake},
		{Name: "ports_table", Does: "direct jobs of long node lists, made until they are refused", Direct: true,
			round: (*player).fill},
	}
}

// gate is a direct port that the process has.
type gate struct {
	place *attach.Port
	port  *afxdp.Port
	tag   uint64
	seat  *seat
}

// askPort asks the daemon for the port of a seat.
func (p *player) askPort(s *seat) (*attach.Port, attach.Token, error) {
	token, err := attach.ParseToken(s.group.Token)
	if err != nil {
		return nil, token, err
	}
	place, err := attach.OpenPort(attach.Config{Socket: p.c.Socket, GID: s.group.GID, Node: s.node, Token: token})
	return place, token, err
}

// openGate takes the port of a seat.
func (p *player) openGate(s *seat) error {
	place, token, err := p.askPort(s)
	if err != nil {
		return err
	}
	defer place.Memory.Close()
	a := &place.Answer
	g := &gate{place: place, seat: s, tag: arctic.JobTag(token[:], s.group.GID)}
	if g.port, err = afxdp.OpenDirect(afxdp.Direct{FD: place.Socket, Memory: place.Memory, Geometry: a.Geometry,
		MTU: int(a.MTU)}); err != nil {
		place.Close()
		return err
	}
	p.gates = append(p.gates, g)
	return nil
}

// openLarge does what openGate does, and sets the largest send buffer that the kernel allows
// (net.core.wmem_max of socket(7)).
func (p *player) openLarge(s *seat) error {
	if err := p.openGate(s); err != nil {
		return err
	}
	return unix.SetsockoptInt(p.gates[len(p.gates)-1].place.Socket, unix.SOL_SOCKET, unix.SO_SNDBUF, 1<<30)
}

// greet turns a frame into a greeting of a new incarnation of its card.
func (p *player) greet(b []byte) int {
	p.forged++
	n := arctic.PutGreeting(b, &arctic.Greeting{Nonce: p.forged, Number: p.forged, Incarnation: uint32(p.forged) | 1,
		Longest: arctic.EthernetSize + arctic.MinMTU})
	arctic.Seal(b, n)
	return n
}

// These are offsets of fields in a frame, in bytes (package arctic).
const (
	versionAt     = 14
	lengthAt      = 16
	gidAt         = 18
	sourceAt      = 24
	destinationAt = 26
	tagAt         = 68
)

// flood sends frames through all ports. change modifies each valid frame and returns its length.
func (p *player) flood(change func(b []byte) int) (sent int) {
	for _, g := range p.gates {
		for range burst {
			b := g.port.Reserve()
			if b == nil {
				break
			}
			p.right(b[:floodFrame], g, p.twin(g.seat))
			g.port.Commit(change(b))
			sent++
		}
		g.port.Flush()
	}
	return sent
}

// right composes a frame for a node, as long as b, that the guard of a port lets pass.
func (p *player) right(b []byte, g *gate, to uint16) {
	clear(b[:bpf.FrameMin])
	binary.BigEndian.PutUint16(b[12:], bpf.EtherType)
	b[versionAt] = bpf.VersionDirect
	le := binary.LittleEndian
	le.PutUint16(b[lengthAt:], uint16(len(b)-arctic.EthernetSize))
	le.PutUint16(b[gidAt:], g.seat.group.GID)
	le.PutUint16(b[sourceAt:], g.seat.node)
	le.PutUint16(b[destinationAt:], to)
	le.PutUint64(b[tagAt:], g.tag)
}

// forge turns a valid frame into one that may not be sent, by turns in nine ways.
func (p *player) forge(b []byte) int {
	p.forged++
	le := binary.LittleEndian
	switch p.forged % 9 {
	case 0:
		b[versionAt] = bpf.Version
	case 1:
		b[versionAt] = bpf.VersionHello
	case 2:
		b[versionAt] = bpf.VersionProbe
	case 3:
		le.PutUint16(b[gidAt:], 1) // the victim's is among the first
	case 4:
		le.PutUint16(b[sourceAt:], le.Uint16(b[sourceAt:])^1)
	case 5:
		le.PutUint64(b[tagAt:], p.forged)
	case 6:
		le.PutUint16(b[destinationAt:], uint16(p.forged))
		if p.forged%2 == 0 {
			le.PutUint16(b[destinationAt:], 40000)
		}
	case 7:
		return floodFrame / 2
	case 8:
		return bpf.FrameMin / 2
	}
	return floodFrame
}

// remake makes a port and ends it, with its parts closed in varying order. It panics if a hole can
// be punched into the port's memory.
func (p *player) remake() int {
	place, _, err := p.askPort(p.seats[0])
	if err != nil { // the one before is not gone yet
		time.Sleep(time.Millisecond)
		return 0
	}
	if err := unix.Fallocate(int(place.Memory.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE,
		0, place.Answer.Geometry.Bytes()); err == nil {
		panic("attack: there is a hole in the memory of a port")
	}
	ends := []func(){func() { _ = unix.Close(place.Socket) }, func() { place.Memory.Close() }, func() { place.Close() }}
	for i := range ends {
		ends[(i+int(p.forged))%len(ends)]()
	}
	p.forged++
	return 1
}
