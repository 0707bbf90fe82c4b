// Package bundle is a port around another one, for networks whose routers take bundles apart
// (bpf/hub.c). Small frames for several stations that leave together leave in one frame, the
// bundle. So a multicast to several nodes takes the card's link once, and the routers make the
// copies where the ways part.
//
// The journey of a frame out: the card composes it in the buffer of the port inside, as without
// bundles. Commit keeps a copy of a small frame. Flush, the next larger frame, a second one for the
// same station, and a frame for which a bundle has no room make the kept frames a bundle, or leave
// one alone as it is, and pass that on. So frames for one station keep their order. In: frames come
// from the port inside; no bundle reaches a station.
//
// A station is an Ethernet address. A direct port knows no addresses, but its daemon may say on
// which hosts nodes are (Stations); the guard of its host writes the addresses (bpf/guard.c).
//
// Rules:
//
//   - A frame that is sent again travels alone: its bundle may have been what did not get through,
//     behind a router that knows of none. The port remembers the last number that it bundled to
//     each station. It may forget it; then a lost frame is bundled once more.
//   - All frames of a bundle have one level, so that replies never wait for requests.
//   - At most arctic.MaxBundled frames are kept, and one more that had no room in the port inside.
//     As long as that one waits, Reserve returns nil, as with a full ring.
//
// A port belongs to the goroutine of its card.
package bundle

import (
	"encoding/binary"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/port"
)

// Longest is the length in bytes of the longest frame that travels in a bundle. All packets of up
// to 21 words fit in, and trains of short ones.
const Longest = 256

// marks is how many stations' last numbers the port remembers.
const marks = 1024

// Port is a port that bundles; it implements port.Port.
type Port struct {
	port.Port                           // the port inside
	kept      [arctic.MaxBundled][]byte // the first n are frames
	n         int
	total     int // bytes of a bundle of them
	// own is the buffer for a frame while others are kept. late, if not 0, is the length of the
	// frame in it that the port inside had no room for.
	own      []byte
	late     int
	lent     bool // the last Reserve returned own
	reserved []byte
	last     [marks]mark
	direct   bool
	hosts    []uint16 // by node, of a direct port
	alone    uint16   // the host of nodes whose frames travel alone
}

// mark is the last number that was bundled to a card and level.
type mark struct {
	card, epoch uint64
	sequence    uint32
}

// New makes a port around another one, which nobody else may send on.
func New(inner port.Port) *Port {
	p := &Port{Port: inner, total: arctic.BundleHeaderSize, own: make([]byte, inner.FrameSize())}
	for i := range p.kept {
		p.kept[i] = make([]byte, 0, Longest)
	}
	return p
}

// NewDirect makes a port around a direct port. It bundles nothing before Stations.
func NewDirect(inner port.Port) *Port {
	p := New(inner)
	p.direct = true
	return p
}

// Stations tells a direct port the host of each node, from node 0 on. Frames for a node of the host
// alone, or behind the last of the list, travel alone.
func (p *Port) Stations(hosts []uint16, alone uint16) { p.hosts, p.alone = hosts, alone }

// Reserve returns a buffer for a frame, or nil while the ring of the port inside is full.
func (p *Port) Reserve() []byte {
	if p.late > 0 && !p.drain() {
		return nil
	}
	if p.lent = p.n > 0; p.lent {
		p.reserved = p.own[:min(len(p.own), p.FrameSize())]
	} else {
		p.reserved = p.Port.Reserve()
	}
	return p.reserved
}

// Commit keeps the first n bytes of the reserved buffer for a bundle, or passes them on.
func (p *Port) Commit(n int) {
	frame := p.reserved[:n]
	if p.fits(frame) && (p.joins(frame) || p.release()) {
		p.keep(frame)
		return
	}
	switch {
	case !p.lent:
		p.Port.Commit(n)
	case !p.release() || !p.pass(frame):
		p.late = n
	}
}

// fits reports whether a frame may travel in a bundle.
func (p *Port) fits(b []byte) bool {
	if p.direct && len(p.hosts) == 0 || len(b) > Longest {
		return false
	}
	f, ok := arctic.Peek(b)
	if !ok || !f.Bundles() {
		return false
	}
	if node := int(f.DestinationCard()); p.direct && (node >= len(p.hosts) || p.hosts[node] == p.alone) {
		return false
	}
	m, card := p.mark(f)
	return m.card != card || m.epoch != f.Epoch() || int32(f.Sequence()-m.sequence) > 0
}

// station returns the station that a frame in a bundle is for.
func (p *Port) station(f arctic.Frame) uint64 {
	if p.direct {
		return uint64(p.hosts[f.DestinationCard()])
	}
	return binary.BigEndian.Uint64(f) >> 16
}

// mark returns the place for the card and level that a frame is for, and what names them there.
func (p *Port) mark(f arctic.Frame) (*mark, uint64) {
	card := binary.BigEndian.Uint64(f) >> 16
	if p.direct {
		card = uint64(f.DestinationCard())
	}
	card = card<<16 | uint64(f.Level()) | 2
	return &p.last[card*0x9e3779b97f4a7c15>>54], card
}

// joins reports whether a frame can be kept beside those that are.
func (p *Port) joins(b []byte) bool {
	if p.n == arctic.MaxBundled || p.total+len(b) > p.FrameSize() {
		return false
	}
	for _, k := range p.kept[:p.n] {
		if p.station(k) == p.station(b) || arctic.Frame(k).Level() != arctic.Frame(b).Level() {
			return false
		}
	}
	return true
}

func (p *Port) keep(b []byte) {
	p.kept[p.n] = append(p.kept[p.n][:0], b...)
	p.n++
	p.total += len(b)
}

// Flush passes the kept frames on, and has the port inside send.
func (p *Port) Flush() {
	p.drain()
	p.Port.Flush()
}

// drain passes on whatever is here, and reports whether the port inside had room for it.
func (p *Port) drain() bool {
	if !p.release() || p.late > 0 && !p.pass(p.own[:p.late]) {
		return false
	}
	p.late = 0
	return true
}

// release passes the kept frames on, in a bundle if they are several, and reports whether the port
// inside had room for them.
func (p *Port) release() bool {
	if p.n > 1 && p.total <= p.FrameSize() {
		b := p.Port.Reserve()
		if b == nil {
			return false
		}
		for _, k := range p.kept[:p.n] {
			m, card := p.mark(k)
			*m = mark{card, arctic.Frame(k).Epoch(), arctic.Frame(k).Sequence()}
		}
		p.Port.Commit(arctic.PutBundle(b, p.kept[:p.n]))
		p.n = 0
	}
	for p.n > 0 { // one, or the port's frames have become shorter
		first := p.kept[0]
		if !p.pass(first) {
			return false
		}
		copy(p.kept[:], p.kept[1:p.n])
		p.n--
		p.kept[p.n] = first
	}
	p.total = arctic.BundleHeaderSize
	return true
}

// pass passes a frame on, and reports whether the port inside had room for it. A frame that is
// longer than its frames have become is lost.
func (p *Port) pass(frame []byte) bool {
	b := p.Port.Reserve()
	if b == nil {
		return false
	}
	if len(frame) <= len(b) {
		p.Port.Commit(copy(b, frame))
	}
	return true
}
