package shared

import (
	"encoding/binary"
	"slices"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/port"
)

const (
	// lent is how many frames of rings Receive lends at most.
	lent = 64
	// firstAsk is how many frames go to a neighbour by the port inside before memory is asked for.
	// After each time in vain it is twice as many again as before, up to lastAsk.
	firstAsk, lastAsk = 16, 1 << 20
)

// Offsets in a frame; see package arctic.
const (
	flagsAt  = arctic.EthernetSize + 1
	gidAt    = 18
	sourceAt = 24
	toAt     = 26
	tagAt    = 68

	flagHello = 1 << 1
)

// Config says whose port it is.
type Config struct {
	Node uint16 // its card
	GID  uint16
	Tag  uint64 // of the job (arctic.JobTag)
	// Want asks for the memory of this node and a neighbour, and returns at once: false if it could
	// not take the request. Join or Refused follows.
	Want func(node uint16) bool
}

// Memory is what two neighbours share: Size bytes at the beginning of a page. Close takes the
// mapping back, once.
type Memory struct {
	Bytes []byte
	Close func()
}

// Counters count frames, and what became of memory. None ever goes back.
type Counters struct {
	Sent     uint64 `json:"sent"`     // through rings
	Received uint64 `json:"received"` // from rings, and good
	// Frames for neighbours with memory that went by the port inside, by reason. Full: the ring was
	// full. Asleep: the neighbour slept. Woken: the neighbour fell asleep when the frame was in the
	// ring (the frame is counted as sent, too). Unread: the neighbour has not mapped the memory
	// yet.
	Full   uint64 `json:"ring_full"`
	Asleep uint64 `json:"neighbour_asleep"`
	Woken  uint64 `json:"neighbour_woken"`
	Unread uint64 `json:"neighbour_absent"`
	// Frames that a neighbour may not send, and which were dropped.
	BadVersion uint64 `json:"bad_version"`
	BadLength  uint64 `json:"bad_length"`
	Forged     uint64 `json:"forged"`    // not its group, card or job
	Misrouted  uint64 `json:"misrouted"` // not for this card
	// Memory.
	Joined  uint64 `json:"memory_joined"`
	Refused uint64 `json:"memory_refused"`
	Ended   uint64 `json:"memory_ended"`  // the neighbour has
	Broken  uint64 `json:"memory_broken"` // a neighbour has written what cannot be
}

// neighbour is a node of the job on this host.
type neighbour struct {
	node   uint16
	memory *Memory // nil: none
	in     reader
	out    writer
	broken bool // Attend drops the memory

	frames  uint64 // that went to it without memory
	askAt   uint64 // of them, when memory is asked for
	between uint64 // and how many more until the next time
	asked   bool
}

// Port is such a port; it implements port.Port.
type Port struct {
	cfg      Config
	inner    port.Port
	reserved []byte
	nodes    []*neighbour // by node; nil: it is none
	joined   []*neighbour // that have memory
	turn     int          // among them, whose frames come first
	innerOne bool         // the port inside is before them
	departs  bool
	buffers  [][]byte
	counters Counters
}

// New returns a port around another. It has no neighbours.
func New(inner port.Port, c Config) *Port { return &Port{cfg: c, inner: inner} }

// Neighbours says which nodes of the job are on this host. It is called once.
func (p *Port) Neighbours(nodes []uint16) {
	for _, n := range nodes {
		if n == p.cfg.Node {
			continue
		}
		for int(n) >= len(p.nodes) {
			p.nodes = append(p.nodes, nil)
		}
		p.nodes[n] = &neighbour{node: n, askAt: firstAsk, between: firstAsk}
	}
}

// Join takes the memory of this node and a neighbour, which is the port's from then on, and reads
// its ring. Memory that this node, or a process before it, has read already is refused.
func (p *Port) Join(node uint16, m Memory) {
	x := p.nodes[node]
	x.asked = false
	mine, its := m.Bytes[:ringSize], m.Bytes[ringSize:Size]
	if node < p.cfg.Node {
		mine, its = its, mine
	}
	in := reader{ring: ringOf(its)}
	if x.memory != nil || !in.reader.CompareAndSwap(0, reads) {
		m.Close()
		p.Refused(node)
		return
	}
	if p.buffers == nil {
		p.buffers = make([][]byte, lent)
		for i := range p.buffers {
			p.buffers[i] = make([]byte, p.inner.FrameSize())
		}
	}
	x.memory, x.in, x.out, x.broken = &m, in, writer{ring: ringOf(mine)}, false
	p.joined = append(p.joined, x)
	p.counters.Joined++
}

// Refused says that there is no memory for now.
func (p *Port) Refused(node uint16) {
	p.counters.Refused++
	p.nodes[node].later()
}

// later has memory asked for again, when some frames more have gone than before the last time.
func (x *neighbour) later() {
	x.asked = false
	x.between = min(2*x.between, lastAsk)
	x.askAt = x.frames + x.between
}

// Attend lets go of memory that a neighbour's end has erased, or whose words contradict each other.
// The card calls it now and then, awake.
func (p *Port) Attend() {
	p.Wake()
	if !slices.ContainsFunc(p.joined, (*neighbour).over) {
		return
	}
	p.joined = slices.DeleteFunc(p.joined, func(x *neighbour) bool {
		if !x.over() {
			return false
		}
		if x.in.reader.Load() == 0 {
			p.counters.Ended++
		} else {
			p.counters.Broken++
		}
		p.drop(x)
		x.later()
		return true
	})
}

// over reports whether the memory serves no more: this process alone writes that word, unless the
// neighbour is hostile.
func (x *neighbour) over() bool { return x.broken || x.in.reader.Load() != reads }

// drop lets go of memory, and says so to a neighbour that is still there.
func (p *Port) drop(x *neighbour) {
	if v := x.in.reader.Load(); v != 0 {
		x.in.reader.CompareAndSwap(v, left)
	}
	x.memory.Close()
	x.memory, x.in, x.out = nil, reader{}, writer{}
}

// Depart has all that is sent from now on go by the port inside, which keeps what it has been given
// when this process ends.
func (p *Port) Depart() { p.departs = true }

// Close lets go of all memory.
func (p *Port) Close() {
	for _, x := range p.joined {
		p.drop(x)
	}
	p.joined = nil
}

// Counters returns the counters.
func (p *Port) Counters() Counters { return p.counters }

// Shared returns how many neighbours there is memory for.
func (p *Port) Shared() int { return len(p.joined) }

// FrameSize returns that of the port inside.
func (p *Port) FrameSize() int { return p.inner.FrameSize() }

// Reserve returns a buffer of the port inside.
func (p *Port) Reserve() []byte {
	p.reserved = p.inner.Reserve()
	return p.reserved
}

// Commit sends the frame the way that it can go.
func (p *Port) Commit(n int) {
	if len(p.nodes) > 0 && !p.departs && p.share(p.reserved[:n]) {
		return
	}
	p.inner.Commit(n)
}

// share puts a frame into the ring of a neighbour, and reports whether that is all there is to do.
func (p *Port) share(b []byte) bool {
	to := int(binary.LittleEndian.Uint16(b[toAt:]))
	if to >= len(p.nodes) || p.nodes[to] == nil {
		return false
	}
	x, n := p.nodes[to], &p.counters
	if x.memory == nil {
		p.without(x, b)
		return false
	}
	switch x.out.reader.Load() {
	case reads:
	case asleep:
		n.Asleep++
		return false
	default:
		n.Unread++
		return false
	}
	if x.broken {
		return false
	}
	switch x.out.put(b) {
	case none:
		n.Full++
		return false
	case broken:
		x.broken = true
		return false
	}
	n.Sent++
	if x.out.reader.Load() == asleep { // it may not have seen the frame (ring.go)
		n.Woken++
		return false
	}
	return true
}

// without counts a frame to a neighbour without memory. A greeting says only that this node wants
// to know of it.
func (p *Port) without(x *neighbour, b []byte) {
	if x.asked || b[flagsAt]&flagHello != 0 {
		return
	}
	if x.frames++; x.frames >= x.askAt {
		x.asked = p.cfg.Want(x.node)
	}
}

// Flush has the port inside send what went there.
func (p *Port) Flush() { p.inner.Flush() }

// Ready reports whether a ring has something.
func (p *Port) Ready() bool {
	for _, x := range p.joined {
		if x.in.ready() && !x.broken {
			return true
		}
	}
	return false
}

// Receive takes frames from rings and from the port inside, which are first in turn.
func (p *Port) Receive(frames [][]byte) (n int) {
	if len(p.joined) == 0 {
		return p.inner.Receive(frames)
	}
	if p.innerOne = !p.innerOne; p.innerOne {
		n = p.inner.Receive(frames)
		return n + p.take(frames[n:])
	}
	n = p.take(frames)
	return n + p.inner.Receive(frames[n:])
}

// Release gives back what the port inside has lent. What rings had is the port's own already.
func (p *Port) Release() { p.inner.Release() }

// take takes frames from the rings, beginning with another each time, and at most as many as there
// is room for from each, good or not.
func (p *Port) take(frames [][]byte) (n int) {
	if frames = frames[:min(len(frames), lent)]; len(frames) == 0 {
		return 0 // and it is nobody's turn
	}
	if p.turn++; p.turn >= len(p.joined) {
		p.turn = 0
	}
	for i := range p.joined {
		x := p.joined[(p.turn+i)%len(p.joined)]
		for k := 0; k < len(frames) && n < len(frames) && !x.broken; k++ {
			b, f := x.in.next(p.buffers[n])
			if f == none {
				break
			}
			if x.broken = f == broken; x.broken {
				break
			}
			if wrong := p.judge(x, b); wrong != nil {
				*wrong++
				continue
			}
			frames[n] = b
			n++
		}
		x.in.tell()
	}
	p.counters.Received += uint64(n)
	return n
}

// judge returns the counter of what is wrong with a frame of a neighbour, as the guard would find
// it (bpf/guard.c); nil: nothing is.
func (p *Port) judge(x *neighbour, b []byte) *uint64 {
	f, err := arctic.Look(b)
	le, n := binary.LittleEndian, &p.counters
	switch {
	// one may be longer than it says: cards try so how long frames may be
	case err == arctic.ErrLength:
		return &n.BadLength
	case err != nil, !f.Direct():
		return &n.BadVersion
	case le.Uint16(b[gidAt:]) != p.cfg.GID, le.Uint16(b[sourceAt:]) != x.node, le.Uint64(b[tagAt:]) != p.cfg.Tag:
		return &n.Forged
	case le.Uint16(b[toAt:]) != p.cfg.Node:
		return &n.Misrouted
	}
	return nil
}

// Doze says to all neighbours that this process is about to sleep until the port inside has
// something, and reports whether it may. Wake follows.
func (p *Port) Doze() bool {
	for _, x := range p.joined {
		x.in.reader.CompareAndSwap(reads, asleep) // an erased word stays 0
	}
	return !p.Ready()
}

// Wake says that it reads again.
func (p *Port) Wake() {
	for _, x := range p.joined {
		if x.in.reader.Load() == asleep {
			x.in.reader.CompareAndSwap(asleep, reads)
		}
	}
}
