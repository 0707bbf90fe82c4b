package attack

// This file attacks a network of routers with the bundles of direct ports. A bundle makes routers
// copy it, and the guard checks each of its frames (bpf/guard.c).

import (
	"encoding/binary"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/uspace/arctic"
)

// bundleHosts is the number of hosts in the attack by bundles.
const bundleHosts = 4

// Bundles lists the attacks by bundles. Their processes are ordinary users of foreign hosts.
func Bundles() []Attack {
	return []Attack{{Name: "hub_bundles",
		Does:   "bundles of eight frames for all other hosts, as long as there are; every second is forged",
		Groups: 1, Contexts: portsEach, Hosts: bundleHosts, Direct: true, take: (*player).openGate,
		round: (*player).bundle}}
}

// bundle sends bundles through all ports.
func (p *player) bundle() (sent int) {
	others := (bundleHosts - 1) * portsEach
	for _, g := range p.gates {
		for range burst {
			b := g.port.Reserve()
			if b == nil {
				break
			}
			size := (len(b) - arctic.BundleHeaderSize) / arctic.MaxBundled
			for i := range arctic.MaxBundled {
				if len(p.frames) == i {
					p.frames = append(p.frames, make([]byte, size))
				}
				to := ((p.c.Host+1)*portsEach + i%others) % (bundleHosts * portsEach)
				p.right(p.frames[i], g, uint16(to))
			}
			n := arctic.PutBundle(b, p.frames)
			if sent%2 == 1 {
				p.spoil(b, size)
			}
			g.port.Commit(n)
			sent++
		}
		g.port.Flush()
	}
	return sent
}

// spoil turns a valid bundle into one that may not be sent, by turns in ten ways.
func (p *player) spoil(b []byte, size int) {
	p.forged++
	le := binary.LittleEndian
	f := b[arctic.BundleHeaderSize+int(p.forged/10%arctic.MaxBundled)*size:]
	switch p.forged % 10 {
	case 0:
		f[versionAt] = bpf.Version
	case 1:
		f[versionAt] = arctic.VersionBundle
	case 2:
		le.PutUint16(f[gidAt:], 1) // the victim's is among the first
	case 3:
		le.PutUint16(f[sourceAt:], le.Uint16(f[sourceAt:])^1)
	case 4:
		le.PutUint64(f[tagAt:], p.forged)
	case 5:
		le.PutUint16(f[destinationAt:], 40000)
	case 6:
		le.PutUint16(f[lengthAt:], uint16(size))
	case 7:
		b[framesAt] = byte(arctic.MaxBundled + p.forged/10)
	case 8:
		le.PutUint16(b[endsAt+2*int(p.forged/10%arctic.MaxBundled):], uint16(p.forged))
	case 9:
		le.PutUint16(b[lengthAt:], uint16(p.forged))
	}
}

// These are offsets in a bundle.
const (
	framesAt = 18
	endsAt   = 28
)
