package shared

import (
	"encoding/binary"
	"slices"
	"unsafe"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
)

const (
	lent = 64 // the most frames of rings that Receive lends
	// firstAsk is the number of frames that go to a neighbour by the port inside before the port
	// asks for memory. After each refusal the number doubles, up to lastAsk.
	firstAsk, lastAsk = 16, 1 << 20
)

// These are offsets in a frame; see package arctic.
const (
	flagsAt  = arctic.EthernetSize + 1
	gidAt    = 18
	sourceAt = 24
	toAt     = 26
	tagAt    = 68

	flagHello = 1 << 1
)

// Config names the node whose port it is.
type Config struct {
	Node uint16 // its card
	GID  uint16
	Tag  uint64 // of the job (arctic.JobTag)
	// Want asks for the memory of this node and a neighbour, and returns at once. It returns false
	// if it could not take the request; otherwise a call of Join or Refused follows.
	Want func(node uint16) bool
	// Gone is called before memory goes away whose words a Watch may have; nil: there is none.
	Gone func()
}

// Memory is the memory that two neighbours share: Size bytes at the beginning of a page. Close
// unmaps it, and is called once.
type Memory struct {
	Bytes []byte
	Close func()
}

// Counters count frames, and the fates of shared memory. No counter ever decreases.
type Counters struct {
	Sent     uint64 `json:"sent"`     // through rings
	Received uint64 `json:"received"` // from rings, and valid
	// These count frames for neighbours with memory that went by the port inside, by reason. Full:
	// the ring was full. Asleep: the neighbour slept. Woken: the neighbour fell asleep when the
	// frame was in the ring (the frame is counted as sent, too). Unread: the neighbour has not
	// mapped the memory yet.
	Full   uint64 `json:"ring_full"`
	Asleep uint64 `json:"neighbour_asleep"`
	Woken  uint64 `json:"neighbour_woken"`
	Unread uint64 `json:"neighbour_absent"`
	// These count frames that a neighbour may not send, and that were dropped.
	BadVersion uint64 `json:"bad_version"`
	BadLength  uint64 `json:"bad_length"`
	Forged     uint64 `json:"forged"`    // not its group, card or job
	Misrouted  uint64 `json:"misrouted"` // not for this card
	// These count events of memory.
	Joined  uint64 `json:"memory_joined"`
	Refused uint64 `json:"memory_refused"`
	Ended   uint64 `json:"memory_ended"`  // erased at the neighbour's end
	Broken  uint64 `json:"memory_broken"` // a neighbour has written a contradiction
}

// neighbour is a node of the job on this host.
type neighbour struct {
	node   uint16
	memory *Memory // nil: none
	in     reader
	out    writer
	broken bool // Attend drops the memory

	frames  uint64 // sent to it while it had no memory
	askAt   uint64 // value of frames at which to ask for memory
	between uint64 // the last distance of askAt
	asked   bool
}

// Port sends through memory where it can; it implements port.Port.
type Port struct {
	port.Port // inside
	cfg       Config
	reserved  []byte
	nodes     []*neighbour // by node; nil: not a neighbour
	joined    []*neighbour // that have memory
	turn      int          // index in joined; its frames come first
	innerOne  bool         // the port inside came before the rings
	departs   bool
	buffers   [][]byte
	counters  Counters
}

// New returns a port around another. It has no neighbours.
func New(inner port.Port, c Config) *Port { return &Port{cfg: c, Port: inner} }

// Neighbours sets the nodes of the job that are on this host. It is called once.
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

// Join takes over the memory of this node and a neighbour, and begins to read its ring. It refuses
// memory that this node, or a process before it, has already read.
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
			p.buffers[i] = make([]byte, p.Port.FrameSize())
		}
	}
	x.memory, x.in, x.out, x.broken = &m, in, writer{ring: ringOf(mine)}, false
	p.joined = append(p.joined, x)
	p.counters.Joined++
}

// Refused tells the port that there is no memory for now.
func (p *Port) Refused(node uint16) {
	p.counters.Refused++
	p.nodes[node].later()
}

// later postpones the next request for memory by twice as many frames as before the last.
func (x *neighbour) later() {
	x.asked = false
	x.between = min(2*x.between, lastAsk)
	x.askAt = x.frames + x.between
}

// Attend lets go of memory that was erased at a neighbour's end, or whose words contradict each
// other. The card calls it now and then, while awake.
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

// over reports whether the memory is no longer of use. Only this process writes the word that over
// looks at, besides the helper and a hostile neighbour.
func (x *neighbour) over() bool { return x.broken || x.in.reader.Load() != reads }

// drop lets go of memory, and tells a neighbour that is still there.
func (p *Port) drop(x *neighbour) {
	if v := x.in.reader.Load(); v != 0 {
		x.in.reader.CompareAndSwap(v, left)
	}
	if p.cfg.Gone != nil {
		p.cfg.Gone()
	}
	x.memory.Close()
	x.memory, x.in, x.out = nil, reader{}, writer{}
}

// Depart sends all further frames by the port inside, which keeps its frames when this process
// ends.
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

// Shared returns the number of neighbours with memory.
func (p *Port) Shared() int { return len(p.joined) }

// Reserve returns a buffer of the port inside.
func (p *Port) Reserve() []byte {
	p.reserved = p.Port.Reserve()
	return p.reserved
}

// Commit sends the reserved frame through a ring if it can, and otherwise by the port inside.
func (p *Port) Commit(n int) {
	if len(p.nodes) > 0 && !p.departs && p.share(p.reserved[:n]) {
		return
	}
	p.Port.Commit(n)
}

// share puts a frame into the ring of a neighbour if it can. It reports false if the port inside
// has to send the frame.
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

// without counts a frame to a neighbour without memory, and asks for memory when there were enough.
// A greeting does not count: it only shows that this node wants to know the neighbour.
func (p *Port) without(x *neighbour, b []byte) {
	if x.asked || b[flagsAt]&flagHello != 0 {
		return
	}
	if x.frames++; x.frames >= x.askAt {
		x.asked = p.cfg.Want(x.node)
	}
}

// Ready reports whether a ring has a frame.
func (p *Port) Ready() bool {
	for _, x := range p.joined {
		if x.in.ready() && !x.broken {
			return true
		}
	}
	return false
}

// WatchRings adds the words that change when Ready does.
func (p *Port) WatchRings(w *funi.Watch) {
	for _, x := range p.joined {
		w.Add((*uint32)(unsafe.Pointer(x.in.word(x.in.at))), 0, ^uint32(0))
	}
}

// Receive takes frames from the rings and from the port inside; they come first by turns. Frames of
// rings are copies, so Release is for the port inside.
func (p *Port) Receive(frames [][]byte) (n int) {
	if len(p.joined) == 0 {
		return p.Port.Receive(frames)
	}
	if p.innerOne = !p.innerOne; p.innerOne {
		n = p.Port.Receive(frames)
		return n + p.take(frames[n:])
	}
	n = p.take(frames)
	return n + p.Port.Receive(frames[n:])
}

// take takes frames from the rings, beginning with another ring each time. From each ring it takes
// at most as many as frames has room for, valid or not.
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

// judge checks a frame of a neighbour as the guard would (bpf/guard.c). It returns the counter of
// the fault, or nil if there is none.
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

// Doze tells all neighbours that this process is about to sleep until the port inside has a frame,
// and reports whether it may. A call of Wake follows.
func (p *Port) Doze() bool {
	for _, x := range p.joined {
		x.in.reader.CompareAndSwap(reads, asleep) // an erased word stays 0
	}
	return !p.Ready()
}

// Wake tells all neighbours that this process reads again.
func (p *Port) Wake() {
	for _, x := range p.joined {
		if x.in.reader.Load() == asleep {
			x.in.reader.CompareAndSwap(asleep, reads)
		}
	}
}
