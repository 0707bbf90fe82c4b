package sim

// This file has the wiring of Arctic routers, and the destinations of route bits.
//
// Route bits are consumed from the lowest. A router of 4 ports takes two of them, a router of 8
// ports takes three, and the packet leaves by the port that they name. A packet has 30 bits, and
// the sender says the whole way (thesis 5.4: "direct routing").

import (
	"errors"
	"fmt"
	"math/bits"
)

// ErrTopology is wrapped by errors about networks that cannot be built.
var ErrTopology = errors.New("sim: impossible Arctic network")

// routeBits is how many route bits a packet has.
const routeBits = 30

// Topology describes routers, what their ports are connected to, and the ways between terminals,
// which are the places of cards.
type Topology struct {
	radix     int
	terminals int
	// peer[r*radix+p] is what port p of router r is wired to: a port r*radix+p of a router, a
	// terminal as terminalBase plus its number, or unwired.
	peer  []int32
	home  []int32 // terminal to router port
	route func(from, to int) way
}

// way is a sequence of route bits, and how many routers it leads through.
type way struct {
	bits  uint32
	hops  int
	width int // bits for each
}

// leave adds the port by which the packet leaves the next router.
func (w *way) leave(port int) {
	w.bits |= uint32(port) << (w.hops * w.width)
	w.hops++
}

const (
	unwired      = -1
	terminalBase = 1 << 30
)

// Terminals returns how many cards the network has places for.
func (t *Topology) Terminals() int { return t.terminals }

// Routers returns how many routers it has.
func (t *Topology) Routers() int { return len(t.peer) / t.radix }

// Route returns the route bits of the way from one terminal to another.
func (t *Topology) Route(from, to int) uint32 { return t.route(from, to).bits }

// start returns a way that leads nowhere yet.
func (t *Topology) start() way { return way{width: bits.Len(uint(t.radix - 1))} }

func newTopology(radix, routers, terminals, hops int) (*Topology, error) {
	if radix != 4 && radix != 8 {
		return nil, fmt.Errorf("%w: routers of %d ports; Arctic routers have 4 or 8", ErrTopology, radix)
	}
	if need := hops * bits.Len(uint(radix-1)); need > routeBits {
		return nil, fmt.Errorf("%w: the longest way takes %d route bits of %d; use fewer routers or routers of 8 ports",
			ErrTopology, need, routeBits)
	}
	t := &Topology{radix: radix, terminals: terminals, peer: make([]int32, routers*radix),
		home: make([]int32, terminals)}
	for i := range t.peer {
		t.peer[i] = unwired
	}
	return t, nil
}

// place wires a terminal to a port of a router.
func (t *Topology) place(terminal, router, port int) {
	at := int32(router*t.radix + port)
	t.home[terminal] = at
	t.peer[at] = terminalBase + int32(terminal)
}

// wire wires two ports together.
func (t *Topology) wire(ra, pa, rb, pb int) {
	a, b := int32(ra*t.radix+pa), int32(rb*t.radix+pb)
	t.peer[a], t.peer[b] = b, a
}

// Hypercube returns 2^dimensions routers, each with the given number of terminals. A packet
// corrects one dimension after the other, which keeps the ways free of cycles. Dimensions and
// terminals of a router together must not exceed its ports.
func Hypercube(radix, dimensions, each int) (*Topology, error) {
	if dimensions < 0 || each < 1 || dimensions+each > radix {
		return nil,
			fmt.Errorf("%w: hypercube of %d dimensions and %d cards a router of %d ports; together they are at most the ports", ErrTopology, dimensions, each, radix)
	}
	n := 1 << dimensions
	t, err := newTopology(radix, n, n*each, dimensions+1)
	if err != nil {
		return nil, err
	}
	for r := range n {
		for d := range dimensions {
			t.wire(r, d, r^1<<d, d)
		}
		for k := range each {
			t.place(r*each+k, r, dimensions+k)
		}
	}
	t.route = func(from, to int) way {
		w := t.start()
		for diff := uint(from/each ^ to/each); diff != 0; diff &= diff - 1 {
			w.leave(bits.TrailingZeros(diff))
		}
		w.leave(dimensions + to%each)
		return w
	}
	return t, nil
}

// FatTree returns a k-ary tree for k^levels terminals. Each level has routers with k = radix/2
// ports down and as many up, so every level has the same bandwidth.
func FatTree(radix, levels int) (*Topology, error) {
	if levels < 1 {
		return nil, fmt.Errorf("%w: fat tree of %d levels; use at least 1", ErrTopology, levels)
	}
	if levels > 15 {
		return nil, fmt.Errorf("%w: fat tree of %d levels; route bits suffice for 8", ErrTopology, levels)
	}
	k, row := radix/2, 1 // routers of a level
	for range levels - 1 {
		row *= k
	}
	t, err := newTopology(radix, levels*row, row*k, 2*levels-1)
	if err != nil {
		return nil, err
	}
	for p := range t.terminals {
		t.place(p, p/k, p%k)
	}
	// Router w of level l is wired upwards to those of level l+1 whose numbers differ
	// in digit l alone.
	for l, step := 0, 1; l < levels-1; l, step = l+1, step*k {
		for w := range row {
			digit := w / step % k
			for j := range k {
				t.wire(l*row+w, k+j, (l+1)*row+w+(j-digit)*step, digit)
			}
		}
	}
	t.route = func(from, to int) way {
		w, top, step := t.start(), 0, k
		for from/step != to/step { // up to the first common ancestor
			w.leave(k + to/(step/k)%k) // the receiver chooses: its ways stay apart
			top, step = top+1, step*k
		}
		for ; top >= 0; top-- {
			step /= k
			w.leave(to / step % k)
		}
		return w
	}
	return t, nil
}
