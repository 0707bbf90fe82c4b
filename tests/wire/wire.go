// Package wire is a network in memory. Its ports exchange frames by destination address in virtual
// time, with faults drawn from a seed. The same seed, calls and times give the same frames in the
// same order.
//
// The journey of a frame has three steps. Port.Commit copies it into the network's heap with the
// time at which it arrives. Network.Advance moves the frames that have arrived by a given time into
// the receive rings of the ports with their destination addresses. Port.Receive lends a frame to
// the card. A receive ring holds Config.Ring frames; further ones are lost, as a NIC without
// descriptors loses them. A network and its ports belong to one goroutine.
package wire

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// Faults are the network's faults, each with a probability from 0 to 1 per frame.
type Faults struct {
	Loss      float64
	Duplicate float64
	Reorder   float64 // delayed by up to ten times Delay
	Corrupt   float64 // one bit flipped behind the Ethernet header
}

// Networks are faults by name, for tests whose rules hold on any network.
var Networks = map[string]Faults{
	"clean":     {},
	"loss":      {Loss: 0.2},
	"duplicate": {Duplicate: 0.5},
	"reorder":   {Reorder: 0.5},
	"corrupt":   {Corrupt: 0.2},
	"all":       {Loss: 0.1, Duplicate: 0.1, Reorder: 0.2, Corrupt: 0.05},
}

// Config configures a network.
type Config struct {
	Seed   uint64
	Delay  time.Duration // from Commit to arrival
	MTU    int           // Ethernet payload in bytes; 0: 1500
	Ring   int           // frames a receive ring holds; 0: 1024
	Faults Faults
}

// Network carries frames between its ports.
type Network struct {
	cfg    Config
	random *rand.Rand
	now    int64
	serial uint64
	ports  map[[6]byte]*Port
	flight flight
	cut    func(from, to [6]byte) bool

	// Carried counts the frames that arrived. Lost counts those that did not: because of a fault, a
	// cut, a full ring or an unknown address.
	Carried, Lost uint64
}

// New makes a network.
func New(cfg Config) *Network {
	if cfg.MTU == 0 {
		cfg.MTU = 1500
	}
	if cfg.Ring == 0 {
		cfg.Ring = 1024
	}
	return &Network{cfg: cfg, random: rand.New(rand.NewPCG(cfg.Seed, 0)), ports: map[[6]byte]*Port{}}
}

// Plug makes a port with the address. It replaces an earlier port with that address.
func (n *Network) Plug(address [6]byte) *Port {
	p := &Port{net: n, buffer: make([]byte, n.cfg.MTU+14), address: address}
	n.ports[address] = p
	return p
}

// SetFaults changes the faults for frames committed from now on.
func (n *Network) SetFaults(f Faults) { n.cfg.Faults = f }

// Cut makes the network lose every frame for which the function returns true. nil heals the
// network.
func (n *Network) Cut(cut func(from, to [6]byte) bool) { n.cut = cut }

// Next returns when the next frame arrives, and whether one is under way.
func (n *Network) Next() (int64, bool) {
	if len(n.flight) == 0 {
		return 0, false
	}
	return n.flight[0].at, true
}

// Advance sets the time and delivers every frame that has arrived by then.
func (n *Network) Advance(now int64) {
	n.now = now
	for len(n.flight) > 0 && n.flight[0].at <= now {
		f := heap.Pop(&n.flight).(parcel)
		p := n.ports[[6]byte(f.data[0:6])]
		if p == nil || len(p.ring) >= n.cfg.Ring {
			n.Lost++
			continue
		}
		n.Carried++
		p.ring = append(p.ring, f.data)
	}
}

// carry decides the fate of a frame: loss, delay, and other faults.
func (n *Network) carry(b []byte) {
	f := &n.cfg.Faults
	if n.cut != nil && n.cut([6]byte(b[6:12]), [6]byte(b[0:6])) || n.chance(f.Loss) {
		n.Lost++
		return
	}
	copies := 1
	if n.chance(f.Duplicate) {
		copies = 2
	}
	for range copies {
		data := append([]byte(nil), b...)
		if n.chance(f.Corrupt) {
			bit := 14*8 + n.random.IntN((len(data)-14)*8)
			data[bit/8] ^= 1 << (bit % 8)
		}
		at := n.now + int64(n.cfg.Delay)
		if n.chance(f.Reorder) {
			at += n.random.Int64N(10*int64(n.cfg.Delay) + 1)
		}
		n.serial++
		heap.Push(&n.flight, parcel{at, n.serial, data})
	}
}

func (n *Network) chance(p float64) bool { return p > 0 && n.random.Float64() < p }

// Port is one port of a network; it implements port.Port.
type Port struct {
	net     *Network
	address [6]byte
	buffer  []byte
	pending [][]byte
	ring    [][]byte
	lent    int
}

// Receive lends frames that have arrived.
func (p *Port) Receive(frames [][]byte) int {
	p.lent = copy(frames, p.ring)
	return p.lent
}

// Release takes lent frames back.
func (p *Port) Release() {
	p.ring = p.ring[p.lent:]
	p.lent = 0
}

// Reserve returns the buffer for one frame. The transmit ring is never full.
func (p *Port) Reserve() []byte { return p.buffer }

// FrameSize returns the length of the longest frame that the port sends.
func (p *Port) FrameSize() int { return len(p.buffer) }

// Commit queues a frame until Flush.
func (p *Port) Commit(n int) { p.pending = append(p.pending, append([]byte(nil), p.buffer[:n]...)) }

// Flush hands committed frames to the network.
func (p *Port) Flush() {
	for _, b := range p.pending {
		p.net.carry(b)
	}
	p.pending = p.pending[:0]
}

// parcel is a frame under way.
type parcel struct {
	at     int64
	serial uint64 // keeps frames of the same time in order
	data   []byte
}

type flight []parcel

func (f flight) Len() int { return len(f) }
func (f flight) Less(i, j int) bool {
	return f[i].at < f[j].at || f[i].at == f[j].at && f[i].serial < f[j].serial
}
func (f flight) Swap(i, j int) { f[i], f[j] = f[j], f[i] }

// Push appends a parcel, for package heap.
func (f *flight) Push(x any) { *f = append(*f, x.(parcel)) }

// Pop removes the last parcel, for package heap.
func (f *flight) Pop() any {
	old := *f
	x := old[len(old)-1]
	old[len(old)-1] = parcel{}
	*f = old[:len(old)-1]
	return x
}
