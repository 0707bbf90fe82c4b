package sim

// This file has the Arctic model (thesis 5.6, 6.1.4): routers whose input sections have three
// packet buffers each, of which the last one takes only packets of high priority.
//
// The journey of a packet: it waits at the output section that it wants, high priority first, then
// by age. It leaves when the link is idle and the section's count of free buffers at the far end
// allows it. Its head reaches the next input section a wire delay later. It passes through the
// router in the flow-through time, while its tail may still be under way (virtual cut-through).
// When the tail has left, the buffer that held the packet is free. A wire delay later the output
// section that feeds the buffer gets the credit. A packet never vanishes.
// Routers make copies of a bundle (arcticbundle.go).

import (
	"cmp"
	"fmt"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/topology"
)

// ArcticConfig configures a network. The zero value is thesis 6.1.4.
type ArcticConfig struct {
	Cycle       time.Duration // of the network clock; 0: 40 ns, 25 MHz
	Buffers     int           // of an input section; 0: 3
	FlowThrough int           // cycles from input to output of a router; 0: 5
	Wire        int           // cycles between routers; 0: 1
	Transmit    int           // how many frames a card may have waiting for its link; 0: 16
	// MTU is the longest frame, less its Ethernet header, in bytes; 0: 1500. A frame
	// takes one buffer, whatever its length, and a cycle for each 32-bit word.
	MTU int
	// Bare counts only the packets of a frame towards its time on a link, and one packet header for
	// a frame without packets. On the papers' network a packet was its own frame, and FUNet's frame
	// header does not travel (design idea 7).
	Bare bool
	// Weightless says that words take no time on links, because the cards count them in the time
	// that they take to send.
	Weightless bool
	// OneLevel switches the second priority level off: no buffer is reserved and no packet goes
	// before an older one. It exists to show the deadlock of thesis 2.10.
	OneLevel bool
}

// Arctic is a network of routers, or the part of one that is in its world (parts.go).
type Arctic struct {
	world *World
	cfg   ArcticConfig
	top   *topology.Network
	radix int32
	pool  pool
	flits []flit // by frame
	// The ports and the channels of all parts. Events change only those of their own part.
	ports   []*ArcticPort
	out     []channel // by router port
	shift   int       // route bits that a router takes
	carried bool      // packets carry their ways
	part    *part     // nil: the network is in one world

	bundled [][]byte // memory for the frames of a bundle

	// Frames counts the frames that cards have sent, and Hops the routers that the packets in them
	// have come to. Crossed counts the frames that links have carried; a bundle is one.
	Frames, Hops, Crossed uint64
	Bundles               uint64 // counts those that cards have sent
}

// flit is a packet on the network: its bytes and its way.
type flit struct {
	held    *channel // the channel at whose end its buffer is; nil: it is at its sender
	route   uint32   // the way, or the destination in a network whose packets carry no ways
	words   int32
	behind  uint32 // the frame that waits behind it, plus one; 0: none
	level   uint8  // 1: high
	packets uint8  // how many of FUNet's packets are in it; of a bundle 0
	members uint8  // frames of a bundle that are still its own, as bits; 0: no bundle
	hops    uint8  // routers that a bundle has come to
	of      uint32 // the bundle that it is a copy of, in the same buffer, plus one; 0: none
	copies  int32  // how many copies have yet to leave the buffer of this bundle
	until   int64  // when the last of those that left has left
}

// channel is an output section, its link, and the input section at the far end. It has 64 bytes, a
// line of the processor's cache: of a large network every event needs another channel.
type channel struct {
	net     *Arctic     // of the output section
	far     *Arctic     // of the input section
	card    *ArcticPort // the card at one of the ends, or nil
	router  int32       // the router at the far end, or toCard
	free    int32       // buffers at the far end, as this end counts
	busy    int64       // the link carries a packet until then
	due     int64       // time of the pending look at what waits
	waiting [2]line     // packets that want to leave here, by level
}

// toCard stands for the router of a channel with a card at its far end, or with nothing there.
const toCard = -1

// line is packets that wait: the first and the last frame, plus one; 0: none.
type line struct{ first, last uint32 }

// NewArctic makes a network with the topology.
func (w *World) NewArctic(t *topology.Network, cfg ArcticConfig) (*Arctic, error) {
	nets, err := newArctics([]*World{w}, t, cfg)
	if err != nil {
		return nil, err
	}
	return nets[0], nil
}

// newArctics makes a network whose parts are in as many worlds.
func newArctics(worlds []*World, t *topology.Network, cfg ArcticConfig) ([]*Arctic, error) {
	cfg.Cycle, cfg.Buffers, cfg.FlowThrough = cmp.Or(cfg.Cycle, 40), cmp.Or(cfg.Buffers, 3), cmp.Or(cfg.FlowThrough, 5)
	cfg.Wire, cfg.Transmit, cfg.MTU = cmp.Or(cfg.Wire, 1), cmp.Or(cfg.Transmit, 16), cmp.Or(cfg.MTU, 1500)
	if cfg.Buffers < 2 && !cfg.OneLevel {
		return nil, fmt.Errorf("%w: %d buffers an input; two levels need at least 2", topology.Err, cfg.Buffers)
	}
	radix := t.Radix()
	ports, out := make([]*ArcticPort, t.Terminals()), make([]channel, t.Routers()*radix)
	nets := make([]*Arctic, len(worlds))
	for i, w := range worlds {
		nets[i] = &Arctic{world: w, cfg: cfg, top: t, radix: int32(radix), shift: t.Width(), carried: t.Carried(),
			ports: ports, out: out}
		nets[i].pool.size = cfg.MTU + 14
	}
	of := func(router int) *Arctic { return nets[t.Block(router, len(nets))] }
	for i := range ports {
		router, _ := t.Home(i)
		p := &ArcticPort{net: of(router), number: i, held: none}
		p.up = channel{net: p.net, far: p.net, card: p, router: int32(router), free: int32(cfg.Buffers), due: Never}
		ports[i] = p
	}
	for i := range out {
		c, end, a := &out[i], t.End(i/radix, i%radix), of(i/radix)
		*c = channel{net: a, far: a, router: toCard, free: int32(cfg.Buffers), due: Never}
		if terminal, ok := end.Terminal(); ok {
			c.card = ports[terminal]
		} else if router, _, ok := end.Port(radix); ok {
			c.router, c.far = int32(router), of(router)
		}
	}
	return nets, nil
}

// Port returns the port of a terminal.
func (a *Arctic) Port(terminal int) *ArcticPort { return a.ports[terminal] }

// UnderWay returns how many packets are in the network or wait to enter it.
func (a *Arctic) UnderWay() int {
	n := a.pool.live()
	for _, p := range a.ports {
		n -= p.lent
		if p.held != none {
			n--
		}
	}
	return n
}

// cycles returns the duration of n cycles of the network clock.
func (a *Arctic) cycles(n int64) int64 { return n * int64(a.cfg.Cycle) }

// flit returns the packet of frame i.
func (a *Arctic) flit(i uint32) *flit {
	for int(i) >= len(a.flits) {
		a.flits = append(a.flits, flit{})
	}
	return &a.flits[i]
}

// inject puts frame i, with FUNet's packets in it, into the queue for its sender's link. to is the
// terminal that it is for.
func (a *Arctic) inject(p *ArcticPort, i uint32, to, packets int, high bool) {
	f := flit{route: uint32(to), words: a.words(a.pool.frames[i].n), packets: uint8(packets)}
	if a.carried {
		f.route = a.top.Way(p.number, to).Bits
	}
	a.enter(p, i, f, high)
}

// enter puts frame i into the queue for its sender's link.
func (a *Arctic) enter(p *ArcticPort, i uint32, f flit, high bool) {
	a.Frames++
	p.waiting++
	if high {
		f.level = 1
	}
	*a.flit(i) = f
	a.want(&p.up, i)
}

// words returns how many words a frame of a size in bytes has on a link.
func (a *Arctic) words(size int) int32 {
	switch {
	case a.cfg.Weightless:
		return 0
	case a.cfg.Bare:
		size = max(size-arctic.HeaderSize, arctic.PacketHeaderSize)
	}
	return int32(size+3) / 4
}

func (a *Arctic) want(c *channel, i uint32) {
	level := a.flits[i].level
	if a.cfg.OneLevel {
		level = 0
	}
	a.flits[i].behind = 0
	if q := &c.waiting[level]; q.first == 0 {
		q.first, q.last = i+1, i+1
	} else {
		a.flits[q.last-1].behind = i + 1
		q.last = i + 1
	}
	c.look()
}

// look makes the channel look at what waits, now or when its link is idle.
func (c *channel) look() {
	at := max(c.busy, c.net.world.now)
	if c.due <= at {
		return
	}
	c.due = at
	c.net.world.queue.push(at, c, looks)
}

// Arguments of a channel's events: what happens, and from bit 2 to which frame.
const (
	looks   = 0 // at what waits
	arrives = 1 // a packet, at the far end
	frees   = 2 // a buffer at the far end: a credit
	leaves  = 3 // the tail of a packet has left its card
)

func (c *channel) happen(_, arg uint64) bool {
	a, i := c.net, uint32(arg>>2)
	if arg&3 == arrives {
		a = c.far
	}
	a.world.mix(arg)
	switch arg & 3 {
	case looks:
		c.due = Never
		c.start()
	case arrives:
		f := &a.flits[i]
		f.held = c
		if c.router == toCard {
			c.card.arrived(i)
			break
		}
		if f.members != 0 {
			a.spread(c, i)
			break
		}
		a.Hops += uint64(f.packets)
		var port int32
		if a.carried {
			port = int32(f.route & (1<<a.shift - 1))
			f.route >>= a.shift
		} else {
			port = int32(a.top.Next(int(c.router), int(f.route)))
		}
		a.want(&a.out[c.router*a.radix+port], i)
	case frees:
		c.free++
		c.look()
	case leaves:
		c.card.left()
	}
	return true
}

// start starts the first packet that may leave.
func (c *channel) start() {
	a := c.net
	if c.busy > a.world.now {
		c.look()
		return
	}
	reserved := int32(1)
	if a.cfg.OneLevel {
		reserved = 0
	}
	level := 1
	if c.waiting[1].first == 0 || c.free == 0 {
		level = 0
		if c.waiting[0].first == 0 || c.free <= reserved {
			return // a credit or a packet brings it back
		}
	}
	i := c.waiting[level].first - 1
	f := &a.flits[i]
	c.waiting[level].first = f.behind
	c.free--
	a.Crossed++
	now, q := a.world.now, &a.world.queue
	c.busy = now + a.cycles(int64(f.words))
	if h := f.held; h == nil {
		c.card.waiting--
		q.push(c.busy, c, leaves)
	} else if at := a.empties(i, c.busy) + a.cycles(int64(a.cfg.Wire)); at < 0 {
		// copies of it are in the buffer
	} else if h.net == a {
		q.push(at, h, frees)
	} else {
		a.part.tell(at, h)
	}
	through := int64(a.cfg.FlowThrough)
	if c.router == toCard {
		through = int64(f.words) // a card waits for the tail
	}
	if at := now + a.cycles(int64(a.cfg.Wire)+through); c.far == a {
		q.push(at, c, uint64(i)<<2|arrives)
	} else {
		a.part.carry(at, c, i)
	}
	if c.waiting[0].first|c.waiting[1].first != 0 {
		c.look()
	}
}

// credit frees the buffer that the packet holds at the end of its way.
func (a *Arctic) credit(i uint32) {
	a.world.queue.push(a.world.now+a.cycles(int64(a.cfg.Wire)), a.flits[i].held, frees)
}

// release frees the buffer, and the packet with it.
func (a *Arctic) release(i uint32) {
	a.credit(i)
	a.pool.give(i)
}
