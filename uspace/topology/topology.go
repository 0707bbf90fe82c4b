package topology

import (
	"errors"
	"fmt"
	"math/bits"
)

// Err is wrapped by errors about networks that cannot be built.
var Err = errors.New("topology: impossible Arctic network")

// routeBits is how many route bits a packet has.
const routeBits = 30

// Network describes routers, what their ports are connected to, and the ways between terminals,
// which are the places of cards. It does not change.
type Network struct {
	name      string
	radix     int
	terminals int
	// ends[r*radix+p] is what port p of router r leads to
	ends  []End
	home  []int32 // terminal to router port
	up    []uint8 // see Up; nil: none
	route func(from, to int) Way
	next  func(router, to int) int // see Next; nil: packets carry their ways
	rows  int                      // routers of a column, see Block
}

// End is what a port of a router leads to: nothing, a port of a router, or a terminal.
type End int32

// Unwired is the end of a port by which no packet leaves.
const Unwired End = -1

const terminalBase = 1 << 30

// Terminal returns which terminal it is.
func (e End) Terminal() (terminal int, ok bool) { return int(e - terminalBase), e >= terminalBase }

// Port returns the router and its port, for routers with the given number of ports.
func (e End) Port(radix int) (router, port int, ok bool) {
	return int(e) / radix, int(e) % radix, e >= 0 && e < terminalBase
}

// Way is a sequence of ports, one for each router, as route bits.
type Way struct {
	Bits  uint32 // the port of the first router is the lowest; in a Large network 0
	Hops  int    // how many routers it leads through
	width int    // bits for each; 0: in a Large network
}

// leave adds the port by which the packet leaves the next router.
func (w *Way) leave(port int) {
	if w.width > 0 {
		w.Bits |= uint32(port) << (w.Hops * w.width)
	}
	w.Hops++
}

// Ports returns the ports of the way, one for each router.
func (w Way) Ports() []int {
	ports := make([]int, w.Hops)
	for i := range ports {
		ports[i] = int(w.Bits >> (i * w.width) & (1<<w.width - 1))
	}
	return ports
}

// String returns what the network is, such as "hypercube".
func (n *Network) String() string { return n.name }

// Radix returns how many ports a router has: 4 or 8, in a Large network perhaps more.
func (n *Network) Radix() int { return n.radix }

// Width returns how many route bits name a port of a router.
func (n *Network) Width() int { return bits.Len(uint(n.radix - 1)) }

// Terminals returns how many cards the network has places for.
func (n *Network) Terminals() int { return n.terminals }

// Routers returns how many routers it has.
func (n *Network) Routers() int { return len(n.ends) / n.radix }

// End returns what a port of a router leads to.
func (n *Network) End(router, port int) End { return n.ends[router*n.radix+port] }

// Wire returns the far end of the wire at a port, whichever way packets use it. It returns false
// for a port without a wire, and for one that leads to a terminal.
func (n *Network) Wire(router, port int) (far, at int, ok bool) {
	if far, at, ok = n.End(router, port).Port(n.radix); ok || n.End(router, port) != Unwired {
		return far, at, ok
	}
	for i, e := range n.ends {
		if e == End(router*n.radix+port) {
			return i / n.radix, i % n.radix, true
		}
	}
	return 0, 0, false
}

// Up returns, as bits, the ports of a router that all lead to the same terminals. A packet may
// leave by any of them, and its further ports are as before. Only a fat tree has such ports.
func (n *Network) Up(router int) uint8 {
	if n.up == nil {
		return 0
	}
	return n.up[router]
}

// Home returns the router of a terminal, and the port there.
func (n *Network) Home(terminal int) (router, port int) {
	at := int(n.home[terminal])
	return at / n.radix, at % n.radix
}

// Way returns the way from one terminal to another.
func (n *Network) Way(from, to int) Way { return n.route(from, to) }

// Next returns the port by which a packet for a terminal leaves a router of a Large network.
func (n *Network) Next(router, to int) int { return n.next(router, to) }

// Carried reports whether packets carry their ways, as route bits. In a Large network they carry
// their destination, and each router decides by it (Next).
func (n *Network) Carried() bool { return n.next == nil }

// Block returns the number, from 0, of the part of the network that a router belongs to when the
// network is split in the given number of parts. All ways between the terminals of a part that are
// next to each other stay inside the part, as far as the network allows it.
func (n *Network) Block(router, parts int) int { return router % n.rows * parts / n.rows }

// Rows returns how many routers have terminals. It is the highest number of parts for Block.
func (n *Network) Rows() int { return n.rows }

// start returns a way that leads nowhere yet.
func (n *Network) start() Way {
	if n.next != nil {
		return Way{}
	}
	return Way{width: n.Width()}
}

// fits returns an error if packets on routers of the given number of ports cannot carry ways of
// that many hops.
func fits(radix, hops int) error {
	if radix != 4 && radix != 8 {
		return fmt.Errorf("%w: routers of %d ports; Arctic routers have 4 or 8", Err, radix)
	}
	if need := hops * bits.Len(uint(radix-1)); need > routeBits {
		return fmt.Errorf("%w: the longest way takes %d route bits of %d; use fewer routers or routers of 8 ports",
			Err, need, routeBits)
	}
	return nil
}

// newNetwork returns a network of columns of routers, without wires.
func newNetwork(name string, radix, columns, rows, terminals int) *Network {
	n := &Network{name: name, radix: radix, terminals: terminals, ends: make([]End, columns*rows*radix),
		home: make([]int32, terminals), rows: rows}
	for i := range n.ends {
		n.ends[i] = Unwired
	}
	return n
}

// place wires a terminal to a port of a router.
func (n *Network) place(terminal, router, port int) {
	at := router*n.radix + port
	n.home[terminal] = int32(at)
	n.ends[at] = End(terminalBase + terminal)
}

// wire wires two ports together.
func (n *Network) wire(ra, pa, rb, pb int) {
	n.lead(ra, pa, rb, pb)
	n.lead(rb, pb, ra, pa)
}

// lead wires port pa to pb, for packets in that direction alone.
func (n *Network) lead(ra, pa, rb, pb int) { n.ends[ra*n.radix+pa] = End(rb*n.radix + pb) }

// Star returns one router of 4 or 8 ports, with the given number of terminals.
func Star(terminals int) (*Network, error) {
	radix := 4
	if terminals > radix {
		radix = 8
	}
	if terminals > radix {
		return nil, fmt.Errorf("%w: a star of %d cards; its router has %d ports", Err, terminals, radix)
	}
	n, err := Hypercube(radix, 0, terminals)
	if err == nil {
		n.name = "star"
	}
	return n, err
}

// Hypercube returns 2^dimensions routers, each with the given number of terminals. A packet
// corrects one dimension after the other, which keeps the ways free of cycles. Dimensions and
// terminals of a router together must not exceed its ports.
func Hypercube(radix, dimensions, each int) (*Network, error) {
	if dimensions < 0 || each < 1 || dimensions+each > radix {
		return nil,
			fmt.Errorf("%w: hypercube of %d dimensions and %d cards a router of %d ports; together they are at most the ports",
				Err, dimensions, each, radix)
	}
	if err := fits(radix, dimensions+1); err != nil {
		return nil, err
	}
	return hypercube(radix, dimensions, each), nil
}

func hypercube(radix, dimensions, each int) *Network {
	n := 1 << dimensions
	t := newNetwork("hypercube", radix, 1, n, n*each)
	for r := range n {
		for d := range dimensions {
			t.wire(r, d, r^1<<d, d)
		}
		for k := range each {
			t.place(r*each+k, r, dimensions+k)
		}
	}
	t.route = func(from, to int) Way {
		w := t.start()
		for diff := uint(from/each ^ to/each); diff != 0; diff &= diff - 1 {
			w.leave(bits.TrailingZeros(diff))
		}
		w.leave(dimensions + to%each)
		return w
	}
	return t
}

// FatTree returns a k-ary tree for k^levels terminals. Each level has routers with k = radix/2
// ports down and as many up, so every level has the same bandwidth.
func FatTree(radix, levels int) (*Network, error) {
	if levels < 1 {
		return nil, fmt.Errorf("%w: fat tree of %d levels; use at least 1", Err, levels)
	}
	if levels > 15 {
		return nil, fmt.Errorf("%w: fat tree of %d levels; route bits suffice for 8", Err, levels)
	}
	if err := fits(radix, 2*levels-1); err != nil {
		return nil, err
	}
	return fatTree(radix, levels), nil
}

func fatTree(radix, levels int) *Network {
	k, row := radix/2, 1 // routers of a level
	for range levels - 1 {
		row *= k
	}
	t := newNetwork("fat tree", radix, levels, row, row*k)
	for p := range t.terminals {
		t.place(p, p/k, p%k)
	}
	// Router w of level l is wired upwards to those of level l+1 whose numbers differ
	// in digit l alone.
	t.up = make([]uint8, levels*row)
	for l, step := 0, 1; l < levels-1; l, step = l+1, step*k {
		for w := range row {
			t.up[l*row+w] = 1<<radix - 1<<k
			digit := w / step % k
			for j := range k {
				t.wire(l*row+w, k+j, (l+1)*row+w+(j-digit)*step, digit)
			}
		}
	}
	t.route = func(from, to int) Way {
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
	return t
}

// Butterfly returns 2^dimensions rows of routers of 8 ports, in as many columns as dimensions, each
// router of the first column with the given number of terminals, at most 4. A packet goes once
// through all columns and back to the first, and each corrects one bit of the row. So every way
// between two routers is of the same length, and packets use each wire in one direction alone.
func Butterfly(dimensions, each int) (*Network, error) {
	const most = butterflyRadix - butterflyTerminal
	if dimensions < 2 || dimensions > 9 || each < 1 || each > most {
		return nil, fmt.Errorf("%w: butterfly of %d dimensions and %d cards a router; use 2 to 9, and 1 to %d", Err,
			dimensions, each, most)
	}
	return butterfly(dimensions, each), nil
}

// The ports of a router of a butterfly, and the first ones that packets come in by, and of
// terminals.
const butterflyRadix, butterflyIn, butterflyTerminal = 8, 2, 4

func butterfly(dimensions, each int) *Network {
	const in, terminal = butterflyIn, butterflyTerminal
	rows := 1 << dimensions
	t := newNetwork("butterfly", butterflyRadix, dimensions, rows, rows*each)
	for w := range rows {
		for k := range each {
			t.place(w*each+k, w, terminal+k)
		}
		for l := range dimensions {
			for bit := range 2 {
				to := w&^(1<<l) | bit<<l
				t.lead(l*rows+w, bit, (l+1)%dimensions*rows+to, in+w>>l&1)
			}
		}
	}
	t.route = func(from, to int) Way {
		w := t.start()
		if from/each != to/each {
			for l := range dimensions {
				w.leave(to / each >> l & 1)
			}
		}
		w.leave(terminal + to%each)
		return w
	}
	return t
}
