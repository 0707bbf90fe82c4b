package sim

// This file has the Ethernet model: a switch with a link to every card.
//
// The journey of a frame: EthernetPort.Flush puts it on the card's link, behind the frames that the
// link still carries. The switch takes bundles apart (package bundle). The faults decide the fate
// of each frame. Then it waits in the queue of the receiver's link, or is lost if the queue is
// full. At the far end the receive ring takes the frame, or loses it if the ring is full.

import (
	"cmp"
	"math/rand/v2"
	"time"

	"github.com/funet/funet/uspace/arctic"
)

// EthernetConfig configures a network.
type EthernetConfig struct {
	Seed      uint64
	Bandwidth float64 // of each link in bits per second; 0: no limit
	// Delay from card to card on an idle network, without the time that the bits take; 0: 1 us.
	Delay time.Duration
	MTU   int // Ethernet payload in bytes; 0: 1500
	// Transmit is how many frames the transmit ring holds, and Receive how many the receive ring
	// holds. The queue of a switch's link holds the bytes of Switch frames of full size. A full
	// transmit ring holds the card up; the others lose frames. 0: 256, 1024 and 256.
	Transmit, Switch, Receive int
	Faults                    Faults
}

// Ethernet is a network. Frames are delivered by destination address, or where a Switch says.
type Ethernet struct {
	world  *World
	cfg    EthernetConfig
	faults thresholds
	random rand.PCG
	pool   pool
	ports  []*EthernetPort
	cuts   []Cut
	cut    uint64 // cuts so far
	half   int64  // of the delay
	// backlog is how long a full transmit ring takes to send, and patience how long a full queue of
	// the switch takes.
	backlog, patience int64

	hear    func(frame []byte)              // see Listen
	arrives func(card int, frame []byte)    // see Watch
	between *Switch                         // nil: there is none
	absent  func(port int, gid uint16) bool // see Defer

	bundled [][]byte // memory for the frames of a bundle

	// Lost counts the frames that did not arrive, by reason.
	Deferred uint64 // counts frames that hosts have answered (Defer)
	Bundles  uint64 // counts bundles that were taken apart
	Lost     struct{ Fault, Cut, Switch, Receive, Down, Unknown uint64 }
	Carried  uint64 // counts frames that reached a receive ring
}

// NewEthernet makes a network in a world.
func (w *World) NewEthernet(cfg EthernetConfig) *Ethernet {
	cfg.MTU, cfg.Delay = cmp.Or(cfg.MTU, 1500), cmp.Or(cfg.Delay, time.Microsecond)
	cfg.Transmit, cfg.Switch, cfg.Receive = cmp.Or(cfg.Transmit, 256), cmp.Or(cfg.Switch, 256), cmp.Or(cfg.Receive, 1024)
	e := &Ethernet{world: w, cfg: cfg, half: int64(cfg.Delay) / 2}
	e.pool.size = cfg.MTU + 14
	e.backlog = int64(cfg.Transmit) * e.serialize(e.pool.size)
	e.patience = int64(cfg.Switch) * e.serialize(e.pool.size)
	e.random.Seed(cfg.Seed, 0x65746865726e6574)
	e.SetFaults(cfg.Faults)
	return e
}

// Plug makes the next port. Its address is the Address of its number.
func (e *Ethernet) Plug() *EthernetPort {
	p := &EthernetPort{net: e, number: uint16(len(e.ports)), held: none}
	e.ports = append(e.ports, p)
	return p
}

// Address returns the Ethernet address of a port, locally administered.
func Address(port int) [6]byte { return [6]byte{2, 0, 0, 0, byte(port >> 8), byte(port)} }

// Listen calls hear with each frame that a card sends, before any fault. With a Switch these are
// the frames that go from host to host. hear must not keep the frame.
func (e *Ethernet) Listen(hear func(frame []byte)) { e.hear = hear }

// Watch calls arrives with each frame that a card receives, and the card's number. arrives must not
// keep the frame.
func (e *Ethernet) Watch(arrives func(card int, frame []byte)) { e.arrives = arrives }

// Defer has the host of a port answer frames of groups that are absent there, as bpf/nic.c does.
// nil: no host does.
func (e *Ethernet) Defer(absent func(port int, gid uint16) bool) { e.absent = absent }

// Inject sends a frame that no card has sent to the card with its destination address, if there is
// one. With a Switch it sends the frame to the host with that address. The frame must not be longer
// than the network's frames.
func (e *Ethernet) Inject(frame []byte) {
	to := e.lookup(frame)
	if e.between != nil {
		to = e.between.towards(frame)
	}
	if to != nil {
		i := e.pool.take(len(frame))
		f := &e.pool.frames[i]
		f.n = copy(f.data, frame)
		e.toReceiver(to, i, 0)
	}
}

// UnderWay returns how many frames the network holds, including those in receive rings that are not
// lent to the card.
func (e *Ethernet) UnderWay() int {
	n := e.pool.live()
	for _, p := range e.ports {
		n -= p.lent
		if p.held != none {
			n--
		}
	}
	return n
}

// serialize returns how long n bytes take on a link, with preamble, checksum and gap.
func (e *Ethernet) serialize(n int) int64 {
	if e.cfg.Bandwidth == 0 {
		return 0
	}
	return int64(float64((n+24)*8) * 1e9 / e.cfg.Bandwidth)
}

// Stages of a frame's way, in the lowest bit of the argument of its events; the other bits are the
// frame's number. At the switch the event happens to the port that the frame came from, and at the
// receiver to the port that it is for.
const (
	atSwitch   = 0
	atReceiver = 1
)

// send puts a frame on its card's link.
func (e *Ethernet) send(p *EthernetPort, i uint32) {
	w, f := e.world, &e.pool.frames[i]
	w.sent(f, p.card)
	if s := e.between; s != nil {
		to := s.out(p.number, f.bytes())
		if to == nil {
			e.pool.give(i)
			return
		}
		f.to = to.number
	}
	if e.hear != nil && (e.between == nil || !local(f.data)) {
		e.hear(f.bytes())
	}
	p.up = max(p.up, w.now) + e.serialize(f.n)
	w.queue.push(p.up+e.half, p, uint64(i)<<1|atSwitch)
}

func (e *Ethernet) forward(from *EthernetPort, i uint32) {
	f := &e.pool.frames[i]
	if frames, ok := arctic.Bundled(e.bundled[:0], f.bytes()); ok {
		e.bundled = frames
		e.Bundles++
		for _, b := range frames {
			j := e.pool.take(len(b))
			one, whole := &e.pool.frames[j], &e.pool.frames[i]
			one.n, one.sent, one.flow = copy(one.data, b), whole.sent, whole.flow
			e.forward(from, j)
		}
		e.pool.give(i)
		return
	}
	to := e.lookup(f.data)
	if e.between != nil {
		to = e.ports[f.to]
	}
	switch {
	case to == nil:
		e.lose(i, &e.Lost.Unknown)
	case e.isCut(from.number, to.number, f.n):
		e.lose(i, &e.Lost.Cut)
	case !e.faults.any || e.misfortune(to, i):
		e.toReceiver(to, i, 0)
	}
}

func (e *Ethernet) lose(i uint32, count *uint64) {
	*count++
	e.pool.give(i)
}

// lookup returns the port with the destination address of the frame, or nil.
func (e *Ethernet) lookup(b []byte) *EthernetPort {
	n := int(b[4])<<8 | int(b[5])
	if n >= len(e.ports) || Address(n) != [6]byte(b[:6]) {
		return nil
	}
	return e.ports[n]
}

// toReceiver puts a frame on the receiver's link, after a delay in ns on the way.
func (e *Ethernet) toReceiver(to *EthernetPort, i uint32, late int64) {
	w := e.world
	n := e.pool.frames[i].n
	if to.down-w.now > e.patience {
		e.lose(i, &e.Lost.Switch)
		return
	}
	to.down = max(to.down, w.now) + e.serialize(n)
	w.queue.push(to.down+int64(e.cfg.Delay)-e.half+late, to, uint64(i)<<1|atReceiver)
}
